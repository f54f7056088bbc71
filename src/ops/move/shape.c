/* Changing shape without copying: every result here is a view of its operand's memory, except where reshape and flatten
 * have to pack it. Gradients are views as well. */
#include "base/assert.h"
#include "engine/attribute_shape.h"
#include "engine/copy.h"
#include "engine/operation.h"
#include "ops/attributes.h"

typedef struct shape_attributes {
    haul__attribute_shape shape;
} shape_attributes;

typedef struct axis_attributes {
    int axis;
} axis_attributes;

/* The gradient of operations that only rename elements: g in the operand's shape. */
static void reshape_back(haul__gradient *g)
{
    g->operands[0] = haul_reshape(g->results[0], *haul__operand_shape(g, 0));
}

/* ---- reshape, view, flatten ---- */

/* Replaces a -1 in `wanted`, and checks that it has as many elements as x. */
static haul_status resolve(const char *operation, const haul_tensor *x, haul_shape *wanted)
{
    int64_t    known = 1, count;
    int        open = -1;
    char       text[96], have[96];
    haul_shape given = *wanted;
    if (wanted->ndim < 0 || wanted->ndim > HAUL_MAX_DIMS)
        return haul__fail(HAUL_SHAPE, operation, "shape", "shape has %d dimensions; there can be 0 to %d", wanted->ndim,
                          HAUL_MAX_DIMS);
    for (int d = 0; d < wanted->ndim; d++) {
        if (wanted->dims[d] == -1 && open < 0)
            open = d;
        else if (wanted->dims[d] < 0)
            return haul__fail(HAUL_SHAPE, operation, "shape", "shape %s has more than one -1, or another negative dim",
                              haul__shape_text(&given, text, sizeof text));
        else if (!haul__mul_size(known, wanted->dims[d], &known))
            return haul__fail(HAUL_SHAPE, operation, "shape", "shape %s has too many elements",
                              haul__shape_text(&given, text, sizeof text));
    }
    if (open >= 0 && known > 0)
        wanted->dims[open] = x->count / known;
    else if (open >= 0)
        return haul__fail(HAUL_SHAPE, operation, "shape", "the -1 in shape %s is ambiguous, because other dims are 0",
                          haul__shape_text(&given, text, sizeof text));
    if (haul__shape_count(wanted, operation, &count))
        return haul_error_status();
    if (count != x->count)
        return haul__fail(HAUL_SHAPE, operation, "shape",
                          "x has shape %s (%lld elements), which cannot be viewed as %s",
                          haul__shape_text(&x->shape, have, sizeof have), (long long)x->count,
                          haul__shape_text(&given, text, sizeof text));
    return HAUL_OK;
}

/* Strides that show x's elements in row-major order as `shape`; returns false if there are none. Dims of x are merged
 * into runs that step evenly, and each run must be made up of whole dims of `shape`. */
static bool view_strides(const haul_tensor *x, const haul_shape *shape, int64_t *strides)
{
    HAUL__ASSERT(0 <= shape->ndim && shape->ndim <= HAUL_MAX_DIMS);
    if (x->contiguous || x->count == 0) {
        haul__shape_strides(shape, strides);
        return true;
    }
    int to = shape->ndim - 1;
    for (int from = x->shape.ndim - 1; from >= 0;) {
        int64_t step = x->strides[from], run = x->shape.dims[from--];
        while (from >= 0 && (x->shape.dims[from] == 1 || run == 1 || x->strides[from] == step * run)) {
            if (run == 1)
                step = x->strides[from];
            run *= x->shape.dims[from--];
        }
        for (; to >= 0 && run % shape->dims[to] == 0 && (run > 1 || shape->dims[to] == 1); to--) {
            strides[to] = step;
            step *= shape->dims[to];
            run /= shape->dims[to];
        }
        if (run != 1)
            return false;
    }
    return to < 0;
}

static haul_shape shape_of(const haul__call *c)
{
    const shape_attributes *a = haul__attributes_of(c);
    return haul__shape_of_attribute(&a->shape);
}

