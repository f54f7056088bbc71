/* Draws whose parameters are tensors: an element of the result for each element of the parameter.
 *
 * bernoulli    1 where u < p, by the words of a block as haul_uniform takes them
 * normal       as haul_normal, times the deviation
 * poisson      below a rate of 10 the arrivals, at exponential distances, within the rate; from 10 on the transformed
 *              rejection of Hoermann, "The transformed rejection method for generating Poisson random variables", 1993,
 *              with the logarithm of the probability as Loader computes it ("Fast and accurate computation of binomial
 *              probabilities", 2000), so that no digits cancel in f32
 * gamma        Marsaglia and Tsang, "A simple method for generating gamma variables", 2000
 *
 * Poisson and gamma take ELEMENT_BLOCKS blocks of four words for each element, whether they need them or not. So an
 * element's number depends on nothing but its parameter and its place. All tries fail with a chance below 1e-18; then
 * the mode is drawn. */
#include "backends/index_check.h"
#include "base/assert.h"
#include "engine/operation.h"
#include "kernels/kernels.h"
#include "kernels/types.h"
#include "ops/random/generator.h"

// clang-format off
/* kernel text begins */
#include "ops/random/philox_kernel.h"
#include "ops/random/random_kernel.h"

enum { ELEMENT_BLOCKS = 32 };

typedef struct distribution_params {
    I64 items;
    I64 count; /* elements */
    I64 out_offset, x_offset;
    U64 seed, offset;
    U32 check; /* haul__index_check */
    I32 reserved;
} distribution_params;

#if defined(HAUL_KERNEL) && IS_FLOAT
KERNEL3(bernoulli, distribution_params, T, out, const T, x, U32, fault)
{
    for (I64 i = ITEMS_BEGIN; i < ITEMS_END;) {
        U32 words[4 * PHILOX_BLOCKS];
        const int blocks = NEIGHBOURS(ITEMS_END - i, ITEMS_END - i, PHILOX_BLOCKS);
        const I64 first = i * RANDOM_EACH;
        const int n = (int)least(p.count - first, blocks * RANDOM_EACH);
        philox(p.seed, p.offset + (U64)i, words);
        for (int k = 0; k < n; k++) {
            const A chance = LOAD(x, p.x_offset + first + k);
            if (!(chance >= LIT(0.0) && chance <= LIT(1.0))) CHECKED_INDEX(fault, p.check, first + k, -1, 1);
            STORE(out, p.out_offset + first + k, random_turns(words[RANDOM_WORDS * k], words[RANDOM_WORDS * k + RANDOM_WORDS - 1]) < chance ? LIT(1.0) : LIT(0.0));
        }
        i += ITEMS_STEP(blocks);
    }
}

KERNEL3(scaled_normal, distribution_params, T, out, const T, x, U32, fault)
{
    for (I64 i = ITEMS_BEGIN; i < ITEMS_END;) {
        U32 words[4 * PHILOX_BLOCKS];
        const int blocks = NEIGHBOURS(ITEMS_END - i, ITEMS_END - i, PHILOX_BLOCKS);
        const I64 first = i * RANDOM_EACH;
        const int n = (int)least(p.count - first, blocks * RANDOM_EACH);
        philox(p.seed, p.offset + (U64)i, words);
        A z[RANDOM_EACH * PHILOX_BLOCKS];
        for (int k = 0; k < RANDOM_EACH * PHILOX_BLOCKS; k += 2) {
            A s, c;
            const A r = M_SQRT(LIT(-2.0) * random_log(random_unit_log(words[RANDOM_WORDS * k], words[RANDOM_WORDS * k + RANDOM_WORDS - 1])));
            random_turn(random_turns(words[RANDOM_WORDS * (k + 1)], words[RANDOM_WORDS * (k + 2) - 1]), &s, &c);
            z[k] = r * c;
            z[k + 1] = r * s;
        }
        for (int k = 0; k < n; k++) {
            const A deviation = LOAD(x, p.x_offset + first + k);
            if (!(deviation >= LIT(0.0))) CHECKED_INDEX(fault, p.check, first + k, -1, 1);
            STORE(out, p.out_offset + first + k, deviation * z[k]);
        }
        i += ITEMS_STEP(blocks);
    }
}

/* The arrivals within `rate`. */
FUNC A poisson_few(A rate, U64 seed, U64 counter)
{
    A time = LIT(0.0), n = LIT(0.0);
    for (int b = 0; b < ELEMENT_BLOCKS; b++) {
        A first, second;
        random_pair(seed, counter + (U64)b, &first, &second);
        time += random_waiting(first);
        if (time > rate) break;
        n += LIT(1.0);
        time += random_waiting(LIT(1.0) - second);
        if (time > rate) break;
        n += LIT(1.0);
    }
    return n;
}

