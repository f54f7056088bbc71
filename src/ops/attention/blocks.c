/* Attention of many queries, in blocks of them (attention.h). A block has its scores of all keys at a time, so softmax
 * needs no second pass; what depends on the shape alone decides about the blocks. */
#include "ops/attention/attention.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/numbers.h"
#include "core/scope.h"
#include "engine/copy.h"
#include "ops/normalise/softmax.h"

enum { QUERY, KEY, VALUE, MASK };

typedef struct block_attributes {
    double scale;
    bool   causal;
    bool   reserved[7];
} block_attributes;

/* Scores of a block, and its rows: a multiple of the first. */
enum { LEAST_ROWS = 64, MOST_ROWS = 512, MOST_SCORES = 1 << 22 };

/* What the passes have in common. The query is scaled, and all are as wide as what they are computed in. */
typedef struct attention {
    haul_tensor *q, *k, *v, *mask;
    bool         causal;
    int64_t      queries, keys, rows; /* rows: of a block */
    int          blocks;
} attention;

/* Queries [begin, end), which see keys up to `keys`. */
typedef struct block {
    int64_t begin, end, keys;
} block;

static block block_of(const attention *a, int i)
{
    HAUL__ASSERT(0 <= i && i < a->blocks);
    block b = {.begin = i * a->rows, .keys = a->keys};
    b.end = b.begin + a->rows < a->queries ? b.begin + a->rows : a->queries;
    if (a->causal && b.end < b.keys)
        b.keys = b.end;
    HAUL__ASSERT(b.begin < b.end && b.end <= a->queries && 0 < b.keys && b.keys <= a->keys);
    return b;
}

/* Elements [begin, end) of the axis, counted from the last; x itself if it repeats along it. */
static haul_tensor *part(haul_tensor *x, int axis, int64_t begin, int64_t end)
{
    if (haul__is_none(x) || haul__failed(x) || x->shape.ndim < -axis || x->shape.dims[x->shape.ndim + axis] == 1)
        return x;
    return haul_slice(x, axis, begin, end, 1);
}

static haul_status prepare(const haul__operation *operation, haul_tensor *const *in, const block_attributes *of,
                           attention *a)
{
    *a =
        (attention){.k = haul__widened(in[KEY]), .v = haul__widened(in[VALUE]), .mask = in[MASK], .causal = of->causal};
    a->q = haul_mul_scalar(haul__widened(in[QUERY]), of->scale);
    if (haul__failed(a->q) || haul__failed(a->k) || haul__failed(a->v))
        return haul_error_status();
    const int64_t lead =
        a->q->count / (a->q->shape.dims[a->q->shape.ndim - 2] * a->q->shape.dims[a->q->shape.ndim - 1]);
    HAUL__ASSERT(lead > 0); /* there are elements */
    a->queries = a->q->shape.dims[a->q->shape.ndim - 2];
    a->keys = a->k->shape.dims[a->k->shape.ndim - 2];
    const int64_t wanted = MOST_SCORES / lead / a->keys / LEAST_ROWS * LEAST_ROWS;
    a->rows = wanted < LEAST_ROWS ? LEAST_ROWS : wanted > MOST_ROWS ? MOST_ROWS : wanted;
    const int64_t blocks = haul__ceil_div(a->queries, a->rows);
    if (blocks > INT32_MAX)
        return haul__fail(HAUL_UNSUPPORTED, operation->name, "query", "%lld queries are too many",
                          (long long)a->queries);
    HAUL__ASSERT(a->rows >= LEAST_ROWS && a->rows % LEAST_ROWS == 0 && a->rows * blocks >= a->queries);
    a->blocks = (int)blocks;
    return HAUL_OK;
}

/* The last key that the first query of the block sees; HAUL__ALL_COLUMNS: each query sees all. */
static int64_t first_of(const attention *a, const block *b)
{
    return a->causal ? b->begin : HAUL__ALL_COLUMNS;
}

/* The weights of a block, and its part of the query. */
static haul_tensor *weights_of(const attention *a, const block *b, haul_tensor **q)
{
    *q = haul_slice(a->q, -2, b->begin, b->end, 1);
    haul_tensor *scores = haul_matmul(*q, haul_transpose(part(a->k, -2, 0, b->keys), -2, -1));
    haul_tensor *mask = part(part(a->mask, -2, b->begin, b->end), -1, 0, b->keys);
    scores = haul__attention_masked(scores, mask);
    haul_tensor *weights = haul__attention_weights(scores, first_of(a, b));
    if (!haul__failed(weights))
        haul_drop(scores);
    return weights;
}

