/* Functions that losses share, and losses that are composed of operations: cross entropy against probabilities, and
 * binary cross entropy of logits. */
#include "ops/loss/loss.h"

#include "base/assert.h"
#include "core/option.h"
#include "engine/copy.h"
#include "ops/pointwise/internal.h"

/* ---- what losses share ---- */

haul_status haul__check_reduction(const haul__call *c, haul_reduction reduction, bool batch)
{
    if ((int)reduction >= 0 && reduction <= (batch ? HAUL_REDUCE_BATCH_MEAN : HAUL_REDUCE_NONE))
        return HAUL_OK;
    return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "reduction",
                      "reduction is %d; HAUL_REDUCE_MEAN, HAUL_REDUCE_SUM%s HAUL_REDUCE_NONE%s is expected",
                      (int)reduction, batch ? "," : " or", batch ? " or HAUL_REDUCE_BATCH_MEAN" : "");
}

haul_status haul__check_like(const haul__call *c, int i)
{
    char                 have[96], want[96];
    const haul__operand *specs = c->operation->operands;
    if (haul__shape_equal(&c->operands[0]->shape, &c->operands[i]->shape))
        return HAUL_OK;
    return haul__fail(HAUL_SHAPE, c->operation->name, specs[i].name, "%s has shape %s, %s has %s; they must be equal",
                      specs[i].name, haul__shape_text(&c->operands[i]->shape, have, sizeof have), specs[0].name,
                      haul__shape_text(&c->operands[0]->shape, want, sizeof want));
}

haul_status haul__reduce_losses(const haul__call *c, haul_reduction reduction, haul_tensor *losses)
{
    haul_tensor *result = c->results[0];
    HAUL__ASSERT(result->count == (reduction == HAUL_REDUCE_NONE ? losses->count : 1));
    const int64_t batch = losses->shape.ndim ? losses->shape.dims[0] : 1;
    if (reduction == HAUL_REDUCE_MEAN || (reduction == HAUL_REDUCE_BATCH_MEAN && !batch))
        return haul__mean_of_all(c, result, losses);
    if (reduction == HAUL_REDUCE_NONE)
        return result == losses ? HAUL_OK : haul__copy_elements(result, losses, c->operation->name);
    return haul__sum_of_all(c, result, losses, reduction == HAUL_REDUCE_BATCH_MEAN ? (double)batch : 0);
}

haul_status haul__give_reduced(haul__call *c, haul_reduction reduction, haul_tensor *losses)
{
    const haul_dtype dtype = c->operands[0]->dtype;
    haul_tensor     *y = reduction == HAUL_REDUCE_MEAN  ? haul_mean(losses)
                         : reduction == HAUL_REDUCE_SUM ? haul_sum(losses)
                                                        : losses;
    c->results[0] = haul__failed(y) || y->dtype == dtype ? y : haul_cast(y, dtype);
    return haul__failed(c->results[0]) ? haul_error_status() : HAUL_OK;
}

/* ---- cross_entropy against probabilities ---- */

typedef struct probability_attributes {
    haul_reduction reduction;
    bool           ignores;
    bool           reserved[3];
    double         smoothing;
} probability_attributes;

/* The class weights, [C], broadcast to [N, C, ...]. */
static haul_tensor *weights_along(haul_tensor *weight, int ndim, int axis, int64_t classes)
{
    HAUL__ASSERT(axis < ndim && weight->count == classes);
    haul_shape shape = {.ndim = ndim - axis};
    for (int d = 1; d < shape.ndim; d++)
        shape.dims[d] = 1;
    shape.dims[0] = classes;
    return haul_reshape(weight, shape);
}

/* -w y log_softmax(logits), summed over the classes. */
static haul_status cross_entropy_probabilities(haul__call *c)
{
    const probability_attributes *a = haul__attributes(c);
    haul_tensor                  *x = c->operands[0], *weight = c->operands[2];
    const int                     ndim = x->shape.ndim, axis = ndim > 1;
    if (haul__check_reduction(c, a->reduction, false))
        return haul_error_status();
    if (!ndim || x->shape.dims[axis] == 0)
        return haul__refuse_shape(c, 0, "[C], [N, C] or [N, C, ...] with at least one class is expected");
    HAUL__ASSERT(axis < ndim);
    const int64_t classes = x->shape.dims[axis];
    if (a->ignores)
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "ignore_index",
                          "ignore_index is given, but y has probabilities of classes, not indices");
    if (!(a->smoothing >= 0 && a->smoothing <= 1))
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "label_smoothing",
                          "label_smoothing is %g; 0 to 1 is expected", a->smoothing);
    if (haul__has(c, 2) && !haul__shape_equal(&weight->shape, &HAUL_SHAPE(classes)))
        return haul__refuse_shape(c, 2, "one dimension is expected, with an element for each class");
    haul_tensor *y = haul__widened(c->operands[1]);
    if (a->smoothing > 0)
        y = haul_affine(y, 1 - a->smoothing, a->smoothing / (double)classes);
    haul_tensor *losses = haul_mul(haul_log_softmax(haul__widened(x), axis), y);
    if (haul__has(c, 2))
        losses = haul_mul(losses, weights_along(haul__widened(weight), ndim, axis, classes));
    return haul__give_reduced(c, a->reduction, haul_neg(haul_sum(losses, HAUL_AXES(axis))));
}

