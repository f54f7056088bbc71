/* Losses over classes: nll_loss, and cross_entropy, which is log_softmax and nll_loss in one pass each way.
 *
 * A row is the classes of one place: one example of [N, C], one pixel of [N, C, H, W]. If the classes are innermost in
 * memory, each row is computed by itself; otherwise adjacent rows are computed side by side. The forward pass keeps the
 * logarithm of each row's sum of exponentials. The backward pass computes (softmax - onehot) g / N, with the same
 * weights and smoothing. A gradient that is to be differentiated again is composed of operations. */
#include "backends/index_check.h"
#include "base/assert.h"
#include "core/option.h"
#include "engine/copy.h"
#include "kernels/kernels.h"
#include "kernels/types.h"
#include "ops/loss/loss.h"

// clang-format off
/* kernel text begins */
#include "ops/reduce/rows_kernel.h"

typedef struct class_params {
    I64 items;          /* rows */
    I64 classes, inner; /* elements of a row, and the distance between them */
    I64 at[6];          /* offsets of the buffers, in their order; of the weights -1 if there are none */
    I64 total;          /* where the sum of the rows' weights is, by which their mean divides; -1 if there is none */
    I64 ignored;        /* rows of this class count nothing, if `ignores` */
    U64 smoothing;
    U32 check, ignores; /* check: haul__index_check */
    U32 of_mean, of_rows; /* g is the gradient of the mean; has an element for each row */
} class_params;

enum { CLASS_WIDTH = 128 }; /* neighbouring rows that are taken side by side */

#if defined(HAUL_KERNEL) && IS_FLOAT
enum { CLASS_ROOM = CHUNKED ? CLASS_WIDTH : 1 };
/* The weight of class c; none of a class that is out of range. */
FUNC A class_weight(GLOBAL const T *weight, I64 at, I64 c) { return at < 0 ? LIT(1.0) : c < 0 ? LIT(0.0) : LOAD(weight, at + c); }
/* An element of the vector that has v at c and zeros elsewhere. */
FUNC A class_onehot(I64 j, I64 c, A v) { return j == c ? v : LIT(0.0); }
/* True if rows of this class count nothing. */
FUNC I32 class_is_ignored(const class_params p, I64 label) { return p.ignores && label == p.ignored; }

/* Of a row x with label y: m = max x, log_s = log sum exp(x - m), and loss = w[y] (log_s - (x[y] - m)). With smoothing e it
 * is (1 - e) of that and e / C of the sum over all classes in place of y. In place of the element of a class that is out of
 * range stands 0. The backward pass needs log_s + m, the logarithm of sum exp(x). */
KERNEL6(cross_entropy, class_params, ACC, out, ACC, log_sum, const T, in, const I64, y, const T, weight, U32, fault)
{
    const A smooth = SCALAR(p.smoothing);
    FOR_ROWS(i) {
        const I64 n = p.classes, label = y[p.at[3] + i];
        GLOBAL const T *x = in + p.at[2] + i * n;
        const A m = ROW_MAX(x, n), log_s = M_LOG(ROW_EXP_SUM(x, n, m));
        const I32 is_ignored = class_is_ignored(p, label);
        const I64 c = is_ignored ? -1 : CHECKED_INDEX(fault, p.check, i, label, n);
        const A own = c < 0 ? LIT(0.0) : LOAD(x, c);
        A loss = (log_s - (own - m)) * class_weight(weight, p.at[4], c);
        if (smooth > 0) {
            EXPAND(row_sum, all, n, class_weight(weight, p.at[4], j) * (log_s - (LOAD(x, j) - m)))
            loss = loss * (LIT(1.0) - smooth) + all * (smooth / (A)n);
        }
        if (IS_FIRST_LANE) {
            out[p.at[0] + i] = is_ignored ? LIT(0.0) : loss;
            log_sum[p.at[1] + i] = log_s + m;
        }
    }
}

