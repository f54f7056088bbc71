/* Matrix products: haul_matmul with NumPy's rules for leading axes and vectors, and haul_linear. Each call is one
 * product: vectors and leading axes become sizes and strides of it, not operations. */
#include <stdio.h>

#include "base/assert.h"
#include "engine/copy.h"
#include "ops/attributes.h"
#include "ops/matmul/gemm.h"
#include "ops/pointwise/internal.h"
#include "ops/reduce/reduce.h"

/* ---- operands as matrices ---- */

/* The single stride that walks through axes [first, end) of t's leading ones (all but the last `own`), broadcast to
 * `lead`; 0 if there is only one matrix. Returns false if no stride does. */
static bool axes_stride(const haul_tensor *t, int own, const haul_shape *lead, int first, int end, int64_t *stride)
{
    int missing = lead->ndim + own - t->shape.ndim;
    HAUL__ASSERT(missing >= 0 && 0 <= first && first <= end && end <= lead->ndim);
    int64_t expected = 0;
    bool    found = false;
    *stride = 0;
    for (int d = end - 1; d >= first; d--) {
        if (lead->dims[d] == 1)
            continue;
        bool    repeats = d < missing || t->shape.dims[d - missing] == 1;
        int64_t step = repeats ? 0 : t->strides[d - missing];
        if (found && step != expected)
            return false;
        if (!found)
            *stride = step;
        found = true;
        expected = step * lead->dims[d];
    }
    return true;
}

/* The same for all leading axes. */
static bool lead_stride(const haul_tensor *t, int own, const haul_shape *lead, int64_t *stride)
{
    return axes_stride(t, own, lead, 0, lead->ndim, stride);
}

/* A is x with all axes but the last as rows, so that one large product replaces many that share B: x itself, or a
 * row-major copy if no single stride walks through the rows. Returns NULL on failure. */
static haul_tensor *take_rows(const haul__call *c, haul_tensor *x, haul__gemm *g)
{
    haul_shape lead = x->shape;
    lead.ndim--;
    g->m = 1;
    for (int d = 0; d < lead.ndim; d++)
        g->m *= lead.dims[d]; /* the result's count was checked */
    HAUL__ASSERT(x->count == g->m * g->k);
    if (!lead_stride(x, 1, &lead, &g->a_row)) {
        x = haul__as_format(c, x, false);
        g->a_row = g->k;
    }
    if (haul__failed(x))
        return NULL;
    g->a_col = x->strides[lead.ndim];
    if (g->m == 1)
        g->a_row = g->k * g->a_col;
    return x;
}

/* The leading axes of a batch. Those from `split` on are the inner ones; 0: all are. */
typedef struct batch {
    haul_shape lead;
    int        split;
} batch;

/* The strides that walk through t's leading axes: the outer and the inner ones. Returns false if no two strides do. */
static bool batch_strides(const haul_tensor *t, int own, const batch *of, int64_t *outer, int64_t *inner)
{
    HAUL__ASSERT(0 <= of->split && of->split <= of->lead.ndim);
    return axes_stride(t, own, &of->lead, 0, of->split, outer) &&
           axes_stride(t, own, &of->lead, of->split, of->lead.ndim, inner);
}

/* t with leading axes that these strides walk through: t itself, or a copy that has all of them. Returns NULL on
 * failure. */
static haul_tensor *take_batch(const haul__call *c, haul_tensor *t, int own, const batch *of, int64_t *outer,
                               int64_t *inner)
{
    if (batch_strides(t, own, of, outer, inner))
        return t;
    haul_shape shape = of->lead;
    for (int d = t->shape.ndim - own; d < t->shape.ndim; d++)
        shape.dims[shape.ndim++] = t->shape.dims[d];
    HAUL__ASSERT(shape.ndim <= HAUL_MAX_DIMS);
    haul_tensor *copy = haul__temporary(c, t->dtype, &shape);
    if (haul__failed(copy) || haul__copy_elements(copy, t, c->operation->name))
        return NULL;
    const bool walks = batch_strides(copy, own, of, outer, inner);
    HAUL__ASSERT(walks);
    return copy;
}

