/* Gradients of reductions that have a file of their own. */
#ifndef HAUL_OPS_REDUCE_REDUCTIONS_H
#define HAUL_OPS_REDUCE_REDUCTIONS_H

#include "engine/operation.h"

void haul__prod_gradient(haul__gradient *c);

#endif
