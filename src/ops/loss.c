/* Losses: one number, the mean over the batch.
 *
 * cross_entropy is log_softmax and nll_loss in one pass each way: forward keeps the logarithm of each row's sum of
 * exponentials, backward is (softmax - onehot) g / N. Where a gradient is to be differentiated again it is composed of
 * operations instead. The binary and squared losses are composed always. */
#include "kernels/types.h"
#include "ops/indices.h"

// clang-format off
/* kernel text begins */
typedef struct loss_params {
    I64 items; /* rows */
    I64 classes;
    I64 offsets[5]; /* of the buffers */
} loss_params;

#ifdef HAUL_KERNEL
#if IS_FLOAT
/* The class of a row; an index out of range must not read outside. */
FUNC I64 loss_class(I64 y, I64 classes)
{
    return y < 0 ? 0 : y >= classes ? classes - 1 : y;
}

KERNEL3(nll_rows, loss_params, ACC, out, const T, log_p, const I64, y)
{
    FOR_ITEMS(i)
    {
        const I64 c = loss_class(y[p.offsets[2] + i], p.classes);
        out[p.offsets[0] + i] = -LOAD(log_p, p.offsets[1] + i * p.classes + c);
    }
}

KERNEL3(nll_backward, loss_params, T, out, const T, g, const I64, y)
{
    const A each = -LOAD(g, p.offsets[1]) / (A)p.items;
    FOR_ROWS(i)
    {
        const I64 c = loss_class(y[p.offsets[2] + i], p.classes);
        GLOBAL T *o = out + p.offsets[0] + i * p.classes;
        EACH_OF_ROW(j, p.classes) STORE(o, j, j == c ? each : LIT(0.0));
    }
}

/* loss = log(sum(exp(x))) - x[y]; the first part is kept. */
KERNEL4(cross_entropy, loss_params, ACC, out, ACC, log_sum, const T, x, const I64, y)
{
    FOR_ROWS(i)
    {
        const I64 n = p.classes;
        GLOBAL const T *v = x + p.offsets[2] + i * n;
        const A most = ROW_MAX(v, n), log_s = M_LOG(ROW_EXP_SUM(v, n, most));
        const A own = LOAD(v, loss_class(y[p.offsets[3] + i], n));
        if (IS_FIRST_LANE) {
            out[p.offsets[0] + i] = log_s - (own - most);
            log_sum[p.offsets[1] + i] = log_s + most;
        }
    }
}

KERNEL5(cross_entropy_backward, loss_params, T, out, const T, x, const ACC, log_sum, const I64, y, const T, g)
{
    const A each = LOAD(g, p.offsets[4]) / (A)p.items;
    FOR_ROWS(i)
    {
        const I64 n = p.classes, c = loss_class(y[p.offsets[3] + i], n);
        const A shift = log_sum[p.offsets[2] + i];
        GLOBAL const T *v = x + p.offsets[1] + i * n;
        GLOBAL T *o = out + p.offsets[0] + i * n;
        EACH_OF_ROW(j, n) STORE(o, j, (M_EXP(LOAD(v, j) - shift) - (j == c ? LIT(1.0) : LIT(0.0))) * each);
    }
}
#endif
#endif
/* kernel text ends */
// clang-format on

/* A row's work is small: this many elements make a piece. */
static int64_t grain(const haul_tensor *x)
{
    return 1 + 8192 / (x->shape.dims[1] + 1);
}

/* Operands of the losses over classes, placed, checked and packed: in[0] [N, C], floating; in[1] i64 [N]. */
static haul_status class_operands(const char *operation, const char *name, haul_tensor **in)
{
    const char *const names[] = {name, "y"};
    if (!haul__place(operation, in, names, 2))
        return haul_error_status();
    if (haul__is_none(in[0]) || haul__is_none(in[1]))
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, haul__is_none(in[0]) ? name : "y",
                          "%s is HAUL_NONE, but a tensor is needed here", haul__is_none(in[0]) ? name : "y");
    if (in[0]->shape.ndim != 2 || in[0]->shape.dims[1] == 0)
        return haul__fail_shape(operation, name, in[0], "[N, C] with at least one class is expected");
    if (!haul_dtype_is_float(in[0]->dtype))
        return haul__fail_dtype(operation, name, in[0], "a floating dtype is expected");
    if (in[1]->shape.ndim != 1 || in[1]->shape.dims[0] != in[0]->shape.dims[0])
        return haul__fail(HAUL_SHAPE, operation, "y",
                          "y has %d dimension(s) and %lld elements; [%lld] is expected, the class of each row of %s",
                          in[1]->shape.ndim, (long long)in[1]->count, (long long)in[0]->shape.dims[0], name);
    if (!in[0]->contiguous && !(in[0] = haul_contiguous(in[0])))
        return haul_error_status();
    in[1] = haul__indices(operation, "y", in[1], in[0]->shape.dims[1]);
    return in[1] ? HAUL_OK : haul_error_status();
}

