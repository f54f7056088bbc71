/* How elements are reduced over any axes: the kernels, and how they are launched. The operations are in reductions.c,
 * norm.c, variance.c and logsumexp.c.
 *
 * A result's element is computed by one work item, in an order that shape and strides fix: no atomics, no dependence on
 * the number of threads or on the device. Where runs of reduced elements are closest together in memory, a work item
 * adds one output's rows in SUM_LANES lanes (the kernels sum, max and min); where runs of kept elements do, it walks
 * the reduced axes with a vector of neighbouring outputs (the ..._columns kernels). Long reductions to few outputs take
 * several passes: the first gives `chunks` partial results for each output, the next reduces those. The last pass
 * divides sums, takes roots and so on (haul__finish). */
#include "ops/reduce/reduce.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/numbers.h"
#include "kernels/kernels.h"
#include "kernels/types.h"

// clang-format off
/* kernel text begins */
#include "ops/reduce/range_kernel.h"
#include "ops/reduce/steps_kernel.h"

typedef struct reduce_params {
    I64 items; /* outputs times chunks */
    I64 out_offset, x_offset;
    I64 kept_dims[8], kept_strides[8];
    I64 reduced_dims[8], reduced_strides[8];
    I64 outputs, chunks;
    I64 run, stride;   /* the innermost run: reduced by rows, kept by columns */
    I64 piece, pieces; /* rows: each run is cut into pieces */
    I64 units, chunk;  /* what an output reduces: pieces (rows) or elements (columns); `chunk` of them by a work item */
    U64 divisor;
    I64 centre;        /* offset of the numbers, one for each output, from which elements are measured */
    I64 parts, out_parts; /* how far behind a partial sum of x, or of out, is the one of mended terms; 0: there is none */
    I32 kept, reduced; /* dims other than the run */
    I32 finish;        /* HAUL__FINISH_NONE ... */
    I32 narrow; /* a sum of f32 is stored as: itself, f16 (1), bf16 (2) */
    I32 mends, reserved; /* mends: HAUL__MENDS_NOTHING ... Several passes leave two partial sums each, a plain one and,
                          * where that left the range, one of mended terms. */
} reduce_params;

enum {
    REDUCE_WIDTH = 256, /* neighbouring outputs that are taken side by side */
    REDUCE_SIDE = 16,   /* the same, of rows of few elements */
    REDUCE_BLOCK = 64   /* so many steps are added on their own: rounding errors grow with their number */
};

#ifdef HAUL_KERNEL
/* The offset of element i of these dims. */
FUNC I64 reduce_at(const I64 *dims, const I64 *strides, I32 count, I64 i)
{
    I64 at = 0;
    for (I32 d = count - 1; d > 0; d--) {
        const I64 next = QUOTIENT(i, dims[d]);
        at += (i - next * dims[d]) * strides[d];
        i = next;
    }
    return count ? at + i * strides[0] : at;
}

