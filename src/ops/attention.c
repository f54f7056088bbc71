/* Scaled dot-product attention: softmax(q k^T / sqrt(d) + mask) v, composed of operations.
 *
 * The query is scaled rather than the scores, which are larger. A bool mask and the causal mask replace masked scores
 * by -infinity. */
#include <math.h>

#include "core/option.h"
#include "engine/operation.h"

enum { QUERY, KEY, VALUE, MASK };

typedef struct attention_attributes {
    double scale, dropout;
    bool   causal;
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
    return haul_where(allowed, scores, haul_full(scores->dtype, HAUL_SCALAR_SHAPE, -INFINITY));
}

/* Row i attends to columns 0 to i. */
static haul_tensor *lower_triangle(int64_t rows, int64_t columns)
{
    haul_tensor *row = haul_unsqueeze(haul_arange_i64(0, rows, 1), 1), *column = haul_arange_i64(0, columns, 1);
    return haul_ge(row, column);
}

static haul_tensor *masked(const haul__call *c, haul_tensor *scores, bool causal)
{
    if (haul__failed(scores))
        return scores;
    int ndim = scores->shape.ndim;
    if (haul__has(c, MASK))
        scores = c->operands[MASK]->dtype == HAUL_BOOL ? only(scores, c->operands[MASK])
                                                       : haul_add(scores, haul_cast(c->operands[MASK], scores->dtype));
    if (!causal || haul__failed(scores))
        return scores;
    return only(scores, lower_triangle(scores->shape.dims[ndim - 2], scores->shape.dims[ndim - 1]));
}

static haul_status attention(haul__call *c)
{
    const attention_attributes *a = haul__attributes_of(c);
    haul_tensor                *q = c->operands[QUERY], *k = c->operands[KEY], *v = c->operands[VALUE];

    if (check(c) || haul_set_device(c->device)) /* the call's scope restores the setting */
        return haul_error_status();
    int64_t      features = q->shape.dims[q->shape.ndim - 1];
    double       scale = haul__option(a->scale, features ? 1 / sqrt((double)features) : 1);
    haul_tensor *scores = haul_matmul(haul_mul_scalar(q, scale), haul_transpose(k, -2, -1));
    haul_tensor *weights = haul_softmax(masked(c, scores, a->causal), -1);
    if (a->dropout > 0)
        weights = haul_dropout(weights, a->dropout, true);
    c->results[0] = haul_matmul(weights, v);
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
