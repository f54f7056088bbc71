/* Where the largest and smallest elements are. An output is one work item: it finds the extremum first, in SUM_LANES
 * lanes, then the first element that equals it. */
#include "ops/dispatch.h"
#include "ops/kernel/types.h"

// clang-format off
/* kernel text begins */
typedef struct argreduce_params {
    I64 items; /* outputs: the dims before the axis times those after it */
    I64 out_offset, x_offset;
    I64 length, stride; /* of the axis */
    I64 dims[8], strides[8];
    I32 ndim, reserved;
} argreduce_params;

#ifdef HAUL_KERNEL
#define ARGREDUCE(name, STEP)                                                                                          \
    KERNEL2(name, argreduce_params, I64, out, const T, x)                                                              \
    {                                                                                                                  \
        FOR_ITEMS(i)                                                                                                   \
        {                                                                                                              \
            I64 at = p.x_offset, rest = i, found = 0;                                                                  \
            for (int d = p.ndim - 1; d >= 0; d--) {                                                                    \
                const I64 next = rest / p.dims[d];                                                                     \
                at += (rest - next * p.dims[d]) * p.strides[d];                                                        \
                rest = next;                                                                                           \
            }                                                                                                          \
            GLOBAL const T *v = x + at;                                                                                \
            const I64 whole = p.stride == 1 ? p.length - p.length % SUM_LANES : 0;                                     \
            A best = LOAD(v, 0);                                                                                       \
            if (whole) {                                                                                               \
                A s[SUM_LANES];                                                                                        \
                for (int l = 0; l < SUM_LANES; l++) s[l] = best;                                                       \
                for (I64 j = 0; j < whole; j += SUM_LANES)                                                             \
                    for (int l = 0; l < SUM_LANES; l++) s[l] = STEP(s[l], LOAD(v, j + l));                             \
                for (int l = 0; l < SUM_LANES; l++) best = STEP(best, s[l]);                                           \
            }                                                                                                          \
            for (I64 j = whole; j < p.length; j++) best = STEP(best, LOAD(v, j * p.stride));                           \
            while (found < p.length - 1 && !ARGREDUCE_SAME(LOAD(v, found * p.stride), best)) found++;                  \
            out[p.out_offset + i] = found;                                                                             \
        }                                                                                                              \
    }

#if IS_FLOAT
#define ARGREDUCE_SAME(a, b) ((a) == (b) || ((a) != (a) && (b) != (b)))
#else
#define ARGREDUCE_SAME(a, b) ((a) == (b))
#endif
ARGREDUCE(argmax, M_MAX)
ARGREDUCE(argmin, M_MIN)
#endif
/* kernel text ends */
// clang-format on

static void describe(argreduce_params *p, const haul_tensor *x, const haul_tensor *y, int axis)
{
    *p = (argreduce_params){.items = y->count,
                            .out_offset = y->offset,
                            .x_offset = x->offset,
                            .length = x->shape.dims[axis],
                            .stride = x->strides[axis]};
    for (int d = 0; d < x->shape.ndim; d++) {
        if (d == axis || x->shape.dims[d] == 1)
            continue;
        p->dims[p->ndim] = x->shape.dims[d];
        p->strides[p->ndim++] = x->strides[d];
    }
}

static haul_tensor *argreduce(const char *operation, int kernel, haul_tensor *x, int axis, bool keepdim)
{
    haul_device *device = haul__place(operation, &x, (const char *const[]){"x"}, 1);
    if (!device || haul__axis(axis, x->shape.ndim, operation, &axis))
        return NULL;
    haul_shape shape = {.ndim = 0};
    int64_t    outputs = 1; /* at most a product of dims of x, unless one is 0 */
    for (int d = 0; d < x->shape.ndim; d++) {
        if (d != axis && !haul__mul_size(outputs, x->shape.dims[d], &outputs))
            return NULL;
        if (d != axis || keepdim)
            shape.dims[shape.ndim++] = d == axis ? 1 : x->shape.dims[d];
    }
    if (x->shape.dims[axis] == 0 && outputs > 0) {
        haul__fail_shape(operation, "x", x, "the axis must hold at least one element to choose from");
        return NULL;
    }
    argreduce_params p;
    haul_tensor     *y = haul__result(operation, device, HAUL_I64, &shape);
    if (!y)
        return NULL;
    describe(&p, x, y, axis);
    if (haul__run(operation, device, kernel, x->dtype, &y, 1, &x, 1, &p, sizeof p, p.items, 1 + 32768 / (p.length + 8)))
        return NULL;
    return y;
}

haul_tensor *haul_argmax(haul_tensor *x, int axis, bool keepdim)
{
    return argreduce("haul_argmax", HAUL__K_argmax, x, axis, keepdim);
}

haul_tensor *haul_argmin(haul_tensor *x, int axis, bool keepdim)
{
    return argreduce("haul_argmin", HAUL__K_argmin, x, axis, keepdim);
}
