/* CPU matrix products of many rows, by packed panels (panels.h).
 *
 * There are two ways to distribute the work. With *pieces*, C is cut into rectangles, and each thread packs what its
 * rectangle needs just before it is used, without waiting for others. If A has many rows, every piece would pack B
 * again: then B is packed *once* for all threads, a part at a time, and threads take blocks of rows. The sums of an
 * element do not depend on the cut, so the cut may depend on the number of threads.
 *
 * f16 and bf16 are converted to f32 while they are packed, summed in f32, and rounded once. Where the processor has
 * instructions for it, bf16 is packed as it is, in pairs along k. */
#include "backends/cpu/cpu.h"
#include "backends/cpu/gemm/halves.h"
#include "backends/cpu/gemm/panels.h"
#include "base/assert.h"
#include "base/half.h"
#include "base/numbers.h"
#include "core/error.h"
#include "core/pool.h"
#include "core/thread.h"

/* Bytes of a block of A where B is packed once: half of a cache of the second level. Columns of B that are packed once
 * at a time. The most rows of a piece. */
#define BLOCK_BYTES  ((int64_t)480 << 10)
#define MOST_COLUMNS 4096
#define PIECE_ROWS   512

/* Multiplications that are worth a task for each thread, and several of them, so that a thread that is held up leaves
 * some to the others. */
#define SHARED_WORK 150e3
#define SPLIT_WORK  2.5e6
#define SPLIT       4

/* Multiplications, and rows of A, from which B is packed once, if pieces would repeat work. If A has more rows than a
 * piece, B is always packed once. */
#define ONCE_WORK 4e6
#define ONCE_ROWS 64

/* Bytes of B that stay in a cache of the first level where they are. */
#define NEAR_BYTES (24 << 10)

/* Panels up to which a transposed A is read in place. */
#define FEW_PANELS 2

/* Bytes between rows of B up to which its lines spread over a cache. If they are a multiple of the second number, a
 * panel has a quarter of the cache's sets or fewer, where so many of its rows have room. */
#define DENSE_BYTES  2048
#define SPARSE_BYTES 512
#define SPARSE_ROWS  64

/* Bytes of the panels that a piece packs at a time, and rows of B that are packed before the next panel. */
#define GROUP_BYTES (128 << 10)
#define PACKED_ROWS 16

/* Elements of f16 or bf16 that are converted at a time, and the most columns of a panel of f32. */
#define WIDENED    16384
#define MOST_WIDTH 64

typedef struct product {
    const haul__gemm       *call;
    const haul__cpu_panels *panels;
    const haul__cpu_halves *halves;     /* NULL for f32 and f64 */
    int64_t                 size, wide; /* bytes of an element in memory, and in panels */
    bool                    once;       /* B is packed once */
    bool                    pairs;      /* elements of tiles and panels are pairs of bf16 */
    int64_t                 depth;      /* rows of B in a part of k */
    bool                    packs_a, packs_b;
    int64_t                 row_pieces, column_pieces; /* of a matrix */
    int64_t                 grain;
    int64_t                 buffer_rows; /* of packed A */
    int64_t                 group;       /* columns of the panels that a piece packs at a time */
    int64_t                 sums_batch;  /* elements between the sums of two matrices */
    size_t                  shared_bytes, sums_bytes, thread_bytes;
    char                   *shared;    /* a part of B in panels */
    float                  *sums;      /* of f16 and bf16, where a part of k is not all of it */
    atomic_bool             no_memory; /* for a thread's scratch */
} product;

/* A rectangle of C, and the part of k that is added to it. */
typedef struct block {
    int64_t z, i, m, j, n, k, depth;
    int64_t first_panel; /* column of the first panel in p->shared */
} block;

/* The scratch memory of a thread. */
typedef struct buffers {
    char  *a, *panel;
    float *sums, *widened;
} buffers;