/* The same for rows whose elements are `step` apart, side by side, each in order. */
KERNEL6(cross_entropy_columns, class_params, ACC, out, ACC, log_sum, const T, in, const I64, y, const T, weight, U32, fault)
{
    const A smooth = SCALAR(p.smoothing);
    const I64 n = p.classes, step = p.inner;
    for (I64 i = ITEMS_BEGIN; i < ITEMS_END;) {
        const I64 side = REMAINDER(i, step), at = (i - side) * n + side;
        GLOBAL const T *x = in + p.at[2] + at;
        A m[CLASS_ROOM], log_s[CLASS_ROOM], all[CLASS_ROOM];
        const int width = NEIGHBOURS(step - side, ITEMS_END - i, CLASS_WIDTH);
        for (int l = 0; l < width; l++) m[l] = LOAD(x, l);
        for (I64 j = 1; j < n; j++)
            for (int l = 0; l < width; l++) m[l] = M_MAX(m[l], LOAD(x, j * step + l));
        for (int l = 0; l < width; l++) log_s[l] = 0;
        for (I64 j = 0; j < n; j++)
            for (int l = 0; l < width; l++) log_s[l] += M_EXP(LOAD(x, j * step + l) - m[l]);
        for (int l = 0; l < width; l++) log_s[l] = M_LOG(log_s[l]);
        for (int l = 0; l < width; l++) all[l] = 0;
        for (I64 j = 0; j < n && smooth > 0; j++) {
            const A w = class_weight(weight, p.at[4], j);
            for (int l = 0; l < width; l++) all[l] += w * (log_s[l] - (LOAD(x, j * step + l) - m[l]));
        }
        for (int l = 0; l < width; l++) {
            const I64 label = y[p.at[3] + i + l];
            const I32 is_ignored = class_is_ignored(p, label);
            const I64 c = is_ignored ? -1 : CHECKED_INDEX(fault, p.check, i + l, label, n);
            const A own = c < 0 ? LIT(0.0) : LOAD(x, c * step + l);
            A loss = (log_s[l] - (own - m[l])) * class_weight(weight, p.at[4], c);
            if (smooth > 0) loss = loss * (LIT(1.0) - smooth) + all[l] * (smooth / (A)n);
            out[p.at[0] + i + l] = is_ignored ? LIT(0.0) : loss;
            log_sum[p.at[1] + i + l] = log_s[l] + m[l];
        }
        i += ITEMS_STEP(width);
    }
}

/* loss = -w[y] log_p[y], smoothed likewise. */
KERNEL5(nll_rows, class_params, ACC, out, const T, log_p, const I64, y, const T, weight, U32, fault)
{
    const A smooth = SCALAR(p.smoothing);
    const I64 n = p.classes, step = p.inner;
    FOR_ITEMS(i) {
        const I64 side = step == 1 ? 0 : REMAINDER(i, step), label = y[p.at[2] + i];
        GLOBAL const T *v = log_p + p.at[1] + (i - side) * n + side;
        const I32 is_ignored = class_is_ignored(p, label);
        const I64 c = is_ignored ? -1 : CHECKED_INDEX(fault, p.check, i, label, n);
        const A own = LOAD(v, M_MAX_OF(c, 0) * step);
        A loss = c < 0 ? LIT(0.0) : -own * class_weight(weight, p.at[3], c);
        if (smooth > 0) {
            A all = 0;
            for (I64 j = 0; j < n; j++) all -= class_weight(weight, p.at[3], j) * LOAD(v, j * step);
            loss = loss * (LIT(1.0) - smooth) + all * (smooth / (A)n);
        }
        out[p.at[0] + i] = is_ignored ? LIT(0.0) : loss;
    }
}

/* The weight of each row in the mean. */
KERNEL3(class_weights, class_params, ACC, out, const I64, y, const T, weight)
{
    FOR_ITEMS(i) {
        const I64 c = y[p.at[1] + i];
        const I32 counts = !class_is_ignored(p, c) && c >= 0 && c < p.classes;
        out[p.at[0] + i] = counts ? class_weight(weight, p.at[2], c) : LIT(0.0);
    }
}

KERNEL3(class_mean, class_params, T, out, const ACC, sum, const ACC, total)
{
    FOR_ITEMS(i) STORE(out, p.at[0] + i, sum[p.at[1]] / total[p.at[2]]);
}

/* With e for smoothing, t is (1 - e) w[y] at y and e / C w[j] everywhere, times g. dx is IS_SOFT softmax(x) times the sum of
 * t, minus t; softmax(x) is exp(x - log_sum). Without smoothing it is (softmax(x) - onehot(y)) w[y] g. */
