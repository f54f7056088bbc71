/* CPU matrix products: plain loops for tiny ones, register tiles and dot products for those of few rows, which read B
 * in place, a single panel for small ones of few columns, and packed panels (gemm_panels.c) for all others.
 *
 * The sums of an element do not depend on how C is cut, so results do not depend on the number of threads. */
#include "backends/cpu/cpu.h"
#include "backends/cpu/gemm/panels.h"
#include "backends/cpu/gemm/tiles.h"
#include "base/assert.h"
#include "core/error.h"
#include "core/pool.h"
#include "core/shape.h"
#include "core/thread.h"

/* The most multiplications for which a plain loop is used. */
#define LOOP_WORK 256

/* Rows of A up to which B is read in place. If B is transposed, dot products do that, up to more rows where they are
 * long: then it pays more not to transpose, and less time goes into adding up lanes. In vectors; for a
 * single row in bytes, so that the way does not depend on the instruction level. */
#define FEW_ROWS   6
#define DOT_ROWS   8
#define DOT_LENGTH 4
#define LONG_ROWS  24
#define LONG       16
#define ROW_BYTES  128

/* Multiplications up to which a product of one panel needs no plan; bytes of that panel. */
#define PANEL_WORK  131072
#define PANEL_BYTES 16384

/* Multiplications that make a piece worthwhile; the most pieces. */
#define PIECE_WORK  262144.0
#define MOST_PIECES 64

static void *element(const haul__buffer *buffer, int64_t index, int64_t size)
{
    return (char *)buffer->host + index * size;
}

/* ---- tiny products ---- */

#define REAL       float
#define NAME(name) name##_f32
#include "backends/cpu/gemm/gemm_loop.h"
#undef REAL
#undef NAME

#define REAL       double
#define NAME(name) name##_f64
#include "backends/cpu/gemm/gemm_loop.h"
#include "base/numbers.h"

static bool is_tiny(const haul__gemm *g)
{
    return g->batch == 1 && g->m <= LOOP_WORK && g->n <= LOOP_WORK && g->k <= LOOP_WORK &&
           g->m * g->n * g->k <= LOOP_WORK && !g->bias_of_rows;
}

/* ---- few rows ---- */

typedef struct product {
    const haul__gemm      *call;
    const haul__cpu_tiles *tiles;
    bool                   dots;
    atomic_bool            no_memory;              /* for a panel */
    int64_t                size;                   /* of an element */
    int64_t                column_pieces, columns; /* of a matrix; of a piece */
} product;

static bool takes_dots(const haul__gemm *g, int64_t lanes)
{
    if (g->a_col != 1 || g->b_row != 1 || g->bias_of_rows)
        return false;
    if (g->m == 1)
        return g->k * (g->dtype == HAUL_F32 ? 4 : 8) >= ROW_BYTES;
    return g->m <= DOT_ROWS ? g->k >= DOT_LENGTH * lanes : g->m <= LONG_ROWS && g->k >= LONG * lanes;
}

/* Columns of C: its addresses, and those of A, the columns of B and the bias. */
typedef struct piece {
    const char *a, *b, *bias, *row_bias;
    char       *c;
    int64_t     columns;
} piece;

/* Columns [first, last) of the piece, from B itself or from a packed panel, which holds them all. */
static void multiply(product *p, const piece *x, int64_t first, int64_t last, bool packed)
{
    const haul__gemm *g = p->call;
    int64_t           rows[HAUL__TILE_DEPTH], k0 = 0;
    HAUL__ASSERT(first < last && last <= x->columns &&
                 (packed ? last - first <= p->tiles->width : (last - first) % p->tiles->lanes == 0));
    char *panel = packed ? haul__scratch(HAUL__TILE_DEPTH * HAUL__TILE_BYTES) : NULL;
    if (packed && !panel) {
        atomic_store_explicit(&p->no_memory, true, memory_order_relaxed);
        return;
    }
    do {
        int64_t           depth = smaller(g->k - k0, HAUL__TILE_DEPTH);
        const char       *b = x->b + (k0 * g->b_row + first * g->b_col) * p->size;
        haul__cpu_product tile = {
            .m = g->m,
            .n = last - first,
            .k = depth,
            .a = x->a + k0 * g->a_col * p->size,
            .a_row = g->a_row,
            .a_column = g->a_col,
            .b = packed ? panel : b,
            .b_rows = rows,
            .c = x->c + first * p->size,
            .c_row = g->c_row,
            .row_bias = k0 == 0 ? x->row_bias : NULL,
            .column_bias = x->bias && k0 == 0 ? x->bias + first * p->size : NULL,
            .accumulate = g->accumulate || k0 > 0,
        };
        if (packed)
            p->tiles->pack(panel, b, g->b_row, g->b_col, depth, tile.n);
        for (int64_t k = 0; k < depth; k++)
            rows[k] = k * (packed ? p->tiles->width : g->b_row);
        p->tiles->product(&tile);
        k0 += depth;
    } while (k0 < g->k);
}