static haul_status infer_view(haul__call *c)
{
    int64_t            strides[HAUL_MAX_DIMS];
    const haul_tensor *x = c->operands[0];
    haul_shape         shape = shape_of(c);
    if (resolve(c->operation->name, x, &shape))
        return haul_error_status();
    if (!view_strides(x, &shape, strides))
        return haul__refuse_shape(c, 0,
                                  "its strides cannot be seen in the wanted shape without a copy; use haul_reshape");
    return haul__describe_view(c, 0, &shape, strides, x->offset);
}

HAUL__OPERATION(view) = {
    .name = "haul_view",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES}},
    .results = {{"y"}},
    .view = true,
    .attributes_size = HAUL__ATTRIBUTES(shape_attributes),
    .infer = infer_view,
    .gradient = reshape_back,
};

haul_tensor *haul_view(haul_tensor *x, haul_shape shape)
{
    shape_attributes a;
    haul__shape_to_attribute(&a.shape, &shape);
    return HAUL__APPLY(view, &a, x);
}

/* A view if strides can show the elements in the shape, else a copy. */
static haul_status describe_reshaped(haul__call *c, haul_shape *shape)
{
    int64_t            strides[HAUL_MAX_DIMS];
    const haul_tensor *x = c->operands[0];
    if (resolve(c->operation->name, x, shape))
        return haul_error_status();
    if (x->contiguous)
        return haul__describe_view(c, 0, shape, NULL, x->offset);
    if (view_strides(x, shape, strides))
        return haul__describe_view(c, 0, shape, strides, x->offset);
    return haul__describe(c, 0, x->dtype, shape);
}

static haul_status infer_reshape(haul__call *c)
{
    haul_shape shape = shape_of(c);
    return describe_reshaped(c, &shape);
}

/* Packs the elements: row-major in either shape. */
static haul_status compute_reshape(haul__call *c)
{
    haul_tensor *x = c->operands[0], *y = c->results[0];
    HAUL__ASSERT(y->contiguous && y->count == x->count && y->dtype == x->dtype);
    haul_tensor *packed = haul__view_as(c, y, &x->shape, NULL, y->offset);
    return haul__failed(packed) ? haul_error_status() : haul__copy_elements(packed, x, c->operation->name);
}

HAUL__OPERATION(reshape) = {
    .name = "haul_reshape",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES}},
    .results = {{"y"}},
    .view = true,
    .attributes_size = HAUL__ATTRIBUTES(shape_attributes),
    .infer = infer_reshape,
    .compute = compute_reshape,
    .gradient = reshape_back,
};

haul_tensor *haul_reshape(haul_tensor *x, haul_shape shape)
{
    shape_attributes a;
    haul__shape_to_attribute(&a.shape, &shape);
    return HAUL__APPLY(reshape, &a, x);
}

static haul_status infer_flatten(haul__call *c)
{
    const haul_shape *have = &c->operands[0]->shape;
    axis_attributes  *a = haul__attributes(c);
    if (haul__call_axis(c, 0, &a->axis))
        return haul_error_status();
    haul_shape shape = have->ndim ? *have : HAUL_SHAPE(1);
    shape.ndim = a->axis + 1;
    for (int d = a->axis + 1; d < have->ndim; d++)
        if (!haul__mul_size(shape.dims[a->axis], have->dims[d], &shape.dims[a->axis]))
            return haul__refuse_shape(c, 0, "dims whose product fits in 64 bits are needed");
    return describe_reshaped(c, &shape);
}

HAUL__OPERATION(flatten) = {
    .name = "haul_flatten",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES}},
    .results = {{"y"}},
    .view = true,
    .attributes_size = HAUL__ATTRIBUTES(axis_attributes),
    .infer = infer_flatten,
    .compute = compute_reshape,
    .gradient = reshape_back,
};

haul_tensor *haul_flatten(haul_tensor *x, int first_axis)
{
    return HAUL__APPLY(flatten, &(axis_attributes){first_axis}, x);
}

/* ---- permute, transpose ---- */

/* Result axis d is axis axes[d] of the operand. */
static haul_status describe_permuted(haul__call *c, const int *axes)
{
    const haul_tensor *x = c->operands[0];
    haul_shape         shape = {.ndim = x->shape.ndim};
    int64_t            strides[HAUL_MAX_DIMS] = {0};
    for (int d = 0; d < shape.ndim; d++) {
        HAUL__ASSERT(0 <= axes[d] && axes[d] < shape.ndim);
        shape.dims[d] = x->shape.dims[axes[d]];
        strides[d] = x->strides[axes[d]];
    }
    return haul__describe_view(c, 0, &shape, strides, x->offset);
}

