/* The softmax of attention, which other operations call. */
#ifndef HAUL_OPS_NORMALISE_SOFTMAX_H
#define HAUL_OPS_NORMALISE_SOFTMAX_H

#include "engine/operation.h"

/* haul_softmax of scores over the last axis; a row of scores that are all -infinity gives zeros. */
haul_tensor *haul__attention_weights(haul_tensor *scores);

#endif
