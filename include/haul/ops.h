/* Operations on tensors.
 *
 * Every operation returns a fresh tensor owned by the innermost scope, on the device of its operands, and is
 * differentiable unless it says otherwise. Axes may be negative and then count from the end. Operands are never
 * changed, unless an operation says so.
 *
 * The _into forms write into `out` instead. Pointwise operations, reductions, joins, products, convolutions, pooling,
 * softmax, normalisation, losses and random draws have one; haul_operation_describe (operation.h) says which. `out`
 * must have the result's shape, dtype and device, and may be an operand. Its strides may be any, but its elements may
 * not share memory. While gradients are recorded neither `out` nor an operand may require one (HAUL_GRAPH). Autocast
 * leaves these calls alone: they compute in what the operands promote to. */
#ifndef HAUL_OPS_H
#define HAUL_OPS_H

#include <haul/base.h>
#include <haul/dtype.h>
#include <haul/error.h>
#include <haul/tensor.h>

HAUL_BEGIN

/* ---- pointwise: the rows of pointwise.def, which has the formulas and gradients ----
 * haul_clamp(x, low, high); haul_threshold(x, t, value): x where x > t, else value; haul_affine(x, scale, shift);
 * haul_leaky_relu(x, slope, 0). Where pointwise.def says FLOAT or WIDE, integers and bool give f32.
 *
 * haul_div is true division; integers become f32 first, so i64 beyond 2^24 are rounded, as in PyTorch. haul_floor_div
 * is the greatest whole number not above a / b. haul_remainder is a - b floor(a / b). It has the sign of b, and its
 * magnitude is below that of b unless rounding makes them equal. Both are exact for integers. If an integer b is 0,
 * both give 0; for floats the remainder is then NaN and the quotient a / b. The gradient of haul_floor_div is zero.
 * haul_pow of integers is an integer and wraps around. A negative exponent gives 0 unless a is 1 or -1;
 * haul_pow_scalar refuses it. haul_logical_and, _or, _xor and _not take any dtype and give bool.
 * haul_clamp gives high where low > high, and NaN where a bound is NaN. haul_sign(NaN) is NaN. haul_floor, haul_ceil
 * and haul_round leave integers as they are; haul_round rounds halves to even. haul_gelu is the exact form.
 * haul_bce_elements(x, target) is haul_bce_with_logits before the mean.
 *
 * Scalars with integer tensors: a scalar with a fraction makes the result f32, except in comparisons. Comparisons and
 * the bounds of haul_clamp, haul_maximum_scalar, haul_minimum_scalar and haul_threshold are exact, as for real numbers:
 * haul_lt_scalar(x, 3e9) is true for every i32. A scalar that takes part in arithmetic, or that would become an element
 * of the result, must be a value of the dtype; otherwise the call fails with HAUL_INVALID_ARGUMENT. */
#define HAUL_UNARY(name, ...)                                                                                          \
    HAUL_API haul_tensor *haul_##name(haul_tensor *x);                                                                 \
    HAUL_API haul_status  haul_##name##_into(haul_tensor *out, haul_tensor *x);
#define HAUL_UNARY_TO_BOOL(name, ...) HAUL_UNARY(name, __VA_ARGS__)
#define HAUL_UNARY2(name, ...)                                                                                         \
    HAUL_API haul_tensor *haul_##name(haul_tensor *x, double s0, double s1);                                           \
    HAUL_API haul_status  haul_##name##_into(haul_tensor *out, haul_tensor *x, double s0, double s1);
#define HAUL_BINARY(name, ...)                                                                                         \
    HAUL_API haul_tensor *haul_##name(haul_tensor *a, haul_tensor *b);                                                 \
    HAUL_API haul_tensor *haul_##name##_scalar(haul_tensor *a, double s);                                              \
    HAUL_API haul_status  haul_##name##_into(haul_tensor *out, haul_tensor *a, haul_tensor *b);                        \
    HAUL_API haul_status  haul_##name##_scalar_into(haul_tensor *out, haul_tensor *a, double s);
