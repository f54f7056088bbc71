/* Connectionist temporal classification (Graves, Fernandez, Gomez, Schmidhuber 2006): the probability of a sequence of
 * labels, summed over all ways to spread them over frames, with blanks between.
 *
 * The labels with a blank before, between and behind them are 2 L + 1 places. alpha[t][s] is the logarithm of the
 * probability of all ways through the frames up to t that end at place s; beta[t][s] that of the frames from t on. An
 * example is a work item, in one order on every device. */
#include <math.h>

#include "backends/index_check.h"
#include "base/assert.h"
#include "engine/copy.h"
#include "kernels/kernels.h"
#include "kernels/types.h"
#include "ops/loss/loss.h"

// clang-format off
/* kernel text begins */
typedef struct ctc_params {
    I64 items;                   /* examples */
    I64 frames, classes, blank;
    I64 longest, total;          /* labels of a row of targets, or -1 if they are one after the other; all labels */
    I64 rows;                    /* elements of alpha before the losses */
    I64 at[7];                   /* offsets of the buffers */
    U32 check_target, check_frames, check_length; /* haul__index_check */
    U32 zero_infinity;
} ctc_params;

#if defined(HAUL_KERNEL) && IS_FLOAT && !IS_HALF
/* Where an example is: its labels in targets, and its rows of alpha and of beta. */
typedef struct ctc_place {
    I64 frames, length, first, most; /* most: labels that there are from `first` on */
    I64 alpha, beta, width;
} ctc_place;
FUNC ctc_place ctc_place_of(const ctc_params p, GLOBAL const I64 *lengths, I64 i)
{
    ctc_place e;
    e.frames = lengths[i];
    e.length = lengths[p.items + i];
    e.first = 0;
    for (I64 m = 0; m < i && p.longest < 0; m++) {
        const I64 before = M_MAX_OF(lengths[p.items + m], (I64)0);
        e.first = before > p.total - e.first ? p.total : e.first + before;
    }
    if (p.longest >= 0) e.first = i * p.longest;
    e.most = p.longest < 0 ? p.total - e.first : p.longest;
    e.beta = p.longest < 0 ? 2 * e.first + i : i * (2 * p.longest + 1);
    e.alpha = e.beta * p.frames;
    e.width = 2 * e.length + 1;
    return e;
}
FUNC I32 ctc_is_sound(const ctc_params p, GLOBAL const I64 *targets, ctc_place e)
{
    if (e.frames < 0 || e.frames > p.frames || e.length < 0 || e.length > e.most) return 0;
    for (I64 k = 0; k < e.length; k++)
        if (targets[e.first + k] < 0 || targets[e.first + k] >= p.classes) return 0;
    return 1;
}
/* Notes the first wrong number of an example. */
FUNC void ctc_refuse(const ctc_params p, GLOBAL const I64 *targets, ctc_place e, I64 i, GLOBAL U32 *fault)
{
    if (CHECKED_INDEX(fault, p.check_frames, i, e.frames, p.frames + 1) < 0) return;
    if (CHECKED_INDEX(fault, p.check_length, i, e.length, e.most + 1) < 0) return;
    for (I64 k = 0; k < e.length; k++)
        if (CHECKED_INDEX(fault, p.check_target, e.first + k, targets[e.first + k], p.classes) < 0) return;
}
/* The class of a place. */
FUNC I64 ctc_class(const ctc_params p, GLOBAL const I64 *labels, I64 s) { return s & 1 ? labels[s >> 1] : p.blank; }
FUNC A ctc_never(void) { return -(LIT(1.0) / LIT(0.0)); }
/* log(exp(a) + exp(b) + exp(c)) */
FUNC A ctc_together(A a, A b, A c)
{
    const A most = M_MAX(a, M_MAX(b, c));
    if (most == ctc_never()) return most;
    return M_LOG(M_EXP(a - most) + M_EXP(b - most) + M_EXP(c - most)) + most;
}

