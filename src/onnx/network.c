/* Operators of networks: products, normalisation, softmax, resizing. */
#include <haul/channels.h>
#include <haul/dtype.h>
#include <haul/image.h>
#include <haul/linalg.h>
#include <haul/nn.h>
#include <haul/transfer.h>
#include <math.h>
#include <string.h>

#include "core/error.h"
#include "core/tensor.h"
#include "onnx/families.h"

#define X(i) haul__onnx_x(c, i)

static double or_zero(double eps)
{
    return eps == 0 ? HAUL_ZERO : eps;
}

static haul_tensor *optional(haul__onnx_call *c, int i)
{
    return haul__onnx_has(c, i) ? X(i) : NULL;
}

/* ---- products ---- */

haul_tensor *haul__onnx_gemm(haul__onnx_call *c)
{
    const double     alpha = haul__onnx_float(c, "alpha", 1), beta = haul__onnx_float(c, "beta", 1);
    const bool       turn_a = haul__onnx_int(c, "transA", 0) != 0, turn_b = haul__onnx_int(c, "transB", 0) != 0;
    const haul_shape bias = haul__onnx_shape(c, 2), b = haul__onnx_shape(c, 1);
    haul_tensor     *x = turn_a ? haul_transpose(X(0), 0, 1) : X(0);
    if (haul__onnx_shape(c, 0).ndim != 2 || b.ndim != 2)
        return haul__onnx_wrong(c, "an operand is not a matrix");
    const int64_t columns = b.dims[turn_b ? 0 : 1];
    const bool    vector = haul__onnx_has(c, 2) && bias.ndim == 1 && bias.dims[0] == columns;
    if (alpha == 1 && beta == 1 && haul_dtype_is_float(haul__onnx_type(c, 0)) && (vector || !haul__onnx_has(c, 2)))
        return haul_linear(x, turn_b ? X(1) : haul_transpose(X(1), 0, 1), .bias = vector ? X(2) : NULL);
    const int64_t rows = haul__onnx_shape(c, 0).dims[turn_a], size[2] = {rows, columns};
    for (int d = 0; d < bias.ndim && haul__onnx_has(c, 2); d++)
        if (bias.ndim > 2 || (bias.dims[d] != 1 && bias.dims[d] != size[d + 2 - bias.ndim]))
            return haul__onnx_wrong(c, "C is larger than the product");
    haul_tensor *y = haul_matmul(x, turn_b ? haul_transpose(X(1), 0, 1) : X(1));
    y = alpha == 1 ? y : haul_mul_scalar(y, alpha);
    if (haul__onnx_has(c, 2))
        y = haul_add(y, beta == 1 ? X(2) : haul_mul_scalar(X(2), beta));
    return y;
}

haul_tensor *haul__onnx_einsum(haul__onnx_call *c)
{
    haul_tensor *xs[HAUL_MAX_ARGUMENTS];
    if (haul__onnx_count(c) > HAUL_MAX_ARGUMENTS)
        return haul__onnx_refuse(c, "more than 8 operands");
    for (int i = 0; i < haul__onnx_count(c); i++)
        xs[i] = X(i);
    return haul_einsum(haul__onnx_string(c, "equation", ""), xs, haul__onnx_count(c));
}

/* ---- normalisation ---- */

haul_tensor *haul__onnx_batch_norm(haul__onnx_call *c)
{
    const double keep = haul__onnx_float(c, "momentum", (double)0.9f);
    if (haul__onnx_int(c, "training_mode", 0) || !haul__onnx_int(c, "spatial", 1))
        return haul__onnx_refuse(c, "training_mode or spatial");
    return haul_batch_norm(X(0), .weight = X(1), .bias = X(2), .running_mean = X(3), .running_var = X(4),
                           .training = c->training, .momentum = or_zero(1 - keep),
                           .eps = or_zero(haul__onnx_float(c, "epsilon", (double)1e-5f)));
}