/* [..., m, k] as [... m, k], in operations. Returns NULL on failure. */
static haul_tensor *fold_rows(const haul__gradient *c, haul_tensor *x)
{
    int64_t rows = 1;
    if (haul__failed(x) || x->shape.ndim == 2)
        return x;
    int last = x->shape.ndim - 1;
    for (int d = 0; d < last; d++)
        if (!haul__mul_size(rows, x->shape.dims[d], &rows)) { /* possible where another dim is 0 */
            haul__fail(HAUL_SHAPE, c->operation->name, NULL, "the rows of an operand are too many to count");
            return NULL;
        }
    return haul_reshape(x, HAUL_SHAPE(rows, x->shape.dims[last]));
}

/* ---- matmul ---- */

static haul_status check_inner(const haul__call *c)
{
    char              shape_a[80], shape_b[80];
    const haul_shape *a = &c->operands[0]->shape, *b = &c->operands[1]->shape;
    if (a->ndim == 0 || b->ndim == 0)
        return haul__refuse_shape(c, a->ndim ? 1 : 0,
                                  "a matrix product needs an axis; multiply by a scalar with haul_mul");
    int64_t columns = a->dims[a->ndim - 1], rows = b->dims[b->ndim == 1 ? 0 : b->ndim - 2];
    if (columns == rows)
        return HAUL_OK;
    return haul__fail(HAUL_SHAPE, c->operation->name, "b",
                      "a is %s and b is %s: the last axis of a (%lld) must be as long as the %s of b (%lld)",
                      haul__shape_text(a, shape_a, sizeof shape_a), haul__shape_text(b, shape_b, sizeof shape_b),
                      (long long)columns, b->ndim == 1 ? "only axis" : "last but one", (long long)rows);
}

/* Products of small integers are accumulated in i32 and stay i32, because their own dtype would seldom hold the sum. */
static haul_dtype product_dtype(haul_dtype dtype)
{
    return dtype == HAUL_U8 || dtype == HAUL_I8 || dtype == HAUL_I16 ? HAUL_I32 : dtype;
}

/* True if the matrices of b's last leading axis are in its rows: b is a view [..., heads, length, features] of [...,
 * length, heads, features]. The result is laid out like this, too, on every device. So another view shows the heads as
 * features. */
static bool rows_hold_matrices(const haul__call *c, const haul_shape *shape)
{
    const haul_tensor *a = c->operands[0], *b = c->operands[1];
    const int          columns = b->shape.ndim - 1, rows = columns - 1, heads = columns - 2;
    return heads >= 1 && shape->ndim == b->shape.ndim && a->shape.ndim > 1 && !c->into && !b->contiguous &&
           b->strides[columns] == 1 && b->shape.dims[heads] > 1 && b->shape.dims[rows] > 1 &&
           b->shape.dims[columns] > 1 && shape->dims[rows] > 1 && b->strides[heads] >= b->shape.dims[columns] &&
           b->strides[heads] < b->strides[rows];
}

static haul_status describe_heads_in_rows(haul__call *c, const haul_shape *shape)
{
    const int rows = shape->ndim - 2, heads = rows - 1;
    int64_t   swapped[HAUL_MAX_DIMS], strides[HAUL_MAX_DIMS];
    HAUL__ASSERT(heads >= 0);
    for (int d = 0; d < shape->ndim; d++)
        swapped[d] = shape->ndim - (d == rows ? heads : d == heads ? rows : d);
    haul__shape_strides_like(shape, swapped, strides);
    return haul__describe_strided(c, 0, product_dtype(c->operands[0]->dtype), shape, strides);
}

/* Leading axes broadcast; m follows unless a is a vector, and n unless b is one. */
static haul_status matmul_infer(haul__call *c)
{
    const haul_shape *a = &c->operands[0]->shape, *b = &c->operands[1]->shape;
    haul_shape        lead_a = *a, lead_b = *b, shape;
    if (check_inner(c))
        return haul_error_status();
    lead_a.ndim = a->ndim > 2 ? a->ndim - 2 : 0;
    lead_b.ndim = b->ndim > 2 ? b->ndim - 2 : 0;
    if (haul__shape_broadcast(&lead_a, &lead_b, c->operation->name, &shape))
        return haul_error_status();
    if (a->ndim > 1)
        shape.dims[shape.ndim++] = a->dims[a->ndim - 2];
    if (b->ndim > 1)
        shape.dims[shape.ndim++] = b->dims[b->ndim - 1];
    HAUL__ASSERT(shape.ndim <= HAUL_MAX_DIMS);
    if (rows_hold_matrices(c, &shape))
        return describe_heads_in_rows(c, &shape);
    return haul__describe(c, 0, product_dtype(c->operands[0]->dtype), &shape);
}

