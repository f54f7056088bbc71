/* Matrix products of the CPU, by register tiles.
 *
 * B is packed into panels that stay in a cache. If A has few rows, or B is small enough to stay in the cache anyway,
 * packing would cost more than it saves, and B is read in place. The shape alone decides how work is cut into pieces,
 * so results do not depend on the number of threads.
 */
#include <string.h>

#include "backends/cpu/cpu.h"
#include "backends/cpu/tiles.h"
#include "core/error.h"
#include "core/pool.h"
#include "core/shape.h"
#include "core/thread.h"

/* Multiplications worth a piece of their own; most pieces; rows of A below which packing B does not pay, and below
 * which dot products take the place of packing a transposed B. */
#define PIECE_WORK  262144.0
#define MOST_PIECES 64
#define FEW_ROWS    24
#define SMALL_B     4096 /* elements of B that need no packing */
#define DOT_ROWS    96
#define BLOCK_ROWS  48

typedef struct product {
    const haul__gemm      *call;
    const haul__cpu_tiles *tiles;
    atomic_bool            no_memory;                                /* for a panel */
    int64_t                size;                                     /* of an element */
    int64_t                row_pieces, column_pieces, rows, columns; /* of a matrix; of a piece */
} product;

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void *element(const haul__buffer *buffer, int64_t index, int64_t size)
{
    return (char *)buffer->host + index * size;
}

/* A rectangle of C: its addresses, and those of the rows of A and the columns of B. */
typedef struct piece {
    const char *a, *b, *bias;
    char       *c;
    int64_t     rows, columns;
} piece;

/* Columns [first, last) of the piece, through a packed panel at a time or from B itself. */
static void multiply(product *p, const piece *x, int64_t first, int64_t last, bool packed)
{
    const haul__gemm *g = p->call;
    int64_t           width = p->tiles->width, step = packed ? width : last - first, rows[HAUL__TILE_DEPTH];
    char             *panel = packed ? haul__scratch(HAUL__TILE_DEPTH * HAUL__TILE_BYTES) : NULL;
    if (packed && !panel) {
        atomic_store_explicit(&p->no_memory, true, memory_order_relaxed);
        return;
    }
    for (int64_t j = first; j < last; j += step) {
        int64_t k0 = 0;
        do {
            int64_t           depth = smaller(g->k - k0, HAUL__TILE_DEPTH);
            const char       *b = x->b + (k0 * g->b_row + j * g->b_col) * p->size;
            haul__cpu_product tile = {
                .m = x->rows,
                .n = smaller(step, last - j),
                .k = depth,
                .a = x->a + k0 * g->a_col * p->size,
                .a_row = g->a_row,
                .a_column = g->a_col,
                .b = packed ? panel : b,
                .b_rows = rows,
                .c = x->c + j * p->size,
                .c_row = g->c_row,
                .column_bias = x->bias && k0 == 0 ? x->bias + j * p->size : NULL,
                .accumulate = g->accumulate || k0 > 0,
            };
            if (packed)
                p->tiles->pack(panel, b, g->b_row, g->b_col, depth, tile.n);
            for (int64_t k = 0; k < depth; k++)
                rows[k] = k * (packed ? width : g->b_row);
            p->tiles->product(&tile);
            k0 += depth;
        } while (k0 < g->k);
    }
}

