/* Pooling in three dimensions, and adaptive pooling in one and three: 2-d pooling through views. A window is pooled by
 * rows and columns first, then by layers. Of equal elements the first one in memory is the maximum, as in one pass. */
#include <haul/volume.h>

#include "base/assert.h"
#include "ops/pool/pool2d.h"
#include "ops/pool/triple.h"

typedef struct pool3d_attributes {
    int64_t size[3], stride[3], padding[3], dilation[3], divisor;
    bool    exclude_padding, ceil_mode;
    bool    reserved[6];
} pool3d_attributes;

typedef haul_tensor *pool2d(haul_tensor *x, const haul_pool2d_options *o);
typedef haul_tensor *adaptive_pool2d(haul_tensor *x, int64_t height, int64_t width);

/* ---- checks ---- */

static haul_status check_volume(const haul__call *c)
{
    const int64_t *of = c->operands[0]->shape.dims;
    if (c->operands[0]->shape.ndim != 5)
        return haul__refuse_shape(c, 0, "it must be [N, C, D, H, W]");
    if (of[2] == 0 || of[3] == 0 || of[4] == 0)
        return haul__refuse_shape(c, 0, "only its batch and its channels can be empty");
    return HAUL_OK;
}

/* The attributes with defaults in place of 0. */
static haul_status complete(const haul__call *c, const pool3d_attributes *given, pool3d_attributes *a)
{
    static const int64_t zeros[3], ones[3] = {1, 1, 1};
    const char          *name = c->operation->name;
    const int64_t       *of = c->operands[0]->shape.dims + 2;
    *a = *given;
    for (int i = 1; i < 3; i++)
        a->size[i] = given->size[i] ? given->size[i] : given->size[0];
    for (int i = 0; i < 3; i++)
        if (a->size[i] < 1 || a->size[i] > INT32_MAX)
            return haul__fail(
                HAUL_INVALID_ARGUMENT, name, "size",
                "a window of %lld x %lld x %lld elements is not possible; sizes must be from 1 to 2^31 - 1",
                (long long)a->size[0], (long long)a->size[1], (long long)a->size[2]);
    if (haul__option_triple(name, "stride", given->stride, a->size, 1, a->stride) ||
        haul__option_triple(name, "padding", given->padding, zeros, 0, a->padding) ||
        haul__option_triple(name, "dilation", given->dilation, ones, 1, a->dilation))
        return haul_error_status();
    for (int i = 0; i < 3; i++) {
        const int64_t window = (a->size[i] - 1) * a->dilation[i] + 1;
        if (a->padding[i] > window / 2)
            return haul__fail(HAUL_INVALID_ARGUMENT, name, "padding",
                              "padding %lld is not possible; it can be from 0 to half the window, which is %lld",
                              (long long)a->padding[i], (long long)window);
        if (of[i] < window - 2 * a->padding[i])
            return haul__fail(HAUL_SHAPE, name, "x",
                              "the window is %lld x %lld x %lld, but x has %lld x %lld x %lld elements; use a smaller "
                              "window",
                              (long long)a->size[0], (long long)a->size[1], (long long)a->size[2], (long long)of[0],
                              (long long)of[1], (long long)of[2]);
    }
    return HAUL_OK;
}

/* ---- the operations ---- */

/* Those of a pass over planes: windows of `rows` x `columns`, given as the numbers of axes of the volume, or -1 for a
 * window of one column. */
static haul_pool2d_options options_of(const pool3d_attributes *a, int rows, int columns)
{
    HAUL__ASSERT(0 <= rows && rows < 3 && columns < 3);
    HAUL__ASSERT(a->size[rows] > 0 && (columns < 0 || a->size[columns] > 0));
    int64_t padding = columns < 0 ? 0 : a->padding[columns];
    return (haul_pool2d_options){
        .size = a->size[rows],
        .size_w = columns < 0 ? 1 : a->size[columns],
        .stride = {a->stride[rows], columns < 0 ? 1 : a->stride[columns]},
        .padding = {a->padding[rows] ? a->padding[rows] : HAUL_ZERO, padding ? padding : HAUL_ZERO},
        .dilation = {a->dilation[rows], columns < 0 ? 1 : a->dilation[columns]},
        .divisor = !a->divisor   ? 0
                   : columns < 0 ? a->divisor
                                 : 1, /* sums of planes first */
        .exclude_padding = a->exclude_padding,
        .ceil_mode = a->ceil_mode};
}

static haul_tensor *pass(pool2d *pool, haul_tensor *planes, const pool3d_attributes *a, int rows, int columns)
{
    const haul_pool2d_options o = options_of(a, rows, columns);
    return pool(planes, &o);
}

/* The planes of a volume, [N, C D, H, W]. */
static haul_tensor *planes_of(haul_tensor *x)
{
    const int64_t *of = x->shape.dims;
    return haul_reshape(x, HAUL_SHAPE(of[0], of[1] * of[2], of[3], of[4]));
}

