/* Losses: one number, the mean over the batch.
 *
 * cross_entropy is log_softmax and nll_loss in one pass each way: forward keeps the logarithm of each row's sum of
 * exponentials, backward is (softmax - onehot) g / N. mse_loss takes its squares in one pass, and its gradient in
 * another. Where a gradient is to be differentiated again it is composed of operations instead. The binary loss is
 * always composed. */
#include "backends/index_check.h"
#include "kernels/kernels.h"
#include "kernels/types.h"
#include "ops/reduce.h"

// clang-format off
/* kernel text begins */
typedef struct loss_params {
    I64 items; /* rows */
    I64 classes;
    I64 offsets[5]; /* of the buffers */
    U32 check, unused; /* haul__index_check */
} loss_params;

typedef struct mse_params {
    I64 items;
    I64 offsets[4]; /* of the buffers */
    U64 scale;      /* 1 / N, as a scalar of the dtype */
} mse_params;

#ifdef HAUL_KERNEL
#if IS_FLOAT
/* In place of the element of a class that is out of range stands 0. */
KERNEL4(nll_rows, loss_params, ACC, out, const T, log_p, const I64, y, U32, fault)
{
    FOR_ITEMS(i) {
        const I64 c = CHECKED_INDEX(fault, p.check, i, y[p.offsets[2] + i], p.classes);
        const A own = LOAD(log_p, p.offsets[1] + i * p.classes + M_MAX_OF(c, 0));
        out[p.offsets[0] + i] = c < 0 ? LIT(0.0) : -own;
    }
}

KERNEL4(nll_backward, loss_params, T, out, const T, g, const I64, y, U32, fault)
{
    const A each = -LOAD(g, p.offsets[1]) / (A)p.items;
    FOR_ROWS(i) {
        const I64 c = CHECKED_INDEX(fault, p.check, i, y[p.offsets[2] + i], p.classes);
        GLOBAL T *o = out + p.offsets[0] + i * p.classes;
        EACH_OF_ROW(j, p.classes) STORE(o, j, j == c ? each : LIT(0.0));
    }
}

/* loss = log(sum(exp(x))) - x[y]; the first part is kept. */
KERNEL5(cross_entropy, loss_params, ACC, out, ACC, log_sum, const T, x, const I64, y, U32, fault)
{
    FOR_ROWS(i) {
        const I64 n = p.classes;
        GLOBAL const T *v = x + p.offsets[2] + i * n;
        const A most = ROW_MAX(v, n), log_s = M_LOG(ROW_EXP_SUM(v, n, most));
        const I64 c = CHECKED_INDEX(fault, p.check, i, y[p.offsets[3] + i], n);
        const A own = c < 0 ? LIT(0.0) : LOAD(v, c);
        if (IS_FIRST_LANE) {
            out[p.offsets[0] + i] = log_s - (own - most);
            log_sum[p.offsets[1] + i] = log_s + most;
        }
    }
}

KERNEL6(cross_entropy_backward, loss_params, T, out, const T, x, const ACC, log_sum, const I64, y, const T, g, U32, fault)
{
    const A each = LOAD(g, p.offsets[4]) / (A)p.items;
    FOR_ROWS(i) {
        const I64 n = p.classes, c = CHECKED_INDEX(fault, p.check, i, y[p.offsets[3] + i], n);
        const A shift = log_sum[p.offsets[2] + i];
        GLOBAL const T *v = x + p.offsets[1] + i * n;
        GLOBAL T *o = out + p.offsets[0] + i * n;
        EACH_OF_ROW(j, n) STORE(o, j, (M_EXP(LOAD(v, j) - shift) - (j == c ? LIT(1.0) : LIT(0.0))) * each);
    }
}

/* Each step is rounded to the dtype, as if it were an operation of its own. */
KERNEL3(mse_squares, mse_params, T, out, const T, x, const T, target)
{
    GLOBAL T *o = out + p.offsets[0];
    GLOBAL const T *v = x + p.offsets[1], *w = target + p.offsets[2];
    VECTOR_LOOP FOR_ITEMS(i) {
        const A d = NARROW(LOAD(v, i) - LOAD(w, i));
        STORE(o, i, d * d);
    }
}

