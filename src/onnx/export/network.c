/* Products, convolutions, pooling and normalisation as nodes. */
#include <haul/dtype.h>
#include <string.h>

#include "base/assert.h"
#include "onnx/export/families.h"
#include "ops/attributes.h"
#include "ops/conv/conv2d.h"
#include "ops/image/image.h"
#include "ops/normalise/batch_norm.h"
#include "ops/pool/pool2d.h"

#define NODE HAUL__ONNX_NODE

static int with_relu(haul__onnx_saving *c, int y, bool relu)
{
    return relu ? NODE(c->g, "Relu", y) : y;
}

/* ---- products ---- */

/* y = x W^T + bias: Gemm takes matrices only. */
int haul__onnx_save_linear(haul__onnx_saving *c)
{
    haul__onnx_saved *g = c->g;
    const bool        relu = ((const haul__linear_attributes *)c->attributes)->relu;
    int               y;
    if (c->in[0].shape.ndim == 2) {
        y = NODE(g, "Gemm", c->x[0], c->x[1], c->x[2]);
        haul__onnx_set_int(g, "transB", 1);
        return with_relu(c, y, relu);
    }
    const int weight = NODE(g, "Transpose", c->x[1]);
    haul__onnx_set_ints(g, "perm", (const int64_t[]){1, 0}, 2);
    y = NODE(g, "MatMul", c->x[0], weight);
    if (c->x[2] != HAUL__ONNX_ABSENT)
        y = NODE(g, "Add", y, c->x[2]);
    return with_relu(c, y, relu);
}

/* ---- convolutions ---- */

static void set_windows(haul__onnx_saved *g, const int64_t *size, const int64_t *stride, const int64_t *padding,
                        const int64_t *dilation)
{
    const int64_t pads[4] = {padding[0], padding[1], padding[0], padding[1]};
    haul__onnx_set_ints(g, "kernel_shape", size, 2);
    haul__onnx_set_ints(g, "strides", stride, 2);
    haul__onnx_set_ints(g, "pads", pads, 4);
    haul__onnx_set_ints(g, "dilations", dilation, 2);
}

int haul__onnx_save_conv2d(haul__onnx_saving *c)
{
    const haul__conv2d_attributes *a = c->attributes;
    const int                      y = NODE(c->g, "Conv", c->x[0], c->x[1], c->x[2]);
    set_windows(c->g, a->taps, a->stride, a->padding, a->dilation);
    haul__onnx_set_int(c->g, "group", a->groups);
    return with_relu(c, y, a->relu);
}

int haul__onnx_save_conv_transpose2d(haul__onnx_saving *c)
{
    const haul__conv_transpose2d_attributes *a = c->attributes;
    const int                                y = NODE(c->g, "ConvTranspose", c->x[0], c->x[1], c->x[2]);
    set_windows(c->g, a->conv.taps, a->conv.stride, a->conv.padding, a->conv.dilation);
    haul__onnx_set_int(c->g, "group", a->conv.groups);
    haul__onnx_set_ints(c->g, "output_padding", a->output_padding, 2);
    return y;
}

/* ---- pooling ---- */

static const char uneven[] = "its windows have different sizes";

int haul__onnx_save_max_pool2d(haul__onnx_saving *c)
{
    const haul__pool2d_attributes *a = c->attributes;
    if (a->adaptive)
        return haul__onnx_cannot(c, uneven);
    const int y = NODE(c->g, "MaxPool", c->x[0]);
    set_windows(c->g, a->size, a->stride, a->padding, a->dilation);
    haul__onnx_set_int(c->g, "ceil_mode", a->ceil_mode);
    return y;
}

int haul__onnx_save_avg_pool2d(haul__onnx_saving *c)
{
    const haul__pool2d_attributes *a = c->attributes;
    if (a->adaptive || a->divisor)
        return haul__onnx_cannot(c, a->adaptive ? uneven : "ONNX divides by the size of a window");
    const int     y = NODE(c->g, "AveragePool", c->x[0]);
    const int64_t pads[4] = {a->padding[0], a->padding[1], a->padding[0], a->padding[1]};
    haul__onnx_set_ints(c->g, "kernel_shape", a->size, 2);
    haul__onnx_set_ints(c->g, "strides", a->stride, 2);
    haul__onnx_set_ints(c->g, "pads", pads, 4);
    haul__onnx_set_int(c->g, "ceil_mode", a->ceil_mode);
    haul__onnx_set_int(c->g, "count_include_pad", !a->exclude_padding);
    return y;
}

/* ---- normalisation ---- */

/* The operand, or `value` for each of `count` channels. */
static int or_repeated(haul__onnx_saving *c, int i, double value, int64_t count)
{
    return c->x[i] == HAUL__ONNX_ABSENT ? haul__onnx_add_repeated(c->g, c->in[0].dtype, value, count) : c->x[i];
}