/* The axes from `axis` on as one, and the shape to go back to. */
static haul_status last_axes(haul__onnx_call *c, haul_shape *flat, haul_shape *back)
{
    int axis;
    *back = haul__onnx_shape(c, 0);
    if (haul__onnx_axis(c, haul__onnx_int(c, "axis", -1), back->ndim, &axis))
        return haul_error_status();
    *flat = *back;
    flat->ndim = axis + 1;
    for (int d = axis + 1; d < back->ndim; d++)
        flat->dims[axis] *= back->dims[d];
    return HAUL_OK;
}

static haul_tensor *flat_vector(haul_tensor *x, const haul_shape *flat)
{
    return x ? haul_reshape(haul_expand(x, haul_tensor_shape(x)), HAUL_SHAPE(flat->dims[flat->ndim - 1])) : NULL;
}

/* The mean and the inverse deviation of each row, as further results. */
static void add_statistics(haul__onnx_call *c, int axis)
{
    haul_tensor     *x = haul_cast(X(0), HAUL_F32);
    haul_var_options o = {.x = x, .keepdim = true, .correction = HAUL_ZERO};
    for (int d = axis; d < haul__onnx_shape(c, 0).ndim; d++)
        o.haul__axes.axes[o.haul__axes.count++] = d;
    const haul_reduce_options mean = {.x = x, .haul__axes = o.haul__axes, .keepdim = true};
    c->y[1] = haul_mean_with(&mean);
    c->y[2] = haul_rsqrt(haul_add_scalar(haul_var_with(&o), haul__onnx_float(c, "epsilon", (double)1e-5f)));
}

haul_tensor *haul__onnx_layer_norm(haul__onnx_call *c)
{
    haul_shape   flat, back;
    const double eps = or_zero(haul__onnx_float(c, "epsilon", (double)1e-5f));
    if (last_axes(c, &flat, &back))
        return NULL;
    if (c->step->output_count > 1)
        add_statistics(c, flat.ndim - 1);
    if (flat.ndim == back.ndim)
        return haul_layer_norm(X(0), .weight = X(1), .bias = optional(c, 2), .eps = eps);
    return haul_reshape(haul_layer_norm(haul_reshape(X(0), flat), .weight = flat_vector(X(1), &flat),
                                        .bias = flat_vector(optional(c, 2), &flat), .eps = eps),
                        back);
}

haul_tensor *haul__onnx_rms_norm(haul__onnx_call *c)
{
    haul_shape   flat, back;
    const double eps = or_zero(haul__onnx_float(c, "epsilon", (double)1e-5f));
    if (last_axes(c, &flat, &back))
        return NULL;
    return haul_reshape(haul_rms_norm(haul_reshape(X(0), flat), .weight = flat_vector(X(1), &flat), .eps = eps), back);
}

haul_tensor *haul__onnx_instance_norm(haul__onnx_call *c)
{
    return haul_instance_norm(X(0), .weight = X(1), .bias = X(2),
                              .eps = or_zero(haul__onnx_float(c, "epsilon", (double)1e-5f)));
}

/* Before 21 a weight for each group, from then on one for each channel. */
haul_tensor *haul__onnx_group_norm(haul__onnx_call *c)
{
    const haul_shape shape = haul__onnx_shape(c, 0);
    const int64_t    groups = haul__onnx_int(c, "num_groups", 1);
    haul_tensor     *weight = X(1), *bias = X(2);
    if (shape.ndim < 3 || groups < 1 || shape.dims[1] % groups)
        return haul__onnx_wrong(c, "the groups do not divide the channels");
    if (c->opset < 21) {
        weight = haul_repeat_interleave(weight, shape.dims[1] / groups, 0);
        bias = haul_repeat_interleave(bias, shape.dims[1] / groups, 0);
    }
    return haul_group_norm(X(0), groups, .weight = weight, .bias = bias,
                           .eps = or_zero(haul__onnx_float(c, "epsilon", (double)1e-5f)));
}

