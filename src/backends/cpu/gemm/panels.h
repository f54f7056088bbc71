/* Packed panels: the innermost loops of the CPU's matrix products.
 *
 * A panel holds `width` columns of B for a part of k, one row after another, and a packed tile holds
 * up to `rows` rows of A, one column after another. A register tile then reads both from the beginning to the end.
 * kernels/panels_fma.c compiles these loops once for each instruction level, and kernels/panels_amx_fma.c for AMX.
 *
 * The sum of an element is one chain over k: it starts at zero for every part of k, and the result of a part is added
 * to C. So the bits of a result do not depend on the cut into tiles, on the place of an element in its
 * tile, or on packing. */
#ifndef HAUL_BACKENDS_CPU_GEMM_PANELS_H
#define HAUL_BACKENDS_CPU_GEMM_PANELS_H

#include <haul/dtype.h>
#include <stdbool.h>
#include <stdint.h>

/* Rows of B taken at a time. Products of bf16 in pairs take twice as many, which have as many bytes. */
#define HAUL__PANEL_DEPTH 512

/* C [m, n] = A [m, k] B [k, n], plus the bias [n] or row_bias [m] if there is one, plus C if it accumulates. There are
 * at most `width` columns, and rows of B can be read up to n rounded up to `lanes`. Strides are in elements. */
typedef struct haul__cpu_strip {
    int64_t        m, n, k;
    const void    *a;
    int64_t        a_row, a_column; /* of A in place: one of them is 1 */
    int64_t        a_tile;          /* distance of packed tiles; 0: A is in place */
    const int64_t *taps;            /* for haul__cpu_pixels */
    int64_t        b_vector;        /* for multiply_planes: the distance of the vectors of a row of B */
    const void    *b;
    int64_t        b_row;
    void          *c;
    int64_t        c_row;
    const void    *bias, *row_bias;
    bool           accumulate;
} haul__cpu_strip;

typedef struct haul__cpu_panels {
    int64_t lanes; /* elements in a vector */
    int64_t rows, width;
    int64_t step; /* of k, a power of two: tiles and panels have zeros up to a multiple of it */

    void (*multiply)(const haul__cpu_strip *s);
    /* The same, and the first tile copies B to the panel, where the others read it. n is `width`, and m at least 2 *
     * rows. NULL: this level has none. */
    void (*multiply_copying)(const haul__cpu_strip *s, void *panel);
    /* Copies A [m, k] with these strides to packed tiles, `tile` elements apart. They have the rows that `multiply`
     * takes at a time: tiles differ by one row at most, the first ones are longer. In those of f32 and f64, columns are
     * `rows` elements apart; the form of others is known to `multiply` alone. In those for bf16 an element of a tile or
     * panel is a pair along k, so that they have half as many, C is f32, and there is no bias. */
    void (*pack_a)(void *to, int64_t tile, const void *from, int64_t row, int64_t column, int64_t m, int64_t k);
    /* Copies B [k, n] with these strides to a panel, with zeros up to n rounded up to `lanes`; n <= width. */
    void (*pack_b)(void *to, const void *from, int64_t row, int64_t column, int64_t k, int64_t n);
} haul__cpu_panels;

/* Products for convolutions. Taps are offsets in the input's planes, one for each k. */
typedef struct haul__cpu_pixels {
    int64_t lanes;
    int64_t rows, width; /* those of haul__cpu_panels */

    /* Pixels are rows of C, and output channels its columns: a pixel of the input is a factor for a vector of weights.
     * Columns of A are at the taps, and B is a panel of weights. */
    void (*multiply)(const haul__cpu_strip *s);
    /* Copies that C [pixels, channels], with rows of `width`, to planes: to[channel * plane + pixel]. */
    void (*leave)(float *to, int64_t plane, const float *c, int64_t pixels, int64_t channels);
    /* Output channels are rows of C, up to `rows`, and `width` pixels are its columns. A is a packed tile of weights,
     * and rows of B are at the taps. */
    void (*multiply_planes)(const haul__cpu_strip *s);
    /* The same, and rows of B are copied to a panel. */
    void (*multiply_planes_copying)(const haul__cpu_strip *s, float *panel);
} haul__cpu_pixels;

/* NULL in a build with HAUL_SMALL. */
const haul__cpu_pixels *haul__cpu_pixels_for_f32(void);

extern const haul__cpu_pixels haul__cpu_pixels_f32_base, haul__cpu_pixels_f32_v3, haul__cpu_pixels_f32_v4;

/* The functions for this processor; NULL for dtypes other than f32, f64, and bf16 where there are instructions for it.
 */
const haul__cpu_panels *haul__cpu_panels_for(haul_dtype dtype);

extern const haul__cpu_panels haul__cpu_panels_f32_base, haul__cpu_panels_f64_base, haul__cpu_panels_f32_v3,
    haul__cpu_panels_f64_v3, haul__cpu_panels_f32_v4, haul__cpu_panels_f64_v4, haul__cpu_panels_bf16_v4,
    haul__cpu_panels_amx_v4;

#endif