#define HAUL_COMPARE(name, ...) HAUL_BINARY(name, __VA_ARGS__)
#include <haul/pointwise.def>
#undef HAUL_UNARY
#undef HAUL_UNARY_TO_BOOL
#undef HAUL_UNARY2
#undef HAUL_BINARY
#undef HAUL_COMPARE

/* a where condition (bool) is true, else b; all three broadcast. */
HAUL_API haul_tensor *haul_where(haul_tensor *condition, haul_tensor *a, haul_tensor *b);
/* The same into out. */
HAUL_API haul_status haul_where_into(haul_tensor *out, haul_tensor *condition, haul_tensor *a, haul_tensor *b);
/* value where mask (bool) is true, else x; both broadcast. The result has x's dtype, which must be able to hold value.
 */
HAUL_API haul_tensor *haul_masked_fill(haul_tensor *x, haul_tensor *mask, double value);
HAUL_API haul_status  haul_masked_fill_into(haul_tensor *out, haul_tensor *x, haul_tensor *mask, double value);
/* g where a > b, g/2 where a == b, else 0: how maximum and minimum share a gradient. */
HAUL_API haul_tensor *haul_select_ge(haul_tensor *g, haul_tensor *a, haul_tensor *b);
/* The same into out. */
HAUL_API haul_status haul_select_ge_into(haul_tensor *out, haul_tensor *g, haul_tensor *a, haul_tensor *b);
/* g where low <= x <= high, else 0. */
HAUL_API haul_tensor *haul_clamp_backward(haul_tensor *g, haul_tensor *x, double low, double high);
/* The same into out. */
HAUL_API haul_status haul_clamp_backward_into(haul_tensor *out, haul_tensor *g, haul_tensor *x, double low,
                                              double high);
/* Set every element of out. */
HAUL_API haul_status haul_fill_into(haul_tensor *out, double value);
HAUL_API haul_status haul_zero_into(haul_tensor *out);
/* out = x, converted and broadcast to out's shape and dtype; x may be on another device. Not differentiable: while
 * gradients are recorded an x that requires one is refused with HAUL_GRAPH. */
HAUL_API haul_status haul_copy_into(haul_tensor *out, haul_tensor *x);

/* ---- creation, on the thread's current device ---- */
HAUL_API haul_tensor *haul_empty(haul_dtype dtype, haul_shape shape); /* elements are not set */
HAUL_API haul_tensor *haul_zeros(haul_dtype dtype, haul_shape shape);
HAUL_API haul_tensor *haul_ones(haul_dtype dtype, haul_shape shape);
/* For an integer dtype haul_full, haul_full_like, haul_fill_into and haul_scalar take only whole numbers in its range.
 */
HAUL_API haul_tensor *haul_full(haul_dtype dtype, haul_shape shape, double value);

typedef struct HAUL__DESIGNATED haul_scalar_options {
    double value; /* positional */
    HAUL__GUARD
    haul_dtype dtype; /* HAUL_DTYPE_NONE means f32 */
} haul_scalar_options;

/* A 0-d tensor: haul_scalar(2), haul_scalar(0.1, .dtype = HAUL_F64). It promotes like any other tensor: one of f32
 * makes f16 operands f32, and with f64 operands its value is still rounded to f32. haul_mul_scalar(x, 0.1) and similar
 * functions keep x's dtype. */
#define haul_scalar(...)                                                                                               \
    haul_scalar_with(                                                                                                  \
        HAUL__OPTIONS(haul_scalar_options, .value = (double)(HAUL__FIRST(__VA_ARGS__, )), HAUL__TAIL(__VA_ARGS__, )))
HAUL_API haul_tensor *haul_scalar_with(const haul_scalar_options *options);

/* start, start + step, ..., excluding stop. For an integer dtype haul_arange refuses a start, stop or step from 2^53
 * on, because doubles cannot represent all whole numbers there; haul_arange_i64 takes every i64. */
