/* Winograd's convolutions with 3x3 weights: the transforms, which kernels/winograd_fma.c compiles once for each
 * instruction level. winograd.c explains the algorithm.
 *
 * A tile is 4x4 elements of the result of a convolution, which depend on 6x6 elements of its input. Transformed, each
 * tile has 36 points. Transforms work on as many channels at a time as a vector has lanes. */
#ifndef HAUL_BACKENDS_CPU_WINOGRAD_H
#define HAUL_BACKENDS_CPU_WINOGRAD_H

#include <stdbool.h>
#include <stdint.h>

enum { HAUL__WINOGRAD_TILE = 4, HAUL__WINOGRAD_INPUT = 6, HAUL__WINOGRAD_POINTS = 36 };

/* Some channels of a picture, and the rows of tiles that are read or written. */
typedef struct haul__winograd_planes {
    float  *data;               /* [channels, h, w] */
    int64_t channels, h, w;     /* up to `lanes` channels are taken at a time */
    int64_t top, left;          /* zeros before the first row and column, up to 2 */
    int64_t row, rows, columns; /* the first row of tiles, how many, and the tiles in a row */
    float  *room;               /* haul__winograd_room elements, aligned to 64 bytes */
} haul__winograd_planes;

/* Transformed tiles: element `channel` of point p of tile t is at data[p * point + t * tile + channel]. */
typedef struct haul__winograd_tiles {
    float  *data;
    int64_t point, tile;
} haul__winograd_tiles;

typedef struct haul__winograd_kernels {
    int64_t lanes;

    /* Transform the tiles of the input; those of the gradient of the result, which need no zeros before them. Channels
     * up to `lanes` that do not exist are zero. */
    void (*input)(const haul__winograd_planes *from, const haul__winograd_tiles *to);
    void (*gradient)(const haul__winograd_planes *from, const haul__winograd_tiles *to);
    /* Transforms products back, adds bias [channels] (NULL: none), and with relu replaces what is negative by 0. */
    void (*result)(const haul__winograd_tiles *from, const haul__winograd_planes *to, const float *bias, bool relu);
    /* Transforms the weights w of `outs` channels (up to `lanes`) of the result and `ins` channels of the input, 9
     * elements each, at w[out * out_step + in * in_step]. `reversed` takes the 9 elements from the last to the first.
     * `tile` is the distance between the input's channels in `to`. */
    void (*weight)(const float *w, int64_t out_step, int64_t in_step, int64_t outs, int64_t ins, bool reversed,
                   const haul__winograd_tiles *to);
    /* Transforms the gradient of the weights of a channel of the result back to [ins, 9]. */
    void (*weight_gradient)(const float *from, int64_t point, int64_t ins, float *w);
} haul__winograd_kernels;

/* Elements of the room for planes with so many rows and columns of tiles. */
static inline int64_t haul__winograd_room(int64_t rows, int64_t columns, int64_t lanes)
{
    return (rows * HAUL__WINOGRAD_TILE + 2) * (columns * HAUL__WINOGRAD_TILE + 2) * lanes;
}

const haul__winograd_kernels *haul__winograd_kernels_for_f32(void);

extern const haul__winograd_kernels haul__cpu_winograd_f32_base, haul__cpu_winograd_f32_v3, haul__cpu_winograd_f32_v4;

#endif
