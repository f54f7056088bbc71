/* Operations: what all operations have in common.
 *
 * Every operation returns a new tensor, which the innermost scope owns, on the device of its operands. Operands are
 * never changed unless an entry says so. Gradients flow through every operation whose entry says "Differentiable: yes".
 * Operations on a GPU are submitted and return without waiting.
 *
 * - Axes may be negative: they then count from the end.
 * - A 0-d tensor counts as an axis of one element, which is called 0 or -1. Of the operations that take an axis only
 *   haul_slice, haul_select, haul_split, haul_chunk, haul_cat, haul_roll and haul_repeat_interleave refuse 0-d tensors.
 *   haul_unsqueeze and haul_stack give them an axis.
 * - Operands broadcast as in NumPy where an entry says so.
 * - Dtypes promote where an entry says so: see haul_dtype_promote.
 * - HAUL_SHAPE, HAUL_DTYPE and HAUL_PLACEMENT are the errors for operands whose shapes, dtypes or devices do not fit;
 *   HAUL_INVALID_ARGUMENT is the error for other arguments. The message names the operand.
 *
 * The `_into` forms write into `out` instead. Pointwise operations, reductions, joins, products, convolutions, pooling,
 * softmax, normalisation, losses and random draws have one; haul_operation_describe says which. `out` must have the
 * shape, dtype and device of the result, and may be an operand. It may have any strides, but its elements must not
 * share memory. It may also overlap operands in part, as views of one tensor do: the result is as if all operands were
 * read before `out` is written. While gradients are recorded, neither `out` nor an operand may require one
 * (HAUL_GRAPH). Autocast does not affect these calls: they compute in the dtype to which the operands promote. */
#ifndef HAUL_OPS_H
#define HAUL_OPS_H

#include <haul/base.h>
#include <haul/dtype.h>
#include <haul/error.h>
#include <haul/tensor.h>

HAUL_BEGIN

/* ---- Pointwise operations: one element at a time ----
 * Each operation is a row of pointwise.def, which holds its formula and its gradient. Operands broadcast as in NumPy,
 * and dtypes promote (haul_dtype_promote). Where an entry says so, integers and bool become f32 first.
 *
 * A form whose name ends in `_scalar` has a number as second operand: haul_mul_scalar(x, 0.5). The number does not
 * change the dtype of a floating tensor; with f16 and bf16 it is rounded to f32. With integer tensors:
 *
 * - A number with a fraction makes the result f32, except in comparisons.
 * - Comparisons, haul_maximum_scalar, haul_minimum_scalar and the bounds of haul_clamp and haul_threshold are exact, as
 *   for real numbers: haul_lt_scalar(x, 3e9) is true for every i32.
 * - A number that takes part in arithmetic, or that would become an element of the result, must be a value of the
 *   dtype. Otherwise the call fails with HAUL_INVALID_ARGUMENT. */
#define HAUL_UNARY(name, ...)                                                                                          \
    HAUL_API haul_tensor *haul_##name(haul_tensor *x);                                                                 \
    HAUL_API haul_status  haul_##name##_into(haul_tensor *out, haul_tensor *x);
#define HAUL_UNARY_TO_BOOL(name, ...) HAUL_UNARY(name, __VA_ARGS__)
#define HAUL_UNARY1(name, ...)                                                                                         \
    HAUL_API haul_tensor *haul_##name(haul_tensor *x, double s);                                                       \
    HAUL_API haul_status  haul_##name##_into(haul_tensor *out, haul_tensor *x, double s);
#define HAUL_UNARY2(name, ...)                                                                                         \
    HAUL_API haul_tensor *haul_##name(haul_tensor *x, double s0, double s1);                                           \
    HAUL_API haul_status  haul_##name##_into(haul_tensor *out, haul_tensor *x, double s0, double s1);
#define HAUL_BINARY(name, ...)                                                                                         \
    HAUL_API haul_tensor *haul_##name(haul_tensor *a, haul_tensor *b);                                                 \
    HAUL_API haul_tensor *haul_##name##_scalar(haul_tensor *a, double s);                                              \
    HAUL_API haul_status  haul_##name##_into(haul_tensor *out, haul_tensor *a, haul_tensor *b);                        \
    HAUL_API haul_status  haul_##name##_scalar_into(haul_tensor *out, haul_tensor *a, double s);
#define HAUL_COMPARE(name, ...) HAUL_BINARY(name, __VA_ARGS__)
#define HAUL_INTERNAL(...)
#include <haul/pointwise.def>
#undef HAUL_UNARY
#undef HAUL_UNARY_TO_BOOL
#undef HAUL_UNARY1
#undef HAUL_UNARY2
#undef HAUL_BINARY
#undef HAUL_COMPARE
#undef HAUL_INTERNAL

/* a where `condition` is true, else b. All three broadcast; a and b promote.
 *
 * - condition: bool */
HAUL_API haul_tensor *haul_where(haul_tensor *condition, haul_tensor *a, haul_tensor *b);
HAUL_API haul_status  haul_where_into(haul_tensor *out, haul_tensor *condition, haul_tensor *a, haul_tensor *b);

