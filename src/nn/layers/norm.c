/* Layer and RMS normalisation over the last axis, group and instance normalisation of channels; weights have PyTorch's
 * names. */
#include <haul/channels.h>
#include <haul/ops.h>
#include <haul/scope.h>

#include "core/error.h"
#include "core/scope.h"
#include "core/tensor.h"
#include "nn/module.h"

typedef struct norm {
    double  eps;
    bool    weight, bias;
    int64_t groups; /* of group normalisation */
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

static haul_tensor *group_norm(haul_module *m, haul_args *args)
{
    const norm *s = haul_module_state(m);
    return haul_group_norm(args->x[0], s->groups, .weight = parameter(m, "weight", s->weight),
                           .bias = parameter(m, "bias", s->bias), .eps = s->eps);
}

static haul_tensor *instance_norm(haul_module *m, haul_args *args)
{
    const norm *s = haul_module_state(m);
    return haul_instance_norm(args->x[0], .weight = parameter(m, "weight", s->weight),
                              .bias = parameter(m, "bias", s->bias), .eps = s->eps);
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

/* argument: the name of `features` in errors. */
static haul_module *make(const char *kind, const char *name, haul_forward *forward, int64_t features,
                         const char *argument, norm s)
{
    if (haul__module_size(features, name, argument))
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
    return make("layer_norm", "haul_nn_layer_norm", layer_norm, o->features, "features", s);
}

haul_module *haul_nn_rms_norm_with(const haul_nn_rms_norm_options *o)
{
    if (!o) {
        haul__fail_null("haul_nn_rms_norm", "options");
        return NULL;
    }
    return make("rms_norm", "haul_nn_rms_norm", rms_norm, o->features, "features",
                (norm){o->eps, .weight = !o->no_weight});
}

haul_module *haul_nn_group_norm_with(int64_t groups, const haul_nn_group_norm_options *o)
{
    static const char name[] = "haul_nn_group_norm";
    if (!o) {
        haul__fail_null(name, "options");
        return NULL;
    }
    if (haul__module_size(groups, name, "groups") || haul__module_size(o->channels, name, "channels"))
        return NULL;
    if (o->channels % groups) {
        haul__fail(HAUL_INVALID_ARGUMENT, name, "groups", "%lld channels cannot be divided among %lld groups",
                   (long long)o->channels, (long long)groups);
        return NULL;
    }
    norm s = {o->eps, .weight = !o->no_weight, .bias = !o->no_weight, .groups = groups};
    return make("group_norm", name, group_norm, o->channels, "channels", s);
}

haul_module *haul_nn_instance_norm_with(const haul_nn_instance_norm_options *o)
{
    if (!o) {
        haul__fail_null("haul_nn_instance_norm", "options");
        return NULL;
    }
    norm s = {o->eps, .weight = o->affine, .bias = o->affine};
    return make("instance_norm", "haul_nn_instance_norm", instance_norm, o->channels, "channels", s);
}
