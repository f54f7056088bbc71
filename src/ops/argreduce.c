/* Where the largest and smallest elements are. An output is one work item: it finds the extremum first, in SUM_LANES
 * lanes where the axis is dense, then the first element that equals it. */
#include "engine/dispatch.h"
#include "kernels/types.h"

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
/* Where output i's row begins. */
#define ARGREDUCE_AT                                                                                                   \
    I64 at = p.x_offset, rest = i;                                                                                     \
    for (int d = p.ndim - 1; d >= 0; d--) {                                                                            \
        const I64 next = QUOTIENT(rest, p.dims[d]);                                                                    \
        at += (rest - next * p.dims[d]) * p.strides[d];                                                                \
        rest = next;                                                                                                   \
    }                                                                                                                  \
    GLOBAL const T *v = x + at;

#define ARGREDUCE_ROWS(name, STEP)                                                                                     \
    KERNEL2(name, argreduce_params, I64, out, const T, x)                                                              \
    {                                                                                                                  \
        const I64 n = p.length, whole = n - n % SUM_LANES;                                                             \
        FOR_ROWS(i)                                                                                                    \
        {                                                                                                              \
            ARGREDUCE_AT                                                                                               \
            LANE_VALUES(A, s);                                                                                         \
            EACH_LANE(l, SUM_LANES) OF_LANE(s, l) = LOAD(v, 0);                                                        \
            for (I64 j = 0; j < whole; j += SUM_LANES)                                                                 \
                EACH_LANE(l, SUM_LANES) OF_LANE(s, l) = STEP(OF_LANE(s, l), LOAD(v, j + l));                           \
            EACH_LANE(l, n - whole) OF_LANE(s, l) = STEP(OF_LANE(s, l), LOAD(v, whole + l));                           \
            LANE_TREE(A, s, STEP)                                                                                      \
            const A best = OF_FIRST_LANE(s);                                                                           \
            FIND_IN_ROW(found, j, n, ARGREDUCE_SAME(LOAD(v, j), best))                                                 \
            if (IS_FIRST_LANE) out[p.out_offset + i] = found;                                                          \
        }                                                                                                              \
    }

#define ARGREDUCE_COLUMNS(name, STEP)                                                                                  \
    KERNEL2(name, argreduce_params, I64, out, const T, x)                                                              \
    {                                                                                                                  \
        FOR_ITEMS(i)                                                                                                   \
        {                                                                                                              \
            ARGREDUCE_AT                                                                                               \
            A best = LOAD(v, 0);                                                                                       \
            I64 found = 0;                                                                                             \
            for (I64 j = 1; j < p.length; j++) best = STEP(best, LOAD(v, j * p.stride));                               \
            while (found < p.length - 1 && !ARGREDUCE_SAME(LOAD(v, found * p.stride), best)) found++;                  \
            out[p.out_offset + i] = found;                                                                             \
        }                                                                                                              \
    }

#if IS_FLOAT
#define ARGREDUCE_SAME(a, b) ((a) == (b) || ((a) != (a) && (b) != (b)))
#else
#define ARGREDUCE_SAME(a, b) ((a) == (b))
#endif
ARGREDUCE_ROWS(argmax,            M_MAX)
ARGREDUCE_COLUMNS(argmax_columns, M_MAX)
ARGREDUCE_ROWS(argmin,            M_MIN)
ARGREDUCE_COLUMNS(argmin_columns, M_MIN)
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

/* Elements of a row that are not worth lanes. */
enum { FEW = 16 };

/* `kernel` is the one for dense rows; behind it comes that for others. */
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
    if (p.stride != 1 || p.length <= FEW)
        kernel++;
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
