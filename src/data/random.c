/* Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011) as a sequence of words. */
#include "data/random.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "core/error.h"

static void block(const uint32_t key[2], const uint32_t counter[4], uint32_t out[4])
{
    uint32_t k0 = key[0], k1 = key[1];
    uint32_t a = counter[0], b = counter[1], c = counter[2], d = counter[3];
    for (int round = 0; round < 10; round++) {
        uint64_t p = (uint64_t)0xD2511F53u * a, q = (uint64_t)0xCD9E8D57u * c;
        a = (uint32_t)(q >> 32) ^ b ^ k0;
        b = (uint32_t)q;
        c = (uint32_t)(p >> 32) ^ d ^ k1;
        d = (uint32_t)p;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = a;
    out[1] = b;
    out[2] = c;
    out[3] = d;
}

/* The counter: 24 bits that count blocks and 8 of purpose, 64 of index, 32 of stream; what a stream has beyond goes
 * into the key. */
haul_draws haul__draws_begin(uint64_t seed, haul__purpose purpose, uint64_t stream, uint64_t index)
{
    return (haul_draws){
        .haul__key = {(uint32_t)seed, (uint32_t)(seed >> 32) ^ (uint32_t)(stream >> 32)},
        .haul__counter = {(uint32_t)purpose << 24, (uint32_t)index, (uint32_t)(index >> 32), (uint32_t)stream},
    };
}

static void refill(haul_draws *d)
{
    block(d->haul__key, d->haul__counter, d->haul__words);
    d->haul__counter[0] = (d->haul__counter[0] & 0xff000000u) | ((d->haul__counter[0] + 1) & 0x00ffffffu);
    d->haul__left = 4;
}

haul_draws haul_draws_new(uint64_t seed, int64_t epoch, int64_t index)
{
    return haul__draws_begin(seed, HAUL__FOR_EXAMPLE, (uint64_t)epoch, (uint64_t)index);
}

uint32_t haul_draw_bits(haul_draws *d)
{
    if (!d) {
        haul__fail_null("haul_draw_bits", "draws");
        return 0;
    }
    if (d->haul__left <= 0 || d->haul__left > 4) /* more only if it never was begun */
        refill(d);
    return d->haul__words[4 - d->haul__left--];
}

static uint64_t draw64(haul_draws *d)
{
    uint64_t high = haul_draw_bits(d);
    return high << 32 | haul_draw_bits(d);
}

/* The high half of a 64 x 64 bit product; the bias, bound / 2^64, is beyond notice. */
uint64_t haul_draw_below(haul_draws *d, uint64_t bound)
{
    uint64_t x = draw64(d);
    uint64_t low = (x & 0xffffffffu) * (bound & 0xffffffffu) >> 32;
    uint64_t mid = (x >> 32) * (bound & 0xffffffffu), other = (x & 0xffffffffu) * (bound >> 32);
    uint64_t carry = (low + (mid & 0xffffffffu) + (other & 0xffffffffu)) >> 32;
    return (x >> 32) * (bound >> 32) + (mid >> 32) + (other >> 32) + carry;
}

double haul_draw_unit(haul_draws *d)
{
    return (double)(draw64(d) >> 11) * 0x1p-53;
}

/* Box and Muller, "A note on the generation of random normal deviates", 1958. */
double haul_draw_normal(haul_draws *d)
{
    double radius = sqrt(-2 * log(1 - haul_draw_unit(d)));
    return radius * cos(6.283185307179586 * haul_draw_unit(d));
}

int haul__draw_between(haul_draws *d, int low, int high)
{
    HAUL__ASSERT(low <= high);
    return low + (int)haul_draw_below(d, (uint64_t)(high - low + 1));
}

void haul__draw_bytes(haul_draws *d, uint8_t *out, int64_t count)
{
    for (int64_t i = 0; i < count;) {
        refill(d);
        int64_t n = count - i < 16 ? count - i : 16;
        memcpy(out + i, d->haul__words, (size_t)n);
        i += n;
    }
    d->haul__left = 0;
}

/* Sequences of draws are long, but not endless: every million steps take another. */
void haul__shuffle(int64_t *items, int64_t count, uint64_t seed, haul__purpose purpose, uint64_t stream)
{
    haul_draws draws = {0};
    for (int64_t i = 1; i < count; i++) {
        if (i == 1 || (i & 0xfffff) == 0)
            draws = haul__draws_begin(seed, purpose, stream, (uint64_t)i >> 20);
        int64_t k = (int64_t)haul_draw_below(&draws, (uint64_t)i + 1), kept = items[i];
        HAUL__ASSERT(0 <= k && k <= i);
        items[i] = items[k];
        items[k] = kept;
    }
}
