/* Lengths of vectors, and distances and angles between them, composed of haul_norm and pointwise operations. */
#include "core/option.h"
#include "engine/copy.h"
#include "engine/operation.h"

typedef struct similarity_attributes {
    int    axis;
    int    reserved;
    double p, eps;
} similarity_attributes;

/* The result, rounded to the operands' dtype. */
static haul_status give(haul__call *c, haul_tensor *y)
{
    const haul_dtype dtype = c->operands[0]->dtype;
    c->results[0] = haul__failed(y) || y->dtype == dtype ? y : haul_cast(y, dtype);
    return haul__failed(c->results[0]) ? haul_error_status() : HAUL_OK;
}

static haul_status check_eps(const haul__call *c, double eps)
{
    return eps >= 0
               ? HAUL_OK
               : haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "eps", "eps is %g; 0 or more is expected", eps);
}

static haul_status check_p(const haul__call *c, double p)
{
    return p >= 0 ? HAUL_OK
                  : haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "p",
                               "p is %g; 0 or more, or INFINITY, is expected", p);
}

/* haul_norm takes zero as HAUL_ZERO. */
static double exponent(double p)
{
    return p == 0 ? HAUL_ZERO : p;
}

/* x / max(norm, eps). */
static haul_tensor *unit(haul_tensor *x, int axis, double p, double eps)
{
    haul_tensor *norm = haul_norm(x, HAUL_AXES(axis), .p = exponent(p), .keepdim = true);
    return haul_div(x, haul_maximum_scalar(norm, eps));
}

/* ---- haul_normalize ---- */

static haul_status normalize(haul__call *c)
{
    const similarity_attributes *a = haul__attributes(c);
    int                          axis;
    if (haul__axis(a->axis, c->operands[0]->shape.ndim, c->operation->name, &axis) || check_p(c, a->p) ||
        check_eps(c, a->eps))
        return haul_error_status();
    return give(c, unit(haul__widened(c->operands[0]), axis, a->p, a->eps));
}

HAUL__OPERATION(normalize) = {
    .name = "haul_normalize",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES}},
    .results = {{"y"}},
    .rule = HAUL__FLOATED,
    .autocast = HAUL__WIDE,
    .attributes_size = HAUL__ATTRIBUTES(similarity_attributes),
    .compose = normalize,
};

haul_tensor *haul_normalize_with(haul_tensor *x, const haul_normalize_options *o)
{
    if (!o)
        return haul__no_options(&haul__operation_normalize);
    similarity_attributes a = {.axis = o->axis, .p = haul__option(o->p, 2), .eps = haul__option(o->eps, 1e-12)};
    return HAUL__APPLY(normalize, &a, x);
}

/* ---- haul_cosine_similarity ---- */

static haul_status cosine_similarity(haul__call *c)
{
    const similarity_attributes *s = haul__attributes(c);
    haul_shape                   both;
    int                          axis;
    if (haul__shape_broadcast(&c->operands[0]->shape, &c->operands[1]->shape, c->operation->name, &both) ||
        haul__axis(s->axis, both.ndim, c->operation->name, &axis) || check_eps(c, s->eps))
        return haul_error_status();
    haul_tensor *a = haul_expand(haul__widened(c->operands[0]), both);
    haul_tensor *b = haul_expand(haul__widened(c->operands[1]), both);
    haul_tensor *products = haul_mul(unit(a, axis, 2, s->eps), unit(b, axis, 2, s->eps));
    return give(c, both.ndim ? haul_sum(products, HAUL_AXES(axis)) : products);
}

HAUL__OPERATION(cosine_similarity) = {
    .name = "haul_cosine_similarity",
    .operands = {{"a", .layout = HAUL__ANY_STRIDES}, {"b", .layout = HAUL__ANY_STRIDES}},
    .results = {{"y"}},
    .rule = HAUL__FLOATED,
    .autocast = HAUL__WIDE,
    .attributes_size = HAUL__ATTRIBUTES(similarity_attributes),
    .compose = cosine_similarity,
};

haul_tensor *haul_cosine_similarity_with(haul_tensor *a, haul_tensor *b, const haul_cosine_similarity_options *o)
{
    if (!o)
        return haul__no_options(&haul__operation_cosine_similarity);
    similarity_attributes s = {.axis = o->axis, .p = 2, .eps = haul__option(o->eps, 1e-8)};
    return HAUL__APPLY(cosine_similarity, &s, a, b);
}

/* ---- haul_cdist ---- */

static haul_status cdist(haul__call *c)
{
    const similarity_attributes *s = haul__attributes(c);
    const haul_shape            *a = &c->operands[0]->shape, *b = &c->operands[1]->shape;
    for (int i = 0; i < 2; i++)
        if (c->operands[i]->shape.ndim < 2 || c->operands[i]->shape.ndim >= HAUL_MAX_DIMS)
            return haul__refuse_shape(c, i,
                                      i ? "[..., R, M] is expected, of 2 to 7 dimensions"
                                        : "[..., P, M] is expected, of 2 to 7 dimensions");
    if (a->dims[a->ndim - 1] != b->dims[b->ndim - 1])
        return haul__fail(HAUL_SHAPE, c->operation->name, "b",
                          "the rows of a have %lld elements and those of b %lld; they must have the same number",
                          (long long)a->dims[a->ndim - 1], (long long)b->dims[b->ndim - 1]);
    if (check_p(c, s->p))
        return haul_error_status();
    haul_tensor *differences =
        haul_sub(haul_unsqueeze(haul__widened(c->operands[0]), -2), haul_unsqueeze(haul__widened(c->operands[1]), -3));
    return give(c, haul_norm(differences, HAUL_AXES(-1), .p = exponent(s->p)));
}

HAUL__OPERATION(cdist) = {
    .name = "haul_cdist",
    .operands = {{"a", .layout = HAUL__ANY_STRIDES}, {"b", .layout = HAUL__ANY_STRIDES}},
    .results = {{"y"}},
    .rule = HAUL__FLOATED,
    .autocast = HAUL__WIDE,
    .attributes_size = HAUL__ATTRIBUTES(similarity_attributes),
    .compose = cdist,
};

haul_tensor *haul_cdist_with(haul_tensor *a, const haul_cdist_options *o)
{
    if (!o)
        return haul__no_options(&haul__operation_cdist);
    similarity_attributes s = {.p = haul__option(o->p, 2)};
    return HAUL__APPLY(cdist, &s, a, o->b);
}