/* Decides which leading axes are the inner ones: none needs to be separate if a single stride walks through those of
 * each tensor. */
static void split(const haul__call *c, int own, batch *of)
{
    const haul_tensor *tensors[] = {c->operands[0], c->operands[1], c->results[0]};
    const int          owns[] = {own, 2, own};
    int64_t            outer, inner;
    bool               walks = true;
    for (int i = 0; i < 3; i++)
        walks = walks && lead_stride(tensors[i], owns[i], &of->lead, &inner);
    if (walks)
        return;
    HAUL__ASSERT(of->lead.ndim > 0);
    for (of->split = of->lead.ndim - 1; of->split > 0; of->split--) {
        walks = true;
        for (int i = 0; i < 3; i++)
            walks = walks && batch_strides(tensors[i], owns[i], of, &outer, &inner);
        if (walks)
            return;
    }
    /* There are copies. The result may have its own split. */
    of->split = lead_stride(c->results[0], own, &of->lead, &inner) ? 0 : of->lead.ndim - 1;
}

/* b has leading axes: many products. A vector `a` is one row. Where matrices must be one stride apart, a result that is
 * laid out otherwise is copied. */
static haul_status matmul_batched(const haul__call *c, haul__gemm *g)
{
    haul_tensor *a = c->operands[0], *b = c->operands[1], *y = c->results[0];
    int          own = a->shape.ndim == 1 ? 1 : 2;
    int64_t      stride;
    batch        of = {.lead = y->shape};
    of.lead.ndim -= own;
    if (haul__takes_inner(c->operation, c->device, a->dtype))
        split(c, own, &of);
    else if (!lead_stride(y, own, &of.lead, &stride))
        y = haul__temporary(c, y->dtype, &y->shape);
    if (haul__failed(y))
        return haul_error_status();
    for (int d = 0; d < of.lead.ndim; d++)
        g->batch *= of.lead.dims[d]; /* the result's count was checked */
    for (int d = of.split; of.split > 0 && d < of.lead.ndim; d++)
        g->inner = (g->inner ? g->inner : 1) * of.lead.dims[d];
    g->m = own == 1 ? 1 : a->shape.dims[a->shape.ndim - 2];
    HAUL__ASSERT(g->batch * g->m * g->n == y->count);
    a = take_batch(c, a, own, &of, &g->a_outer, &g->a_batch);
    b = a ? take_batch(c, b, 2, &of, &g->b_outer, &g->b_batch) : NULL;
    if (!b)
        return haul_error_status();
    g->a_col = a->strides[a->shape.ndim - 1];
    g->a_row = own == 1 ? g->k * g->a_col : a->strides[a->shape.ndim - 2];
    g->b_row = b->strides[b->shape.ndim - 2];
    g->b_col = b->strides[b->shape.ndim - 1];
    const bool walks = batch_strides(y, own, &of, &g->c_outer, &g->c_batch);
    HAUL__ASSERT(walks);
    g->c_row = own == 1 ? g->n : y->strides[y->shape.ndim - 2];
    if (haul__gemm_run(c, g, y, a, b, NULL))
        return haul_error_status();
    return y == c->results[0] ? HAUL_OK : haul__copy_elements(c->results[0], y, c->operation->name);
}

static haul_status matmul_compute(haul__call *c)
{
    haul_tensor *a = c->operands[0], *b = c->operands[1];
    bool         vector_b = b->shape.ndim == 1;
    haul__gemm   g = {.batch = 1, .k = a->shape.dims[a->shape.ndim - 1]};
    g.n = vector_b ? 1 : b->shape.dims[b->shape.ndim - 1];
    g.c_row = g.n;
    if (b->shape.ndim > 2)
        return matmul_batched(c, &g);
    a = take_rows(c, a, &g);
    if (!a)
        return haul_error_status();
    HAUL__ASSERT(g.k == b->shape.dims[0]);
    g.b_row = b->strides[0];
    g.b_col = vector_b ? 1 : b->strides[1];
    g.c_batch = g.m * g.n;
    HAUL__ASSERT(g.c_batch == c->results[0]->count);
    return haul__gemm_run(c, &g, c->results[0], a, b, NULL);
}

