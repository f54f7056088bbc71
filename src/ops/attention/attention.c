/* Scaled dot-product attention: softmax(q k^T / sqrt(d) + mask) v, composed of operations.
 *
 * The query is scaled rather than the scores, which are larger. A bool mask replaces masked scores by -infinity; a row
 * without other scores has weights of 0. Causal attention needs no mask: its softmax sees a part of each row. Of f16
 * and bf16 everything is computed in f32 and the result rounded once, except that autocast decides about products. The
 * matrices of scores are dropped as soon as the next one is there, so that two of them exist at a time. Many queries
 * are taken in blocks (blocks.c). */
#include <math.h>

#include "base/assert.h"
#include "core/option.h"
#include "engine/autocast.h"
#include "engine/copy.h"
#include "ops/attention/attention.h"
#include "ops/normalise/softmax.h"

enum { QUERY, KEY, VALUE, MASK };

typedef struct attention_attributes {
    double scale, dropout;
    bool   causal;
    bool   reserved[7];
} attention_attributes;

static haul_status check(const haul__call *c)
{
    const haul_shape *q = &c->operands[QUERY]->shape, *k = &c->operands[KEY]->shape, *v = &c->operands[VALUE]->shape;
    char              sk[80], sv[80];
    if (q->ndim < 2)
        return haul__refuse_shape(c, QUERY, "at least two dimensions are expected, [..., length, features]");
    if (k->ndim < 2 || k->dims[k->ndim - 1] != q->dims[q->ndim - 1])
        return haul__refuse_shape(c, KEY, "it must be [..., length, features], with as many features as the query");
    if (v->ndim < 2 || v->dims[v->ndim - 2] != k->dims[k->ndim - 2])
        return haul__fail(HAUL_SHAPE, c->operation->name, "value",
                          "value is %s and key is %s; they must have the same length, their dimension before the last",
                          haul__shape_text(v, sv, sizeof sv), haul__shape_text(k, sk, sizeof sk));
    return HAUL_OK;
}

/* Scores where `allowed` (bool) is true, -infinity elsewhere. */
static haul_tensor *only(haul_tensor *scores, haul_tensor *allowed)
{
    haul_device *device = scores->storage->device; /* a gradient computes there, whatever the current one is */
    return haul_where_scalar(haul_to(allowed, device), scores, -INFINITY);
}

/* `made`, which was computed from `used`: that is not needed any more, except by the graph. */
static haul_tensor *after(haul_tensor *used, haul_tensor *made)
{
    if (used != made && !haul__failed(used) && !haul__failed(made))
        haul_drop(used);
    return made;
}

haul_tensor *haul__attention_masked(haul_tensor *scores, haul_tensor *mask)
{
    if (haul__failed(scores) || haul__is_none(mask) || haul__failed(mask))
        return scores;
    return after(scores,
                 mask->dtype == HAUL_BOOL ? only(scores, mask) : haul_add(scores, haul_cast(mask, scores->dtype)));
}

/* Operand i in the dtype in which the call computes. */
static haul_tensor *widened(const haul__call *c, int i)
{
    haul_tensor *x = c->operands[i];
    return haul_autocast_dtype(c->device) ? x : haul__widened(x);
}

/* `made`, which was computed from operand i as widened. */
static haul_tensor *after_widened(const haul__call *c, int i, haul_tensor *used, haul_tensor *made)
{
    return used == c->operands[i] ? made : after(used, made);
}

static haul_tensor *scores_of(const haul__call *c, double scale)
{
    haul_tensor *q = widened(c, QUERY), *k = widened(c, KEY),
                *scaled = after_widened(c, QUERY, q, haul_mul_scalar(q, scale));
    return after_widened(c, KEY, k, after(scaled, haul_matmul(scaled, haul_transpose(k, -2, -1))));
}

/* True if there are many queries. Blocks compute the weights again in the backward pass, which pays where they save
 * half of the scores. Dropout, a mask with a gradient, and autocast take the composed form. */
static bool takes_blocks(const haul__call *c)
{
    enum { MANY = 1024, MANY_CAUSAL = 512 };
    const attention_attributes *a = haul__attributes_of(c);
    const haul_shape           *q = &c->operands[QUERY]->shape;
    HAUL__ASSERT(q->ndim >= 2);
    return q->dims[q->ndim - 2] > (a->causal ? MANY_CAUSAL : MANY) && c->operands[QUERY]->count &&
           c->operands[KEY]->count && c->operands[VALUE]->count && a->dropout == 0 && !haul_autocast_dtype(c->device) &&
           !(haul__has(c, MASK) && haul__tracks(c->operands[MASK]));
}

static haul_status attention(haul__call *c)
{
    const attention_attributes *a = haul__attributes_of(c);
    const haul_tensor          *q = c->operands[QUERY];
    if (check(c) || haul_set_device(c->device)) /* the call's scope restores the setting */
        return haul_error_status();
    int64_t features = q->shape.dims[q->shape.ndim - 1];
    HAUL__ASSERT(features >= 0);
    double scale = haul__option(a->scale, features ? 1 / sqrt((double)features) : 1);
    if (takes_blocks(c)) {
        c->results[0] = haul__attention_in_blocks(c->operands[QUERY], c->operands[KEY], c->operands[VALUE],
                                                  c->operands[MASK], scale, a->causal);
        return haul__status_of(c->results[0]);
    }
    haul_tensor *scores = haul__attention_masked(scores_of(c, scale), c->operands[MASK]);
    haul_tensor *weights = after(scores, haul__attention_weights(scores, a->causal ? 0 : HAUL__ALL_COLUMNS));
    if (a->dropout > 0)
        weights = after(weights, haul_dropout(weights, a->dropout, true));
    haul_tensor *v = widened(c, VALUE), *y = after_widened(c, VALUE, v, after(weights, haul_matmul(weights, v)));
    c->results[0] = v == c->operands[VALUE] || haul__failed(y) ? y : haul_cast(y, q->dtype);
    return haul__status_of(c->results[0]);
}

HAUL__OPERATION(attention) = {
    .name = "haul_attention",
    .operands = {{"query"},
                 {"key"},
                 {"value"},
                 {"mask", .optional = true, .accepts = HAUL__FLOATS | HAUL__ONLY(HAUL_BOOL)}},
    .results = {{"y"}},
    .rule = HAUL__FLOATED,
    .attributes_size = HAUL__ATTRIBUTES(attention_attributes),
    .compose = attention,
};

static haul_status attributes_of(const haul_attention_options *o, attention_attributes *a)
{
    if (!(o->dropout >= 0 && o->dropout <= 1))
        return haul__fail(HAUL_INVALID_ARGUMENT, "haul_attention", "dropout",
                          "dropout is %g; a probability is from 0 to 1", o->dropout);
    if (!isfinite(o->scale))
        return haul__fail(HAUL_INVALID_ARGUMENT, "haul_attention", "scale", "scale is %g; it must be finite", o->scale);
    *a = (attention_attributes){.scale = o->scale, .dropout = o->dropout, .causal = o->causal};
    return HAUL_OK;
}

haul_tensor *haul_attention_with(haul_tensor *query, haul_tensor *key, const haul_attention_options *options)
{
    attention_attributes a;
    if (!options)
        return haul__no_options(&haul__operation_attention);
    if (attributes_of(options, &a))
        return haul__failed_tensor();
    return HAUL__APPLY(attention, &a, query, key, options->value, haul__optional(options->mask));
}