KERNEL6(ctc_losses, ctc_params, T, out, T, alpha, const T, log_p, const I64, targets, const I64, lengths, U32, fault)
{
    FOR_ITEMS(i) {
        const ctc_place e = ctc_place_of(p, lengths + p.at[4], i);
        GLOBAL const I64 *labels = targets + p.at[3] + e.first;
        GLOBAL T *a = alpha + p.at[1] + e.alpha;
        A loss = e.length > 0 ? LIT(1.0) / LIT(0.0) : LIT(0.0); /* of no frames */
        if (!ctc_is_sound(p, targets + p.at[3], e)) {
            ctc_refuse(p, targets + p.at[3], e, i, fault);
            loss = 0;
        } else if (e.frames > 0) {
            for (I64 t = 0; t < e.frames; t++) {
                GLOBAL const T *lp = log_p + p.at[2] + (t * p.items + i) * p.classes;
                for (I64 s = 0; s < e.width; s++) {
                    const I64 c = ctc_class(p, labels, s);
                    GLOBAL const T *before = a + (t - 1) * e.width + s;
                    A sum = s < 2 ? LIT(0.0) : ctc_never();
                    if (t > 0) {
                        const I32 skips = s > 1 && (s & 1) && c != ctc_class(p, labels, s - 2);
                        sum = ctc_together(before[0], s > 0 ? before[-1] : ctc_never(), skips ? before[-2] : ctc_never());
                    }
                    a[t * e.width + s] = sum + lp[c];
                }
            }
            GLOBAL const T *last = a + e.frames * e.width;
            loss = -ctc_together(last[-1], e.length > 0 ? last[-2] : ctc_never(), ctc_never());
        }
        alpha[p.at[1] + p.rows + i] = loss;
        out[p.at[0] + i] = p.zero_infinity && loss == -ctc_never() ? LIT(0.0) : loss;
    }
}

/* Of a class at a frame, -g times the probability that the frame has it, given the labels: the sum of
 * exp(alpha + beta - log_p + loss) over its places. beta is a row for each example. */
KERNEL7(ctc_backward, ctc_params, T, out, T, beta, const T, log_p, const T, alpha, const I64, targets, const I64, lengths, const T, g)
{
    FOR_ITEMS(i) {
        const ctc_place e = ctc_place_of(p, lengths + p.at[5], i);
        GLOBAL const I64 *labels = targets + p.at[4] + e.first;
        GLOBAL const T *a = alpha + p.at[3] + e.alpha;
        GLOBAL T *b = beta + p.at[1] + e.beta;
        const A loss = alpha[p.at[3] + p.rows + i], scale = g[p.at[6] + i];
        const I32 counts = ctc_is_sound(p, targets + p.at[4], e) && !(p.zero_infinity && loss == -ctc_never());
        for (I64 t = p.frames - 1; t >= 0; t--) {
            GLOBAL const T *lp = log_p + p.at[2] + (t * p.items + i) * p.classes;
            GLOBAL T *dx = out + p.at[0] + (t * p.items + i) * p.classes;
            for (I64 c = 0; c < p.classes; c++) dx[c] = 0;
            if (!counts || t >= e.frames) continue;
            for (I64 s = 0; s < e.width; s++) {
                const I64 c = ctc_class(p, labels, s);
                A sum = s >= e.width - 2 ? LIT(0.0) : ctc_never();
                if (t < e.frames - 1) {
                    const I32 skips = s + 2 < e.width && (s & 1) && c != ctc_class(p, labels, s + 2);
                    sum = ctc_together(b[s], s + 1 < e.width ? b[s + 1] : ctc_never(), skips ? b[s + 2] : ctc_never());
                }
                b[s] = sum + lp[c];
                const A here = a[t * e.width + s] + sum; /* without the frame's own log_p a second time */
                if (here != ctc_never()) dx[c] -= M_EXP(here + loss) * scale;
            }
        }
    }
}
#endif
/* kernel text ends */
// clang-format on