/* `value` where `mask` is true, else x; both broadcast. The result has x's dtype.
 *
 * - mask: bool
 * - value: a value of x's dtype */
HAUL_API haul_tensor *haul_masked_fill(haul_tensor *x, haul_tensor *mask, double value);
HAUL_API haul_status  haul_masked_fill_into(haul_tensor *out, haul_tensor *x, haul_tensor *mask, double value);

/* Set every element of `out` to `value`, or to 0. While gradients are recorded, an `out` that requires one is refused
 * with HAUL_GRAPH, as in all `_into` forms: fill a parameter with recording off (haul_set_grad_enabled).
 *
 * - value: for an integer dtype a whole number in its range */
HAUL_API haul_status haul_fill_into(haul_tensor *out, double value);
HAUL_API haul_status haul_zero_into(haul_tensor *out);

/* Copy x to `out`, converted to the dtype of `out` and broadcast to its shape. x may be on another device. Gradients do
 * not flow: while gradients are recorded, an x that requires one is refused with HAUL_GRAPH. */
HAUL_API haul_status haul_copy_into(haul_tensor *out, haul_tensor *x);

/* ---- Creating tensors: zeros, ones, numbers and ranges ----
 * New tensors are on the calling thread's current device (haul_set_device), or, for the functions whose names end in
 * `_like`, on the device of x. random.h makes tensors of random numbers, haul_from_host tensors from an array. */
HAUL_API haul_tensor *haul_empty(haul_dtype dtype, haul_shape shape); /* A tensor whose elements are not set. */

/* A tensor of zeros, or of ones. */
HAUL_API haul_tensor *haul_zeros(haul_dtype dtype, haul_shape shape);
HAUL_API haul_tensor *haul_ones(haul_dtype dtype, haul_shape shape);

/* A tensor whose elements are all `value`.
 *
 * - value: for an integer dtype a whole number in its range */
HAUL_API haul_tensor *haul_full(haul_dtype dtype, haul_shape shape, double value);

typedef struct HAUL__DESIGNATED haul_scalar_options {
    double value; /* the number; positional */
    HAUL__GUARD(dtype)
    haul_dtype dtype; /* the dtype of the tensor; default HAUL_F32 */
} haul_scalar_options;

/* A tensor without dimensions: haul_scalar(2), haul_scalar(0.1, .dtype = HAUL_F64). It promotes like any other tensor:
 * one of f32 makes f16 operands f32, and with f64 operands its value is still rounded to f32. haul_mul_scalar(x, 0.1)
 * and similar functions keep x's dtype. */
#define haul_scalar(...)                                                                                               \
    haul_scalar_with(                                                                                                  \
        HAUL__OPTIONS(haul_scalar_options, .value = (double)(HAUL__FIRST(__VA_ARGS__, )), HAUL__TAIL(__VA_ARGS__, )))
HAUL_API haul_tensor *haul_scalar_with(const haul_scalar_options *options);

/* start, start + step, start + 2 step ... up to, but without, `stop`, as a tensor of one dimension:
 * haul_arange(HAUL_F32, 0, 1, 0.25) is [0, 0.25, 0.5, 0.75]. A step that leads away from `stop` gives no elements; a
 * step of 0 fails.
 *
 * For an integer dtype haul_arange refuses a start, stop or step of 2^53 or more, because doubles cannot represent all
 * whole numbers there. haul_arange_i64 makes i64 from every i64. */
HAUL_API haul_tensor *haul_arange(haul_dtype dtype, double start, double stop, double step);
HAUL_API haul_tensor *haul_arange_i64(int64_t start, int64_t stop, int64_t step);

/* `count` evenly spaced numbers from `start` to `stop`, both exact: linspace(0, 1, 5) is 0, 0.25, 0.5, 0.75, 1. One
 * number is `start`.
 *
 * - dtype: a floating dtype */
HAUL_API haul_tensor *haul_linspace(haul_dtype dtype, double start, double stop, int64_t count);

/* A matrix of zeros with ones on its main diagonal. */
HAUL_API haul_tensor *haul_eye(haul_dtype dtype, int64_t rows, int64_t columns);

/* A tensor with x's shape, dtype and device, and the same order of dimensions in memory: of zeros, of ones, of `value`,
 * or with elements that are not set.
 *
 * - value: for an integer dtype a whole number in its range */
HAUL_API haul_tensor *haul_zeros_like(haul_tensor *x);
HAUL_API haul_tensor *haul_ones_like(haul_tensor *x);
HAUL_API haul_tensor *haul_full_like(haul_tensor *x, double value);
HAUL_API haul_tensor *haul_empty_like(haul_tensor *x);

/* ---- Reductions: sums, means, extremes, norms ----
 * A reduction is over all axes, or over those of HAUL_AXES:
 *
 *     haul_tensor *all = haul_sum(x);
 *     haul_tensor *columns = haul_sum(x, HAUL_AXES(0));
 *     haul_tensor *last = haul_mean(x, HAUL_AXES(-1), .keepdim = true);
 *
 * The reduced axes are gone from the result's shape, or have size 1 with .keepdim. The order of additions depends only
 * on shape and layout, so results are the same every time. */

