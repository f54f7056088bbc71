/* Indexing and order: picking elements by index, and sorting.
 *
 * Indices have any integer dtype and count from 0. An index out of range fails with HAUL_INVALID_ARGUMENT. On the CPU
 * the call itself fails. On other devices the next call that gives values to the host or waits for the device fails;
 * the element counts as 0, and its gradient is dropped. Memory outside an operand is never read or written.
 *
 * Where several elements are added to one, they are added in the order of the indices, on every device. */
#ifndef HAUL_INDEXING_H
#define HAUL_INDEXING_H

#include <haul/base.h>
#include <haul/error.h>
#include <haul/tensor.h>

HAUL_BEGIN

/* ---- Picking and adding by index ---- */

/* The elements of x at some indices of an axis: x[..., index[i], ...]. haul_index_select(x, 0, index) picks rows. A
 * view of any layout is read where the indices point; only one with fewer elements than the result is copied first.
 *
 * - index: [n], of an integer dtype; [1] for a 0-d x, whose result is 0-d */
HAUL_API haul_tensor *haul_index_select(haul_tensor *x, int axis, haul_tensor *index);
HAUL_API haul_status  haul_index_select_into(haul_tensor *out, haul_tensor *x, int axis, haul_tensor *index);

/* One element of x for each index. For axis 1 of three, y[i][j][k] = x[i][index[i][j][k]][k]. The result has the shape
 * of `index`.
 *
 * - index: of an integer dtype, with as many dimensions as x; except along the axis, none is larger than x's */
HAUL_API haul_tensor *haul_gather(haul_tensor *x, int axis, haul_tensor *index);
HAUL_API haul_status  haul_gather_into(haul_tensor *out, haul_tensor *x, int axis, haul_tensor *index);

/* x plus the elements of `source`, each added where its index points. For axis 1 of three, y[i][index[i][j][k]][k] +=
 * source[i][j][k]. x and source promote.
 *
 * - index: as for haul_gather
 * - source: of the shape of `index` */
HAUL_API haul_tensor *haul_scatter_add(haul_tensor *x, int axis, haul_tensor *index, haul_tensor *source);
HAUL_API haul_status  haul_scatter_add_into(haul_tensor *out, haul_tensor *x, int axis, haul_tensor *index,
                                            haul_tensor *source);

typedef struct HAUL__DESIGNATED haul_embedding_options {
    haul_tensor *index; /* of an integer dtype and any shape; positional */
    HAUL__GUARD(padding_idx)
    /* this row gets no gradient; negative ones count from the end; default none; HAUL_ZERO for row 0 */
    int64_t padding_idx;
} haul_embedding_options;

/* Rows of a table: haul_embedding(weight, index, .padding_idx = HAUL_ZERO). The result has the shape of `index` and one
 * more dimension, `size`, at the end.
 *
 * - weight: [rows, size] */
#define haul_embedding(weight, ...)                                                                                    \
    haul_embedding_with(weight, HAUL__OPTIONS(haul_embedding_options, .index = __VA_ARGS__))
#define haul_embedding_into(out, weight, ...)                                                                          \
    haul_embedding_into_with(out, weight, HAUL__OPTIONS(haul_embedding_options, .index = __VA_ARGS__))
HAUL_API haul_tensor *haul_embedding_with(haul_tensor *weight, const haul_embedding_options *options);
HAUL_API haul_status  haul_embedding_into_with(haul_tensor *out, haul_tensor *weight,
                                               const haul_embedding_options *options);

/* For each index a row of zeros with a 1 at the index, as i64. The result has the shape of `index` and one more
 * dimension, `classes`, at the end. */
HAUL_API haul_tensor *haul_one_hot(haul_tensor *index, int64_t classes);

/* ---- Sorting and extremes ---- */

/* The largest, or smallest, element along an axis and its index (i64), the first of equals. NaN counts as the largest
 * for haul_max_with_indices and as the smallest for haul_min_with_indices. On failure both results are failed tensors.
 *
 * Gradients flow through *values, to the elements at the indices; haul_max and haul_min share them among equals
 * instead.
 *
 * - keepdim: keep the axis, with size 1
 * - values, indices: get the results */
HAUL_API haul_status haul_max_with_indices(haul_tensor *x, int axis, bool keepdim, haul_tensor **values,
                                           haul_tensor **indices);
HAUL_API haul_status haul_min_with_indices(haul_tensor *x, int axis, bool keepdim, haul_tensor **values,
                                           haul_tensor **indices);
HAUL_API haul_status haul_max_with_indices_into(haul_tensor *values, haul_tensor *indices, haul_tensor *x, int axis,
                                                bool keepdim);
HAUL_API haul_status haul_min_with_indices_into(haul_tensor *values, haul_tensor *indices, haul_tensor *x, int axis,
                                                bool keepdim);

/* The elements along an axis in order, and their indices (i64). Equal elements keep their order. NaN counts as the
 * largest. Gradients flow through *values. On failure both results are failed tensors.
 *
 * - descending: the largest first
 * - values, indices: get the results */
HAUL_API haul_status haul_sort(haul_tensor *x, int axis, bool descending, haul_tensor **values, haul_tensor **indices);

/* The indices that haul_sort gives, alone.
 *
 * - descending: the largest first */
HAUL_API haul_tensor *haul_argsort(haul_tensor *x, int axis, bool descending);

/* The k largest elements along an axis, or the k smallest, best first, and their indices (i64). Of equal elements the
 * first comes first. NaN counts as the largest. Gradients flow through *values. On failure both results are failed
 * tensors.
 *
 * - k: from 0 to the length of the axis; 1 for a 0-d x
 * - largest: the largest elements; false for the smallest
 * - values, indices: get the results */
HAUL_API haul_status haul_topk(haul_tensor *x, int64_t k, int axis, bool largest, haul_tensor **values,
                               haul_tensor **indices);

HAUL_END

#endif
