/* Losses of margins between scores, distances and cosines, composed of operations with PyTorch's formulas. */
#include <math.h>

#include "base/assert.h"
#include "core/option.h"
#include "engine/copy.h"
#include "ops/loss/loss.h"

typedef struct margin_attributes {
    haul_reduction reduction;
    int            power;
    bool           swap;
    bool           reserved[7];
    double         margin, p, eps;
} margin_attributes;

/* max(x, 0). The gradient passes at 0, as in PyTorch. */
static haul_tensor *above_zero(haul_tensor *x)
{
    return haul_clamp(x, 0, INFINITY);
}

/* x where `target` is `kind`, else 0. */
static haul_tensor *where_target(haul_tensor *target, double kind, haul_tensor *x)
{
    return haul_where_scalar(haul_eq_scalar(target, kind), x, 0);
}

static haul_status check_number(const haul__call *c, const char *name, double value)
{
    return isfinite(value) ? HAUL_OK
                           : haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, name,
                                        "%s is %g; a finite number is expected", name, value);
}

/* ---- haul_triplet_margin_loss ---- */

/* The norm of a - b + eps over the last axis. */
static haul_tensor *distance(haul_tensor *a, haul_tensor *b, const margin_attributes *m)
{
    return haul_norm(haul_add_scalar(haul_sub(a, b), m->eps), HAUL_AXES(-1), .p = m->p == 0 ? HAUL_ZERO : m->p);
}

static haul_status triplet_margin_loss(haul__call *c)
{
    const margin_attributes *m = haul__attributes(c);
    if (!c->operands[0]->shape.ndim)
        return haul__refuse_shape(c, 0, "[..., D] is expected");
    if (haul__check_reduction(c, m->reduction, false) || haul__check_like(c, 1) || haul__check_like(c, 2) ||
        check_number(c, "margin", m->margin) || check_number(c, "eps", m->eps))
        return haul_error_status();
    if (!(m->p >= 0))
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "p",
                          "p is %g; 0 or more, or INFINITY, is expected", m->p);
    haul_tensor *anchor = haul__widened(c->operands[0]), *positive = haul__widened(c->operands[1]);
    haul_tensor *negative = haul__widened(c->operands[2]);
    haul_tensor *near = distance(anchor, positive, m), *far = distance(anchor, negative, m);
    HAUL__ASSERT(haul__failed(near) || near->shape.ndim == c->operands[0]->shape.ndim - 1);
    if (m->swap)
        far = haul_minimum(far, distance(positive, negative, m));
    return haul__give_reduced(c, m->reduction, above_zero(haul_add_scalar(haul_sub(near, far), m->margin)));
}

/* ---- haul_cosine_embedding_loss ---- */

/* The sum of squares over the last axis, with 1e-12. */
static haul_tensor *square_length(haul_tensor *x)
{
    return haul_add_scalar(haul_sum(haul_square(x), HAUL_AXES(-1)), 1e-12);
}

static haul_status cosine_embedding_loss(haul__call *c)
{
    const margin_attributes *m = haul__attributes(c);
    const haul_shape        *x = &c->operands[0]->shape, *target = &c->operands[2]->shape;
    if (x->ndim != 1 && x->ndim != 2)
        return haul__refuse_shape(c, 0, "[N, D] or [D] is expected");
    if (haul__check_reduction(c, m->reduction, false) || haul__check_like(c, 1) || check_number(c, "margin", m->margin))
        return haul_error_status();
    if (target->ndim != x->ndim - 1 || (target->ndim && target->dims[0] != x->dims[0]))
        return haul__refuse_shape(c, 2,
                                  x->ndim == 2 ? "one dimension is expected, with an element for each row of a"
                                               : "no dimensions are expected, as a has one");
    haul_tensor *a = haul__widened(c->operands[0]), *b = haul__widened(c->operands[1]), *kind = c->operands[2];
    haul_tensor *products = haul_sum(haul_mul(a, b), HAUL_AXES(-1));
    haul_tensor *cosine = haul_div(products, haul_sqrt(haul_mul(square_length(a), square_length(b))));
    HAUL__ASSERT(haul__failed(cosine) || haul__shape_equal(&cosine->shape, target));
    haul_tensor *similar = where_target(kind, 1, haul_affine(cosine, -1, 1));
    haul_tensor *other = where_target(kind, -1, above_zero(haul_sub_scalar(cosine, m->margin)));
    return haul__give_reduced(c, m->reduction, haul_add(similar, other));
}

