/* The softmax of attention, which other operations call. */
#ifndef HAUL_OPS_NORMALISE_SOFTMAX_H
#define HAUL_OPS_NORMALISE_SOFTMAX_H

#include "engine/operation.h"

enum { HAUL__ALL_COLUMNS = -1 };

/* haul_softmax of scores over the last axis; a row of scores that are all -infinity gives zeros. Row i sees columns 0
 * to first + i, and the others have weights of 0. It sees all of them if `first` is HAUL__ALL_COLUMNS. */
haul_tensor *haul__attention_weights(haul_tensor *scores, int64_t first);

/* The gradient of the scores, from that of the weights. */
haul_tensor *haul__attention_weights_backward(haul_tensor *g, haul_tensor *weights, int64_t first);

#endif