/* The axes of a reduction, as HAUL_AXES writes them. Other languages fill the struct in. */
typedef struct HAUL__DESIGNATED haul_axes {
    HAUL__GUARD(count)
    int count;               /* how many of `axes` there are; 0 for all axes */
    int axes[HAUL_MAX_DIMS]; /* the axes; negative ones count from the end */
} haul_axes;

typedef struct HAUL__DESIGNATED haul_reduce_options {
    haul_tensor *x; /* the operand; positional */
    HAUL__GUARD(axes)
    haul_axes haul__axes; /* the axes, written HAUL_AXES(0, 2); default all axes */
    bool      keepdim;    /* keep reduced axes with size 1 */
} haul_reduce_options;

/* The axes of a reduction or of haul_flip: HAUL_AXES(0, 2). Stands among the options of a call. */
#define HAUL_AXES(...) .haul__axes = {.count = HAUL__COUNT(int, __VA_ARGS__), .axes = {__VA_ARGS__}}

#define haul_sum(...)       haul_sum_with(HAUL__OPTIONS(haul_reduce_options, .x = __VA_ARGS__))
#define haul_mean(...)      haul_mean_with(HAUL__OPTIONS(haul_reduce_options, .x = __VA_ARGS__))
#define haul_max(...)       haul_max_with(HAUL__OPTIONS(haul_reduce_options, .x = __VA_ARGS__))
#define haul_min(...)       haul_min_with(HAUL__OPTIONS(haul_reduce_options, .x = __VA_ARGS__))
#define haul_prod(...)      haul_prod_with(HAUL__OPTIONS(haul_reduce_options, .x = __VA_ARGS__))
#define haul_any(...)       haul_any_with(HAUL__OPTIONS(haul_reduce_options, .x = __VA_ARGS__))
#define haul_all(...)       haul_all_with(HAUL__OPTIONS(haul_reduce_options, .x = __VA_ARGS__))
#define haul_logsumexp(...) haul_logsumexp_with(HAUL__OPTIONS(haul_reduce_options, .x = __VA_ARGS__))

/* The sum. Sums of bool and integers, u8 included, are i64; sums of floats keep their dtype. The sum of no elements is
 * 0. */
HAUL_API haul_tensor *haul_sum_with(const haul_reduce_options *options);

/* The mean of a floating tensor, also where the sum is larger than the dtype holds. The mean of no elements is NaN. */
HAUL_API haul_tensor *haul_mean_with(const haul_reduce_options *options);

/* The largest, or smallest, element. NaN if any element is NaN. Equal extremes share the gradient. Fails with
 * HAUL_SHAPE if there are no elements. haul_max_with_indices also gives the index. */
HAUL_API haul_tensor *haul_max_with(const haul_reduce_options *options);
HAUL_API haul_tensor *haul_min_with(const haul_reduce_options *options);

/* The product. Dtypes are those of haul_sum. The product of no elements is 1. The gradient is exact even where elements
 * are 0. */
HAUL_API haul_tensor *haul_prod_with(const haul_reduce_options *options);

/* haul_any is true if any element is true, haul_all if every element is. An element is true if it is not 0; NaN is
 * true. The result is bool; of no elements haul_any is false and haul_all is true. */
HAUL_API haul_tensor *haul_any_with(const haul_reduce_options *options);
HAUL_API haul_tensor *haul_all_with(const haul_reduce_options *options);

/* log(sum(exp(x))) without overflow. Integers and bool become f32 first. -infinity if there are no elements. */
HAUL_API haul_tensor *haul_logsumexp_with(const haul_reduce_options *options);

#define haul_sum_into(out, ...)  haul_sum_into_with(out, HAUL__OPTIONS(haul_reduce_options, .x = __VA_ARGS__))
#define haul_mean_into(out, ...) haul_mean_into_with(out, HAUL__OPTIONS(haul_reduce_options, .x = __VA_ARGS__))
#define haul_max_into(out, ...)  haul_max_into_with(out, HAUL__OPTIONS(haul_reduce_options, .x = __VA_ARGS__))
#define haul_min_into(out, ...)  haul_min_into_with(out, HAUL__OPTIONS(haul_reduce_options, .x = __VA_ARGS__))
#define haul_prod_into(out, ...) haul_prod_into_with(out, HAUL__OPTIONS(haul_reduce_options, .x = __VA_ARGS__))
#define haul_any_into(out, ...)  haul_any_into_with(out, HAUL__OPTIONS(haul_reduce_options, .x = __VA_ARGS__))
#define haul_all_into(out, ...)  haul_all_into_with(out, HAUL__OPTIONS(haul_reduce_options, .x = __VA_ARGS__))
#define haul_logsumexp_into(out, ...)                                                                                  \
    haul_logsumexp_into_with(out, HAUL__OPTIONS(haul_reduce_options, .x = __VA_ARGS__))
