/* Implementations of matrix products, convolutions and spectra, as values in ordered lists.
 *
 * A backend lists its own (`implementations` in its table); src/ops lists the portable kernels, which come after them.
 * The first implementation that does not refuse a problem computes it (engine/implementation.h). */
#ifndef HAUL_BACKENDS_IMPLEMENTATION_H
#define HAUL_BACKENDS_IMPLEMENTATION_H

#include <stdatomic.h>

#include "backends/backend.h"

/* ---- problems ---- */

/* A dense C = A B (+ C), row-major or transposed by strides. Matrices of a batch are `a_batch` apart; or, if `inner` is
 * not 0, those of `inner` matrices are, and the groups of so many are `a_outer` apart. */
typedef struct haul__gemm {
    haul_dtype          dtype;
    int64_t             batch, m, n, k;
    const haul__buffer *a, *b, *c, *bias;                          /* bias [n], added to every row; NULL: no bias */
    int64_t             a_offset, b_offset, c_offset, bias_offset; /* elements */
    int64_t a_row, a_col, a_batch, b_row, b_col, b_batch, c_row, c_batch; /* strides; C's columns are dense */
    int64_t inner, a_outer, b_outer, c_outer;
    bool    accumulate;
    bool    relu;         /* C = max(result, 0) */
    bool    bias_of_rows; /* the bias is [m], added to every column; only the CPU's own convolutions ask for it */
    bool    tf32;         /* for f32: 10 bits of the factors' mantissas are enough if that is faster */
    const haul__buffer *scratch; /* scratch_bytes of scratch memory; NULL: none */
    size_t              scratch_bytes;
} haul__gemm;

/* The elements before matrix z of an operand with these strides. */
static inline int64_t haul__gemm_matrix(const haul__gemm *g, int64_t z, int64_t batch, int64_t outer)
{
    return g->inner ? z / g->inner * outer + z % g->inner * batch : z * batch;
}

typedef enum haul__conv2d_pass { HAUL__CONV2D_FORWARD, HAUL__CONV2D_DATA, HAUL__CONV2D_WEIGHT } haul__conv2d_pass;

/* A pass of a 2-d convolution, x [n, c_in, h, w] and weight [c_out, c_in / groups, kh, kw], all dense. With
 * channels_last the channels of a pixel are adjacent in memory: x and y are [n, h, w, c], weight is [c_out, kh, kw,
 * c_in / groups]. */
typedef struct haul__conv2d {
    haul__conv2d_pass pass;
    haul_dtype        dtype;
    int64_t           n, c_in, h, w, c_out, kh, kw, out_h, out_w;
    int64_t           stride[2], padding[2], dilation[2], groups;
    bool              channels_last;
    bool              has_bias; /* added to y, or for DATA to x, channel by channel; not for WEIGHT */
    bool              relu;     /* forward only: y = max(result, 0) */
    bool              tf32;     /* as in haul__gemm */
    /* FORWARD reads x, weight, bias and writes y. DATA reads weight, y (dy) and bias, and writes x (dx). WEIGHT reads x
     * and y (dy), and writes weight (dw). In queries, NULL is a buffer that will be made afterwards. */
    const haul__buffer *x, *weight, *bias, *y;
    int64_t             x_offset, weight_offset, bias_offset, y_offset;
    const haul__buffer *scratch; /* as in haul__gemm */
    size_t              scratch_bytes;
} haul__conv2d;

/* Eigenvalues and eigenvectors of symmetric matrices [count, n, n], of which the lower triangle counts, or with `svd`
 * the reduced singular value decomposition of [count, m, n]. All matrices are row-major and dense; k is the smaller of
 * m and n. values is [count, k], left [count, m, k], with vectors as columns, right [count, k, n] and NULL for
 * eigenvalues.
 *
 * A `turned` problem is one for libraries that overwrite their matrices and take column-major ones. m is at most n; a
 * may be overwritten, and what counts of it is finite. For eigenvalues the vectors are written to a, as rows, and left
 * is NULL. info [count], of i32, gets 0, or what LAPACK calls info. */
