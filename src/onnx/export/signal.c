/* Fourier transforms as DFT, which has the axis as an attribute up to opset 19 and as an input from 20 on. Its first
 * axis is a batch, so a transform along the first axis gets another one before it. */
#include <haul/dtype.h>

#include "onnx/export/families.h"
#include "ops/fft/fft.h"

#define NODE    HAUL__ONNX_NODE
#define INTS(v) haul__onnx_add_ints(c->g, (const int64_t[]){v}, 1)

/* False, with the reason, if the number of elements along the axis, and so the scale, depends on the batch. */
static bool is_fixed(haul__onnx_saving *c)
{
    const haul__fft_attributes *a = c->attributes, *other = c->other;
    const int64_t               n = c->in[0].shape.dims[a->axis], other_n = c->other_in[0].shape.dims[a->axis];
    if (n == other_n && a->n == other->n && a->scale == other->scale)
        return true;
    haul__onnx_cannot(c, "it depends on the size of the batch; save with a fixed batch");
    return false;
}

/* The transform of n numbers, with zeros behind those that there are; n ABSENT: of all. */
static int dft(haul__onnx_saving *c, int x, int n, int64_t axis, bool inverse, bool one_sided)
{
    haul__onnx_saved *g = c->g;
    const bool        by_input = g->opset >= 20, is_first = axis == 0;
    const int64_t     at = axis + is_first;
    if (is_first)
        x = NODE(g, "Unsqueeze", x, INTS(0));
    const int in[] = {x, n, by_input ? haul__onnx_add_int(g, at) : HAUL__ONNX_ABSENT};
    const int y = haul__onnx_add_node(g, "DFT", in, 3);
    if (!by_input)
        haul__onnx_set_int(g, "axis", at);
    haul__onnx_set_int(g, "inverse", inverse);
    haul__onnx_set_int(g, "onesided", one_sided);
    return is_first ? NODE(g, "Squeeze", y, INTS(0)) : y;
}

static int scaled(haul__onnx_saving *c, int y, double by)
{
    return by == 1 ? y : NODE(c->g, "Mul", y, haul__onnx_add_number(c->g, c->out[0].dtype, by));
}

/* An inverse of ONNX divides by the number of elements. */
int haul__onnx_save_fft_complex(haul__onnx_saving *c)
{
    const haul__fft_attributes *a = c->attributes;
    if (!is_fixed(c))
        return HAUL__ONNX_ABSENT;
    const double n = (double)c->in[0].shape.dims[a->axis];
    return scaled(c, dft(c, c->x[0], HAUL__ONNX_ABSENT, a->axis, a->inverse, false),
                  a->inverse ? a->scale * n : a->scale);
}

int haul__onnx_save_fft_of_real(haul__onnx_saving *c)
{
    const haul__fft_attributes *a = c->attributes;
    if (!is_fixed(c))
        return HAUL__ONNX_ABSENT;
    if (a->twice)
        return haul__onnx_cannot(c, "it is the gradient of a transform");
    const int pairs = NODE(c->g, "Unsqueeze", c->x[0], INTS(c->in[0].shape.ndim));
    return scaled(c, dft(c, pairs, HAUL__ONNX_ABSENT, a->axis, false, true), a->scale);
}

/* The terms after the given ones are the conjugates of those before them, in the opposite order. */
static int with_conjugates(haul__onnx_saving *c, const haul__fft_attributes *a)
{
    haul__onnx_saved *g = c->g;
    const int64_t     last = (a->n - 1) / 2;
    if (last < 1)
        return c->x[0];
    const int back = NODE(g, "Slice", c->x[0], INTS(last), INTS(0), INTS(a->axis), INTS(-1));
    const int signs = NODE(g, "Concat", haul__onnx_add_repeated(g, c->in[0].dtype, 1, 1),
                           haul__onnx_add_repeated(g, c->in[0].dtype, -1, 1));
    haul__onnx_set_int(g, "axis", 0);
    const int y = NODE(g, "Concat", c->x[0], NODE(g, "Mul", back, signs));
    haul__onnx_set_int(g, "axis", a->axis);
    return y;
}

int haul__onnx_save_fft_to_real(haul__onnx_saving *c)
{
    const haul__fft_attributes *a = c->attributes;
    const int                   last = c->in[0].shape.ndim - 1;
    if (!is_fixed(c))
        return HAUL__ONNX_ABSENT;
    const int x = a->twice ? with_conjugates(c, a) : c->x[0];
    const int y = dft(c, x, haul__onnx_add_int(c->g, a->n), a->axis, true, false);
    const int real = NODE(c->g, "Gather", y, haul__onnx_add_int(c->g, 0));
    haul__onnx_set_int(c->g, "axis", last);
    return scaled(c, real, a->scale * (double)a->n);
}