HAUL_API haul_tensor *haul_arange(haul_dtype dtype, double start, double stop, double step);
HAUL_API haul_status  haul_arange_into(haul_tensor *out, haul_dtype dtype, double start, double stop, double step);
HAUL_API haul_tensor *haul_arange_i64(int64_t start, int64_t stop, int64_t step);
HAUL_API haul_status  haul_arange_i64_into(haul_tensor *out, int64_t start, int64_t stop, int64_t step);
/* With x's shape, dtype, device and order of dimensions in memory. */
HAUL_API haul_tensor *haul_zeros_like(haul_tensor *x);
HAUL_API haul_tensor *haul_ones_like(haul_tensor *x);
HAUL_API haul_tensor *haul_full_like(haul_tensor *x, double value);
HAUL_API haul_tensor *haul_empty_like(haul_tensor *x);

/* ---- reductions ----
 * haul_sum(x): over all axes. haul_sum(x, HAUL_AXES(0, 2), .keepdim = true): over those. Sums of bool and integers are
 * i64 (of u8, too), of floats the same float; mean needs a float. Of no elements the sum is 0 and the mean NaN; max,
 * min and their indices are refused with HAUL_SHAPE. The order of additions depends on shape and layout only. */
typedef struct HAUL__DESIGNATED haul_axes {
    HAUL__GUARD
    int count; /* how many of `axes` there are; 0: all axes, whatever `axes` says */
    int axes[HAUL_MAX_DIMS];
} haul_axes;

typedef struct HAUL__DESIGNATED haul_reduce_options {
    haul_tensor *x; /* positional */
    HAUL__GUARD
    haul_axes haul__axes; /* written HAUL_AXES(0, 2); other languages fill the struct in */
    bool      keepdim;    /* keep reduced axes with size 1 */
} haul_reduce_options;

/* The axes of a reduction. */
#define HAUL_AXES(...) .haul__axes = {.count = HAUL__COUNT(int, __VA_ARGS__), .axes = {__VA_ARGS__}}

#define haul_sum(...)       haul_sum_with(HAUL__OPTIONS(haul_reduce_options, .x = __VA_ARGS__))
#define haul_mean(...)      haul_mean_with(HAUL__OPTIONS(haul_reduce_options, .x = __VA_ARGS__))
#define haul_max(...)       haul_max_with(HAUL__OPTIONS(haul_reduce_options, .x = __VA_ARGS__))
#define haul_min(...)       haul_min_with(HAUL__OPTIONS(haul_reduce_options, .x = __VA_ARGS__))
#define haul_prod(...)      haul_prod_with(HAUL__OPTIONS(haul_reduce_options, .x = __VA_ARGS__))
#define haul_any(...)       haul_any_with(HAUL__OPTIONS(haul_reduce_options, .x = __VA_ARGS__))
#define haul_all(...)       haul_all_with(HAUL__OPTIONS(haul_reduce_options, .x = __VA_ARGS__))
#define haul_logsumexp(...) haul_logsumexp_with(HAUL__OPTIONS(haul_reduce_options, .x = __VA_ARGS__))
HAUL_API haul_tensor *haul_sum_with(const haul_reduce_options *options);
HAUL_API haul_tensor *haul_mean_with(const haul_reduce_options *options);
HAUL_API haul_tensor *haul_max_with(const haul_reduce_options *options); /* NaN wins; a tie shares the gradient */
HAUL_API haul_tensor *haul_min_with(const haul_reduce_options *options);
/* The product: dtypes as of sums, 1 of no elements. Its gradient is exact where elements are 0. */
HAUL_API haul_tensor *haul_prod_with(const haul_reduce_options *options);
/* Whether an element, or each of them, is true, which is not 0; NaN is true. bool; false and true of no elements. */
HAUL_API haul_tensor *haul_any_with(const haul_reduce_options *options);
HAUL_API haul_tensor *haul_all_with(const haul_reduce_options *options);
/* log(sum(exp(x))) without overflow; -infinity of no elements. Integers and bool become f32 first. */
HAUL_API haul_tensor *haul_logsumexp_with(const haul_reduce_options *options);
/* The same into out: haul_sum_into(out, x, HAUL_AXES(0, 2)). */
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
    haul_tensor *x; /* positional; of a floating dtype */
    HAUL__GUARD
    haul_axes haul__axes; /* written HAUL_AXES(0, 2); without it all */
    bool      keepdim;
    double    correction; /* default 1; HAUL_ZERO for the biased variance */
} haul_var_options;