/* True if the columns of the matrices are dense, and its rows are not. */
static bool is_turned(const haul_tensor *t)
{
    const int last = t->shape.ndim - 1;
    return t->shape.dims[last] > 1 && t->strides[last] != 1 && t->strides[last - 1] == 1;
}

/* dA = g B^T and dB = A^T g, as matrices; the caller sums broadcast dimensions. If B is a transposed view, so is its
 * gradient. */
static void matmul_gradient(haul__gradient *c)
{
    const haul_shape *a_shape = haul__operand_shape(c, 0), *b_shape = haul__operand_shape(c, 1);
    bool              vector_a = a_shape->ndim == 1, vector_b = b_shape->ndim == 1;
    bool              folded = a_shape->ndim > 2 && b_shape->ndim <= 2;
    HAUL__ASSERT(a_shape->ndim > 0 && b_shape->ndim > 0);
    haul_tensor *g = c->results[0], *a = c->saved[0], *b = c->saved[1];
    if (vector_b)
        g = haul_unsqueeze(g, -1);
    if (vector_a)
        g = haul_unsqueeze(g, -2);
    if (folded)
        g = fold_rows(c, g);
    if (haul__wanted(c, 0)) {
        haul_tensor *da = haul_matmul(g, haul_transpose(vector_b ? haul_unsqueeze(b, 1) : b, -2, -1));
        c->operands[0] = folded ? haul_reshape(da, *a_shape) : vector_a ? haul_squeeze(da, -2) : da;
    }
    if (haul__wanted(c, 1)) {
        a = vector_a ? haul_unsqueeze(a, 0) : folded ? fold_rows(c, a) : a;
        if (haul__wanted(c, 0) && a_shape->ndim > 2 && b_shape->ndim > 2 && is_turned(b)) {
            c->operands[1] = haul_transpose(haul_matmul(haul_transpose(g, -2, -1), a), -2, -1);
            return;
        }
        haul_tensor *db = haul_matmul(haul_transpose(a, -2, -1), g);
        c->operands[1] = vector_b ? haul_squeeze(db, -1) : db;
    }
}

/* Two flops for each of the k steps of a result's element. */
static haul__cost product_cost(const haul__call *c)
{
    const haul_shape *a = &c->operands[0]->shape;
    return (haul__cost){.flops = 2.0 * (double)c->results[0]->count * (double)a->dims[a->ndim - 1],
                        .bytes = haul__call_bytes(c)};
}

HAUL__OPERATION(matmul) = {
    .name = "haul_matmul",
    .operands = {{"a", .layout = HAUL__ANY_STRIDES, .saved_for = HAUL__FOR_1},
                 {"b", .layout = HAUL__ANY_STRIDES, .saved_for = HAUL__FOR_0}},
    .results = {{"y"}},
    .dtypes = HAUL__NUMBERS,
    .rule = HAUL__PROMOTED,
    .autocast = HAUL__LOWER,
    .infer = matmul_infer,
    .compute = matmul_compute,
    .implementations = &haul__gemm_implementations,
    .gradient = matmul_gradient,
    .cost = product_cost,
};

HAUL__FUNCTIONS(matmul, NULL, (haul_tensor * a, haul_tensor *b), a, b)

/* ---- linear ---- */

/* The error names the weight's shape. */
static haul_status refuse_for_weight(const haul__call *c, int operand, const char *before, int64_t size,
                                     const char *after)
{
    char wanted[160], have[80];
    snprintf(wanted, sizeof wanted, "weight is %s: %s%lld%s",
             haul__shape_text(&c->operands[1]->shape, have, sizeof have), before, (long long)size, after);
    return haul__refuse_shape(c, operand, wanted);
}

static haul_status check_linear(const haul__call *c)
{
    const haul_shape *x = &c->operands[0]->shape, *weight = &c->operands[1]->shape, *bias = &c->operands[2]->shape;
    if (weight->ndim != 2)
        return haul__refuse_shape(c, 1, "it must be [out, in]");
    if (x->ndim == 0 || x->dims[x->ndim - 1] != weight->dims[1])
        return refuse_for_weight(c, 0, "the last axis of x must be ", weight->dims[1], " long");
    if (haul__has(c, 2) && (bias->ndim != 1 || bias->dims[0] != weight->dims[0]))
        return refuse_for_weight(c, 2, "bias must be [", weight->dims[0], "]");
    return HAUL_OK;
}

