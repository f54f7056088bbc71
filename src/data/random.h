/* Random numbers for data: Philox 4x32-10, so that any example can be drawn by itself, by any thread. */
#ifndef HAUL_DATA_RANDOM_H
#define HAUL_DATA_RANDOM_H

#include <stdint.h>

/* What a draw is for; part of the counter, so that no two purposes share numbers. */
typedef enum haul__purpose { HAUL__FOR_ORDER = 1, HAUL__FOR_AUGMENT, HAUL__FOR_SHAPES, HAUL__FOR_BLOBS } haul__purpose;

/* A sequence of numbers that depends on what it was made with only. */
typedef struct haul__draws {
    uint32_t key[2], counter[4];
    uint32_t words[4];
    int      left; /* words not yet given out */
} haul__draws;

/* `stream` and `index` tell sequences of one purpose apart: epoch and example, or split and example. A sequence has
 * 2^26 words at least before it meets another; streams differ up to 2^32. */
haul__draws haul__draws_begin(uint64_t seed, haul__purpose purpose, uint64_t stream, uint64_t index);
uint32_t    haul__draw(haul__draws *d);
uint64_t    haul__draw_below(haul__draws *d, uint64_t bound); /* 0 ... bound - 1; bound > 0 */
double      haul__draw_unit(haul__draws *d);                  /* [0, 1), 53 bits */
double      haul__draw_normal(haul__draws *d);
void        haul__draw_bytes(haul__draws *d, uint8_t *out, int64_t count);

#endif
