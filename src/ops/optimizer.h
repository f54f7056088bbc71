/* The steps of optimizers, each one pass over a parameter. For src/optim. */
#ifndef HAUL_OPS_OPTIMIZER_H
#define HAUL_OPS_OPTIMIZER_H

#include <haul/tensor.h>

/* All tensors of a call are dense, with the same strides, of one shape, floating dtype and device; the caller has
 * checked that. Compiling is done by haul__..._prepare, so that a step has nothing left that commonly fails. */
typedef struct haul__sgd {
    double lr, momentum, dampening, weight_decay;
    bool   nesterov;
    bool   first; /* the velocity begins as the gradient */
} haul__sgd;

/* velocity is HAUL_NONE without momentum. */
haul_status haul__sgd_prepare(const haul_tensor *parameter, const haul__sgd *settings);
haul_status haul__sgd_step(haul_tensor *parameter, haul_tensor *velocity, haul_tensor *grad, const haul__sgd *settings);

typedef struct haul__adam {
    double  lr, beta1, beta2, eps, weight_decay;
    bool    decoupled;
    int64_t step; /* from 1 */
} haul__adam;

haul_status haul__adam_prepare(const haul_tensor *parameter);
haul_status haul__adam_step(haul_tensor *parameter, haul_tensor *exp_avg, haul_tensor *exp_avg_sq, haul_tensor *grad,
                            const haul__adam *settings);

#endif