/* The logarithm of the probability of k at a rate from 10 on. */
FUNC A poisson_log(A k, A rate)
{
    if (k < LIT(10.0)) {
        A factorial = LIT(1.0);
        for (int i = 2; i <= (int)k; i++) factorial *= (A)i;
        return k * random_log(rate) - rate - random_log(factorial);
    }
    const A d = k - rate, v = d / (k + rate), v2 = v * v, k2 = k * k;
    A deviance = d * v, term = LIT(2.0) * k * v;
    if (v2 < LIT(0.01))
        for (int j = 1; j <= 10; j++) {
            term *= v2;
            deviance += term / (A)(2 * j + 1);
        }
    else
        deviance = k * random_log(k / rate) + rate - k;
    const A stirling = (LIT(0.0833333333333333333) - (LIT(0.00277777777777777778) - (LIT(7.93650793650793651e-4) -
                        LIT(5.95238095238095238e-4) / k2) / k2) / k2) / k;
    return -stirling - deviance - LIT(0.5) * random_log(LIT(6.28318530717958648) * k);
}

FUNC A poisson_many(A rate, U64 seed, U64 counter)
{
    const A b = LIT(0.931) + LIT(2.53) * M_SQRT(rate), a = LIT(0.02483) * b - LIT(0.059);
    const A scale = LIT(1.1239) + LIT(1.1328) / (b - LIT(3.4)), inner = LIT(0.9277) - LIT(3.6224) / (b - LIT(2.0));
    for (int t = 0; t < ELEMENT_BLOCKS; t++) {
        A v, u;
        random_pair(seed, counter + (U64)t, &v, &u);
        u -= LIT(0.5);
        const A us = LIT(0.5) - M_ABS(u);
        if (us < LIT(0.013) && v > us) continue;
        const A k = M_FLOOR((LIT(2.0) * a / us + b) * u + rate + LIT(0.43));
        if (us >= LIT(0.07) && v <= inner) return k;
        if (k >= LIT(0.0) && random_log(v * scale / (a / (us * us) + b)) <= poisson_log(k, rate)) return k;
    }
    return M_FLOOR(rate);
}

KERNEL3(poisson, distribution_params, T, out, const T, x, U32, fault)
{
    FOR_ITEMS(i) {
        const A rate = LOAD(x, p.x_offset + i);
        const U64 counter = p.offset + (U64)i * ELEMENT_BLOCKS;
        A k = LIT(0.0);
        if (!(rate >= LIT(0.0)) || rate - rate != LIT(0.0)) CHECKED_INDEX(fault, p.check, i, -1, 1);
        else k = rate < LIT(10.0) ? poisson_few(rate, p.seed, counter) : poisson_many(rate, p.seed, counter);
        STORE(out, p.out_offset + i, k);
    }
}

/* For alpha below 1 a number of alpha + 1, times u^(1 / alpha). */
FUNC A gamma_of(A alpha, U64 seed, U64 counter)
{
    const A d = (alpha < LIT(1.0) ? alpha + LIT(1.0) : alpha) - LIT(0.333333333333333333), c = LIT(1.0) / M_SQRT(LIT(9.0) * d);
    A first, second, factor = LIT(1.0), y = LIT(1.0);
    random_pair(seed, counter, &first, &second);
    if (alpha < LIT(1.0)) factor = random_exp(random_log(first) / alpha);
    for (int t = 1; t + 1 < ELEMENT_BLOCKS; t += 2) {
        A turns, u, s, cosine;
        random_pair(seed, counter + (U64)t, &first, &turns);
        random_pair(seed, counter + (U64)t + 1, &u, &second);
        random_turn(turns, &s, &cosine);
        const A z = M_SQRT(LIT(-2.0) * random_log(first)) * cosine, w = LIT(1.0) + c * z, v = w * w * w;
        if (w > LIT(0.0) && random_log(u) < LIT(0.5) * z * z + d * (LIT(1.0) - v + random_log(v))) {
            y = v;
            break;
        }
    }
    return d * y * factor;
}

KERNEL3(gamma, distribution_params, T, out, const T, x, U32, fault)
{
    FOR_ITEMS(i) {
        const A alpha = LOAD(x, p.x_offset + i);
        A y = LIT(0.0);
        if (!(alpha > LIT(0.0)) || alpha - alpha != LIT(0.0)) CHECKED_INDEX(fault, p.check, i, -1, 1);
        else y = gamma_of(alpha, p.seed, p.offset + (U64)i * ELEMENT_BLOCKS);
        STORE(out, p.out_offset + i, y);
    }
}
#endif
/* kernel text ends */
// clang-format on

/* How the operations differ. */
typedef struct distribution {
    int                  kernel;
    bool                 by_block; /* a block gives several elements; else an element takes ELEMENT_BLOCKS */
    haul__index_check_id check;
} distribution;

typedef struct distribution_attributes {
    int64_t items;
    /* completed by infer: work items, the blocks that are drawn, and where they begin */
    int64_t           blocks;
    haul_random_state state;
} distribution_attributes;

