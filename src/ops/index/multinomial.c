/* haul_multinomial: categories by weights, a draw for each row.
 *
 * A first kernel adds the weights of each row up, in order and with compensation (Kahan 1965), and checks them. With
 * replacement a sample is the category in which u times the sum falls, found by bisection. Without replacement the
 * samples are the largest of w / e, with an exponentially distributed e for each weight (Efraimidis and Spirakis,
 * "Weighted random sampling with a reservoir", 2006). */
#include "backends/index_check.h"
#include "base/assert.h"
#include "engine/operation.h"
#include "kernels/kernels.h"
#include "kernels/types.h"
#include "ops/random/generator.h"

// clang-format off
/* kernel text begins */
#include "ops/random/random_kernel.h"

typedef struct multinomial_params {
    I64 items;
    I64 categories, samples; /* of a row */
    I64 needed;              /* weights of a row that must be above 0 */
    I64 out_offset, sums_offset, x_offset;
    U64 seed, offset;
    U32 check; /* haul__index_check */
    I32 reserved;
} multinomial_params;

#ifdef HAUL_KERNEL
#if IS_FLOAT
/* sums[j] = weights 0 to j of the row. A weight of 0 leaves the sum, so no sample falls there. */
KERNEL3(multinomial_sums, multinomial_params, ACC, sums, const T, x, U32, fault)
{
    FOR_ITEMS(i) {
        GLOBAL ACC *y = sums + p.sums_offset + i * p.categories;
        GLOBAL const T *w = x + p.x_offset + i * p.categories;
        A sum = LIT(0.0), lost = LIT(0.0);
        I64 positive = 0;
        I32 bad = 0;
        for (I64 j = 0; j < p.categories; j++) {
            const A weight = LOAD(w, j);
            bad |= !(weight >= LIT(0.0));
            if (weight > LIT(0.0)) {
                const A more = weight - lost, next = sum + more;
                lost = (next - sum) - more;
                sum = M_MAX_OF(sum, next);
                positive++;
            }
            y[j] = sum;
        }
        if (bad || positive < p.needed || sum - sum != LIT(0.0)) CHECKED_INDEX(fault, p.check, i, -1, p.needed);
    }
}

/* The keys of which the largest are drawn. */
KERNEL3(multinomial_keys, multinomial_params, ACC, keys, const ACC, sums, const T, x)
{
    FOR_ITEMS(i) {
        const A weight = LOAD(x, p.x_offset + i), sum = sums[p.sums_offset + QUOTIENT(i, p.categories) * p.categories + p.categories - 1];
        A first, second;
        random_pair(p.seed, p.offset + (U64)i, &first, &second);
        keys[p.out_offset + i] = weight > LIT(0.0) ? weight / sum / random_waiting(first) : LIT(-1.0);
    }
}
#endif

#if IS_FLOAT && !IS_HALF
KERNEL2(multinomial_samples, multinomial_params, I64, out, const T, sums)
{
    FOR_ITEMS(i) {
        GLOBAL const T *v = sums + p.sums_offset + QUOTIENT(i, p.samples) * p.categories;
        A first, second;
        random_pair(p.seed, p.offset + (U64)i, &first, &second);
        const A sum = v[p.categories - 1], place = second * sum;
        I64 low = 0, high = p.categories - 1;
        while (low < high) {
            const I64 middle = low + (high - low) / 2;
            /* the product may round to the sum, which belongs to the last category above 0 */
            if (v[middle] > place || v[middle] == sum) high = middle;
            else low = middle + 1;
        }
        out[p.out_offset + i] = low;
    }
}
#endif
#endif
/* kernel text ends */
// clang-format on

typedef struct multinomial_attributes {
    int64_t samples;
    bool    replacement;
    bool    reserved[7];
    /* completed by infer: the blocks that are drawn, and where they begin */
    int64_t           blocks;
    haul_random_state state;
} multinomial_attributes;

static int64_t categories(const haul_tensor *x)
{
    HAUL__ASSERT(x->shape.ndim > 0);
    return x->shape.dims[x->shape.ndim - 1];
}

