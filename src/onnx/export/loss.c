/* Losses as nodes. Those of classes are ONNX's own; those of pairs of elements are made of others. */
#include <haul/dtype.h>
#include <string.h>

#include "base/assert.h"
#include "onnx/export/families.h"
#include "ops/loss/loss.h"

#define NODE HAUL__ONNX_NODE

/* The sum or mean of all elements. */
static int reduced(haul__onnx_saved *g, const char *type, int x)
{
    const int y = NODE(g, type, x);
    haul__onnx_set_int(g, "keepdims", 0);
    return y;
}

/* ---- losses of classes ---- */

/* The dtype in which the node computes: NegativeLogLikelihoodLoss takes bf16 from opset 22 on. */
static haul_dtype dtype_of(const haul__onnx_saving *c)
{
    const bool is_old = c->g->opset < 22 && !strcmp(c->row->type, "NegativeLogLikelihoodLoss");
    return is_old && c->in[0].dtype == HAUL_BF16 ? HAUL_F32 : c->in[0].dtype;
}

static int class_loss(haul__onnx_saving *c)
{
    static const char *const reductions[] = {
        [HAUL_REDUCE_MEAN] = "mean", [HAUL_REDUCE_SUM] = "sum", [HAUL_REDUCE_NONE] = "none"};
    const haul__class_attributes *a = c->attributes;
    haul__onnx_saved             *g = c->g;
    HAUL__ASSERT((size_t)a->reduction < sizeof reductions / sizeof *reductions);
    const haul_dtype dtype = dtype_of(c);
    const int        x = c->in[0].dtype == dtype ? c->x[0] : haul__onnx_add_cast(g, c->x[0], dtype);
    int              weight = c->x[2];
    if (weight != HAUL__ONNX_ABSENT && c->in[2].dtype != dtype)
        weight = haul__onnx_add_cast(g, weight, dtype);
    const int y = NODE(g, c->row->type, x, c->x[1], weight);
    haul__onnx_set_text(g, "reduction", reductions[a->reduction]);
    if (a->ignores)
        haul__onnx_set_int(g, "ignore_index", a->ignored);
    return c->in[0].dtype == dtype ? y : haul__onnx_add_cast(g, y, c->in[0].dtype);
}

/* With smoothing, the mean of all classes' losses has a part in each row. */
static int smoothed(haul__onnx_saving *c, int loss)
{
    const haul__class_attributes *a = c->attributes;
    haul__onnx_saved             *g = c->g;
    const int64_t                 axis = a->axis;
    int                           log_p = c->x[0];
    if (!strcmp(c->row->type, "SoftmaxCrossEntropyLoss")) {
        log_p = NODE(g, "LogSoftmax", log_p);
        haul__onnx_set_int(g, "axis", axis);
    }
    int all = NODE(g, "ReduceMean", log_p, haul__onnx_add_ints(g, &axis, 1));
    haul__onnx_set_int(g, "keepdims", 0);
    if (a->reduction != HAUL_REDUCE_NONE)
        all = reduced(g, a->reduction == HAUL_REDUCE_MEAN ? "ReduceMean" : "ReduceSum", all);
    loss = NODE(g, "Mul", loss, haul__onnx_add_number(g, c->out[0].dtype, 1 - a->smoothing));
    return NODE(g, "Sub", loss, NODE(g, "Mul", all, haul__onnx_add_number(g, c->out[0].dtype, a->smoothing)));
}

int haul__onnx_save_class_loss(haul__onnx_saving *c)
{
    const haul__class_attributes *a = c->attributes;
    if (c->in[0].shape.ndim < 2)
        return haul__onnx_cannot(c, "ONNX has no loss of a single row of classes");
    if (a->smoothing > 0 && (a->ignores || c->x[2] != HAUL__ONNX_ABSENT))
        return haul__onnx_cannot(c, "label_smoothing with weights or an ignored class");
    const int loss = class_loss(c);
    return a->smoothing > 0 ? smoothed(c, loss) : loss;
}

/* ---- losses of pairs ---- */

static int number(haul__onnx_saving *c, double value)
{
    return haul__onnx_add_number(c->g, c->in[0].dtype, value);
}