/* Rows of A and columns of B are dense: dot products, without packing. */
static void multiply_dots(const product *p, const piece *x)
{
    const haul__gemm *g = p->call;
    int64_t           columns[HAUL__TILE_DEPTH];
    HAUL__ASSERT(g->a_col == 1 && g->b_row == 1 && !x->row_bias);
    for (int64_t j = 0; j < x->columns; j += HAUL__TILE_DEPTH) {
        haul__cpu_dots dots = {
            .m = g->m,
            .n = smaller(HAUL__TILE_DEPTH, x->columns - j),
            .k = g->k,
            .a = x->a,
            .a_row = g->a_row,
            .b = x->b + j * g->b_col * p->size,
            .b_rows = columns,
        };
        for (int64_t i = 0; i < dots.n; i++)
            columns[i] = i * g->b_col;
        p->tiles->dots(&dots, x->c + j * p->size, g->c_row, x->bias ? x->bias + j * p->size : NULL, g->accumulate);
    }
}

/* The piece of a matrix that begins at column j. */
static void run_piece(product *p, int64_t matrix, int64_t j)
{
    const haul__gemm *g = p->call;
    const char       *bias = g->bias ? element(g->bias, g->bias_offset, p->size) : NULL;
    HAUL__ASSERT(matrix < g->batch && j < g->n);
    piece x = {
        .a = element(g->a, g->a_offset + haul__gemm_matrix(g, matrix, g->a_batch, g->a_outer), p->size),
        .b = element(g->b, g->b_offset + haul__gemm_matrix(g, matrix, g->b_batch, g->b_outer) + j * g->b_col, p->size),
        .c = element(g->c, g->c_offset + haul__gemm_matrix(g, matrix, g->c_batch, g->c_outer) + j, p->size),
        .bias = bias && !g->bias_of_rows ? bias + j * p->size : NULL,
        .row_bias = g->bias_of_rows ? bias : NULL,
        .columns = smaller(p->columns, g->n - j),
    };
    if (p->dots) {
        multiply_dots(p, &x);
        return;
    }
    int64_t whole = x.columns - x.columns % p->tiles->lanes; /* tiles read whole vectors: the rest could end past B */
    if (whole)
        multiply(p, &x, 0, whole, false);
    if (whole < x.columns)
        multiply(p, &x, whole, x.columns, true);
}

static void run_pieces(void *context, int64_t first, int64_t last)
{
    product *p = context;
    for (int64_t index = first; index < last; index++) {
        int64_t matrix = index / p->column_pieces, j = (index - matrix * p->column_pieces) * p->columns;
        if (j < p->call->n)
            run_piece(p, matrix, j);
    }
}

static haul_status multiply_few_rows(product *p)
{
    const haul__gemm *g = p->call;
    double            work = (double)g->batch * (double)g->m * (double)g->n * (double)g->k / PIECE_WORK;
    int64_t           wanted = work > MOST_PIECES ? MOST_PIECES : work > 1 ? (int64_t)work : 1;
    p->column_pieces = smaller(haul__ceil_div(wanted, g->batch), haul__ceil_div(g->n, p->tiles->width));
    p->columns = haul__ceil_div(haul__ceil_div(g->n, p->column_pieces), p->tiles->lanes) * p->tiles->lanes;
    HAUL__ASSERT(g->n <= p->columns * p->column_pieces);
    int64_t pieces = g->batch * p->column_pieces;
    haul__parallel_for(pieces, haul__ceil_div(pieces, wanted), run_pieces, p);
    return atomic_load_explicit(&p->no_memory, memory_order_relaxed)
               ? haul__fail_memory(NULL, HAUL__TILE_DEPTH * HAUL__TILE_BYTES)
               : HAUL_OK;
}

/* ---- one panel ---- */

/* Small products whose columns fit in a panel and whose A can be read in place: they need no plan. */
static bool is_panel(const haul__gemm *g, const haul__cpu_panels *panels, int64_t size)
{
    return panels && g->batch == 1 && g->n <= panels->width && (g->a_row == 1 || g->a_col == 1) && g->k > 0 &&
           g->k <= PANEL_BYTES / (panels->width * size) && g->m <= PANEL_WORK && g->m * g->n * g->k <= PANEL_WORK;
}