/* Samples [..., samples] with replacement; else keys [..., categories]. */
static haul_status infer(haul__call *c)
{
    multinomial_attributes *a = haul__attributes(c);
    const haul_tensor      *x = c->operands[0];
    haul_shape              shape = x->shape;
    if (a->replacement)
        shape.dims[shape.ndim - 1] = a->samples;
    if (haul__describe(c, 0, a->replacement ? HAUL_I64 : haul__sum_dtype(x->dtype), &shape))
        return haul_error_status();
    a->blocks = c->results[0]->count;
    a->state = haul__random_take(a->blocks);
    return HAUL_OK;
}

static void give_back(haul__call *c)
{
    const multinomial_attributes *a = haul__attributes(c);
    HAUL__ASSERT(a->blocks >= 0);
    haul__random_give_back(a->state, a->blocks);
}

static haul_status compute(haul__call *c)
{
    const multinomial_attributes *a = haul__attributes(c);
    haul_tensor                  *y = c->results[0], *x = c->operands[0];
    HAUL__ASSERT(categories(x) > 0 && (a->replacement || y->count == x->count));
    haul_tensor *sums = haul__temporary(c, haul__sum_dtype(x->dtype), &x->shape);
    if (!sums)
        return haul_error_status();
    multinomial_params p = {.items = x->count / categories(x),
                            .categories = categories(x),
                            .samples = a->samples,
                            .needed = a->replacement ? 1 : a->samples,
                            .out_offset = y->offset,
                            .sums_offset = sums->offset,
                            .x_offset = x->offset,
                            .seed = a->state.seed,
                            .offset = a->state.offset,
                            .check = haul__index_check(HAUL__CHECK_multinomial, 0)};
    HAUL__ASSERT(p.items * p.categories == x->count);
    if (haul__launch_kernel(c, HAUL__K_multinomial_sums, x->dtype, HAUL__OUT(sums), HAUL__IN(x), HAUL__PARAMS(p),
                            .checks = true, .grain = 16))
        return haul_error_status();
    p.items = y->count;
    return a->replacement ? haul__launch_kernel(c, HAUL__K_multinomial_samples, sums->dtype, HAUL__OUT(y),
                                                HAUL__IN(sums), HAUL__PARAMS(p), .grain = 256)
                          : haul__launch_kernel(c, HAUL__K_multinomial_keys, x->dtype, HAUL__OUT(y), HAUL__IN(sums, x),
                                                HAUL__PARAMS(p), .grain = 256);
}

HAUL__OPERATION(multinomial_draw) = {
    .name = "haul_multinomial_draw",
    .operands = {{"weights"}},
    .results = {{"y"}},
    .dtypes = HAUL__FLOATS,
    .not_recorded = true,
    .attributes_size = HAUL__ATTRIBUTES(multinomial_attributes),
    .random_at = offsetof(multinomial_attributes, state),
    .blocks_at = offsetof(multinomial_attributes, blocks),
    .infer = infer,
    .give_back = give_back,
    .compute = compute,
    .flops = 60,
};

static haul_status multinomial(haul__call *c)
{
    const multinomial_attributes *a = haul__attributes(c);
    haul_tensor                  *x = c->operands[0], *values;
    if (!x->shape.ndim || !categories(x))
        return haul__refuse_shape(c, 0, "a last dimension of at least one category is expected");
    if (a->samples < 1 || (!a->replacement && a->samples > categories(x)))
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "samples",
                          "%lld samples of %lld categories; %s is expected", (long long)a->samples,
                          (long long)categories(x),
                          a->replacement ? "at least 1" : "1 to the number of categories, or replacement,");
    haul_tensor *drawn = HAUL__APPLY(multinomial_draw, a, x);
    if (a->replacement)
        c->results[0] = drawn;
    else if (haul_topk(drawn, a->samples, -1, true, &values, &c->results[0]))
        return haul_error_status();
    HAUL__ASSERT(haul__failed(c->results[0]) || c->results[0]->shape.dims[x->shape.ndim - 1] == a->samples);
    return haul__failed(c->results[0]) ? haul_error_status() : HAUL_OK;
}

HAUL__OPERATION(multinomial) = {
    .name = "haul_multinomial",
    .operands = {{"weights"}},
    .results = {{"y"}},
    .dtypes = HAUL__FLOATS,
    .not_recorded = true,
    .attributes_size = HAUL__ATTRIBUTES(multinomial_attributes),
    .compose = multinomial,
};

haul_tensor *haul_multinomial(haul_tensor *weights, int64_t samples, bool replacement)
{
    return HAUL__APPLY(multinomial, (&(multinomial_attributes){.samples = samples, .replacement = replacement}),
                       weights);
}
