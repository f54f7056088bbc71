/* Register tiles of matrix products: the innermost loops of the CPU's GEMM and convolutions.
 *
 * A row of B is given by its offset, so that one loop works for packed panels, for matrices read in place, and for
 * convolutions, whose rows are the same image shifted. All functions run on the calling thread. kernels/tiles_fma.c
 * compiles them once for each instruction level; haul__cpu_tiles_for picks the best one for this processor. */
#ifndef HAUL_BACKENDS_CPU_GEMM_TILES_H
#define HAUL_BACKENDS_CPU_GEMM_TILES_H

#include <haul/dtype.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HAUL__TILE_BYTES 256 /* the most bytes in a row of a tile, and of a packed panel */
#define HAUL__TILE_DEPTH 256 /* rows of B taken at a time; the most rows of a packed panel */

/* Dot products start new partial sums after so many elements. Those of a single row have as many partial sums as fit in
 * so many bytes, at each instruction level, so their bits do not depend on it. Those of more rows have `lanes`. */
#define HAUL__DOT_BYTES 64
#define HAUL__DOT_DEPTH 1024

/* C [m, n] = start + A [m, k] B [k, n], where start is row_bias[i], column_bias[j], C itself, or 0. Each row of B must
 * be readable up to n rounded up to `lanes`. Strides and offsets are in elements. */
typedef struct haul__cpu_product {
    int64_t        m, n, k;
    const void    *a;
    int64_t        a_row, a_column;
    const void    *b;
    const int64_t *b_rows; /* k offsets */
    void          *c;
    int64_t        c_row;
    const void    *row_bias, *column_bias; /* at most one of them is set */
    bool           accumulate;
} haul__cpu_product;

/* m n dot products of rows of length k: of A, a_row apart, with those of B at b_rows[j]. */
typedef struct haul__cpu_dots {
    int64_t        m, n, k;
    const void    *a;
    int64_t        a_row;
    const void    *b;
    const int64_t *b_rows; /* n offsets */
} haul__cpu_dots;

typedef struct haul__cpu_tiles {
    int64_t lanes; /* elements in a vector */
    int64_t width; /* columns of the largest tile */
    int64_t rows;  /* rows of the largest tile */

    void (*product)(const haul__cpu_product *p);
    /* Copies columns [0, n) of k rows of B to a panel with rows of `width`, padded with zeros; n <= width. */
    void (*pack)(void *panel, const void *b, int64_t b_row, int64_t b_column, int64_t k, int64_t n);
    /* C = start + dot products; column_bias may be NULL. For k of several vectors. */
    void (*dots)(const haul__cpu_dots *d, void *c, int64_t c_row, const void *column_bias, bool accumulate);
    /* For convolutions, with sums kept as vectors, `lanes` elements for each product, in `sums` [m, n]: set, or added
     * to. k is a multiple of lanes here. `fold` adds up the lanes of count sums. */
    void (*gather)(const haul__cpu_dots *d, void *sums, bool accumulate);
    void (*fold)(void *out, const void *sums, int64_t count);
    /* out[i] += x[i] */
    void (*add)(void *out, const void *x, int64_t count);
} haul__cpu_tiles;

/* NULL for dtypes other than f32 and f64. */
const haul__cpu_tiles *haul__cpu_tiles_for(haul_dtype dtype);

extern const haul__cpu_tiles haul__cpu_tiles_f32_base, haul__cpu_tiles_f64_base, haul__cpu_tiles_f32_v3,
    haul__cpu_tiles_f64_v3, haul__cpu_tiles_f32_v4, haul__cpu_tiles_f64_v4;

/* Scratch memory for the tasks of one haul__parallel_for. It has as many slots as tasks can run at a time, so that it
 * stays in the caches, and no task has to allocate. */
typedef struct haul__cpu_scratch {
    void            *block;
    char            *memory;
    size_t           bytes; /* bytes of a slot */
    _Atomic uint64_t free;  /* a bit for each slot */
} haul__cpu_scratch;

#define HAUL__CPU_MOST_SLOTS 64

bool haul__cpu_scratch_open(haul__cpu_scratch *scratch, size_t bytes, int64_t tasks); /* returns false if there is
                                                                                       * no memory */
/* The same in memory of the caller, for `slots` slots of `bytes` bytes, at least one; nothing is to be closed. */
void  haul__cpu_scratch_lend(haul__cpu_scratch *scratch, void *memory, size_t bytes, size_t slots);
void  haul__cpu_scratch_close(haul__cpu_scratch *scratch);
void *haul__cpu_scratch_take(haul__cpu_scratch *scratch, int *slot); /* aligned to 64 bytes */
void  haul__cpu_scratch_give(haul__cpu_scratch *scratch, int slot);

#endif
