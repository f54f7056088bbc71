/* Making tensors: uninitialised, filled with a value, or counting up. */
#include <math.h>

#include "engine/dispatch.h"
#include "kernels/types.h"

// clang-format off
/* kernel text begins */
typedef struct arange_params {
    I64 items, out_offset;
    U64 start, step;
} arange_params;

#ifdef HAUL_KERNEL
KERNEL1(arange, arange_params, T, out)
{
    const A start = SCALAR(p.start), step = SCALAR(p.step);
    FOR_ITEMS(i) STORE(out, p.out_offset + i, start + (A)i * step);
}
#endif
/* kernel text ends */
// clang-format on

static haul_tensor *make(const char *operation, haul_dtype dtype, const haul_shape *shape)
{
    haul_device *device = haul__device_current(operation);
    return device ? haul__result(operation, device, dtype, shape) : NULL;
}

/* t with every element set, as version 0: nobody has seen it before. NULL keeps the error. */
static haul_tensor *filled(haul_tensor *t, double value)
{
    if (!t || (value == 0 ? haul_zero_into(t) : haul_fill_into(t, value)))
        return NULL;
    atomic_store_explicit(&t->storage->version, 0, memory_order_relaxed);
    return t;
}

haul_tensor *haul_empty(haul_dtype dtype, haul_shape shape)
{
    return make("haul_empty", dtype, &shape);
}

haul_tensor *haul_zeros(haul_dtype dtype, haul_shape shape)
{
    return filled(make("haul_zeros", dtype, &shape), 0);
}

haul_tensor *haul_ones(haul_dtype dtype, haul_shape shape)
{
    return filled(make("haul_ones", dtype, &shape), 1);
}

haul_tensor *haul_full(haul_dtype dtype, haul_shape shape, double value)
{
    return filled(make("haul_full", dtype, &shape), value);
}

haul_tensor *haul_scalar(double value)
{
    return filled(make("haul_scalar", HAUL_F32, &HAUL_SCALAR_SHAPE), value);
}

/* ---- like another tensor: its shape, dtype and device ---- */

static haul_tensor *make_like(const char *operation, haul_tensor *x)
{
    haul_device *device = haul__place(operation, &x, (const char *const[]){"x"}, 1);
    return device ? haul__result_like(operation, device, x->dtype, &x->shape, x) : NULL;
}

haul_tensor *haul_zeros_like(haul_tensor *x)
{
    return filled(make_like("haul_zeros_like", x), 0);
}

haul_tensor *haul_ones_like(haul_tensor *x)
{
    return filled(make_like("haul_ones_like", x), 1);
}

haul_tensor *haul_full_like(haul_tensor *x, double value)
{
    return filled(make_like("haul_full_like", x), value);
}

haul_tensor *haul_empty_like(haul_tensor *x)
{
    return make_like("haul_empty_like", x);
}

/* ---- arange ---- */

static haul_status check_arange(haul_dtype dtype, double start, double stop, double step, int64_t *count)
{
    const char *operation = "haul_arange";
    double      n = ceil((stop - start) / step);
    bool        whole = floor(start) == start && floor(step) == step;
    if (step == 0 || !(n < 9e18))
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, step == 0 ? "step" : "stop",
                          "from %g to %g in steps of %g is no finite sequence", start, stop, step);
    if (!haul_dtype_is_float(dtype) && (!haul_dtype_is_integer(dtype) || !whole))
        return haul__fail(HAUL_DTYPE, operation, "dtype",
                          "%s cannot count from %g in steps of %g; use a floating dtype", haul_dtype_name(dtype), start,
                          step);
    *count = n > 0 ? (int64_t)n : 0;
    int64_t least, most;
    double  last = start + ((double)*count - 1) * step;
    haul__dtype_range(dtype, &least, &most);
    if (*count && !haul_dtype_is_float(dtype) &&
        (fmin(start, last) < (double)least || fmax(start, last) > (double)most))
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "stop", "%s does not hold all of %g ... %g",
                          haul_dtype_name(dtype), start, last);
    return HAUL_OK;
}

haul_tensor *haul_arange(haul_dtype dtype, double start, double stop, double step)
{
    int64_t count = 0;
    if (check_arange(dtype, start, stop, step, &count))
        return NULL;
    haul_tensor *y = make("haul_arange", dtype, &HAUL_SHAPE(count));
    if (!y)
        return NULL;
    arange_params p = {.items = count,
                       .out_offset = y->offset,
                       .start = haul__scalar_bits(dtype, start),
                       .step = haul__scalar_bits(dtype, step)};
    if (haul__run("haul_arange", y->storage->device, HAUL__K_arange, dtype, &y, 1, NULL, 0, &p, sizeof p, p.items,
                  16384))
        return NULL;
    return y;
}