/* 2 (x - target) g / N */
KERNEL4(mse_backward, mse_params, T, out, const T, x, const T, target, const T, g)
{
    const A each = NARROW(LOAD(g, p.offsets[3]) * SCALAR(p.scale));
    GLOBAL T *o = out + p.offsets[0];
    GLOBAL const T *v = x + p.offsets[1], *w = target + p.offsets[2];
    VECTOR_LOOP FOR_ITEMS(i) {
        const A d = NARROW(LOAD(v, i) - LOAD(w, i));
        STORE(o, i, each * NARROW(d * LIT(2.0)));
    }
}
#endif
#endif
/* kernel text ends */
// clang-format on

/* A row's work is small: this many elements make a piece. */
static int64_t grain(int64_t classes)
{
    return 1 + 8192 / (classes + 1);
}

/* ---- losses over classes ---- */

/* Operand 0 is [N, C], operand 1 the class of each row; the loss is 0-d. */
static haul_status infer_classes(haul__call *c)
{
    const haul_tensor *x = c->operands[0], *y = c->operands[1];
    if (x->shape.ndim != 2 || x->shape.dims[1] == 0)
        return haul__refuse_shape(c, 0, "[N, C] with at least one class is expected");
    if (y->shape.ndim != 1 || y->shape.dims[0] != x->shape.dims[0])
        return haul__fail(HAUL_SHAPE, c->operation->name, "y",
                          "y has %d dimension(s) and %lld elements; [%lld] is expected, the class of each row of %s",
                          y->shape.ndim, (long long)y->count, (long long)x->shape.dims[0],
                          c->operation->operands[0].name);
    return haul__describe(c, 0, x->dtype, &HAUL_SCALAR_SHAPE);
}

typedef struct class_attributes {
    int64_t classes;
} class_attributes;

static haul_status nll_backward_infer(haul__call *c)
{
    const class_attributes *a = haul__attributes(c);
    return haul__describe(c, 0, c->operands[0]->dtype, &HAUL_SHAPE(c->operands[1]->count, a->classes));
}

static haul_status nll_backward_compute(haul__call *c)
{
    haul_tensor *g = c->operands[0], *y = c->operands[1], *dx = c->results[0];
    int64_t      classes = dx->shape.dims[1];
    loss_params  p = {.items = y->count,
                      .classes = classes,
                      .offsets = {dx->offset, g->offset, y->offset},
                      .check = haul__index_check(HAUL__CHECK_nll_loss_backward, 0)};
    return haul__launch_checked(c, HAUL__K_nll_backward, g->dtype, c->results, 1, c->operands, 2, &p, sizeof p, p.items,
                                grain(classes));
}

/* The mean of -u[i, y[i]]: the transpose of what was done. */
static void nll_second(haul__gradient *c)
{
    c->operands[0] = haul_nll_loss(c->results[0], c->saved[1]);
}

/* [N, C]: -g / N at each row's class, zeros elsewhere. g is 0-d. */
HAUL__OPERATION(nll_loss_backward) = {
    .name = "haul_nll_loss_backward",
    .operands = {{"g"}, {"y", .accepts = HAUL__INTEGERS, .becomes = HAUL_I64, .saved_for = HAUL__FOR_0}},
    .results = {{"dx"}},
    .dtypes = HAUL__FLOATS,
    .attributes_size = HAUL__ATTRIBUTES(class_attributes),
    .infer = nll_backward_infer,
    .compute = nll_backward_compute,
    .gradient = nll_second,
};

