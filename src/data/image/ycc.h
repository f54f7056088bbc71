/* Conversion of JPEG's colours, brightness Y and colour differences Cb and Cr, to red, green and blue, in the widest
 * vectors that the processor has. The results have the bytes of libjpeg-turbo's accurate methods: differences that are
 * stored at half the resolution are interpolated linearly (its "fancy upsampling"). */
#ifndef HAUL_DATA_IMAGE_YCC_H
#define HAUL_DATA_IMAGE_YCC_H

#include <stdbool.h>
#include <stdint.h>

#include "backends/cpu/level.h"

/* How many pixels share Cb and Cr: one; two neighbours; two by two. */
typedef enum haul__ycc_kind { HAUL__YCC_FULL, HAUL__YCC_HALF, HAUL__YCC_QUARTER, HAUL__YCC_KINDS } haul__ycc_kind;

/* Bytes after the end of a row that may be read, and sums after the end of their row that may be read and written. */
enum { HAUL__YCC_PADDING = 64 };

/* A row of a picture. Cb and Cr are as stored for HAUL__YCC_FULL; else they are what `sums` makes of stored rows. */
typedef struct haul__ycc {
    const uint8_t *y;
    const uint8_t *stored[2];
    const int16_t *sums[2];
} haul__ycc;

/* Where the colours of pixel x go: to byte x of three planes, or to the pixels from 4 * x on, whose fourth byte becomes
 * 0. */
typedef struct haul__ycc_target {
    uint8_t *planes[3]; /* NULL for pixels */
    uint8_t *pixels;
    bool     uncached; /* planes go past the caches: the caller fences them from other threads when they are complete */
} haul__ycc_target;

typedef struct haul__ycc_loops {
    /* The sums of a row: 3 * near + far for HAUL__YCC_QUARTER, where `far` is the stored row on the other side of the
     * pixels; near alone if far is NULL. They are shifted so that 128, no colour, becomes 0 when they are interpolated
     * and rounded. Repeats the first and the last one, at out[-1] and out[count]. The memory after them is initialised,
     * because `convert` reads it. */
    void (*sums)(const uint8_t *near, const uint8_t *far, int64_t count, int16_t *out);
    /* Converts the pixels from `first`, an even number, to last - 1. */
    void (*convert)(haul__ycc_kind kind, const haul__ycc *row, int64_t first, int64_t last, const haul__ycc_target *to);
} haul__ycc_loops;

/* Those of an instruction level that the processor runs; NULL on processors for which there are none. */
const haul__ycc_loops *haul__ycc_loops_of(haul__cpu_level_id level);

#endif
