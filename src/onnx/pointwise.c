/* Operators that compute each element from those at the same place. */
#include <haul/autograd.h>
#include <haul/dtype.h>
#include <haul/elementwise.h>
#include <haul/transfer.h>
#include <math.h>
#include <string.h>

#include "core/error.h"
#include "core/tensor.h"
#include "onnx/families.h"
#include "onnx/run.h"
#include "ops/move/bit_cast.h"

#define X(i) haul__onnx_x(c, i)

static bool is_float(haul_tensor *x)
{
    return haul_dtype_is_float(haul_tensor_dtype(x));
}

/* True if nothing else uses the memory of input 0, now or later, so that the result may take its place. */
static bool may_overwrite(const haul__onnx_call *c)
{
    const haul__onnx_slot *slot = &c->run->slots[c->step->inputs[0]];
    bool                   last = false;
    for (int i = 0; i < c->step->drop_count; i++)
        last = last || c->step->drops[i] == c->step->inputs[0];
    return last && slot->made && slot->tensor && !haul_grad_enabled() && !haul__is_dry() && is_float(slot->tensor) &&
           slot->tensor->contiguous && atomic_load(&slot->tensor->storage->object.refs) == 1;
}

haul_tensor *haul__onnx_unary(haul__onnx_call *c)
{
    if (c->step->row->use.unary == haul_relu && may_overwrite(c))
        return haul_relu_into(X(0), X(0)) ? haul__failed_tensor() : X(0);
    return c->step->row->use.unary(X(0));
}

haul_tensor *haul__onnx_binary(haul__onnx_call *c)
{
    return c->step->row->use.binary(X(0), X(1));
}

haul_tensor *haul__onnx_variadic(haul__onnx_call *c)
{
    haul_tensor *y = X(0);
    for (int i = 1; i < haul__onnx_count(c); i++)
        y = c->step->row->use.binary(y, X(i));
    return y;
}

haul_tensor *haul__onnx_mean_of(haul__onnx_call *c)
{
    return haul_div_scalar(haul__onnx_variadic(c), haul__onnx_count(c));
}

haul_tensor *haul__onnx_identity(haul__onnx_call *c)
{
    return X(0);
}

haul_tensor *haul__onnx_bit_shift(haul__onnx_call *c)
{
    const bool left = !strcmp(haul__onnx_string(c, "direction", ""), "LEFT");
    return left ? haul_left_shift(X(0), X(1)) : haul_right_shift(X(0), X(1));
}

haul_tensor *haul__onnx_divide(haul__onnx_call *c)
{
    haul_tensor *a = X(0), *b = X(1);
    return is_float(a) ? haul_div(a, b) : haul_trunc_div(a, b);
}

haul_tensor *haul__onnx_modulo(haul__onnx_call *c)
{
    return haul__onnx_int(c, "fmod", 0) ? haul_fmod(X(0), X(1)) : haul_remainder(X(0), X(1));
}

/* The result has the dtype of the base. */
haul_tensor *haul__onnx_power(haul__onnx_call *c)
{
    haul_tensor         *x = X(0);
    const haul__numbers *n = haul__onnx_known(c, 1);
    haul_tensor         *y = n && n->count == 1 && !n->shape.ndim && is_float(x)
                                 ? (n->items->f == 2 ? haul_square(x) : haul_pow_scalar(x, n->items->f))
                                 : haul_pow(x, X(1));
    return haul_cast(y, haul__onnx_type(c, 0));
}

haul_tensor *haul__onnx_where(haul__onnx_call *c)
{
    return haul_where(X(0), X(1), X(2));
}

haul_tensor *haul__onnx_celu(haul__onnx_call *c)
{
    return haul_celu(X(0), haul__onnx_float(c, "alpha", 1));
}

haul_tensor *haul__onnx_elu(haul__onnx_call *c)
{
    return haul_elu(X(0), haul__onnx_float(c, "alpha", 1));
}

haul_tensor *haul__onnx_leaky_relu(haul__onnx_call *c)
{
    return haul_leaky_relu(X(0), haul__onnx_float(c, "alpha", (double)0.01f));
}

haul_tensor *haul__onnx_selu(haul__onnx_call *c)
{
    const double alpha = haul__onnx_float(c, "alpha", (double)1.67326319217681884765625f);
    const double gamma = haul__onnx_float(c, "gamma", (double)1.05070102214813232421875f);
    return haul_mul_scalar(haul_elu(X(0), alpha), gamma);
}

haul_tensor *haul__onnx_gelu(haul__onnx_call *c)
{
    return strcmp(haul__onnx_string(c, "approximate", "none"), "tanh") ? haul_gelu(X(0)) : haul_gelu_tanh(X(0));
}