TEMPLATE(class_backward, NAME, IS_SOFT)
KERNEL7(NAME, class_params, T, out, const T, in, const ACC, log_sum, const I64, y, const T, weight, const T, g, U32, fault)
{
    const A smooth = SCALAR(p.smoothing);
    const A divisor = p.total >= 0 ? log_sum[p.total] : p.of_mean ? (A)p.items : LIT(1.0);
    const A first = LOAD(g, p.at[5]) / divisor;
    if (p.at[4] < 0 && !p.ignores && !p.of_rows && !(smooth > 0)) { /* alone the loop keeps its constants in registers */
        FOR_ROWS(i) {
            const I64 n = p.classes, c = CHECKED_INDEX(fault, p.check, i, y[p.at[3] + i], n);
            const A shift = IS_SOFT ? log_sum[p.at[2] + i] : 0;
            GLOBAL const T *x = in + p.at[1] + i * n;
            GLOBAL T *dx = out + p.at[0] + i * n;
            EACH_OF_ROW(j, n)
                STORE(dx, j, IS_SOFT ? (M_EXP(LOAD(x, j) - shift) - class_onehot(j, c, LIT(1.0))) * first : class_onehot(j, c, -first));
        }
        return;
    }
    FOR_ROWS(i) {
        const I64 n = p.classes, label = y[p.at[3] + i];
        const I32 is_ignored = class_is_ignored(p, label);
        const I64 c = is_ignored ? -1 : CHECKED_INDEX(fault, p.check, i, label, n);
        const A each = p.of_rows ? LOAD(g, p.at[5] + i) / divisor : first;
        const A hard = p.at[4] < 0 ? each : each * class_weight(weight, p.at[4], c);
        const A shift = IS_SOFT ? log_sum[p.at[2] + i] : 0;
        GLOBAL const T *x = in + p.at[1] + i * n;
        GLOBAL T *dx = out + p.at[0] + i * n;
        if (is_ignored) {
            EACH_OF_ROW(j, n) STORE(dx, j, LIT(0.0));
        } else if (smooth > 0) {
            EXPAND(row_sum, weights, n, class_weight(weight, p.at[4], j))
            const A at_y = hard * (LIT(1.0) - smooth), flat = each * (smooth / (A)n), all = at_y + flat * weights;
            EACH_OF_ROW(j, n) {
                const A t = class_onehot(j, c, at_y) + flat * class_weight(weight, p.at[4], j);
                STORE(dx, j, IS_SOFT ? M_EXP(LOAD(x, j) - shift) * all - t : -t);
            }
        } else {
            EACH_OF_ROW(j, n)
                STORE(dx, j, IS_SOFT ? (M_EXP(LOAD(x, j) - shift) - class_onehot(j, c, LIT(1.0))) * hard : class_onehot(j, c, -hard));
        }
    }
}

