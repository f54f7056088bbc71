/* Operators that have indices. */
#include <haul/dtype.h>
#include <haul/indexing.h>
#include <haul/transfer.h>
#include <string.h>

#include "base/assert.h"
#include "core/error.h"
#include "core/shape.h"
#include "core/tensor.h"
#include "onnx/families.h"

#define X(i) haul__onnx_x(c, i)

/* Indices from 0 on: those below 0 count from the end. */
static haul_tensor *from_start(haul_tensor *index, int64_t n)
{
    if (haul_tensor_dtype(index) == HAUL_U8)
        return index;
    return haul_where(haul_lt_scalar(index, 0), haul_add_scalar(index, (double)n), index);
}

/* Indices that are known on the host; they are written into a tensor once they count from 0. */
static haul_tensor *index_of(haul__onnx_call *c, int i, int64_t n)
{
    const haul__numbers *known = haul__onnx_known(c, i);
    bool                 negative = false;
    for (int64_t k = 0; known && k < known->count; k++)
        negative = negative || known->items[k].i < 0;
    return known && !negative ? X(i) : from_start(X(i), n);
}

haul_tensor *haul__onnx_gather(haul__onnx_call *c)
{
    haul_tensor         *x = X(0);
    const haul_shape     from = haul__onnx_shape(c, 0), at = haul__onnx_shape(c, 1);
    const haul__numbers *known = haul__onnx_known(c, 1);
    haul_shape           shape = {.ndim = 0};
    int64_t              count = 1;
    int                  axis;
    if (haul__onnx_axis(c, haul__onnx_int(c, "axis", 0), from.ndim, &axis))
        return NULL;
    if (known && !at.ndim)
        return haul_select(x, axis, known->items->i);
    if (from.ndim - 1 + at.ndim > HAUL_MAX_DIMS)
        return haul__onnx_refuse(c, "more than 8 dimensions");
    haul_tensor *index = index_of(c, 1, from.dims[axis]);
    if (from.ndim == 2 && axis == 0 && haul_dtype_is_float(haul__onnx_type(c, 0)))
        return haul_embedding(x, index);
    for (int d = 0; d < from.ndim; d++) {
        for (int k = 0; d == axis && k < at.ndim; k++)
            shape.dims[shape.ndim++] = at.dims[k];
        if (d != axis)
            shape.dims[shape.ndim++] = from.dims[d];
    }
    HAUL__ASSERT(shape.ndim == from.ndim - 1 + at.ndim);
    for (int k = 0; k < at.ndim; k++)
        count *= at.dims[k];
    return haul_reshape(haul_index_select(x, axis, haul_reshape(index, HAUL_SHAPE(count))), shape);
}

haul_tensor *haul__onnx_gather_elements(haul__onnx_call *c)
{
    const haul_shape from = haul__onnx_shape(c, 0);
    int              axis;
    if (haul__onnx_axis(c, haul__onnx_int(c, "axis", 0), from.ndim, &axis))
        return NULL;
    return haul_gather(X(0), axis, index_of(c, 1, from.dims[axis]));
}

/* False: there is no reduction of that name. */
static bool find_reduction(const char *name, haul_scatter_how *how)
{
    *how = !strcmp(name, "add")   ? HAUL_SCATTER_SUM
           : !strcmp(name, "mul") ? HAUL_SCATTER_PROD
           : !strcmp(name, "max") ? HAUL_SCATTER_MAX
                                  : HAUL_SCATTER_MIN;
    return *how != HAUL_SCATTER_MIN || !strcmp(name, "min");
}

haul_tensor *haul__onnx_scatter_elements(haul__onnx_call *c)
{
    const haul_shape from = haul__onnx_shape(c, 0);
    const char      *name = haul__onnx_string(c, "reduction", "none");
    haul_scatter_how how;
    int              axis;
    if (haul__onnx_axis(c, haul__onnx_int(c, "axis", 0), from.ndim, &axis))
        return NULL;
    haul_tensor *index = index_of(c, 1, from.dims[axis]);
    if (!strcmp(name, "none"))
        return haul_scatter(X(0), axis, index, X(2));
    if (!find_reduction(name, &how))
        return haul__onnx_refuse(c, "this reduction");
    return haul_scatter_reduce(X(0), axis, index, X(2), how);
}

