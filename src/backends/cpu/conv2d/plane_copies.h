/* Copies for convolutions by packed panels: from planes of images to panels, and from sums to images; and sums of
 * planes for those with a weight for each channel.
 *
 * Where an image is read in steps, each of its rows is split: the elements that are a step apart become a row of a
 * plane of their own, a *phase*. Then the pixels that meet one tap of a weight are adjacent in a plane. panels.c
 * and panels_weight.c, and depthwise.c, explain the algorithms; kernels/planes_fma.c compiles these loops once for each
 * instruction level. */
#ifndef HAUL_BACKENDS_CPU_CONV2D_PLANE_COPIES_H
#define HAUL_BACKENDS_CPU_CONV2D_PLANE_COPIES_H

#include <stdbool.h>
#include <stdint.h>

/* The largest step. */
enum { HAUL__MOST_STEP = 8 };

/* Elements that may be read and written behind the end of planes and panels. */
#define HAUL__PLANES_SLACK 16

/* A panel of pixels: row k has the pixels at tap k, copied in moves of `size` elements from planes[taps[k] + from[i]]
 * to column to[i]. `size` is one of haul__cpu_planes.move_for. Moves follow one another in a row, and each may
 * write beyond its last pixel, where the next one begins. */
typedef struct haul__cpu_moves {
    const float   *planes;
    const int64_t *taps;
    int64_t        k, width, size, count;
    const int64_t *from, *to;
} haul__cpu_moves;

/* Copies of some channels of an image [channels, h, w]. Element (r, c) of phase (y, x) of a channel comes from
 * (r step[0] + y - shift[0], c step[1] + x - shift[1]); it is 0 if that is outside. Distances are in elements. */
typedef struct haul__planes {
    int64_t h, w;
    int64_t step[2], phases[2], shift[2];
    int64_t rows, columns;  /* of a plane */
    int64_t phase, channel; /* the distances of planes and channels, which haul__planes_measure finds */

    /* The same for element i of a row of an image, i < step[1]: where its plane is, its column there, and the columns
     * of that plane that follow the last element. Those in no phase have a plane of -1. */
    int64_t plane_of[HAUL__MOST_STEP], column_of[HAUL__MOST_STEP], rest_of[HAUL__MOST_STEP];
    int64_t count; /* elements of a row that are copied */
} haul__planes;

/* What rows of a result read: element j of row r is the sum of weights[i] planes[taps[i] + r columns + j] in the order
 * of i < k, and the bias. */
typedef struct haul__cpu_taps {
    const float   *planes;
    int64_t        columns;
    const int64_t *taps;
    const float   *weights;
    float          bias;
    int64_t        k;
} haul__cpu_taps;

typedef struct haul__cpu_planes {
    /* Fills the planes of some channels of an image with rows [first, first + rows). */
    void (*fill)(const haul__planes *p, float *to, const float *image, int64_t channels, int64_t first, int64_t rows);
    void (*pack)(float *panel, const haul__cpu_moves *moves);
    /* to[i] = value for i < count, whole vectors. */
    void (*set)(float *to, float value, int64_t count);
    /* to[i] = from[i / step + i % step * phase] for i < count. */
    void (*join)(float *to, const float *from, int64_t phase, int64_t step, int64_t count);
    /* to[j * to_row + i] = from[i * from_row + j], for i < rows and j < columns */
    void (*turn)(float *to, int64_t to_row, const float *from, int64_t from_row, int64_t rows, int64_t columns);
    /* to[at[j] + i] = from[i * from_row + j], for the same i and j. */
    void (*turn_to)(float *to, const int64_t *at, const float *from, int64_t from_row, int64_t rows, int64_t columns);
    /* Rows of a result, which are `width` apart. HAUL__PLANES_SLACK elements behind the planes may be read. */
    void (*sum)(float *to, const haul__cpu_taps *of, int64_t rows, int64_t width);
} haul__cpu_planes;

/* NULL in a build with HAUL_SMALL. */
const haul__cpu_planes *haul__cpu_planes_for_f32(void);

extern const haul__cpu_planes haul__cpu_planes_f32_base, haul__cpu_planes_f32_v3, haul__cpu_planes_f32_v4;

#endif
