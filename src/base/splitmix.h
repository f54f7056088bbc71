/* SplitMix64 (Steele, Lea, Flood 2014): mixes the bits of a number. As a generator its state is a number that grows by
 * HAUL__SPLITMIX_STEP with each draw. */
#ifndef HAUL_BASE_SPLITMIX_H
#define HAUL_BASE_SPLITMIX_H

#include <stdint.h>

#define HAUL__SPLITMIX_STEP UINT64_C(0x9e3779b97f4a7c15)

static inline uint64_t haul__splitmix(uint64_t x)
{
    x += HAUL__SPLITMIX_STEP;
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* The next number of the generator with this state. */
static inline uint64_t haul__splitmix_draw(uint64_t *state)
{
    const uint64_t x = haul__splitmix(*state);
    *state += HAUL__SPLITMIX_STEP;
    return x;
}

#endif
