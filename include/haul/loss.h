/* Losses: operations as those of ops.h. All give the mean over the batch (the last two: over all elements) as a 0-d
 * tensor. */
#ifndef HAUL_LOSS_H
#define HAUL_LOSS_H

#include <haul/base.h>
#include <haul/error.h>
#include <haul/tensor.h>

HAUL_BEGIN

/* logits [N, C] against class indices y [N], of an integer dtype; no index is left out. An index out of range is an
 * error as in haul_index_select; on devices other than the CPU its logit counts as 0. */
HAUL_API haul_tensor *haul_cross_entropy(haul_tensor *logits, haul_tensor *y);
/* The mean of -log_p[i, y[i]]: cross entropy after haul_log_softmax. Indices as in haul_cross_entropy. */
HAUL_API haul_tensor *haul_nll_loss(haul_tensor *log_p, haul_tensor *y);
/* logits against targets in [0, 1] of the same shape: |x| (x > 0 ? 1 - y : y) + log(1 + exp(-|x|)). An infinite logit
 * gives 0 if it agrees with the target (1 for infinity, 0 for -infinity), else infinity. */
HAUL_API haul_tensor *haul_bce_with_logits(haul_tensor *logits, haul_tensor *target);
/* The mean of (x - target)^2 over all elements. */
HAUL_API haul_tensor *haul_mse_loss(haul_tensor *x, haul_tensor *target);
/* The losses into out, which is 0-d. */
HAUL_API haul_status haul_cross_entropy_into(haul_tensor *out, haul_tensor *logits, haul_tensor *y);
HAUL_API haul_status haul_nll_loss_into(haul_tensor *out, haul_tensor *log_p, haul_tensor *y);
HAUL_API haul_status haul_bce_with_logits_into(haul_tensor *out, haul_tensor *logits, haul_tensor *target);
HAUL_API haul_status haul_mse_loss_into(haul_tensor *out, haul_tensor *x, haul_tensor *target);

HAUL_END

#endif
