/* Matrix products: by the backend's implementations, by tiles over a packed B or in shared memory, or element by
 * element. */
#include "ops/matmul/gemm.h"

#include <stdio.h>

#include "base/assert.h"
#include "kernels/constants.h"
#include "kernels/kernels.h"
#include "kernels/types.h"

// clang-format off
/* kernel text begins */
#include "ops/matmul/tile_kernel.h"

/* Strides and offsets are in elements. */
typedef struct gemm_params {
    I64 items;
    I64 batch, m, n, k;
    I64 a_offset, b_offset, c_offset, bias_offset;
    I64 a_row, a_col, a_batch, b_row, b_col, b_batch, c_row, c_batch;
    I64 panels; /* of B in a matrix */
    I32 accumulate, has_bias;
} gemm_params;

/* Where threads share memory, a tile has GEMM_SIDE x GEMM_SIDE elements of C and GEMM_TEAM threads. */
enum { GEMM_SIDE = 64, GEMM_TEAM = 64 };

#ifdef HAUL_KERNEL
#if !defined(HAUL_KERNEL_DTYPE_bool)
/* C has elements of i32 where those of A and B are smaller integers. */
#if defined(HAUL_KERNEL_DTYPE_u8) || defined(HAUL_KERNEL_DTYPE_i8) || defined(HAUL_KERNEL_DTYPE_i16)
typedef I32 PRODUCT;
FUNC void gemm_store(GLOBAL PRODUCT *c, ACC sum) { c[0] = (I32)sum; }
#else
typedef T PRODUCT;
FUNC void gemm_store(GLOBAL PRODUCT *c, ACC sum) { STORE(c, 0, sum); }
#endif
/* An element of C a work item: for integers and for small products. */
KERNEL4(gemm_plain, gemm_params, PRODUCT, out, const T, in0, const T, in1, const T, bias)
{
    FOR_ITEMS(i) {
        const I64 row = QUOTIENT(i, p.n), j = i - row * p.n, z = QUOTIENT(row, p.m), r = row - z * p.m;
        GLOBAL const T *a = in0 + p.a_offset + z * p.a_batch + r * p.a_row;
        GLOBAL const T *b = in1 + p.b_offset + z * p.b_batch + j * p.b_col;
        GLOBAL PRODUCT *c = out + p.c_offset + z * p.c_batch + r * p.c_row + j;
        ACC sum = p.has_bias ? (ACC)LOAD(bias, p.bias_offset + j) : 0;
        for (I64 k = 0; k < p.k; k++) sum += (ACC)LOAD(a, k * p.a_col) * (ACC)LOAD(b, k * p.b_row);
        if (p.accumulate) sum += (ACC)LOAD(c, 0);
        gemm_store(c, sum);
    }
}
#endif

#if IS_FLOAT
/* B to panels of TILE_WIDTH columns of ACC, zeros behind the last; a work item is a row of a panel. */
KERNEL2(gemm_pack, gemm_params, ACC, packed, const T, in1)
{
    FOR_ITEMS(i) {
        const I64 panel = QUOTIENT(i, p.k), k = i - panel * p.k, z = QUOTIENT(panel, p.panels), j0 = (panel - z * p.panels) * TILE_WIDTH;
        const I64 columns = M_MIN_OF(p.n - j0, (I64)TILE_WIDTH), step = p.b_col;
        GLOBAL const T *b = in1 + p.b_offset + z * p.b_batch + k * p.b_row + j0 * step;
        GLOBAL ACC *to = packed + i * TILE_WIDTH;
        for (I64 j = 0; j < columns; j++) to[j] = LOAD(b, j * step);
        for (I64 j = columns; j < TILE_WIDTH; j++) to[j] = 0;
    }
}

#ifndef OWN_TILES /* of the backend, which threads share */
TEMPLATE(gemm_store_row, R)
            if (R <= below)
            EXPAND(tile_store_row, R, c + R * p.c_row)
END_TEMPLATE
/* Tiles of few columns add to their first vector, or to two. */
TEMPLATE(gemm_add_one, R)
                t##R##0 = VFMA(VSPLAT(LOAD(a, row##R)), x0, t##R##0);