KERNEL7(NAME##_columns, class_params, T, out, const T, in, const ACC, log_sum, const I64, y, const T, weight, const T, g, U32, fault)
{
    const A smooth = SCALAR(p.smoothing);
    const A divisor = p.total >= 0 ? log_sum[p.total] : p.of_mean ? (A)p.items : LIT(1.0);
    const I64 n = p.classes, step = p.inner;
    A weights = 0;
    for (I64 j = 0; j < n && smooth > 0; j++) weights += class_weight(weight, p.at[4], j);
    for (I64 i = ITEMS_BEGIN; i < ITEMS_END;) {
        const I64 side = REMAINDER(i, step), at = (i - side) * n + side;
        GLOBAL const T *x = in + p.at[1] + at;
        GLOBAL T *dx = out + p.at[0] + at;
        I32 c[CLASS_ROOM], counts[CLASS_ROOM];
        A at_y[CLASS_ROOM], flat[CLASS_ROOM], shift[CLASS_ROOM];
        const int width = NEIGHBOURS(step - side, ITEMS_END - i, CLASS_WIDTH);
        for (int l = 0; l < width; l++) {
            const I64 label = y[p.at[3] + i + l];
            const A each = LOAD(g, p.at[5] + (p.of_rows ? i + l : 0)) / divisor;
            counts[l] = !class_is_ignored(p, label);
            c[l] = counts[l] ? (I32)CHECKED_INDEX(fault, p.check, i + l, label, n) : -1;
            at_y[l] = each * class_weight(weight, p.at[4], c[l]) * (LIT(1.0) - smooth);
            flat[l] = each * (smooth / (A)n);
            shift[l] = IS_SOFT ? log_sum[p.at[2] + i + l] : 0;
        }
        for (I64 j = 0; j < n; j++) {
            const A w = class_weight(weight, p.at[4], j);
            VECTOR_LOOP for (int l = 0; l < width; l++) {
                const A t = (c[l] == (I32)j ? at_y[l] : LIT(0.0)) + flat[l] * w;
                const A s = IS_SOFT ? M_EXP(LOAD(x, j * step + l) - shift[l]) * (at_y[l] + flat[l] * weights) - t : -t;
                STORE(dx, j * step + l, counts[l] ? s : LIT(0.0));
            }
        }
        i += ITEMS_STEP(width);
    }
}
END_TEMPLATE

EXPAND(class_backward, cross_entropy_backward, 1)
EXPAND(class_backward, nll_backward, 0)
#endif
/* kernel text ends */
// clang-format on

/* ---- what both losses share ---- */

/* The operands of the losses. */
enum { X, Y, WEIGHT };
/* The operands of their gradients: nll_loss_backward has no x. log_sum ends with the sum of the weights if needed. */
enum { LOG_SUM = 1, LABELS, WEIGHTS, G };

#define LABELS_SPEC "y", .accepts = HAUL__INTEGERS, .becomes = HAUL_I64
#define WEIGHT_SPEC "weight", .optional = true, .accepts = HAUL__FLOATS

/* 64-bit sizes of classes would neither fit the kernels' comparisons nor any device. */
static haul_status check_classes(const haul__call *c, haul__class_attributes *a)
{
    const haul_shape *x = &c->operands[X]->shape;
    a->axis = x->ndim > 1;
    a->classes = x->ndim ? x->dims[a->axis] : 0;
    if (a->classes < 1 || a->classes > INT32_MAX)
        return haul__refuse_shape(c, X, "[C], [N, C] or [N, C, ...] with at least one class is expected");
    if (!haul__has(c, WEIGHT))
        return HAUL_OK;
    HAUL__ASSERT(a->axis < x->ndim);
    if (c->wanted >> WEIGHT & 1)
        return haul__fail(HAUL_GRAPH, c->operation->name, "weight",
                          "weight requires a gradient, which this loss does not have; detach it");
    if (!haul__shape_equal(&c->operands[WEIGHT]->shape, &HAUL_SHAPE(a->classes)))
        return haul__refuse_shape(c, WEIGHT, "one dimension is expected, with an element for each class");
    return HAUL_OK;
}

/* y has the shape of the logits without the class axis. Layers of sequences return logits whose classes are last. */
static haul_status check_labels(const haul__call *c, int axis)
{
    char              have[96], want[96];
    haul_shape        rows = c->operands[X]->shape;
    const haul_shape *y = &c->operands[Y]->shape;
    const char       *x = c->operation->operands[X].name;
    rows.ndim--;
    const bool last = rows.ndim == 2 && haul__shape_equal(y, &rows);
    HAUL__ASSERT(rows.ndim >= 0 && axis <= rows.ndim);
    for (int d = axis; d < rows.ndim; d++)
        rows.dims[d] = rows.dims[d + 1];
    if (haul__shape_equal(y, &rows))
        return HAUL_OK;
    haul__shape_text(y, have, sizeof have);
    haul__shape_text(&rows, want, sizeof want);
    if (last)
        return haul__fail(HAUL_SHAPE, c->operation->name, "y",
                          "y has shape %s; %s is expected, because axis 1 of %s has the classes; if its last axis has "
                          "them, pass haul_transpose(%s, 1, -1)",
                          have, want, x, x);
    return haul__fail(HAUL_SHAPE, c->operation->name, "y",
                      "y has shape %s; %s is expected, the class of each row of %s", have, want, x);
}

static haul_status infer_loss(haul__call *c)
{
    haul__class_attributes *a = haul__attributes(c);
    if (haul__check_reduction(c, a->reduction, false) || check_classes(c, a) || check_labels(c, a->axis))
        return haul_error_status();
    if (!(a->smoothing >= 0 && a->smoothing <= 1))
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "label_smoothing",
                          "label_smoothing is %g; 0 to 1 is expected", a->smoothing);
    a->weighted = a->reduction == HAUL_REDUCE_MEAN && (a->ignores || haul__has(c, WEIGHT));
    return haul__describe(c, 0, c->operands[X]->dtype,
                          a->reduction == HAUL_REDUCE_NONE ? &c->operands[Y]->shape : &HAUL_SCALAR_SHAPE);
}

