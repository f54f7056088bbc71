/* Making tensors: uninitialised, filled with a value, or counting. */
#include <math.h>

#include "base/assert.h"
#include "engine/attribute_shape.h"
#include "engine/copy.h"
#include "engine/operation.h"
#include "kernels/kernels.h"
#include "kernels/types.h"
#include "ops/attributes.h"

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

/* Writes only. */
static haul__cost cost(const haul__call *c)
{
    const haul_tensor *y = c->results[0];
    return (haul__cost){0, y->count * (int64_t)haul__dtype_size(y->dtype)};
}

/* ---- of a shape ---- */

static haul_status choose_device(haul__call *c, haul_device **device)
{
    if (!*device)
        *device = haul__device_current(c->operation->name);
    c->device = *device;
    return *device ? haul__device_check(*device, c->operation->name, "device") : haul_error_status();
}

static haul_status check_value(const haul__call *c, haul_dtype dtype, double value)
{
    return haul__dtype_holds(dtype, value)
               ? HAUL_OK
               : haul__refuse_number(c->operation->name, "value", dtype, value, "choose another dtype");
}

static haul_status infer(haul__call *c)
{
    haul__create_attributes *a = haul__attributes(c);
    const haul_shape         shape = haul__shape_of_attribute(&a->shape);
    if (choose_device(c, &a->device) || haul__describe(c, 0, a->dtype, &shape))
        return haul_error_status();
    return check_value(c, a->dtype, a->value);
}

static haul_status compute(haul__call *c)
{
    return haul__fill_elements(c->results[0], ((const haul__create_attributes *)haul__attributes(c))->value,
                               c->operation->name);
}

HAUL__OPERATION(empty) = {
    .name = "haul_empty",
    .results = {{"y"}},
    .dtypes = HAUL__EVERY,
    .attributes_size = HAUL__ATTRIBUTES(haul__create_attributes),
    .infer = infer,
    .cost = cost,
};

HAUL__OPERATION(zeros) = {
    .name = "haul_zeros",
    .results = {{"y"}},
    .dtypes = HAUL__EVERY,
    .attributes_size = HAUL__ATTRIBUTES(haul__create_attributes),
    .infer = infer,
    .compute = compute,
    .cost = cost,
};

HAUL__OPERATION(ones) = {
    .name = "haul_ones",
    .results = {{"y"}},
    .dtypes = HAUL__EVERY,
    .attributes_size = HAUL__ATTRIBUTES(haul__create_attributes),
    .infer = infer,
    .compute = compute,
    .cost = cost,
};

HAUL__OPERATION(full) = {
    .name = "haul_full",
    .results = {{"y"}},
    .dtypes = HAUL__EVERY,
    .attributes_size = HAUL__ATTRIBUTES(haul__create_attributes),
    .infer = infer,
    .compute = compute,
    .cost = cost,
};

HAUL__OPERATION(scalar) = {
    .name = "haul_scalar",
    .results = {{"y"}},
    .dtypes = HAUL__EVERY,
    .attributes_size = HAUL__ATTRIBUTES(haul__create_attributes),
    .infer = infer,
    .compute = compute,
    .cost = cost,
};

static haul_tensor *create(const haul__operation *operation, haul_dtype dtype, haul_shape shape, double value)
{
    haul__create_attributes a = {.dtype = dtype, .value = value};
    haul__shape_to_attribute(&a.shape, &shape);
    return haul__apply1(operation, &a, NULL, 0);
}

haul_tensor *haul_empty(haul_dtype dtype, haul_shape shape)
{
    return create(&haul__operation_empty, dtype, shape, 0);
}

haul_tensor *haul_zeros(haul_dtype dtype, haul_shape shape)
{
    return create(&haul__operation_zeros, dtype, shape, 0);
}

haul_tensor *haul_ones(haul_dtype dtype, haul_shape shape)
{
    return create(&haul__operation_ones, dtype, shape, 1);
}

haul_tensor *haul_full(haul_dtype dtype, haul_shape shape, double value)
{
    return create(&haul__operation_full, dtype, shape, value);
}