/* The variance, sum((x - mean)^2) / max(0, n - correction) over n elements, and its square root. Deviations are taken
 * before they are squared, so large means cost no digits. NaN where n is 0, or where n and the correction are 1. The
 * gradient of haul_std is 0 where it is 0. */
#define haul_var(...)           haul_var_with(HAUL__OPTIONS(haul_var_options, .x = __VA_ARGS__))
#define haul_std(...)           haul_std_with(HAUL__OPTIONS(haul_var_options, .x = __VA_ARGS__))
#define haul_var_into(out, ...) haul_var_into_with(out, HAUL__OPTIONS(haul_var_options, .x = __VA_ARGS__))
#define haul_std_into(out, ...) haul_std_into_with(out, HAUL__OPTIONS(haul_var_options, .x = __VA_ARGS__))
HAUL_API haul_tensor *haul_var_with(const haul_var_options *options);
HAUL_API haul_tensor *haul_std_with(const haul_var_options *options);
HAUL_API haul_status  haul_var_into_with(haul_tensor *out, const haul_var_options *options);
HAUL_API haul_status  haul_std_into_with(haul_tensor *out, const haul_var_options *options);

typedef struct HAUL__DESIGNATED haul_norm_options {
    haul_tensor *x; /* positional */
    HAUL__GUARD
    haul_axes haul__axes; /* written HAUL_AXES(0, 2); without it all */
    bool      keepdim;
    double    p; /* default 2; HAUL_ZERO for zero; INFINITY and -INFINITY are allowed */
} haul_norm_options;

/* The vector norm (sum |x|^p)^(1/p) over axes; for infinity the largest |x|, for -infinity the least, for 0 how many
 * elements are not 0. Integers and bool become f32 first. Of no elements it is 0; a negative p is refused then. The
 * gradient is 0 where the norm is 0. */
#define haul_norm(...)           haul_norm_with(HAUL__OPTIONS(haul_norm_options, .x = __VA_ARGS__))
#define haul_norm_into(out, ...) haul_norm_into_with(out, HAUL__OPTIONS(haul_norm_options, .x = __VA_ARGS__))
HAUL_API haul_tensor *haul_norm_with(const haul_norm_options *options);
HAUL_API haul_status  haul_norm_into_with(haul_tensor *out, const haul_norm_options *options);

/* Index (i64) of the largest / smallest element along one axis, the first of equals; not differentiable. NaN counts as
 * the largest in argmax and the smallest in argmin. */
HAUL_API haul_tensor *haul_argmax(haul_tensor *x, int axis, bool keepdim);
HAUL_API haul_tensor *haul_argmin(haul_tensor *x, int axis, bool keepdim);
/* The same into out. */
HAUL_API haul_status haul_argmax_into(haul_tensor *out, haul_tensor *x, int axis, bool keepdim);
HAUL_API haul_status haul_argmin_into(haul_tensor *out, haul_tensor *x, int axis, bool keepdim);

/* Running sums along an axis: element i of a line is the sum of its elements up to i. Sums of bool and integers are
 * i64. Lines of more than 1024 elements are summed in blocks of so many, and each block then gets the sum of those
 * before it: the order of additions depends on the shape only. */
HAUL_API haul_tensor *haul_cumsum(haul_tensor *x, int axis);
/* The same into out. */
HAUL_API haul_status haul_cumsum_into(haul_tensor *out, haul_tensor *x, int axis);

