/* Matrix products of f16 and bf16 on the CPU: blocks of A and panels of B become f32 in scratch memory that stays in a
 * cache, the tiles of f32 multiply them and add up in f32, and each element of C is rounded once. */
#include <string.h>

#include "backends/cpu/cpu.h"
#include "backends/cpu/halves.h"
#include "backends/cpu/tiles.h"
#include "core/error.h"
#include "core/pool.h"
#include "core/thread.h"

/* A block of C is ROWS rows of one panel; DEPTH rows of B are taken at a time. Multiplications worth a piece. */
#define ROWS       96
#define DEPTH      128
#define WIDTH      (HAUL__TILE_BYTES / 4)
#define PIECE_WORK 262144

typedef struct product {
    const haul__gemm       *call;
    const haul__cpu_tiles  *tiles;
    const haul__cpu_halves *halves;
    atomic_bool             no_memory;          /* for a scratch */
    int64_t                 row_blocks, panels; /* of a matrix */
} product;

/* What a thread needs for a block. */
typedef struct scratch {
    _Alignas(64) float block[ROWS * DEPTH];
    _Alignas(64) float panel[DEPTH * WIDTH];
    _Alignas(64) float sums[ROWS * WIDTH];
} scratch;

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static uint16_t *element(const haul__buffer *buffer, int64_t index)
{
    return (uint16_t *)buffer->host + index;
}

/* Rows of C from their sums, with bias and what was there if so wished. */
static void store(const product *p, float *sums, uint16_t *c, const uint16_t *bias, int64_t rows, int64_t columns)
{
    const haul__gemm *g = p->call;
    float             more[WIDTH];
    for (int64_t r = 0; r < rows; r++) {
        float    *row = sums + r * WIDTH;
        uint16_t *out = c + r * g->c_row;
        for (int what = 0; what < 2; what++) {
            if (what == 0 ? !bias : !g->accumulate)
                continue;
            p->halves->widen(more, WIDTH, &(haul__cpu_matrix){what == 0 ? bias : out, 1, columns, columns, 1});
            for (int64_t j = 0; j < columns; j++)
                row[j] += more[j];
        }
        p->halves->narrow(out, row, columns);
    }
}

static void run_block(product *p, int64_t index)
{
    const haul__gemm *g = p->call;
    int64_t           each = p->row_blocks * p->panels, z = index / each, within = index - z * each;
    int64_t           i = within / p->panels * ROWS, j = within % p->panels * p->tiles->width, offsets[DEPTH];
    int64_t           rows = smaller(ROWS, g->m - i), columns = smaller(p->tiles->width, g->n - j);
    const uint16_t   *a = element(g->a, g->a_offset + z * g->a_batch + i * g->a_row);
    const uint16_t   *b = element(g->b, g->b_offset + z * g->b_batch + j * g->b_col);
    scratch          *s = haul__scratch(sizeof *s);

    if (!s) {
        atomic_store_explicit(&p->no_memory, true, memory_order_relaxed);
        return;
    }
    memset(s->sums, 0, sizeof s->sums);
    if (columns < WIDTH)
        memset(s->panel, 0, sizeof s->panel); /* tiles read whole vectors */
    for (int64_t k = 0; k < DEPTH; k++)
        offsets[k] = k * WIDTH;
    for (int64_t k = 0; k < g->k; k += DEPTH) {
        int64_t depth = smaller(DEPTH, g->k - k);
        p->halves->widen(s->block, DEPTH, &(haul__cpu_matrix){a + k * g->a_col, rows, depth, g->a_row, g->a_col});
        p->halves->widen(s->panel, WIDTH, &(haul__cpu_matrix){b + k * g->b_row, depth, columns, g->b_row, g->b_col});
        p->tiles->product(&(haul__cpu_product){.m = rows,
                                               .n = columns,
                                               .k = depth,
                                               .a = s->block,
                                               .a_row = DEPTH,
                                               .a_column = 1,
                                               .b = s->panel,
                                               .b_rows = offsets,
                                               .c = s->sums,
                                               .c_row = WIDTH,
                                               .accumulate = true});
    }
    store(p, s->sums, element(g->c, g->c_offset + z * g->c_batch + i * g->c_row + j),
          g->bias ? element(g->bias, g->bias_offset + j) : NULL, rows, columns);
}

static void run_blocks(void *context, int64_t first, int64_t last)
{
    for (int64_t i = first; i < last; i++)
        run_block(context, i);
}

haul_status haul__cpu_gemm_half(const haul__gemm *call)
{
    product p = {.call = call, .tiles = haul__cpu_tiles_for(HAUL_F32), .halves = haul__cpu_halves_for(call->dtype)};
    p.row_blocks = (call->m - 1) / ROWS + 1;
    p.panels = (call->n - 1) / p.tiles->width + 1;
    int64_t work = smaller(ROWS, call->m) * smaller(p.tiles->width, call->n) * smaller(call->k, PIECE_WORK) + 1;
    haul__parallel_for(call->batch * p.row_blocks * p.panels, 1 + PIECE_WORK / work, run_blocks, &p);
    return atomic_load_explicit(&p.no_memory, memory_order_relaxed) ? haul__fail_memory(NULL, sizeof(scratch))
                                                                    : HAUL_OK;
}
