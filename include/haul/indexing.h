/* Operations that pick elements by index, and that put elements in order: as those of ops.h.
 *
 * Indices are of any integer dtype and count from 0. An index out of range is an error, HAUL_INVALID_ARGUMENT. On the
 * CPU this call returns it. On other devices the next function that gives the host values or waits for the device
 * returns it; the element counts as 0, and its gradient is dropped. Memory outside an operand is never read or written.
 * Where several elements are added to one, they are added in the order of the indices, on every device. */
#ifndef HAUL_INDEXING_H
#define HAUL_INDEXING_H

#include <haul/base.h>
#include <haul/error.h>
#include <haul/tensor.h>

HAUL_BEGIN

/* ---- by index ---- */

/* x[..., index[i], ...] along an axis; index is 1-d. */
HAUL_API haul_tensor *haul_index_select(haul_tensor *x, int axis, haul_tensor *index);
/* The same into out. */
HAUL_API haul_status haul_index_select_into(haul_tensor *out, haul_tensor *x, int axis, haul_tensor *index);

/* One element of x for each index: y[i][j][k] = x[i][index[i][j][k]][k] for axis 1 of three. index has as many
 * dimensions as x, and except along the axis none is larger than x's. The result has the shape of index. */
HAUL_API haul_tensor *haul_gather(haul_tensor *x, int axis, haul_tensor *index);
/* The same into out. */
HAUL_API haul_status haul_gather_into(haul_tensor *out, haul_tensor *x, int axis, haul_tensor *index);

/* x plus the elements of source where the indices point: y[i][index[i][j][k]][k] += source[i][j][k] for axis 1 of
 * three. source has the shape of index, and index fits x as in haul_gather. x and source promote. */
HAUL_API haul_tensor *haul_scatter_add(haul_tensor *x, int axis, haul_tensor *index, haul_tensor *source);
/* The same into out. */
HAUL_API haul_status haul_scatter_add_into(haul_tensor *out, haul_tensor *x, int axis, haul_tensor *index,
                                           haul_tensor *source);

typedef struct HAUL__DESIGNATED haul_embedding_options {
    haul_tensor *index; /* of any shape; positional */
    HAUL__GUARD
    int64_t padding_idx; /* this row gets no gradient; HAUL_ZERO for row 0; negative ones count from the end */
} haul_embedding_options;

/* Rows of weight [rows, size]: the result has the shape of index and `size` as one more, last dimension.
 * haul_embedding(weight, index, .padding_idx = HAUL_ZERO). */
#define haul_embedding(weight, ...)                                                                                    \
    haul_embedding_with(weight, HAUL__OPTIONS(haul_embedding_options, .index = __VA_ARGS__))
/* The same into out. */
#define haul_embedding_into(out, weight, ...)                                                                          \
    haul_embedding_into_with(out, weight, HAUL__OPTIONS(haul_embedding_options, .index = __VA_ARGS__))
HAUL_API haul_tensor *haul_embedding_with(haul_tensor *weight, const haul_embedding_options *options);
HAUL_API haul_status  haul_embedding_into_with(haul_tensor *out, haul_tensor *weight,
                                               const haul_embedding_options *options);

/* A row of zeros with a 1 where the index points, for each index: i64 of the shape of index and `classes` as one more,
 * last dimension. Not differentiable. */
HAUL_API haul_tensor *haul_one_hot(haul_tensor *index, int64_t classes);
/* The same into out. */
HAUL_API haul_status haul_one_hot_into(haul_tensor *out, haul_tensor *index, int64_t classes);

/* ---- order ---- */

/* The largest or smallest element along an axis and its index (i64), the first of equals. NaN counts as the largest in
 * the first and as the smallest in the second. Gradients flow through *values, to the elements at the indices: haul_max
 * and haul_min share them among equals instead. */
HAUL_API haul_status haul_max_with_indices(haul_tensor *x, int axis, bool keepdim, haul_tensor **values,
                                           haul_tensor **indices);
HAUL_API haul_status haul_min_with_indices(haul_tensor *x, int axis, bool keepdim, haul_tensor **values,
                                           haul_tensor **indices);
/* The same into two targets. */
HAUL_API haul_status haul_max_with_indices_into(haul_tensor *values, haul_tensor *indices, haul_tensor *x, int axis,
                                                bool keepdim);
HAUL_API haul_status haul_min_with_indices_into(haul_tensor *values, haul_tensor *indices, haul_tensor *x, int axis,
                                                bool keepdim);

/* The elements along an axis in order, from the smallest or, descending, from the largest, and their indices (i64).
 * Equal ones keep their order; NaN counts as the largest. Gradients flow through *values. */
HAUL_API haul_status haul_sort(haul_tensor *x, int axis, bool descending, haul_tensor **values, haul_tensor **indices);
/* The same into two targets. */
HAUL_API haul_status haul_sort_into(haul_tensor *values, haul_tensor *indices, haul_tensor *x, int axis,
                                    bool descending);
/* The indices alone. */
HAUL_API haul_tensor *haul_argsort(haul_tensor *x, int axis, bool descending);
HAUL_API haul_status  haul_argsort_into(haul_tensor *out, haul_tensor *x, int axis, bool descending);

/* The k largest elements along an axis, or the k smallest, best first, and their indices (i64); of equal ones the first
 * comes first. NaN counts as the largest. k is 0 to the axis' length. Gradients flow through *values. */
HAUL_API haul_status haul_topk(haul_tensor *x, int64_t k, int axis, bool largest, haul_tensor **values,
                               haul_tensor **indices);
/* The same into two targets. */
HAUL_API haul_status haul_topk_into(haul_tensor *values, haul_tensor *indices, haul_tensor *x, int64_t k, int axis,
                                    bool largest);

HAUL_END

#endif