/* ---- shape ---- */
HAUL_API haul_tensor *haul_reshape(haul_tensor *x, haul_shape shape); /* one dim may be -1; a view where possible */
HAUL_API haul_tensor *haul_view(haul_tensor *x, haul_shape shape);  /* never copies: refuses what strides cannot say */
HAUL_API haul_tensor *haul_flatten(haul_tensor *x, int first_axis); /* axes from first_axis on become one */
/* A view whose axis i is axis axes[i] of x; `axes` names each of x's `count` axes once. */
HAUL_API haul_tensor *haul_permute(haul_tensor *x, const int *axes, int count);
HAUL_API haul_tensor *haul_transpose(haul_tensor *x, int a, int b);  /* a view with two axes exchanged */
HAUL_API haul_tensor *haul_expand(haul_tensor *x, haul_shape shape); /* dims of size 1 repeat; -1 keeps a dim */
HAUL_API haul_tensor *haul_squeeze(haul_tensor *x, int axis);        /* without an axis, which must have size 1 */
HAUL_API haul_tensor *haul_unsqueeze(haul_tensor *x, int axis);      /* with an axis of size 1 before `axis` */
/* Elements start, start + step, ... below stop of one axis, as a view. Negative start and stop count from the end,
 * values out of range are clamped as in Python; step is at least 1. */
HAUL_API haul_tensor *haul_slice(haul_tensor *x, int axis, int64_t start, int64_t stop, int64_t step);
HAUL_API haul_tensor *haul_select(haul_tensor *x, int axis, int64_t index); /* one index; the axis goes away */
/* `count` parts of x along an axis, one after the other, as views in parts[0], parts[1], ... haul_split takes their
 * sizes, which add up to the length of the axis. The parts of haul_chunk have ceil(length / count) elements; the last
 * ones have fewer or none where the length is no multiple of that. On failure every part is a failed tensor. */
HAUL_API haul_status haul_split(haul_tensor *x, int axis, const int64_t *sizes, int count, haul_tensor **parts);
HAUL_API haul_status haul_chunk(haul_tensor *x, int axis, int count, haul_tensor **parts);
/* x with zeros above (tril) or below (triu) a diagonal of its last two axes. Diagonal 0 is the main one, 1 the one
 * above it, -1 the one below it; its elements stay. */
HAUL_API haul_tensor *haul_tril(haul_tensor *x, int64_t diagonal);
HAUL_API haul_tensor *haul_triu(haul_tensor *x, int64_t diagonal);
HAUL_API haul_status  haul_tril_into(haul_tensor *out, haul_tensor *x, int64_t diagonal);
HAUL_API haul_status  haul_triu_into(haul_tensor *out, haul_tensor *x, int64_t diagonal);

/* What haul_pad puts around x = [1, 2, 3, 4], two before and two after it. */
typedef enum haul_pad_mode {
    HAUL_PAD_CONSTANT,  /* v v 1 2 3 4 v v, v being .value; negative sizes take elements away */
    HAUL_PAD_REFLECT,   /* 3 2 1 2 3 4 3 2; at most length - 1 elements */
    HAUL_PAD_REPLICATE, /* 1 1 1 2 3 4 4 4 */
    HAUL_PAD_CIRCULAR   /* 3 4 1 2 3 4 1 2; at most length elements */
} haul_pad_mode;

typedef struct HAUL__DESIGNATED haul_pads {
    HAUL__GUARD
    int     count;
    int64_t sizes[16]; /* before and after the last axis, before and after the one before it, ... */
} haul_pads;

typedef struct HAUL__DESIGNATED haul_pad_options {
    haul_tensor *x; /* positional */
    HAUL__GUARD
    haul_pads     haul__pads; /* written HAUL_PADS(1, 1); other languages fill the struct in */
    haul_pad_mode mode;       /* default HAUL_PAD_CONSTANT */
    double        value;      /* default 0; a value of x's dtype */
} haul_pad_options;

/* The sizes of a padding, in PyTorch's order: pairs, the one of the last axis first. */
#define HAUL_PADS(...) .haul__pads = {.count = HAUL__COUNT(int64_t, __VA_ARGS__), .sizes = {__VA_ARGS__}}

/* x with elements around it: haul_pad(image, HAUL_PADS(left, right, top, bottom), .mode = HAUL_PAD_REFLECT). */
#define haul_pad(...)           haul_pad_with(HAUL__OPTIONS(haul_pad_options, .x = __VA_ARGS__))
#define haul_pad_into(out, ...) haul_pad_into_with(out, HAUL__OPTIONS(haul_pad_options, .x = __VA_ARGS__))
HAUL_API haul_tensor *haul_pad_with(const haul_pad_options *options);
HAUL_API haul_status  haul_pad_into_with(haul_tensor *out, const haul_pad_options *options);