static haul_status nll_compute(haul__call *c)
{
    haul_tensor *log_p = c->operands[0], *y = c->operands[1];
    haul_tensor *rows = haul__temporary(c, haul__sum_dtype(log_p->dtype), &y->shape);
    if (!rows)
        return haul_error_status();
    loss_params p = {.items = y->count,
                     .classes = log_p->shape.dims[1],
                     .offsets = {rows->offset, log_p->offset, y->offset},
                     .check = haul__index_check(HAUL__CHECK_nll_loss, 0)};
    if (haul__launch_checked(c, HAUL__K_nll_rows, log_p->dtype, &rows, 1, c->operands, 2, &p, sizeof p, p.items, 4096))
        return haul_error_status();
    return haul__mean_of_all(c, c->results[0], rows);
}

/* One element of each row is read. */
static haul__cost nll_cost(const haul__call *c)
{
    const haul_tensor *log_p = c->operands[0], *y = c->operands[1];
    int64_t            row = (int64_t)(haul__dtype_size(log_p->dtype) + sizeof(int64_t));
    return (haul__cost){(double)y->count, y->count * row};
}

static void nll_gradient(haul__gradient *c)
{
    class_attributes a = {haul__operand_shape(c, 0)->dims[1]};
    c->operands[0] = HAUL__APPLY(nll_loss_backward, &a, c->results[0], c->saved[1]);
}

HAUL__OPERATION(nll_loss) = {
    .name = "haul_nll_loss",
    .operands = {{"log_p"}, {"y", .accepts = HAUL__INTEGERS, .becomes = HAUL_I64, .saved_for = HAUL__FOR_0}},
    .results = {{"loss"}},
    .dtypes = HAUL__FLOATS,
    .autocast = HAUL__WIDE,
    .infer = infer_classes,
    .compute = nll_compute,
    .gradient = nll_gradient,
    .cost = nll_cost,
};

haul_tensor *haul_nll_loss(haul_tensor *log_p, haul_tensor *y)
{
    return HAUL__APPLY(nll_loss, NULL, log_p, y);
}

haul_status haul_nll_loss_into(haul_tensor *out, haul_tensor *log_p, haul_tensor *y)
{
    return HAUL__APPLY_INTO(out, nll_loss, NULL, log_p, y);
}

/* ---- cross_entropy ---- */

static haul_status fused_infer(haul__call *c)
{
    return haul__describe(c, 0, c->operands[0]->dtype, &c->operands[0]->shape);
}

static haul_status fused_compute(haul__call *c)
{
    haul_tensor *x = c->operands[0], *dx = c->results[0];
    loss_params  p = {.items = x->shape.dims[0],
                      .classes = x->shape.dims[1],
                      .offsets = {dx->offset},
                      .check = haul__index_check(HAUL__CHECK_cross_entropy_backward, 0)};
    for (int i = 0; i < c->count; i++)
        p.offsets[1 + i] = c->operands[i]->offset;
    return haul__launch_checked(c, HAUL__K_cross_entropy_backward, x->dtype, c->results, 1, c->operands, c->count, &p,
                                sizeof p, p.items, grain(p.classes));
}

/* (softmax(x) - onehot(y)) g / N; log_sum is that of each row's exponentials. */
HAUL__OPERATION(cross_entropy_backward) = {
    .name = "haul_cross_entropy_backward",
    .operands = {{"x"},
                 {"log_sum", .accepts = HAUL__FLOATS},
                 {"y", .accepts = HAUL__INTEGERS, .becomes = HAUL_I64},
                 {"g"}},
    .results = {{"dx"}},
    .dtypes = HAUL__FLOATS,
    .infer = fused_infer,
    .compute = fused_compute,
    .flops = 4,
};

static haul_status cross_entropy_infer(haul__call *c)
{
    if (infer_classes(c))
        return haul_error_status();
    return haul__describe(c, 1, haul__sum_dtype(c->operands[0]->dtype), &c->operands[1]->shape);
}

