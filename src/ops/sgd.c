/* One step of stochastic gradient descent. The order of roundings is that of torch.optim.SGD, whose steps are several
 * passes: g += decay p; v = momentum v; v += (1 - dampening) g; p += -lr v. */
#include "ops/dispatch.h"
#include "ops/kernel/types.h"
#include "ops/optimizer.h"

/* kernel text begins */
/* Scalars are bits of type A; keep is 1 - dampening. */
typedef struct sgd_params {
    I64 items;
    I64 p_at, v_at, g_at;
    U64 lr, momentum, keep, decay;
    I32 nesterov, first;
} sgd_params;
/* kernel text ends */

#if 0
/* kernel text begins */
KERNEL2(sgd_plain, sgd_params, T, value, const T, grad)
{
    const A lr = SCALAR(p.lr), decay = SCALAR(p.decay);
    FOR_ITEMS(i)
    {
        const A w = LOAD(value, p.p_at + i);
        A g = LOAD(grad, p.g_at + i);
        if (decay != 0) g = g + decay * w;
        STORE(value, p.p_at + i, w - lr * g);
    }
}

KERNEL3(sgd_momentum, sgd_params, T, value, T, velocity, const T, grad)
{
    const A lr = SCALAR(p.lr), momentum = SCALAR(p.momentum), keep = SCALAR(p.keep), decay = SCALAR(p.decay);
    FOR_ITEMS(i)
    {
        const A w = LOAD(value, p.p_at + i);
        A g = LOAD(grad, p.g_at + i);
        if (decay != 0) g = g + decay * w;
        const A v = p.first ? g : momentum * LOAD(velocity, p.v_at + i) + keep * g;
        STORE(velocity, p.v_at + i, v);
        STORE(value, p.p_at + i, w - lr * (p.nesterov ? g + momentum * v : v));
    }
}
/* kernel text ends */
#endif

static int kernel_of(const haul__sgd *s)
{
    return s->momentum != 0 ? HAUL__K_sgd_momentum : HAUL__K_sgd_plain;
}

haul_status haul__sgd_prepare(const haul_tensor *parameter, const haul__sgd *settings)
{
    haul_device *device = parameter->storage->device;

    if (device->backend->no_data)
        return HAUL_OK;
    return haul__kernel_get(device, kernel_of(settings), parameter->dtype) ? HAUL_OK : haul_error_status();
}

haul_status haul__sgd_step(haul_tensor *parameter, haul_tensor *velocity, haul_tensor *grad, const haul__sgd *settings)
{
    haul_dtype   dtype = parameter->dtype;
    bool         momentum = settings->momentum != 0;
    haul_tensor *outs[] = {parameter, velocity};
    sgd_params   params = {.items = parameter->count,
                           .p_at = parameter->offset,
                           .v_at = momentum ? velocity->offset : 0,
                           .g_at = grad->offset,
                           .lr = haul__scalar_bits(dtype, settings->lr),
                           .momentum = haul__scalar_bits(dtype, settings->momentum),
                           .keep = haul__scalar_bits(dtype, 1 - settings->dampening),
                           .decay = haul__scalar_bits(dtype, settings->weight_decay),
                           .nesterov = settings->nesterov,
                           .first = settings->first};
    haul_status  status = haul__run("haul_sgd", parameter->storage->device, kernel_of(settings), dtype, outs,
                                   momentum ? 2 : 1, &grad, 1, &params, sizeof params, params.items, 16384);

    if (status)
        return status;
    haul__written(parameter);
    if (momentum)
        haul__written(velocity);
    return HAUL_OK;
}