/* A row takes little work: this many elements make a piece. */
static int64_t grain(int64_t classes)
{
    return 1 + 8192 / (classes + 1);
}

/* x may be NULL, which means row-major. */
static class_params params_of(const haul__class_attributes *a, const haul_tensor *x, const haul_tensor *y,
                              haul__index_check_id check, haul_dtype dtype)
{
    class_params p = {.items = y->count, .classes = a->classes, .inner = 1, .total = -1, .ignored = a->ignored};
    for (int d = a->axis; d < y->shape.ndim && !(x && haul__wants_channels_last(x)); d++)
        p.inner *= y->shape.dims[d]; /* part of a product that was checked */
    HAUL__ASSERT(p.classes > 0 && (!x || x->count == p.items * p.classes));
    p.ignores = a->ignores;
    p.smoothing = haul__scalar_bits(dtype, a->smoothing);
    p.check = haul__index_check(check, 0);
    return p;
}

/* The weights in the kernels' dtype, or any buffer if there are none. Returns NULL on failure. */
static haul_tensor *weights_of(const haul__call *c, int operand, haul_tensor *otherwise, class_params *p, int at)
{
    p->at[at] = -1;
    if (!haul__has(c, operand))
        return otherwise;
    haul_tensor *weight = haul__as_dtype(c, c->operands[operand], otherwise->dtype);
    HAUL__ASSERT(!weight || weight->count == p->classes);
    if (weight)
        p->at[at] = weight->offset;
    return weight;
}

/* Computes the result from the losses of rows. `total` receives the divisor of their weighted mean. */
static haul_status reduce_rows(const haul__call *c, class_params p, haul_tensor *rows, haul_tensor *total)
{
    const haul__class_attributes *a = haul__attributes_of(c);
    haul_tensor                  *x = c->operands[X], *y = c->operands[Y];
    HAUL__ASSERT(rows->count == y->count && (!a->weighted || total));
    if (!a->weighted)
        return haul__reduce_losses(c, a->reduction, rows);
    haul_tensor *weights = haul__temporary(c, rows->dtype, &rows->shape);
    haul_tensor *sum = haul__temporary(c, rows->dtype, &HAUL_SCALAR_SHAPE), *weight = weights_of(c, WEIGHT, x, &p, 2);
    if (!weights || !sum || !weight)
        return haul_error_status();
    p.at[0] = weights->offset;
    p.at[1] = y->offset;
    if (haul__launch_kernel(c, HAUL__K_class_weights, x->dtype, HAUL__OUT(weights), HAUL__IN(y, weight),
                            HAUL__PARAMS(p), .grain = 4096) ||
        haul__sum_of_all(c, total, weights, 0) || haul__sum_of_all(c, sum, rows, 0))
        return haul_error_status();
    HAUL__ASSERT(sum->count == 1 && total->count == 1);
    p = (class_params){.items = 1, .at = {c->results[0]->offset, sum->offset, total->offset}};
    return haul__launch_kernel(c, HAUL__K_class_mean, x->dtype, .outs = c->results, .out_count = 1,
                               HAUL__IN(sum, total), HAUL__PARAMS(p), .grain = 1);
}

/* The tensor for the losses of rows: the result itself if it is nothing else. */
static haul_tensor *rows_for(const haul__call *c)
{
    const haul__class_attributes *a = haul__attributes_of(c);
    haul_tensor                  *y = c->operands[Y], *loss = c->results[0];
    HAUL__ASSERT(loss->count == (a->reduction == HAUL_REDUCE_NONE ? y->count : 1));
    haul_dtype dtype = haul__sum_dtype(c->operands[X]->dtype);
    return a->reduction == HAUL_REDUCE_NONE && loss->dtype == dtype ? loss : haul__temporary(c, dtype, &y->shape);
}

/* ---- gradients ---- */

