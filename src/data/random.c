/* Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011) as a sequence of words. */
#include "data/random.h"

#include <math.h>
#include <string.h>

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
haul__draws haul__draws_begin(uint64_t seed, haul__purpose purpose, uint64_t stream, uint64_t index)
{
    return (haul__draws){
        .key = {(uint32_t)seed, (uint32_t)(seed >> 32) ^ (uint32_t)(stream >> 32)},
        .counter = {(uint32_t)purpose << 24, (uint32_t)index, (uint32_t)(index >> 32), (uint32_t)stream},
    };
}

static void refill(haul__draws *d)
{
    block(d->key, d->counter, d->words);
    d->counter[0] = (d->counter[0] & 0xff000000u) | ((d->counter[0] + 1) & 0x00ffffffu);
    d->left = 4;
}

uint32_t haul__draw(haul__draws *d)
{
    if (!d->left)
        refill(d);
    return d->words[4 - d->left--];
}

static uint64_t draw64(haul__draws *d)
{
    uint64_t high = haul__draw(d);
    return high << 32 | haul__draw(d);
}

/* The high half of a 64 x 64 bit product; the bias, bound / 2^64, is beyond notice. */
uint64_t haul__draw_below(haul__draws *d, uint64_t bound)
{
    uint64_t x = draw64(d);
    uint64_t low = (x & 0xffffffffu) * (bound & 0xffffffffu) >> 32;
    uint64_t mid = (x >> 32) * (bound & 0xffffffffu), other = (x & 0xffffffffu) * (bound >> 32);
    uint64_t carry = (low + (mid & 0xffffffffu) + (other & 0xffffffffu)) >> 32;
    return (x >> 32) * (bound >> 32) + (mid >> 32) + (other >> 32) + carry;
}

double haul__draw_unit(haul__draws *d)
{
    return (double)(draw64(d) >> 11) * 0x1p-53;
}

/* Box and Muller, "A note on the generation of random normal deviates", 1958. */
double haul__draw_normal(haul__draws *d)
{
    double radius = sqrt(-2 * log(1 - haul__draw_unit(d)));
    return radius * cos(6.283185307179586 * haul__draw_unit(d));
}

void haul__draw_bytes(haul__draws *d, uint8_t *out, int64_t count)
{
    for (int64_t i = 0; i < count;) {
        refill(d);
        int64_t n = count - i < 16 ? count - i : 16;
        memcpy(out + i, d->words, (size_t)n);
        i += n;
    }
    d->left = 0;
}
