/* Matrix products: haul_matmul with NumPy's rules for leading axes and vectors, and haul_linear. */
#include <stdio.h>

#include "ops/gemm.h"

/* ---- operands ---- */

/* Cast the operands to the dtype they share. HAUL_DTYPE_NONE on failure. */
static haul_dtype promote(const char *operation, haul_tensor **in, const char *const *names, int count)
{
    haul_dtype dtype = in[0]->dtype;
    for (int i = 1; i < count; i++)
        if (!haul__is_none(in[i]))
            dtype = haul_dtype_promote(dtype, in[i]->dtype);
    if (dtype == HAUL_BOOL) {
        haul__fail_dtype(operation, names[0], in[0], "a matrix product needs numbers; convert it with haul_cast");
        return HAUL_DTYPE_NONE;
    }
    for (int i = 0; i < count; i++) {
        if (haul__is_none(in[i]) || in[i]->dtype == dtype)
            continue;
        in[i] = haul_cast(in[i], dtype);
        if (!in[i])
            return HAUL_DTYPE_NONE;
    }
    return dtype;
}

/* The one stride that walks through t's leading axes, broadcast to those of `shape`; false if there is none. */
static bool batch_stride(const haul_tensor *t, const haul_shape *shape, int64_t *stride)
{
    int     leading = shape->ndim - 2, missing = shape->ndim - t->shape.ndim;
    int64_t expected = -1;
    *stride = 0;
    for (int d = leading - 1; d >= 0; d--) {
        int64_t dim = shape->dims[d];
        if (dim == 1)
            continue;
        bool    repeats = d < missing || t->shape.dims[d - missing] == 1;
        int64_t step = repeats ? 0 : t->strides[d - missing];
        if (expected < 0)
            *stride = step;
        else if (step != expected)
            return false;
        expected = step * dim;
    }
    return true;
}

/* t with leading axes that one stride walks through: itself, or a copy. */
static haul_tensor *batched(haul_tensor *t, const haul_shape *result, int64_t *stride)
{
    if (batch_stride(t, result, stride))
        return t;
    haul_shape shape = *result;
    shape.dims[shape.ndim - 2] = t->shape.dims[t->shape.ndim - 2];
    shape.dims[shape.ndim - 1] = t->shape.dims[t->shape.ndim - 1];
    t = haul_contiguous(haul_expand(t, shape));
    if (t)
        *stride = shape.dims[shape.ndim - 2] * shape.dims[shape.ndim - 1];
    return t;
}

/* ---- the product of matrices ---- */

/* dA = g B^T and dB = A^T g; what was broadcast is summed by the caller. */
static haul_status matmul_backward(haul__node *node, haul_tensor *g, haul_tensor **out)
{
    if (haul__needs(node, 0) && !(out[0] = haul_matmul(g, haul_transpose(haul__saved(node, 1), -2, -1))))
        return haul_error_status();
    if (haul__needs(node, 1) && !(out[1] = haul_matmul(haul_transpose(haul__saved(node, 0), -2, -1), g)))
        return haul_error_status();
    return HAUL_OK;
}

/* Both of two axes or more, of one dtype, with fitting inner sizes. */
static haul_tensor *matrices(haul_device *device, haul_tensor *a, haul_tensor *b)
{
    const char *operation = "haul_matmul";
    int         last_a = a->shape.ndim - 1, last_b = b->shape.ndim - 1;
    haul_shape  lead_a = a->shape, lead_b = b->shape, shape;
    lead_a.ndim -= 2;
    lead_b.ndim -= 2;
    if (haul__shape_broadcast(&lead_a, &lead_b, operation, &shape))
        return NULL;
    shape.dims[shape.ndim++] = a->shape.dims[last_a - 1];
    shape.dims[shape.ndim++] = b->shape.dims[last_b];

    haul__gemm call = {
        .m = a->shape.dims[last_a - 1], .n = b->shape.dims[last_b], .k = a->shape.dims[last_a], .batch = 1};
    haul_tensor *ma = batched(a, &shape, &call.a_batch), *mb = batched(b, &shape, &call.b_batch);
    haul_tensor *y = ma && mb ? haul__result(operation, device, a->dtype, &shape) : NULL;
    if (!y)
        return NULL;
    for (int d = 0; d < shape.ndim - 2; d++)
        call.batch *= shape.dims[d]; /* the result's count was checked */
    call.a_row = ma->strides[ma->shape.ndim - 2];
    call.a_col = ma->strides[ma->shape.ndim - 1];
    call.b_row = mb->strides[mb->shape.ndim - 2];
    call.b_col = mb->strides[mb->shape.ndim - 1];
    call.c_row = call.n;
    call.c_batch = call.m * call.n;
    if (haul__gemm_run(operation, &call, y, ma, mb, NULL))
        return NULL;
    return haul__finish(y, &(haul__record){
                               .name = operation,
                               .backward = matmul_backward,
                               .inputs = (haul_tensor *[]){a, b},
                               .input_count = 2,
                               .saves = (haul_tensor *[]){haul__tracks(b) ? a : NULL, haul__tracks(a) ? b : NULL},
                               .save_count = 2,
                           });
}