/* The mean of what a kernel wrote, in the dtype of the operand. */
static haul_tensor *mean_as(haul_tensor *rows, haul_dtype dtype)
{
    haul_tensor *mean = haul_mean(rows);
    return mean && mean->dtype != dtype ? haul_cast(mean, dtype) : mean;
}

/* ---- nll_loss ---- */

static haul_tensor *nll(haul_tensor *log_p, haul_tensor *y);

static haul_status nll_scatter_backward(haul__node *node, haul_tensor *g, haul_tensor **out)
{
    haul_tensor *y = haul__saved(node, 0);
    out[0] = y && g ? nll(g, y) : NULL; /* the mean of -g[i, y[i]]: the transpose of what was done */
    return out[0] ? HAUL_OK : haul_error_status();
}

/* [N, C]: -g / N at each row's class, zeros elsewhere. g is 0-d. */
static haul_tensor *nll_scatter(haul_tensor *g, haul_tensor *y, int64_t classes)
{
    haul_shape   shape = HAUL_SHAPE(y->count, classes);
    haul_tensor *dx = haul__result("haul_nll_loss_backward", g->storage->device, g->dtype, &shape);
    if (!dx)
        return NULL;
    loss_params p = {.items = y->count, .classes = classes, .offsets = {dx->offset, g->offset, y->offset}};
    if (haul__run("haul_nll_loss_backward", g->storage->device, HAUL__K_nll_backward, g->dtype, &dx, 1,
                  (haul_tensor *[]){g, y}, 2, &p, sizeof p, p.items, grain(dx)))
        return NULL;
    return haul__finish(dx, &(haul__record){.name = "haul_nll_loss_backward",
                                            .backward = nll_scatter_backward,
                                            .inputs = &g,
                                            .input_count = 1,
                                            .saves = &y,
                                            .save_count = 1});
}

static haul_status nll_backward(haul__node *node, haul_tensor *g, haul_tensor **out)
{
    haul_tensor *y = haul__saved(node, 0);
    out[0] = y ? nll_scatter(g, y, node->edges[0].shape.dims[1]) : NULL;
    return out[0] ? HAUL_OK : haul_error_status();
}

/* log_p and y checked and row-major */
static haul_tensor *nll(haul_tensor *log_p, haul_tensor *y)
{
    if (!log_p->contiguous && !(log_p = haul_contiguous(log_p)))
        return NULL;
    haul_device *device = log_p->storage->device;
    haul_tensor *rows = haul__result("haul_nll_loss", device, haul__sum_dtype(log_p->dtype), &y->shape);
    if (!rows)
        return NULL;
    loss_params p = {
        .items = y->count, .classes = log_p->shape.dims[1], .offsets = {rows->offset, log_p->offset, y->offset}};
    if (haul__run("haul_nll_loss", device, HAUL__K_nll_rows, log_p->dtype, &rows, 1, (haul_tensor *[]){log_p, y}, 2, &p,
                  sizeof p, p.items, 4096))
        return NULL;
    return haul__finish(mean_as(rows, log_p->dtype), &(haul__record){.name = "haul_nll_loss",
                                                                     .backward = nll_backward,
                                                                     .inputs = &log_p,
                                                                     .input_count = 1,
                                                                     .saves = &y,
                                                                     .save_count = 1});
}

haul_tensor *haul_nll_loss(haul_tensor *log_p, haul_tensor *y)
{
    haul_tensor *in[] = {log_p, y}, *loss = NULL;
    haul_scope  *scope = haul_scope_push();
    if (scope && class_operands("haul_nll_loss", "log_p", in) == HAUL_OK)
        loss = nll(in[0], in[1]);
    return haul_scope_return(scope, loss);
}

/* ---- cross_entropy ---- */