/* a / b, rounded up, for a and b above 0. Division of 64 bits takes three times as long as that of 32. */
static int64_t parts_of(int64_t a, int64_t b)
{
    return ((a | b) >> 32 ? (a - 1) / b : (int64_t)((uint32_t)(a - 1) / (uint32_t)b)) + 1;
}

static const char *at(const product *p, const haul__buffer *buffer, int64_t index)
{
    return (const char *)buffer->host + index * p->size;
}

/* The distance of lines of `count` converted elements: of an odd number of cache lines, and at least one more. */
static int64_t line_of(int64_t count)
{
    return (count + 31) / 32 * 32 + 16;
}

/* True if elements are converted to f32 while they are packed. */
static bool widens(const product *p)
{
    return p->halves && !p->pairs;
}

/* Rows of B that are in a panel with `depth` of them. */
static int64_t packed_depth(const product *p, int64_t depth)
{
    return (depth + p->panels->step - 1) & -p->panels->step;
}

/* ---- memory ---- */

/* The most rows whose A is packed at a time. */
static int64_t packed_rows(const product *p)
{
    return smaller(p->call->m, p->once ? BLOCK_BYTES / (p->depth * p->wide) : PIECE_ROWS);
}

static size_t panel_bytes(const product *p)
{
    return (size_t)(packed_depth(p, smaller(p->call->k, p->depth)) * p->group * p->wide);
}

/* Of a thread. Packed tiles take the memory of whole ones. */
static void measure_buffers(product *p, int64_t panels)
{
    int64_t rows = p->buffer_rows = packed_rows(p) + 2 * p->panels->rows, width = p->panels->width;
    int64_t panel = larger(smaller(p->call->k, p->depth), 1) * width * p->wide;
    p->group = width * (p->once || !p->packs_b ? 1 : larger(1, smaller(parts_of(GROUP_BYTES, panel), panels)));
    HAUL__ASSERT(p->group > 0 && p->group % width == 0);
    p->thread_bytes = panel_bytes(p);
    if (p->packs_a)
        p->thread_bytes += (size_t)(line_of(rows) * line_of(smaller(p->call->k, p->depth)) * p->wide);
    if (p->halves)
        p->thread_bytes += (size_t)(rows * p->panels->width + WIDENED) * sizeof(float);
    p->thread_bytes += 256;
}

static char *next_buffer(char **memory, size_t bytes)
{
    char *buffer = *memory;
    *memory += (bytes + 63) & ~(size_t)63;
    return buffer;
}

static bool open_buffers(product *p, buffers *r)
{
    char *memory = haul__scratch(p->thread_bytes);
    if (!memory) {
        atomic_store_explicit(&p->no_memory, true, memory_order_relaxed);
        return false;
    }
    r->panel = next_buffer(&memory, panel_bytes(p));
    if (p->halves) {
        r->widened = (float *)(void *)next_buffer(&memory, WIDENED * sizeof(float));
        r->sums = (float *)(void *)next_buffer(&memory, (size_t)(p->buffer_rows * p->panels->width) * sizeof(float));
    }
    r->a = memory;
    return true;
}

/* ---- packing ---- */

/* Puts a block of A into the form that tiles read: in place or packed. f16 and bf16 are converted line by line. The
 * distance between the converted lines spreads them over a cache. */
static void place_a(const product *p, const block *x, const buffers *r, haul__cpu_strip *s)
{
    const haul__gemm *g = p->call;
    const char       *from = at(
              p, g->a, g->a_offset + haul__gemm_matrix(g, x->z, g->a_batch, g->a_outer) + x->i * g->a_row + x->k * g->a_col);
    const uint16_t *halves = (const uint16_t *)(const void *)from;
    float          *wide = (float *)(void *)r->a;
    HAUL__ASSERT(x->m <= p->buffer_rows || !p->packs_a);
    s->a = p->packs_a ? r->a : from;
    s->a_row = g->a_row;
    s->a_column = g->a_col;
    s->a_tile = 0;
    if (widens(p) && g->a_row == 1) {
        s->a_column = line_of(x->m);
        p->halves->widen(wide, s->a_column, &(haul__cpu_matrix){halves, x->depth, x->m, g->a_col, 1});
    } else if (widens(p)) {
        s->a_row = line_of(x->depth);
        s->a_column = 1;
        p->halves->widen(wide, s->a_row, &(haul__cpu_matrix){halves, x->m, x->depth, g->a_row, g->a_col});
    } else if (p->packs_a) {
        s->a_tile = p->panels->rows * s->k;
        p->panels->pack_a(r->a, s->a_tile, from, g->a_row, g->a_col, x->m, x->depth);
    }
}

