/* Reductions: sum, mean, max, min over any axes.
 *
 * A result's element is computed by one work item, in an order that shape and strides fix: no atomics, no dependence on
 * the number of threads or on the device. Where runs of reduced elements lie closest together in memory, a work item
 * adds one output's rows in SUM_LANES lanes (the kernels sum, max and min); where runs of kept elements do, it walks
 * the reduced axes with a vector of neighbouring outputs (the ..._columns kernels). Long reductions to few outputs take
 * several passes: the first gives `chunks` partial results for each output, the next reduces those. */
#include "ops/reduce.h"

#include <math.h>
#include <string.h>

#include "kernels/kernels.h"
#include "kernels/types.h"

// clang-format off
/* kernel text begins */
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
    I32 kept, reduced; /* dims besides the run */
    I32 divide;
    I32 narrow; /* a sum of f32 is stored as: itself, f16 (1), bf16 (2) */
} reduce_params;

#define REDUCE_WIDTH 256 /* neighbouring outputs that are taken side by side */

#ifdef HAUL_KERNEL
/* Where element i of these dims lies. */
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

#define REDUCE_BLOCK   64 /* so many steps are added on their own: rounding errors grow with their number */
#if A_IS_F32
#define REDUCE_SUM_STORE(i, v) reduce_sum_store(out, i, p.divide ? (v) / SCALAR(p.divisor) : (v), p.narrow)
FUNC void reduce_sum_store(GLOBAL F32 *out, I64 i, F32 v, I32 narrow)
{
    if (narrow == 0) out[i] = v;
    else ((GLOBAL U16 *)out)[i] = narrow == 1 ? F32_TO_F16(v) : F32_TO_BF16(v);
}
#elif IS_FLOAT
#define REDUCE_SUM_STORE(i, v) (out[i] = p.divide ? (v) / SCALAR(p.divisor) : (v))
#else
#define REDUCE_SUM_STORE(i, v) (out[i] = (v))
#endif
#define REDUCE_PUT(i, v) STORE(out, i, v)

/* STEP puts two values of type V together, from START on: in columns from START_AT, an expression of the column l. A
 * maximum starts from an element, the first one of its output, which changes nothing when it is met again. */
TEMPLATE(reduce, NAME, R, V, STEP, PUT, START, START_AT)
KERNEL2(NAME, reduce_params, R, out, const T, x)
{
    const I64 stride = p.stride;
    FOR_ROWS(i) {
        const I64 o = p.chunks == 1 ? i : QUOTIENT(i, p.chunks), first = (i - o * p.chunks) * p.chunk;
        const I64 end = M_MIN_OF(first + p.chunk, p.units);
        GLOBAL const T *base = x + p.x_offset + reduce_at(p.kept_dims, p.kept_strides, p.kept, o);
        I64 steps = 0;
        LANE_VALUES(V, s);
        LANE_VALUES(V, t);
        EACH_LANE(l, SUM_LANES) OF_LANE(s, l) = START;
        EACH_LANE(l, SUM_LANES) OF_LANE(t, l) = START;
        for (I64 u = first; u < end; u++) {
            const I64 r = p.pieces == 1 ? u : QUOTIENT(u, p.pieces), skip = (u - r * p.pieces) * p.piece;
            const I64 n = M_MIN_OF(p.piece, p.run - skip), whole = n - n % SUM_LANES;
            GLOBAL const T *v =
                base + reduce_at(p.reduced_dims, p.reduced_strides, p.reduced, r) + skip * stride;
            if (stride == 1)
                LANE_UNROLL for (I64 j = 0; j < whole; j += SUM_LANES)
                    EACH_LANE(l, SUM_LANES) OF_LANE(t, l) = STEP(OF_LANE(t, l), (V)LOAD(v, j + l));
            else
                for (I64 j = 0; j < whole; j += SUM_LANES)
                    EACH_LANE(l, SUM_LANES) OF_LANE(t, l) = STEP(OF_LANE(t, l), (V)LOAD(v, (j + l) * stride));
            EACH_LANE(l, n - whole) OF_LANE(t, l) = STEP(OF_LANE(t, l), (V)LOAD(v, (whole + l) * stride));
            steps += whole / SUM_LANES + 1;
            if (steps >= REDUCE_BLOCK || u + 1 == end) {
                EACH_LANE(l, SUM_LANES) OF_LANE(s, l) = STEP(OF_LANE(s, l), OF_LANE(t, l));
                EACH_LANE(l, SUM_LANES) OF_LANE(t, l) = START;
                steps = 0;
            }
        }
        LANE_TREE(V, s, STEP)
        const V all = OF_FIRST_LANE(s);
        if (IS_FIRST_LANE) PUT(p.out_offset + i, all);
    }
}