/* Rows of indices, along an axis, as numbers of slices. One out of range becomes `wrong`, which is refused. */
static haul_tensor *slices_of(haul_tensor *index, int axis, const int64_t *sizes, int64_t depth, int64_t wrong)
{
    haul_tensor *flat = NULL, *bad = NULL;
    for (int d = 0; d < (int)depth; d++) {
        haul_tensor *column = from_start(haul_select(index, axis, d), sizes[d]);
        haul_tensor *out = haul_logical_or(haul_lt_scalar(column, 0), haul_ge_scalar(column, (double)sizes[d]));
        flat = flat ? haul_add(haul_mul_scalar(flat, (double)sizes[d]), column) : column;
        bad = bad ? haul_logical_or(bad, out) : out;
    }
    return haul_masked_fill(flat, bad, (double)wrong);
}

/* Rows of indices become numbers of slices: x is seen as [slices, elements of a slice]. */
haul_tensor *haul__onnx_scatter_nd(haul__onnx_call *c)
{
    const haul_shape from = haul__onnx_shape(c, 0), at = haul__onnx_shape(c, 1);
    const char      *name = haul__onnx_string(c, "reduction", "none");
    const int64_t    depth = at.ndim ? at.dims[at.ndim - 1] : 0;
    int64_t          slices = 1, inner = 1, rows = 1;
    haul_scatter_how how = HAUL_SCATTER_SUM;
    if (depth < 1 || depth > from.ndim)
        return haul__onnx_wrong(c, "the indices have a wrong shape");
    if (strcmp(name, "none") && !find_reduction(name, &how))
        return haul__onnx_refuse(c, "this reduction");
    for (int d = 0; d < from.ndim; d++)
        *(d < depth ? &slices : &inner) *= from.dims[d];
    for (int d = 0; d + 1 < at.ndim; d++)
        rows *= at.dims[d];
    haul_tensor *flat = slices_of(haul_reshape(X(1), HAUL_SHAPE(rows, depth)), 1, from.dims, depth, slices);
    haul_tensor *x = haul_reshape(X(0), HAUL_SHAPE(slices, inner));
    haul_tensor *source = haul_reshape(X(2), HAUL_SHAPE(rows, inner));
    if (strcmp(name, "none"))
        x = haul_scatter_reduce(x, 0, haul_expand(haul_unsqueeze(flat, 1), HAUL_SHAPE(rows, inner)), source, how);
    else
        x = haul_index_copy(x, 0, flat, source);
    return haul_reshape(x, from);
}

haul_tensor *haul__onnx_nonzero(haul__onnx_call *c)
{
    return haul_transpose(haul_nonzero(X(0)), 0, 1);
}

haul_tensor *haul__onnx_topk(haul__onnx_call *c)
{
    int64_t k = haul__onnx_int(c, "k", 1);
    int     axis;
    if (haul__onnx_axis(c, haul__onnx_int(c, "axis", -1), haul__onnx_shape(c, 0).ndim, &axis))
        return NULL;
    if (c->opset >= 10 && haul__onnx_integer(c, 1, 1, &k))
        return NULL;
    return haul_topk(X(0), k, axis, haul__onnx_int(c, "largest", 1) != 0, &c->y[0], &c->y[1]) ? NULL : c->y[0];
}

/* A new axis of `depth` elements, in which the one that the index names is "on". */
haul_tensor *haul__onnx_one_hot(haul__onnx_call *c)
{
    const haul_shape     at = haul__onnx_shape(c, 0);
    const haul__numbers *values = haul__onnx_numbers(c, 2);
    double               wanted; /* of any dtype */
    int                  axis, axes[HAUL_MAX_DIMS];
    if (!values || haul__onnx_real(c, 1, 1, &wanted) ||
        haul__onnx_axis(c, haul__onnx_int(c, "axis", -1), at.ndim + 1, &axis))
        return NULL;
    if (values->count != 2 || !(wanted >= 1 && wanted < 9e15) || at.ndim == HAUL_MAX_DIMS)
        return haul__onnx_wrong(c, "the depth or the values are wrong");
    const int64_t depth = (int64_t)wanted;
    haul_tensor  *index = from_start(haul_cast(X(0), HAUL_I64), depth);
    haul_tensor  *on = haul_eq(haul_unsqueeze(index, at.ndim), haul_arange(HAUL_I64, 0, (double)depth, 1));
    haul_tensor  *y = haul_where(on, haul_select(X(2), 0, 1), haul_select(X(2), 0, 0));
    for (int d = 0, next = 0; d <= at.ndim; d++)
        axes[d] = d == axis ? at.ndim : next++;
    return haul_permute(y, axes, at.ndim + 1);
}