/* Columns [j, j + n) of B as a panel. */
static void pack_panel(const product *p, const block *x, int64_t j, int64_t n, char *to, const buffers *r)
{
    const haul__gemm *g = p->call;
    const char       *from =
        at(p, g->b, g->b_offset + haul__gemm_matrix(g, x->z, g->b_batch, g->b_outer) + x->k * g->b_row + j * g->b_col);
    int64_t width = p->panels->width, step = larger(16, WIDENED / n / 16 * 16);
    HAUL__ASSERT(0 < n && n <= width);
    if (!widens(p)) {
        p->panels->pack_b(to, from, g->b_row, g->b_col, x->depth, n);
        return;
    }
    const uint16_t *halves = (const uint16_t *)(const void *)from;
    float          *panel = (float *)(void *)to;
    if (g->b_col == 1 && n % p->panels->lanes == 0) {
        p->halves->widen(panel, width, &(haul__cpu_matrix){halves, x->depth, n, g->b_row, 1});
        return;
    }
    HAUL__ASSERT(step * n <= WIDENED);
    for (int64_t k = 0; k < x->depth; k += step) {
        int64_t depth = smaller(step, x->depth - k);
        p->halves->widen(r->widened, depth, &(haul__cpu_matrix){halves + k * g->b_row, n, depth, g->b_col, g->b_row});
        p->panels->pack_b(panel + k * width, r->widened, 1, depth, depth, n);
    }
}

/* Columns [j, j + n) of B as panels. A few rows of each panel at a time: rows are read from the beginning to the end.
 */
static void pack_b(const product *p, const block *x, int64_t j, int64_t n, char *to, const buffers *r)
{
    const haul__gemm *g = p->call;
    int64_t           width = p->panels->width, step = x->depth, depth = packed_depth(p, step);
    if (!widens(p) && g->b_col == 1)
        step = larger(PACKED_ROWS, p->panels->step);
    for (int64_t k = 0; k < x->depth; k += step) {
        block part = *x;
        part.k += k;
        part.depth = smaller(step, x->depth - k);
        for (int64_t i = 0; i < n; i += width)
            pack_panel(p, &part, j + i, smaller(width, n - i), to + (i * depth + k * width) * p->wide, r);
    }
}

/* ---- a rectangle ---- */

/* Rounds sums of f16 or bf16 to C, with the bias and the previous contents if requested. */
static void round_sums(const product *p, const block *x, int64_t j, int64_t n, float *sums, int64_t sums_row)
{
    const haul__gemm *g = p->call;
    const uint16_t   *bias = g->bias ? (const uint16_t *)(const void *)at(p, g->bias, g->bias_offset + j) : NULL;
    uint16_t         *c =
        (uint16_t *)g->c->host + g->c_offset + haul__gemm_matrix(g, x->z, g->c_batch, g->c_outer) + x->i * g->c_row + j;
    HAUL__ASSERT(n <= MOST_WIDTH && x->k + x->depth == g->k);
    float more[MOST_WIDTH];
    for (int64_t r = 0; r < x->m; r++, sums += sums_row, c += g->c_row) {
        for (int what = 0; what < 2; what++) {
            if (what == 0 ? !bias : !g->accumulate)
                continue;
            p->halves->widen(more, n, &(haul__cpu_matrix){what == 0 ? bias : c, 1, n, n, 1});
            for (int64_t i = 0; i < n; i++)
                sums[i] += more[i];
        }
        p->halves->narrow(c, sums, n);
    }
}