END_TEMPLATE
TEMPLATE(gemm_add_two, R)
                {
                    const V factor = VSPLAT(LOAD(a, row##R));
                    t##R##0 = VFMA(factor, x0, t##R##0);
                    t##R##1 = VFMA(factor, x1, t##R##1);
                }
END_TEMPLATE
/* A tile of C a work item, those below one another first: they share a panel of B. */
KERNEL4(gemm_tile, gemm_params, T, out, const T, in0, const ACC, packed, const T, bias)
{
    const I64 strips = (p.m + TILE_ROWS - 1) / TILE_ROWS;
    FOR_ITEMS(i) {
        const I64 panel = QUOTIENT(i, strips), i0 = (i - panel * strips) * TILE_ROWS, z = QUOTIENT(panel, p.panels);
        const I64 j0 = (panel - z * p.panels) * TILE_WIDTH, columns = M_MIN_OF(p.n - j0, (I64)TILE_WIDTH);
        GLOBAL const T *a = in0 + p.a_offset + z * p.a_batch + i0 * p.a_row;
        GLOBAL const ACC *b = packed + (p.b_batch ? panel : panel - z * p.panels) * p.k * TILE_WIDTH;
        /* Rows past the last one compute the last one again. */
        const I64 below = p.m - 1 - i0, row0 = 0;
        const I64 row1 = M_MIN_OF(below, 1) * p.a_row, row2 = M_MIN_OF(below, 2) * p.a_row;
        const I64 row3 = M_MIN_OF(below, 3) * p.a_row, row4 = M_MIN_OF(below, 4) * p.a_row;
        const I64 row5 = M_MIN_OF(below, 5) * p.a_row;
        EXPAND(tile_zero)
        if (columns <= LANES) {
            for (I64 k = 0; k < p.k; k++) {
                const V x0 = VLOAD(b);
                EXPAND(gemm_add_one, 0)
                EXPAND(gemm_add_one, 1)
                EXPAND(gemm_add_one, 2)
                EXPAND(gemm_add_one, 3)
                EXPAND(gemm_add_one, 4)
                EXPAND(gemm_add_one, 5)
                a += p.a_col;
                b += TILE_WIDTH;
            }
        } else if (columns <= 2 * LANES) {
            for (I64 k = 0; k < p.k; k++) {
                const V x0 = VLOAD(b), x1 = VLOAD(b + LANES);
                EXPAND(gemm_add_two, 0)
                EXPAND(gemm_add_two, 1)
                EXPAND(gemm_add_two, 2)
                EXPAND(gemm_add_two, 3)
                EXPAND(gemm_add_two, 4)
                EXPAND(gemm_add_two, 5)
                a += p.a_col;
                b += TILE_WIDTH;
            }
        } else for (I64 k = 0; k < p.k; k++) {
            EXPAND(tile_load, b)
            EXPAND(tile_add, LOAD(a, row0), LOAD(a, row1), LOAD(a, row2), LOAD(a, row3), LOAD(a, row4), LOAD(a, row5))
            a += p.a_col;
            b += TILE_WIDTH;
        }
        GLOBAL T *c = out + p.c_offset + z * p.c_batch + i0 * p.c_row + j0;
#if !IS_HALF
        if (columns == TILE_WIDTH && !p.has_bias && !p.accumulate) {
            EXPAND(gemm_store_row, 0)
            EXPAND(gemm_store_row, 1)
            EXPAND(gemm_store_row, 2)
            EXPAND(gemm_store_row, 3)
            EXPAND(gemm_store_row, 4)
            EXPAND(gemm_store_row, 5)
            continue;
        }
#endif
        ACC rows[TILE_ROWS][TILE_WIDTH];
        EXPAND(tile_store, rows)
        for (int r = 0; r < TILE_ROWS && r <= below; r++) {
            GLOBAL T *to = c + r * p.c_row;
            for (I64 j = 0; j < columns; j++) {
                const A start = p.has_bias ? LOAD(bias, p.bias_offset + j0 + j) : LIT(0.0);
                STORE(to, j, rows[r][j] + start + (p.accumulate ? LOAD(to, j) : LIT(0.0)));
            }
        }
    }
}
#endif
#endif
#endif
/* kernel text ends */
// clang-format on

/* Multiplications that make a work item's share worthwhile, and products too small to pack B for. */
#define GRAIN 65536
#define SMALL 8192

int64_t haul__kernel_lanes(const haul_device *device, haul_dtype dtype)
{
    int64_t bytes = device->strided ? VECTOR_BYTES_GPU : VECTOR_BYTES_CPU;
    return bytes / (int64_t)haul__dtype_size(haul__sum_dtype(dtype));
}

static gemm_params params_of(const haul__gemm *g)
{
    HAUL__ASSERT(!g->inner && !g->relu); /* kernels take neither */
    HAUL__ASSERT(g->m > 0 && g->n > 0);
    return (gemm_params){
        .batch = g->batch,
        .m = g->m,
        .n = g->n,
        .k = g->k,
        .a_offset = g->a_offset,
        .b_offset = g->b_offset,
        .c_offset = g->c_offset,
        .bias_offset = g->bias_offset,
        .a_row = g->a_row,
        .a_col = g->a_col,
        .a_batch = g->a_batch,
        .b_row = g->b_row,
        .b_col = g->b_col,
        .b_batch = g->b_batch,
        .c_row = g->c_row,
        .c_batch = g->c_batch,
        .accumulate = g->accumulate,
        .has_bias = g->bias != NULL,
    };
}

static int64_t grain_for(int64_t work)
{
    return work >= GRAIN ? 1 : GRAIN / (work > 0 ? work : 1);
}

/* ---- one product ---- */

/* The operands. The problem's relu is that of the form being tried. */
typedef struct product {
    const haul__call *call;
    haul__gemm       *problem;
    bool              relu;
    haul_tensor      *c, *in[3]; /* inputs: A, B and the bias, or C in its place */
} product;

/* The second form is for implementations without relu. It is stored only if it changes: the problem is copied next, and
 * the copy would wait for the store. */
static const void *form(void *task, int i)
{
    product *p = task;
    HAUL__ASSERT(i >= 0 && p->c);
    if (i > p->relu)
        return NULL;
    bool relu = p->relu && i == 0;
    if (p->problem->relu != relu)
        p->problem->relu = relu;
    return p->problem;
}

static void describe(const void *task, char *out, size_t size)
{
    const product    *p = task;
    const haul__gemm *g = p->problem;
    char              batch[32] = "";
    if (g->batch != 1)
        snprintf(batch, sizeof batch, "%lld of ", (long long)g->batch);
    snprintf(out, size, "%s %s[%lld,%lld] x [%lld,%lld]%s%s", haul_dtype_name(g->dtype), batch, (long long)g->m,
             (long long)g->k, (long long)g->k, (long long)g->n, g->bias ? " + bias" : "", p->relu ? ", relu" : "");
}

/* ---- implementations of the backend ---- */

static haul_status multiply(haul__stream *s, const haul__command *command)
{
    haul__gemm problem = *(const haul__gemm *)command->params;
    HAUL__ASSERT(command->buffer_count - command->write_count == (problem.bias ? 3 : 2));
    const haul__storage *scratch = haul__library_scratch(command);
    problem.c = haul__library_output(command, 0);
    problem.a = haul__library_input(command, 0);
    problem.b = haul__library_input(command, 1);
    problem.bias = haul__library_input(command, 2);
    problem.scratch = scratch ? &scratch->buffer : NULL;
    problem.scratch_bytes = scratch ? scratch->bytes : 0;
    return command->by->run(s, &problem);
}

static haul_status run(void *task, const haul__implementation *by, int64_t *refused)
{
    product *p = task;
    return haul__call_library(
        p->call, &(haul__library){.by = by,
                                  .run = multiply,
                                  .params = p->problem,
                                  .params_size = sizeof *p->problem,
                                  HAUL__OUT(p->c),
                                  .ins = p->in,
                                  .in_count = p->problem->bias ? 3 : 2,
                                  .scratch_bytes = by->scratch ? by->scratch(p->call->device, p->problem) : 0,
                                  .refused = refused});
}

/* ---- kernels ---- */

static const char *refuses_form(const haul__gemm *g)
{
    return g->relu ? "it does no relu" : g->inner ? "it takes matrices that are one stride apart" : NULL;
}

static const char *plain_refuses(haul_device *device, const void *problem)
{
    (void)device;
    return problem ? refuses_form(problem) : NULL;
}

static const char *refuses_small(const haul__gemm *g)
{
    if (!haul_dtype_is_float(g->dtype))
        return "it takes floats only";
    if ((double)g->batch * (double)g->m * (double)g->n * (double)g->k < SMALL)
        return "the product is too small for it to pay";
    return refuses_form(g);
}

static const char *tiles_refuse(haul_device *device, const void *problem)
{
    if (haul__device_shares_tiles(device))
        return "the tiles of this device are made by teams";
    return problem ? refuses_small(problem) : NULL;
}

static const char *teams_refuse(haul_device *device, const void *problem)
{
    if (!haul__device_shares_tiles(device))
        return "threads of this device share no memory";
    return problem ? refuses_small(problem) : NULL;
}

static haul_status compute_plain(void *task)
{
    product    *x = task;
    gemm_params p = params_of(x->problem);
    HAUL__ASSERT(!p.has_bias || x->in[2] != x->c);
    p.items = p.batch * p.m * p.n;
    return haul__launch_kernel(x->call, HAUL__K_gemm_plain, x->problem->dtype, HAUL__OUT(x->c), .ins = x->in,
                               .in_count = 3, HAUL__PARAMS(p), .grain = grain_for(p.k));
}

/* A tile reads a few rows of A at a time. If A is dense along its columns, each element that it reads is on another
 * line, and on processors those of a long product stay in no near cache. */
static bool rows_are_apart(const product *x)
{
    enum { LONG = 768, PANELS = 4 };
    const haul__gemm *g = x->problem;
    int64_t           width = TILE_VECTORS * haul__kernel_lanes(x->call->device, g->dtype);
    return !x->call->device->strided && g->a_row == 1 && g->a_col > TILE_ROWS && g->k >= LONG && g->n > PANELS * width;
}

/* A, or a copy of it with dense rows, which p then describes. */
static haul_tensor *with_dense_rows(const product *x, gemm_params *p)
{
    if (!rows_are_apart(x))
        return x->in[0];
    HAUL__ASSERT(x->in[0] != x->c);
    haul_shape    shape = HAUL_SHAPE(p->a_batch ? p->batch : 1, p->m, p->k);
    const int64_t strides[] = {p->a_batch, p->a_row, p->a_col}, dense[] = {p->m * p->k, p->k, 1};
    haul_tensor  *a = haul__view_as(x->call, x->in[0], &shape, strides, p->a_offset);
    p->a_offset = 0;
    p->a_batch = p->a_batch ? dense[0] : 0;
    p->a_row = dense[1];
    p->a_col = dense[2];
    return a ? haul__as_strided(x->call, a, dense) : NULL;
}

static haul_status compute_tiles(void *task)
{
    product          *x = task;
    const haul__gemm *g = x->problem;
    int64_t           width = TILE_VECTORS * haul__kernel_lanes(x->call->device, g->dtype);
    gemm_params       p = params_of(g);
    haul_tensor      *a = with_dense_rows(x, &p);
    if (!a)
        return haul_error_status();
    HAUL__ASSERT(width > 0);
    p.panels = (g->n - 1) / width + 1;
    HAUL__ASSERT((p.panels - 1) * width < g->n && g->n <= p.panels * width);
    haul_shape   shape = HAUL_SHAPE(g->b_batch ? g->batch : 1, p.panels, g->k, width);
    haul_tensor *packed = haul__temporary(x->call, haul__sum_dtype(g->dtype), &shape);
    if (!packed)
        return haul_error_status();
    p.items = shape.dims[0] * p.panels * g->k;
    haul_status status = haul__launch_kernel(x->call, HAUL__K_gemm_pack, g->dtype, HAUL__OUT(packed), .ins = &x->in[1],
                                             .in_count = 1, HAUL__PARAMS(p), .grain = grain_for(width * 16));
    if (status)
        return status;
    haul_tensor *tile_in[] = {a, packed, x->in[2]};
    p.items = g->batch * p.panels * ((g->m - 1) / TILE_ROWS + 1);
    return haul__launch_kernel(x->call, HAUL__K_gemm_tile, g->dtype, HAUL__OUT(x->c), .ins = tile_in, .in_count = 3,
                               HAUL__PARAMS(p), .grain = grain_for(TILE_ROWS * g->k * 4));
}

/* With shared memory, A and B are read in place. */
static haul_status compute_teams(void *task)
{
    product          *x = task;
    const haul__gemm *g = x->problem;
    gemm_params       p = params_of(g);
    p.panels = (g->n - 1) / GEMM_SIDE + 1;
    HAUL__ASSERT((p.panels - 1) * GEMM_SIDE < g->n && g->n <= p.panels * GEMM_SIDE);
    p.items = g->batch * p.panels * ((g->m - 1) / GEMM_SIDE + 1) * GEMM_TEAM;
    return haul__launch_kernel(x->call, HAUL__K_gemm_tile, g->dtype, HAUL__OUT(x->c), .ins = x->in, .in_count = 3,
                               HAUL__PARAMS(p), .grain = GEMM_TEAM);
}

static const haul__implementation kernels[] = {
    {HAUL__PROBLEM_GEMM, HAUL__BY_kernel_teams, .refuses = teams_refuse, .compute = compute_teams},
    {HAUL__PROBLEM_GEMM, HAUL__BY_kernel_tiles, .refuses = tiles_refuse, .compute = compute_tiles},
    {HAUL__PROBLEM_GEMM, HAUL__BY_kernel, .refuses = plain_refuses, .compute = compute_plain},
    {.refuses = NULL},
};

const haul__implementations haul__gemm_implementations = {
    .of = HAUL__PROBLEM_GEMM, .portable = kernels, .form = form, .run = run, .describe = describe};

/* ---- all of it ---- */

/* Matrices in memory: `outer` and `batch` elements apart, with `rows` rows, `row` apart, and `columns` columns,
 * `column` apart. */
typedef struct extent {
    int64_t outer, batch, rows, row, columns, column;
} extent;

/* True if the memory of t has the elements of the product's matrices from an offset on. */
static bool has_matrices(const haul_tensor *t, const haul__gemm *g, int64_t offset, extent e)
{
    const int64_t inner = g->inner ? g->inner : g->batch,
                  room = (int64_t)(t->storage->bytes / haul__dtype_size(t->dtype));
    if (!g->batch || !e.rows || !e.columns)
        return true;
    return offset >= 0 && offset + (g->batch / inner - 1) * e.outer + (inner - 1) * e.batch + (e.rows - 1) * e.row +
                                  (e.columns - 1) * e.column <
                              room;
}

haul_status haul__gemm_run(const haul__call *call, haul__gemm *g, haul_tensor *c, haul_tensor *a, haul_tensor *b,
                           haul_tensor *bias)
{
    product p = {.call = call, .problem = g, .relu = g->relu, .c = c};
    g->tf32 = c->dtype == HAUL_F32 && haul_matmul_precision() == HAUL_PRECISION_HIGH;
    g->dtype = a->dtype; /* also C's, except that small integers give i32 */
    g->a = &a->storage->buffer;
    g->b = &b->storage->buffer;
    g->c = &c->storage->buffer;
    g->bias = bias ? &bias->storage->buffer : NULL;
    g->a_offset += a->offset;
    g->b_offset += b->offset;
    g->c_offset += c->offset;
    g->bias_offset += bias ? bias->offset : 0;
    /* Empty A and B may have no buffers: C's takes their place and is not read. */
    p.in[0] = g->k ? a : c;
    p.in[1] = g->k ? b : c;
    p.in[2] = bias ? bias : c;
    HAUL__ASSERT(g->batch >= 0 && g->m >= 0 && g->n >= 0 && g->k >= 0 && (!g->inner || g->batch % g->inner == 0));
    HAUL__ASSERT(has_matrices(c, g, g->c_offset, (extent){g->c_outer, g->c_batch, g->m, g->c_row, g->n, 1}));
    HAUL__ASSERT(!g->k ||
                 has_matrices(a, g, g->a_offset, (extent){g->a_outer, g->a_batch, g->m, g->a_row, g->k, g->a_col}));
    HAUL__ASSERT(!g->k ||
                 has_matrices(b, g, g->b_offset, (extent){g->b_outer, g->b_batch, g->k, g->b_row, g->n, g->b_col}));
    HAUL__ASSERT(!bias || bias->count >= g->n);
    haul_status status = haul__implement(call, &p);
    return !status && p.relu && !g->relu ? haul_relu_into(c, c) : status;
}