/* With r = |x - t| and m = min(r, delta): m (r - m / 2), which is r^2 / 2 up to delta, and a line after it. */
static int huber(haul__onnx_saving *c, int apart, double delta)
{
    haul__onnx_saved *g = c->g;
    const int         r = NODE(g, "Abs", apart), m = NODE(g, "Min", r, number(c, delta));
    return NODE(g, "Mul", m, NODE(g, "Sub", r, NODE(g, "Mul", m, number(c, 0.5))));
}

/* Logarithms are at least -100. */
static int bounded_log(haul__onnx_saving *c, int x)
{
    return NODE(c->g, "Max", NODE(c->g, "Log", x), number(c, -100));
}

static int bce(haul__onnx_saving *c, int x, int t)
{
    haul__onnx_saved *g = c->g;
    const int         one = number(c, 1), not_t = NODE(g, "Sub", one, t);
    const int         of_t = NODE(g, "Mul", t, bounded_log(c, x));
    const int         of_other = NODE(g, "Mul", not_t, bounded_log(c, NODE(g, "Sub", one, x)));
    return NODE(g, "Neg", NODE(g, "Add", of_t, of_other));
}

/* t (log t - x), which is 0 if t is. */
static int kl(haul__onnx_saving *c, int x, int t)
{
    haul__onnx_saved *g = c->g;
    const int         zero = number(c, 0), loss = NODE(g, "Mul", t, NODE(g, "Sub", NODE(g, "Log", t), x));
    return NODE(g, "Where", NODE(g, "Equal", t, zero), zero, loss);
}

/* Of targets that are logarithms: exp(t) (t - x), and 0 where exp(t) is. */
static int kl_log(haul__onnx_saving *c, int x, int t)
{
    haul__onnx_saved *g = c->g;
    const int         zero = number(c, 0), share = NODE(g, "Exp", t);
    return NODE(g, "Where", NODE(g, "Equal", share, zero), zero, NODE(g, "Mul", share, NODE(g, "Sub", t, x)));
}

static int losses_of(haul__onnx_saving *c, const haul__pair_attributes *a)
{
    haul__onnx_saved *g = c->g;
    const int         x = c->x[0], t = c->x[1], apart = NODE(g, "Sub", x, t);
    switch (a->kind) {
    case HAUL__MSE: return NODE(g, "Mul", apart, apart);
    case HAUL__L1: return NODE(g, "Abs", apart);
    case HAUL__HUBER: return huber(c, apart, a->number);
    case HAUL__SMOOTH_L1: return NODE(g, "Div", huber(c, apart, a->number), number(c, a->number));
    case HAUL__KL_DIV: return kl(c, x, t);
    case HAUL__KL_DIV_LOG: return kl_log(c, x, t);
    default: return bce(c, x, t);
    }
}

/* Of logits: softplus(x) - t x. */
int haul__onnx_save_bce_elements(haul__onnx_saving *c)
{
    return NODE(c->g, "Sub", NODE(c->g, "Softplus", c->x[0]), NODE(c->g, "Mul", c->x[1], c->x[0]));
}

int haul__onnx_save_pair_loss(haul__onnx_saving *c)
{
    const haul__pair_attributes *a = c->attributes;
    const int64_t                rows = c->in[0].shape.ndim ? c->in[0].shape.dims[0] : 1;
    const int64_t                other = c->other_in[0].shape.ndim ? c->other_in[0].shape.dims[0] : 1;
    if (a->reduction == HAUL_REDUCE_BATCH_MEAN && rows != other)
        return haul__onnx_cannot(c, "it depends on the size of the batch; save with a fixed batch");
    const int y = losses_of(c, a);
    switch (a->reduction) {
    case HAUL_REDUCE_NONE: return y;
    case HAUL_REDUCE_MEAN: return reduced(c->g, "ReduceMean", y);
    case HAUL_REDUCE_SUM: return reduced(c->g, "ReduceSum", y);
    default: return NODE(c->g, "Div", reduced(c->g, "ReduceSum", y), number(c, (double)rows));
    }
}