static haul_status backward_infer(haul__call *c)
{
    const haul__class_attributes *a = haul__attributes(c);
    haul_shape                    shape = c->operands[LABELS]->shape;
    for (int d = shape.ndim++; d > a->axis; d--)
        shape.dims[d] = shape.dims[d - 1];
    HAUL__ASSERT(shape.ndim <= HAUL_MAX_DIMS && a->axis < shape.ndim);
    shape.dims[a->axis] = a->classes;
    return haul__describe_format(c, 0, c->operands[G]->dtype, &shape,
                                 haul__has(c, X) && haul__wants_channels_last(c->operands[X]));
}

static haul_status backward_compute(haul__call *c)
{
    const haul__class_attributes *a = haul__attributes(c);
    const bool                    soft = haul__has(c, X);
    haul_tensor                  *g = c->operands[G], *y = c->operands[LABELS], *dx = c->results[0];
    haul_tensor *x = soft ? c->operands[X] : g, *log_sum = haul__has(c, LOG_SUM) ? c->operands[LOG_SUM] : g;
    class_params p = params_of(a, soft ? x : NULL, y,
                               soft ? HAUL__CHECK_cross_entropy_backward : HAUL__CHECK_nll_loss_backward, g->dtype);
    haul_tensor *weight = weights_of(c, WEIGHTS, g, &p, 4);
    if (!weight)
        return haul_error_status();
    p.at[0] = dx->offset, p.at[1] = x->offset, p.at[2] = log_sum->offset, p.at[3] = y->offset, p.at[5] = g->offset;
    HAUL__ASSERT(dx->count == p.items * p.classes && (a->reduction != HAUL_REDUCE_NONE || g->count == y->count));
    p.of_mean = a->reduction == HAUL_REDUCE_MEAN;
    p.of_rows = a->reduction == HAUL_REDUCE_NONE;
    HAUL__ASSERT(!a->weighted || haul__has(c, LOG_SUM));
    if (a->weighted)
        p.total = log_sum->offset + log_sum->count - 1;
    const int kernel = c->operation->kernel;
    return haul__launch_kernel(c, p.inner > 1 ? haul__kernel_infos[kernel].columns : kernel, g->dtype,
                               .outs = c->results, .out_count = 1, HAUL__IN(x, log_sum, y, weight, g), HAUL__PARAMS(p),
                               .grain = grain(p.classes), .checks = true);
}

static void nll_second(haul__gradient *c);

/* -g w[y] / N at each row's class and zeros elsewhere: the gradient of log_p, which is [N, C, ...]. */
HAUL__OPERATION(nll_loss_backward) = {
    .name = "haul_nll_loss_backward",
    .operands = {{"x", .optional = true},
                 {"total", .optional = true, .accepts = HAUL__FLOATS},
                 {LABELS_SPEC, .saved_for = HAUL__FOR_ALL},
                 {WEIGHT_SPEC, .saved_for = HAUL__FOR_ALL},
                 {"g"}},
    .results = {{"dx"}},
    .dtypes = HAUL__FLOATS,
    .kernel = HAUL__K_nll_backward,
    .attributes_size = HAUL__ATTRIBUTES(haul__class_attributes),
    .infer = backward_infer,
    .compute = backward_compute,
    .gradient = nll_second,
};

/* (softmax(x) - onehot(y)) g w[y] / N; log_sum is the logarithm of each row's sum of exponentials. */
HAUL__OPERATION(cross_entropy_backward) = {
    .name = "haul_cross_entropy_backward",
    .operands = {{"x", .layout = HAUL__BATCH_FORMAT},
                 {"log_sum", .accepts = HAUL__FLOATS},
                 {LABELS_SPEC},
                 {WEIGHT_SPEC},
                 {"g"}},
    .results = {{"dx"}},
    .dtypes = HAUL__FLOATS,
    .kernel = HAUL__K_cross_entropy_backward,
    .attributes_size = HAUL__ATTRIBUTES(haul__class_attributes),
    .infer = backward_infer,
    .compute = backward_compute,
    .flops = 4,
};

/* ---- nll_loss ---- */

static haul_status nll_infer(haul__call *c)
{
    const haul__class_attributes *a = haul__attributes(c);
    if (infer_loss(c))
        return haul_error_status();
    if (a->weighted)
        return haul__describe(c, 1, haul__sum_dtype(c->operands[X]->dtype), &HAUL_SCALAR_SHAPE);
    haul__leave_out(c, 1);
    return HAUL_OK;
}