static haul_status check_inner(haul_tensor *a, haul_tensor *b)
{
    char shape_a[80], shape_b[80];
    if (a->shape.ndim == 0 || b->shape.ndim == 0)
        return haul__fail_shape("haul_matmul", a->shape.ndim ? "b" : "a", a->shape.ndim ? b : a,
                                "a matrix product needs an axis; multiply by a scalar with haul_mul");
    int64_t columns = a->shape.dims[a->shape.ndim - 1];
    int64_t rows = b->shape.dims[b->shape.ndim == 1 ? 0 : b->shape.ndim - 2];
    if (columns == rows)
        return HAUL_OK;
    return haul__fail(HAUL_SHAPE, "haul_matmul", "b",
                      "a is %s and b is %s: the last axis of a (%lld) must be as long as the %s of b (%lld)",
                      haul__shape_text(&a->shape, shape_a, sizeof shape_a),
                      haul__shape_text(&b->shape, shape_b, sizeof shape_b), (long long)columns,
                      b->shape.ndim == 1 ? "only axis" : "last but one", (long long)rows);
}

/* [..., m, k] as [... m, k], so that one large product takes the place of many that share b. */
static haul_tensor *fold_rows(const char *operation, haul_tensor *x)
{
    int     last = x->shape.ndim - 1;
    int64_t rows = 1;
    for (int d = 0; d < last; d++)
        if (!haul__mul_size(rows, x->shape.dims[d], &rows)) { /* possible where another dim is 0 */
            haul__fail_shape(operation, "an operand", x, "its rows are too many to count");
            return NULL;
        }
    return haul_reshape(x, HAUL_SHAPE(rows, x->shape.dims[last]));
}

static haul_tensor *matmul(haul_tensor *a, haul_tensor *b)
{
    haul_tensor      *in[] = {a, b};
    const char *const names[] = {"a", "b"};
    haul_device      *device = haul__place("haul_matmul", in, names, 2);
    if (!device)
        return NULL;
    if (haul__is_none(a) || haul__is_none(b)) {
        haul__fail(HAUL_INVALID_ARGUMENT, "haul_matmul", haul__is_none(a) ? "a" : "b",
                   "%s is HAUL_NONE, but a tensor is needed here", haul__is_none(a) ? "a" : "b");
        return NULL;
    }
    if (check_inner(in[0], in[1]) || !promote("haul_matmul", in, names, 2))
        return NULL;
    bool vector_a = in[0]->shape.ndim == 1, vector_b = in[1]->shape.ndim == 1;
    a = vector_a ? haul_unsqueeze(in[0], 0) : in[0];
    b = vector_b ? haul_unsqueeze(in[1], 1) : in[1];
    if (!a || !b)
        return NULL;
    haul_tensor *y;
    if (a->shape.ndim > 2 && b->shape.ndim == 2) {
        haul_shape shape = a->shape;
        shape.dims[shape.ndim - 1] = b->shape.dims[1];
        a = fold_rows("haul_matmul", a);
        y = a ? haul_reshape(matrices(device, a, b), shape) : NULL;
    } else {
        y = matrices(device, a, b);
    }
    if (vector_a)
        y = haul_squeeze(y, -2);
    if (vector_b)
        y = haul_squeeze(y, -1);
    return y;
}

haul_tensor *haul_matmul(haul_tensor *a, haul_tensor *b)
{
    haul_scope *scope = haul_scope_push();
    return scope ? haul_scope_return(scope, matmul(a, b)) : NULL;
}

/* ---- linear ---- */

/* y = x W^T + bias: dx = g W, dW = g^T x, dbias = the sum of g's rows; with relu, of the g where y > 0. */
static haul_status linear_backward(haul__node *node, haul_tensor *g, haul_tensor **out)
{
    const bool *relu = node->attributes;
    if (*relu && !(g = haul_relu_backward(g, haul__saved(node, 2))))
        return haul_error_status();
    if (haul__needs(node, 0) && !(out[0] = haul_matmul(g, haul__saved(node, 1))))
        return haul_error_status();
    if (haul__needs(node, 1) && !(out[1] = haul_matmul(haul_transpose(g, 0, 1), haul__saved(node, 0))))
        return haul_error_status();
    if (haul__needs(node, 2) && !(out[2] = haul_sum(g, .axes = {0}, .count = 1)))
        return haul_error_status();
    return HAUL_OK;
}