haul_tensor *haul__onnx_swish(haul__onnx_call *c)
{
    const double alpha = haul__onnx_float(c, "alpha", 1);
    haul_tensor *x = X(0);
    return alpha == 1 ? haul_silu(x) : haul_mul(x, haul_sigmoid(haul_mul_scalar(x, alpha)));
}

haul_tensor *haul__onnx_hard_sigmoid(haul__onnx_call *c)
{
    const double alpha = haul__onnx_float(c, "alpha", (double)0.2f), beta = haul__onnx_float(c, "beta", 0.5);
    return haul_clamp(haul_affine(X(0), alpha, beta), 0, 1);
}

haul_tensor *haul__onnx_thresholded_relu(haul__onnx_call *c)
{
    return haul_threshold(X(0), haul__onnx_float(c, "alpha", 1), 0);
}

haul_tensor *haul__onnx_shrink(haul__onnx_call *c)
{
    const double bias = haul__onnx_float(c, "bias", 0), edge = haul__onnx_float(c, "lambd", 0.5);
    haul_tensor *x = X(0), *low = haul_lt_scalar(x, -edge), *high = haul_gt_scalar(x, edge);
    haul_tensor *y =
        haul_where(low, haul_add_scalar(x, bias), haul_where(high, haul_sub_scalar(x, bias), haul_zeros_like(x)));
    return haul_cast(y, haul__onnx_type(c, 0));
}

haul_tensor *haul__onnx_prelu(haul__onnx_call *c)
{
    haul_tensor *x = X(0);
    return haul_where(haul_lt_scalar(x, 0), haul_mul(x, X(1)), x);
}

haul_tensor *haul__onnx_is_inf(haul__onnx_call *c)
{
    const bool low = haul__onnx_int(c, "detect_negative", 1) != 0, high = haul__onnx_int(c, "detect_positive", 1) != 0;
    haul_tensor *x = X(0);
    if (low && high)
        return haul_isinf(x);
    return haul_logical_and(haul_isinf(x), low    ? haul_lt_scalar(x, 0)
                                           : high ? haul_gt_scalar(x, 0)
                                                  : haul_isnan(haul_zeros_like(x)));
}

/* Bounds on the host are numbers of the operation; others are tensors. */
static haul_tensor *bound(haul__onnx_call *c, haul_tensor *x, int i, bool low)
{
    const haul__numbers *n = haul__onnx_known(c, i);
    if (!haul__onnx_has(c, i))
        return x;
    if (n && n->count == 1 && is_float(x))
        return low ? haul_maximum_scalar(x, n->items->f) : haul_minimum_scalar(x, n->items->f);
    return low ? haul_maximum(x, X(i)) : haul_minimum(x, X(i));
}

haul_tensor *haul__onnx_clip(haul__onnx_call *c)
{
    haul_tensor         *x = X(0);
    const haul__numbers *low = haul__onnx_known(c, 1), *high = haul__onnx_known(c, 2);
    if (c->opset < 11)
        return haul_clamp(x, haul__onnx_float(c, "min", -(double)INFINITY),
                          haul__onnx_float(c, "max", (double)INFINITY));
    if (low && high && low->count == 1 && high->count == 1 && is_float(x)) {
        if (may_overwrite(c))
            return haul_clamp_into(x, x, low->items->f, high->items->f) ? haul__failed_tensor() : x;
        return haul_clamp(x, low->items->f, high->items->f);
    }
    return bound(c, bound(c, x, 1, true), 2, false);
}

haul_dtype haul__onnx_target(haul__onnx_call *c)
{
    return haul__onnx_dtype(haul__onnx_int(c, "to", 0));
}

haul_tensor *haul__onnx_cast(haul__onnx_call *c)
{
    const haul_dtype to = haul__onnx_has(c, 1) ? haul__onnx_type(c, 1) : haul__onnx_target(c);
    return to == HAUL_DTYPE_NONE ? haul__onnx_refuse(c, "the dtype") : haul_cast(X(0), to);
}

/* A bool is a byte that is 0 or 1, so other bytes are true, too. */
haul_tensor *haul__onnx_bit_cast(haul__onnx_call *c)
{
    const haul_dtype to = haul__onnx_target(c), from = haul__onnx_type(c, 0);
    if (to == HAUL_DTYPE_NONE)
        return haul__onnx_refuse(c, "the dtype");
    if (haul_dtype_bits(to) != haul_dtype_bits(from))
        return haul__onnx_wrong(c, "the dtype has another number of bits than the input's");
    return to == HAUL_BOOL ? haul_cast(haul__bit_cast(X(0), HAUL_U8), to) : haul__bit_cast(X(0), to);
}
