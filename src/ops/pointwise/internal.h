/* Pointwise operations that only the library calls: gradients that pay as one pass, and the elements of a loss. They
 * are recorded, differentiated and counted like all others. */
#ifndef HAUL_OPS_POINTWISE_INTERNAL_H
#define HAUL_OPS_POINTWISE_INTERNAL_H

#include <haul/tensor.h>

#define HAUL_UNARY(...)
#define HAUL_UNARY_TO_BOOL(...)
#define HAUL_UNARY1(...)
#define HAUL_UNARY2(...)
#define HAUL_BINARY(...)
#define HAUL_COMPARE(...)
#define HAUL_INTERNAL(name, ...) haul_tensor *haul__##name(haul_tensor *a, haul_tensor *b);
#include <haul/pointwise.def>
#undef HAUL_UNARY
#undef HAUL_UNARY_TO_BOOL
#undef HAUL_UNARY1
#undef HAUL_UNARY2
#undef HAUL_BINARY
#undef HAUL_COMPARE
#undef HAUL_INTERNAL

/* g where a > b, g / 2 where a == b, else 0: the gradient of haul_maximum and haul_minimum. */
haul_tensor *haul__select_ge(haul_tensor *g, haul_tensor *a, haul_tensor *b);

/* g where low <= x <= high, else 0: the gradient of haul_clamp. */
haul_tensor *haul__clamp_backward(haul_tensor *g, haul_tensor *x, double low, double high);

#endif
