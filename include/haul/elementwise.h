/* More pointwise operations: those of three tensors, forms with a number, and activations of two tensors.
 *
 * Operands broadcast as in NumPy, and dtypes promote, as in the pointwise operations of ops.h. */
#ifndef HAUL_ELEMENTWISE_H
#define HAUL_ELEMENTWISE_H

#include <haul/base.h>
#include <haul/error.h>
#include <haul/tensor.h>

HAUL_BEGIN

/* a where `condition` is true, else the number `s`: haul_where_scalar(haul_gt_scalar(x, 0), x, 0). haul_masked_fill is
 * the form with the number where the condition is true. The result has the dtype of a.
 *
 * - condition: bool
 * - s: a value of a's dtype */
HAUL_API haul_tensor *haul_where_scalar(haul_tensor *condition, haul_tensor *a, double s);
HAUL_API haul_status  haul_where_scalar_into(haul_tensor *out, haul_tensor *condition, haul_tensor *a, double s);

/* x, but at least `low` and at most `high`, element by element. The result is high where low > high, and NaN where a
 * bound is NaN. The gradient goes to x within the bounds, and else to the bound that is the result. haul_maximum and
 * haul_minimum are the forms with one bound. bool is refused. */
HAUL_API haul_tensor *haul_clamp_between(haul_tensor *x, haul_tensor *low, haul_tensor *high);
HAUL_API haul_status  haul_clamp_between_into(haul_tensor *out, haul_tensor *x, haul_tensor *low, haul_tensor *high);

/* a + weight (b - a), the point between a and b; exactly a for a weight of 0, and b for 1. Integers and bool become f32
 * first. The `_scalar` form has the number `s` as weight. */
HAUL_API haul_tensor *haul_lerp(haul_tensor *a, haul_tensor *b, haul_tensor *weight);
HAUL_API haul_tensor *haul_lerp_scalar(haul_tensor *a, haul_tensor *b, double s);
HAUL_API haul_status  haul_lerp_into(haul_tensor *out, haul_tensor *a, haul_tensor *b, haul_tensor *weight);
HAUL_API haul_status  haul_lerp_scalar_into(haul_tensor *out, haul_tensor *a, haul_tensor *b, double s);

/* x + s a b, or x + s a / b, in one pass. Integers and bool become f32 first. */
HAUL_API haul_tensor *haul_addcmul(haul_tensor *x, haul_tensor *a, haul_tensor *b, double s);
HAUL_API haul_tensor *haul_addcdiv(haul_tensor *x, haul_tensor *a, haul_tensor *b, double s);
HAUL_API haul_status  haul_addcmul_into(haul_tensor *out, haul_tensor *x, haul_tensor *a, haul_tensor *b, double s);
HAUL_API haul_status  haul_addcdiv_into(haul_tensor *out, haul_tensor *x, haul_tensor *a, haul_tensor *b, double s);

/* x rounded to `decimals` places behind the point, or for negative `decimals` before it; halves to even, as in PyTorch:
 * the product of x and 10^decimals is rounded to a whole number. Numbers for which the dtype does not hold that product
 * stay as they are. Integers and bool become f32 first. The gradient is zero.
 *
 * - decimals: -300 to 300 */
HAUL_API haul_tensor *haul_round_decimals(haul_tensor *x, int decimals);
HAUL_API haul_status  haul_round_decimals_into(haul_tensor *out, haul_tensor *x, int decimals);

/* A gated linear unit (Dauphin et al. 2017): the first half of x along the axis, times the sigmoid of the second half.
 * Integers and bool become f32 first.
 *
 * - axis: its size is even; PyTorch's default is -1 */
HAUL_API haul_tensor *haul_glu(haul_tensor *x, int axis);

/* x where x > 0, else x times `weight` (He et al. 2015): haul_leaky_relu with slopes that can be learned. Operands are
 * promoted; integers and bool become f32 first.
 *
 * - weight: a slope for all elements, with one element; or [C], a slope for each channel of x, [N, C, ...] */
HAUL_API haul_tensor *haul_prelu(haul_tensor *x, haul_tensor *weight);

HAUL_END

#endif
