/* Losses of pairs: each element of x against the target's at the same place. Forward computes the losses of the
 * elements in one pass, and the gradient of x is another pass. A gradient that is to be differentiated again, and that
 * of the target, are composed of operations. Losses of f16 and bf16 elements are f32 until the result is rounded. */
#include "base/assert.h"
#include "core/option.h"
#include "engine/copy.h"
#include "kernels/kernels.h"
#include "kernels/types.h"
#include "ops/loss/loss.h"

// clang-format off
/* kernel text begins */
typedef struct pair_params {
    I64 items;
    I64 offsets[4]; /* of the buffers */
    U64 number;     /* the loss's own: beta or delta */
    U64 scale;      /* of a mean 1 / N, as a scalar of the dtype of sums */
    U64 each;       /* true if g has an element for each one of x */
} pair_params;

#if defined(HAUL_KERNEL) && IS_FLOAT
FUNC A huber_value(A d, A s) { const A a = M_ABS(d); return a <= s ? LIT(0.5) * d * d : s * (a - LIT(0.5) * s); }
FUNC A huber_slope(A d, A s) { return d < -s ? -s : d > s ? s : d; }
FUNC A smooth_value(A d, A s) { const A a = M_ABS(d); return a < s ? LIT(0.5) * d * d / s : a - LIT(0.5) * s; }
FUNC A smooth_slope(A d, A s) { return d < -s ? LIT(-1.0) : d > s ? LIT(1.0) : d / s; }
FUNC A kl_value(A x, A t) { return t == 0 ? LIT(0.0) : t * (M_LOG(t) - x); }
FUNC A kl_slope(A x, A t) { (void)x; return -t; }
FUNC A kl_log_value(A x, A t) { const A y = M_EXP(t); return y == 0 ? LIT(0.0) : y * (t - x); }
FUNC A kl_log_slope(A x, A t) { (void)x; return -M_EXP(t); }
FUNC A bce_log(A x) { return M_MAX(M_LOG(x), LIT(-100.0)); }
FUNC A bce_value(A x, A t) { return -(t * bce_log(x) + (LIT(1.0) - t) * bce_log(LIT(1.0) - x)); }
FUNC A bce_slope(A x, A t) { return (x - t) / M_MAX(x * (LIT(1.0) - x), LIT(1e-12)); }

/* VALUE is the loss of an element, SLOPE its derivative by x: expressions of the element x, that of the target t, their
 * difference d, and the loss's number s. */
