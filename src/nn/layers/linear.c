/* The dense layer: y = x weight^T + bias, weight [out, in]. */
#include <haul/ops.h>
#include <haul/scope.h>

#include "core/error.h"
#include "core/scope.h"
#include "nn/module.h"

typedef struct linear {
    bool has_bias, relu;
} linear;

static haul_tensor *forward(haul_module *m, haul_args *args)
{
    const linear *s = haul_module_state(m);
    return haul_linear(args->x[0], haul_module_parameter(m, "weight"),
                       .bias = s->has_bias ? haul_module_parameter(m, "bias") : HAUL_NONE, .relu = s->relu);
}

haul_module *haul_nn_linear_with(int64_t in_features, const haul_nn_linear_options *options)
{
    static const char operation[] = "haul_nn_linear";
    if (!options) {
        haul__fail_null(operation, "options");
        return NULL;
    }
    int64_t out = options->out_features;
    if (haul__module_size(in_features, operation, "in_features") || haul__module_size(out, operation, "out_features"))
        return NULL;
    haul_module *m = haul_module_new("linear", forward, .state_bytes = sizeof(linear));
    haul_scope  *scope = m ? haul__scope_push(NULL) : NULL;
    if (!scope)
        return NULL;
    *(linear *)haul_module_state(m) = (linear){.has_bias = !options->no_bias, .relu = options->relu};
    haul_status status = haul__module_draw_parameter(m, "weight", HAUL_SHAPE(out, in_features), in_features);
    if (!status && !options->no_bias)
        status = haul__module_draw_parameter(m, "bias", HAUL_SHAPE(out), in_features);
    return haul__module_built(m, scope, status, operation);
}