/* The operands; of the gradient alpha and g follow the lengths. */
enum { LOG_P, TARGETS, LENGTHS, ALPHA, G };

static haul_status overflow(const haul__call *c)
{
    return haul__fail(HAUL_SHAPE, c->operation->name, "targets",
                      "frames times labels of all examples are too many: less than 2^62 numbers are expected");
}

/* Offsets are left at 0. */
static haul_status describe(const haul__call *c, ctc_params *p, int64_t *row)
{
    const haul__ctc_attributes *a = haul__attributes_of(c);
    const haul_shape           *x = &c->operands[LOG_P]->shape, *y = &c->operands[TARGETS]->shape;
    HAUL__ASSERT(x->ndim == 3 && (y->ndim == 1 || y->ndim == 2));
    *p = (ctc_params){.items = x->dims[1],
                      .frames = x->dims[0],
                      .classes = x->dims[2],
                      .blank = a->blank,
                      .longest = y->ndim == 2 ? y->dims[1] : -1,
                      .total = c->operands[TARGETS]->count,
                      .check_target = haul__index_check(HAUL__CHECK_ctc_loss, 0),
                      .check_frames = haul__index_check(HAUL__CHECK_ctc_lengths, 0),
                      .check_length = haul__index_check(HAUL__CHECK_ctc_lengths, 1),
                      .zero_infinity = a->zero_infinity};
    if (!haul__mul_size(p->total, 2, row) || !haul__add_size(*row, p->items, row) ||
        !haul__mul_size(*row, p->frames, &p->rows) || p->rows > INT64_MAX / 2 - p->items)
        return overflow(c);
    HAUL__ASSERT(*row >= p->items && p->rows >= 0);
    return HAUL_OK;
}

static haul_status infer(haul__call *c)
{
    ctc_params p;
    int64_t    row;
    if (describe(c, &p, &row) || haul__describe(c, 0, c->operands[LOG_P]->dtype, &HAUL_SHAPE(p.items)))
        return haul_error_status();
    return haul__describe(c, 1, c->operands[LOG_P]->dtype, &HAUL_SHAPE(p.rows + p.items));
}

static haul_status compute(haul__call *c)
{
    haul_tensor *loss = c->results[0], *alpha = c->results[1], *x = c->operands[LOG_P];
    haul_tensor *targets = c->operands[TARGETS], *lengths = c->operands[LENGTHS];
    ctc_params   p;
    int64_t      row;
    if (describe(c, &p, &row))
        return haul_error_status();
    if (!alpha)
        alpha = haul__temporary(c, x->dtype, &HAUL_SHAPE(p.rows + p.items));
    if (!alpha)
        return haul_error_status();
    HAUL__ASSERT(loss->count == p.items && lengths->count == 2 * p.items && alpha->count == p.rows + p.items);
    HAUL__ASSERT(loss->dtype == x->dtype && alpha->dtype == x->dtype);
    p.at[0] = loss->offset, p.at[1] = alpha->offset, p.at[2] = x->offset;
    p.at[3] = targets->offset, p.at[4] = lengths->offset;
    return haul__launch_kernel(c, HAUL__K_ctc_losses, x->dtype, HAUL__OUT(loss, alpha), HAUL__IN(x, targets, lengths),
                               HAUL__PARAMS(p), .grain = 1, .checks = true);
}

static haul_status backward_infer(haul__call *c)
{
    return haul__describe(c, 0, c->operands[LOG_P]->dtype, &c->operands[LOG_P]->shape);
}