/* ---- haul_hinge_embedding_loss ---- */

static haul_status hinge_embedding_loss(haul__call *c)
{
    const margin_attributes *m = haul__attributes(c);
    if (haul__check_reduction(c, m->reduction, false) || haul__check_pair(c) || check_number(c, "margin", m->margin))
        return haul_error_status();
    haul_tensor *x = haul__widened(c->operands[0]), *target = c->operands[1];
    haul_tensor *other = haul_masked_fill(above_zero(haul_affine(x, -1, m->margin)), haul_eq_scalar(target, 1), 0);
    return haul__give_reduced(c, m->reduction, haul_add(other, haul_masked_fill(x, haul_eq_scalar(target, -1), 0)));
}

/* ---- haul_margin_ranking_loss ---- */

static haul_status margin_ranking_loss(haul__call *c)
{
    const margin_attributes *m = haul__attributes(c);
    if (haul__check_reduction(c, m->reduction, false) || haul__check_like(c, 1) || haul__check_like(c, 2) ||
        check_number(c, "margin", m->margin))
        return haul_error_status();
    haul_tensor *difference = haul_sub(haul__widened(c->operands[1]), haul__widened(c->operands[0]));
    haul_tensor *loss = haul_add_scalar(haul_mul(haul__widened(c->operands[2]), difference), m->margin);
    return haul__give_reduced(c, m->reduction, above_zero(loss));
}

/* ---- haul_multi_margin_loss ---- */

static haul_status check_classes(haul__call *c, const margin_attributes *m)
{
    const haul_shape *x = &c->operands[0]->shape, *y = &c->operands[1]->shape;
    if ((x->ndim != 1 && x->ndim != 2) || x->dims[x->ndim - 1] == 0)
        return haul__refuse_shape(c, 0, "[N, C] or [C] with at least one class is expected");
    if (haul__check_reduction(c, m->reduction, false) || check_number(c, "margin", m->margin))
        return haul_error_status();
    if (y->ndim != x->ndim - 1 || (y->ndim && y->dims[0] != x->dims[0]))
        return haul__refuse_shape(c, 1,
                                  x->ndim == 2 ? "one dimension is expected, with an element for each row of x"
                                               : "no dimensions are expected, as x has one");
    if (haul__has(c, 2) && !haul__shape_equal(&c->operands[2]->shape, &HAUL_SHAPE(x->dims[x->ndim - 1])))
        return haul__refuse_shape(c, 2, "one dimension is expected, with an element for each class");
    if (m->power != 1 && m->power != 2)
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "p", "p is %d; 1 or 2 is expected", m->power);
    return HAUL_OK;
}

static haul_status multi_margin_loss(haul__call *c)
{
    const margin_attributes *m = haul__attributes(c);
    if (check_classes(c, m))
        return haul_error_status();
    haul_tensor  *x = haul__widened(c->operands[0]), *y = c->operands[1];
    const int64_t classes = x->shape.dims[x->shape.ndim - 1];
    HAUL__ASSERT(classes > 0 && x->count == y->count * classes);
    haul_tensor *own = haul_gather(x, -1, haul_unsqueeze(y, -1));
    haul_tensor *terms = haul_relu(haul_add_scalar(haul_sub(x, own), m->margin));
    if (m->power == 2)
        terms = haul_square(terms);
    haul_tensor *is_own = haul_cast(haul_one_hot(y, classes), HAUL_BOOL);
    haul_tensor *losses = haul_sum(haul_masked_fill(terms, is_own, 0), HAUL_AXES(-1));
    losses = haul_mul_scalar(losses, 1 / (double)classes);
    if (haul__has(c, 2)) {
        haul_tensor *own_weight = haul_index_select(haul__widened(c->operands[2]), 0, haul_flatten(y, 0));
        losses = haul_mul(losses, haul_reshape(own_weight, y->shape));
    }
    HAUL__ASSERT(haul__failed(losses) || losses->count == y->count);
    return haul__give_reduced(c, m->reduction, losses);
}

