/* The device side of loss scaling. */
#ifndef HAUL_OPTIM_SCALING_H
#define HAUL_OPTIM_SCALING_H

#include <haul/tensor.h>

/* The number of marks that a gradient of `count` elements leaves: one for each piece of it. */
int64_t haul__grad_marks(int64_t count);

/* Compiles the kernels of the next two functions, so that launching them does not usually fail. */
haul_status haul__grad_prepare(const haul_tensor *grad);

/* Divides a dense gradient by `scale` (f32 [], on the same device) in place, and leaves marks from `at` on in `marks`
 * (f32 [...]): a mark is not 0 if an element of its piece is infinite or NaN. */
haul_status haul__grad_unscale(haul_tensor *grad, haul_tensor *scale, haul_tensor *marks, int64_t at);

/* found (f32 []) = 1 if a mark is not 0, else 0; adds the same to skipped (i64 [], or HAUL_NONE). */
haul_status haul__grad_found(haul_tensor *found, haul_tensor *skipped, haul_tensor *marks);

typedef struct haul__grad_growth {
    double  growth, backoff, least;
    int64_t interval;
} haul__grad_growth;

/* Replaces the scale (f32 []) and the steps since it changed (i32 []) by fresh tensors, after a step with this `found`
 * (f32 []): the scale is decreased if `found` is not 0, but not below `least`, and increased after `interval` steps
 * without an overflow. Steps that are skipped although the scale is `least` make the second number negative: it is then
 * minus their number. */
haul_status haul__grad_scale_update(haul_tensor **scale, haul_tensor **tracker, haul_tensor *found,
                                    const haul__grad_growth *how);

#endif