/* Where the tiles of columns [j, j + n) put their result. */
static void find_target(const product *p, const block *x, int64_t j, const buffers *r, haul__cpu_strip *s)
{
    const haul__gemm *g = p->call;
    s->accumulate = x->k > 0;
    s->bias = s->row_bias = NULL;
    if (!p->halves) {
        s->c = (char *)g->c->host +
               (g->c_offset + haul__gemm_matrix(g, x->z, g->c_batch, g->c_outer) + x->i * g->c_row + j) * p->size;
        s->c_row = g->c_row;
        if (g->bias && x->k == 0 && g->bias_of_rows)
            s->row_bias = at(p, g->bias, g->bias_offset + x->i);
        else if (g->bias && x->k == 0)
            s->bias = at(p, g->bias, g->bias_offset + j);
        s->accumulate = g->accumulate || x->k > 0;
    } else if (p->sums) {
        s->c = p->sums + x->z * p->sums_batch + x->i * g->n + j;
        s->c_row = g->n;
    } else {
        HAUL__ASSERT(x->m <= p->buffer_rows);
        s->c = r->sums;
        s->c_row = p->panels->width;
    }
}

/* True if a tile can copy rows of B to a panel while it computes, so that they are not read again. */
static bool can_copy(const product *p)
{
    return p->panels->multiply_copying && !p->halves && p->call->b_col == 1;
}

/* True if the first tile of a block copies these columns of B. */
static bool copies_b(const product *p, const block *x, int64_t columns)
{
    return p->packs_b && !p->once && can_copy(p) && columns == p->panels->width && x->m >= 2 * p->panels->rows;
}

static void multiply_block(const product *p, const block *x, const buffers *r)
{
    const haul__gemm *g = p->call;
    int64_t           width = p->panels->width, depth = packed_depth(p, x->depth);
    haul__cpu_strip   s = {
          .m = x->m,
          .k = p->pairs ? depth / 2 : depth,
    };
    int64_t first = x->j, packed = x->j; /* columns of the panels that are packed */
    place_a(p, x, r, &s);
    for (int64_t j = x->j; j < x->j + x->n; j += width) {
        s.n = smaller(width, x->j + x->n - j);
        s.b_row = width;
        bool copies = copies_b(p, x, s.n);
        if (p->once) {
            s.b = p->shared + (j - x->first_panel) * depth * p->wide;
        } else if (!copies && (p->packs_b || s.n % p->panels->lanes)) {
            if (j >= packed) {
                first = j;
                packed = j + (p->packs_b ? smaller(p->group, x->j + x->n - j) : s.n);
                HAUL__ASSERT(packed - j <= p->group);
                pack_b(p, x, j, packed - j, r->panel, r);
            }
            s.b = r->panel + (j - first) * depth * p->wide;
        } else {
            s.b = at(p, g->b, g->b_offset + haul__gemm_matrix(g, x->z, g->b_batch, g->b_outer) + x->k * g->b_row + j);
            s.b_row = g->b_row;
        }
        find_target(p, x, j, r, &s);
        if (copies)
            p->panels->multiply_copying(&s, r->panel);
        else
            p->panels->multiply(&s);
        if (p->halves && x->k + x->depth == g->k)
            round_sums(p, x, j, s.n, s.c, s.c_row);
    }
}

/* ---- pieces ---- */

/* The rectangle of a piece. Pieces of a row of pieces follow one another. */
static block piece_of(const product *p, int64_t index)
{
    const haul__gemm *g = p->call;
    if (p->row_pieces == 1 && p->column_pieces == 1)
        return (block){.z = index, .m = g->m, .n = g->n};
    int64_t panels = parts_of(g->n, p->panels->width), rows = p->row_pieces, columns = p->column_pieces;
    int64_t z = index / (rows * columns), row = index / columns - z * rows, column = index % columns;
    block   x = {.z = z, .i = g->m * row / rows, .j = panels * column / columns * p->panels->width};
    x.m = g->m * (row + 1) / rows - x.i;
    x.n = smaller(panels * (column + 1) / columns * p->panels->width, g->n) - x.j;
    HAUL__ASSERT(z < g->batch && x.m > 0 && x.n > 0);
    return x;
}

