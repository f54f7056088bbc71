/* The bits of elements as another dtype. */
#ifndef HAUL_OPS_MOVE_BIT_CAST_H
#define HAUL_OPS_MOVE_BIT_CAST_H

#include <haul/tensor.h>

/* A copy of x whose elements have unchanged bits as elements of a dtype of the same size. */
haul_tensor *haul__bit_cast(haul_tensor *x, haul_dtype dtype);

#endif
