/* The softmax of attention, which other operations call. */
#ifndef HAUL_OPS_NORMALISE_SOFTMAX_H
#define HAUL_OPS_NORMALISE_SOFTMAX_H

#include "engine/operation.h"

/* haul_softmax of scores over the last axis; a row of scores that are all -infinity gives zeros. */
haul_tensor *haul__attention_weights(haul_tensor *scores);

/* The gradient of the scores, from that of the weights. */
haul_tensor *haul__attention_weights_backward(haul_tensor *g, haul_tensor *weights);

#endif
