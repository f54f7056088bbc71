/* Pooling by the maximum that also gives the places of the elements, and its opposite: elements go to their places in
 * planes of zeros. */
#include <haul/volume.h>

#include "base/assert.h"
#include "base/numbers.h"
#include "ops/index/index.h"
#include "ops/pool/pool2d.h"

haul_status haul__apply_windows(const haul__operation *operation, const void *attributes, haul_tensor *x,
                                haul_tensor **y, haul_tensor **indices)
{
    if (attributes)
        return haul__apply_pair(operation, attributes, x, y, indices);
    if (y)
        *y = haul__failed_tensor();
    if (indices)
        *indices = haul__failed_tensor();
    return haul__fail_null(operation->name, "options");
}

/* ---- with places ---- */

static haul_status max_pool2d_indices(haul__call *c)
{
    haul_tensor *made[HAUL__MAX_RESULTS];
    if (haul__apply(&haul__operation_max_pool2d_found, haul__attributes(c), c->operands, 1, made))
        return haul_error_status();
    c->results[0] = made[0];
    c->results[1] = haul_cast(made[1], HAUL_I64);
    return haul__failed(c->results[1]) ? haul_error_status() : HAUL_OK;
}

HAUL__OPERATION(max_pool2d_indices) = {
    .name = "haul_max_pool2d_indices",
    .operands = {{"x"}},
    .results = {{"y"}, {"indices"}},
    .dtypes = HAUL__FLOATS,
    .attributes_size = HAUL__ATTRIBUTES(haul__pool2d_attributes),
    .compose = max_pool2d_indices,
};

haul_status haul_max_pool2d_indices_with(haul_tensor *x, haul_tensor **y, haul_tensor **indices,
                                         const haul_pool2d_options *o)
{
    haul__pool2d_attributes a = o ? haul__pool2d_attributes_of(o) : (haul__pool2d_attributes){.divisor = 0};
    return haul__apply_windows(&haul__operation_max_pool2d_indices, o ? &a : NULL, x, y, indices);
}

/* ---- back to their places ---- */

typedef struct unpool_attributes {
    int64_t out[3]; /* as many as x has axes behind its channels */
} unpool_attributes;

enum { X, INDICES };

static haul_status unpool(haul__call *c, int axes, const char *wanted, const char *const names[])
{
    const int64_t    *out = ((const unpool_attributes *)haul__attributes(c))->out;
    haul_tensor      *x = c->operands[X], *indices = c->operands[INDICES];
    const haul_shape *of = &x->shape;
    int64_t           places = 1, elements = 1;
    if (of->ndim != axes + 2)
        return haul__refuse_shape(c, X, wanted);
    if (!haul__shape_equal(of, &indices->shape))
        return haul__refuse_shape(c, INDICES, "it must have the shape of x");
    haul_shape shape = *of;
    HAUL__ASSERT(0 < axes && axes <= 3);
    for (int i = 0; i < axes; i++) {
        if (out[i] < 1 || !haul__mul_size(places, out[i], &places) || places > INT32_MAX)
            return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, names[i],
                              "%s is %lld; it must be at least 1, and the product of the sizes less than 2^31",
                              names[i], (long long)out[i]);
        elements *= of->dims[2 + i]; /* no overflow: x has them */
        shape.dims[2 + i] = out[i];
    }
    const haul_shape lines = HAUL_SHAPE(of->dims[0], of->dims[1], elements);
    if (haul_set_device(c->device)) /* until the call ends */
        return haul_error_status();
    haul_tensor *zeros = haul_zeros(x->dtype, HAUL_SHAPE(of->dims[0], of->dims[1], places));
    haul_tensor *y = haul_scatter(zeros, 2, haul_reshape(indices, lines), haul_reshape(x, lines));
    c->results[0] = haul_reshape(y, shape);
    return haul__failed(c->results[0]) ? haul_error_status() : HAUL_OK;
}

static const char *const line_names[] = {"length"}, *const plane_names[] = {"height", "width"},
                         *const volume_names[] = {"depth", "height", "width"};

static haul_status max_unpool1d(haul__call *c)
{
    return unpool(c, 1, "it must be [N, C, L]", line_names);
}

static haul_status max_unpool2d(haul__call *c)
{
    return unpool(c, 2, "it must be [N, C, H, W]", plane_names);
}

static haul_status max_unpool3d(haul__call *c)
{
    return unpool(c, 3, "it must be [N, C, D, H, W]", volume_names);
}

#define UNPOOLING                                                                                                      \
    .operands = {{"x"}, {"indices", .accepts = HAUL__INTEGERS}}, .results = {{"y"}},                                   \
    .attributes_size = HAUL__ATTRIBUTES(unpool_attributes)

HAUL__OPERATION(max_unpool1d) = {.name = "haul_max_unpool1d", UNPOOLING, .compose = max_unpool1d};
HAUL__OPERATION(max_unpool2d) = {.name = "haul_max_unpool2d", UNPOOLING, .compose = max_unpool2d};
HAUL__OPERATION(max_unpool3d) = {.name = "haul_max_unpool3d", UNPOOLING, .compose = max_unpool3d};

haul_tensor *haul_max_unpool1d(haul_tensor *x, haul_tensor *indices, int64_t length)
{
    return HAUL__APPLY(max_unpool1d, (&(unpool_attributes){{length}}), x, indices);
}

haul_tensor *haul_max_unpool2d(haul_tensor *x, haul_tensor *indices, int64_t height, int64_t width)
{
    return HAUL__APPLY(max_unpool2d, (&(unpool_attributes){{height, width}}), x, indices);
}

haul_tensor *haul_max_unpool3d(haul_tensor *x, haul_tensor *indices, int64_t depth, int64_t height, int64_t width)
{
    return HAUL__APPLY(max_unpool3d, (&(unpool_attributes){{depth, height, width}}), x, indices);
}
