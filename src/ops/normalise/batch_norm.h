/* Declarations shared by batch normalisation and its gradient. */
#ifndef HAUL_OPS_NORMALISE_BATCH_NORM_H
#define HAUL_OPS_NORMALISE_BATCH_NORM_H

#include "engine/operation.h"

typedef struct haul__batch_norm {
    bool   training;
    bool   reserved[7];
    double momentum, eps;
} haul__batch_norm;

haul_status haul__batch_norm_infer(haul__call *c);

void haul__batch_norm_gradient(haul__gradient *gradient);

typedef struct haul__batch_norm_backward {
    bool training, wants_dx;
} haul__batch_norm_backward;

/* Operands of haul_batch_norm_backward. Its results are dx and [2, C]: for each channel the sum of g, and the sum of g
 * times the normalised x. */
enum { HAUL__BACKWARD_X, HAUL__BACKWARD_G, HAUL__BACKWARD_STATS, HAUL__BACKWARD_WEIGHT };

haul_status haul__batch_norm_compute_backward(haul__call *c);

#endif