static haul_status linear_infer(haul__call *c)
{
    const haul__linear_attributes *at = haul__attributes(c);
    haul_shape                     shape = c->operands[0]->shape;
    if (check_linear(c))
        return haul_error_status();
    if (!at->relu)
        c->saves_results = 0;
    shape.dims[shape.ndim - 1] = c->operands[1]->shape.dims[0];
    return haul__describe(c, 0, product_dtype(c->operands[0]->dtype), &shape);
}

static haul_status linear_compute(haul__call *c)
{
    const haul__linear_attributes *at = haul__attributes(c);
    haul_tensor                   *weight = c->operands[1], *bias = haul__has(c, 2) ? c->operands[2] : NULL;
    haul__gemm                     g = {
                            .batch = 1,
                            .n = weight->shape.dims[0],
                            .k = weight->shape.dims[1],
                            .b_row = weight->strides[1],
                            .b_col = weight->strides[0],
                            .c_row = weight->shape.dims[0],
                            .relu = at->relu,
    };
    haul_tensor *x = take_rows(c, c->operands[0], &g);
    HAUL__ASSERT(!x || g.m * g.n == c->results[0]->count);
    HAUL__ASSERT(!bias || bias->count == g.n);
    return x ? haul__gemm_run(c, &g, c->results[0], x, weight, bias) : haul_error_status();
}

/* The gradients of the matrices x and weight and of the bias, in one call. */
typedef struct backward_attributes {
    bool wanted[3];
} backward_attributes;

static haul_status backward_infer(haul__call *c)
{
    const backward_attributes *at = haul__attributes(c);
    const int64_t             *g = c->operands[0]->shape.dims;
    haul_dtype                 dtype = c->operands[0]->dtype;
    HAUL__ASSERT(c->operands[0]->shape.ndim == 2);
    HAUL__ASSERT(at->wanted[0] || at->wanted[1] || at->wanted[2]);
    for (int i = 0; i < 3; i++)
        if (!at->wanted[i])
            haul__leave_out(c, i);
    if (at->wanted[0] && haul__describe(c, 0, dtype, &HAUL_SHAPE(g[0], c->operands[2]->shape.dims[1])))
        return haul_error_status();
    if (at->wanted[1] && haul__describe(c, 1, dtype, &HAUL_SHAPE(g[1], c->operands[1]->shape.dims[1])))
        return haul_error_status();
    return at->wanted[2] ? haul__describe(c, 2, dtype, &HAUL_SHAPE(g[1])) : HAUL_OK;
}

/* y = a b, or a^T b, of matrices. */
static haul_status multiply(const haul__call *c, haul_tensor *y, haul_tensor *a, bool transposed, haul_tensor *b)
{
    int        rows = transposed ? 1 : 0, columns = 1 - rows;
    haul__gemm g = {
        .batch = 1,
        .m = a->shape.dims[rows],
        .n = b->shape.dims[1],
        .k = a->shape.dims[columns],
        .a_row = a->strides[rows],
        .a_col = a->strides[columns],
        .b_row = b->strides[0],
        .b_col = b->strides[1],
        .c_row = b->shape.dims[1],
    };
    if (g.m == 1)
        g.a_row = g.k * g.a_col;
    g.c_batch = g.m * g.n;
    HAUL__ASSERT(g.k == b->shape.dims[0] && g.c_batch == y->count);
    return haul__gemm_run(c, &g, y, a, b, NULL);
}

static bool has_elements(const haul_tensor *result)
{
    return result && result->count;
}

static haul_status backward_compute(haul__call *c)
{
    haul_tensor *g = c->operands[0], *dx = c->results[0], *dweight = c->results[1], *dbias = c->results[2];
    haul_status  status = has_elements(dx) ? multiply(c, dx, g, false, c->operands[2]) : HAUL_OK;
    if (!status && has_elements(dweight))
        status = multiply(c, dweight, g, true, c->operands[1]);
    return !status && has_elements(dbias) ? haul__sum_of_rows(c, dbias, g) : status;
}

