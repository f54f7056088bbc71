/* Pooling over windows of the last two axes, and its gradients. pool2d_run.c computes them. */
#include "ops/pool/pool2d.h"

#include "base/assert.h"
#include "base/numbers.h"
#include "core/option.h"
#include "kernels/kernels.h"

/* ---- infer ---- */

/* True if all windows have an element inside the axis: with gaps, one in the padding can step over a short axis. */
static bool all_inside(const haul__pool2d_attributes *a, int axis)
{
    const int64_t gap = a->dilation[axis];
    HAUL__ASSERT(gap > 0 && a->stride[axis] > 0);
    for (int64_t o = 0; gap > a->in[axis] && o < a->out[axis] && o * a->stride[axis] < a->padding[axis]; o++) {
        const int64_t before = a->padding[axis] - o * a->stride[axis];
        if ((gap - before % gap) % gap >= a->in[axis])
            return false;
    }
    return true;
}

/* The number of windows along an axis. With ceil_mode the last one begins inside x or in the padding before it. */
static haul_status output_size(const haul__call *c, haul__pool2d_attributes *a, int axis)
{
    const char   *name = c->operation->name, *what = axis ? "columns" : "rows";
    const int64_t size = a->in[axis], stride = a->stride[axis], padding = a->padding[axis];
    int64_t       window = a->size[axis];
    if (window < 1 || stride < 1 || window > INT32_MAX || stride > INT32_MAX)
        return haul__fail(HAUL_INVALID_ARGUMENT, name, window < 1 ? "size" : "stride",
                          "a window of %lld %s with stride %lld is not possible; both must be from 1 to 2^31 - 1",
                          (long long)window, what, (long long)stride);
    if (a->dilation[axis] < 1 || a->dilation[axis] > INT32_MAX)
        return haul__fail(HAUL_INVALID_ARGUMENT, name, "dilation",
                          "dilation %lld is not possible; it must be from 1 to 2^31 - 1", (long long)a->dilation[axis]);
    window = (window - 1) * a->dilation[axis] + 1;
    if (padding < 0 || padding > window / 2)
        return haul__fail(HAUL_INVALID_ARGUMENT, name, "padding",
                          "padding %lld is not possible; it can be from 0 to half the window's %lld %s",
                          (long long)padding, (long long)window, what);
    const int64_t room = size + 2 * padding - window;
    if (room < 0)
        return haul__fail(HAUL_SHAPE, name, "x",
                          "the window has %lld %s, but x has %lld with its padding; use a smaller window",
                          (long long)window, what, (long long)(size + 2 * padding));
    a->out[axis] = room / stride + 1;
    if (a->ceil_mode && room % stride && a->out[axis] * stride < size + padding)
        a->out[axis]++;
    HAUL__ASSERT(a->out[axis] > 0 && (a->out[axis] - 1) * stride < size + padding);
    if (!all_inside(a, axis))
        return haul__fail(HAUL_SHAPE, name, "x",
                          "x has %lld %s, and a window with padding %lld and dilation %lld has none of them; use less "
                          "padding",
                          (long long)size, what, (long long)padding, (long long)a->dilation[axis]);
    a->plain = a->plain || window != a->size[axis] || a->out[axis] != room / stride + 1;
    return HAUL_OK;
}

/* Describes a result with planes of this size. */
static haul_status describe(haul__call *c, int i, haul_dtype dtype, const int64_t *size)
{
    const haul__pool2d_attributes *a = haul__attributes(c);
    haul_shape                     shape = c->operands[0]->shape;
    shape.dims[2] = size[0];
    shape.dims[3] = size[1];
    return haul__describe_format(c, i, dtype, &shape, a->channels_last);
}

/* The number of windows along an axis. */
static haul_status complete(const haul__call *c, haul__pool2d_attributes *a, int axis)
{
    if (!a->adaptive)
        return output_size(c, a, axis);
    HAUL__ASSERT(a->out[axis] > 0 && a->in[axis] > 0);
    a->size[axis] = haul__ceil_div(a->in[axis], a->out[axis]); /* for the cost */
    return HAUL_OK;
}

/* Options that only the other of the two operations has. */
static haul_status check_kind(const haul__call *c, const haul__pool2d_attributes *a)
{
    const char *name = c->operation->name;
    const bool  mean = c->operation == &haul__operation_avg_pool2d;
    if (mean && (a->dilation[0] != 1 || a->dilation[1] != 1))
        return haul__fail(HAUL_INVALID_ARGUMENT, name, "dilation", "a mean has no dilation; leave it out");
    if (a->divisor < 0 || a->divisor > INT32_MAX)
        return haul__fail(HAUL_INVALID_ARGUMENT, name, "divisor",
                          "the divisor is %lld; it must be from 1 to 2^31 - 1, or 0 for the number of elements",
                          (long long)(a->divisor == HAUL_ZERO ? 0 : a->divisor));
    return mean || !a->divisor ? HAUL_OK
                               : haul__fail(HAUL_INVALID_ARGUMENT, name, "divisor",
                                            "a maximum is not divided; leave it out, or use haul_avg_pool2d");
}