static haul_status cross_entropy_compute(haul__call *c)
{
    haul_tensor *x = c->operands[0], *y = c->operands[1];
    haul_dtype   sums = haul__sum_dtype(x->dtype);
    haul_tensor *rows = haul__temporary(c, sums, &y->shape);
    haul_tensor *log_sum = c->results[1] ? c->results[1] : haul__temporary(c, sums, &y->shape);
    if (!rows || !log_sum)
        return haul_error_status();
    loss_params p = {.items = y->count,
                     .classes = x->shape.dims[1],
                     .offsets = {rows->offset, log_sum->offset, x->offset, y->offset},
                     .check = haul__index_check(HAUL__CHECK_cross_entropy, 0)};
    if (haul__launch_checked(c, HAUL__K_cross_entropy, x->dtype, (haul_tensor *[]){rows, log_sum}, 2, c->operands, 2,
                             &p, sizeof p, p.items, grain(p.classes)))
        return haul_error_status();
    return haul__mean_of_all(c, c->results[0], rows);
}

static void cross_entropy_gradient(haul__gradient *c)
{
    haul_tensor *g = c->results[0], *x = c->saved[0], *y = c->saved[1];
    if (!haul__differentiated(c)) {
        c->operands[0] = HAUL__APPLY(cross_entropy_backward, NULL, x, c->saved_results[1], y, g);
        return;
    }
    class_attributes a = {x->shape.dims[1]};
    haul_tensor     *each = haul_mul_scalar(g, 1.0 / (double)y->count);
    haul_tensor     *picked = HAUL__APPLY(nll_loss_backward, &a, g, y);
    c->operands[0] = haul_add(haul_mul(haul_softmax(x, 1), each), picked);
}

HAUL__OPERATION(cross_entropy) = {
    .name = "haul_cross_entropy",
    .operands = {{"logits", .saved_for = HAUL__FOR_0},
                 {"y", .accepts = HAUL__INTEGERS, .becomes = HAUL_I64, .saved_for = HAUL__FOR_0}},
    .results = {{"loss"}, {"log_sum", .hidden = true, .saved_for = HAUL__FOR_0}},
    .dtypes = HAUL__FLOATS,
    .autocast = HAUL__WIDE,
    .infer = cross_entropy_infer,
    .compute = cross_entropy_compute,
    .gradient = cross_entropy_gradient,
    .flops = 4,
};

haul_tensor *haul_cross_entropy(haul_tensor *logits, haul_tensor *y)
{
    return HAUL__APPLY(cross_entropy, NULL, logits, y);
}

haul_status haul_cross_entropy_into(haul_tensor *out, haul_tensor *logits, haul_tensor *y)
{
    return HAUL__APPLY_INTO(out, cross_entropy, NULL, logits, y);
}

/* ---- binary cross-entropy ---- */

static haul_status check_pair(const haul__call *c)
{
    char        have[96], want[96];
    const char *name = c->operation->operands[0].name;
    if (haul__shape_equal(&c->operands[0]->shape, &c->operands[1]->shape))
        return HAUL_OK;
    return haul__fail(HAUL_SHAPE, c->operation->name, "target", "target has shape %s, %s has %s; they must be equal",
                      haul__shape_text(&c->operands[1]->shape, have, sizeof have), name,
                      haul__shape_text(&c->operands[0]->shape, want, sizeof want));
}

static haul_status bce_with_logits(haul__call *c)
{
    haul_tensor *x = c->operands[0], *target = c->operands[1];
    if (check_pair(c))
        return haul_error_status();
    c->results[0] = haul_mean(haul_bce_elements(x, target));
    return c->results[0] ? HAUL_OK : haul_error_status();
}

HAUL__OPERATION(bce_with_logits) = {
    .name = "haul_bce_with_logits",
    .operands = {{"logits"}, {"target"}},
    .results = {{"loss"}},
    .rule = HAUL__FLOATED,
    .autocast = HAUL__WIDE,
    .compose = bce_with_logits,
};

haul_tensor *haul_bce_with_logits(haul_tensor *logits, haul_tensor *target)
{
    return HAUL__APPLY(bce_with_logits, NULL, logits, target);
}