/* x / (bias + alpha / size times the sum of squares over neighbouring channels) to the power of beta. */
haul_tensor *haul__onnx_lrn(haul__onnx_call *c)
{
    const haul_shape shape = haul__onnx_shape(c, 0);
    const int64_t    size = haul__onnx_int(c, "size", 0);
    const double     alpha = haul__onnx_float(c, "alpha", (double)1e-4f), beta = haul__onnx_float(c, "beta", 0.75);
    int64_t          before[HAUL_MAX_DIMS] = {0}, after[HAUL_MAX_DIMS] = {0};
    haul_tensor     *x = X(0);
    if (shape.ndim < 3 || size < 1 || size > 1 << 16)
        return haul__onnx_wrong(c, "the shape or the size is wrong");
    before[1] = (size - 1) / 2;
    after[1] = size - 1 - before[1];
    haul_tensor *squares = haul__onnx_pads(haul_square(x), shape.ndim, before, after, HAUL_PAD_CONSTANT, 0);
    haul_tensor *sum = haul_sum(haul_windows(squares, 1, size, 1), HAUL_AXES(shape.ndim));
    return haul_div(x, haul_pow_scalar(haul_affine(sum, alpha / (double)size, haul__onnx_float(c, "bias", 1)), beta));
}

/* Before 13 over all axes from `axis` on. */
haul_tensor *haul__onnx_softmax(haul__onnx_call *c)
{
    const haul_shape shape = haul__onnx_shape(c, 0);
    haul_shape       flat = shape;
    int              axis;
    if (haul__onnx_axis(c, haul__onnx_int(c, "axis", c->opset < 13 ? 1 : -1), shape.ndim ? shape.ndim : 1, &axis))
        return NULL;
    if (c->opset >= 13 || axis == shape.ndim - 1)
        return c->step->row->use.axis(X(0), axis);
    flat.ndim = axis + 1;
    for (int d = axis + 1; d < shape.ndim; d++)
        flat.dims[axis] *= shape.dims[d];
    return haul_reshape(c->step->row->use.axis(haul_reshape(X(0), flat), axis), shape);
}

/* 1 at the first of the largest elements along an axis, else 0. */
haul_tensor *haul__onnx_hardmax(haul__onnx_call *c)
{
    haul_shape shape = haul__onnx_shape(c, 0), line = {.ndim = 0};
    int        axis;
    if (c->opset < 13)
        return haul__onnx_refuse(c, "the form before opset 13");
    if (haul__onnx_axis(c, haul__onnx_int(c, "axis", -1), shape.ndim, &axis))
        return NULL;
    for (int d = 0; d < shape.ndim; d++)
        line.dims[line.ndim++] = d == axis ? shape.dims[d] : 1;
    haul_tensor *places = haul_reshape(haul_arange(HAUL_I64, 0, (double)shape.dims[axis], 1), line);
    return haul_cast(haul_eq(places, haul_argmax(X(0), axis, true)), haul__onnx_type(c, 0));
}

/* Nothing is dropped unless the module is in training. The second result is the mask. */
haul_tensor *haul__onnx_dropout(haul__onnx_call *c)
{
    double       ratio = haul__onnx_float(c, "ratio", 0.5);
    haul_tensor *x = X(0);
    if (c->opset >= 12 && haul__onnx_real(c, 1, 0.5, &ratio))
        return NULL;
    haul_tensor *y = haul_dropout(x, ratio, c->training);
    if (c->step->output_count > 1 && c->step->outputs[1] >= 0)
        c->y[1] = c->training ? haul_logical_or(haul_ne_scalar(y, 0), haul_eq_scalar(x, 0))
                              : haul_full(HAUL_BOOL, haul__onnx_shape(c, 0), 1);
    if (c->y[1] && c->opset < 10)
        c->y[1] = haul_cast(c->y[1], haul__onnx_type(c, 0));
    return y;
}

/* ---- resizing ---- */

typedef struct resizing {
    haul_interpolation mode;
    bool               align_corners;
    bool               to_floor;   /* where two elements are equally near, the first one */
    bool               from_start; /* a single result is the first element, not the middle */
} resizing;