static haul__cost backward_cost(const haul__call *c)
{
    const backward_attributes *at = haul__attributes_of(c);
    const haul_tensor         *g = c->operands[0], *x = c->operands[1], *weight = c->operands[2];
    double                     elements = (double)g->count, flops = at->wanted[2] ? elements : 0;
    if (at->wanted[0])
        flops += 2 * elements * (double)weight->shape.dims[1];
    if (at->wanted[1])
        flops += 2 * elements * (double)x->shape.dims[1];
    return (haul__cost){.flops = flops, .bytes = haul__call_bytes(c)};
}

/* dx = g weight, dweight = g^T x and dbias, the sum of g's rows: only those that are wanted. */
HAUL__OPERATION(linear_backward) = {
    .name = "haul_linear_backward",
    .operands = {{"g", .layout = HAUL__ANY_STRIDES},
                 {"x", .layout = HAUL__ANY_STRIDES, .optional = true},
                 {"weight", .layout = HAUL__ANY_STRIDES, .optional = true}},
    .results = {{"dx"}, {"dweight"}, {"dbias"}},
    .dtypes = HAUL__NUMBERS,
    .rule = HAUL__PROMOTED,
    .attributes_size = HAUL__ATTRIBUTES(backward_attributes),
    .infer = backward_infer,
    .compute = backward_compute,
    .implementations = &haul__gemm_implementations,
    .cost = backward_cost,
};

/* The same in operations, so that it can be differentiated again. */
static void compose_backward(haul__gradient *c, haul_tensor *g, haul_tensor *x)
{
    if (haul__wanted(c, 0))
        c->operands[0] = haul_matmul(g, c->saved[1]);
    if (haul__wanted(c, 1))
        c->operands[1] = haul_matmul(haul_transpose(g, 0, 1), x);
    if (haul__wanted(c, 2))
        c->operands[2] = haul_sum(g, HAUL_AXES(0));
}

static void apply_backward(haul__gradient *c, haul_tensor *g, haul_tensor *x)
{
    backward_attributes at = {{haul__wanted(c, 0), haul__wanted(c, 1), haul__wanted(c, 2)}};
    haul_tensor        *results[HAUL__MAX_RESULTS];
    haul_status status = haul__apply(&haul__operation_linear_backward, &at, HAUL__OPERANDS(g, x, c->saved[1]), results);
    for (int i = 0; i < 3; i++)
        if (at.wanted[i])
            c->operands[i] = status ? NULL : results[i];
}

/* y = x W^T + bias; with relu, only the g where y > 0 counts. */
static void linear_gradient(haul__gradient *c)
{
    const haul__linear_attributes *at = c->attributes;
    const haul_shape              *x_shape = haul__operand_shape(c, 0);
    haul_tensor                   *g = c->results[0], *x = c->saved[0];
    if (at->relu)
        g = haul__relu_backward(g, c->saved_results[0]);
    g = fold_rows(c, g);
    HAUL__ASSERT(haul__failed(g) || g->shape.ndim == 2);
    if (!haul__is_none(x))
        x = fold_rows(c, x);
    if (haul__differentiated(c))
        compose_backward(c, g, x);
    else
        apply_backward(c, g, x);
    if (haul__wanted(c, 0) && x_shape->ndim != 2)
        c->operands[0] = haul_reshape(c->operands[0], *x_shape);
}

HAUL__OPERATION(linear) = {
    .name = "haul_linear",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES, .saved_for = HAUL__FOR_1},
                 {"weight", .layout = HAUL__ANY_STRIDES, .saved_for = HAUL__FOR_0},
                 {"bias", .optional = true}},
    .results = {{"y", .saved_for = HAUL__FOR_ALL}},
    .dtypes = HAUL__NUMBERS,
    .rule = HAUL__PROMOTED,
    .autocast = HAUL__LOWER,
    .attributes_size = HAUL__ATTRIBUTES(haul__linear_attributes),
    .infer = linear_infer,
    .compute = linear_compute,
    .implementations = &haul__gemm_implementations,
    .gradient = linear_gradient,
    .cost = product_cost,
};

HAUL__FUNCTIONS_WITH(linear, haul__linear_attributes, {o->relu}, (haul_tensor * x, const haul_linear_options *o), x,
                     o->weight, haul__optional(o->bias))