HAUL__OPERATION(cross_entropy_probabilities) = {
    .name = "haul_cross_entropy_probabilities",
    .operands = {{"logits"}, {"y"}, {"weight", .optional = true}},
    .results = {{"loss"}},
    .dtypes = HAUL__FLOATS,
    .rule = HAUL__PROMOTED,
    .autocast = HAUL__WIDE,
    .attributes_size = HAUL__ATTRIBUTES(probability_attributes),
    .compose = cross_entropy_probabilities,
};

#define PROBABILITY_ATTRIBUTES(o)                                                                                      \
    (&(probability_attributes){.reduction = (o)->reduction,                                                            \
                               .ignores = (o)->ignore_index != 0,                                                      \
                               .smoothing = haul__option((o)->label_smoothing, 0)})

haul_tensor *haul__cross_entropy_of_probabilities(haul_tensor *logits, const haul_cross_entropy_options *o)
{
    return HAUL__APPLY(cross_entropy_probabilities, PROBABILITY_ATTRIBUTES(o), logits, o->y, haul__optional(o->weight));
}

/* ---- binary cross-entropy of logits ---- */

enum { LOGITS, TARGET, WEIGHT, POS_WEIGHT };

/* weight softplus(x), and 0 if the weight is 0, whatever x is. */
static haul_tensor *weighted_softplus(haul_tensor *weight, haul_tensor *x)
{
    return haul_where(haul_eq_scalar(weight, 0), haul_zeros_like(weight), haul_mul(weight, haul_softplus(x)));
}

/* weight (pos_weight target softplus(-x) + (1 - target) softplus(x)). Without pos_weight the sum is one operation. */
static haul_status bce_with_logits(haul__call *c)
{
    const haul_reduction reduction = *(const haul_reduction *)haul__attributes(c);
    haul_tensor         *x = c->operands[LOGITS], *target = c->operands[TARGET], *losses;
    if (haul__check_reduction(c, reduction, false) || haul__check_pair(c))
        return haul_error_status();
    for (int i = WEIGHT; i <= POS_WEIGHT; i++) {
        haul_shape both = x->shape;
        if (haul__has(c, i) && (haul__shape_broadcast(&x->shape, &c->operands[i]->shape, c->operation->name, &both) ||
                                !haul__shape_equal(&both, &x->shape)))
            return haul__refuse_shape(c, i, "a shape that broadcasts to that of logits is expected");
    }
    x = haul__widened(x);
    target = haul__widened(target);
    if (haul__has(c, POS_WEIGHT))
        losses = haul_add(weighted_softplus(haul_mul(target, haul__widened(c->operands[POS_WEIGHT])), haul_neg(x)),
                          weighted_softplus(haul_affine(target, -1, 1), x));
    else
        losses = haul__bce_elements(x, target);
    if (haul__has(c, WEIGHT))
        losses = haul_mul(losses, haul__widened(c->operands[WEIGHT]));
    HAUL__ASSERT(haul__failed(losses) || haul__shape_equal(&losses->shape, &c->operands[LOGITS]->shape));
    return haul__give_reduced(c, reduction, losses);
}

HAUL__OPERATION(bce_with_logits) = {
    .name = "haul_bce_with_logits",
    .operands = {{"logits"}, {"target"}, {"weight", .optional = true}, {"pos_weight", .optional = true}},
    .results = {{"loss"}},
    .rule = HAUL__FLOATED,
    .autocast = HAUL__WIDE,
    .attributes_size = HAUL__ATTRIBUTES(haul_reduction),
    .compose = bce_with_logits,
};

#define BCE_INPUTS(o) (o)->target, haul__optional((o)->weight), haul__optional((o)->pos_weight)

haul_tensor *haul_bce_with_logits_with(haul_tensor *logits, const haul_bce_with_logits_options *o)
{
    return o ? HAUL__APPLY(bce_with_logits, &o->reduction, logits, BCE_INPUTS(o))
             : haul__no_options(&haul__operation_bce_with_logits);
}
