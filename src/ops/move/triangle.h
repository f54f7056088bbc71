#ifndef HAUL_OPS_MOVE_TRIANGLE_H
#define HAUL_OPS_MOVE_TRIANGLE_H

#include "haul/tensor.h"

/* Writes the lower triangles of the matrices of x, with their diagonals, and zeros above them into y. */
haul_status haul__tril_into(haul_tensor *y, haul_tensor *x);

#endif