HAUL_API haul_status haul_sum_into_with(haul_tensor *out, const haul_reduce_options *options);
HAUL_API haul_status haul_mean_into_with(haul_tensor *out, const haul_reduce_options *options);
HAUL_API haul_status haul_max_into_with(haul_tensor *out, const haul_reduce_options *options);
HAUL_API haul_status haul_min_into_with(haul_tensor *out, const haul_reduce_options *options);
HAUL_API haul_status haul_prod_into_with(haul_tensor *out, const haul_reduce_options *options);
HAUL_API haul_status haul_any_into_with(haul_tensor *out, const haul_reduce_options *options);
HAUL_API haul_status haul_all_into_with(haul_tensor *out, const haul_reduce_options *options);
HAUL_API haul_status haul_logsumexp_into_with(haul_tensor *out, const haul_reduce_options *options);

typedef struct HAUL__DESIGNATED haul_var_options {
    haul_tensor *x; /* the operand, of a floating dtype; positional */
    HAUL__GUARD(axes)
    haul_axes haul__axes; /* the axes, written HAUL_AXES(0, 2); default all axes */
    bool      keepdim;    /* keep reduced axes with size 1 */
    double    correction; /* subtracted from the number of elements; default 1; HAUL_ZERO gives the biased variance */
} haul_var_options;

/* The variance, or its square root, the standard deviation, over n elements: sum((x - mean)^2) / max(0, n -
 * correction). Deviations are taken before they are squared, so a large mean costs no digits. Squares do not leave the
 * range of the dtype: haul_std of 1e30 or 1e-30 is exact in f32. NaN where n is 0, or where n and the correction are
 * both 1. The gradient of haul_std is 0 where the result is 0. */
#define haul_var(...)           haul_var_with(HAUL__OPTIONS(haul_var_options, .x = __VA_ARGS__))
#define haul_std(...)           haul_std_with(HAUL__OPTIONS(haul_var_options, .x = __VA_ARGS__))
#define haul_var_into(out, ...) haul_var_into_with(out, HAUL__OPTIONS(haul_var_options, .x = __VA_ARGS__))
#define haul_std_into(out, ...) haul_std_into_with(out, HAUL__OPTIONS(haul_var_options, .x = __VA_ARGS__))
HAUL_API haul_tensor *haul_var_with(const haul_var_options *options);
HAUL_API haul_tensor *haul_std_with(const haul_var_options *options);
HAUL_API haul_status  haul_var_into_with(haul_tensor *out, const haul_var_options *options);
HAUL_API haul_status  haul_std_into_with(haul_tensor *out, const haul_var_options *options);

typedef struct HAUL__DESIGNATED haul_norm_options {
    haul_tensor *x; /* the operand; positional */
    HAUL__GUARD(axes)
    haul_axes haul__axes; /* the axes, written HAUL_AXES(0, 2); default all axes */
    bool      keepdim;    /* keep reduced axes with size 1 */
    double    p;          /* the exponent; INFINITY and -INFINITY are allowed; default 2; HAUL_ZERO for zero */
} haul_norm_options;

/* The vector norm, (sum |x|^p)^(1/p). For p = INFINITY it is the largest |x|, for -INFINITY the least, for 0 the number
 * of elements that are not 0. Squares and powers do not leave the range of the dtype: the norm is infinite or 0 only if
 * the dtype does not hold it. Integers and bool become f32 first. The norm of no elements is 0; a negative p fails
 * then. The gradient is 0 where the norm is 0. */
#define haul_norm(...)           haul_norm_with(HAUL__OPTIONS(haul_norm_options, .x = __VA_ARGS__))
#define haul_norm_into(out, ...) haul_norm_into_with(out, HAUL__OPTIONS(haul_norm_options, .x = __VA_ARGS__))
HAUL_API haul_tensor *haul_norm_with(const haul_norm_options *options);
HAUL_API haul_status  haul_norm_into_with(haul_tensor *out, const haul_norm_options *options);

/* The index (i64) of the largest, or smallest, element along one axis: the first of equals. NaN counts as the largest
 * for haul_argmax and as the smallest for haul_argmin.
 *
 * - keepdim: keep the axis, with size 1 */
HAUL_API haul_tensor *haul_argmax(haul_tensor *x, int axis, bool keepdim);
HAUL_API haul_tensor *haul_argmin(haul_tensor *x, int axis, bool keepdim);
HAUL_API haul_status  haul_argmax_into(haul_tensor *out, haul_tensor *x, int axis, bool keepdim);
HAUL_API haul_status  haul_argmin_into(haul_tensor *out, haul_tensor *x, int axis, bool keepdim);

/* Running sums along an axis: element i of a line is the sum of its elements 0 to i. Sums of bool and integers are i64.
 *
 * Lines of more than 1024 elements are summed in blocks of that size, and each block then gets the sum of those before
 * it: the order of additions depends only on the shape. */
HAUL_API haul_tensor *haul_cumsum(haul_tensor *x, int axis);
HAUL_API haul_status  haul_cumsum_into(haul_tensor *out, haul_tensor *x, int axis);

/* ---- Shape and layout: views, joins, parts, memory formats ----
 * haul_view, haul_permute, haul_transpose, haul_expand, haul_squeeze, haul_unsqueeze, haul_slice, haul_select,
 * haul_split and haul_chunk give views: they share memory with their operand, and copy nothing. haul_reshape and
 * haul_flatten give a view where strides allow it and copy otherwise. */

