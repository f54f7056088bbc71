/* The updates of Adam and AdamW with AMSGrad. */
#ifndef HAUL_OPTIM_AMSGRAD_H
#define HAUL_OPTIM_AMSGRAD_H

#include "kernels/types.h"
#include "optim/adam_kernel.h"
#include "optim/optimizer.h"

typedef struct haul__amsgrad_settings {
    double  lr, beta1, beta2, eps, weight_decay;
    int64_t step; /* from 1; with a guard it is one more than the number made */
    int     from; /* the guard's */
    bool    decoupled;
    bool    reserved[3];
} haul__amsgrad_settings;

/* The scalars of the kernels of Adam and AMSGrad, in the dtype of a parameter. */
adam_params haul__adam_params(const haul__amsgrad_settings *settings, haul_dtype dtype);

/* A kind's `kernel` and `update`; the third state is the largest mean of squares. */
int         haul__amsgrad_kernel(bool guarded, int number);
haul_status haul__amsgrad_update(const haul__amsgrad_settings *settings, const haul__update *updates, int count);

#endif