/* Rows of indices are numbers of slices: x is seen as [batches x slices, elements of a slice]. */
haul_tensor *haul__onnx_gather_nd(haul__onnx_call *c)
{
    const haul_shape from = haul__onnx_shape(c, 0), at = haul__onnx_shape(c, 1);
    const int64_t    batch_dims = haul__onnx_int(c, "batch_dims", 0), depth = at.ndim ? at.dims[at.ndim - 1] : 0;
    haul_shape       shape = {.ndim = 0};
    int64_t          batches = 1, slices = 1, inner = 1, rows = 1;
    if (batch_dims < 0 || batch_dims >= at.ndim || batch_dims >= from.ndim || depth < 1 ||
        depth > from.ndim - batch_dims)
        return haul__onnx_wrong(c, "the indices have a wrong shape");
    const int b = (int)batch_dims, end = b + (int)depth;
    if (at.ndim - 1 + from.ndim - end > HAUL_MAX_DIMS)
        return haul__onnx_refuse(c, "more than 8 dimensions");
    for (int d = 0; d < from.ndim; d++)
        *(d < b ? &batches : d < end ? &slices : &inner) *= from.dims[d];
    for (int d = 0; d + 1 < at.ndim; d++) {
        rows *= d < b ? 1 : at.dims[d];
        shape.dims[shape.ndim++] = at.dims[d];
    }
    for (int d = end; d < from.ndim; d++)
        shape.dims[shape.ndim++] = from.dims[d];
    HAUL__ASSERT(shape.ndim == at.ndim - 1 + from.ndim - end);
    haul_tensor *flat =
        slices_of(haul_reshape(X(1), HAUL_SHAPE(batches, rows, depth)), 2, from.dims + b, depth, batches * slices);
    if (b)
        flat = haul_add(flat, haul_mul_scalar(haul_unsqueeze(haul_arange_i64(0, batches, 1), 1), (double)slices));
    haul_tensor *x = haul_reshape(X(0), HAUL_SHAPE(batches * slices, inner));
    return haul_reshape(haul_index_select(x, 0, haul_reshape(flat, HAUL_SHAPE(batches * rows))), shape);
}

/* Where the condition holds; it may be shorter than the axis. Waits for the number of elements. */
haul_tensor *haul__onnx_compress(haul__onnx_call *c)
{
    const haul_shape shape = haul__onnx_shape(c, 0);
    const bool       given = haul__onnx_attribute_of(c->step->node, "axis") != NULL;
    int              axis = 0;
    if (haul__onnx_shape(c, 1).ndim != 1)
        return haul__onnx_wrong(c, "the condition is not a vector");
    if (given && haul__onnx_axis(c, haul__onnx_int(c, "axis", 0), shape.ndim, &axis))
        return NULL;
    haul_tensor *x = given ? X(0) : haul_flatten(X(0), 0);
    return haul_index_select(x, axis, haul_select(haul_nonzero(X(1)), 1, 0));
}

/* The distinct elements, where each is first, the place of each element's value, and how often it occurs. Without
 * `sorted` the values are in the order in which they are first. Waits for their number. */
haul_tensor *haul__onnx_unique(haul__onnx_call *c)
{
    haul_tensor *inverse = NULL, *counts = NULL, *x = X(0);
    if (haul__onnx_attribute_of(c->step->node, "axis") && haul__onnx_shape(c, 0).ndim != 1)
        return haul__onnx_refuse(c, "axis");
    x = haul_flatten(x, 0);
    haul_tensor  *y = haul_unique(x, .inverse = &inverse, .counts = &counts);
    const int64_t n = haul__failed(y) ? 0 : haul_tensor_count(y), all = haul_tensor_count(x);
    if (haul__failed(y))
        return NULL;
    haul_tensor *places = haul_arange_i64(0, all, 1);
    haul_tensor *first =
        haul_scatter_reduce(haul_full(HAUL_I64, HAUL_SHAPE(n), (double)all), 0, inverse, places, HAUL_SCATTER_MIN);
    if (!haul__onnx_int(c, "sorted", 1)) {
        haul_tensor *order = haul_argsort(first, 0, false);
        y = haul_index_select(y, 0, order);
        counts = haul_index_select(counts, 0, order);
        first = haul_index_select(first, 0, order);
        inverse = haul_index_select(haul_argsort(order, 0, false), 0, inverse);
    }
    c->y[1] = first, c->y[2] = inverse, c->y[3] = counts;
    return y;
}