static haul_status infer_permute(haul__call *c)
{
    haul__permute_attributes *a = haul__attributes(c);
    bool                      used[HAUL_MAX_DIMS] = {false};
    int                       ndim = c->operands[0]->shape.ndim;
    if (a->count != ndim)
        return haul__fail(HAUL_SHAPE, c->operation->name, "axes",
                          "%d axes are given for the %d dimensions of x; name each once", a->count, ndim);
    for (int d = 0; d < ndim; d++) {
        int axis = a->axes[d];
        if (haul__call_axis(c, 0, &a->axes[d]))
            return haul_error_status();
        if (used[a->axes[d]])
            return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "axes", "axis %d is given twice", axis);
        used[a->axes[d]] = true;
    }
    return describe_permuted(c, a->axes);
}

static void permute_back(haul__gradient *g)
{
    const haul__permute_attributes *a = g->attributes;
    int                             inverse[HAUL_MAX_DIMS] = {0};
    HAUL__ASSERT(a->count == haul__operand_shape(g, 0)->ndim);
    for (int d = 0; d < a->count; d++)
        inverse[a->axes[d]] = d;
    g->operands[0] = haul_permute(g->results[0], inverse, a->count);
}

HAUL__OPERATION(permute) = {
    .name = "haul_permute",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES}},
    .results = {{"y"}},
    .view = true,
    .attributes_size = HAUL__ATTRIBUTES(haul__permute_attributes),
    .infer = infer_permute,
    .gradient = permute_back,
};

haul_tensor *haul_permute(haul_tensor *x, const int *axes, int count)
{
    haul__permute_attributes a = {.count = count};
    if (!axes && count > 0) {
        haul__fail(HAUL_INVALID_ARGUMENT, haul__operation_permute.name, "axes",
                   "axes is NULL; an array of %d axes is expected", count);
        return haul__failed_tensor();
    }
    for (int d = 0; d < a.count && d < HAUL_MAX_DIMS; d++)
        a.axes[d] = axes[d];
    return HAUL__APPLY(permute, &a, x);
}

static haul_status infer_transpose(haul__call *c)
{
    haul__transpose_attributes *t = haul__attributes(c);
    int                         axes[HAUL_MAX_DIMS];
    if (haul__call_axis(c, 0, &t->a) || haul__call_axis(c, 0, &t->b))
        return haul_error_status();
    for (int d = 0; d < HAUL_MAX_DIMS; d++)
        axes[d] = d == t->a ? t->b : d == t->b ? t->a : d;
    return describe_permuted(c, axes);
}

static void transpose_back(haul__gradient *g)
{
    const haul__transpose_attributes *t = g->attributes;
    g->operands[0] = haul_transpose(g->results[0], t->a, t->b);
}

HAUL__OPERATION(transpose) = {
    .name = "haul_transpose",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES}},
    .results = {{"y"}},
    .view = true,
    .attributes_size = HAUL__ATTRIBUTES(haul__transpose_attributes),
    .infer = infer_transpose,
    .gradient = transpose_back,
};

haul_tensor *haul_transpose(haul_tensor *x, int a, int b)
{
    return HAUL__APPLY(transpose, (&(haul__transpose_attributes){a, b}), x);
}

/* ---- expand, squeeze, unsqueeze ---- */

static haul_status infer_expand(haul__call *c)
{
    char               have[96], want[96];
    int64_t            strides[HAUL_MAX_DIMS] = {0}, count;
    const haul_tensor *x = c->operands[0];
    const haul_shape   given = shape_of(c);
    haul_shape         shape = given;
    int                lead = shape.ndim - x->shape.ndim;
    bool               fits = lead >= 0 && shape.ndim <= HAUL_MAX_DIMS;
    for (int d = 0; fits && d < x->shape.ndim; d++) {
        int64_t *dim = &shape.dims[lead + d];
        if (*dim == -1)
            *dim = x->shape.dims[d];
        fits = *dim == x->shape.dims[d] || x->shape.dims[d] == 1;
        strides[lead + d] = *dim == x->shape.dims[d] ? x->strides[d] : 0;
    }
    if (!fits)
        return haul__fail(
            HAUL_SHAPE, c->operation->name, "shape",
            "x has shape %s, which cannot be expanded to %s: only dims of size 1 repeat, and new ones come first",
            haul__shape_text(&x->shape, have, sizeof have), haul__shape_text(&given, want, sizeof want));
    if (haul__shape_count(&shape, c->operation->name, &count))
        return haul_error_status();
    HAUL__ASSERT(lead >= 0 && (count >= x->count || !count));
    return haul__describe_view(c, 0, &shape, strides, x->offset);
}

