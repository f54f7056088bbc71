/* The device side of parameter averages: updates and exchanges, for several parameters at once. */
#include "optim/averaging.h"

#include "base/assert.h"
#include "engine/operation.h"
#include "kernels/kernels.h"
#include "kernels/types.h"
#include "optim/optimizer.h"

// clang-format off
/* kernel text begins */
typedef struct averaging_params {
    I64 items, a_at, p_at;
    U64 weight; /* bits of type A */
    I32 copies, reserved; /* the weight is 1 */
} averaging_params;

#ifdef HAUL_KERNEL
#if IS_FLOAT
KERNEL2(average_update, averaging_params, T, average, const T, value)
{
    const A weight = SCALAR(p.weight);
    FOR_ITEMS(i) {
        const A a = LOAD(average, p.a_at + i), w = LOAD(value, p.p_at + i);
        STORE(average, p.a_at + i, p.copies ? w : a + weight * (w - a));
    }
}

KERNEL2(average_swap, averaging_params, T, average, T, value)
{
    FOR_ITEMS(i) {
        const A a = LOAD(average, p.a_at + i), w = LOAD(value, p.p_at + i);
        STORE(average, p.a_at + i, w);
        STORE(value, p.p_at + i, a);
    }
}
#endif
#endif
/* kernel text ends */
// clang-format on

enum { AVERAGE, VALUE, OPERANDS };

haul_status haul__averaging_prepare(const haul_tensor *parameter)
{
    haul_device *device = parameter->storage->device;
    if (!haul__device_computes(device))
        return HAUL_OK;
    return haul__kernel_for(device, HAUL__K_average_update, parameter->dtype) &&
                   haul__kernel_for(device, HAUL__K_average_swap, parameter->dtype)
               ? HAUL_OK
               : haul_error_status();
}

static averaging_params params_of(haul_tensor *const *in, double weight)
{
    return (averaging_params){.items = in[AVERAGE]->count,
                              .a_at = in[AVERAGE]->offset,
                              .p_at = in[VALUE]->offset,
                              .weight = haul__scalar_bits(in[AVERAGE]->dtype, weight),
                              .copies = weight == 1};
}

static haul_status update_one(const haul__call *c, haul_tensor *const *in, void *weight)
{
    averaging_params p = params_of(in, *(double *)weight);
    HAUL__ASSERT(in[AVERAGE]->count == in[VALUE]->count);
    return haul__launch_kernel(c, HAUL__K_average_update, in[AVERAGE]->dtype, .outs = in, .out_count = 1,
                               .ins = in + VALUE, .in_count = 1, HAUL__PARAMS(p), .grain = 16384);
}

static haul_status compute_update(haul__call *c)
{
    double weight = *(const double *)haul__attributes(c);
    return haul__step_each(c, update_one, &weight);
}

HAUL__OPERATION(average_update) = {
    .name = "haul_average_update",
    .operands = {{"average", .written = true}, {"parameter", .layout = HAUL__ANY_STRIDES}},
    .dtypes = HAUL__FLOATS,
    .varies = true,
    .attributes_size = HAUL__ATTRIBUTES(double),
    .repeat = OPERANDS,
    .infer = haul__infer_step,
    .compute = compute_update,
    .cost = haul__step_cost,
    .flops = 3,
};

static haul_status exchange_one(const haul__call *c, haul_tensor *const *in, void *unused)
{
    averaging_params p = params_of(in, 0);
    (void)unused;
    return haul__launch_kernel(c, HAUL__K_average_swap, in[AVERAGE]->dtype, .outs = in, .out_count = 2, HAUL__PARAMS(p),
                               .grain = 16384);
}

static haul_status compute_exchange(haul__call *c)
{
    return haul__step_each(c, exchange_one, NULL);
}

HAUL__OPERATION(average_swap) = {
    .name = "haul_average_swap",
    .operands = {{"average", .written = true}, {"parameter", .written = true}},
    .dtypes = HAUL__FLOATS,
    .repeat = OPERANDS,
    .infer = haul__infer_step,
    .compute = compute_exchange,
    .cost = haul__step_cost,
};

static haul_status apply(const haul__operation *operation, const double *weight, const haul__averaged *pairs, int count)
{
    haul_tensor *operands[HAUL__MAX_UPDATES * OPERANDS];
    HAUL__ASSERT(count > 0 && count <= HAUL__MAX_UPDATES);
    for (int i = 0; i < count; i++) {
        operands[OPERANDS * i + AVERAGE] = pairs[i].average;
        operands[OPERANDS * i + VALUE] = pairs[i].parameter;
    }
    return haul__apply(operation, weight, operands, count * OPERANDS, NULL);
}

haul_status haul__average_update(const haul__averaged *pairs, int count, double weight)
{
    return apply(&haul__operation_average_update, &weight, pairs, count);
}

haul_status haul__average_exchange(const haul__averaged *pairs, int count)
{
    return apply(&haul__operation_average_swap, NULL, pairs, count);
}
