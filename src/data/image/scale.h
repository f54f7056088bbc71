/* The loops that scale rows and columns of pixels or of planes, in the widest vectors that the processor has. */
#ifndef HAUL_DATA_IMAGE_SCALE_H
#define HAUL_DATA_IMAGE_SCALE_H

#include <stdint.h>

#include "backends/cpu/level.h"

/* Weights have this many bits after the point. */
#define HAUL__WEIGHT_BITS 22

/* How one side is scaled: result i is the sum of the inputs from first[i] on, times their weights. A row of pixels has
 * a weight for each byte of a pixel, and first[i] is in bytes; a row of a plane has one for each byte, and a column one
 * for a whole row. The weights are in the form that the loops multiply by. */
typedef struct haul__scale_axis {
    int64_t  in, out;
    int64_t  taps;    /* inputs of a result */
    int64_t  stored;  /* weights of a result: `taps`, and zeros that fill a vector */
    int64_t  at_once; /* results that are computed together: the tables are filled up to a multiple of it */
    int64_t  span;    /* the most bytes from the first input of the first of them to the fourth input of another */
    int      unit;    /* bytes of an input: HAUL__PIXEL in rows of pixels, else 1 */
    int64_t *first;   /* [out, filled up] */
    uint8_t *places;  /* [out, filled up; 4]: for planes, from the first input of `at_once` results to the first four */
    int32_t *weights; /* [out, filled up; stored; unit] */
} haul__scale_axis;

/* Puts the weights of one result, `stored` of them, into the axis' table, which was cleared. */
typedef void haul__scale_put(const haul__scale_axis *axis, int64_t result, const int32_t *weights);

/* Bytes after a row of a plane that the loops may read. */
enum { HAUL__PLANE_PADDING = 128 };

typedef struct haul__scale_loops {
    int              unit;                   /* HAUL__PIXEL for rows of pixels, 1 for rows of planes */
    int              step_across, step_down; /* the stored weights are a multiple of these */
    int              at_once;                /* of haul__scale_axis, for rows */
    haul__scale_put *put_across, *put_down;
    /* Reads up to HAUL__ROW_PADDING bytes past the end of a row of pixels, HAUL__PLANE_PADDING past one of a plane. */
    void (*row)(const haul__scale_axis *across, const uint8_t *in, uint8_t *out);
    /* The sum of rows[0 ... stored - 1] times their weights; `bytes` is a multiple of HAUL__ROW_PADDING. */
    void (*column)(const uint8_t *const *rows, const int32_t *weights, int64_t stored, int64_t bytes, uint8_t *out);
} haul__scale_loops;

/* Those of an instruction level that the processor runs. All give the same results. */
const haul__scale_loops *haul__scale_loops_of(haul__cpu_level_id level);

/* Those for planes, which are faster; NULL if there are none for this level and processor, or if `scale` inputs of a
 * result are too many for them. */
const haul__scale_loops *haul__scale_planes_of(haul__cpu_level_id level, double scale);

#endif
