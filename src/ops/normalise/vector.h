/* Operands of norms with one element for each position of an axis of x. */
#ifndef HAUL_OPS_NORMALISE_VECTOR_H
#define HAUL_OPS_NORMALISE_VECTOR_H

#include "engine/operation.h"

/* Fails unless the operand is absent or has one dimension, of the size of this axis of operand 0. */
haul_status haul__check_vector(const haul__call *c, int operand, int axis);

#endif
