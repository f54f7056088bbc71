/* Winograd's convolutions with 3x3 weights: the transforms, which kernels/winograd_fma.c compiles once for each
 * instruction level. winograd.c explains the algorithm.
 *
 * A tile is 4x4 elements of the result of a convolution, which depend on 6x6 elements of its input. Transformed, each
 * tile has 36 points. Transforms work on as many channels at a time as a vector has lanes. */
#ifndef HAUL_BACKENDS_CPU_CONV2D_WINOGRAD_H
#define HAUL_BACKENDS_CPU_CONV2D_WINOGRAD_H

#include <stdbool.h>
#include <stdint.h>

enum { HAUL__WINOGRAD_TILE = 4, HAUL__WINOGRAD_INPUT = 6, HAUL__WINOGRAD_POINTS = 36 };
enum { HAUL__WINOGRAD_LANES = 16 }; /* the most lanes of a level */

/* Some channels of a picture, and the rows of tiles that are read or written. */
typedef struct haul__winograd_planes {
    float  *data;               /* [channels, h, w] */
    int64_t channels, h, w;     /* up to `lanes` channels are taken at a time */
    int64_t top, left;          /* zeros before the first row and column, up to 2 */
    int64_t row, rows, columns; /* the first row of tiles, how many, and the tiles in a row */
    float  *workspace;          /* haul__winograd_workspace elements, aligned to 64 bytes */
    float  *magnitudes;         /* of the channels, for each pixel that the rows of tiles read: their sum ... */
    bool    most;               /* ... or the largest */
    bool    adds;               /* to the magnitudes; else they are set */
} haul__winograd_planes;

/* Transformed tiles: element `channel` of point p of tile t is at data[p * point + t * tile + channel]. */
typedef struct haul__winograd_tiles {
    float  *data;
    int64_t point, tile;
} haul__winograd_tiles;

/* Of numbers that are not negative. NaN is above all others. */
typedef struct haul__winograd_range {
    float least, most;
} haul__winograd_range;

typedef struct haul__winograd_kernels {
    int64_t lanes;

    /* Transform the tiles of the input; those of the gradient of the result, which need no zeros before them. Channels
     * up to `lanes` that do not exist are zero. */
    void (*input)(const haul__winograd_planes *from, const haul__winograd_tiles *to);
    void (*gradient)(const haul__winograd_planes *from, const haul__winograd_tiles *to);
    /* Transforms products back, adds bias [channels] (NULL: none), and with relu replaces negative values by 0. */
    void (*result)(const haul__winograd_tiles *from, const haul__winograd_planes *to, const float *bias, bool relu);
    /* Transforms the weights w of `outs` channels (up to `lanes`) of the result and `ins` channels of the input, 9
     * elements each, at w[out * out_step + in * in_step]. `reversed` takes the 9 elements from the last to the first.
     * `tile` is the distance between the input's channels in `to`. Element `out` of sums[tap] [9, lanes] becomes the
     * sum of the magnitudes of all weights at the tap. */
    void (*weight)(const float *w, int64_t out_step, int64_t in_step, int64_t outs, int64_t ins, bool reversed,
                   const haul__winograd_tiles *to, float *sums);
    /* Transforms the gradient of the weights of a channel of the result back to [ins, 9]. */
    void (*weight_gradient)(const float *from, int64_t point, int64_t ins, float *w);
    /* Adds magnitudes, or takes the largest. */
    void (*merge)(float *to, const float *from, int64_t count, bool most);
    /* The range of some magnitudes. */
    haul__winograd_range (*range)(const float *magnitudes, int64_t count);
    /* The range of the sums of all windows of 3x3 pixels that results [h, w] of the planes' rows of tiles read. It
     * reads up to `lanes` elements behind the magnitudes. */
    haul__winograd_range (*windows)(const haul__winograd_planes *p, int64_t h, int64_t w);
} haul__winograd_kernels;

/* The rows of pixels that so many rows of tiles of the input read, with zeros around the picture. */
static inline int64_t haul__winograd_height(int64_t rows)
{
    return rows * HAUL__WINOGRAD_TILE + 2;
}

/* Elements of the workspace for planes with so many rows and columns of tiles. */
static inline int64_t haul__winograd_workspace(int64_t rows, int64_t columns, int64_t lanes)
{
    return haul__winograd_height(rows) * haul__winograd_height(columns) * lanes;
}

const haul__winograd_kernels *haul__winograd_kernels_for_f32(void);

extern const haul__winograd_kernels haul__cpu_winograd_f32_base, haul__cpu_winograd_f32_v3, haul__cpu_winograd_f32_v4;

#endif