haul_tensor *haul_scalar_with(const haul_scalar_options *o)
{
    if (!o)
        return haul__no_options(&haul__operation_scalar);
    return create(&haul__operation_scalar, o->dtype ? o->dtype : HAUL_F32, HAUL_SCALAR_SHAPE, o->value);
}

/* ---- with another tensor's shape, dtype and device ---- */

static haul_status infer_like(haul__call *c)
{
    const haul_tensor *x = c->operands[0];
    if (c->operation->attributes_size &&
        check_value(c, x->dtype, ((const haul__like_attributes *)haul__attributes(c))->value))
        return haul_error_status();
    return haul__describe_like(c, 0, x->dtype, &x->shape, x);
}

static haul_status compute_like(haul__call *c)
{
    return haul__fill_elements(c->results[0], ((const haul__like_attributes *)haul__attributes(c))->value,
                               c->operation->name);
}

HAUL__OPERATION(empty_like) = {
    .name = "haul_empty_like",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES}},
    .results = {{"y"}},
    .dtypes = HAUL__EVERY,
    .infer = infer_like,
    .cost = cost,
};

HAUL__OPERATION(zeros_like) = {
    .name = "haul_zeros_like",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES}},
    .results = {{"y"}},
    .dtypes = HAUL__EVERY,
    .attributes_size = HAUL__ATTRIBUTES(haul__like_attributes),
    .infer = infer_like,
    .compute = compute_like,
    .cost = cost,
};

HAUL__OPERATION(ones_like) = {
    .name = "haul_ones_like",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES}},
    .results = {{"y"}},
    .dtypes = HAUL__EVERY,
    .attributes_size = HAUL__ATTRIBUTES(haul__like_attributes),
    .infer = infer_like,
    .compute = compute_like,
    .cost = cost,
};

HAUL__OPERATION(full_like) = {
    .name = "haul_full_like",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES}},
    .results = {{"y"}},
    .dtypes = HAUL__EVERY,
    .attributes_size = HAUL__ATTRIBUTES(haul__like_attributes),
    .infer = infer_like,
    .compute = compute_like,
    .cost = cost,
};

haul_tensor *haul_empty_like(haul_tensor *x)
{
    return HAUL__APPLY(empty_like, NULL, x);
}

haul_tensor *haul_zeros_like(haul_tensor *x)
{
    return HAUL__APPLY(zeros_like, &(haul__like_attributes){0}, x);
}

haul_tensor *haul_ones_like(haul_tensor *x)
{
    return HAUL__APPLY(ones_like, &(haul__like_attributes){1}, x);
}

haul_tensor *haul_full_like(haul_tensor *x, double value)
{
    return HAUL__APPLY(full_like, &(haul__like_attributes){value}, x);
}

/* ---- arange ---- */

/* From 2^53 on the caller may have meant a whole number that no double holds. */
static haul_status check_exact(const haul__call *c, const haul__arange_attributes *a)
{
    const double      values[] = {a->start, a->stop, a->step};
    const char *const names[] = {"start", "stop", "step"};
    for (int i = 0; i < 3 && !haul_dtype_is_float(a->dtype); i++)
        if (fabs(values[i]) >= 0x1p53)
            return haul__fail(
                HAUL_INVALID_ARGUMENT, c->operation->name, names[i],
                "%s is %.0f, and doubles cannot represent every whole number from 2^53 on; use haul_arange_i64",
                names[i], values[i]);
    return HAUL_OK;
}

static haul_status count_steps(const haul__call *c, const haul__arange_attributes *a, int64_t *count)
{
    const char *operation = c->operation->name;
    double      n = ceil((a->stop - a->start) / a->step);
    bool        whole = floor(a->start) == a->start && floor(a->step) == a->step;
    if (a->step == 0 || !(n < 9e18))
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, a->step == 0 ? "step" : "stop",
                          "from %g to %g in steps of %g is not a finite sequence", a->start, a->stop, a->step);
    if (!haul_dtype_is_float(a->dtype) && (!haul_dtype_is_integer(a->dtype) || !whole))
        return haul__fail(HAUL_DTYPE, operation, "dtype",
                          "%s cannot count from %g in steps of %g; use a floating dtype", haul_dtype_name(a->dtype),
                          a->start, a->step);
    *count = n > 0 ? (int64_t)n : 0;
    HAUL__ASSERT(*count >= 0);
    int64_t least, most;
    double  last = a->start + ((double)*count - 1) * a->step;
    haul__dtype_range(a->dtype, &least, &most);
    if (*count && !haul_dtype_is_float(a->dtype) &&
        (fmin(a->start, last) < (double)least || fmax(a->start, last) > (double)most))
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "stop", "%s does not hold all of %g ... %g",
                          haul_dtype_name(a->dtype), a->start, last);
    return check_exact(c, a);
}

