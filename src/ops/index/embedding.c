/* Embedding: rows of a table, picked by indices of any shape. It is haul_index_select along axis 0, except for the
 * shapes and for a padding row without a gradient. */
#include "base/assert.h"
#include "core/option.h"
#include "ops/index/index.h"

typedef struct embedding_attributes {
    int64_t padding; /* a row of the table without a gradient; -1 for none */
} embedding_attributes;

enum { WEIGHT, INDEX };

/* The padding row's index, made non-negative. */
static haul_status complete(const haul__call *c, embedding_attributes *a)
{
    int64_t rows = c->operands[WEIGHT]->shape.dims[0], given = a->padding;
    a->padding = !given ? -1 : given == HAUL_ZERO ? 0 : given < 0 ? given + rows : given;
    if (!given || (a->padding >= 0 && a->padding < rows))
        return HAUL_OK;
    return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "padding_idx",
                      "padding_idx is %lld, but weight has %lld rows", given == HAUL_ZERO ? 0 : (long long)given,
                      (long long)rows);
}

static haul_status infer(haul__call *c)
{
    const haul_shape *weight = &c->operands[WEIGHT]->shape;
    haul_shape        shape = c->operands[INDEX]->shape;
    if (weight->ndim != 2)
        return haul__refuse_shape(c, WEIGHT, "[rows, size] is expected");
    if (shape.ndim == HAUL_MAX_DIMS)
        return haul__refuse_shape(c, INDEX, "one dimension fewer is expected: the result has one more");
    if (c->operands[INDEX]->count > 0 && weight->dims[0] == 0)
        return haul__fail(HAUL_SHAPE, c->operation->name, "index", "no index is valid: weight has no rows");
    shape.dims[shape.ndim++] = weight->dims[1];
    haul_status status = complete(c, haul__attributes(c));
    return status ? status : haul__describe(c, 0, c->operands[WEIGHT]->dtype, &shape);
}

static haul_status compute(haul__call *c)
{
    HAUL__ASSERT(c->results[0]->count == c->operands[INDEX]->count * c->operands[WEIGHT]->shape.dims[1]);
    return haul__select_elements(c, c->results[0], c->operands[WEIGHT], c->operands[INDEX], 0,
                                 haul__index_check(HAUL__CHECK_embedding, 0));
}

/* Only the picked rows are read. */
static haul__cost cost(const haul__call *c)
{
    return (haul__cost){0, (int64_t)(2 * haul_tensor_bytes(c->results[0]) + haul_tensor_bytes(c->operands[INDEX]))};
}

static void gradient(haul__gradient *c)
{
    const embedding_attributes *a = c->attributes;
    const haul_shape           *weight = haul__operand_shape(c, WEIGHT);
    haul_tensor                *index = c->saved[INDEX];
    HAUL__ASSERT(weight->ndim == 2 && -1 <= a->padding && a->padding < weight->dims[0]);
    haul_tensor *g = haul_reshape(c->results[0], HAUL_SHAPE(index->count, weight->dims[1]));
    haul_tensor *flat = haul_reshape(index, HAUL_SHAPE(index->count));
    c->operands[WEIGHT] = haul__index_select_backward(g, 0, flat, weight->dims[0], a->padding);
}

HAUL__OPERATION(embedding) = {
    .name = "haul_embedding",
    .operands = {{"weight", .layout = HAUL__ANY_STRIDES},
                 {"index", .accepts = HAUL__INTEGERS, .becomes = HAUL_I64, .saved_for = HAUL__FOR_0}},
    .results = {{"y"}},
    .dtypes = HAUL__EVERY,
    .attributes_size = HAUL__ATTRIBUTES(embedding_attributes),
    .infer = infer,
    .compute = compute,
    .gradient = gradient,
    .cost = cost,
};

HAUL__FUNCTIONS_WITH(embedding, embedding_attributes, {o->padding_idx},
                     (haul_tensor * weight, const haul_embedding_options *o), weight, o->index)