static haul_status nll_compute(haul__call *c)
{
    const haul__class_attributes *a = haul__attributes(c);
    haul_tensor *log_p = c->operands[X], *y = c->operands[Y], *rows = rows_for(c), *total = c->results[1];
    class_params p = params_of(a, log_p, y, HAUL__CHECK_nll_loss, log_p->dtype);
    haul_tensor *weight = weights_of(c, WEIGHT, log_p, &p, 3);
    if (a->weighted && !total)
        total = haul__temporary(c, haul__sum_dtype(log_p->dtype), &HAUL_SCALAR_SHAPE);
    if (!rows || !weight || (a->weighted && !total))
        return haul_error_status();
    HAUL__ASSERT(rows->count == y->count && rows->dtype == haul__sum_dtype(log_p->dtype));
    HAUL__ASSERT(log_p->count == y->count * p.classes);
    p.at[0] = rows->offset, p.at[1] = log_p->offset, p.at[2] = y->offset;
    if (haul__launch_kernel(c, HAUL__K_nll_rows, log_p->dtype, HAUL__OUT(rows), HAUL__IN(log_p, y, weight),
                            HAUL__PARAMS(p), .grain = 4096, .checks = true))
        return haul_error_status();
    return reduce_rows(c, p, rows, total);
}

/* One element of each row is read. */
static haul__cost nll_cost(const haul__call *c)
{
    const haul_tensor *log_p = c->operands[X], *y = c->operands[Y];
    int64_t            row = (int64_t)(haul__dtype_size(log_p->dtype) + sizeof(int64_t));
    return (haul__cost){(double)y->count, y->count * row};
}

static void nll_gradient(haul__gradient *c)
{
    c->operands[X] = HAUL__APPLY(nll_loss_backward, c->attributes, haul_none, c->saved_results[1], c->saved[Y],
                                 c->saved[WEIGHT], c->results[0]);
}

HAUL__OPERATION(nll_loss) = {
    .name = "haul_nll_loss",
    .operands = {{"log_p", .layout = HAUL__BATCH_FORMAT},
                 {LABELS_SPEC, .saved_for = HAUL__FOR_0},
                 {WEIGHT_SPEC, .saved_for = HAUL__FOR_0}},
    .results = {{"loss"}, {"total", .hidden = true, .saved_for = HAUL__FOR_0}},
    .dtypes = HAUL__FLOATS,
    .autocast = HAUL__WIDE,
    .attributes_size = HAUL__ATTRIBUTES(haul__class_attributes),
    .infer = nll_infer,
    .compute = nll_compute,
    .gradient = nll_gradient,
    .cost = nll_cost,
};

/* nll_loss_backward is linear in g, so its gradient is nll_loss of what arrives. */
static void nll_second(haul__gradient *c)
{
    c->operands[G] = HAUL__APPLY(nll_loss, c->attributes, c->results[0], c->saved[LABELS], c->saved[WEIGHTS]);
}

/* ---- cross_entropy ---- */

/* For a weighted mean, the sum of the weights is stored after the rows. */
static haul_status cross_entropy_infer(haul__call *c)
{
    const haul__class_attributes *a = haul__attributes(c);
    if (infer_loss(c))
        return haul_error_status();
    return haul__describe(c, 1, haul__sum_dtype(c->operands[X]->dtype),
                          &HAUL_SHAPE(c->operands[Y]->count + a->weighted));
}