typedef struct HAUL__DESIGNATED haul_flip_options {
    haul_tensor *x; /* positional */
    HAUL__GUARD
    haul_axes haul__axes; /* written HAUL_AXES(0, 2); without it all */
} haul_flip_options;

/* x with the elements of axes in reverse order: haul_flip(x, HAUL_AXES(-1)). */
#define haul_flip(...)           haul_flip_with(HAUL__OPTIONS(haul_flip_options, .x = __VA_ARGS__))
#define haul_flip_into(out, ...) haul_flip_into_with(out, HAUL__OPTIONS(haul_flip_options, .x = __VA_ARGS__))
HAUL_API haul_tensor *haul_flip_with(const haul_flip_options *options);
HAUL_API haul_status  haul_flip_into_with(haul_tensor *out, const haul_flip_options *options);
/* x with its elements moved by `shift` places along an axis; those that leave it come in at the other end. */
HAUL_API haul_tensor *haul_roll(haul_tensor *x, int64_t shift, int axis);
HAUL_API haul_status  haul_roll_into(haul_tensor *out, haul_tensor *x, int64_t shift, int axis);
/* x times.dims[d] times along axis d, one copy after the other: haul_repeat(x, HAUL_SHAPE(2, 1)). `times` may have more
 * dimensions than x, the first ones. haul_expand repeats axes of size 1 without copying. */
HAUL_API haul_tensor *haul_repeat(haul_tensor *x, haul_shape times);
HAUL_API haul_status  haul_repeat_into(haul_tensor *out, haul_tensor *x, haul_shape times);
/* Each element along an axis `times` times: [1, 2] becomes [1, 1, 2, 2]. */
HAUL_API haul_tensor *haul_repeat_interleave(haul_tensor *x, int64_t times, int axis);
HAUL_API haul_status  haul_repeat_interleave_into(haul_tensor *out, haul_tensor *x, int64_t times, int axis);

/* How the elements of a tensor lie in memory. Its shape does not change: a channels-last tensor is [N, C, H, W] as any
 * other, with the strides of [N, H, W, C]. */
typedef enum haul_memory_format {
    HAUL_CONTIGUOUS,   /* row-major */
    HAUL_CHANNELS_LAST /* of 4-d tensors: the channels of a pixel next to each other */
} haul_memory_format;
/* x in that format, sharing memory if it is already. Results of pointwise operations, copies and moves lie as their
 * (first full-shape) operand does; convolution, pooling and batch normalisation keep channels-last input so. */
HAUL_API haul_tensor *haul_to_memory_format(haul_tensor *x, haul_memory_format format);
HAUL_API haul_tensor *haul_contiguous(haul_tensor *x); /* haul_to_memory_format(x, HAUL_CONTIGUOUS) */
/* `count` tensors one after the other along an axis; their other sizes are equal, dtypes promote. haul_stack joins
 * tensors of one shape along a new axis. */
HAUL_API haul_tensor *haul_cat(haul_tensor *const *xs, int count, int axis);
HAUL_API haul_tensor *haul_stack(haul_tensor *const *xs, int count, int axis);
HAUL_API haul_status  haul_cat_into(haul_tensor *out, haul_tensor *const *xs, int count, int axis);
HAUL_API haul_status  haul_stack_into(haul_tensor *out, haul_tensor *const *xs, int count, int axis);
/* ---- linear algebra ---- */
/* Matrix product of the last two axes, [..., m, k] x [..., k, n]; leading axes broadcast; 1-d operands as in NumPy.
 * Dtypes promote; bool is refused. i32 and i64 give the same dtype and wrap around; u8, i8 and i16 accumulate in i32
 * and give i32 (PyTorch keeps their dtype, in which sums overflow). The same holds for haul_linear. */