static haul_status infer(haul__call *c)
{
    const distribution      *d = c->operation->extra;
    distribution_attributes *a = haul__attributes(c);
    const haul_tensor       *x = c->operands[0];
    const int64_t            each = x->dtype == HAUL_F64 ? 2 : 4;
    a->items = d->by_block ? x->count / each + (x->count % each != 0) : x->count;
    if (!haul__mul_size(a->items, d->by_block ? 1 : ELEMENT_BLOCKS, &a->blocks))
        return haul__refuse_shape(c, 0, "fewer elements are expected");
    if (haul__describe(c, 0, x->dtype, &x->shape))
        return haul_error_status();
    a->state = haul__random_take(a->blocks);
    return HAUL_OK;
}

static void give_back(haul__call *c)
{
    const distribution_attributes *a = haul__attributes(c);
    HAUL__ASSERT(a->blocks >= 0);
    haul__random_give_back(a->state, a->blocks);
}

static haul_status compute(haul__call *c)
{
    const distribution            *d = c->operation->extra;
    const distribution_attributes *a = haul__attributes(c);
    haul_tensor                   *y = c->results[0], *x = c->operands[0];
    HAUL__ASSERT(x->count == y->count && a->blocks >= a->items);
    HAUL__ASSERT(y->dtype == x->dtype);
    distribution_params p = {.items = a->items,
                             .count = x->count,
                             .out_offset = y->offset,
                             .x_offset = x->offset,
                             .seed = a->state.seed,
                             .offset = a->state.offset,
                             .check = haul__index_check(d->check, 0)};
    return haul__launch_kernel(c, d->kernel, x->dtype, HAUL__OUT(y), HAUL__IN(x), HAUL__PARAMS(p), .checks = true,
                               .grain = d->by_block ? 2048 : 128);
}

#define DISTRIBUTION                                                                                                   \
    .results = {{"y"}}, .dtypes = HAUL__FLOATS, .not_recorded = true,                                                  \
    .attributes_size = HAUL__ATTRIBUTES(distribution_attributes),                                                      \
    .random_at = offsetof(distribution_attributes, state), .blocks_at = offsetof(distribution_attributes, blocks),     \
    .infer = infer, .give_back = give_back, .compute = compute

HAUL__OPERATION(bernoulli) = {
    .name = "haul_bernoulli",
    .operands = {{"p"}},
    DISTRIBUTION,
    .extra = &(const distribution){HAUL__K_bernoulli, true, HAUL__CHECK_bernoulli},
    .flops = 25,
};

HAUL__OPERATION(scaled_normal) = {
    .name = "haul_scaled_normal",
    .operands = {{"deviation"}},
    DISTRIBUTION,
    .extra = &(const distribution){HAUL__K_scaled_normal, true, HAUL__CHECK_normal_of},
    .flops = 60,
};

HAUL__OPERATION(poisson) = {
    .name = "haul_poisson",
    .operands = {{"rate"}},
    DISTRIBUTION,
    .extra = &(const distribution){HAUL__K_poisson, false, HAUL__CHECK_poisson},
    .flops = 300,
};

HAUL__OPERATION(gamma) = {
    .name = "haul_gamma",
    .operands = {{"alpha"}},
    DISTRIBUTION,
    .extra = &(const distribution){HAUL__K_gamma, false, HAUL__CHECK_gamma},
    .flops = 400,
};

/* ---- normal numbers with parameters for each element ---- */

static haul_status normal_of(haul__call *c)
{
    haul_tensor *mean = c->operands[0], *deviation = c->operands[1];
    haul_shape   shape;
    if (haul__shape_broadcast(&mean->shape, &deviation->shape, c->operation->name, &shape))
        return haul_error_status();
    c->results[0] = haul_add(haul_detach(mean),
                             HAUL__APPLY(scaled_normal, &(distribution_attributes){0}, haul_expand(deviation, shape)));
    return haul__failed(c->results[0]) ? haul_error_status() : HAUL_OK;
}

HAUL__OPERATION(normal_of) = {
    .name = "haul_normal_of",
    .operands = {{"mean", .layout = HAUL__ANY_STRIDES}, {"deviation", .layout = HAUL__ANY_STRIDES}},
    .results = {{"y"}},
    .dtypes = HAUL__FLOATS,
    .rule = HAUL__PROMOTED,
    .not_recorded = true,
    .compose = normal_of,
};

/* ---- the functions ---- */

haul_tensor *haul_bernoulli(haul_tensor *p)
{
    return HAUL__APPLY(bernoulli, &(distribution_attributes){0}, p);
}

haul_tensor *haul_normal_of(haul_tensor *mean, haul_tensor *deviation)
{
    return HAUL__APPLY(normal_of, NULL, mean, deviation);
}

haul_tensor *haul_poisson(haul_tensor *rate)
{
    return HAUL__APPLY(poisson, &(distribution_attributes){0}, rate);
}

haul_tensor *haul_gamma(haul_tensor *alpha)
{
    return HAUL__APPLY(gamma, &(distribution_attributes){0}, alpha);
}