haul_status haul_bce_with_logits_into(haul_tensor *out, haul_tensor *logits, haul_tensor *target)
{
    return HAUL__APPLY_INTO(out, bce_with_logits, NULL, logits, target);
}

/* ---- mse_loss ---- */

#define MSE_GRAIN 8192

/* The factor of the loss's gradient. */
static double mse_scale(const haul_tensor *x)
{
    return x->count > 1 ? 1.0 / (double)x->count : 1;
}

static mse_params mse_params_of(const haul__call *c, const haul_tensor *result)
{
    const haul_tensor *x = c->operands[0];
    mse_params         p = {.items = x->count, .offsets = {result->offset}};
    for (int i = 0; i < c->count; i++)
        p.offsets[1 + i] = c->operands[i]->offset;
    p.scale = haul__scalar_bits(x->dtype, mse_scale(x));
    return p;
}

static haul_status mse_backward_infer(haul__call *c)
{
    return haul__describe(c, 0, c->operands[0]->dtype, &c->operands[0]->shape);
}

static haul_status mse_backward_compute(haul__call *c)
{
    mse_params p = mse_params_of(c, c->results[0]);
    return haul__launch_kernel(c, HAUL__K_mse_backward, c->operands[0]->dtype, c->results, 1, c->operands, c->count, &p,
                               sizeof p, p.items, MSE_GRAIN);
}

/* 2 (x - target) g / N; g is 0-d. */
HAUL__OPERATION(mse_loss_backward) = {
    .name = "haul_mse_loss_backward",
    .operands = {{"x"}, {"target"}, {"g"}},
    .results = {{"dx"}},
    .dtypes = HAUL__FLOATS,
    .infer = mse_backward_infer,
    .compute = mse_backward_compute,
    .flops = 3,
};

static haul_status mse_infer(haul__call *c)
{
    haul_status status = check_pair(c);
    return status ? status : haul__describe(c, 0, c->operands[0]->dtype, &HAUL_SCALAR_SHAPE);
}

static haul_status mse_compute(haul__call *c)
{
    haul_tensor *x = c->operands[0], *squares = haul__temporary(c, x->dtype, &x->shape);
    if (!squares)
        return haul_error_status();
    mse_params p = mse_params_of(c, squares);
    if (haul__launch_kernel(c, HAUL__K_mse_squares, x->dtype, &squares, 1, c->operands, 2, &p, sizeof p, p.items,
                            MSE_GRAIN))
        return haul_error_status();
    return haul__mean_of_all(c, c->results[0], squares);
}

static void mse_gradient(haul__gradient *c)
{
    haul_tensor *g = c->results[0], *x = c->saved[0], *target = c->saved[1], *dx;
    if (haul__differentiated(c))
        dx = haul_mul(haul_mul_scalar(g, mse_scale(x)), haul_mul_scalar(haul_sub(x, target), 2));
    else
        dx = HAUL__APPLY(mse_loss_backward, NULL, x, target, g);
    c->operands[0] = dx;
    if (haul__wanted(c, 1))
        c->operands[1] = haul_neg(dx);
}

HAUL__OPERATION(mse_loss) = {
    .name = "haul_mse_loss",
    .operands = {{"x", .saved_for = HAUL__FOR_ALL}, {"target", .saved_for = HAUL__FOR_ALL}},
    .results = {{"loss"}},
    .dtypes = HAUL__FLOATS,
    .rule = HAUL__FLOATED,
    .autocast = HAUL__WIDE,
    .infer = mse_infer,
    .compute = mse_compute,
    .gradient = mse_gradient,
    .flops = 3,
};

haul_tensor *haul_mse_loss(haul_tensor *x, haul_tensor *target)
{
    return HAUL__APPLY(mse_loss, NULL, x, target);
}

haul_status haul_mse_loss_into(haul_tensor *out, haul_tensor *x, haul_tensor *target)
{
    return HAUL__APPLY_INTO(out, mse_loss, NULL, x, target);
}