typedef struct haul__spectrum {
    bool                svd;
    haul_dtype          dtype; /* f32 or f64 */
    int64_t             count, m, n;
    bool                turned;
    const haul__buffer *a, *values, *left, *right, *info;
    int64_t             a_offset, values_offset, left_offset, right_offset, info_offset; /* elements */
    const haul__buffer *scratch;                                                         /* as in haul__gemm */
    size_t              scratch_bytes;
} haul__spectrum;

/* The smaller of both sizes of the matrices. */
static inline int64_t haul__spectrum_rank(const haul__spectrum *s)
{
    return s->m < s->n ? s->m : s->n;
}

/* The kernels take matrices whose smaller size is at most this, on every device. */
enum { HAUL__SPECTRUM_SMALL = 64 };

typedef enum haul__problem { HAUL__PROBLEM_GEMM, HAUL__PROBLEM_CONV2D, HAUL__PROBLEM_SPECTRUM } haul__problem;

/* ---- implementations ---- */

typedef enum haul__implementation_id {
#define X(name) HAUL__BY_##name,
#include "backends/implementations.def"
#undef X
    HAUL__IMPLEMENTATIONS
} haul__implementation_id;

/* `problem` is a haul__gemm, a haul__conv2d or a haul__spectrum, according to `of`. */
struct haul__implementation {
    haul__problem           of;
    haul__implementation_id id;
    /* The reason why it does not take the problem on this device, a text that lives as long as the process; NULL: it
     * takes it. Anything that `run` cannot do by itself is a reason, for example relu, a dtype or a layout. problem ==
     * NULL asks for the reason to refuse every problem: the library is missing, or is for other devices. */
    const char *(*refuses)(haul_device *device, const void *problem);
    /* Optional: true for a problem that it takes if the entry after it takes less time. Then that one is asked first.
     * NULL: it never does. */
    bool (*is_slower)(haul_device *device, const void *problem);
    /* Optional: the scratch memory that `run` wants, in bytes. It is asked for before the stream is locked, so that the
     * memory can come from the allocator; if none is left, `run` gets none. Then it computes in another way or returns
     * HAUL_UNSUPPORTED; the harness reports the reason either way. Buffers and offsets are those of the run.
     * Scratch memory is free again when the run is done: its contents are lost. */
    size_t (*scratch)(haul_device *device, const void *problem);
    /* Computes it, as one command on a stream. HAUL_UNSUPPORTED, without recording an error: it turned out that it
     * cannot. */
    haul_status (*run)(haul__stream *s, const void *problem);
    /* For portable implementations, instead of `run`: submits commands. `task` is what the operation passes to
     * haul__implement. */
    haul_status (*compute)(void *task);
    /* Of a matrix product: problems may have `inner`. */
    bool takes_inner;
    /* Optional: true if tensors of a convolution should be channels-last. The problem has no buffers; its channels_last
     * gives the present layout of x, dy or the weight. NULL: no, it takes row-major tensors only. */
    bool (*wants_channels_last)(haul_device *device, const void *problem);
};

/* "onednn" */
const char *haul__implementation_name(haul__implementation_id id);

/* The environment variable HAUL_WITHOUT names implementations that are not used, in a comma-separated list that is read
 * once. An unknown name, or "kernel", makes every choice of an implementation fail. */
enum { HAUL__WITHOUT_UNKNOWN = 1 << 30 }; /* not read yet, or invalid */
extern atomic_uint haul__without;         /* bits by id */
haul_status        haul__without_read(uint32_t *ids);

/* The bits of those that are left out. */
static inline haul_status haul__implementations_without(uint32_t *ids)
{
    *ids = atomic_load_explicit(&haul__without, memory_order_relaxed);
    return __builtin_expect(*ids & HAUL__WITHOUT_UNKNOWN, 0) ? haul__without_read(ids) : HAUL_OK;
}

/* True if the variable HAUL_WITHOUT lists it. */
bool haul__implementation_left_out(haul__implementation_id id);

#endif
