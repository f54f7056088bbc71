/* Dropout (Srivastava et al. 2014). The mask is not stored: element i is dropped if its random word is below p 2^32,
 * and the gradient draws the same words again from the saved seed and offset. Elements are counted in the order of
 * memory. */
#include "base/assert.h"
#include "engine/operation.h"
#include "kernels/kernels.h"
#include "kernels/types.h"
#include "ops/random/generator.h"

// clang-format off
/* kernel text begins */
#include "ops/random/philox_kernel.h"

typedef struct dropout_params {
    I64 items; /* blocks of four elements */
    I64 count;
    I64 out_offset, x_offset;
    U64 seed, offset;
    U64 threshold; /* words below are dropped */
    U64 scale;
} dropout_params;

#ifdef HAUL_KERNEL
#if IS_FLOAT
KERNEL2(dropout, dropout_params, T, out, const T, x)
{
    const A scale = SCALAR(p.scale);
    for (I64 i = ITEMS_BEGIN; i < ITEMS_END;) {
        U32 words[4 * PHILOX_BLOCKS];
        const I64 blocks = CHUNKED ? M_MIN_OF(ITEMS_END - i, PHILOX_BLOCKS) : 1, left = p.count - 4 * i;
        const int n = (int)M_MIN_OF(left, 4 * blocks);
        philox(p.seed, p.offset + (U64)i, words);
        GLOBAL const T *v = x + p.x_offset + 4 * i;
        GLOBAL T *o = out + p.out_offset + 4 * i;
        VECTOR_LOOP for (int k = 0; k < n; k++) STORE(o, k, words[k] < p.threshold ? LIT(0.0) : LOAD(v, k) * scale);
        i += ITEMS_STEP(blocks);
    }
}
#endif
#endif
/* kernel text ends */
// clang-format on

typedef struct dropout_attributes {
    double p;
    bool   training;
    bool   reserved[7];
    /* completed by infer: the position in the random stream, and the strides of the result, by which the gradient finds
     * its element i */
    int64_t           blocks;
    haul_random_state state;
    int64_t           strides[HAUL_MAX_DIMS];
} dropout_attributes;

static bool drops(const dropout_attributes *a)
{
    return a->training && a->p > 0;
}

static haul_status infer(haul__call *c)
{
    dropout_attributes *a = haul__attributes(c);
    const haul_tensor  *x = c->operands[0];
    if (!(a->p >= 0 && a->p <= 1))
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "p", "p is %g; a probability is between 0 and 1",
                          a->p);
    if (!drops(a))
        return haul__describe_view(c, 0, &x->shape, x->strides, x->offset);
    haul__shape_strides_like(&x->shape, x->strides, a->strides);
    if (haul__describe_strided(c, 0, x->dtype, &x->shape, a->strides))
        return haul_error_status();
    a->blocks = x->count / 4 + (x->count % 4 != 0);
    a->state = haul__random_take(a->blocks);
    return HAUL_OK;
}

static void give_back(haul__call *c)
{
    const dropout_attributes *a = haul__attributes(c);
    if (drops(a))
        haul__random_give_back(a->state, a->blocks);
}

static haul_status infer_again(haul__call *c)
{
    const dropout_attributes *a = haul__attributes(c);
    return haul__describe_strided(c, 0, c->operands[0]->dtype, &c->operands[0]->shape, a->strides);
}

static haul_status compute(haul__call *c)
{
    const dropout_attributes *a = haul__attributes(c);
    haul_tensor              *y = c->results[0], *x = haul__as_strided(c, c->operands[0], y->strides);
    if (haul__failed(x))
        return haul_error_status();
    HAUL__ASSERT(x->count == y->count && 4 * a->blocks >= x->count &&
                 haul__shape_same_strides(&y->shape, y->strides, a->strides));
    HAUL__ASSERT(drops(a));
    dropout_params p = {.items = a->blocks,
                        .count = x->count,
                        .out_offset = y->offset,
                        .x_offset = x->offset,
                        .seed = a->state.seed,
                        .offset = a->state.offset,
                        .threshold = (uint64_t)(a->p * 4294967296.0),
                        .scale = haul__scalar_bits(x->dtype, a->p < 1 ? 1 / (1 - a->p) : 0)};
    return haul__launch_kernel(c, HAUL__K_dropout, x->dtype, HAUL__OUT(y), HAUL__IN(x), HAUL__PARAMS(p), .grain = 2048);
}

static void gradient(haul__gradient *c);

HAUL__OPERATION(dropout) = {
    .name = "haul_dropout",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES}},
    .results = {{"y"}},
    .dtypes = HAUL__FLOATS,
    .attributes_size = HAUL__ATTRIBUTES(dropout_attributes),
    .random_at = offsetof(dropout_attributes, state),
    .blocks_at = offsetof(dropout_attributes, blocks),
    .infer = infer,
    .give_back = give_back,
    .compute = compute,
    .gradient = gradient,
    .flops = 22,
};

/* With words that were drawn before. */
HAUL__OPERATION(dropout_backward) = {
    .name = "haul_dropout_backward",
    .operands = {{"g", .layout = HAUL__ANY_STRIDES}},
    .results = {{"dx"}},
    .dtypes = HAUL__FLOATS,
    .attributes_size = HAUL__ATTRIBUTES(dropout_attributes),
    .random_at = offsetof(dropout_attributes, state),
    .infer = infer_again,
    .compute = compute,
    .gradient = gradient,
    .flops = 22,
};

/* Dropout with fixed words is linear, so dropout_backward is its gradient, and its own gradient, too. */
static void gradient(haul__gradient *c)
{
    const dropout_attributes *a = c->attributes;
    c->operands[0] = drops(a) ? HAUL__APPLY(dropout_backward, a, c->results[0]) : c->results[0];
}

haul_tensor *haul_dropout(haul_tensor *x, double p, bool training)
{
    dropout_attributes a = {.p = p, .training = training};
    return HAUL__APPLY(dropout, &a, x);
}

haul_status haul_dropout_into(haul_tensor *out, haul_tensor *x, double p, bool training)
{
    dropout_attributes a = {.p = p, .training = training};
    return HAUL__APPLY_INTO(out, dropout, &a, x);
}