/* Pooled planes as pictures whose rows are the layers, [N, C, D, H' W']. */
static haul_tensor *layers_of(const haul_tensor *x, haul_tensor *y)
{
    const int64_t *of = x->shape.dims;
    HAUL__ASSERT(haul__failed(y) || y->shape.dims[1] == of[1] * of[2]);
    return haul__failed(y) ? y : haul_reshape(y, HAUL_SHAPE(of[0], of[1], of[2], y->shape.dims[2] * y->shape.dims[3]));
}

static haul_status give(haul__call *c, int i, haul_tensor *y, int64_t rows, int64_t columns)
{
    HAUL__ASSERT(haul__failed(y) || y->shape.dims[3] == rows * columns);
    if (!haul__failed(y))
        y = haul_reshape(y, HAUL_SHAPE(y->shape.dims[0], y->shape.dims[1], y->shape.dims[2], rows, columns));
    c->results[i] = y;
    return haul__failed(y) ? haul_error_status() : HAUL_OK;
}

static haul_status pooled(haul__call *c, pool2d *pool)
{
    pool3d_attributes a;
    haul_tensor      *x = c->operands[0];
    if (check_volume(c) || complete(c, haul__attributes(c), &a))
        return haul_error_status();
    haul_tensor *planes = pass(pool, planes_of(x), &a, 1, 2);
    if (haul__failed(planes))
        return haul_error_status();
    const int64_t rows = planes->shape.dims[2], columns = planes->shape.dims[3];
    return give(c, 0, pass(pool, layers_of(x, planes), &a, 0, -1), rows, columns);
}

static haul_status max_pool3d(haul__call *c)
{
    return pooled(c, haul_max_pool2d_with);
}

static haul_status avg_pool3d(haul__call *c)
{
    return pooled(c, haul_avg_pool2d_with);
}

#define POOLING                                                                                                        \
    .operands = {{"x"}}, .results = {{"y"}}, .dtypes = HAUL__FLOATS,                                                   \
    .attributes_size = HAUL__ATTRIBUTES(pool3d_attributes)

HAUL__OPERATION(max_pool3d) = {.name = "haul_max_pool3d", POOLING, .compose = max_pool3d};
HAUL__OPERATION(avg_pool3d) = {.name = "haul_avg_pool3d", POOLING, .compose = avg_pool3d};

/* Where the elements are: each pass gives a place in its planes. That of the second one is a layer and an element of a
 * pooled plane, whose own place the first one gave. */
static haul_status max_pool3d_indices(haul__call *c)
{
    pool3d_attributes a;
    haul_tensor      *x = c->operands[0], *planes, *places, *y, *indices;
    if (check_volume(c) || complete(c, haul__attributes(c), &a))
        return haul_error_status();
    const haul_pool2d_options across = options_of(&a, 1, 2), down = options_of(&a, 0, -1);
    if (haul_max_pool2d_indices_with(planes_of(x), &planes, &places, &across) ||
        haul_max_pool2d_indices_with(layers_of(x, planes), &y, &indices, &down))
        return haul_error_status();
    const int64_t  rows = planes->shape.dims[2], columns = planes->shape.dims[3];
    const int64_t *of = x->shape.dims, *to = y->shape.dims;
    HAUL__ASSERT(places->count == of[0] * of[1] * of[2] * rows * columns && indices->count == y->count);
    HAUL__ASSERT(to[3] == rows * columns);
    haul_tensor *layer = haul_mul_scalar(haul_floor_div_scalar(indices, (double)(rows * columns)),
                                         (double)(of[3] * of[4])); /* a plane has less than 2^31 elements */
    haul_tensor *found = haul_gather(haul_reshape(places, HAUL_SHAPE(of[0], of[1], of[2] * rows * columns)), 2,
                                     haul_reshape(indices, HAUL_SHAPE(of[0], of[1], to[2] * to[3])));
    return give(c, 0, y, rows, columns) || give(c, 1, haul_add(haul_reshape(found, y->shape), layer), rows, columns)
               ? haul_error_status()
               : HAUL_OK;
}

HAUL__OPERATION(max_pool3d_indices) = {
    .name = "haul_max_pool3d_indices",
    .operands = {{"x"}},
    .results = {{"y"}, {"indices"}},
    .dtypes = HAUL__FLOATS,
    .attributes_size = HAUL__ATTRIBUTES(pool3d_attributes),
    .compose = max_pool3d_indices,
};

static pool3d_attributes attributes_of(const haul_pool3d_options *o)
{
    return (pool3d_attributes){.size = {o->size, o->size_h, o->size_w},
                               .stride = {o->stride[0], o->stride[1], o->stride[2]},
                               .padding = {o->padding[0], o->padding[1], o->padding[2]},
                               .dilation = {o->dilation[0], o->dilation[1], o->dilation[2]},
                               .divisor = o->divisor,
                               .exclude_padding = o->exclude_padding,
                               .ceil_mode = o->ceil_mode};
}

haul_status haul_max_pool3d_indices_with(haul_tensor *x, haul_tensor **y, haul_tensor **indices,
                                         const haul_pool3d_options *o)
{
    pool3d_attributes a = o ? attributes_of(o) : (pool3d_attributes){.divisor = 0};
    return haul__apply_windows(&haul__operation_max_pool3d_indices, o ? &a : NULL, x, y, indices);
}

