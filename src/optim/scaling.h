/* What loss scaling does on a device. */
#ifndef HAUL_OPTIM_SCALING_H
#define HAUL_OPTIM_SCALING_H

#include <haul/tensor.h>

/* Elements that leave one mark: how many marks a gradient of `count` elements leaves. */
int64_t haul__grad_marks(int64_t count);

/* Compile what the next two launch, so that they have nothing left that commonly fails. */
haul_status haul__grad_prepare(const haul_tensor *grad);

/* Divide a dense gradient by `scale` (f32 [], on the same device) in place, and leave marks from `at` on in `marks`
 * (f32 [...]): not 0 where something is infinite or NaN. */
haul_status haul__grad_unscale(haul_tensor *grad, haul_tensor *scale, haul_tensor *marks, int64_t at);

/* found (f32 []) = 1 if a mark is not 0, else 0; skipped (i64 [], or HAUL_NONE) counts on by as much. */
haul_status haul__grad_found(haul_tensor *found, haul_tensor *skipped, haul_tensor *marks);

typedef struct haul__grad_growth {
    double  growth, backoff;
    int64_t interval;
} haul__grad_growth;

/* The next scale (f32 []) and steps since it changed (i32 []), fresh tensors in place of those of now, after a step of
 * which `found` (f32 []) tells: backed off if it is not 0, grown after `interval` steps without. */
haul_status haul__grad_scale_update(haul_tensor **scale, haul_tensor **tracker, haul_tensor *found,
                                    const haul__grad_growth *how);

#endif