/* The elements of x, row-major, in another shape. A view if the strides of x allow it, else a copy. Fails with
 * HAUL_SHAPE if the shape has another number of elements; one size may be -1 and is then computed from the others. */
HAUL_API haul_tensor *haul_reshape(haul_tensor *x, haul_shape shape);

/* The elements of x in another shape, always as a view. Fails if strides cannot express the shape; haul_reshape copies
 * then. One size may be -1. */
HAUL_API haul_tensor *haul_view(haul_tensor *x, haul_shape shape);

/* X with all axes from first_axis on joined into one. */
HAUL_API haul_tensor *haul_flatten(haul_tensor *x, int first_axis);

/* A view whose axis i is axis axes[i] of x: HAUL_SHAPE(2, 3, 4) permuted by {2, 0, 1} is HAUL_SHAPE(4, 2, 3).
 *
 * - axes: names each axis of x once
 * - count: the number of `axes`, which is that of x */
HAUL_API haul_tensor *haul_permute(haul_tensor *x, const int *axes, int count);
HAUL_API haul_tensor *haul_transpose(haul_tensor *x, int a, int b); /* a view with axes a and b exchanged */

/* A view in which axes of size 1 repeat without a copy: [3, 1] expands to [3, 4]. `shape` may have more dimensions than
 * x, the first ones; a size of -1 keeps that of x. */
HAUL_API haul_tensor *haul_expand(haul_tensor *x, haul_shape shape);

HAUL_API haul_tensor *haul_squeeze(haul_tensor *x, int axis); /* a view without an axis, which must have size 1 */

/* A view with a new axis of size 1 before `axis`; -1 puts it at the end. */
HAUL_API haul_tensor *haul_unsqueeze(haul_tensor *x, int axis);

/* A view of the elements start, start + step, start + 2 step ... below stop of one axis.
 *
 * - start, stop: negative values count from the end; values out of range are clamped, as in Python
 * - step: at least 1 */
HAUL_API haul_tensor *haul_slice(haul_tensor *x, int axis, int64_t start, int64_t stop, int64_t step);

/* A view at one index of an axis, without that axis. A negative index counts from the end; an index out of range fails.
 */
HAUL_API haul_tensor *haul_select(haul_tensor *x, int axis, int64_t index);

/* A view of a diagonal of two axes, which becomes the last axis: haul_diagonal(matrix, 0, -2, -1).
 *
 * - offset: 0 is the main diagonal, 1 the one above it, -1 the one below it; others may be empty
 * - rows, columns: the two axes */
HAUL_API haul_tensor *haul_diagonal(haul_tensor *x, int64_t offset, int rows, int columns);

/* Matrices of zeros with the rows of x, its last axis, on a diagonal: [.., n] becomes [.., m, m], where m is n plus the
 * distance of the diagonal from the main one.
 *
 * - offset: as for haul_diagonal */
HAUL_API haul_tensor *haul_diag_embed(haul_tensor *x, int64_t offset);

/* The elements of windows of an axis: window i has the elements i step to i step + size - 1, and is at index i of the
 * axis; the elements of a window are along a new last axis. Windows that do not fit are left out. A copy.
 *
 * - size: from 1 to the length of the axis
 * - step: at least 1 */
HAUL_API haul_tensor *haul_windows(haul_tensor *x, int axis, int64_t size, int64_t step);

/* Views of vectors as coordinates of a grid: grid i has the elements of vector i along axis i, and repeats them along
 * the others (`indexing="ij"` of PyTorch). On failure every grid is a failed tensor.
 *
 * - xs: `count` tensors of at most one dimension
 * - grids: gets `count` tensors */
HAUL_API haul_status haul_meshgrid(haul_tensor *const *xs, int count, haul_tensor **grids);

/* Cut x along an axis into `count` parts, which are views. On failure every part is a failed tensor.
 *
 * - sizes: the sizes of the parts; they add up to the length of the axis
 * - parts: gets `count` tensors
 *
 * The parts of haul_chunk have ceil(length / count) elements; the last ones have fewer, or none, if the length is not a
 * multiple of that. */
HAUL_API haul_status haul_split(haul_tensor *x, int axis, const int64_t *sizes, int count, haul_tensor **parts);
HAUL_API haul_status haul_chunk(haul_tensor *x, int axis, int count, haul_tensor **parts);

/* x with zeros above (haul_tril) or below (haul_triu) a diagonal of its last two axes.
 *
 * - diagonal: 0 is the main diagonal, 1 the one above it, -1 the one below it; the diagonal itself stays */
HAUL_API haul_tensor *haul_tril(haul_tensor *x, int64_t diagonal);
HAUL_API haul_tensor *haul_triu(haul_tensor *x, int64_t diagonal);

/* What haul_pad puts around x, for x = [1, 2, 3, 4] with two elements before it and two after it.
 *
 * - HAUL_PAD_CONSTANT: `v v 1 2 3 4 v v`, where v is .value; negative sizes remove elements
 * - HAUL_PAD_REFLECT: `3 2 1 2 3 4 3 2`; at most length - 1 elements
 * - HAUL_PAD_REPLICATE: `1 1 1 2 3 4 4 4`
 * - HAUL_PAD_CIRCULAR: `3 4 1 2 3 4 1 2`; at most length elements */
