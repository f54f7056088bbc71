/* 1-d pooling: 2-d pooling of pictures with one row, through views. */
#include "core/option.h"
#include "ops/pool/pool2d.h"

typedef struct pool1d_attributes {
    int64_t size, stride, padding, dilation;
    bool    exclude_padding, ceil_mode;
    bool    reserved[6];
} pool1d_attributes;

/* The options for a window with one row. */
static haul_status check(haul__call *c, haul_pool2d_options *o)
{
    const pool1d_attributes *a = haul__attributes(c);
    int64_t padding = a->padding == HAUL_ZERO ? 0 : a->padding, stride = a->stride ? a->stride : a->size;
    int64_t dilation = a->dilation ? a->dilation : 1;
    if (c->operands[0]->shape.ndim != 3)
        return haul__refuse_shape(c, 0, "it must be [N, C, L]");
    if (a->size < 1 || stride < 1 || a->size > INT32_MAX || stride > INT32_MAX)
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, a->size < 1 ? "size" : "stride",
                          "a window of %lld with stride %lld is not possible; both must be from 1 to 2^31 - 1",
                          (long long)a->size, (long long)(stride == HAUL_ZERO ? 0 : stride));
    if (dilation < 1 || dilation > INT32_MAX)
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "dilation",
                          "dilation %lld is not possible; it must be from 1 to 2^31 - 1",
                          (long long)(dilation == HAUL_ZERO ? 0 : dilation));
    const int64_t window = (a->size - 1) * dilation + 1;
    if (padding < 0 || padding > window / 2)
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "padding",
                          "padding %lld is not possible; it can be from 0 to half the window, which is %lld",
                          (long long)padding, (long long)window);
    if (c->operands[0]->shape.dims[2] + 2 * padding < window)
        return haul__fail(HAUL_SHAPE, c->operation->name, "x",
                          "the window is %lld, but x has %lld with its padding; use a smaller window",
                          (long long)window, (long long)(c->operands[0]->shape.dims[2] + 2 * padding));
    *o = (haul_pool2d_options){.size = 1,
                               .size_w = a->size,
                               .stride = {1, stride},
                               .padding = {HAUL_ZERO, padding ? padding : HAUL_ZERO},
                               .dilation = {1, dilation},
                               .exclude_padding = a->exclude_padding,
                               .ceil_mode = a->ceil_mode};
    return HAUL_OK;
}

#define POOLING(name, name_2d)                                                                                         \
    static haul_status name(haul__call *c)                                                                             \
    {                                                                                                                  \
        haul_pool2d_options o;                                                                                         \
        if (check(c, &o))                                                                                              \
            return haul_error_status();                                                                                \
        c->results[0] = haul_squeeze(haul_##name_2d##_with(haul_unsqueeze(c->operands[0], 2), &o), 2);                 \
        return HAUL_OK;                                                                                                \
    }

POOLING(max_pool1d, max_pool2d)
POOLING(avg_pool1d, avg_pool2d)

static haul_status max_pool1d_indices(haul__call *c)
{
    haul_pool2d_options o;
    haul_tensor        *y, *indices;
    if (check(c, &o) || haul_max_pool2d_indices_with(haul_unsqueeze(c->operands[0], 2), &y, &indices, &o))
        return haul_error_status();
    c->results[0] = haul_squeeze(y, 2);
    c->results[1] = haul_squeeze(indices, 2);
    return HAUL_OK;
}

HAUL__OPERATION(max_pool1d_indices) = {
    .name = "haul_max_pool1d_indices",
    .operands = {{"x"}},
    .results = {{"y"}, {"indices"}},
    .dtypes = HAUL__FLOATS,
    .attributes_size = HAUL__ATTRIBUTES(pool1d_attributes),
    .compose = max_pool1d_indices,
};

HAUL__OPERATION(max_pool1d) = {
    .name = "haul_max_pool1d",
    .operands = {{"x"}},
    .results = {{"y"}},
    .dtypes = HAUL__FLOATS,
    .attributes_size = HAUL__ATTRIBUTES(pool1d_attributes),
    .compose = max_pool1d,
};

HAUL__OPERATION(avg_pool1d) = {
    .name = "haul_avg_pool1d",
    .operands = {{"x"}},
    .results = {{"y"}},
    .dtypes = HAUL__FLOATS,
    .attributes_size = HAUL__ATTRIBUTES(pool1d_attributes),
    .compose = avg_pool1d,
};

static pool1d_attributes attributes_of(const haul_pool1d_options *o)
{
    return (pool1d_attributes){.size = o->size,
                               .stride = o->stride,
                               .padding = o->padding,
                               .dilation = o->dilation,
                               .exclude_padding = o->exclude_padding,
                               .ceil_mode = o->ceil_mode};
}

HAUL__FUNCTION_WITH(max_pool1d, pool1d_attributes, attributes_of(o), (haul_tensor * x, const haul_pool1d_options *o), x)
HAUL__FUNCTION_WITH(avg_pool1d, pool1d_attributes, attributes_of(o), (haul_tensor * x, const haul_pool1d_options *o), x)

haul_status haul_max_pool1d_indices_with(haul_tensor *x, haul_tensor **y, haul_tensor **indices,
                                         const haul_pool1d_options *o)
{
    pool1d_attributes a = o ? attributes_of(o) : (pool1d_attributes){0};
    return haul__apply_windows(&haul__operation_max_pool1d_indices, o ? &a : NULL, x, y, indices);
}
