/* Batch normalisation with its running statistics as buffers, which have PyTorch's names. */
#include <haul/autograd.h>
#include <haul/ops.h>
#include <haul/scope.h>

#include "base/assert.h"
#include "core/error.h"
#include "core/scope.h"
#include "core/tensor.h"
#include "nn/module.h"

typedef struct batch_norm {
    double momentum, eps;
} batch_norm;

static haul_tensor *forward(haul_module *m, haul_args *args)
{
    const batch_norm *s = haul_module_state(m);
    haul_tensor      *y = haul_batch_norm(
             args->x[0], .weight = haul_module_parameter(m, "weight"), .bias = haul_module_parameter(m, "bias"),
             .running_mean = haul_module_buffer(m, "running_mean"), .running_var = haul_module_buffer(m, "running_var"),
             .training = args->training, .momentum = s->momentum, .eps = s->eps);
    haul_tensor *seen = haul_module_buffer(m, "num_batches_tracked");
    if (!haul__failed(y) && args->training && !haul_recomputing() && haul_add_scalar_into(seen, seen, 1))
        return NULL;
    return y;
}

static haul_status add_tensors(haul_module *m, int64_t channels)
{
    haul_shape   shape = HAUL_SHAPE(channels);
    haul_tensor *weight = haul_ones(HAUL_F32, shape), *bias = haul_zeros(HAUL_F32, shape);
    haul_tensor *mean = haul_zeros(HAUL_F32, shape), *var = haul_ones(HAUL_F32, shape);
    haul_tensor *seen = haul_zeros(HAUL_I64, HAUL_SCALAR_SHAPE);
    if (haul__failed(weight) || haul__failed(bias) || haul__failed(mean) || haul__failed(var) || haul__failed(seen))
        return haul_error_status();
    HAUL__ASSERT(channels > 0);
    haul_status status = haul_module_add_parameter(m, "weight", weight);
    if (!status)
        status = haul_module_add_parameter(m, "bias", bias);
    if (!status)
        status = haul_module_add_buffer(m, "running_mean", mean);
    if (!status)
        status = haul_module_add_buffer(m, "running_var", var);
    if (!status)
        status = haul_module_add_buffer(m, "num_batches_tracked", seen);
    return status;
}

haul_module *haul_nn_batch_norm_with(const haul_nn_batch_norm_options *options)
{
    if (!options) {
        haul__fail_null("haul_nn_batch_norm", "options");
        return NULL;
    }
    if (haul__module_size(options->channels, "haul_nn_batch_norm", "channels"))
        return NULL;
    haul_module *m = haul_module_new("batch_norm", forward, .state_bytes = sizeof(batch_norm));
    haul_scope  *scope = m ? haul__scope_push(NULL) : NULL;
    if (!scope)
        return NULL;
    *(batch_norm *)haul_module_state(m) = (batch_norm){options->momentum, options->eps};
    return haul__module_built(m, scope, add_tensors(m, options->channels), "haul_nn_batch_norm");
}