static haul_status backward_compute(haul__call *c)
{
    haul_tensor *x = c->operands[LOG_P], *alpha = c->operands[ALPHA], *g = c->operands[G];
    haul_tensor *targets = c->operands[TARGETS], *lengths = c->operands[LENGTHS];
    ctc_params   p;
    int64_t      row;
    if (describe(c, &p, &row))
        return haul_error_status();
    HAUL__ASSERT(alpha->count == p.rows + p.items && g->count == p.items && lengths->count == 2 * p.items);
    HAUL__ASSERT(alpha->dtype == x->dtype && g->dtype == x->dtype);
    haul_tensor *beta = haul__temporary(c, x->dtype, &HAUL_SHAPE(row));
    if (!beta)
        return haul_error_status();
    p.at[0] = c->results[0]->offset, p.at[1] = beta->offset, p.at[2] = x->offset, p.at[3] = alpha->offset;
    p.at[4] = targets->offset, p.at[5] = lengths->offset, p.at[6] = g->offset;
    return haul__launch_kernel(c, HAUL__K_ctc_backward, x->dtype, HAUL__OUT(c->results[0], beta),
                               HAUL__IN(x, alpha, targets, lengths, g), HAUL__PARAMS(p), .grain = 1);
}

/* Three steps for each place of each frame. */
static haul__cost cost(const haul__call *c)
{
    ctc_params p;
    int64_t    row;
    if (describe(c, &p, &row))
        haul_error_clear(); /* infer failed for these sizes, too */
    return (haul__cost){.flops = 12 * (double)p.rows, .bytes = haul__call_bytes(c)};
}

HAUL__OPERATION(ctc_losses_backward) = {
    .name = "haul_ctc_losses_backward",
    .operands = {{"log_p"},
                 {"targets", .accepts = HAUL__ONLY(HAUL_I64)},
                 {"lengths", .accepts = HAUL__ONLY(HAUL_I64)},
                 {"alpha"},
                 {"g"}},
    .results = {{"dx"}},
    .dtypes = HAUL__ONLY(HAUL_F32) | HAUL__ONLY(HAUL_F64),
    .kernel = HAUL__K_ctc_backward,
    .attributes_size = HAUL__ATTRIBUTES(haul__ctc_attributes),
    .infer = backward_infer,
    .compute = backward_compute,
    .cost = cost,
};

static void gradient(haul__gradient *c)
{
    if (haul__differentiated(c)) {
        haul__fail(HAUL_GRAPH, "haul_ctc_loss", NULL,
                   "the gradient of this loss cannot be differentiated again; leave out .create_graph");
        c->operands[LOG_P] = NULL;
        return;
    }
    c->operands[LOG_P] = HAUL__APPLY(ctc_losses_backward, c->attributes, c->saved[LOG_P], c->saved[TARGETS],
                                     c->saved[LENGTHS], c->saved_results[1], c->results[0]);
}

/* The losses of the examples; the lengths are those of the frames and then those of the labels. */
HAUL__OPERATION(ctc_losses) = {
    .name = "haul_ctc_losses",
    .operands = {{"log_p", .saved_for = HAUL__FOR_0},
                 {"targets", .accepts = HAUL__ONLY(HAUL_I64), .saved_for = HAUL__FOR_0},
                 {"lengths", .accepts = HAUL__ONLY(HAUL_I64), .saved_for = HAUL__FOR_0}},
    .results = {{"losses"}, {"alpha", .hidden = true, .saved_for = HAUL__FOR_ALL}},
    .dtypes = HAUL__ONLY(HAUL_F32) | HAUL__ONLY(HAUL_F64),
    .kernel = HAUL__K_ctc_losses,
    .attributes_size = HAUL__ATTRIBUTES(haul__ctc_attributes),
    .infer = infer,
    .compute = compute,
    .gradient = gradient,
    .cost = cost,
};

/* ---- haul_ctc_loss ---- */

/* The operands of the public function. */
enum { FRAMES = 2, LABELS };

