/* The loops that scale rows and columns of pixels, in the widest vectors that the processor has. */
#ifndef HAUL_DATA_IMAGE_SCALE_H
#define HAUL_DATA_IMAGE_SCALE_H

#include <stdint.h>

#include "backends/cpu/level.h"

/* Weights have this many bits after the point. */
#define HAUL__WEIGHT_BITS 22

/* Results of a row that are computed at the same time. The tables are filled up to a multiple of it. */
#define HAUL__SCALE_AT_ONCE 4

/* How one side is scaled: result i is the sum of the inputs from first[i] on, times their weights. A row has a weight
 * for each byte of its pixels, and first[i] is in bytes; a column has one weight for a whole row. The weights are in
 * the form that the loops multiply by. */
typedef struct haul__scale_axis {
    int64_t  in, out;
    int64_t  taps;    /* inputs of a result */
    int64_t  stored;  /* weights of a result: `taps`, and zeros that fill a vector */
    int      unit;    /* bytes of an input: HAUL__PIXEL in rows, 1 in columns */
    int64_t *first;   /* [out, filled up] */
    int32_t *weights; /* [out, filled up; stored; unit] */
} haul__scale_axis;

typedef struct haul__scale_loops {
    int lanes; /* values of a vector: the stored weights of rows are a multiple of lanes / HAUL__PIXEL */
    /* Brings weights into the form that the loops multiply by; NULL if they are in it. */
    void (*encode)(int32_t *weights, int64_t count);
    /* Does this for the weights of one result of a row, `stored` of them, and puts them to their places; NULL if these
     * are one after the other. */
    void (*put)(const haul__scale_axis *across, int64_t result, const int32_t *weights);
    /* Reads up to HAUL__ROW_PADDING bytes past the end of the row. */
    void (*row)(const haul__scale_axis *across, const uint8_t *in, uint8_t *out);
    /* The sum of rows[0 ... taps - 1] times their weights; `bytes` is a multiple of HAUL__ROW_PADDING. */
    void (*column)(const uint8_t *const *rows, const int32_t *weights, int64_t taps, int64_t bytes, uint8_t *out);
} haul__scale_loops;

/* Puts the weights of a result, `stored` of them, into the axis' table, which was cleared. */
void haul__scale_put(const haul__scale_loops *loops, const haul__scale_axis *axis, int64_t result,
                     const int32_t *weights);

/* Those of an instruction level that the processor runs. All give the same results. */
const haul__scale_loops *haul__scale_loops_of(haul__cpu_level_id level);

#endif
