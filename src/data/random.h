/* Random numbers for data: Philox 4x32-10, so that any example can be drawn by itself, by any thread. */
#ifndef HAUL_DATA_RANDOM_H
#define HAUL_DATA_RANDOM_H

#include <haul/dataset.h>

/* What a draw is for; part of the counter, so that no two purposes share numbers. */
typedef enum haul__purpose {
    HAUL__FOR_ORDER = 1,
    HAUL__FOR_EXAMPLE,
    HAUL__FOR_SHAPES,
    HAUL__FOR_BLOBS,
    HAUL__FOR_SAMPLES,
    HAUL__FOR_SPLIT,
    HAUL__FOR_SENTENCES,
    HAUL__FOR_SCENES
} haul__purpose;

/* `stream` and `index` distinguish sequences of one purpose: epoch and example, or split and example. A sequence has
 * 2^26 words at least before it meets another; streams differ up to 2^32. */
haul_draws haul__draws_begin(uint64_t seed, haul__purpose purpose, uint64_t stream, uint64_t index);
/* From `low` to `high`, both included. */
int  haul__draw_between(haul_draws *d, int low, int high);
void haul__draw_bytes(haul_draws *d, uint8_t *out, int64_t count);

/* Fisher and Yates's shuffle. */
void haul__shuffle(int64_t *items, int64_t count, uint64_t seed, haul__purpose purpose, uint64_t stream);

#endif
