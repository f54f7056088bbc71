/* Layer normalisation over the last dimension; weight and bias are those of PyTorch's LayerNorm. */
#include <haul/ops.h>
#include <haul/scope.h>

#include "core/error.h"
#include "core/tensor.h"
#include "nn/module.h"

typedef struct layer_norm {
    double eps;
} layer_norm;

static haul_tensor *forward(haul_module *m, haul_args *args)
{
    return haul_layer_norm(args->x[0], haul_module_parameter(m, "weight"), .bias = haul_module_parameter(m, "bias"),
                           .eps = ((const layer_norm *)haul_module_state(m))->eps);
}

haul_module *haul_nn_layer_norm_with(const haul_nn_layer_norm_options *options)
{
    static const char operation[] = "haul_nn_layer_norm";

    if (!options) {
        haul__fail_null(operation, "options");
        return NULL;
    }
    if (haul__module_size(options->features, operation, "features"))
        return NULL;
    haul_module *m = haul_module_new("layer_norm", forward, .state_bytes = sizeof(layer_norm));
    haul_scope  *scope = m ? haul_scope_push() : NULL;
    if (!scope)
        return NULL;
    *(layer_norm *)haul_module_state(m) = (layer_norm){options->eps};
    haul_tensor *weight = haul_ones(HAUL_F32, HAUL_SHAPE(options->features));
    haul_status  status = haul__failed(weight) ? haul_error_status() : haul_module_add_parameter(m, "weight", weight);
    haul_tensor *bias = status ? NULL : haul_zeros(HAUL_F32, HAUL_SHAPE(options->features));
    if (!status)
        status = haul__failed(bias) ? haul_error_status() : haul_module_add_parameter(m, "bias", bias);
    return haul__module_built(m, scope, status, operation);
}
