/* Attention of many queries, in blocks of them. */
#ifndef HAUL_OPS_ATTENTION_ATTENTION_H
#define HAUL_OPS_ATTENTION_ATTENTION_H

#include "engine/operation.h"

/* softmax(scale q k^T + mask) v, a block of queries at a time, so that the memory for scores grows with the number of
 * keys alone. Of causal attention, scores that count for no row of a block are not computed. The backward pass computes
 * the weights again. Halves are computed in f32. No gradient flows to the mask, which may be HAUL_NONE. */
haul_tensor *haul__attention_in_blocks(haul_tensor *q, haul_tensor *k, haul_tensor *v, haul_tensor *mask, double scale,
                                       bool causal);

/* The scores with what the mask says, which may be HAUL_NONE. `scores` is dropped. */
haul_tensor *haul__attention_masked(haul_tensor *scores, haul_tensor *mask);

#endif