/* Rows of few elements, in order. */
KERNEL2(NAME##_few, reduce_params, R, out, const T, x)
{
    const I64 stride = p.stride;
    FOR_ITEMS(i) {
        GLOBAL const T *base = x + p.x_offset + reduce_at(p.kept_dims, p.kept_strides, p.kept, i);
        V s = START;
        for (I64 j = 0; j < p.run; j++) s = STEP(s, (V)LOAD(base, j * stride));
        PUT(p.out_offset + i, s);
    }
}

KERNEL2(NAME##_columns, reduce_params, R, out, const T, x)
{
    const I64 stride = p.stride;
    for (I64 i = ITEMS_BEGIN; i < ITEMS_END;) {
        const I64 c = QUOTIENT(i, p.outputs), o = i - c * p.outputs, k = QUOTIENT(o, p.run), column = o - k * p.run;
        const int width = NEIGHBOURS(p.run - column, ITEMS_END - i, REDUCE_WIDTH);
        const I64 first = c * p.chunk, end = M_MIN_OF(first + p.chunk, p.units);
        GLOBAL const T *base =
            x + p.x_offset + reduce_at(p.kept_dims, p.kept_strides, p.kept, k) + column * stride;
        V s[CHUNKED ? REDUCE_WIDTH : 1], t[CHUNKED ? REDUCE_WIDTH : 1];
        for (int l = 0; l < width; l++) s[l] = START_AT;
        for (I64 u = first; u < end;) {
            const I64 stop = M_MIN_OF(u + REDUCE_BLOCK, end);
            for (int l = 0; l < width; l++) t[l] = START_AT;
            if (!CHUNKED && p.reduced == 1)
                LANE_UNROLL for (; u < stop; u++) t[0] = STEP(t[0], (V)LOAD(base, u * p.reduced_strides[0]));
            for (; u < stop; u++) {
                GLOBAL const T *v = base + reduce_at(p.reduced_dims, p.reduced_strides, p.reduced, u);
                if (stride == 1)
                    VECTOR_LOOP for (int l = 0; l < width; l++) t[l] = STEP(t[l], (V)LOAD(v, l));
                else
                    for (int l = 0; l < width; l++) t[l] = STEP(t[l], (V)LOAD(v, l * stride));
            }
            for (int l = 0; l < width; l++) s[l] = STEP(s[l], t[l]);
        }
        for (int l = 0; l < width; l++) PUT(p.out_offset + i + l, s[l]);
        i += ITEMS_STEP(width);
    }
}
END_TEMPLATE

EXPAND(reduce, sum, ACC, ACC, SUM_OF, REDUCE_SUM_STORE, (ACC)0, (ACC)0)
EXPAND(reduce, max, T, A, M_MAX, REDUCE_PUT, LOAD(base, 0), LOAD(base, l * stride))
EXPAND(reduce, min, T, A, M_MIN, REDUCE_PUT, LOAD(base, 0), LOAD(base, l * stride))
#endif
/* kernel text ends */
// clang-format on

/* What the operations differ in. */
typedef struct reduction {
    int  kernel;
    bool adds;    /* a sum: integers give i64, an empty one is 0 */
    bool divides; /* by how many there are */
} reduction;

static const reduction sum_reduction = {HAUL__K_sum, .adds = true};
static const reduction mean_reduction = {HAUL__K_sum, .adds = true, .divides = true};
static const reduction max_reduction = {HAUL__K_max, .adds = false};
static const reduction min_reduction = {HAUL__K_min, .adds = false};

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
    return rows;
}

/* One pass over x into out. */
static haul_status launch(const haul__call *c, const reduction *how, haul_tensor *out, haul_tensor *x, reduce_params *p,
                          bool rows, double divisor)
{
    int64_t width = rows ? 1 : p->run < REDUCE_WIDTH ? p->run : REDUCE_WIDTH, work = p->chunk * p->piece * width;
    p->out_offset = out->offset;
    p->divide = divisor != 0;
    p->divisor = haul__scalar_bits(x->dtype, divisor);
    p->narrow = !how->adds ? 0 : out->dtype == HAUL_F16 ? 1 : out->dtype == HAUL_BF16 ? 2 : 0;
    const haul__kernel_info *info = &haul__kernel_infos[how->kernel];
    int                      kernel = !rows ? info->columns : p->units == 1 && p->run <= FEW ? info->few : how->kernel;
    return haul__launch_kernel(c, kernel, x->dtype, &out, 1, &x, 1, p, sizeof *p, p->items,
                               width * (1 + GRAIN_WORK / (work + 1)));
}

/* out = the reduction of x over the axes where `reduced`; row-major, whatever shape out has. A divisor that is not 0
 * divides sums. */
static haul_status reduce_into(const haul__call *c, const reduction *how, haul_tensor *out, haul_tensor *x,
                               const bool *reduced, double divisor)
{
    reduce_params p;
    bool          rows = plan(&p, x, reduced);
    if (p.chunks == 1)
        return launch(c, how, out, x, &p, rows, divisor);

    haul_dtype   dtype = how->adds ? haul__sum_dtype(out->dtype) : out->dtype;
    haul_shape   shape = rows ? HAUL_SHAPE(p.outputs, p.chunks) : HAUL_SHAPE(p.chunks, p.outputs);
    haul_tensor *parts = haul__temporary(c, dtype, &shape);
    if (!parts || launch(c, how, parts, x, &p, rows, 0))
        return haul_error_status();
    return reduce_into(c, how, out, parts, rows ? (const bool[]){false, true} : (const bool[]){true, false}, divisor);
}

static const bool all_axes[HAUL_MAX_DIMS] = {true, true, true, true, true, true, true, true};

haul_status haul__mean_of_all(const haul__call *c, haul_tensor *out, haul_tensor *x)
{
    if (x->count == 0)
        return haul_fill_into(out, NAN);
    return reduce_into(c, &mean_reduction, out, x, all_axes, (double)x->count);
}

haul_status haul__sum_of_all(const haul__call *c, haul_tensor *out, haul_tensor *x, double divisor)
{
    return reduce_into(c, divisor != 0 ? &mean_reduction : &sum_reduction, out, x, all_axes, divisor);
}

haul_status haul__sum_of_rows(const haul__call *c, haul_tensor *out, haul_tensor *x)
{
    return reduce_into(c, &sum_reduction, out, x, (const bool[HAUL_MAX_DIMS]){true}, 0);
}

/* ---- the call ---- */

typedef struct reduce_attributes {
    int        axes[HAUL_MAX_DIMS], count; /* as given */
    bool       keepdim;
    bool       reduced[HAUL_MAX_DIMS];
    haul_shape kept; /* the result's shape with the reduced axes as ones */
    int64_t    each; /* elements that give one of the result */
} reduce_attributes;

/* Sets the result's shape, with the reduced axes and without them, and how many elements give one of it. */
static haul_status find_shapes(const haul__call *c, reduce_attributes *a, haul_shape *result)
{
    const haul_shape *x = &c->operands[0]->shape;
    int64_t           outputs = 1; /* like `each` a product of some dims of x, which is checked only as a whole */
    a->kept = *x;
    a->each = 1;
    *result = (haul_shape){0};
    for (int d = 0; d < x->ndim; d++) {
        if (!haul__mul_size(a->reduced[d] ? a->each : outputs, x->dims[d], a->reduced[d] ? &a->each : &outputs))
            return haul__refuse_shape(c, 0, "dims whose product fits in 64 bits are expected");
        if (a->reduced[d])
            a->kept.dims[d] = 1;
        else
            result->dims[result->ndim++] = x->dims[d];
    }
    if (a->keepdim)
        *result = a->kept;
    if (a->each == 0 && outputs != 0 && !((const reduction *)c->operation->extra)->adds)
        return haul__refuse_shape(c, 0, "at least one element to choose from is expected");
    return HAUL_OK;
}

static haul_status infer(haul__call *c)
{
    const reduction   *how = c->operation->extra;
    reduce_attributes *a = haul__attributes(c);
    const haul_tensor *x = c->operands[0];
    haul_shape         shape;
    if (haul__call_axes(c, a->axes, a->count, a->reduced) || find_shapes(c, a, &shape))
        return haul_error_status();
    bool counts = how->adds && !haul_dtype_is_float(x->dtype);
    return haul__describe(c, 0, counts ? HAUL_I64 : haul__wide_result(c, x), &shape);
}

static haul_status compute(haul__call *c)
{
    const reduction         *how = c->operation->extra;
    const reduce_attributes *a = haul__attributes(c);
    if (how->divides && a->each == 0)
        return haul_fill_into(c->results[0], NAN);
    return reduce_into(c, how, c->results[0], c->operands[0], a->reduced, how->divides ? (double)a->each : 0);
}

static void sum_gradient(haul__gradient *c)
{
    const reduce_attributes *a = c->attributes;
    const reduction         *how = c->operation->extra;
    haul_tensor             *g = c->results[0];
    if (how->divides && a->each > 1)
        g = haul_mul_scalar(g, 1.0 / (double)a->each);
    if (!haul__failed(g) &&
        g->dtype != haul__operand_dtype(c, 0)) /* within autocast: narrow it before it is spread out */
        g = haul_cast(g, haul__operand_dtype(c, 0));
    c->operands[0] = haul_expand(haul_reshape(g, a->kept), *haul__operand_shape(c, 0));
}

/* Elements equal to the extremum share its gradient. */
static void extremum_gradient(haul__gradient *c)
{
    const haul_shape *kept = &((const reduce_attributes *)c->attributes)->kept;
    haul_tensor      *g = c->results[0], *y = haul_reshape(c->saved_results[0], *kept);
    haul_tensor      *hit = haul_cast(haul_eq(c->saved[0], y), g->dtype);
    c->operands[0] = haul_mul(hit, haul_div(haul_reshape(g, *kept), haul__sum_to(hit, kept)));
}

HAUL__OPERATION(sum) = {
    .name = "haul_sum",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES}},
    .results = {{"y"}},
    .autocast = HAUL__WIDE_RESULT,
    .attributes_size = HAUL__ATTRIBUTES(reduce_attributes),
    .extra = &sum_reduction,
    .infer = infer,
    .compute = compute,
    .gradient = sum_gradient,
    .flops = 1,
};

