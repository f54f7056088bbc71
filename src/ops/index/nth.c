/* The element at one place of each row in the order that sorting would give, without sorting: the digits of its key are
 * found from the highest on, by counting those of all elements that agree in the digits before. */
#include "base/assert.h"
#include "base/numbers.h"
#include "ops/index/index.h"

#include "kernels/kernels.h"
#include "kernels/types.h"

// clang-format off
/* kernel text begins */
#include "ops/index/sort_kernel.h"

typedef struct nth_params {
    I64 items;
    I64 length;     /* of a row */
    I64 offsets[3]; /* of the result, x and the places */
} nth_params;

#ifdef HAUL_KERNEL
#if IS_FLOAT || defined(HAUL_KERNEL_DTYPE_i16) || defined(HAUL_KERNEL_DTYPE_i32) || defined(HAUL_KERNEL_DTYPE_i64)
#if CHUNKED
enum { NTH_BITS = 11 };
#else
enum { NTH_BITS = 1 };
#endif

/* A row an item. `left` is the place among the elements whose key is `key` in the bits of `known`. */
KERNEL3(nth, nth_params, I64, at, const T, x, const I64, places)
{
    FOR_ITEMS(i) {
        GLOBAL const T *row = x + p.offsets[1] + i * p.length;
        I64 left = places[p.offsets[2] + i], count = 0;
        sort_key key = 0, known = 0;
        for (int low = 8 * SORT_DIGITS; low > 0 && count != 1;) {
            const int bits = low < NTH_BITS ? low : NTH_BITS;
            const sort_key last = ((sort_key)1 << bits) - 1;
            sort_key digit = 0;
            low -= bits;
#if CHUNKED
            U32 counts[1 << NTH_BITS], odd[1 << NTH_BITS]; /* two, as equal digits follow each other */
            for (sort_key k = 0; k <= last; k++) counts[k] = odd[k] = 0;
            if (!known) {
                const I64 even = p.length & ~(I64)1;
                for (I64 j = 0; j < even; j += 2) {
                    counts[sort_key_of(LOAD(row, j)) >> low]++;
                    odd[sort_key_of(LOAD(row, j + 1)) >> low]++;
                }
                if (even < p.length) counts[sort_key_of(LOAD(row, even)) >> low]++;
            }
            for (I64 j = known ? 0 : p.length; j < p.length; j++) {
                const sort_key k = sort_key_of(LOAD(row, j));
                if ((k & known) == key) counts[(k >> low) & last]++;
            }
            for (sort_key k = 0; k <= last; k++) counts[k] += odd[k];
            for (; digit < last && (I64)counts[digit] <= left; digit++) left -= (I64)counts[digit];
            count = (I64)counts[digit];
#else
            I64 zeros = 0;
            for (I64 j = 0; j < p.length; j++) {
                const sort_key k = sort_key_of(LOAD(row, j));
                zeros += (k & known) == key && !((k >> low) & 1);
            }
            digit = left >= zeros;
            left -= digit ? zeros : 0;
#endif
            key |= digit << low;
            known |= last << low;
        }
        I64 j = 0;
        for (; j < p.length - 1; j++)
            if ((sort_key_of(LOAD(row, j)) & known) == key && left-- == 0) break;
        at[p.offsets[0] + i] = j;
    }
}
#endif
#endif
/* kernel text ends */
// clang-format on

enum { GRAIN = 4096 };

static haul_status infer(haul__call *c)
{
    return haul__describe(c, 0, HAUL_I64, &c->operands[1]->shape);
}

static haul_status compute(haul__call *c)
{
    haul_tensor *x = c->operands[0], *places = c->operands[1], *at = c->results[0];
    if (!x->count)
        return HAUL_OK;
    HAUL__ASSERT(at->count > 0 && x->count % at->count == 0 && places->count == at->count);
    const nth_params p = {
        .items = at->count, .length = x->count / at->count, .offsets = {at->offset, x->offset, places->offset}};
    return haul__launch_kernel(c, HAUL__K_nth, x->dtype, HAUL__OUT(at), HAUL__IN(x, places), HAUL__PARAMS(p),
                               .grain = 1 + GRAIN / p.length);
}

HAUL__OPERATION(nth) = {
    .name = "haul_nth",
    .operands = {{"x"}, {"places", .accepts = HAUL__INTEGERS, .becomes = HAUL_I64}},
    .results = {{"indices"}},
    .dtypes = HAUL__FLOATS | HAUL__ONLY(HAUL_I16) | HAUL__ONLY(HAUL_I32) | HAUL__ONLY(HAUL_I64),
    .infer = infer,
    .compute = compute,
    .flops = 4,
};

haul_tensor *haul__nth(haul_tensor *x, haul_tensor *places)
{
    return HAUL__APPLY(nth, NULL, x, places);
}