static haul_status check(const haul__call *c, const haul__ctc_attributes *a)
{
    const haul_shape *x = &c->operands[LOG_P]->shape, *y = &c->operands[TARGETS]->shape;
    const bool        batch = x->ndim == 3;
    if (haul__check_reduction(c, a->reduction, false))
        return haul_error_status();
    if (x->ndim != 2 && x->ndim != 3)
        return haul__refuse_shape(c, LOG_P, "[T, N, C] or [T, C] is expected");
    if (a->blank < 0 || a->blank >= x->dims[x->ndim - 1])
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "blank",
                          "blank is %lld, but log_p has %lld classes", (long long)a->blank,
                          (long long)x->dims[x->ndim - 1]);
    if (y->ndim != 1 && (y->ndim != 2 || !batch || y->dims[0] != x->dims[1]))
        return haul__refuse_shape(c, TARGETS,
                                  batch ? "[N, S] or, one after the other, [all labels] is expected"
                                        : "[S] is expected, as log_p has no examples");
    HAUL__ASSERT(batch || y->ndim == 1);
    for (int i = FRAMES; i <= LABELS; i++) {
        const haul_shape *of = &c->operands[i]->shape;
        if (haul__has(c, i) && (of->ndim != batch || (batch && of->dims[0] != x->dims[1])))
            return haul__refuse_shape(c, i,
                                      batch ? "one dimension is expected, with a number for each example"
                                            : "no dimensions are expected, as log_p has no examples");
    }
    if (batch && y->ndim == 1 && !haul__has(c, LABELS))
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "target_lengths",
                          "targets are one after the other, so target_lengths must say how many each example has");
    return HAUL_OK;
}

static haul_status ctc_loss(haul__call *c)
{
    const haul__ctc_attributes *a = haul__attributes(c);
    if (check(c, a) || haul_set_device(c->device)) /* until the call ends */
        return haul_error_status();
    haul_tensor  *x = haul__widened(c->operands[LOG_P]), *y = c->operands[TARGETS];
    const bool    batch = x->shape.ndim == 3;
    const int64_t examples = batch ? x->shape.dims[1] : 1;
    haul_tensor  *lengths[2];
    HAUL__ASSERT(y->shape.ndim == 1 || y->shape.ndim == 2);
    for (int i = 0; i < 2; i++)
        lengths[i] = haul__has(c, FRAMES + i)
                         ? haul_reshape(c->operands[FRAMES + i], HAUL_SHAPE(examples))
                         : haul_full(HAUL_I64, HAUL_SHAPE(examples),
                                     (double)(i ? y->shape.dims[y->shape.ndim - 1] : x->shape.dims[0]));
    haul_tensor *losses = HAUL__APPLY(ctc_losses, a, batch ? x : haul_unsqueeze(x, 1), y, haul_cat(lengths, 2, 0));
    if (a->reduction == HAUL_REDUCE_MEAN)
        losses = haul_div(losses, haul_cast(haul_clamp(lengths[1], 1, INFINITY), x->dtype));
    HAUL__ASSERT(haul__failed(losses) || losses->count == examples);
    if (!batch)
        losses = haul_squeeze(losses, 0);
    return haul__give_reduced(c, a->reduction, losses);
}

#define INTEGERS .accepts = HAUL__INTEGERS, .becomes = HAUL_I64

HAUL__OPERATION(ctc_loss) = {
    .name = "haul_ctc_loss",
    .operands = {{"log_p"},
                 {"targets", INTEGERS},
                 {"input_lengths", .optional = true, INTEGERS},
                 {"target_lengths", .optional = true, INTEGERS}},
    .results = {{"loss"}},
    .rule = HAUL__FLOATED,
    .autocast = HAUL__WIDE,
    .attributes_size = HAUL__ATTRIBUTES(haul__ctc_attributes),
    .compose = ctc_loss,
};

haul_tensor *haul_ctc_loss_with(haul_tensor *log_p, const haul_ctc_loss_options *o)
{
    if (!o)
        return haul__no_options(&haul__operation_ctc_loss);
    haul__ctc_attributes a = {.reduction = o->reduction, .zero_infinity = o->zero_infinity, .blank = o->blank};
    return HAUL__APPLY(ctc_loss, &a, log_p, o->targets, haul__optional(o->input_lengths),
                       haul__optional(o->target_lengths));
}