static haul_status cross_entropy_compute(haul__call *c)
{
    const haul__class_attributes *a = haul__attributes(c);
    haul_tensor *x = c->operands[X], *y = c->operands[Y], *rows = rows_for(c), *log_sum = c->results[1];
    class_params p = params_of(a, x, y, HAUL__CHECK_cross_entropy, x->dtype);
    haul_tensor *weight = weights_of(c, WEIGHT, x, &p, 4), *total = NULL;
    if (!log_sum)
        log_sum = haul__temporary(c, haul__sum_dtype(x->dtype), &HAUL_SHAPE(y->count + a->weighted));
    if (log_sum && a->weighted)
        total = haul__view_as(c, log_sum, &HAUL_SCALAR_SHAPE, NULL, log_sum->offset + y->count);
    if (!rows || !weight || !log_sum || (a->weighted && !total))
        return haul_error_status();
    HAUL__ASSERT(log_sum->count == y->count + a->weighted && log_sum->dtype == rows->dtype);
    p.at[0] = rows->offset, p.at[1] = log_sum->offset, p.at[2] = x->offset, p.at[3] = y->offset;
    HAUL__ASSERT(x->count == y->count * p.classes);
    const int kernel = HAUL__K_cross_entropy;
    if (haul__launch_kernel(c, p.inner > 1 ? haul__kernel_infos[kernel].columns : kernel, x->dtype,
                            HAUL__OUT(rows, log_sum), HAUL__IN(x, y, weight), HAUL__PARAMS(p),
                            .grain = grain(p.classes), .checks = true))
        return haul_error_status();
    return reduce_rows(c, p, rows, total);
}

/* If t is the gradient of log_softmax(x), this is t - softmax(x) sum(t). */
static void cross_entropy_gradient(haul__gradient *c)
{
    haul_tensor       *g = c->results[0], *x = c->saved[X], *log_sum = c->saved_results[1];
    const int          axis = ((const haul__class_attributes *)c->attributes)->axis;
    const bool         second = haul__differentiated(c);
    haul_tensor *const operands[] = {second ? haul_none : x, log_sum, c->saved[Y], c->saved[WEIGHT], g};
    haul_tensor *t = haul__apply1(second ? &haul__operation_nll_loss_backward : &haul__operation_cross_entropy_backward,
                                  c->attributes, operands, 5);
    if (second)
        t = haul_sub(t, haul_mul(haul_softmax(x, axis), haul_sum(t, HAUL_AXES(axis), .keepdim = true)));
    c->operands[X] = t;
}

HAUL__OPERATION(cross_entropy) = {
    .name = "haul_cross_entropy",
    .operands = {{"logits", .layout = HAUL__BATCH_FORMAT, .saved_for = HAUL__FOR_0},
                 {LABELS_SPEC, .saved_for = HAUL__FOR_0},
                 {WEIGHT_SPEC, .saved_for = HAUL__FOR_0}},
    .results = {{"loss"}, {"log_sum", .hidden = true, .saved_for = HAUL__FOR_0}},
    .dtypes = HAUL__FLOATS,
    .autocast = HAUL__WIDE,
    .attributes_size = HAUL__ATTRIBUTES(haul__class_attributes),
    .infer = cross_entropy_infer,
    .compute = cross_entropy_compute,
    .gradient = cross_entropy_gradient,
    .flops = 4,
};

/* ---- public ---- */

#define ATTRIBUTES(o, smooth)                                                                                          \
    (&(haul__class_attributes){.reduction = (o)->reduction,                                                            \
                               .ignores = (o)->ignore_index != 0,                                                      \
                               .ignored = (o)->ignore_index == HAUL_ZERO ? 0 : (o)->ignore_index,                      \
                               .smoothing = smooth})
#define INPUTS(o) (o)->y, haul__optional((o)->weight)

haul_tensor *haul_nll_loss_with(haul_tensor *log_p, const haul_nll_loss_options *o)
{
    return o ? HAUL__APPLY(nll_loss, ATTRIBUTES(o, 0), log_p, INPUTS(o)) : haul__no_options(&haul__operation_nll_loss);
}

/* True if the target of cross entropy holds probabilities of classes rather than indices. */
static bool are_probabilities(const haul_tensor *logits, const haul_tensor *y)
{
    return haul_tensor_is_valid(logits) && haul_tensor_is_valid(y) && haul_dtype_is_float(y->dtype) &&
           haul__shape_equal(&logits->shape, &y->shape);
}

#define SMOOTHING(o) haul__option((o)->label_smoothing, 0)

haul_tensor *haul_cross_entropy_with(haul_tensor *logits, const haul_cross_entropy_options *o)
{
    if (!o)
        return haul__no_options(&haul__operation_cross_entropy);
    if (are_probabilities(logits, o->y))
        return haul__cross_entropy_of_probabilities(logits, o);
    return HAUL__APPLY(cross_entropy, ATTRIBUTES(o, SMOOTHING(o)), logits, INPUTS(o));
}