static void run_pieces(void *context, int64_t first, int64_t last)
{
    product *p = context;
    buffers  r;
    if (!open_buffers(p, &r))
        return;
    for (int64_t index = first; index < last; index++) {
        block x = piece_of(p, index);
        do {
            x.depth = smaller(p->call->k - x.k, p->depth);
            multiply_block(p, &x, &r);
            x.k += x.depth;
        } while (x.k < p->call->k);
    }
}

/* ---- B packed once ---- */

/* A part of B, rows [k, k + depth) and columns [j, j + n). */
typedef struct part {
    product *p;
    block    of;
    int64_t  row_pieces, column_pieces;
} part;

static void pack_panels(void *context, int64_t first, int64_t last)
{
    const part *t = context;
    product    *p = t->p;
    int64_t     width = p->panels->width;
    buffers     r;
    if (!open_buffers(p, &r))
        return;
    pack_b(p, &t->of, t->of.j + first * width, smaller(last * width, t->of.n) - first * width,
           p->shared + first * width * packed_depth(p, t->of.depth) * p->wide, &r);
}

static void run_rows(void *context, int64_t first, int64_t last)
{
    const part *t = context;
    product    *p = t->p;
    int64_t     tiles = parts_of(p->call->m, p->panels->rows), width = p->panels->width;
    int64_t     panels = parts_of(t->of.n, width);
    buffers     r;
    if (!open_buffers(p, &r))
        return;
    for (int64_t index = first; index < last; index++) {
        block   x = t->of;
        int64_t row = index / t->column_pieces, column = index - row * t->column_pieces;
        x.i = tiles * row / t->row_pieces * p->panels->rows;
        x.m = smaller(tiles * (row + 1) / t->row_pieces * p->panels->rows, p->call->m) - x.i;
        x.j = t->of.j + panels * column / t->column_pieces * width;
        x.n = smaller(t->of.j + panels * (column + 1) / t->column_pieces * width, t->of.j + t->of.n) - x.j;
        x.first_panel = t->of.j;
        HAUL__ASSERT(x.m > 0 && x.n > 0 && x.m <= p->buffer_rows);
        multiply_block(p, &x, &r);
    }
}

static void run_part(product *p, part *t)
{
    int64_t panels = parts_of(t->of.n, p->panels->width), threads = haul__pool_threads();
    int64_t tiles = parts_of(p->call->m, p->panels->rows);
    int64_t least = parts_of(p->call->m, packed_rows(p)), wanted = threads > 1 ? SPLIT * threads : 1;
    t->row_pieces = smaller(larger(least, round_up(least, wanted)), tiles);
    t->column_pieces = t->row_pieces < wanted ? smaller(parts_of(wanted, t->row_pieces), panels) : 1;
    HAUL__ASSERT(t->row_pieces <= tiles && t->column_pieces <= panels);
    haul__parallel_for(panels, parts_of(panels, wanted), pack_panels, t);
    haul__parallel_for(t->row_pieces * t->column_pieces, 1, run_rows, t);
}

static void run_once(product *p)
{
    const haul__gemm *g = p->call;
    for (int64_t z = 0; z < g->batch; z++)
        for (int64_t j = 0; j < g->n; j += MOST_COLUMNS)
            for (int64_t k = 0; k < g->k; k += p->depth) {
                part t = {.p = p,
                          .of = {.z = z,
                                 .j = j,
                                 .n = smaller(MOST_COLUMNS, g->n - j),
                                 .k = k,
                                 .depth = smaller(p->depth, g->k - k)}};
                run_part(p, &t);
            }
}

/* ---- the plan ---- */