TEMPLATE(pair_loss, NAME, VALUE, SLOPE)
FUNC A NAME##_of(A x, A t, A s) { const A d = x - t; (void)d, (void)s; return VALUE; }
FUNC A NAME##_slope_of(A x, A t, A s) { const A d = x - t; (void)d, (void)s; return SLOPE; }
KERNEL3(NAME##_losses, pair_params, ACC, out, const T, in, const T, target)
{
    GLOBAL const T *x = in + p.offsets[1], *t = target + p.offsets[2];
    VECTOR_LOOP FOR_ITEMS(i) out[p.offsets[0] + i] = NAME##_of(LOAD(x, i), LOAD(t, i), SCALAR(p.number));
}

KERNEL4(NAME##_backward, pair_params, T, out, const T, in, const T, target, const T, g)
{
    GLOBAL const T *x = in + p.offsets[1], *t = target + p.offsets[2];
    const A all = LOAD(g, p.offsets[3]) * SCALAR(p.scale);
    if (p.each) {
        VECTOR_LOOP FOR_ITEMS(i) {
            const A slope = NAME##_slope_of(LOAD(x, i), LOAD(t, i), SCALAR(p.number));
            STORE(out, p.offsets[0] + i, LOAD(g, p.offsets[3] + i) * slope);
        }
    } else {
        VECTOR_LOOP FOR_ITEMS(i) STORE(out, p.offsets[0] + i, all * NAME##_slope_of(LOAD(x, i), LOAD(t, i), SCALAR(p.number)));
    }
}
END_TEMPLATE

EXPAND(pair_loss, mse, d * d, d * LIT(2.0))
EXPAND(pair_loss, l1, M_ABS(d), M_SIGN(d))
EXPAND(pair_loss, huber, huber_value(d, s), huber_slope(d, s))
EXPAND(pair_loss, smooth_l1, smooth_value(d, s), smooth_slope(d, s))
EXPAND(pair_loss, kl_div, kl_value(x, t), kl_slope(x, t))
EXPAND(pair_loss, kl_div_log, kl_log_value(x, t), kl_log_slope(x, t))
EXPAND(pair_loss, bce, bce_value(x, t), bce_slope(x, t))
#endif
/* kernel text ends */
// clang-format on

enum { GRAIN = 8192 };

/* ---- derivatives of an element's loss, in operations ---- */

static haul_tensor *mse_slope(haul_tensor *x, haul_tensor *target, double number)
{
    (void)number;
    return haul_mul_scalar(haul_sub(x, target), 2);
}

static haul_tensor *l1_slope(haul_tensor *x, haul_tensor *target, double number)
{
    (void)number;
    return haul_sign(haul_sub(x, target));
}

static haul_tensor *huber_slope(haul_tensor *x, haul_tensor *target, double delta)
{
    return haul_clamp(haul_sub(x, target), -delta, delta);
}

static haul_tensor *smooth_l1_slope(haul_tensor *x, haul_tensor *target, double beta)
{
    return haul_mul_scalar(huber_slope(x, target, beta), 1 / beta);
}

static haul_tensor *kl_slope(haul_tensor *x, haul_tensor *target, double number)
{
    (void)x, (void)number;
    return haul_neg(target);
}

static haul_tensor *kl_target_slope(haul_tensor *x, haul_tensor *target, double number)
{
    (void)number;
    return haul_add_scalar(haul_sub(haul_log(target), x), 1);
}

static haul_tensor *kl_log_slope(haul_tensor *x, haul_tensor *target, double number)
{
    (void)x, (void)number;
    return haul_neg(haul_exp(target));
}

static haul_tensor *kl_log_target_slope(haul_tensor *x, haul_tensor *target, double number)
{
    (void)number;
    return haul_mul(haul_exp(target), haul_add_scalar(haul_sub(target, x), 1));
}

static haul_tensor *bce_slope(haul_tensor *x, haul_tensor *target, double number)
{
    (void)number;
    return haul_div(haul_sub(x, target), haul_maximum_scalar(haul_mul(x, haul_affine(x, -1, 1)), 1e-12));
}

static haul_tensor *bce_target_slope(haul_tensor *x, haul_tensor *target, double number)
{
    (void)target, (void)number;
    return haul_sub(haul_maximum_scalar(haul_log(haul_affine(x, -1, 1)), -100), haul_maximum_scalar(haul_log(x), -100));
}

/* ---- the family ---- */

typedef haul_tensor *pair_slope(haul_tensor *x, haul_tensor *target, double number);

static const struct {
    int         losses, backward; /* kernels */
    pair_slope *by_x, *by_target; /* by_target NULL: minus by_x */
} pairs[] = {
    [HAUL__MSE] = {HAUL__K_mse_losses, HAUL__K_mse_backward, mse_slope, NULL},
    [HAUL__L1] = {HAUL__K_l1_losses, HAUL__K_l1_backward, l1_slope, NULL},
    [HAUL__HUBER] = {HAUL__K_huber_losses, HAUL__K_huber_backward, huber_slope, NULL},
    [HAUL__SMOOTH_L1] = {HAUL__K_smooth_l1_losses, HAUL__K_smooth_l1_backward, smooth_l1_slope, NULL},
    [HAUL__KL_DIV] = {HAUL__K_kl_div_losses, HAUL__K_kl_div_backward, kl_slope, kl_target_slope},
    [HAUL__KL_DIV_LOG] = {HAUL__K_kl_div_log_losses, HAUL__K_kl_div_log_backward, kl_log_slope, kl_log_target_slope},
    [HAUL__BCE] = {HAUL__K_bce_losses, HAUL__K_bce_backward, bce_slope, bce_target_slope},
};

/* The factor of each element's loss in the result. */
static double scale_of(const haul__pair_attributes *a, const haul_shape *x)
{
    int64_t count = 1;
    if (a->reduction == HAUL_REDUCE_BATCH_MEAN)
        count = x->ndim ? x->dims[0] : 1;
    for (int d = 0; d < x->ndim && a->reduction == HAUL_REDUCE_MEAN; d++)
        count *= x->dims[d]; /* a product that was checked */
    return count > 1 ? 1.0 / (double)count : 1;
}

static pair_params params_of(const haul__call *c, const haul_tensor *result)
{
    const haul_tensor           *x = c->operands[0];
    const haul__pair_attributes *a = haul__attributes_of(c);
    HAUL__ASSERT(c->operands[1]->count == x->count && result->count == x->count);
    pair_params p = {.items = x->count, .offsets = {result->offset}};
    for (int i = 0; i < c->count; i++)
        p.offsets[1 + i] = c->operands[i]->offset;
    p.number = haul__scalar_bits(x->dtype, a->number);
    p.scale = haul__scalar_bits(x->dtype, scale_of(a, &x->shape));
    p.each = a->reduction == HAUL_REDUCE_NONE;
    return p;
}

static haul_status backward_infer(haul__call *c)
{
    return haul__describe(c, 0, c->operands[0]->dtype, &c->operands[0]->shape);
}

static haul_status backward_compute(haul__call *c)
{
    const haul__pair_attributes *a = haul__attributes(c);
    HAUL__ASSERT((size_t)a->kind < sizeof pairs / sizeof *pairs);
    HAUL__ASSERT(c->operands[2]->count == (a->reduction == HAUL_REDUCE_NONE ? c->operands[0]->count : 1));
    pair_params p = params_of(c, c->results[0]);
    return haul__launch_kernel(c, pairs[a->kind].backward, c->operands[0]->dtype, .outs = c->results, .out_count = 1,
                               .ins = c->operands, .in_count = c->count, HAUL__PARAMS(p), .grain = GRAIN);
}

/* The derivative of an element's loss by x, times g. */
HAUL__OPERATION(pair_loss_backward) = {
    .name = "haul_pair_loss_backward",
    .operands = {{"x"}, {"target"}, {"g"}},
    .results = {{"dx"}},
    .dtypes = HAUL__FLOATS,
    .attributes_size = HAUL__ATTRIBUTES(haul__pair_attributes),
    .infer = backward_infer,
    .compute = backward_compute,
    .flops = 3,
};

static haul_status infer(haul__call *c)
{
    const haul__pair_attributes *a = haul__attributes(c);
    const haul_tensor           *x = c->operands[0];
    bool                         batch = a->kind == HAUL__KL_DIV || a->kind == HAUL__KL_DIV_LOG;
    if (haul__check_reduction(c, a->reduction, batch) || haul__check_pair(c))
        return haul_error_status();
    if ((a->kind == HAUL__HUBER || a->kind == HAUL__SMOOTH_L1) && !(a->number > 0))
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, a->kind == HAUL__HUBER ? "delta" : "beta",
                          "%s is %g; a number above 0 is expected", a->kind == HAUL__HUBER ? "delta" : "beta",
                          a->number);
    return haul__describe(c, 0, x->dtype, a->reduction == HAUL_REDUCE_NONE ? &x->shape : &HAUL_SCALAR_SHAPE);
}

static haul_status compute(haul__call *c)
{
    const haul__pair_attributes *a = haul__attributes(c);
    haul_tensor                 *x = c->operands[0], *y = c->results[0];
    HAUL__ASSERT((size_t)a->kind < sizeof pairs / sizeof *pairs);
    const haul_dtype dtype = haul__sum_dtype(x->dtype);
    const bool       in_place = a->reduction == HAUL_REDUCE_NONE && y->dtype == dtype;
    haul_tensor     *losses = in_place ? y : haul__temporary(c, dtype, &x->shape);
    if (!losses)
        return haul_error_status();
    HAUL__ASSERT(c->operands[1]->count == x->count && losses->count == x->count);
    pair_params p = params_of(c, losses);
    if (haul__launch_kernel(c, pairs[a->kind].losses, x->dtype, HAUL__OUT(losses), .ins = c->operands, .in_count = 2,
                            HAUL__PARAMS(p), .grain = GRAIN))
        return haul_error_status();
    return haul__reduce_losses(c, a->reduction, losses);
}

/* g times the derivative of the elements' losses by one of the operands, composed of operations. */
static haul_tensor *composed(const haul__gradient *c, pair_slope *by)
{
    const haul__pair_attributes *a = c->attributes;
    haul_tensor                 *x = haul__widened(c->saved[0]), *target = haul__widened(c->saved[1]);
    haul_tensor                 *g = haul__widened(c->results[0]);
    const double                 scale = scale_of(a, &c->saved[0]->shape);
    return haul_mul(scale == 1 ? g : haul_mul_scalar(g, scale), by(x, target, a->number));
}

static void gradient(haul__gradient *c)
{
    const haul__pair_attributes *a = c->attributes;
    pair_slope                  *by_target = pairs[a->kind].by_target;
    haul_tensor                 *dx = haul_none;
    if (haul__differentiated(c))
        dx = composed(c, pairs[a->kind].by_x);
    else if (haul__wanted(c, 0) || !by_target)
        dx = HAUL__APPLY(pair_loss_backward, a, c->saved[0], c->saved[1], c->results[0]);
    c->operands[0] = dx;
    if (haul__wanted(c, 1))
        c->operands[1] = by_target ? composed(c, by_target) : haul_neg(dx);
}

#define PAIR_LOSS                                                                                                      \
    .operands = {{"x", .saved_for = HAUL__FOR_ALL}, {"target", .saved_for = HAUL__FOR_ALL}}, .results = {{"loss"}},    \
    .dtypes = HAUL__FLOATS, .rule = HAUL__FLOATED, .autocast = HAUL__WIDE,                                             \
    .attributes_size = HAUL__ATTRIBUTES(haul__pair_attributes), .infer = infer, .compute = compute,                    \
    .gradient = gradient, .flops = 3

HAUL__OPERATION(mse_loss) = {.name = "haul_mse_loss", PAIR_LOSS};
HAUL__OPERATION(l1_loss) = {.name = "haul_l1_loss", PAIR_LOSS};
HAUL__OPERATION(huber_loss) = {.name = "haul_huber_loss", PAIR_LOSS};
HAUL__OPERATION(smooth_l1_loss) = {.name = "haul_smooth_l1_loss", PAIR_LOSS};
HAUL__OPERATION(kl_div) = {.name = "haul_kl_div", PAIR_LOSS};
HAUL__OPERATION(bce_loss) = {.name = "haul_bce_loss", PAIR_LOSS};

/* ---- public ---- */

static haul_tensor *apply(const haul__operation *operation, haul__pair_kind kind, haul_tensor *x, haul_tensor *target,
                          haul_reduction reduction, double number)
{
    return haul__apply1(operation, &(haul__pair_attributes){kind, reduction, number}, HAUL__OPERANDS(x, target));
}

/* The function of a loss, for options o. */
#define FUNCTION(name, options, kind, number)                                                                          \
    haul_tensor *haul_##name##_with(haul_tensor *x, const options *o)                                                  \
    {                                                                                                                  \
        return o ? apply(&haul__operation_##name, kind, x, o->target, o->reduction, number)                            \
                 : haul__no_options(&haul__operation_##name);                                                          \
    }

FUNCTION(mse_loss, haul_loss_options, HAUL__MSE, 0)
FUNCTION(l1_loss, haul_loss_options, HAUL__L1, 0)
FUNCTION(bce_loss, haul_loss_options, HAUL__BCE, 0)
FUNCTION(huber_loss, haul_huber_loss_options, HAUL__HUBER, haul__option(o->delta, 1))
FUNCTION(kl_div, haul_kl_div_options, o->log_target ? HAUL__KL_DIV_LOG : HAUL__KL_DIV, 0)
/* With a beta of zero it is l1_loss. */
FUNCTION(smooth_l1_loss, haul_smooth_l1_loss_options, o->beta == HAUL_ZERO ? HAUL__L1 : HAUL__SMOOTH_L1,
         haul__option(o->beta, 1))
