/* Quantised integers: a number is (element - zero point) x scale. */
#include <haul/dtype.h>
#include <haul/transfer.h>
#include <string.h>

#include "core/error.h"
#include "core/tensor.h"
#include "onnx/families.h"
#include "onnx/window.h"

#define X(i) haul__onnx_x(c, i)

static bool find_limits(haul_dtype dtype, double *low, double *high)
{
    *low = dtype == HAUL_I8 ? -128 : dtype == HAUL_I16 ? -32768 : 0;
    *high = dtype == HAUL_I8 ? 127 : dtype == HAUL_U8 ? 255 : 32767;
    return dtype == HAUL_I8 || dtype == HAUL_U8 || dtype == HAUL_I16;
}

/* Rounded, moved by the zero point, and within the limits of the dtype. */
static haul_tensor *quantised(haul__onnx_call *c, haul_tensor *x, haul_tensor *zero, haul_dtype dtype)
{
    double low, high;
    if (!find_limits(dtype, &low, &high))
        return haul__onnx_refuse(c, "the dtype of the result");
    x = haul_round(x);
    return haul_cast(haul_clamp(zero ? haul_add(x, haul_cast(zero, HAUL_F32)) : x, low, high), dtype);
}

/* Input i, a scale or a zero point, for each element of x: one for all, one for each index of an axis, or one for each
 * block of an axis. */
static haul_tensor *for_elements(haul__onnx_call *c, int i, int axis)
{
    const haul_shape x = haul__onnx_shape(c, 0), s = haul__onnx_shape(c, i);
    const int64_t    block = haul__onnx_int(c, "block_size", 0);
    haul_shape       line = {.ndim = x.ndim};
    if (block < 0 || (block && s.ndim != x.ndim))
        return haul__result(haul__onnx_wrong(c, "block_size does not fit the scale"));
    if (block) /* the last block may be shorter */
        return haul_slice(haul_repeat_interleave(X(i), block, axis), axis, 0, x.dims[axis], 1);
    if (s.ndim == 0 || (s.ndim == 1 && s.dims[0] == 1))
        return haul_reshape(X(i), (haul_shape){.ndim = 0});
    if (s.ndim != 1)
        return haul__result(haul__onnx_wrong(c, "a scale or zero point is not a vector"));
    for (int d = 0; d < x.ndim; d++)
        line.dims[d] = d == axis ? s.dims[0] : 1;
    return haul_reshape(X(i), line);
}

static haul_status find_axis(haul__onnx_call *c, int *axis)
{
    const haul_shape x = haul__onnx_shape(c, 0), s = haul__onnx_shape(c, 1);
    *axis = 0;
    if (s.ndim == 0 || x.ndim < 2)
        return HAUL_OK;
    return haul__onnx_axis(c, haul__onnx_int(c, "axis", 1), x.ndim, axis);
}

haul_tensor *haul__onnx_quantize(haul__onnx_call *c)
{
    const int64_t    wanted = haul__onnx_int(c, "output_dtype", 0);
    const haul_dtype dtype = haul__onnx_has(c, 2) ? haul__onnx_type(c, 2) : wanted ? haul__onnx_dtype(wanted) : HAUL_U8;
    int              axis;
    if (find_axis(c, &axis))
        return NULL;
    haul_tensor *x = haul_div(haul_cast(X(0), HAUL_F32), haul_cast(for_elements(c, 1, axis), HAUL_F32));
    return quantised(c, x, haul__onnx_has(c, 2) ? for_elements(c, 2, axis) : NULL, dtype);
}

haul_tensor *haul__onnx_dequantize(haul__onnx_call *c)
{
    int axis;
    if (find_axis(c, &axis))
        return NULL;
    haul_tensor *x = haul_cast(X(0), HAUL_F32);
    if (haul__onnx_has(c, 2))
        x = haul_sub(x, haul_cast(for_elements(c, 2, axis), HAUL_F32));
    return haul_cast(haul_mul(x, haul_cast(for_elements(c, 1, axis), HAUL_F32)), haul__onnx_type(c, 1));
}

/* A scale and a zero point for all elements: the smallest and the largest one, and 0, become 0 to 255. */
haul_tensor *haul__onnx_dynamic_quantize(haul__onnx_call *c)
{
    haul_tensor *x = haul_cast(X(0), HAUL_F32);
    haul_tensor *low = haul_minimum_scalar(haul_min(x), 0), *high = haul_maximum_scalar(haul_max(x), 0);
    haul_tensor *scale = haul_div_scalar(haul_sub(high, low), 255);
    haul_tensor *zero = haul_cast(haul_clamp(haul_round(haul_div(haul_neg(low), scale)), 0, 255), HAUL_U8);
    c->y[1] = scale;
    c->y[2] = zero;
    return quantised(c, haul_div(x, scale), zero, HAUL_U8);
}

/* A scale or zero point of a matrix: a vector has one for each row of the left operand, or column of the right one. */
static haul_tensor *for_matrix(haul__onnx_call *c, int i, bool rows)
{
    const haul_shape s = haul__onnx_shape(c, i);
    return rows && s.ndim == 1 && s.dims[0] > 1 ? haul_unsqueeze(X(i), 1) : X(i);
}