typedef enum haul_pad_mode { HAUL_PAD_CONSTANT, HAUL_PAD_REFLECT, HAUL_PAD_REPLICATE, HAUL_PAD_CIRCULAR } haul_pad_mode;

/* The sizes of a padding, as HAUL_PADS writes them. Other languages fill the struct in. */
typedef struct HAUL__DESIGNATED haul_pads {
    HAUL__GUARD(count)
    int     count;     /* how many `sizes` there are */
    int64_t sizes[16]; /* elements before and after the last axis, before and after the one before it, and so on */
} haul_pads;

typedef struct HAUL__DESIGNATED haul_pad_options {
    haul_tensor *x; /* the operand; positional */
    HAUL__GUARD(pads)
    haul_pads     haul__pads; /* the sizes, written HAUL_PADS(1, 1) */
    haul_pad_mode mode;       /* what to put around x; default HAUL_PAD_CONSTANT */
    double        value;      /* the element of HAUL_PAD_CONSTANT, a value of x's dtype; default 0 */
} haul_pad_options;

/* The sizes of a padding, in PyTorch's order: pairs of before and after, the pair of the last axis first. Stands among
 * the options of a call. */
#define HAUL_PADS(...) .haul__pads = {.count = HAUL__COUNT(int64_t, __VA_ARGS__), .sizes = {__VA_ARGS__}}

/* x with elements added around it: haul_pad(image, HAUL_PADS(left, right, top, bottom), .mode = HAUL_PAD_REFLECT). */
#define haul_pad(...)           haul_pad_with(HAUL__OPTIONS(haul_pad_options, .x = __VA_ARGS__))
#define haul_pad_into(out, ...) haul_pad_into_with(out, HAUL__OPTIONS(haul_pad_options, .x = __VA_ARGS__))
HAUL_API haul_tensor *haul_pad_with(const haul_pad_options *options);
HAUL_API haul_status  haul_pad_into_with(haul_tensor *out, const haul_pad_options *options);

typedef struct HAUL__DESIGNATED haul_flip_options {
    haul_tensor *x; /* the operand; positional */
    HAUL__GUARD(axes)
    haul_axes haul__axes; /* the axes, written HAUL_AXES(0, 2); default all axes */
} haul_flip_options;

/* x with the elements of some axes in reverse order: haul_flip(x, HAUL_AXES(-1)). */
#define haul_flip(...) haul_flip_with(HAUL__OPTIONS(haul_flip_options, .x = __VA_ARGS__))
HAUL_API haul_tensor *haul_flip_with(const haul_flip_options *options);

/* x with its elements moved by `shift` places along an axis. Elements that leave at one end come in at the other. */
HAUL_API haul_tensor *haul_roll(haul_tensor *x, int64_t shift, int axis);

/* Copies of x one after the other, times.dims[d] of them along axis d: haul_repeat(x, HAUL_SHAPE(2, 1)). haul_expand
 * repeats axes of size 1 without copying.
 *
 * - times: may have more dimensions than x, the first ones */
HAUL_API haul_tensor *haul_repeat(haul_tensor *x, haul_shape times);

/* Each element repeated `times` times along an axis: [1, 2] becomes [1, 1, 2, 2] for 2. */
HAUL_API haul_tensor *haul_repeat_interleave(haul_tensor *x, int64_t times, int axis);

/* The order of a tensor's elements in memory. The shape does not change: a channels-last tensor is [N, C, H, W] like
 * any other, with the strides of [N, H, W, C]. */
typedef enum haul_memory_format {
    HAUL_CONTIGUOUS,   /* row-major, without gaps */
    HAUL_CHANNELS_LAST /* for 4-d tensors: the channels of a pixel next to each other */
} haul_memory_format;

/* x in a memory format. Shares x's memory if it has that format already. haul_contiguous(x) is haul_to_memory_format(x,
 * HAUL_CONTIGUOUS).
 *
 * Results of pointwise operations, copies and moves have the memory format of their first operand that has the full
 * shape; convolution, pooling and batch normalisation keep channels-last input channels-last. */
HAUL_API haul_tensor *haul_to_memory_format(haul_tensor *x, haul_memory_format format);
HAUL_API haul_tensor *haul_contiguous(haul_tensor *x);

/* Join `count` tensors along an axis: haul_cat along an existing axis, haul_stack along a new one. Dtypes promote. For
 * haul_cat all other sizes are equal; for haul_stack all shapes are.
 *
 * - xs: the tensors
 * - axis: for haul_stack the position of the new axis in the result */
HAUL_API haul_tensor *haul_cat(haul_tensor *const *xs, int count, int axis);
HAUL_API haul_tensor *haul_stack(haul_tensor *const *xs, int count, int axis);
HAUL_API haul_status  haul_cat_into(haul_tensor *out, haul_tensor *const *xs, int count, int axis);
HAUL_API haul_status  haul_stack_into(haul_tensor *out, haul_tensor *const *xs, int count, int axis);

/* ---- Linear algebra: products and attention ----
 * On the CPU a product runs on all threads; on NVIDIA GPUs it runs in cuBLASLt if that is installed.
 * haul_set_matmul_precision trades precision for speed there. */

