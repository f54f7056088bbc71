/* Sums whose terms leave the range of their type although the result does not. It is part of the kernel text of
 * reduce.c, layer_norm.c, rms_norm.c and batch_norm.c, which include it.
 *
 * The sum of squares of 1e30 is infinite in f32, and that of 1e-30 is 0; their roots are ordinary numbers. Kernels add
 * plainly, look at the sum once, and where it left the range they add again with all elements times a power of two. So
 * sums within the range cost a comparison and keep their bits. */
#ifndef HAUL_OPS_REDUCE_RANGE_KERNEL_H
#define HAUL_OPS_REDUCE_RANGE_KERNEL_H

// clang-format off
#if defined(HAUL_KERNEL) && IS_FLOAT
/* SQUARES_LEAST: below it, subnormal squares may have cost digits. RANGE_LOWER makes sums of squares of all finite
 * numbers finite; RANGE_RAISE lifts the least number so far that its square is normal, while the sum of 2^27 squares of a
 * mean below SQUARES_LEAST stays finite. */
#if A_IS_F32
#define RANGE_MOST    3.40282347e38f
#define SQUARES_LEAST 8.27180613e-25f /* 2^-80 */
#define RANGE_LOWER   8.27180613e-25f /* 2^-80 */
#define RANGE_RAISE   1.23794004e27f  /* 2^90 */
#else
#define RANGE_MOST    1.7976931348623157e+308
#define SQUARES_LEAST 1.1830521861667747e-271 /* 2^-900 */
#define RANGE_LOWER   1.90109156629516e-211   /* 2^-700 */
#define RANGE_RAISE   6.668014432879854e+240  /* 2^800 */
#endif
FUNC I32 is_finite(ACC s) { return s - s == 0; }
/* True if s is not in [least, RANGE_MOST], or NaN. */
FUNC I32 is_outside(ACC s, ACC least) { return (I32) !(s >= least) | (I32) !(s <= RANGE_MOST); }
/* The factor with which a sum that left the range is added again. */
FUNC ACC range_factor(ACC s) { return is_finite(s) ? RANGE_RAISE : RANGE_LOWER; }
#endif
// clang-format on

#endif