/* Not inlined: other products do without its room. */
static __attribute__((noinline)) void multiply_panel(const haul__gemm *g, const haul__cpu_panels *panels, int64_t size)
{
    _Alignas(64) char room[PANEL_BYTES];
    const char       *bias = g->bias ? element(g->bias, g->bias_offset, size) : NULL;
    haul__cpu_strip   s = {
          .m = g->m,
          .n = g->n,
          .k = g->k,
          .a = element(g->a, g->a_offset, size),
          .a_row = g->a_row,
          .a_column = g->a_col,
          .b = element(g->b, g->b_offset, size),
          .b_row = g->b_row,
          .c = element(g->c, g->c_offset, size),
          .c_row = g->c_row,
          .bias = g->bias_of_rows ? NULL : bias,
          .row_bias = g->bias_of_rows ? bias : NULL,
          .accumulate = g->accumulate,
    };
    HAUL__ASSERT(g->n <= panels->width && g->k * panels->width * size <= PANEL_BYTES);
    int64_t tiles = haul__cpu_tiles_in_place(g->k, g->b_row * size);
    if (g->b_col != 1 || g->n % panels->lanes || g->m > tiles * panels->rows) {
        panels->pack_b(room, s.b, g->b_row, g->b_col, g->k, g->n);
        s.b = room;
        s.b_row = panels->width;
    }
    panels->multiply(&s);
}

/* ---- the implementation ---- */

const char *haul__cpu_gemm_refuses(haul_device *device, const void *problem)
{
    const haul__gemm *g = problem;
    (void)device;
    if (g && !haul_dtype_is_float(g->dtype))
        return "it takes floats only";
    if (g && !haul__cpu_has(g->dtype))
        return "the dtype is not in this build (HAUL_SMALL=ON)";
    return g && g->relu ? "it does no relu" : NULL;
}

/* Not by panels, and not tiny. `tiles` is NULL for f16 and bf16. */
static bool is_simple(const haul__gemm *g, const haul__cpu_tiles *tiles)
{
    return tiles && ((g->b_col == 1 && g->m <= FEW_ROWS) || takes_dots(g, tiles->lanes));
}

/* A matrix times a column is the column's row times the transposed matrix, which reads the matrix in place. Returns the
 * problem, or what it becomes, in `t`. */
static const haul__gemm *as_row(const haul__gemm *g, haul__gemm *t)
{
    if (g->n != 1 || g->m == 1 || g->c_row != 1 || g->bias)
        return g;
    *t = *g;
    t->m = 1;
    t->n = g->m;
    t->a = g->b;
    t->a_offset = g->b_offset;
    t->a_row = g->k;
    t->a_col = g->b_row;
    t->a_batch = g->b_batch;
    t->a_outer = g->b_outer;
    t->b = g->a;
    t->b_offset = g->a_offset;
    t->b_row = g->a_col;
    t->b_col = g->a_row;
    t->b_batch = g->a_batch;
    t->b_outer = g->a_outer;
    t->c_row = g->m;
    return t;
}

static size_t scratch_of(const haul__gemm *g)
{
    haul__gemm turned;
    if (haul__cpu_gemm_panels_alone(g))
        return 0;
    g = as_row(g, &turned);
    return is_simple(g, haul__cpu_tiles_for(g->dtype)) ? 0 : haul__cpu_gemm_panels_scratch(g);
}

size_t haul__cpu_gemm_scratch(haul_device *device, const void *problem)
{
    return haul__cpu_is_host(device) ? scratch_of(problem) : 0;
}

/* Not inlined: tiny products do without its room. */
static __attribute__((noinline)) haul_status multiply_planned(const haul__gemm *g, const haul__cpu_tiles *tiles)
{
    haul__gemm turned;
    int64_t    size = g->dtype == HAUL_F32 ? 4 : 8;
    g = as_row(g, &turned);
    if (is_simple(g, tiles)) {
        product p = {.call = g, .tiles = tiles, .dots = takes_dots(g, tiles->lanes), .size = size};
        return multiply_few_rows(&p);
    }
    const haul__cpu_panels *panels = tiles ? haul__cpu_panels_for(g->dtype) : NULL;
    if (!is_panel(g, panels, size))
        return haul__cpu_gemm_panels(g);
    multiply_panel(g, panels, size);
    return HAUL_OK;
}

/* For a device that is described: in host memory. */
static haul_status multiply_in_host_memory(const haul__gemm *g, const haul__cpu_tiles *tiles)
{
    haul__gemm        own = *g;
    haul__cpu_scratch scratch;
    haul__buffer      buffer;
    const size_t      bytes = scratch_of(g);
    if (!bytes || !haul__cpu_scratch_open(&scratch, bytes, 1))
        return multiply_planned(g, tiles);
    buffer = (haul__buffer){.host = scratch.memory};
    own.scratch = &buffer;
    own.scratch_bytes = bytes;
    const haul_status status = multiply_planned(&own, tiles);
    haul__cpu_scratch_close(&scratch);
    return status;
}

haul_status haul__cpu_gemm(haul__stream *s, const void *problem)
{
    const haul__gemm      *g = problem;
    const haul__cpu_tiles *tiles = haul__cpu_tiles_for(g->dtype);
    if (!g->batch || !g->m || !g->n)
        return HAUL_OK;
    if (!tiles || !is_tiny(g))
        return s && !haul__cpu_is_host(s->device) ? multiply_in_host_memory(g, tiles) : multiply_planned(g, tiles);
    (g->dtype == HAUL_F32 ? loop_f32 : loop_f64)(g);
    return HAUL_OK;
}