HAUL__OPERATION(mean) = {
    .name = "haul_mean",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES}},
    .results = {{"y"}},
    .dtypes = HAUL__FLOATS,
    .autocast = HAUL__WIDE_RESULT,
    .attributes_size = HAUL__ATTRIBUTES(reduce_attributes),
    .extra = &mean_reduction,
    .infer = infer,
    .compute = compute,
    .gradient = sum_gradient,
    .flops = 1,
};

HAUL__OPERATION(max) = {
    .name = "haul_max",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES, .saved_for = HAUL__FOR_0}},
    .results = {{"y", .saved_for = HAUL__FOR_0}},
    .attributes_size = HAUL__ATTRIBUTES(reduce_attributes),
    .extra = &max_reduction,
    .infer = infer,
    .compute = compute,
    .gradient = extremum_gradient,
    .flops = 1,
};

HAUL__OPERATION(min) = {
    .name = "haul_min",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES, .saved_for = HAUL__FOR_0}},
    .results = {{"y", .saved_for = HAUL__FOR_0}},
    .attributes_size = HAUL__ATTRIBUTES(reduce_attributes),
    .extra = &min_reduction,
    .infer = infer,
    .compute = compute,
    .gradient = extremum_gradient,
    .flops = 1,
};

/* ---- public ---- */