/* Elements without their zero point, i32. */
static haul_tensor *centred(haul__onnx_call *c, int i, int zero, bool rows)
{
    haul_tensor *x = haul_cast(X(i), HAUL_I32);
    return haul__onnx_has(c, zero) ? haul_sub(x, haul_cast(for_matrix(c, zero, rows), HAUL_I32)) : x;
}

haul_tensor *haul__onnx_matmul_integer(haul__onnx_call *c)
{
    return haul_matmul(centred(c, 0, 2, true), centred(c, 1, 3, false));
}

haul_tensor *haul__onnx_qlinear_matmul(haul__onnx_call *c)
{
    enum { A, A_SCALE, A_ZERO, B, B_SCALE, B_ZERO, Y_SCALE, Y_ZERO };
    haul_tensor *y = haul_cast(haul_matmul(centred(c, A, A_ZERO, true), centred(c, B, B_ZERO, false)), HAUL_F32);
    haul_tensor *a = haul_cast(for_matrix(c, A_SCALE, true), HAUL_F32), *b = haul_cast(X(B_SCALE), HAUL_F32);
    y = haul_div(haul_mul(haul_mul(y, a), b), haul_cast(for_matrix(c, Y_SCALE, true), HAUL_F32));
    return quantised(c, y, for_matrix(c, Y_ZERO, true), haul__onnx_type(c, Y_ZERO));
}

/* ---- convolutions ---- */

/* Input i: one for all channels, or one for each, before `after` dimensions. */
static haul_tensor *for_channels(haul__onnx_call *c, int i, int after)
{
    const haul_shape s = haul__onnx_shape(c, i);
    haul_shape       shape = {.ndim = 0};
    if (s.ndim > 1)
        return haul__result(haul__onnx_wrong(c, "a scale or zero point is not a vector"));
    if (s.ndim == 1 && s.dims[0] != 1) {
        shape = (haul_shape){.ndim = after + 1, .dims = {s.dims[0]}};
        for (int d = 1; d <= after; d++)
            shape.dims[d] = 1;
    }
    return haul_reshape(X(i), shape);
}

/* Sums of products of integers of 8 bits are exact in f32 up to this number of products, and in f64 beyond. */
enum { EXACT = (1 << 24) / (255 * 255) };

/* The convolution of the first input with input i, each without its zero point: i32. */
static haul_tensor *convolve_integers(haul__onnx_call *c, int i, int x_zero, int zero)
{
    const haul_shape shape = haul__onnx_shape(c, i);
    double           products = 1, low, high;
    if (!find_limits(haul__onnx_type(c, 0), &low, &high) || !find_limits(haul__onnx_type(c, i), &low, &high))
        return haul__onnx_refuse(c, "the dtype of an operand");
    if (shape.ndim < 3 || shape.ndim > HAUL_MAX_DIMS)
        return haul__onnx_wrong(c, "the weight has another number of dimensions");
    for (int d = 1; d < shape.ndim; d++)
        products *= (double)shape.dims[d];
    const bool       is_short = haul__onnx_type(c, 0) == HAUL_I16 || haul__onnx_type(c, i) == HAUL_I16;
    const haul_dtype dtype = products <= EXACT && !is_short ? HAUL_F32 : HAUL_F64;
    haul_tensor     *weight = haul_cast(X(i), HAUL_I32);
    if (haul__onnx_has(c, zero))
        weight = haul_sub(weight, haul_cast(for_channels(c, zero, shape.ndim - 1), HAUL_I32));
    haul_tensor *x = haul_cast(centred(c, 0, x_zero, false), dtype);
    return haul_cast(haul__onnx_convolve(c, x, i, haul_cast(weight, dtype), NULL), HAUL_I32);
}

haul_tensor *haul__onnx_conv_integer(haul__onnx_call *c)
{
    return convolve_integers(c, 1, 2, 3);
}

haul_tensor *haul__onnx_qlinear_conv(haul__onnx_call *c)
{
    enum { INPUT, X_SCALE, X_ZERO, W, W_SCALE, W_ZERO, Y_SCALE, Y_ZERO, BIAS };
    const int    after = haul__onnx_shape(c, INPUT).ndim - 2;
    haul_tensor *y = convolve_integers(c, W, X_ZERO, W_ZERO);
    if (!y || haul__failed(y))
        return y;
    if (haul__onnx_has(c, BIAS))
        y = haul_add(y, for_channels(c, BIAS, after));
    haul_tensor *scale =
        haul_mul(haul_cast(X(X_SCALE), HAUL_F32), haul_cast(for_channels(c, W_SCALE, after), HAUL_F32));
    y = haul_div(haul_mul(haul_cast(y, HAUL_F32), scale), haul_cast(X(Y_SCALE), HAUL_F32));
    return quantised(c, y, X(Y_ZERO), haul__onnx_type(c, Y_ZERO));
}