static haul_status infer_arange(haul__call *c)
{
    haul__arange_attributes *a = haul__attributes(c);
    int64_t                  count = 0;
    if (count_steps(c, a, &count) || choose_device(c, &a->device))
        return haul_error_status();
    return haul__describe(c, 0, a->dtype, &HAUL_SHAPE(count));
}

static haul_status compute_arange(haul__call *c)
{
    const haul__arange_attributes *a = haul__attributes(c);
    const haul_tensor             *y = c->results[0];
    HAUL__ASSERT(y->dtype == a->dtype && y->contiguous);
    arange_params p = {.items = y->count,
                       .out_offset = y->offset,
                       .start = haul__scalar_bits(a->dtype, a->start),
                       .step = haul__scalar_bits(a->dtype, a->step)};
    return haul__launch_kernel(c, HAUL__K_arange, a->dtype, .outs = c->results, .out_count = 1, HAUL__PARAMS(p),
                               .grain = 16384);
}

HAUL__OPERATION(arange) = {
    .name = "haul_arange",
    .results = {{"y"}},
    .dtypes = HAUL__NUMBERS | HAUL__UNSIGNED,
    .attributes_size = HAUL__ATTRIBUTES(haul__arange_attributes),
    .infer = infer_arange,
    .compute = compute_arange,
    .flops = 2,
};

static haul_status infer_arange_i64(haul__call *c)
{
    haul__arange_i64_attributes *a = haul__attributes(c);
    uint64_t                     up = (uint64_t)a->stop - (uint64_t)a->start, step = (uint64_t)a->step, count = 0;
    if (a->step == 0)
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "step", "step is 0; another number is expected");
    if (a->step > 0 && a->stop > a->start)
        count = (up - 1) / step + 1;
    else if (a->step < 0 && a->stop < a->start)
        count = (0 - up - 1) / (0 - step) + 1;
    if (count > INT64_MAX)
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "stop",
                          "from %lld to %lld in steps of %lld are more elements than an axis can have",
                          (long long)a->start, (long long)a->stop, (long long)a->step);
    return choose_device(c, &a->device) ? haul_error_status()
                                        : haul__describe(c, 0, HAUL_I64, &HAUL_SHAPE((int64_t)count));
}

static haul_status compute_arange_i64(haul__call *c)
{
    const haul__arange_i64_attributes *a = haul__attributes(c);
    const haul_tensor                 *y = c->results[0];
    HAUL__ASSERT(y->dtype == HAUL_I64 && y->contiguous);
    arange_params p = {.items = y->count, .out_offset = y->offset, .start = (U64)a->start, .step = (U64)a->step};
    return haul__launch_kernel(c, HAUL__K_arange, HAUL_I64, .outs = c->results, .out_count = 1, HAUL__PARAMS(p),
                               .grain = 16384);
}

HAUL__OPERATION(arange_i64) = {
    .name = "haul_arange_i64",
    .results = {{"y"}},
    .dtypes = HAUL__ONLY(HAUL_I64),
    .attributes_size = HAUL__ATTRIBUTES(haul__arange_i64_attributes),
    .infer = infer_arange_i64,
    .compute = compute_arange_i64,
    .flops = 2,
};

haul_tensor *haul_arange_i64(int64_t start, int64_t stop, int64_t step)
{
    return haul__apply1(&haul__operation_arange_i64, &(haul__arange_i64_attributes){NULL, start, stop, step}, NULL, 0);
}

haul_tensor *haul_arange(haul_dtype dtype, double start, double stop, double step)
{
    const haul__arange_attributes a = {.dtype = dtype, .start = start, .stop = stop, .step = step};
    return haul__apply1(&haul__operation_arange, &a, NULL, 0);
}