/* The products of each element of a and each element of b: haul_outer of [n] and [m] is [n, m]; haul_kron has a copy of
 * b, times that element, in place of each element of a (the Kronecker product; at most 4 dimensions). Dtypes promote.
 */
HAUL_API haul_tensor *haul_outer(haul_tensor *a, haul_tensor *b);
HAUL_API haul_tensor *haul_kron(haul_tensor *a, haul_tensor *b);

/* The matrix product of the last two axes: [..., m, k] times [..., k, n] gives [..., m, n]. Leading axes broadcast. An
 * operand of one dimension is treated as in NumPy. Dtypes promote; bool is refused. The result is row-major; but if b
 * is a view [..., heads, k, n] of [..., k, heads, n], as in attention, the result is a view of [..., m, heads, n].
 *
 * i32 and i64 give the same dtype and wrap around. u8, i8 and i16 accumulate in i32 and give i32; PyTorch keeps their
 * dtype, in which sums overflow. */
HAUL_API haul_tensor *haul_matmul(haul_tensor *a, haul_tensor *b);
HAUL_API haul_status  haul_matmul_into(haul_tensor *out, haul_tensor *a, haul_tensor *b);

typedef struct HAUL__DESIGNATED haul_linear_options {
    haul_tensor *weight; /* [out, in]; positional */
    HAUL__GUARD(bias)
    haul_tensor *bias; /* [out]; default zeros */
    bool relu; /* return max(result, 0), fused where supported; NaN may become 0, whereas haul_relu propagates it */
} haul_linear_options;

/* x [..., in] times the transposed weight [out, in], plus bias: haul_linear(x, weight, .bias = b, .relu = true). The
 * result is [..., out]. Dtypes are those of haul_matmul.
 *
 * - x: [..., in] */
#define haul_linear(x, ...) haul_linear_with(x, HAUL__OPTIONS(haul_linear_options, .weight = __VA_ARGS__))
HAUL_API haul_tensor *haul_linear_with(haul_tensor *x, const haul_linear_options *options);
#define haul_linear_into(out, x, ...)                                                                                  \
    haul_linear_into_with(out, x, HAUL__OPTIONS(haul_linear_options, .weight = __VA_ARGS__))
HAUL_API haul_status haul_linear_into_with(haul_tensor *out, haul_tensor *x, const haul_linear_options *options);

/* Attention (Vaswani et al. 2017): softmax(query key^T scale + mask) value. The result is [..., L, E]. Leading axes,
 * for example batch and heads, broadcast. A query without keys, because all of its scores are masked or S is 0, gives
 * zeros, and its gradients are finite. Scores and weights of f16 and bf16 operands are f32, and the result is rounded
 * once; within autocast the products are computed in its dtype.
 *
 * More than 1024 queries, or 512 if it is causal, are taken in blocks: the memory for scores then grows with S alone,
 * in the backward pass, too, which computes the weights again. Scores that a whole block does not count are not
 * computed. With dropout, a mask that requires a gradient, a second derivative, and within autocast all scores exist at
 * a time.
 *
 *     haul_tensor *y = haul_attention(q, k, v, .causal = true);
 *
 * - query: [..., L, D]
 * - key: [..., S, D] */
typedef struct HAUL__DESIGNATED haul_attention_options {
    haul_tensor *value; /* [..., S, E]; positional */
    HAUL__GUARD(mask)
    /* [..., L, S], broadcasts: bool, true where a score counts, or floats that are added to the scores */
    haul_tensor *mask;
    bool         causal;  /* row i of the query counts only rows 0 to i of the key */
    double       scale;   /* factor of the scores; default 1 / sqrt(D) */
    double       dropout; /* probability with which a weight becomes 0, also in evaluation; default 0 */
} haul_attention_options;
#define haul_attention(query, key, ...)                                                                                \
    haul_attention_with(query, key, HAUL__OPTIONS(haul_attention_options, .value = __VA_ARGS__))
HAUL_API haul_tensor *haul_attention_with(haul_tensor *query, haul_tensor *key, const haul_attention_options *options);

/* The precision of f32 products and convolutions.
 *
 * - HAUL_PRECISION_HIGHEST: full f32
 * - HAUL_PRECISION_HIGH: devices with TF32 units (NVIDIA GPUs since Ampere, with cuBLASLt and cuDNN) may round the
 *   factors to 10 bits of mantissa, which is several times faster; sums stay f32. Other devices and dtypes are not
 *   affected */
typedef enum haul_precision { HAUL_PRECISION_HIGHEST, HAUL_PRECISION_HIGH } haul_precision;

/* The precision of products and convolutions on the calling thread; HAUL_PRECISION_HIGHEST unless set. Popping the
 * scope restores it. haul_backward uses the precision that is set on the calling thread when it runs. */
HAUL_API haul_status    haul_set_matmul_precision(haul_precision precision);
HAUL_API haul_precision haul_matmul_precision(void);

/* ---- Normalisation and dropout: softmax, batch, layer and RMS normalisation ----
 * Statistics of f16 and bf16 operands are computed in f32. */