/* The backward pass sums it to the operand's shape. */
static void pass_on(haul__gradient *g)
{
    g->operands[0] = g->results[0];
}

HAUL__OPERATION(expand) = {
    .name = "haul_expand",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES}},
    .results = {{"y"}},
    .view = true,
    .attributes_size = HAUL__ATTRIBUTES(shape_attributes),
    .infer = infer_expand,
    .gradient = pass_on,
};

haul_tensor *haul_expand(haul_tensor *x, haul_shape shape)
{
    shape_attributes a;
    haul__shape_to_attribute(&a.shape, &shape);
    return HAUL__APPLY(expand, &a, x);
}

static haul_status infer_squeeze(haul__call *c)
{
    const haul_tensor *x = c->operands[0];
    axis_attributes   *a = haul__attributes(c);
    if (haul__call_axis(c, 0, &a->axis))
        return haul_error_status();
    if (x->shape.ndim == 0)
        return haul__describe_view(c, 0, &x->shape, x->strides, x->offset);
    HAUL__ASSERT(0 <= a->axis && a->axis < x->shape.ndim);
    if (x->shape.dims[a->axis] != 1)
        return haul__refuse_shape(c, 0, "only an axis of size 1 can be squeezed; use haul_reshape to merge axes");
    haul_shape shape = {.ndim = x->shape.ndim - 1};
    int64_t    strides[HAUL_MAX_DIMS] = {0};
    for (int d = 0; d < shape.ndim; d++) {
        shape.dims[d] = x->shape.dims[d + (d >= a->axis)];
        strides[d] = x->strides[d + (d >= a->axis)];
    }
    return haul__describe_view(c, 0, &shape, strides, x->offset);
}

HAUL__OPERATION(squeeze) = {
    .name = "haul_squeeze",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES}},
    .results = {{"y"}},
    .view = true,
    .attributes_size = HAUL__ATTRIBUTES(axis_attributes),
    .infer = infer_squeeze,
    .gradient = reshape_back,
};

haul_tensor *haul_squeeze(haul_tensor *x, int axis)
{
    return HAUL__APPLY(squeeze, &(axis_attributes){axis}, x);
}

static haul_status infer_unsqueeze(haul__call *c)
{
    const haul_tensor *x = c->operands[0];
    axis_attributes   *a = haul__attributes(c);
    if (x->shape.ndim == HAUL_MAX_DIMS)
        return haul__refuse_shape(c, 0, "a tensor has at most 8 dimensions");
    if (haul__axis(a->axis, x->shape.ndim + 1, c->operation->name, &a->axis))
        return haul_error_status();
    HAUL__ASSERT(0 <= a->axis && a->axis <= x->shape.ndim);
    haul_shape shape = {.ndim = x->shape.ndim + 1};
    int64_t    strides[HAUL_MAX_DIMS] = {0};
    for (int d = 0; d < shape.ndim; d++) {
        shape.dims[d] = d == a->axis ? 1 : x->shape.dims[d - (d > a->axis)];
        strides[d] = d == a->axis ? 1 : x->strides[d - (d > a->axis)];
    }
    return haul__describe_view(c, 0, &shape, strides, x->offset);
}

HAUL__OPERATION(unsqueeze) = {
    .name = "haul_unsqueeze",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES}},
    .results = {{"y"}},
    .view = true,
    .attributes_size = HAUL__ATTRIBUTES(axis_attributes),
    .infer = infer_unsqueeze,
    .gradient = reshape_back,
};

haul_tensor *haul_unsqueeze(haul_tensor *x, int axis)
{
    return HAUL__APPLY(unsqueeze, &(axis_attributes){axis}, x);
}