static haul_status cross_entropy_backward(haul__node *node, haul_tensor *g, haul_tensor **out)
{
    haul_tensor *x = haul__saved(node, 0), *y = haul__saved(node, 1), *log_sum = haul__saved(node, 2);
    if (!x || !y || !log_sum)
        return haul_error_status();
    if (haul__records((haul_tensor *[]){x, g}, 2)) {
        haul_tensor *each = haul_mul_scalar(g, 1.0 / (double)y->count);
        out[0] = haul_add(haul_mul(haul_softmax(x, 1), each), nll_scatter(g, y, x->shape.dims[1]));
        return out[0] ? HAUL_OK : haul_error_status();
    }
    haul_device *device = x->storage->device;
    haul_tensor *dx = haul__result("haul_cross_entropy_backward", device, x->dtype, &x->shape);
    if (!dx)
        return haul_error_status();
    loss_params p = {.items = y->count,
                     .classes = x->shape.dims[1],
                     .offsets = {dx->offset, x->offset, log_sum->offset, y->offset, g->offset}};
    if (haul__run("haul_cross_entropy_backward", device, HAUL__K_cross_entropy_backward, x->dtype, &dx, 1,
                  (haul_tensor *[]){x, log_sum, y, g}, 4, &p, sizeof p, p.items, grain(x)))
        return haul_error_status();
    out[0] = dx;
    return HAUL_OK;
}

static haul_tensor *cross_entropy(haul_tensor *x, haul_tensor *y)
{
    haul_device *device = x->storage->device;
    haul_dtype   sums = haul__sum_dtype(x->dtype);
    haul_tensor *rows = haul__result("haul_cross_entropy", device, sums, &y->shape);
    haul_tensor *log_sum = rows ? haul__result("haul_cross_entropy", device, sums, &y->shape) : NULL;
    if (!log_sum)
        return NULL;
    loss_params p = {.items = y->count,
                     .classes = x->shape.dims[1],
                     .offsets = {rows->offset, log_sum->offset, x->offset, y->offset}};
    if (haul__run("haul_cross_entropy", device, HAUL__K_cross_entropy, x->dtype, (haul_tensor *[]){rows, log_sum}, 2,
                  (haul_tensor *[]){x, y}, 2, &p, sizeof p, p.items, grain(x)))
        return NULL;
    return haul__finish(mean_as(rows, x->dtype), &(haul__record){.name = "haul_cross_entropy",
                                                                 .backward = cross_entropy_backward,
                                                                 .inputs = &x,
                                                                 .input_count = 1,
                                                                 .saves = (haul_tensor *[]){x, y, log_sum},
                                                                 .save_count = 3});
}

haul_tensor *haul_cross_entropy(haul_tensor *logits, haul_tensor *y)
{
    haul_tensor *in[] = {logits, y}, *loss = NULL;
    haul_scope  *scope = haul_scope_push();
    if (scope && class_operands("haul_cross_entropy", "logits", in) == HAUL_OK)
        loss = cross_entropy(in[0], in[1]);
    return haul_scope_return(scope, loss);
}

/* ---- composed losses ---- */

/* Two operands of one shape; integers count as f32. */
static haul_status pair_operands(const char *operation, const char *name, haul_tensor **in)
{
    const char *const names[] = {name, "target"};
    char              have[96], want[96];
    if (!haul__place(operation, in, names, 2))
        return haul_error_status();
    for (int i = 0; i < 2; i++)
        if (haul__is_none(in[i]))
            return haul__fail(HAUL_INVALID_ARGUMENT, operation, names[i],
                              "%s is HAUL_NONE, but a tensor is needed here", names[i]);
    if (!haul__shape_equal(&in[0]->shape, &in[1]->shape))
        return haul__fail(HAUL_SHAPE, operation, "target", "target has shape %s, %s has %s; they must be equal",
                          haul__shape_text(&in[1]->shape, have, sizeof have), name,
                          haul__shape_text(&in[0]->shape, want, sizeof want));
    haul_dtype dtype = haul__float_dtype(haul_dtype_promote(in[0]->dtype, in[1]->dtype));
    for (int i = 0; i < 2; i++)
        if (in[i]->dtype != dtype && !(in[i] = haul_cast(in[i], dtype)))
            return haul_error_status();
    return HAUL_OK;
}

haul_tensor *haul_bce_with_logits(haul_tensor *logits, haul_tensor *target)
{
    haul_tensor *in[] = {logits, target}, *loss = NULL;
    haul_scope  *scope = haul_scope_push();
    if (scope && pair_operands("haul_bce_with_logits", "logits", in) == HAUL_OK)
        loss =
            haul_mean(haul_sub(haul_softplus(in[0]), haul_mul(in[0], in[1]))); /* softplus(x) = max(x, 0) + log(...) */
    return haul_scope_return(scope, loss);
}

haul_tensor *haul_mse_loss(haul_tensor *x, haul_tensor *target)
{
    haul_tensor *in[] = {x, target}, *loss = NULL;
    haul_scope  *scope = haul_scope_push();
    if (scope && pair_operands("haul_mse_loss", "x", in) == HAUL_OK)
        loss = haul_mean(haul_square(haul_sub(in[0], in[1])));
    return haul_scope_return(scope, loss);
}