/* exp(x) / sum(exp(x)) along an axis, or its logarithm, without overflow. Integers and bool become f32 first. */
HAUL_API haul_tensor *haul_softmax(haul_tensor *x, int axis);
HAUL_API haul_tensor *haul_log_softmax(haul_tensor *x, int axis);
HAUL_API haul_status  haul_softmax_into(haul_tensor *out, haul_tensor *x, int axis);
HAUL_API haul_status  haul_log_softmax_into(haul_tensor *out, haul_tensor *x, int axis);

/* Batch normalisation (Ioffe, Szegedy 2015) over all axes but axis 1: (x - mean) / sqrt(var + eps) weight + bias.
 *
 * In training, mean and var are the batch's own, with the biased variance. The running statistics, if given, become
 * (1 - momentum) running + momentum batch, with the unbiased variance, as in PyTorch. In evaluation, mean and var are
 * the running statistics. The batch's deviations may be so large that the dtype does not hold their squares; the
 * running variance is infinite then. */
typedef struct HAUL__DESIGNATED haul_batch_norm_options {
    haul_tensor *x; /* [N, C, ...]; positional */
    HAUL__GUARD(weight)
    haul_tensor *weight;                     /* [C]; default ones */
    haul_tensor *bias;                       /* [C]; default zeros */
    haul_tensor *running_mean, *running_var; /* [C] each, updated in place in training; give both or neither */
    bool         training;                   /* use the batch's own statistics and update the running ones */
    /* weight of the new batch in the running statistics, must not be negative; default 0.1; HAUL_ZERO leaves them
     * unchanged */
    double momentum;
    double eps; /* added to the variance, must not be negative; default 1e-5; HAUL_ZERO for zero */
} haul_batch_norm_options;

#define haul_batch_norm(...) haul_batch_norm_with(HAUL__OPTIONS(haul_batch_norm_options, .x = __VA_ARGS__))
#define haul_batch_norm_into(out, ...)                                                                                 \
    haul_batch_norm_into_with(out, HAUL__OPTIONS(haul_batch_norm_options, .x = __VA_ARGS__))
HAUL_API haul_tensor *haul_batch_norm_with(const haul_batch_norm_options *options);
HAUL_API haul_status  haul_batch_norm_into_with(haul_tensor *out, const haul_batch_norm_options *options);

/* Layer normalisation (Ba, Kiros, Hinton 2016) over the last axis: (x - mean) / sqrt(var + eps) weight + bias, with the
 * mean and biased variance of each row of x, whose squares the dtype need not hold. Operands are promoted; integers and
 * bool become f32 first. */
typedef struct HAUL__DESIGNATED haul_layer_norm_options {
    haul_tensor *x; /* [..., n]; positional */
    HAUL__GUARD(weight)
    haul_tensor *weight; /* [n]; default ones */
    haul_tensor *bias;   /* [n]; default zeros */
    double       eps;    /* added to the variance; default 1e-5; HAUL_ZERO for zero; must not be negative */
} haul_layer_norm_options;

#define haul_layer_norm(...) haul_layer_norm_with(HAUL__OPTIONS(haul_layer_norm_options, .x = __VA_ARGS__))
#define haul_layer_norm_into(out, ...)                                                                                 \
    haul_layer_norm_into_with(out, HAUL__OPTIONS(haul_layer_norm_options, .x = __VA_ARGS__))
HAUL_API haul_tensor *haul_layer_norm_with(const haul_layer_norm_options *o);
HAUL_API haul_status  haul_layer_norm_into_with(haul_tensor *out, const haul_layer_norm_options *o);

/* RMS normalisation (Zhang, Sennrich 2019) over the last axis: x / sqrt(mean(x^2) + eps) weight, also where the dtype
 * does not hold x^2. Operands are promoted; integers and bool become f32 first. */
typedef struct HAUL__DESIGNATED haul_rms_norm_options {
    haul_tensor *x; /* [..., n]; positional */
    HAUL__GUARD(weight)
    haul_tensor *weight; /* [n]; default ones */
    /* added to the mean of squares; default 1e-5 (PyTorch's is the dtype's epsilon); HAUL_ZERO for zero; must not be
     * negative */
    double eps;
} haul_rms_norm_options;

#define haul_rms_norm(...) haul_rms_norm_with(HAUL__OPTIONS(haul_rms_norm_options, .x = __VA_ARGS__))
#define haul_rms_norm_into(out, ...)                                                                                   \
    haul_rms_norm_into_with(out, HAUL__OPTIONS(haul_rms_norm_options, .x = __VA_ARGS__))
HAUL_API haul_tensor *haul_rms_norm_with(const haul_rms_norm_options *o);
HAUL_API haul_status  haul_rms_norm_into_with(haul_tensor *out, const haul_rms_norm_options *o);

/* Dropout (Srivastava et al. 2014). In training, set each element to 0 with probability p and multiply the others by
 * 1 / (1 - p). Otherwise return x as a new handle that shares its memory. Draws from the calling thread's generator
 * (haul_set_generator). */
HAUL_API haul_tensor *haul_dropout(haul_tensor *x, double p, bool training);
HAUL_API haul_status  haul_dropout_into(haul_tensor *out, haul_tensor *x, double p, bool training);

HAUL_END

#endif