/* ---- forward ---- */

static haul_tensor *forward_block(const attention *a, int i)
{
    const block  b = block_of(a, i);
    haul_tensor *q, *y = NULL;
    haul_scope  *scope = haul__scope_push(NULL);
    if (!scope)
        return haul__failed_tensor();
    y = haul_matmul(weights_of(a, &b, &q), part(a->v, -2, 0, b.keys));
    if (!haul__failed(y))
        haul__scope_hand_over(scope, y);
    haul_scope_pop(scope);
    return haul__failed(y) ? haul__failed_tensor() : y;
}

static haul_status forward(haul__call *c)
{
    attention a;
    if (haul_set_device(c->device) || prepare(c->operation, c->operands, haul__attributes_of(c), &a))
        return haul_error_status();
    haul_tensor **parts = haul__calloc((size_t)a.blocks, sizeof *parts);
    if (!parts)
        return haul__fail_memory(c->operation->name, (size_t)a.blocks * sizeof *parts);
    HAUL__ASSERT(a.blocks > 0);
    haul_status status = HAUL_OK;
    for (int i = 0; i < a.blocks && !status; i++)
        status = haul__status_of(parts[i] = forward_block(&a, i));
    if (!status)
        c->results[0] = haul_cast(haul_cat(parts, a.blocks, -2), c->operands[QUERY]->dtype);
    haul__free(parts);
    return status ? status : haul__status_of(c->results[0]);
}

/* ---- backward ---- */

/* Adds `more`, which has rows up to some key, to `sum`, which has at least as many; the first one becomes the sum. */
static haul_status add_rows(haul_tensor **sum, haul_tensor *more, haul_scope *scope)
{
    if (haul__failed(more))
        return haul_error_status();
    if (*sum) {
        HAUL__ASSERT((*sum)->shape.dims[more->shape.ndim - 2] >= more->shape.dims[more->shape.ndim - 2]);
        haul_tensor *rows = haul_slice(*sum, -2, 0, more->shape.dims[more->shape.ndim - 2], 1);
        return haul_add_into(rows, rows, more);
    }
    haul__scope_hand_over(scope, more);
    *sum = more;
    return HAUL_OK;
}

/* Gradients of a block: dq is that of its queries, before they are scaled; those of k and v are added. */
static haul_status backward_block(const attention *a, haul_tensor *g, int i, haul_tensor **dq, haul_tensor **dk,
                                  haul_tensor **dv)
{
    const block  b = block_of(a, i);
    haul_tensor *q, *k = part(a->k, -2, 0, b.keys), *v = part(a->v, -2, 0, b.keys);
    HAUL__ASSERT(0 <= b.begin && b.begin <= b.end && b.end <= a->queries);
    HAUL__ASSERT(b.keys <= a->keys);
    haul_scope *scope = haul__scope_push(NULL);
    if (!scope)
        return haul_error_status();
    haul_tensor *of_y = haul_slice(g, -2, b.begin, b.end, 1), *weights = weights_of(a, &b, &q);
    haul_tensor *dweights = haul_matmul(of_y, haul_transpose(v, -2, -1));
    haul_tensor *dscores = haul__attention_weights_backward(dweights, weights, first_of(a, &b));
    if (!haul__failed(dscores))
        haul_drop(dweights);
    *dq = haul_matmul(dscores, k);
    haul_status status = haul__status_of(*dq);
    if (!status)
        haul__scope_hand_over(scope, *dq);
    if (!status)
        status = add_rows(dk, haul_matmul(haul_transpose(dscores, -2, -1), q), scope);
    if (!status)
        status = add_rows(dv, haul_matmul(haul_transpose(weights, -2, -1), of_y), scope);
    haul_scope_pop(scope);
    return status;
}

/* With zeros for the keys that no query sees. */
static haul_tensor *with_all_keys(const attention *a, haul_tensor *d)
{
    haul_shape shape = d->shape;
    shape.dims[d->shape.ndim - 2] = a->keys - d->shape.dims[d->shape.ndim - 2];
    HAUL__ASSERT(shape.dims[d->shape.ndim - 2] >= 0);
    if (!shape.dims[d->shape.ndim - 2])
        return d;
    haul_tensor *zeros = haul_to(haul_zeros(d->dtype, shape), d->storage->device);
    return haul_cat((haul_tensor *[]){d, zeros}, 2, -2);
}