static bool find_mode(haul__onnx_call *c, resizing *out)
{
    const bool  old = c->opset < 11;
    const char *mode = haul__onnx_string(c, "mode", "nearest");
    const char *place = haul__onnx_string(c, "coordinate_transformation_mode", old ? "asymmetric" : "half_pixel");
    const char *nearest = haul__onnx_string(c, "nearest_mode", old ? "floor" : "round_prefer_floor");
    const bool  half = !strcmp(place, "half_pixel") || !strcmp(place, "pytorch_half_pixel");
    *out = (resizing){.align_corners = !strcmp(place, "align_corners"),
                      .to_floor = half && !strcmp(nearest, "round_prefer_floor"),
                      .from_start = !strcmp(place, "pytorch_half_pixel")};
    if (!strcmp(mode, "nearest")) {
        out->mode = half ? HAUL_NEAREST_EXACT : HAUL_NEAREST;
        out->align_corners = false;
        return half ? out->to_floor || !strcmp(nearest, "round_prefer_ceil")
                    : !strcmp(place, "asymmetric") && !strcmp(nearest, "floor");
    }
    out->mode = !strcmp(mode, "linear") ? HAUL_BILINEAR : HAUL_BICUBIC;
    if (out->mode == HAUL_BICUBIC && (strcmp(mode, "cubic") || haul__onnx_float(c, "cubic_coeff_a", -0.75) != -0.75 ||
                                      haul__onnx_int(c, "exclude_outside", 0)))
        return false;
    return half || out->align_corners;
}

/* True if Haul places the elements of an axis as ONNX does, when n elements become m. */
static bool is_placed(const resizing *how, int64_t n, double scale, bool by_scale)
{
    const double wide = (double)n * scale;
    if (!(wide >= 1 && wide <= 1 << 30)) /* haul_interpolate refuses it */
        return true;
    const int64_t m = (int64_t)wide;
    if (how->align_corners && by_scale && wide != (double)m)
        return false;
    if (how->from_start && m == 1 && n > 1)
        return false;
    for (int64_t i = 0; how->mode == HAUL_NEAREST_EXACT && how->to_floor && i < m; i++) {
        const double at = ((double)i + 0.5) / scale;
        if (at == floor(at)) /* in the middle between two */
            return false;
    }
    return true;
}

haul_tensor *haul__onnx_resize(haul__onnx_call *c)
{
    const haul_shape     x = haul__onnx_shape(c, 0);
    const int            at = c->opset < 11 ? 1 : 2;
    const haul__numbers *sizes = c->opset >= 11 && haul__onnx_has(c, 3) ? haul__onnx_numbers(c, 3) : NULL;
    const haul__numbers *scales = haul__onnx_has(c, at) && !sizes ? haul__onnx_numbers(c, at) : NULL;
    const haul__numbers *n = sizes ? sizes : scales;
    resizing             how;
    bool                 same = true;
    if (!n)
        return haul__onnx_wrong(c, "neither sizes nor scales are given");
    if (!find_mode(c, &how) || haul__onnx_attribute_of(c->step->node, "axes") || x.ndim < 3 || x.ndim > 5 ||
        n->count != x.ndim || haul__onnx_int(c, "antialias", 0) || !haul_dtype_is_float(haul__onnx_type(c, 0)) ||
        strcmp(haul__onnx_string(c, "keep_aspect_ratio_policy", "stretch"), "stretch") != 0)
        return haul__onnx_resample(c, n, sizes != NULL);
    haul_interpolate_options o = {.x = X(0), .mode = how.mode, .align_corners = how.align_corners};
    for (int d = 0; d < x.ndim; d++) {
        const double scale = sizes ? (double)n->items[d].i / (double)x.dims[d] : n->items[d].f;
        const bool   kept = sizes ? n->items[d].i == x.dims[d] : n->items[d].f == 1;
        if (d < 2 ? !kept : !is_placed(&how, x.dims[d], scale, !sizes))
            return haul__onnx_resample(c, n, sizes != NULL);
        same = same && kept;
        if (d >= 2 && sizes)
            o.size[d - 2] = n->items[d].i;
        else if (d >= 2)
            o.scale[d - 2] = n->items[d].f;
    }
    return same ? o.x : haul_interpolate_with(&o);
}
