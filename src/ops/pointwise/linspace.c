/* Evenly spaced numbers. The first half is counted from the first number, the second half from the last, so that both
 * ends are exact. */
#include "ops/pointwise/linspace.h"

#include <math.h>

#include "base/assert.h"
#include "kernels/kernels.h"
#include "kernels/types.h"

// clang-format off
/* kernel text begins */
typedef struct linspace_params {
    I64 items;
    I64 at[3]; /* offsets of the result, low and high */
    U64 start, stop;
} linspace_params;

#if defined(HAUL_KERNEL) && IS_FLOAT
FUNC A linspace_at(A start, A stop, I64 i, I64 n)
{
    const A step = n > 1 ? (stop - start) / (A)(n - 1) : LIT(0.0);
    return 2 * i < n ? start + step * (A)i : stop - step * (A)(n - 1 - i);
}

KERNEL1(linspace, linspace_params, T, y)
{
    FOR_ITEMS(i) STORE(y, p.at[0] + i, linspace_at(SCALAR(p.start), SCALAR(p.stop), i, p.items));
}

KERNEL3(even_edges, linspace_params, T, y, const T, low, const T, high)
{
    FOR_ITEMS(i) {
        const A a = LOAD(low, p.at[1]), b = LOAD(high, p.at[2]), more = a == b ? LIT(1.0) : LIT(0.0);
        STORE(y, p.at[0] + i, linspace_at(a - more, b + more, i, p.items));
    }
}
#endif
/* kernel text ends */
// clang-format on

enum { GRAIN = 16384 };

typedef struct linspace_attributes {
    haul_device *device; /* NULL becomes the thread's current device */
    haul_dtype   dtype;
    int          reserved;
    double       start, stop;
    int64_t      count;
} linspace_attributes;

static haul_status infer(haul__call *c)
{
    linspace_attributes *a = haul__attributes(c);
    const char          *name = c->operation->name;
    if (!haul_dtype_is_float(a->dtype))
        return haul__fail(HAUL_DTYPE, name, "dtype", "%s holds no fractions; use a floating dtype and haul_cast",
                          haul_dtype_name(a->dtype));
    if (a->count < 0)
        return haul__fail(HAUL_INVALID_ARGUMENT, name, "count", "count is %lld; it must not be negative",
                          (long long)a->count);
    if (!isfinite(a->start) || !isfinite(a->stop))
        return haul__fail(HAUL_INVALID_ARGUMENT, name, "start", "start is %g and stop is %g; both must be finite",
                          a->start, a->stop);
    if (!a->device)
        a->device = haul__device_current(name);
    c->device = a->device;
    if (!a->device || haul__device_check(a->device, name, "device"))
        return haul_error_status();
    return haul__describe(c, 0, a->dtype, &HAUL_SHAPE(a->count));
}

static haul_status compute(haul__call *c)
{
    const linspace_attributes *a = haul__attributes(c);
    const haul_tensor         *y = c->results[0];
    HAUL__ASSERT(y->count == a->count && y->contiguous);
    linspace_params p = {.items = y->count, .at = {y->offset}};
    p.start = haul__scalar_bits(y->dtype, a->start);
    p.stop = haul__scalar_bits(y->dtype, a->stop);
    return haul__launch_kernel(c, HAUL__K_linspace, y->dtype, .outs = c->results, .out_count = 1, HAUL__PARAMS(p),
                               .grain = GRAIN);
}

HAUL__OPERATION(linspace) = {
    .name = "haul_linspace",
    .results = {{"y"}},
    .dtypes = HAUL__FLOATS,
    .attributes_size = HAUL__ATTRIBUTES(linspace_attributes),
    .infer = infer,
    .compute = compute,
    .flops = 2,
};

haul_tensor *haul__linspace_on(haul_device *device, haul_dtype dtype, double start, double stop, int64_t count)
{
    const linspace_attributes a = {.device = device, .dtype = dtype, .start = start, .stop = stop, .count = count};
    return haul__apply1(&haul__operation_linspace, &a, NULL, 0);
}

haul_tensor *haul_linspace(haul_dtype dtype, double start, double stop, int64_t count)
{
    return haul__linspace_on(NULL, dtype, start, stop, count);
}

/* ---- between two tensors ---- */

typedef struct edges_attributes {
    int64_t count;
} edges_attributes;

static haul_status edges_infer(haul__call *c)
{
    return haul__describe(c, 0, c->operands[0]->dtype,
                          &HAUL_SHAPE(((const edges_attributes *)haul__attributes(c))->count));
}

static haul_status edges_compute(haul__call *c)
{
    haul_tensor *y = c->results[0], *low = c->operands[0], *high = c->operands[1];
    HAUL__ASSERT(low->count == 1 && high->count == 1 && y->contiguous);
    linspace_params p = {.items = y->count, .at = {y->offset, low->offset, high->offset}};
    return haul__launch_kernel(c, HAUL__K_even_edges, y->dtype, HAUL__OUT(y), HAUL__IN(low, high), HAUL__PARAMS(p),
                               .grain = GRAIN);
}

HAUL__OPERATION(even_edges) = {
    .name = "haul_even_edges",
    .operands = {{"low"}, {"high"}},
    .results = {{"y"}},
    .dtypes = HAUL__FLOATS,
    .rule = HAUL__FLOATED,
    .not_recorded = true,
    .attributes_size = HAUL__ATTRIBUTES(edges_attributes),
    .infer = edges_infer,
    .compute = edges_compute,
    .flops = 2,
};

haul_tensor *haul__even_edges(haul_tensor *low, haul_tensor *high, int64_t count)
{
    return HAUL__APPLY(even_edges, &(edges_attributes){count}, low, high);
}