/* True if lines this far apart are in the same few sets of a cache. */
static bool collides(const product *p, int64_t stride)
{
    return stride * p->size % 4096 == 0;
}

/* A is read in place if one of its strides is 1 and few panels read it, or if its rows are dense and stay in a cache.
 */
static bool must_pack_a(const product *p, int64_t panels)
{
    const haul__gemm *g = p->call;
    if (p->halves || (g->a_row != 1 && g->a_col != 1))
        return true;
    if (g->a_col != 1)
        return panels > FEW_PANELS && g->a_col * p->size > 256;
    return panels > 1 && collides(p, g->a_row);
}

/* Cuts a matrix into `wanted` pieces: columns first, since rows of A need no packing, then rows if panels are too few.
 * A different number of pieces is better than rows whose pieces would all transpose the same B. */
static void cut(product *p, int64_t wanted, int64_t panels)
{
    const haul__gemm *g = p->call;
    p->column_pieces = p->row_pieces = 1;
    if (wanted == 1)
        return;
    if (panels >= 2 * wanted || panels % wanted == 0)
        p->column_pieces = wanted;
    else if (g->b_col != 1 && panels < 2 * wanted && panels % haul__pool_threads() == 0)
        p->column_pieces = panels;
    else if (wanted % panels == 0) {
        p->column_pieces = panels;
        p->row_pieces = smaller(wanted / panels, parts_of(g->m, 6));
    } else if (g->m >= 6 * wanted)
        p->row_pieces = wanted;
    else
        p->column_pieces = smaller(panels, wanted);
}

int64_t haul__cpu_tiles_in_place(int64_t depth, int64_t row_bytes)
{
    bool spread = row_bytes <= DENSE_BYTES && (row_bytes % SPARSE_BYTES != 0 || depth <= SPARSE_ROWS);
    return depth * row_bytes <= NEAR_BYTES || spread ? 10 : 2;
}

static void plan_pieces(product *p, double work, int64_t panels)
{
    const haul__gemm *g = p->call;
    int64_t           threads = haul__pool_threads(), wanted = 1;
    double            all = work * (double)g->batch;
    if (threads > 1 && all >= 2 * SHARED_WORK)
        wanted = threads * (all < SPLIT_WORK ? 1 : SPLIT);
    cut(p, parts_of(wanted, g->batch), panels);
    HAUL__ASSERT(p->column_pieces > 0 && p->row_pieces > 0);
    p->packs_a = must_pack_a(p, p->column_pieces == 1 ? panels : parts_of(panels, p->column_pieces));
    if (g->m > PIECE_ROWS && (p->packs_a || g->m > 4 * PIECE_ROWS))
        p->row_pieces = larger(p->row_pieces, parts_of(g->m, PIECE_ROWS));
    int64_t rows = p->row_pieces == 1 ? g->m : parts_of(g->m, p->row_pieces);
    HAUL__ASSERT(p->column_pieces <= panels && p->row_pieces <= g->m);
    int64_t tiles = haul__cpu_tiles_in_place(smaller(g->k, p->depth), g->b_row * p->size);
    p->packs_b = p->halves || g->b_col != 1 || rows > tiles * p->panels->rows;
    int64_t pieces = g->batch * p->row_pieces * p->column_pieces;
    p->grain = 1;
    if (pieces > 1)
        p->grain = smaller((int64_t)(SHARED_WORK * (double)pieces / (all + 1)) + 1, parts_of(pieces, threads));
}

/* True if pieces would pack the same elements repeatedly, are too few for all threads, or read A from lines in the same
 * sets of a cache. Not inlined, as small products do not ask. */
static __attribute__((noinline)) bool repeats(const product *p)
{
    const haul__gemm *g = p->call;
    if (g->a_col != 1 && (collides(p, g->a_col) || p->row_pieces * p->column_pieces < haul__pool_threads()))
        return true;
    if (p->row_pieces > 1 && p->packs_b && (p->halves || g->b_col != 1))
        return true;
    return p->packs_a && (p->column_pieces > 1 || p->row_pieces == 1);
}