#define FUNCTION(id)                                                                                                   \
    haul_tensor *haul_##id##_with(haul_tensor *x, const haul_pool3d_options *o)                                        \
    {                                                                                                                  \
        if (!o)                                                                                                        \
            return haul__no_options(&haul__operation_##id);                                                            \
        pool3d_attributes a = attributes_of(o);                                                                        \
        return HAUL__APPLY(id, &a, x);                                                                                 \
    }

FUNCTION(max_pool3d)
FUNCTION(avg_pool3d)

/* ---- to a given size ---- */

typedef struct adaptive_attributes {
    int64_t out[3];
} adaptive_attributes;

static haul_status check_size(const haul__call *c, const char *name, int64_t value)
{
    if (value >= 1 && value <= INT32_MAX)
        return HAUL_OK;
    return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, name, "%s is %lld; it must be from 1 to 2^31 - 1",
                      name, (long long)value);
}

static haul_status adaptive_line(haul__call *c, adaptive_pool2d *pool)
{
    const adaptive_attributes *a = haul__attributes(c);
    const haul_shape          *x = &c->operands[0]->shape;
    if (check_size(c, "length", a->out[0]))
        return haul_error_status();
    if (x->ndim != 3)
        return haul__refuse_shape(c, 0, "it must be [N, C, L]");
    if (x->dims[2] == 0)
        return haul__refuse_shape(c, 0, "only its batch and its channels can be empty");
    c->results[0] = haul_squeeze(pool(haul_unsqueeze(c->operands[0], 2), 1, a->out[0]), 2);
    return haul__failed(c->results[0]) ? haul_error_status() : HAUL_OK;
}

static haul_status adaptive_volume(haul__call *c, adaptive_pool2d *pool)
{
    const adaptive_attributes *a = haul__attributes(c);
    haul_tensor               *x = c->operands[0];
    int64_t                    columns;
    if (check_size(c, "depth", a->out[0]) || check_size(c, "height", a->out[1]) || check_size(c, "width", a->out[2]) ||
        check_volume(c))
        return haul_error_status();
    if (!haul__mul_size(a->out[1], a->out[2], &columns) || columns > INT32_MAX)
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "height",
                          "layers of %lld x %lld elements are too large; less than 2^31 elements are expected",
                          (long long)a->out[1], (long long)a->out[2]);
    haul_tensor *layers = layers_of(x, pool(planes_of(x), a->out[1], a->out[2]));
    HAUL__ASSERT(haul__failed(layers) || layers->shape.dims[3] == columns);
    return give(c, 0, pool(layers, a->out[0], columns), a->out[1], a->out[2]);
}

#define ADAPTIVE                                                                                                       \
    .operands = {{"x"}}, .results = {{"y"}}, .dtypes = HAUL__FLOATS,                                                   \
    .attributes_size = HAUL__ATTRIBUTES(adaptive_attributes)

static haul_status adaptive_max_pool1d(haul__call *c)
{
    return adaptive_line(c, haul_adaptive_max_pool2d);
}

static haul_status adaptive_max_pool3d(haul__call *c)
{
    return adaptive_volume(c, haul_adaptive_max_pool2d);
}

static haul_status adaptive_avg_pool1d(haul__call *c)
{
    return adaptive_line(c, haul_adaptive_avg_pool2d);
}

static haul_status adaptive_avg_pool3d(haul__call *c)
{
    return adaptive_volume(c, haul_adaptive_avg_pool2d);
}

HAUL__OPERATION(adaptive_max_pool1d) = {.name = "haul_adaptive_max_pool1d", ADAPTIVE, .compose = adaptive_max_pool1d};
HAUL__OPERATION(adaptive_max_pool3d) = {.name = "haul_adaptive_max_pool3d", ADAPTIVE, .compose = adaptive_max_pool3d};
HAUL__OPERATION(adaptive_avg_pool1d) = {.name = "haul_adaptive_avg_pool1d", ADAPTIVE, .compose = adaptive_avg_pool1d};
HAUL__OPERATION(adaptive_avg_pool3d) = {.name = "haul_adaptive_avg_pool3d", ADAPTIVE, .compose = adaptive_avg_pool3d};

haul_tensor *haul_adaptive_max_pool1d(haul_tensor *x, int64_t length)
{
    return HAUL__APPLY(adaptive_max_pool1d, (&(adaptive_attributes){{length}}), x);
}

haul_tensor *haul_adaptive_avg_pool1d(haul_tensor *x, int64_t length)
{
    return HAUL__APPLY(adaptive_avg_pool1d, (&(adaptive_attributes){{length}}), x);
}

haul_tensor *haul_adaptive_max_pool3d(haul_tensor *x, int64_t depth, int64_t height, int64_t width)
{
    return HAUL__APPLY(adaptive_max_pool3d, (&(adaptive_attributes){{depth, height, width}}), x);
}

haul_tensor *haul_adaptive_avg_pool3d(haul_tensor *x, int64_t depth, int64_t height, int64_t width)
{
    return HAUL__APPLY(adaptive_avg_pool3d, (&(adaptive_attributes){{depth, height, width}}), x);
}
