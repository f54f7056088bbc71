/* Diagonals: a view of one, and tensors of zeros with one. */
#include "base/assert.h"
#include "engine/attribute_shape.h"
#include "engine/copy.h"
#include "engine/operation.h"

typedef struct diagonal_attributes {
    int64_t               offset;
    int                   rows, columns; /* the two axes */
    haul__attribute_shape shape;         /* of the tensor that has the diagonal */
} diagonal_attributes;

/* The number of elements of a diagonal, and where it begins. */
static int64_t diagonal_of(int64_t offset, int64_t rows, int64_t columns, int64_t *row, int64_t *column)
{
    if (offset >= columns || offset <= -rows) {
        *row = *column = 0;
        return 0;
    }
    *row = offset < 0 ? -offset : 0;
    *column = offset > 0 ? offset : 0;
    const int64_t down = rows - *row, across = columns - *column;
    HAUL__ASSERT(down > 0 && across > 0);
    return down < across ? down : across;
}

/* The view of t's diagonal: its shape and strides, and the offset, which is returned. */
static int64_t diagonal_layout(const diagonal_attributes *a, const haul_tensor *t, haul_shape *shape, int64_t *strides)
{
    int64_t row, column;
    HAUL__ASSERT(a->rows != a->columns && a->rows < t->shape.ndim && a->columns < t->shape.ndim);
    const int64_t n = diagonal_of(a->offset, t->shape.dims[a->rows], t->shape.dims[a->columns], &row, &column);
    *shape = (haul_shape){.ndim = 0};
    for (int d = 0; d < t->shape.ndim; d++)
        if (d != a->rows && d != a->columns) {
            strides[shape->ndim] = t->strides[d];
            shape->dims[shape->ndim++] = t->shape.dims[d];
        }
    HAUL__ASSERT(shape->ndim == t->shape.ndim - 2);
    strides[shape->ndim] = n > 1 ? t->strides[a->rows] + t->strides[a->columns] : 1;
    shape->dims[shape->ndim++] = n;
    return t->offset + (n ? row * t->strides[a->rows] + column * t->strides[a->columns] : 0);
}

/* ---- zeros with a diagonal ---- */

static haul_status put_infer(haul__call *c)
{
    const haul_shape shape = haul__shape_of_attribute(&((const diagonal_attributes *)haul__attributes(c))->shape);
    return haul__describe(c, 0, c->operands[0]->dtype, &shape);
}

static haul_status put_compute(haul__call *c)
{
    haul_shape   shape;
    int64_t      strides[HAUL_MAX_DIMS];
    haul_tensor *y = c->results[0];
    int64_t      offset = diagonal_layout(haul__attributes(c), y, &shape, strides);
    HAUL__ASSERT(haul__shape_equal(&shape, &c->operands[0]->shape));
    haul_tensor *place = haul__view_as(c, y, &shape, strides, offset);
    if (!place || haul__fill_elements(y, 0, c->operation->name))
        return haul_error_status();
    return place->count ? haul__copy_elements(place, c->operands[0], c->operation->name) : HAUL_OK;
}

static void put_gradient(haul__gradient *g)
{
    const diagonal_attributes *a = g->attributes;
    g->operands[0] = haul_diagonal(g->results[0], a->offset, a->rows, a->columns);
}

HAUL__OPERATION(diagonal_backward) = {
    .name = "haul_diagonal_backward",
    .operands = {{"g", .layout = HAUL__ANY_STRIDES}},
    .results = {{"dx"}},
    .dtypes = HAUL__EVERY,
    .attributes_size = HAUL__ATTRIBUTES(diagonal_attributes),
    .infer = put_infer,
    .compute = put_compute,
    .gradient = put_gradient,
};

static haul_tensor *put(haul_tensor *g, const diagonal_attributes *at, const haul_shape *shape)
{
    diagonal_attributes a = *at;
    haul__shape_to_attribute(&a.shape, shape);
    return HAUL__APPLY(diagonal_backward, &a, g);
}

/* ---- haul_diagonal ---- */