static haul_status infer(haul__call *c)
{
    const haul_tensor       *x = c->operands[0];
    haul__pool2d_attributes *a = haul__attributes(c);
    int64_t                  plane;
    if (x->shape.ndim != 4)
        return haul__refuse_shape(c, 0, "it must be [N, C, H, W]");
    if (!haul__mul_size(x->shape.dims[2], x->shape.dims[3], &plane) || plane > INT32_MAX)
        return haul__refuse_shape(c, 0, "a plane of it must have less than 2^31 elements");
    if (a->given && (haul__option_pair(c->operation->name, "stride", a->stride, a->size, 1) ||
                     haul__option_pair(c->operation->name, "padding", a->padding, (const int64_t[2]){0, 0}, 0) ||
                     haul__option_pair(c->operation->name, "dilation", a->dilation, (const int64_t[2]){1, 1}, 1)))
        return haul_error_status();
    if (a->given && check_kind(c, a))
        return haul_error_status();
    a->given = false;
    a->plain = a->divisor != 0;
    a->channels_last = haul__wants_channels_last(x);
    a->channels = x->shape.dims[1];
    a->in[0] = x->shape.dims[2];
    a->in[1] = x->shape.dims[3];
    haul_status status = complete(c, a, 0);
    HAUL__ASSERT(status || a->out[0] > 0);
    if (!status)
        status = complete(c, a, 1);
    if (!status)
        status = describe(c, 0, x->dtype, a->out);
    return status || c->result_count == 1 ? status : describe(c, 1, HAUL_I32, a->out);
}

static haul_status infer_like_x(haul__call *c)
{
    const haul__pool2d_attributes *a = haul__attributes(c);
    HAUL__ASSERT(!a->given && c->operands[0]->shape.dims[2] == a->out[0] && c->operands[0]->shape.dims[3] == a->out[1]);
    return describe(c, 0, c->operands[0]->dtype, a->in);
}

static haul_status infer_like_y(haul__call *c)
{
    const haul__pool2d_attributes *a = haul__attributes(c);
    HAUL__ASSERT(!a->given && c->operands[0]->shape.dims[2] == a->in[0] && c->operands[0]->shape.dims[3] == a->in[1]);
    return describe(c, 0, c->operands[0]->dtype, a->out);
}

/* Every element of every window once. */
static haul__cost cost(const haul__call *c)
{
    const haul__pool2d_attributes *a = haul__attributes_of(c);
    double                         planes = (double)(c->operands[0]->shape.dims[0] * a->channels);
    return (haul__cost){.flops = planes * (double)(a->out[0] * a->out[1]) * (double)a->size[0] * (double)a->size[1],
                        .bytes = haul__call_bytes(c)};
}

/* ---- maximum ---- */

static void max_gradient(haul__gradient *g);
static void pick_gradient(haul__gradient *g);
static void spread_gradient(haul__gradient *g);

HAUL__OPERATION(max_pool2d) = {
    .name = "haul_max_pool2d",
    .operands = {{"x", .layout = HAUL__BATCH_FORMAT}},
    .results = {{"y", .at_start = true}, {"index", .hidden = true, .saved_for = HAUL__FOR_ALL}},
    .dtypes = HAUL__FLOATS,
    .attributes_size = HAUL__ATTRIBUTES(haul__pool2d_attributes),
    .kernel = HAUL__K_max_pool2d,
    .infer = infer,
    .compute = haul__pool2d_max,
    .gradient = max_gradient,
    .cost = cost,
};

/* The same with the places as a result. */
HAUL__OPERATION(max_pool2d_found) = {
    .name = "haul_max_pool2d_found",
    .operands = {{"x", .layout = HAUL__BATCH_FORMAT}},
    .results = {{"y"}, {"index", .saved_for = HAUL__FOR_ALL}},
    .dtypes = HAUL__FLOATS,
    .attributes_size = HAUL__ATTRIBUTES(haul__pool2d_attributes),
    .kernel = HAUL__K_max_pool2d,
    .infer = infer,
    .compute = haul__pool2d_max,
    .gradient = max_gradient,
    .cost = cost,
};

