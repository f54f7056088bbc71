/* The CTC loss as nodes: the recurrence of src/ops/loss/ctc_loss.c, unrolled over the frames. All examples have
 * as many places, 2 labels + 1. The places and frames behind an example's own are computed, and not read. */
#include <float.h>
#include <math.h>

#include "base/assert.h"
#include "core/shape.h"
#include "onnx/export/families.h"
#include "ops/loss/loss.h"

#define NODE       HAUL__ONNX_NODE
#define SIZES(...) haul__onnx_add_ints(g, (const int64_t[]){__VA_ARGS__}, sizeof((int64_t[]){__VA_ARGS__}) / 8)

enum { LOG_P, TARGETS, LENGTHS };

typedef struct ctc {
    haul__onnx_saved *g;
    int64_t           frames, examples;
    int64_t           labels, places; /* of a row of targets, or of all examples if targets have one dimension */
    int               zero, one;      /* whole numbers */
    int               nothing, never, lowest; /* 0, -infinity, and the least finite number */
    int               frame_counts, lengths;  /* of the examples, [N, 1] */
} ctc;

static int part(haul__onnx_saved *g, int x, int axis, int64_t start, int64_t stop)
{
    return NODE(g, "Slice", x, SIZES(start), SIZES(stop), SIZES(axis));
}

static int joined(haul__onnx_saved *g, int axis, int a, int b)
{
    const int y = NODE(g, "Concat", a, b);
    haul__onnx_set_int(g, "axis", axis);
    return y;
}

static int elements(haul__onnx_saved *g, int x, int index, int axis)
{
    const int y = NODE(g, "GatherElements", x, index);
    haul__onnx_set_int(g, "axis", axis);
    return y;
}

static bool begin(haul__onnx_saving *c, ctc *e)
{
    haul__onnx_saved *g = c->g;
    const haul_shape *x = &c->in[LOG_P].shape, *y = &c->in[TARGETS].shape;
    for (int i = LOG_P; i <= LENGTHS; i++)
        if (!haul__shape_equal(&c->in[i].shape, &c->other_in[i].shape))
            return haul__onnx_cannot(c, "it depends on the size of the batch; save with a fixed batch"), false;
    *e = (ctc){.g = g, .frames = x->dims[0], .examples = x->dims[1], .labels = y->dims[y->ndim - 1]};
    e->places = 2 * e->labels + 1;
    if (!e->frames || !e->examples || !e->labels)
        return haul__onnx_cannot(c, "it has no frames, examples or labels"), false;
    const haul_dtype dtype = c->in[LOG_P].dtype;
    e->zero = haul__onnx_add_int(g, 0);
    e->one = haul__onnx_add_int(g, 1);
    e->nothing = haul__onnx_add_number(g, dtype, 0);
    e->never = haul__onnx_add_number(g, dtype, -INFINITY);
    e->lowest = haul__onnx_add_number(g, dtype, dtype == HAUL_F64 ? -DBL_MAX : (double)-FLT_MAX);
    const int lengths = NODE(g, "Unsqueeze", c->x[LENGTHS], SIZES(1));
    e->frame_counts = part(g, lengths, 0, 0, e->examples);
    e->lengths = part(g, lengths, 0, e->examples, 2 * e->examples);
    return true;
}

/* The labels as [N, S], with the blank in the place of those behind the last one. */
static int labels_of(const haul__onnx_saving *c, const ctc *e, int blank)
{
    haul__onnx_saved *g = e->g;
    const int         k = NODE(g, "Range", e->zero, haul__onnx_add_int(g, e->labels), e->one);
    int               y = c->x[TARGETS];
    if (c->in[TARGETS].shape.ndim == 1) { /* the examples' are one after the other */
        const int first = NODE(g, "CumSum", e->lengths, e->zero);
        haul__onnx_set_int(g, "exclusive", 1);
        y = NODE(g, "Gather", y, NODE(g, "Min", NODE(g, "Add", first, k), haul__onnx_add_int(g, e->labels - 1)));
    }
    return NODE(g, "Where", NODE(g, "Less", k, e->lengths), y, blank);
}

