/* The steps of optimizers, each one pass over a parameter. For src/optim. */
#ifndef HAUL_OPS_OPTIMIZER_H
#define HAUL_OPS_OPTIMIZER_H

#include <haul/tensor.h>

/* All tensors of a call are dense, with the same strides, of one shape, floating dtype and device; the caller has
 * checked that. Compiling is done by haul__..._prepare, so that a step has nothing left that commonly fails. */
/* Where a step may be skipped: the kernels read on the device whether it is, and how many were made before. */
typedef struct haul__guard {
    haul_tensor *found; /* f32 []: not 0 skips the step */
    haul_tensor *made;  /* i64 [2]: steps made, in [from]; a step leaves the new number in [1 - from] */
    int          from;
} haul__guard;

typedef struct haul__sgd {
    double lr, momentum, dampening, weight_decay;
    bool   nesterov;
    bool   first; /* the velocity begins as the gradient; with a guard that is where no step was made */
} haul__sgd;

/* velocity is NULL without momentum; guard is NULL where the step is made in any case. */
haul_status haul__sgd_prepare(const haul_tensor *parameter, const haul__sgd *settings, bool guarded);
haul_status haul__sgd_step(haul_tensor *parameter, haul_tensor *velocity, haul_tensor *grad, const haul__sgd *settings,
                           const haul__guard *guard);

typedef struct haul__adam {
    double  lr, beta1, beta2, eps, weight_decay;
    bool    decoupled;
    int64_t step; /* from 1; with a guard it is one more than made */
} haul__adam;

haul_status haul__adam_prepare(const haul_tensor *parameter, bool guarded);
haul_status haul__adam_step(haul_tensor *parameter, haul_tensor *exp_avg, haul_tensor *exp_avg_sq, haul_tensor *grad,
                            const haul__adam *settings, const haul__guard *guard);

#endif