static haul_status infer(haul__call *c)
{
    haul_shape           shape;
    int64_t              strides[HAUL_MAX_DIMS];
    diagonal_attributes *a = haul__attributes(c);
    const haul_tensor   *x = c->operands[0];
    if (x->shape.ndim < 2)
        return haul__refuse_shape(c, 0, "at least two dimensions are expected");
    if (haul__call_axis(c, 0, &a->rows) || haul__call_axis(c, 0, &a->columns))
        return haul_error_status();
    if (a->rows == a->columns)
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "columns",
                          "rows and columns are both axis %d; two axes are expected", a->rows);
    int64_t offset = diagonal_layout(a, x, &shape, strides);
    HAUL__ASSERT(shape.ndim == x->shape.ndim - 1);
    return haul__describe_view(c, 0, &shape, strides, offset);
}

static void gradient(haul__gradient *g)
{
    g->operands[0] = put(g->results[0], g->attributes, haul__operand_shape(g, 0));
}

HAUL__OPERATION(diagonal) = {
    .name = "haul_diagonal",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES}},
    .results = {{"y"}},
    .view = true,
    .attributes_size = HAUL__ATTRIBUTES(diagonal_attributes),
    .infer = infer,
    .gradient = gradient,
};

haul_tensor *haul_diagonal(haul_tensor *x, int64_t offset, int rows, int columns)
{
    return HAUL__APPLY(diagonal, (&(diagonal_attributes){.offset = offset, .rows = rows, .columns = columns}), x);
}

/* ---- haul_diag_embed ---- */

static haul_status embed(haul__call *c)
{
    const int64_t offset = ((const diagonal_attributes *)haul__attributes(c))->offset;
    haul_shape    shape = c->operands[0]->shape;
    if (shape.ndim < 1 || shape.ndim == HAUL_MAX_DIMS)
        return haul__refuse_shape(c, 0, "1 to 7 dimensions are expected: the result has one more");
    const uint64_t beyond = offset < 0 ? 0 - (uint64_t)offset : (uint64_t)offset;
    int64_t        size;
    if (beyond > INT64_MAX || !haul__add_size(shape.dims[shape.ndim - 1], (int64_t)beyond, &size))
        return haul__fail(HAUL_SHAPE, c->operation->name, "offset", "offset is %lld; the size overflows",
                          (long long)offset);
    shape.dims[shape.ndim - 1] = shape.dims[shape.ndim] = size;
    shape.ndim++;
    HAUL__ASSERT(shape.ndim <= HAUL_MAX_DIMS);
    const diagonal_attributes a = {.offset = offset, .rows = shape.ndim - 2, .columns = shape.ndim - 1};
    c->results[0] = put(c->operands[0], &a, &shape);
    return haul__failed(c->results[0]) ? haul_error_status() : HAUL_OK;
}

HAUL__OPERATION(diag_embed) = {
    .name = "haul_diag_embed",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES}},
    .results = {{"y"}},
    .dtypes = HAUL__EVERY,
    .attributes_size = HAUL__ATTRIBUTES(diagonal_attributes),
    .compose = embed,
};

haul_tensor *haul_diag_embed(haul_tensor *x, int64_t offset)
{
    return HAUL__APPLY(diag_embed, &(diagonal_attributes){.offset = offset}, x);
}

/* ---- haul_eye ---- */

typedef struct eye_attributes {
    haul_dtype dtype;
    int        reserved;
    int64_t    rows, columns;
} eye_attributes;

static haul_status eye(haul__call *c)
{
    const eye_attributes *a = haul__attributes(c);
    if (a->rows < 0 || a->columns < 0)
        return haul__fail(HAUL_SHAPE, c->operation->name, a->rows < 0 ? "rows" : "columns",
                          "%lld rows and %lld columns; neither must be negative", (long long)a->rows,
                          (long long)a->columns);
    const diagonal_attributes at = {.rows = 0, .columns = 1};
    haul_tensor              *ones = haul_ones(a->dtype, HAUL_SHAPE(a->rows < a->columns ? a->rows : a->columns));
    c->results[0] = put(ones, &at, &HAUL_SHAPE(a->rows, a->columns));
    return haul__failed(c->results[0]) ? haul_error_status() : HAUL_OK;
}

HAUL__OPERATION(eye) = {
    .name = "haul_eye",
    .results = {{"y"}},
    .attributes_size = HAUL__ATTRIBUTES(eye_attributes),
    .compose = eye,
};

haul_tensor *haul_eye(haul_dtype dtype, int64_t rows, int64_t columns)
{
    return haul__apply1(&haul__operation_eye, &(eye_attributes){.dtype = dtype, .rows = rows, .columns = columns}, NULL,
                        0);
}