/* The last block comes first, since it has the most keys. */
static haul_status backward(haul__call *c)
{
    const block_attributes *of = haul__attributes_of(c);
    haul_tensor            *in[] = {c->operands[1], c->operands[2], c->operands[3], c->operands[4]};
    haul_tensor            *dk = NULL, *dv = NULL;
    attention               a;
    if (haul_set_device(c->device) || prepare(c->operation, in, of, &a))
        return haul_error_status();
    haul_tensor  *g = haul__widened(c->operands[0]);
    haul_tensor **parts = haul__calloc((size_t)a.blocks, sizeof *parts);
    if (!parts)
        return haul__fail_memory(c->operation->name, (size_t)a.blocks * sizeof *parts);
    HAUL__ASSERT(a.blocks > 0);
    haul_status status = haul__status_of(g);
    for (int i = a.blocks - 1; i >= 0 && !status; i--)
        status = backward_block(&a, g, i, &parts[i], &dk, &dv);
    if (!status) {
        c->results[0] = haul_mul_scalar(haul_cat(parts, a.blocks, -2), of->scale);
        c->results[1] = with_all_keys(&a, dk);
        c->results[2] = with_all_keys(&a, dv);
    }
    haul__free(parts);
    for (int i = 0; i < 3 && !status; i++)
        status = haul__status_of(c->results[i]);
    return status;
}

HAUL__OPERATION(attention_blocks_backward) = {
    .name = "haul_attention_blocks_backward",
    .operands = {{"g"},
                 {"query"},
                 {"key"},
                 {"value"},
                 {"mask", .optional = true, .accepts = HAUL__FLOATS | HAUL__ONLY(HAUL_BOOL)}},
    .results = {{"dq"}, {"dk"}, {"dv"}},
    .dtypes = HAUL__FLOATS,
    .attributes_size = HAUL__ATTRIBUTES(block_attributes),
    .compose = backward,
};

/* The same for all queries at a time, in operations that can be differentiated again. */
static void compose_gradient(haul__gradient *g)
{
    const block_attributes *of = g->attributes;
    attention               a;
    haul_tensor            *q, *of_y = haul__widened(g->results[0]);
    if (prepare(g->operation, g->saved, of, &a)) {
        g->operands[QUERY] = g->operands[KEY] = g->operands[VALUE] = NULL;
        return;
    }
    const block  all = {0, a.queries, a.keys};
    haul_tensor *weights = weights_of(&a, &all, &q);
    HAUL__ASSERT(haul__failed(weights) || weights->shape.dims[weights->shape.ndim - 1] == a.keys);
    haul_tensor *dweights = haul_matmul(of_y, haul_transpose(a.v, -2, -1));
    haul_tensor *dscores = haul__attention_weights_backward(dweights, weights, first_of(&a, &all));
    g->operands[QUERY] = haul_mul_scalar(haul_matmul(dscores, a.k), of->scale);
    g->operands[KEY] = haul_matmul(haul_transpose(dscores, -2, -1), q);
    g->operands[VALUE] = haul_matmul(haul_transpose(weights, -2, -1), of_y);
}

static void gradient(haul__gradient *g)
{
    haul_tensor *made[HAUL__MAX_RESULTS] = {NULL};
    if (haul__differentiated(g)) {
        compose_gradient(g);
        return;
    }
    const haul_status status = haul__apply(
        &haul__operation_attention_blocks_backward, g->attributes,
        HAUL__OPERANDS(g->results[0], g->saved[QUERY], g->saved[KEY], g->saved[VALUE], g->saved[MASK]), made);
    for (int i = QUERY; i <= VALUE; i++)
        g->operands[i] = status ? NULL : made[i];
}

#define SAVED .saved_for = HAUL__FOR_ALL
HAUL__OPERATION(attention_blocks) = {
    .name = "haul_attention_blocks",
    .operands = {{"query", SAVED},
                 {"key", SAVED},
                 {"value", SAVED},
                 {"mask", .optional = true, .accepts = HAUL__FLOATS | HAUL__ONLY(HAUL_BOOL), SAVED}},
    .results = {{"y"}},
    .dtypes = HAUL__FLOATS,
    .attributes_size = HAUL__ATTRIBUTES(block_attributes),
    .compose = forward,
    .gradient = gradient,
};

haul_tensor *haul__attention_in_blocks(haul_tensor *q, haul_tensor *k, haul_tensor *v, haul_tensor *mask, double scale,
                                       bool causal)
{
    return HAUL__APPLY(attention_blocks, (&(block_attributes){.scale = scale, .causal = causal}), q, k, v, mask);
}