int haul__onnx_save_batch_norm(haul__onnx_saving *c)
{
    const haul__batch_norm *a = c->attributes;
    const int64_t           channels = c->in[0].shape.ndim > 1 ? c->in[0].shape.dims[1] : 1;
    if (a->training || c->x[3] == HAUL__ONNX_ABSENT || c->x[4] == HAUL__ONNX_ABSENT)
        return haul__onnx_cannot(c, "it normalises by the statistics of the batch");
    const int scale = or_repeated(c, 1, 1, channels), bias = or_repeated(c, 2, 0, channels);
    const int y = NODE(c->g, "BatchNormalization", c->x[0], scale, bias, c->x[3], c->x[4]);
    haul__onnx_set_float(c->g, "epsilon", a->eps);
    return y;
}

int haul__onnx_save_layer_norm(haul__onnx_saving *c)
{
    const haul_shape *x = &c->in[0].shape;
    const int         scale = or_repeated(c, 1, 1, x->dims[x->ndim - 1]);
    const int         y = NODE(c->g, "LayerNormalization", c->x[0], scale, c->x[2]);
    haul__onnx_set_int(c->g, "axis", -1);
    haul__onnx_set_float(c->g, "epsilon", ((const haul__layer_norm_attributes *)c->attributes)->eps);
    return y;
}

/* Sets before 23 have no operator for it. */
int haul__onnx_save_rms_norm(haul__onnx_saving *c)
{
    haul__onnx_saved *g = c->g;
    const double      eps = ((const haul__rms_norm_attributes *)c->attributes)->eps;
    const haul_shape *x = &c->in[0].shape;
    HAUL__ASSERT(x->ndim > 0);
    const int64_t last = -1;
    if (g->opset >= 23) {
        const int y = NODE(g, "RMSNormalization", c->x[0], or_repeated(c, 1, 1, x->dims[x->ndim - 1]));
        haul__onnx_set_int(g, "axis", -1);
        haul__onnx_set_float(g, "epsilon", eps);
        return y;
    }
    const int mean = NODE(g, "ReduceMean", NODE(g, "Mul", c->x[0], c->x[0]), haul__onnx_add_ints(g, &last, 1));
    const int root = NODE(g, "Sqrt", NODE(g, "Add", mean, haul__onnx_add_number(g, c->in[0].dtype, eps)));
    const int y = NODE(g, "Div", c->x[0], root);
    return c->x[1] == HAUL__ONNX_ABSENT ? y : NODE(g, "Mul", y, c->x[1]);
}

/* ---- pictures ---- */

/* The mode of positions that gives those of the axis; NULL: ONNX has none. */
static const char *positions(const haul__resized_axis *a, bool linear)
{
    const int64_t mul = a->at.mul, add = a->at.add, div = a->at.div, n = a->in, m = a->out;
    const bool    plain = mul * m == n * div;
    if (n > INT32_MAX || m > INT32_MAX || mul > INT32_MAX || div > INT32_MAX)
        return NULL;
    if (linear && plain && 2 * add * m == (n - m) * div)
        return "half_pixel";
    if (linear && add == 0 && m > 1 && mul * (m - 1) == (n - 1) * div)
        return "align_corners";
    if (!linear && plain && add == 0)
        return "asymmetric";
    return !linear && plain && 2 * add * m == n * div ? "half_pixel" : NULL;
}

int haul__onnx_save_interpolate(haul__onnx_saving *c)
{
    haul__onnx_saved  *g = c->g;
    haul__resized_axis axes[2];
    const bool         linear = haul__interpolate_planes_of(c->attributes, axes);
    const char        *mode = positions(&axes[0], linear), *columns = positions(&axes[1], linear);
    const int64_t      sizes[2] = {axes[0].out, axes[1].out};
    if (axes[0].in == 1 && axes[0].out == 1)
        mode = columns;
    if (!mode || !columns || strcmp(mode, columns))
        return haul__onnx_cannot(c, "ONNX has no mode for its positions");
    const int y = NODE(g, "Resize", c->x[0], HAUL__ONNX_ABSENT, HAUL__ONNX_ABSENT, haul__onnx_add_ints(g, sizes, 2));
    haul__onnx_set_ints(g, "axes", (const int64_t[]){2, 3}, 2);
    haul__onnx_set_text(g, "coordinate_transformation_mode", mode);
    haul__onnx_set_text(g, "mode", linear ? "linear" : "nearest");
    if (!linear)
        haul__onnx_set_text(g, "nearest_mode", mode[0] == 'a' ? "floor" : "round_prefer_ceil");
    return y;
}