/* Rows of A and columns of B lie dense: dot products, without packing. */
static void multiply_dots(const product *p, const piece *x)
{
    const haul__gemm *g = p->call;
    int64_t           columns[HAUL__TILE_DEPTH];
    for (int64_t j = 0; j < x->columns; j += HAUL__TILE_DEPTH) {
        haul__cpu_dots dots = {
            .m = x->rows,
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

/* The piece of a matrix from row i and column j on. Not inlined: small products should not pay for its frame. */
static __attribute__((noinline)) void run_piece(product *p, int64_t matrix, int64_t i, int64_t j)
{
    const haul__gemm *g = p->call;
    piece             x = {
                    .a = element(g->a, g->a_offset + matrix * g->a_batch + i * g->a_row, p->size),
                    .b = element(g->b, g->b_offset + matrix * g->b_batch + j * g->b_col, p->size),
                    .c = element(g->c, g->c_offset + matrix * g->c_batch + i * g->c_row + j, p->size),
                    .bias = g->bias ? element(g->bias, g->bias_offset + j, p->size) : NULL,
                    .rows = smaller(p->rows, g->m - i),
                    .columns = smaller(p->columns, g->n - j),
    };
    int64_t lanes = p->tiles->lanes;
    if (g->a_col == 1 && g->b_row == 1 && g->m <= DOT_ROWS && g->k >= 4 * lanes) {
        multiply_dots(p, &x);
    } else if (g->b_col == 1 && (g->m <= FEW_ROWS || g->k * x.columns <= SMALL_B)) {
        int64_t whole = x.columns - x.columns % lanes; /* tiles read whole vectors: the rest must not end B */
        if (whole)
            multiply(p, &x, 0, whole, false);
        if (whole < x.columns)
            multiply(p, &x, whole, x.columns, true);
    } else {
        multiply(p, &x, 0, x.columns, true);
    }
}

static void run_pieces(void *context, int64_t first, int64_t last)
{
    product *p = context;
    for (int64_t index = first; index < last; index++) {
        int64_t matrix = index / (p->row_pieces * p->column_pieces);
        int64_t within = index - matrix * p->row_pieces * p->column_pieces;
        int64_t i = within / p->column_pieces * p->rows, j = within % p->column_pieces * p->columns;
        if (i < p->call->m && j < p->call->n)
            run_piece(p, matrix, i, j);
    }
}

/* Cut columns first: each piece packs its own of B; then rows. */
static void cut(product *p)
{
    const haul__gemm *g = p->call;
    double            work = (double)g->batch * (double)g->m * (double)g->n * (double)g->k / PIECE_WORK;
    int64_t           pieces = work > MOST_PIECES ? MOST_PIECES : work > 1 ? (int64_t)work : 1;
    int64_t           each = haul__ceil_div(pieces, g->batch);
    p->column_pieces = smaller(each, haul__ceil_div(g->n, p->tiles->width));
    p->row_pieces = smaller(haul__ceil_div(each, p->column_pieces), haul__ceil_div(g->m, BLOCK_ROWS));
    p->columns = haul__ceil_div(haul__ceil_div(g->n, p->column_pieces), p->tiles->lanes) * p->tiles->lanes;
    p->rows = haul__ceil_div(haul__ceil_div(g->m, p->row_pieces), p->tiles->rows) * p->tiles->rows;
}

/* What `cut` leaves whole: known without its divisions. */
static bool is_one_piece(const haul__gemm *g)
{
    return g->batch == 1 && g->m > 0 && g->n > 0 && (double)g->m * (double)g->n * (double)g->k <= PIECE_WORK;
}

#define REAL       float
#define NAME(name) name##_f32
#include "backends/cpu/gemm_loop.h"
#undef REAL
#undef NAME

#define REAL       double
#define NAME(name) name##_f64
#include "backends/cpu/gemm_loop.h"

/* Multiplications of a product that a loop does. */
#define LOOP_WORK 256

const char *haul__cpu_gemm_refuses(haul_device *device, const void *problem)
{
    const haul__gemm *g = problem;
    (void)device;
    if (g && !haul_dtype_is_float(g->dtype))
        return "it takes floats only";
    return g && g->relu ? "it does no relu" : NULL;
}

haul_status haul__cpu_gemm(haul__stream *s, const void *problem)
{
    const haul__gemm *call = problem;
    (void)s;
    product p = {.call = call, .tiles = haul__cpu_tiles_for(call->dtype), .size = call->dtype == HAUL_F32 ? 4 : 8};
    if (!p.tiles)
        return haul__cpu_gemm_half(call);
    if (call->batch == 1 && call->m <= LOOP_WORK && call->n <= LOOP_WORK && call->k <= LOOP_WORK &&
        call->m * call->n * call->k <= LOOP_WORK) {
        (call->dtype == HAUL_F32 ? loop_f32 : loop_f64)(call);
        return HAUL_OK;
    }
    if (is_one_piece(call)) {
        p.rows = call->m;
        p.columns = call->n;
        run_piece(&p, 0, 0, 0);
    } else {
        cut(&p);
        int64_t pieces = call->batch * p.row_pieces * p.column_pieces;
        haul__parallel_for(pieces, haul__ceil_div(pieces, MOST_PIECES), run_pieces, &p);
    }
    return atomic_load_explicit(&p.no_memory, memory_order_relaxed)
               ? haul__fail_memory(NULL, HAUL__TILE_DEPTH * HAUL__TILE_BYTES)
               : HAUL_OK;
}