/* y = pick(x) and dx = spread(dy) go by the same index, and are each other's gradients. */
HAUL__OPERATION(max_pool2d_backward) = {
    .name = "haul_max_pool2d_backward",
    .operands = {{"g", .layout = HAUL__ANY_STRIDES},
                 {"index", .layout = HAUL__ANY_STRIDES, .accepts = HAUL__ONLY(HAUL_I32), .saved_for = HAUL__FOR_0}},
    .results = {{"dx"}},
    .dtypes = HAUL__FLOATS,
    .attributes_size = HAUL__ATTRIBUTES(haul__pool2d_attributes),
    .kernel = HAUL__K_max_pool2d_spread,
    .infer = infer_like_x,
    .compute = haul__pool2d_backward,
    .gradient = spread_gradient,
    .cost = cost,
};

HAUL__OPERATION(max_pool2d_pick) = {
    .name = "haul_max_pool2d_pick",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES},
                 {"index", .layout = HAUL__ANY_STRIDES, .accepts = HAUL__ONLY(HAUL_I32), .saved_for = HAUL__FOR_0}},
    .results = {{"y"}},
    .dtypes = HAUL__FLOATS,
    .attributes_size = HAUL__ATTRIBUTES(haul__pool2d_attributes),
    .kernel = HAUL__K_max_pool2d_pick,
    .infer = infer_like_y,
    .compute = haul__pool2d_pick,
    .gradient = pick_gradient,
};

static void max_gradient(haul__gradient *g)
{
    g->operands[0] = HAUL__APPLY(max_pool2d_backward, g->attributes, g->results[0], g->saved_results[1]);
}

static void pick_gradient(haul__gradient *g)
{
    g->operands[0] = HAUL__APPLY(max_pool2d_backward, g->attributes, g->results[0], g->saved[1]);
}

static void spread_gradient(haul__gradient *g)
{
    g->operands[0] = HAUL__APPLY(max_pool2d_pick, g->attributes, g->results[0], g->saved[1]);
}

/* ---- average ---- */

static void avg_gradient(haul__gradient *g);
static void avg_second(haul__gradient *g);

HAUL__OPERATION(avg_pool2d) = {
    .name = "haul_avg_pool2d",
    .operands = {{"x", .layout = HAUL__BATCH_FORMAT}},
    .results = {{"y", .at_start = true}},
    .dtypes = HAUL__FLOATS,
    .attributes_size = HAUL__ATTRIBUTES(haul__pool2d_attributes),
    .kernel = HAUL__K_avg_pool2d,
    .infer = infer,
    .compute = haul__pool2d_avg,
    .gradient = avg_gradient,
    .cost = cost,
};

HAUL__OPERATION(avg_pool2d_backward) = {
    .name = "haul_avg_pool2d_backward",
    .operands = {{"g", .layout = HAUL__ANY_STRIDES}},
    .results = {{"dx"}},
    .dtypes = HAUL__FLOATS,
    .attributes_size = HAUL__ATTRIBUTES(haul__pool2d_attributes),
    .kernel = HAUL__K_avg_pool2d_backward,
    .infer = infer_like_x,
    .compute = haul__pool2d_backward,
    .gradient = avg_second,
    .cost = cost,
};

static void avg_gradient(haul__gradient *g)
{
    g->operands[0] = HAUL__APPLY(avg_pool2d_backward, g->attributes, g->results[0]);
}

/* The gradient is linear: its own gradient pools the incoming one. */
static void avg_second(haul__gradient *g)
{
    g->operands[0] = HAUL__APPLY(avg_pool2d, g->attributes, g->results[0]);
}

/* ---- the functions ---- */

haul__pool2d_attributes haul__pool2d_attributes_of(const haul_pool2d_options *o)
{
    return (haul__pool2d_attributes){.size = {o->size, o->size_w ? o->size_w : o->size},
                                     .stride = {o->stride[0], o->stride[1]},
                                     .padding = {o->padding[0], o->padding[1]},
                                     .dilation = {o->dilation[0], o->dilation[1]},
                                     .divisor = o->divisor,
                                     .exclude_padding = o->exclude_padding,
                                     .ceil_mode = o->ceil_mode,
                                     .given = true};
}

HAUL__FUNCTION_WITH(max_pool2d, haul__pool2d_attributes, haul__pool2d_attributes_of(o),
                    (haul_tensor * x, const haul_pool2d_options *o), x)
HAUL__FUNCTION_WITH(avg_pool2d, haul__pool2d_attributes, haul__pool2d_attributes_of(o),
                    (haul_tensor * x, const haul_pool2d_options *o), x)