static haul_status check_linear(haul_tensor *x, haul_tensor *weight, haul_tensor *bias)
{
    const char *operation = "haul_linear";
    char        wanted[160], have[80];
    if (haul__is_none(x) || haul__is_none(weight))
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, haul__is_none(x) ? "x" : "weight",
                          "%s is HAUL_NONE, but a tensor is needed here", haul__is_none(x) ? "x" : "weight");
    if (weight->shape.ndim != 2)
        return haul__fail_shape(operation, "weight", weight, "it must be [out, in]");
    if (x->shape.ndim == 0 || x->shape.dims[x->shape.ndim - 1] != weight->shape.dims[1]) {
        snprintf(wanted, sizeof wanted, "weight is %s: the last axis of x must be %lld long",
                 haul__shape_text(&weight->shape, have, sizeof have), (long long)weight->shape.dims[1]);
        return haul__fail_shape(operation, "x", x, wanted);
    }
    if (!haul__is_none(bias) && (bias->shape.ndim != 1 || bias->shape.dims[0] != weight->shape.dims[0])) {
        snprintf(wanted, sizeof wanted, "weight is %s: bias must be [%lld]",
                 haul__shape_text(&weight->shape, have, sizeof have), (long long)weight->shape.dims[0]);
        return haul__fail_shape(operation, "bias", bias, wanted);
    }
    return HAUL_OK;
}

/* x [rows, in], weight [out, in], bias [out] or HAUL_NONE. */
static haul_tensor *linear_rows(haul_device *device, haul_tensor *x, haul_tensor *weight, haul_tensor *bias, bool relu)
{
    const char  *operation = "haul_linear";
    bool         has_bias = !haul__is_none(bias);
    haul_shape   shape = HAUL_SHAPE(x->shape.dims[0], weight->shape.dims[0]);
    haul_tensor *dense_bias = has_bias ? haul__dense(bias) : NULL;
    haul_tensor *y = haul__result(operation, device, x->dtype, &shape);
    if (!y || (has_bias && !dense_bias))
        return NULL;
    haul__gemm call = {
        .batch = 1,
        .m = shape.dims[0],
        .n = shape.dims[1],
        .k = x->shape.dims[1],
        .a_row = x->strides[0],
        .a_col = x->strides[1],
        .b_row = weight->strides[1],
        .b_col = weight->strides[0],
        .c_row = shape.dims[1],
        .relu = relu,
    };
    if (haul__gemm_run(operation, &call, y, x, weight, dense_bias))
        return NULL;
    haul_tensor *saves[] = {haul__tracks(weight) ? x : NULL, haul__tracks(x) ? weight : NULL, relu ? y : NULL};
    return haul__finish(y, &(haul__record){
                               .name = operation,
                               .backward = linear_backward,
                               .inputs = (haul_tensor *[]){x, weight, bias},
                               .input_count = 3,
                               .saves = saves,
                               .save_count = 3,
                               .attributes = &relu,
                               .attributes_size = sizeof relu,
                           });
}

static haul_tensor *linear(haul_tensor *x, haul_tensor *weight, haul_tensor *bias, bool relu)
{
    haul_tensor      *in[] = {x, weight, bias};
    const char *const names[] = {"x", "weight", "bias"};
    haul_device      *device = haul__place("haul_linear", in, names, 3);
    if (!device || check_linear(in[0], in[1], in[2]) || !promote("haul_linear", in, names, 3))
        return NULL;
    if (in[0]->shape.ndim == 2)
        return linear_rows(device, in[0], in[1], in[2], relu);
    haul_shape shape = in[0]->shape;
    shape.dims[shape.ndim - 1] = in[1]->shape.dims[0];
    x = fold_rows("haul_linear", in[0]);
    return x ? haul_reshape(linear_rows(device, x, in[1], in[2], relu), shape) : NULL;
}

haul_tensor *haul_linear_with(haul_tensor *x, haul_tensor *weight, const haul_linear_options *options)
{
    if (!options) {
        haul__fail_null("haul_linear", "options");
        return NULL;
    }
    haul_scope *scope = haul_scope_push();
    return scope ? haul_scope_return(scope, linear(x, weight, options->bias, options->relu)) : NULL;
}