HAUL_API haul_tensor *haul_matmul(haul_tensor *a, haul_tensor *b);
/* The same into `out`. */
HAUL_API haul_status haul_matmul_into(haul_tensor *out, haul_tensor *a, haul_tensor *b);

typedef struct HAUL__DESIGNATED haul_linear_options {
    haul_tensor *bias; /* [out] or HAUL_NONE; positional */
    HAUL__GUARD
    bool relu; /* max(result, 0), fused where supported; NaN may become 0, while haul_relu keeps it */
} haul_linear_options;

/* x [..., in] times weight [out, in] transposed, plus bias: haul_linear(x, weight, bias, .relu = true). */
#define haul_linear(x, weight, ...) haul_linear_with(x, weight, HAUL__OPTIONS(haul_linear_options, .bias = __VA_ARGS__))
HAUL_API haul_tensor *haul_linear_with(haul_tensor *x, haul_tensor *weight, const haul_linear_options *options);
/* The same into `out`: haul_linear_into(out, x, weight, bias, .relu = true). */
#define haul_linear_into(out, x, weight, ...)                                                                          \
    haul_linear_into_with(out, x, weight, HAUL__OPTIONS(haul_linear_options, .bias = __VA_ARGS__))
HAUL_API haul_status haul_linear_into_with(haul_tensor *out, haul_tensor *x, haul_tensor *weight,
                                           const haul_linear_options *options);

/* Attention (Vaswani et al. 2017): softmax(query key^T scale + mask) value, haul_attention(q, k, v, .causal = true).
 * query is [..., L, D], key [..., S, D], value [..., S, E]; the result is [..., L, E]. Leading axes, such as batch and
 * heads, broadcast. A row in which nothing counts gives NaN. */
typedef struct HAUL__DESIGNATED haul_attention_options {
    haul_tensor *value; /* positional */
    HAUL__GUARD
    haul_tensor *mask;    /* [..., L, S], broadcasts: bool, true where a score counts; or floats that are added */
    bool         causal;  /* row i of the query counts columns 0 to i of the key only */
    double       scale;   /* default 1 / sqrt(D) */
    double       dropout; /* probability with which a weight is left out, also in evaluation; default 0 */
} haul_attention_options;
#define haul_attention(query, key, ...)                                                                                \
    haul_attention_with(query, key, HAUL__OPTIONS(haul_attention_options, .value = __VA_ARGS__))
HAUL_API haul_tensor *haul_attention_with(haul_tensor *query, haul_tensor *key, const haul_attention_options *options);

/* How exact products and convolutions of f32 must be, on this thread; HAUL_PRECISION_HIGHEST unless set; restored when
 * the scope is popped. HAUL_PRECISION_HIGH allows devices with TF32 units (NVIDIA GPUs since Ampere, with cuBLAS and
 * cuDNN) to round the factors to 10 bits of mantissa, which is several times faster; sums stay f32. Other devices and
 * dtypes are not affected. Backward uses the precision of the thread and moment it is called in. */
typedef enum haul_precision { HAUL_PRECISION_HIGHEST, HAUL_PRECISION_HIGH } haul_precision;

HAUL_API haul_status    haul_set_matmul_precision(haul_precision precision);
HAUL_API haul_precision haul_matmul_precision(void);

/* ---- normalisation and regularisation ---- */
/* exp(x) / sum(exp(x)) along an axis, and its logarithm, without overflow. Integers and bool become f32 first. */
HAUL_API haul_tensor *haul_softmax(haul_tensor *x, int axis);
HAUL_API haul_tensor *haul_log_softmax(haul_tensor *x, int axis);
HAUL_API haul_status  haul_softmax_into(haul_tensor *out, haul_tensor *x, int axis);
HAUL_API haul_status  haul_log_softmax_into(haul_tensor *out, haul_tensor *x, int axis);

/* Batch normalisation (Ioffe, Szegedy 2015) over all axes but 1: (x - mean) / sqrt(var + eps) * weight + bias.
 * In training it uses the batch's own (biased) statistics, and the running ones, if given, become
 * (1 - momentum) running + momentum batch, with the unbiased variance, as in PyTorch. */