/* ---- the operations ---- */

#define MARGIN_LOSS                                                                                                    \
    .results = {{"loss"}}, .rule = HAUL__FLOATED, .autocast = HAUL__WIDE,                                              \
    .attributes_size = HAUL__ATTRIBUTES(margin_attributes)

HAUL__OPERATION(triplet_margin_loss) = {.name = "haul_triplet_margin_loss",
                                        .operands = {{"anchor"}, {"positive"}, {"negative"}},
                                        MARGIN_LOSS,
                                        .compose = triplet_margin_loss};
HAUL__OPERATION(cosine_embedding_loss) = {.name = "haul_cosine_embedding_loss",
                                          .operands = {{"a"}, {"b"}, {"target"}},
                                          MARGIN_LOSS,
                                          .compose = cosine_embedding_loss};
HAUL__OPERATION(hinge_embedding_loss) = {
    .name = "haul_hinge_embedding_loss", .operands = {{"x"}, {"target"}}, MARGIN_LOSS, .compose = hinge_embedding_loss};
HAUL__OPERATION(margin_ranking_loss) = {.name = "haul_margin_ranking_loss",
                                        .operands = {{"a"}, {"b"}, {"target"}},
                                        MARGIN_LOSS,
                                        .compose = margin_ranking_loss};
HAUL__OPERATION(multi_margin_loss) = {
    .name = "haul_multi_margin_loss",
    .operands = {{"x"}, {"y", .accepts = HAUL__INTEGERS}, {"weight", .optional = true}},
    MARGIN_LOSS,
    .compose = multi_margin_loss};

haul_tensor *haul_triplet_margin_loss_with(haul_tensor *anchor, haul_tensor *positive,
                                           const haul_triplet_margin_loss_options *o)
{
    if (!o)
        return haul__no_options(&haul__operation_triplet_margin_loss);
    margin_attributes m = {.reduction = o->reduction,
                           .swap = o->swap,
                           .margin = haul__option(o->margin, 1),
                           .p = haul__option(o->p, 2),
                           .eps = haul__option(o->eps, 1e-6)};
    return HAUL__APPLY(triplet_margin_loss, &m, anchor, positive, o->negative);
}

haul_tensor *haul_cosine_embedding_loss_with(haul_tensor *a, haul_tensor *b,
                                             const haul_cosine_embedding_loss_options *o)
{
    if (!o)
        return haul__no_options(&haul__operation_cosine_embedding_loss);
    margin_attributes m = {.reduction = o->reduction, .margin = haul__option(o->margin, 0)};
    return HAUL__APPLY(cosine_embedding_loss, &m, a, b, o->target);
}

haul_tensor *haul_hinge_embedding_loss_with(haul_tensor *x, const haul_hinge_embedding_loss_options *o)
{
    if (!o)
        return haul__no_options(&haul__operation_hinge_embedding_loss);
    margin_attributes m = {.reduction = o->reduction, .margin = haul__option(o->margin, 1)};
    return HAUL__APPLY(hinge_embedding_loss, &m, x, o->target);
}

haul_tensor *haul_margin_ranking_loss_with(haul_tensor *a, haul_tensor *b, const haul_margin_ranking_loss_options *o)
{
    if (!o)
        return haul__no_options(&haul__operation_margin_ranking_loss);
    margin_attributes m = {.reduction = o->reduction, .margin = haul__option(o->margin, 0)};
    return HAUL__APPLY(margin_ranking_loss, &m, a, b, o->target);
}

haul_tensor *haul_multi_margin_loss_with(haul_tensor *x, const haul_multi_margin_loss_options *o)
{
    if (!o)
        return haul__no_options(&haul__operation_multi_margin_loss);
    margin_attributes m = {.reduction = o->reduction, .power = o->p ? o->p : 1, .margin = haul__option(o->margin, 1)};
    return HAUL__APPLY(multi_margin_loss, &m, x, o->y, haul__optional(o->weight));
}