static reduce_attributes attributes_of(const haul_reduce_options *options)
{
    reduce_attributes a = {.count = options->haul__axes.count, .keepdim = options->keepdim};
    memcpy(a.axes, options->haul__axes.axes, sizeof a.axes);
    return a;
}

static haul_tensor *reduce(const haul__operation *operation, const haul_reduce_options *options)
{
    if (!options)
        return haul__no_options(operation);
    reduce_attributes a = attributes_of(options);
    return haul__apply1(operation, &a, &options->x, 1);
}

static haul_status reduce_to(haul_tensor *out, const haul__operation *operation, const haul_reduce_options *options)
{
    if (!options)
        return haul__fail_null(operation->name, "options");
    reduce_attributes a = attributes_of(options);
    return haul__apply_into(&out, operation, &a, &options->x, 1);
}

haul_tensor *haul_sum_with(const haul_reduce_options *options)
{
    return reduce(&haul__operation_sum, options);
}

haul_status haul_sum_into_with(haul_tensor *out, const haul_reduce_options *options)
{
    return reduce_to(out, &haul__operation_sum, options);
}

haul_tensor *haul_mean_with(const haul_reduce_options *options)
{
    return reduce(&haul__operation_mean, options);
}

haul_status haul_mean_into_with(haul_tensor *out, const haul_reduce_options *options)
{
    return reduce_to(out, &haul__operation_mean, options);
}

haul_tensor *haul_max_with(const haul_reduce_options *options)
{
    return reduce(&haul__operation_max, options);
}

haul_status haul_max_into_with(haul_tensor *out, const haul_reduce_options *options)
{
    return reduce_to(out, &haul__operation_max, options);
}

haul_tensor *haul_min_with(const haul_reduce_options *options)
{
    return reduce(&haul__operation_min, options);
}

haul_status haul_min_into_with(haul_tensor *out, const haul_reduce_options *options)
{
    return reduce_to(out, &haul__operation_min, options);
}

haul_tensor *haul__sum_to(haul_tensor *g, const haul_shape *shape)
{
    if (haul__failed(g) || haul__shape_equal(&g->shape, shape))
        return g;
    haul_reduce_options options = {.x = g, .keepdim = true};
    haul_axes          *axes = &options.haul__axes;
    int                 lead = g->shape.ndim - shape->ndim;
    for (int d = 0; d < g->shape.ndim; d++)
        if (d < lead || (shape->dims[d - lead] == 1 && g->shape.dims[d] != 1))
            axes->axes[axes->count++] = d;
    if (axes->count == 0)
        return haul_view(g, *shape);
    return haul_reshape(haul_sum_with(&options), *shape);
}