/* The classes of the places: [N, 2 S + 1]. */
static int classes_of(const haul__onnx_saving *c, const ctc *e)
{
    haul__onnx_saved *g = e->g;
    const int         blank = haul__onnx_add_int(g, ((const haul__ctc_attributes *)c->attributes)->blank);
    const int         y = NODE(g, "Unsqueeze", labels_of(c, e, blank), SIZES(2));
    const int         pairs = joined(g, 2, NODE(g, "Expand", blank, SIZES(e->examples, e->labels, 1)), y);
    const int         flat = NODE(g, "Reshape", pairs, SIZES(e->examples, 2 * e->labels));
    return joined(g, 1, flat, NODE(g, "Expand", blank, SIZES(e->examples, 1)));
}

/* log(exp(a) + exp(b) + exp(c)), which is -infinity if all of them are. */
static int together(const ctc *e, int a, int b, int c)
{
    haul__onnx_saved *g = e->g;
    const int         most = NODE(g, "Max", a, b, c, e->lowest);
    const int sum = NODE(g, "Sum", NODE(g, "Exp", NODE(g, "Sub", a, most)), NODE(g, "Exp", NODE(g, "Sub", b, most)),
                         NODE(g, "Exp", NODE(g, "Sub", c, most)));
    return NODE(g, "Add", NODE(g, "Log", sum), most);
}

/* alpha of each example's last frame: [N, 2 S + 1]. */
static int last_alpha(const haul__onnx_saving *c, const ctc *e)
{
    haul__onnx_saved *g = e->g;
    const int64_t     n = e->examples, places = e->places;
    HAUL__ASSERT(places == 2 * e->labels + 1 && places >= 3);
    const int classes = classes_of(c, e);
    const int index = NODE(g, "Expand", NODE(g, "Unsqueeze", classes, SIZES(0)), SIZES(e->frames, n, places));
    const int log_p = elements(g, c->x[LOG_P], index, 2);
    const int same = NODE(g, "Equal", part(g, classes, 1, 2, places), part(g, classes, 1, 0, places - 2));
    const int skip = NODE(g, "Where", same, e->never, e->nothing); /* a blank is the class before last, too */
    const int before1 = NODE(g, "Expand", e->never, SIZES(n, 1)), before2 = NODE(g, "Expand", e->never, SIZES(n, 2));
    const int start =
        joined(g, 1, NODE(g, "Expand", e->nothing, SIZES(n, 2)), NODE(g, "Expand", e->never, SIZES(n, places - 2)));
    int alpha = NODE(g, "Add", start, NODE(g, "Gather", log_p, e->zero));
    for (int64_t t = 1; t < e->frames; t++) {
        const int frame = haul__onnx_add_int(g, t), here = NODE(g, "Gather", log_p, frame);
        const int one = joined(g, 1, before1, part(g, alpha, 1, 0, places - 1));
        const int two = joined(g, 1, before2, NODE(g, "Add", part(g, alpha, 1, 0, places - 2), skip));
        const int next = NODE(g, "Add", together(e, alpha, one, two), here);
        alpha = NODE(g, "Where", NODE(g, "Less", frame, e->frame_counts), next, alpha);
    }
    return alpha;
}

int haul__onnx_save_ctc_losses(haul__onnx_saving *c)
{
    haul__onnx_saved *g = c->g;
    ctc               e;
    if (!begin(c, &e))
        return HAUL__ONNX_ABSENT;
    const int alpha = last_alpha(c, &e), end = NODE(g, "Add", e.lengths, e.lengths);
    const int label = elements(g, alpha, NODE(g, "Max", NODE(g, "Sub", end, e.one), e.zero), 1);
    const int has_labels = NODE(g, "Greater", e.lengths, e.zero);
    const int infinite = haul__onnx_add_number(g, c->in[LOG_P].dtype, INFINITY);
    int       loss =
        NODE(g, "Neg", together(&e, elements(g, alpha, end, 1), NODE(g, "Where", has_labels, label, e.never), e.never));
    loss = NODE(g, "Where", NODE(g, "Equal", e.frame_counts, e.zero), NODE(g, "Where", has_labels, infinite, e.nothing),
                loss);
    if (((const haul__ctc_attributes *)c->attributes)->zero_infinity)
        loss = NODE(g, "Where", NODE(g, "Equal", loss, infinite), e.nothing, loss);
    return NODE(g, "Squeeze", loss, SIZES(1));
}
