/* Layer and RMS normalisation over the last axis; weights have PyTorch's names. */
#include <haul/ops.h>
#include <haul/scope.h>

#include "core/error.h"
#include "core/scope.h"
#include "core/tensor.h"
#include "nn/module.h"

typedef struct norm {
    double eps;
    bool   weight, bias;
} norm;

static haul_tensor *parameter(haul_module *m, const char *name, bool has)
{
    return has ? haul_module_parameter(m, name) : HAUL_NONE;
}

static haul_tensor *layer_norm(haul_module *m, haul_args *args)
{
    const norm *s = haul_module_state(m);
    return haul_layer_norm(args->x[0], .weight = parameter(m, "weight", s->weight),
                           .bias = parameter(m, "bias", s->bias), .eps = s->eps);
}

static haul_tensor *rms_norm(haul_module *m, haul_args *args)
{
    const norm *s = haul_module_state(m);
    return haul_rms_norm(args->x[0], .weight = parameter(m, "weight", s->weight), .eps = s->eps);
}

static haul_status add_parameter(haul_module *m, const char *name, haul_tensor *t)
{
    return haul__failed(t) ? haul_error_status() : haul_module_add_parameter(m, name, t);
}

static haul_status add_parameters(haul_module *m, const norm *s, int64_t features)
{
    haul_shape  shape = HAUL_SHAPE(features);
    haul_status status = s->weight ? add_parameter(m, "weight", haul_ones(HAUL_F32, shape)) : HAUL_OK;
    return status || !s->bias ? status : add_parameter(m, "bias", haul_zeros(HAUL_F32, shape));
}

static haul_module *make(const char *kind, const char *name, haul_forward *forward, int64_t features, norm s)
{
    if (haul__module_size(features, name, "features"))
        return NULL;
    if (s.eps < 0 && s.eps != HAUL_ZERO) {
        haul__fail(HAUL_INVALID_ARGUMENT, name, "eps", "eps is %g; 0 or more is expected", s.eps);
        return NULL;
    }
    haul_module *m = haul_module_new(kind, forward, .state_bytes = sizeof(norm));
    haul_scope  *scope = m ? haul__scope_push(NULL) : NULL;
    if (!scope)
        return NULL;
    *(norm *)haul_module_state(m) = s;
    return haul__module_built(m, scope, add_parameters(m, &s, features), name);
}

haul_module *haul_nn_layer_norm_with(const haul_nn_layer_norm_options *o)
{
    if (!o) {
        haul__fail_null("haul_nn_layer_norm", "options");
        return NULL;
    }
    norm s = {o->eps, .weight = !o->no_weight, .bias = !o->no_weight && !o->no_bias};
    return make("layer_norm", "haul_nn_layer_norm", layer_norm, o->features, s);
}

haul_module *haul_nn_rms_norm_with(const haul_nn_rms_norm_options *o)
{
    if (!o) {
        haul__fail_null("haul_nn_rms_norm", "options");
        return NULL;
    }
    return make("rms_norm", "haul_nn_rms_norm", rms_norm, o->features, (norm){o->eps, .weight = !o->no_weight});
}