#if IS_FLOAT
/* An infinite centre measures nothing: exp(x - centre) would be NaN. */
FUNC ACC reduce_finite(ACC c) { return c - c == 0 ? c : (ACC)0; }
FUNC ACC reduce_square(ACC d) { return d * d; }
FUNC ACC reduce_finish(ACC s, ACC divisor, ACC centre, I32 finish)
{
    if (finish == HAUL__FINISH_LOG) return M_LOG(s) + reduce_finite(centre);
    return finish == HAUL__FINISH_ROOT ? M_SQRT(s / divisor) : s / divisor;
}
#endif
/* A sum is stored in the dtype of sums, or in that of f16 or bf16. */
#if A_IS_F32
FUNC void reduce_store(GLOBAL F32 *out, I64 i, F32 s, I32 narrow)
{
    if (narrow == 0) out[i] = s;
    else ((GLOBAL U16 *)out)[i] = narrow == 1 ? F32_TO_F16(s) : F32_TO_BF16(s);
}
/* It is of f32 or bf16: no sum of f16 leaves the range of f32, so none is looked at again. */
FUNC F32 reduce_stored(GLOBAL const F32 *out, I64 i, I32 narrow)
{
    return narrow ? BF16_TO_F32(((GLOBAL const U16 *)out)[i]) : out[i];
}
#else
FUNC void reduce_store(GLOBAL ACC *out, I64 i, ACC s, I32 narrow) { out[i] = s; (void)narrow; }
FUNC ACC reduce_stored(GLOBAL const ACC *out, I64 i, I32 narrow) { (void)narrow; return out[i]; }
#endif
FUNC void reduce_put_sum(GLOBAL ACC *out, I64 i, ACC s, GLOBAL const ACC *c, U64 divisor, I32 finish, I32 narrow)
{
#if IS_FLOAT
    if (finish != HAUL__FINISH_NONE) s = reduce_finish(s, SCALAR(divisor), finish == HAUL__FINISH_LOG ? *c : (ACC)0, finish);
#endif
    (void)c, (void)divisor, (void)finish; /* sums of integers have no last step */
    reduce_store(out, i, s, narrow);
}
/* How kernels store output k: a sum, with the last step, or an element. */
TEMPLATE(REDUCE_PUT_SUM, K, S)
            reduce_put_sum(out, p.out_offset + (K), S, centre + p.centre + (K), p.divisor, p.finish, p.narrow);
END_TEMPLATE
TEMPLATE(REDUCE_PUT, K, E)
            STORE(out, p.out_offset + (K), E);
END_TEMPLATE

#include "ops/reduce/reduce_mend_kernel.h"

/* Puts a piece up to j = `whole`, which is a multiple of SUM_LANES, to the lanes of t. ELEMENT, an expression of k, is
 * element k. */