/* Pieces that copy rows of B while they compute repeat the packing of A only. True if their rows are few, compared with
 * B. */
static bool copies_cheaply(const product *p)
{
    const haul__gemm *g = p->call;
    return can_copy(p) && p->column_pieces > 1 && g->m <= 2 * PIECE_ROWS &&
           parts_of(g->m, p->row_pieces) * p->column_pieces <= g->n;
}

static bool packs_once(const product *p, double work)
{
    int64_t m = p->call->m;
    return work > ONCE_WORK && (m > PIECE_ROWS || (m > ONCE_ROWS && repeats(p))) && !copies_cheaply(p);
}

/* True if a sum of f16 or bf16 is kept as f32 from one part of k to the next. */
static bool sums_in_parts(const product *p)
{
    return p->halves && p->call->k > p->depth;
}

/* Without memory for it, B is not packed once. */
static product plan(const haul__gemm *g, bool may_share)
{
    product p = {
        .call = g,
        .halves = haul__cpu_halves_for(g->dtype),
        .panels = haul__cpu_panels_for(g->dtype),
        .size = (int64_t)haul__dtype_size(g->dtype),
    };
    p.pairs = p.halves && p.panels;
    p.wide = widens(&p) ? 4 : p.size;
    if (!p.panels)
        p.panels = haul__cpu_panels_for(HAUL_F32);
    double  work = (double)g->m * (double)g->n * (double)g->k;
    int64_t panels = parts_of(g->n, p.panels->width);
    p.depth = p.pairs ? 2 * HAUL__PANEL_DEPTH : HAUL__PANEL_DEPTH;
    plan_pieces(&p, work, panels);
    p.once = may_share && packs_once(&p, work);
    if (p.once) {
        p.packs_a = p.halves || (g->a_row != 1 && g->a_col != 1) || panels > FEW_PANELS;
        p.shared_bytes = (size_t)(round_up(smaller(g->n, MOST_COLUMNS), p.panels->width) *
                                  packed_depth(&p, smaller(g->k, p.depth))) *
                         (size_t)p.wide;
    }
    if (sums_in_parts(&p)) {
        p.sums_batch = p.once ? 0 : g->m * g->n; /* C has half as many bytes: no product overflows */
        p.sums_bytes = (size_t)(p.once ? 1 : g->batch) * (size_t)(g->m * g->n) * sizeof(float);
    }
    measure_buffers(&p, panels);
    return p;
}

bool haul__cpu_gemm_panels_alone(const haul__gemm *call)
{
    return (double)call->m * (double)call->n * (double)call->k <= ONCE_WORK &&
           (call->k <= HAUL__PANEL_DEPTH || !haul__is_half(call->dtype));
}

size_t haul__cpu_gemm_panels_scratch(const haul__gemm *call)
{
    product p = plan(call, true);
    return p.shared_bytes + p.sums_bytes;
}

haul_status haul__cpu_gemm_panels(const haul__gemm *call)
{
    size_t  given = call->scratch ? call->scratch_bytes : 0;
    product p = plan(call, true);
    if (given < p.shared_bytes + p.sums_bytes)
        p = plan(call, false);
    if (given < p.shared_bytes + p.sums_bytes)
        return haul__fail_memory(NULL, p.sums_bytes);
    p.shared = given ? call->scratch->host : NULL;
    p.sums = p.sums_bytes ? (float *)(void *)(p.shared + p.shared_bytes) : NULL;
    HAUL__ASSERT((!p.once || p.shared) && (!sums_in_parts(&p) || p.sums));
    if (p.once)
        run_once(&p);
    else
        haul__parallel_for(call->batch * p.row_pieces * p.column_pieces, p.grain, run_pieces, &p);
    return atomic_load_explicit(&p.no_memory, memory_order_relaxed) ? haul__fail_memory(NULL, p.thread_bytes) : HAUL_OK;
}
