/* Functions that losses share: how the losses of elements or rows become the result. */
#ifndef HAUL_OPS_LOSS_LOSS_H
#define HAUL_OPS_LOSS_LOSS_H

#include "ops/reduce/reduce.h"

/* Losses of classes: nll_loss and cross_entropy. */
typedef struct haul__class_attributes {
    haul_reduction reduction;
    int            axis;              /* of the classes */
    bool           ignores, weighted; /* weighted: the mean divides by the sum of the rows' weights */
    bool           reserved[6];
    int64_t        classes, ignored;
    double         smoothing;
} haul__class_attributes;

/* Losses of pairs of elements. */
typedef enum haul__pair_kind {
    HAUL__MSE,
    HAUL__L1,
    HAUL__HUBER,
    HAUL__SMOOTH_L1,
    HAUL__KL_DIV,
    HAUL__KL_DIV_LOG,
    HAUL__BCE
} haul__pair_kind;

typedef struct haul__pair_attributes {
    haul__pair_kind kind;
    haul_reduction  reduction;
    double          number; /* delta or beta */
} haul__pair_attributes;

typedef struct haul__ctc_attributes {
    haul_reduction reduction;
    bool           zero_infinity, reserved[3];
    int64_t        blank;
} haul__ctc_attributes;

/* For infer and compose: fails for an invalid reduction. HAUL_REDUCE_BATCH_MEAN is valid only with `batch`. */
haul_status haul__check_reduction(const haul__call *c, haul_reduction reduction, bool batch);

/* For infer and compose: operand i must have the shape of operand 0. */
haul_status haul__check_like(const haul__call *c, int i);

/* For infer and compose: operands 0 and 1, "target", must have the same shape. */
static inline haul_status haul__check_pair(const haul__call *c)
{
    return haul__check_like(c, 1);
}

/* For compute: sets the result to the losses of elements, or to their sum or mean. */
haul_status haul__reduce_losses(const haul__call *c, haul_reduction reduction, haul_tensor *losses);

/* The same for compose. Losses of f16 and bf16 are f32 until the result is rounded to operand 0's dtype. */
haul_status haul__give_reduced(haul__call *c, haul_reduction reduction, haul_tensor *losses);

/* Cross entropy of logits and probabilities of classes. */
haul_tensor *haul__cross_entropy_of_probabilities(haul_tensor *logits, const haul_cross_entropy_options *o);

#endif