TEMPLATE(reduce_whole, NAME, V, ELEMENT)
                for (; j + 4 * SUM_LANES <= whole; j += 4 * SUM_LANES) {
                    EXPAND(put_fours, V, NAME##_step, t, j, NAME##_term(ELEMENT, f, c))
                }
                for (; j < whole; j += SUM_LANES)
                    EACH_LANE(l, SUM_LANES) { const I64 k = j + l; OF_LANE(t, l) = NAME##_step(OF_LANE(t, l), NAME##_term(ELEMENT, f, c)); }
END_TEMPLATE

/* A reduction. STEP puts two values a and b of type V together. TERM is what an element e gives; f is the first element
 * of its output, and c points to the output's centre. START is the value to begin with: a maximum starts from f, which
 * changes nothing when it is met again. PUT stores an output. MENDS is 1 for sums that are mended.
 *
 * The kernel NAME takes rows, in lanes. A row of one piece without gaps takes fewer steps for the same result. */
TEMPLATE(reduce, NAME, R, V, STEP, TERM, START, PUT, MENDS)
FUNC V NAME##_step(V a, V b) { return STEP; }
FUNC V NAME##_term(A e, A f, GLOBAL const ACC *c) { (void)f, (void)c; return (V)(TERM); }
FUNC V NAME##_start(A f) { (void)f; return START; }
KERNEL3(NAME, reduce_params, R, out, const T, x, const ACC, centre)
{
    const I64 stride = p.stride;
    FOR_ROWS(i) {
        const I64 o = p.chunks == 1 ? i : QUOTIENT(i, p.chunks), first = (i - o * p.chunks) * p.chunk;
        const I64 end = M_MIN_OF(first + p.chunk, p.units);
        GLOBAL const T *base = x + p.x_offset + reduce_at(p.kept_dims, p.kept_strides, p.kept, o);
        GLOBAL const ACC *c = centre + p.centre + o;
        const A f = p.units ? LOAD(base, 0) : (A)0; /* a sum may have no elements */
        if (!LANES_ARE_THREADS && p.units == 1 && stride == 1 && p.run < SHORT_ROW) {
            const I64 whole = p.run - p.run % SUM_LANES;
            LANE_VALUES(V, r);
            EACH_LANE(l, SUM_LANES) OF_LANE(r, l) = NAME##_start(f);
            for (I64 j = 0; j < whole; j += SUM_LANES)
                EACH_LANE(l, SUM_LANES) OF_LANE(r, l) = NAME##_step(OF_LANE(r, l), NAME##_term(LOAD(base, j + l), f, c));
            EACH_REST(l, p.run - whole) OF_LANE(r, l) = IN_REST(l, p.run - whole, NAME##_step(OF_LANE(r, l), NAME##_term(LOAD(base, whole + l), f, c)), OF_LANE(r, l));
            LANE_TREE(V, r, NAME##_step)
            const V row = OF_FIRST_LANE(r);
            if (IS_FIRST_LANE) {
                EXPAND(PUT, i, row)
            }
#if MENDS
            if (reduce_is_lost(row, p.mends)) reduce_mend_row(out, x, centre, p, i, row);
#endif
            continue;
        }
        I64 steps = 0;
        LANE_VALUES(V, s);
        LANE_VALUES(V, t);
        EACH_LANE(l, SUM_LANES) OF_LANE(s, l) = NAME##_start(f);
        EACH_LANE(l, SUM_LANES) OF_LANE(t, l) = NAME##_start(f);
        for (I64 u = first; u < end; u++) {
            const I64 r = p.pieces == 1 ? u : QUOTIENT(u, p.pieces), skip = (u - r * p.pieces) * p.piece;
            const I64 n = M_MIN_OF(p.piece, p.run - skip), whole = n - n % SUM_LANES;
            GLOBAL const T *v =
                base + reduce_at(p.reduced_dims, p.reduced_strides, p.reduced, r) + skip * stride;
            I64 j = 0;
            if (stride == 1) {
                LANE_UNROLL
                EXPAND(reduce_whole, NAME, V, LOAD(v, k))
            } else {
                EXPAND(reduce_whole, NAME, V, LOAD(v, k * stride))
            }
            EACH_REST(l, n - whole) OF_LANE(t, l) = IN_REST(l, n - whole, NAME##_step(OF_LANE(t, l), NAME##_term(LOAD(v, (whole + l) * stride), f, c)), OF_LANE(t, l));
            steps += whole / SUM_LANES + 1;
            if (steps >= REDUCE_BLOCK || u + 1 == end) {
                EACH_LANE(l, SUM_LANES) OF_LANE(s, l) = NAME##_step(OF_LANE(s, l), OF_LANE(t, l));
                EACH_LANE(l, SUM_LANES) OF_LANE(t, l) = NAME##_start(f);
                steps = 0;
            }
        }
        LANE_TREE(V, s, NAME##_step)
        const V all = OF_FIRST_LANE(s);
        if (IS_FIRST_LANE) {
            EXPAND(PUT, i, all)
        }
#if MENDS
        if (reduce_is_lost(all, p.mends)) reduce_mend_row(out, x, centre, p, i, all);
#endif
    }
}

/* Rows of few elements, in order. Rows at equal distances are taken side by side. */
KERNEL3(NAME##_few, reduce_params, R, out, const T, x, const ACC, centre)
{
    const I64 stride = p.stride;
    I64 i = ITEMS_BEGIN;
    if (CHUNKED && p.kept == 1) {
        const I64 step = p.kept_strides[0];
        for (; i + REDUCE_SIDE <= ITEMS_END; i += REDUCE_SIDE) {
            GLOBAL const T *base = x + p.x_offset + i * step;
            GLOBAL const ACC *c = centre + p.centre + i;
            V s[REDUCE_SIDE];
            for (int l = 0; l < REDUCE_SIDE; l++) s[l] = NAME##_start(LOAD(base, l * step));
            for (I64 j = 0; j < p.run; j++)
                for (int l = 0; l < REDUCE_SIDE; l++)
                    s[l] = NAME##_step(s[l], NAME##_term(LOAD(base, l * step + j * stride), LOAD(base, l * step), c + l));
            for (int l = 0; l < REDUCE_SIDE; l++) {
                EXPAND(PUT, i + l, s[l])
            }
        }
#if MENDS
        if (p.mends) reduce_mend_range(out, x, centre, p, ITEMS_BEGIN, i, REDUCE_FORM_FEW);
#endif
    }
    for (; i < ITEMS_END; i += ITEMS_STEP(1)) {
        GLOBAL const T *base = x + p.x_offset + reduce_at(p.kept_dims, p.kept_strides, p.kept, i);
        GLOBAL const ACC *c = centre + p.centre + i;
        const A f = LOAD(base, 0);
        V s = NAME##_start(f);
        for (I64 j = 0; j < p.run; j++) s = NAME##_step(s, NAME##_term(LOAD(base, j * stride), f, c));
        EXPAND(PUT, i, s)
#if MENDS
        if (reduce_is_lost(s, p.mends)) reduce_mend_column(out, x, centre, p, i, s, REDUCE_FORM_FEW);
#endif
    }
}

/* Columns: neighbouring outputs side by side, each in order. */
KERNEL3(NAME##_columns, reduce_params, R, out, const T, x, const ACC, centre)
{
    const I64 stride = p.stride;
    for (I64 i = ITEMS_BEGIN; i < ITEMS_END;) {
        const I64 chunk = QUOTIENT(i, p.outputs), o = i - chunk * p.outputs, k = QUOTIENT(o, p.run), column = o - k * p.run;
        const int width = NEIGHBOURS(p.run - column, ITEMS_END - i, REDUCE_WIDTH);
        const I64 first = chunk * p.chunk, end = M_MIN_OF(first + p.chunk, p.units);
        GLOBAL const T *base =
            x + p.x_offset + reduce_at(p.kept_dims, p.kept_strides, p.kept, k) + column * stride;
        GLOBAL const ACC *c = centre + p.centre + o;
        V s[CHUNKED ? REDUCE_WIDTH : 1], t[CHUNKED ? REDUCE_WIDTH : 1];
        for (int l = 0; l < width; l++) s[l] = NAME##_start(p.units ? LOAD(base, l * stride) : (A)0);
        for (I64 u = first; u < end;) {
            const I64 stop = M_MIN_OF(u + REDUCE_BLOCK, end);
            for (int l = 0; l < width; l++) t[l] = NAME##_start(LOAD(base, l * stride));
            if (!CHUNKED && p.reduced == 1)
                LANE_UNROLL for (; u < stop; u++) t[0] = NAME##_step(t[0], NAME##_term(LOAD(base, u * p.reduced_strides[0]), LOAD(base, 0), c));
            for (; u < stop; u++) {
                GLOBAL const T *v = base + reduce_at(p.reduced_dims, p.reduced_strides, p.reduced, u);
                if (stride == 1)
                    VECTOR_LOOP for (int l = 0; l < width; l++) t[l] = NAME##_step(t[l], NAME##_term(LOAD(v, l), LOAD(base, l), c + l));
                else
                    for (int l = 0; l < width; l++) t[l] = NAME##_step(t[l], NAME##_term(LOAD(v, l * stride), LOAD(base, l * stride), c + l));
            }
            for (int l = 0; l < width; l++) s[l] = NAME##_step(s[l], t[l]);
        }
        for (int l = 0; l < width; l++) {
            EXPAND(PUT, i + l, s[l])
        }
#if MENDS
        if (CHUNKED && p.mends) reduce_mend_range(out, x, centre, p, i, i + width, REDUCE_FORM_COLUMNS);
        if (!CHUNKED && reduce_is_lost(s[0], p.mends)) reduce_mend_column(out, x, centre, p, i, s[0], REDUCE_FORM_COLUMNS);
#endif
        i += ITEMS_STEP(width);
    }
}
END_TEMPLATE

EXPAND(reduce, sum, ACC, ACC, a + b, e, 0, REDUCE_PUT_SUM, IS_FLOAT)
EXPAND(reduce, max, T, A, M_MAX(a, b), e, f, REDUCE_PUT, 0)
EXPAND(reduce, min, T, A, M_MIN(a, b), e, f, REDUCE_PUT, 0)
EXPAND(reduce, prod, ACC, ACC, a * b, e, 1, REDUCE_PUT_SUM, 0)
#if defined(HAUL_KERNEL_DTYPE_bool)
EXPAND(reduce, any, U8, I32, a | b, e, 0, REDUCE_PUT, 0)
EXPAND(reduce, all, U8, I32, a & b, e, 1, REDUCE_PUT, 0)
#endif
#if IS_FLOAT
EXPAND(reduce, sum_abs, ACC, ACC, a + b, M_ABS(e), 0, REDUCE_PUT_SUM, 0)
EXPAND(reduce, sum_squares, ACC, ACC, a + b, e * e, 0, REDUCE_PUT_SUM, 1)
EXPAND(reduce, sum_offsets, ACC, ACC, a + b, e - f, 0, REDUCE_PUT_SUM, 1)
/* The centre is halved, so it is finite. */
EXPAND(reduce, sum_deviations, ACC, ACC, a + b, reduce_square(e - f - 2 * *c), 0, REDUCE_PUT_SUM, 1)
EXPAND(reduce, sum_exponentials, ACC, ACC, a + b, M_EXP(e - reduce_finite(*c)), 0, REDUCE_PUT_SUM, 0)
EXPAND(reduce, max_abs, T, A, M_MAX(a, b), M_ABS(e), M_ABS(f), REDUCE_PUT, 0)
#endif
#endif
/* kernel text ends */
// clang-format on

const haul__reduction haul__reduce_sum = {HAUL__K_sum, .adds = true, .mends = HAUL__MENDS_SUM};
const haul__reduction haul__reduce_max = {.kernel = HAUL__K_max};
const haul__reduction haul__reduce_min = {.kernel = HAUL__K_min};
const haul__reduction haul__reduce_prod = {HAUL__K_prod, .adds = true};
const haul__reduction haul__reduce_any = {.kernel = HAUL__K_any};
const haul__reduction haul__reduce_all = {.kernel = HAUL__K_all};
const haul__reduction haul__reduce_abs = {HAUL__K_sum_abs, .adds = true, .then = &haul__reduce_sum};
const haul__reduction haul__reduce_squares = {HAUL__K_sum_squares, true, HAUL__MENDS_SQUARES, &haul__reduce_sum};
const haul__reduction haul__reduce_offsets = {HAUL__K_sum_offsets, true, HAUL__MENDS_OFFSETS, &haul__reduce_sum};
const haul__reduction haul__reduce_deviations = {HAUL__K_sum_deviations, true, HAUL__MENDS_DEVIATIONS,
                                                 &haul__reduce_sum};
const haul__reduction haul__reduce_exponentials = {HAUL__K_sum_exponentials, .adds = true, .then = &haul__reduce_sum};
const haul__reduction haul__reduce_max_abs = {.kernel = HAUL__K_max_abs};

/* Work an item should have, so that neither starting it nor the partial result it leaves counts; and from how many
 * independent items on a reduction is parallel enough as it is. The order of additions follows from these, and shall be
 * the same everywhere, so they suit large GPUs, where a row keeps a warp busy and a column a thread, as well. */
enum {
    FEW = 16, /* elements of a row that are added in order */
    ROW_WORK = 4096,
    MOST_ROW_WORK = 16384,
    ROW_PIECE = 2048,
    ROW_ITEMS = 4096,
    COLUMN_WORK = 32768,
    COLUMN_ITEMS = 65536,
    GRAIN_WORK = 32768
};

/* Elements of a row that an item takes where all items together have `elements`. */
static int64_t row_work(int64_t elements)
{
    int64_t work = elements / ROW_ITEMS;
    return work < ROW_WORK ? ROW_WORK : work > MOST_ROW_WORK ? MOST_ROW_WORK : work;
}

typedef struct axis_run {
    int64_t dim, stride;
} axis_run;

/* The dims of x that are (not) reduced, outermost first, neighbours that step alike merged. Reduced ones are sorted by
 * stride first, for the order in which they are walked is free. */
static int collapse(const haul_tensor *x, const bool *reduced, bool which, axis_run *runs)
{
    int count = 0;
    for (int d = 0; d < x->shape.ndim; d++) {
        if (reduced[d] != which || x->shape.dims[d] == 1)
            continue;
        int at = count++;
        for (; which && at > 0 && runs[at - 1].stride < x->strides[d]; at--)
            runs[at] = runs[at - 1];
        runs[at] = (axis_run){x->shape.dims[d], x->strides[d]};
    }
    int merged = 0;
    for (int k = 0; k < count; k++) {
        if (merged && runs[merged - 1].stride == runs[k].stride * runs[k].dim)
            runs[merged - 1] = (axis_run){runs[merged - 1].dim * runs[k].dim, runs[k].stride};
        else
            runs[merged++] = runs[k];
    }
    HAUL__ASSERT(merged <= count && count <= x->shape.ndim);
    HAUL__ASSERT(merged == 0 || runs[merged - 1].dim != 1);
    return merged;
}

static int64_t runs_count(const axis_run *runs, int count)
{
    int64_t n = 1; /* a product of the dims of a tensor, which was checked when it was made */
    for (int k = 0; k < count; k++)
        n *= runs[k].dim;
    return n;
}

static void store_runs(const axis_run *runs, int count, int64_t *dims, int64_t *strides)
{
    for (int k = 0; k < count; k++) {
        dims[k] = runs[k].dim;
        strides[k] = runs[k].stride;
    }
}

/* Fill p for x; true if work items take rows, false for columns. */
static bool plan(reduce_params *p, const haul_tensor *x, const bool *reduced)
{
    axis_run kept[HAUL_MAX_DIMS], gone[HAUL_MAX_DIMS];
    int      kept_count = collapse(x, reduced, false, kept), gone_count = collapse(x, reduced, true, gone);
    int64_t  outputs = runs_count(kept, kept_count), elements = runs_count(gone, gone_count);
    HAUL__ASSERT(outputs * elements == x->count);
    bool     rows = kept_count == 0 || kept[kept_count - 1].stride != 1;
    axis_run run = {1, 1};
    if (rows && gone_count)
        run = gone[--gone_count];
    else if (!rows)
        run = kept[--kept_count];
    *p = (reduce_params){.x_offset = x->offset, .outputs = outputs, .chunks = 1, .run = run.dim, .stride = run.stride};
    p->kept = kept_count;
    p->reduced = gone_count;
    store_runs(kept, kept_count, p->kept_dims, p->kept_strides);
    store_runs(gone, gone_count, p->reduced_dims, p->reduced_strides);
    p->piece = 1;
    p->pieces = 1;
    p->units = elements;
    if (rows) {
        p->piece = run.dim < ROW_PIECE ? run.dim : ROW_PIECE;
        p->pieces = p->piece ? haul__ceil_div(run.dim, p->piece) : 1;
        p->units = p->piece ? elements / run.dim * p->pieces : 0;
    }
    p->chunk = p->units;
    if (rows && outputs < ROW_ITEMS && elements > 2 * row_work(x->count))
        p->chunk = row_work(x->count) / p->piece;
    if (!rows && outputs < COLUMN_ITEMS && elements > 2 * (COLUMN_WORK / outputs) && elements > 64)
        p->chunk = COLUMN_WORK / outputs > 32 ? COLUMN_WORK / outputs : 32;
    if (p->chunk < p->units)
        p->chunks = haul__ceil_div(p->units, p->chunk);
    p->items = p->outputs * p->chunks;
    HAUL__ASSERT(0 < p->chunks && (p->chunks - 1) * p->chunk <= p->units && p->units <= p->chunks * p->chunk);
    HAUL__ASSERT(!rows || p->pieces * p->piece >= p->run);
    return rows;
}

/* One pass over x into out. */
static haul_status launch(const haul__call *c, const haul__reduction *how, haul_tensor *out, haul_tensor *x,
                          reduce_params *p, bool rows, haul__finish finish)
{
    int64_t      width = rows ? 1 : p->run < REDUCE_WIDTH ? p->run : REDUCE_WIDTH, work = p->chunk * p->piece * width;
    haul_tensor *ins[] = {x, finish.centre ? finish.centre : x};
    HAUL__ASSERT(out->count == p->items);
    p->out_offset = out->offset;
    p->centre = ins[1]->offset;
    p->finish = (int32_t)finish.what;
    p->divisor = haul__scalar_bits(x->dtype, finish.divisor);
    p->narrow = !how->adds ? 0 : out->dtype == HAUL_F16 ? 1 : out->dtype == HAUL_BF16 ? 2 : 0;
    const haul__kernel_info *info = &haul__kernel_infos[how->kernel];
    int                      kernel = !rows ? info->columns : p->units == 1 && p->run <= FEW ? info->few : how->kernel;
    return haul__launch_kernel(c, kernel, x->dtype, HAUL__OUT(out), .ins = ins, .in_count = 2, HAUL__PARAMS(*p),
                               .grain = haul__whole_sides(width * (1 + GRAIN_WORK / (work + 1))));
}

/* Partial results of `items`, in which mended ones follow plain ones if there are any. */
static haul_tensor *partial_results(const haul__call *c, haul_dtype dtype, haul_shape shape, bool mends)
{
    HAUL__ASSERT(shape.ndim == 2);
    if (!mends)
        return haul__temporary(c, dtype, &shape);
    haul_tensor *both = haul__temporary(c, dtype, &HAUL_SHAPE(2, shape.dims[0], shape.dims[1]));
    return both ? haul__view_as(c, both, &shape, NULL, 0) : NULL;
}

/* x has mended partial sums `parts` elements behind plain ones, or 0 for none. */
static haul_status reduce(const haul__call *c, const haul__reduction *how, int mends, haul_tensor *out, haul_tensor *x,
                          int64_t parts, const bool *reduced, haul__finish finish)
{
    reduce_params p;
    bool          rows = plan(&p, x, reduced);
    HAUL__ASSERT(parts == 0 || mends != HAUL__MENDS_NOTHING);
    p.mends = mends;
    p.parts = parts;
    if (p.chunks == 1)
        return launch(c, how, out, x, &p, rows, finish);

    HAUL__ASSERT(p.chunks > 1 && p.outputs > 0);
    haul_dtype   dtype = how->adds ? haul__sum_dtype(out->dtype) : out->dtype;
    haul_shape   shape = rows ? HAUL_SHAPE(p.outputs, p.chunks) : HAUL_SHAPE(p.chunks, p.outputs);
    haul_tensor *made = partial_results(c, dtype, shape, mends != HAUL__MENDS_NOTHING);
    p.out_parts = mends != HAUL__MENDS_NOTHING ? p.items : 0;
    if (!made || launch(c, how, made, x, &p, rows, (haul__finish){HAUL__FINISH_NONE, .centre = finish.centre}))
        return haul_error_status();
    return reduce(c, how->then ? how->then : how, mends, out, made, p.out_parts,
                  rows ? (const bool[]){false, true} : (const bool[]){true, false}, finish);
}

haul_status haul__reduce(const haul__call *c, const haul__reduction *how, haul_tensor *out, haul_tensor *x,
                         const bool *reduced, haul__finish finish)
{
    bool is_result = how->mends == HAUL__MENDS_SUM && finish.what == HAUL__FINISH_NONE; /* its range is the result's */
    bool is_small = x->dtype == HAUL_F16; /* f32 holds sums of its squares */
    return reduce(c, how, is_result || is_small ? HAUL__MENDS_NOTHING : how->mends, out, x, 0, reduced, finish);
}

/* ---- in tiles ---- */

static bool is_sum(const haul__operation *operation)
{
    return operation == &haul__operation_sum || operation == &haul__operation_mean;
}

bool haul__reduce_has_tiles(const haul__operation *operation)
{
    return is_sum(operation) || operation == &haul__operation_max || operation == &haul__operation_min;
}

int64_t haul__reduce_tile(const haul__operation *operation, const void *attributes, const haul_tensor *x, int *passes)
{
    const haul__reduce_attributes *a = attributes;
    reduce_params                  p;
    if (!haul__reduce_has_tiles(operation))
        return 0;
    if (!plan(&p, x, a->reduced) || p.stride != 1 || p.reduced || p.run < 2)
        return 0;
    *passes = p.chunks == 1 ? 1 : 2;
    if (p.chunks == 1)
        return p.run <= MOST_ROW_WORK ? p.run : 0;
    /* A maximum begins with the first of all elements, which is not in each tile. The second pass is the last one. */
    return is_sum(operation) && p.outputs == 1 && p.chunks <= 2 * ROW_WORK ? p.chunk * p.piece : 0;
}

/* Items of one row become rows of their own. The last one may be shorter. */
static void take_apart(reduce_params *p, int64_t length)
{
    p->outputs = p->chunks;
    p->kept = 1;
    p->kept_dims[0] = p->chunks;
    p->kept_strides[0] = p->chunk * p->piece;
    p->run = length;
    p->pieces = haul__ceil_div(length, p->piece);
    p->units = p->chunk = p->pieces;
    p->chunks = 1;
}

void haul__reduce_run_tile(const haul__collected_pass *pass, void *out, void *x, int64_t shift, int64_t first,
                           int64_t last)
{
    void *const   buffers[] = {out, x, x};
    reduce_params p, rows;
    memcpy(&p, pass->params, sizeof p);
    p.x_offset = shift;
    if (p.chunks == 1) {
        pass->function(buffers, &p, first, last);
        return;
    }
    const int64_t each = p.chunk * p.piece, end = p.chunks - 1, rest = p.run - end * each;
    HAUL__ASSERT(0 < rest && rest <= each && 0 <= first && first < last && last <= p.chunks);
    rows = p;
    take_apart(&rows, each);
    if (first < end)
        pass->function(buffers, &rows, first, last < end ? last : end);
    if (last <= end)
        return;
    rows = p;
    take_apart(&rows, rest);
    pass->function(buffers, &rows, end, last);
}

static const bool all_axes[HAUL_MAX_DIMS] = {true, true, true, true, true, true, true, true};

haul_status haul__mean_of_all(const haul__call *c, haul_tensor *out, haul_tensor *x)
{
    if (x->count == 0)
        return haul_fill_into(out, NAN);
    return haul__reduce(c, &haul__reduce_sum, out, x, all_axes, HAUL__DIVIDED((double)x->count));
}

haul_status haul__sum_of_all(const haul__call *c, haul_tensor *out, haul_tensor *x, double divisor)
{
    return haul__reduce(c, &haul__reduce_sum, out, x, all_axes, divisor != 0 ? HAUL__DIVIDED(divisor) : HAUL__AS_IT_IS);
}

haul_status haul__sum_of_rows(const haul__call *c, haul_tensor *out, haul_tensor *x)
{
    return haul__reduce(c, &haul__reduce_sum, out, x, (const bool[HAUL_MAX_DIMS]){true}, HAUL__AS_IT_IS);
}
