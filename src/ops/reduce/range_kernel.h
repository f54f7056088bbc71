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
#if A_IS_F32
FUNC ACC range_most(void) { return 3.40282347e38f; }
/* Below it, subnormal squares may have cost digits. */
FUNC ACC squares_least(void) { return 8.27180613e-25f; } /* 2^-80 */
/* A factor that makes sums of squares of all finite numbers finite. */
FUNC ACC range_lower(void) { return 8.27180613e-25f; } /* 2^-80 */
/* A factor that lifts the least number so far that its square is normal, while the sum of 2^27 squares of a mean below
 * squares_least stays finite. */
FUNC ACC range_raise(void) { return 1.23794004e27f; } /* 2^90 */
#else
FUNC ACC range_most(void) { return 1.7976931348623157e+308; }
FUNC ACC squares_least(void) { return 1.1830521861667747e-271; } /* 2^-900 */
FUNC ACC range_lower(void) { return 1.90109156629516e-211; }     /* 2^-700 */
FUNC ACC range_raise(void) { return 6.668014432879854e+240; }    /* 2^800 */
#endif
FUNC I32 is_finite(ACC s) { return s - s == 0; }
/* True if s is not in [least, range_most()], or NaN. */
FUNC I32 is_outside(ACC s, ACC least) { return (I32) !(s >= least) | (I32) !(s <= range_most()); }
/* The factor with which a sum that left the range is added again. */
FUNC ACC range_factor(ACC s) { return is_finite(s) ? range_raise() : range_lower(); }
#endif
// clang-format on

#endif