typedef struct HAUL__DESIGNATED haul_batch_norm_options {
    haul_tensor *weight; /* [C] or HAUL_NONE; positional */
    HAUL__GUARD
    haul_tensor *bias;                       /* [C] */
    haul_tensor *running_mean, *running_var; /* [C] each, updated in place in training; both or neither */
    bool         training;
    double       momentum; /* default 0.1; HAUL_ZERO leaves the running statistics as they are */
    double       eps;      /* default 1e-5; HAUL_ZERO for zero */
} haul_batch_norm_options;

#define haul_batch_norm(x, ...) haul_batch_norm_with(x, HAUL__OPTIONS(haul_batch_norm_options, .weight = __VA_ARGS__))
#define haul_batch_norm_into(out, x, ...)                                                                              \
    haul_batch_norm_into_with(out, x, HAUL__OPTIONS(haul_batch_norm_options, .weight = __VA_ARGS__))
HAUL_API haul_tensor *haul_batch_norm_with(haul_tensor *x, const haul_batch_norm_options *options);
HAUL_API haul_status  haul_batch_norm_into_with(haul_tensor *out, haul_tensor *x,
                                                const haul_batch_norm_options *options); /* the same into `out` */

/* Layer normalisation (Ba, Kiros, Hinton 2016) over the last axis: (x - mean) / sqrt(var + eps) * weight + bias, with
 * mean and biased variance of each row of x. Operands are promoted; integers and bool become f32 first. */
typedef struct HAUL__DESIGNATED haul_layer_norm_options {
    haul_tensor *weight; /* [n], n the last dimension of x, or HAUL_NONE; positional */
    HAUL__GUARD
    haul_tensor *bias; /* [n] */
    double       eps;  /* default 1e-5; HAUL_ZERO for zero; not negative */
} haul_layer_norm_options;

#define haul_layer_norm(x, ...) haul_layer_norm_with(x, HAUL__OPTIONS(haul_layer_norm_options, .weight = __VA_ARGS__))
#define haul_layer_norm_into(out, x, ...)                                                                              \
    haul_layer_norm_into_with(out, x, HAUL__OPTIONS(haul_layer_norm_options, .weight = __VA_ARGS__))
HAUL_API haul_tensor *haul_layer_norm_with(haul_tensor *x, const haul_layer_norm_options *o);
HAUL_API haul_status  haul_layer_norm_into_with(haul_tensor *out, haul_tensor *x,
                                                const haul_layer_norm_options *o); /* the same into `out` */

/* RMS normalisation (Zhang, Sennrich 2019) over the last axis: x / sqrt(mean(x^2) + eps) * weight. Operands are
 * promoted; integers and bool become f32 first. */
typedef struct HAUL__DESIGNATED haul_rms_norm_options {
    haul_tensor *weight; /* [n], n the last dimension of x, or HAUL_NONE; positional */
    HAUL__GUARD
    double eps; /* default 1e-5; HAUL_ZERO for zero; not negative. PyTorch's default is the dtype's epsilon */
} haul_rms_norm_options;

#define haul_rms_norm(x, ...) haul_rms_norm_with(x, HAUL__OPTIONS(haul_rms_norm_options, .weight = __VA_ARGS__))
#define haul_rms_norm_into(out, x, ...)                                                                                \
    haul_rms_norm_into_with(out, x, HAUL__OPTIONS(haul_rms_norm_options, .weight = __VA_ARGS__))
HAUL_API haul_tensor *haul_rms_norm_with(haul_tensor *x, const haul_rms_norm_options *o);
HAUL_API haul_status  haul_rms_norm_into_with(haul_tensor *out, haul_tensor *x,
                                              const haul_rms_norm_options *o); /* the same into `out` */

/* With training: zero each element with probability p and scale the rest by 1 / (1 - p); otherwise x, as a fresh handle
 * that shares its memory. */
HAUL_API haul_tensor *haul_dropout(haul_tensor *x, double p, bool training);
HAUL_API haul_status  haul_dropout_into(haul_tensor *out, haul_tensor *x, double p, bool training);

HAUL_END

#endif
