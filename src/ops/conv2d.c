/* 2-d convolution: forward, gradient of x and gradient of the weight, each an operation whose own gradients are the
 * other two. The backend's own calls are used where it has them, else the kernels of conv2d_flat.c. */
#include <stdio.h>

#include "core/half.h"
#include "engine/copy.h"
#include "engine/reorder.h"
#include "events/events.h"
#include "ops/conv2d_flat.h"

typedef struct conv2d_attributes {
    int64_t stride[2], padding[2], dilation[2], groups;
    int64_t size[2], taps[2]; /* rows and columns of x and of the weight, which other shapes do not tell */
    bool    relu;
    bool    channels_last; /* what it is computed in; infer's choice */
} conv2d_attributes;

/* ---- passes ---- */

enum part { X, WEIGHT, Y, BIAS };

/* Which part each operand is, and which the result. */
typedef struct pass {
    haul__conv2d_pass id;
    int               count;
    enum part         operands[3], result;
} pass;

static const pass passes[] = {
    [HAUL__CONV2D_FORWARD] = {HAUL__CONV2D_FORWARD, 3, {X, WEIGHT, BIAS}, Y},
    [HAUL__CONV2D_DATA] = {HAUL__CONV2D_DATA, 2, {Y, WEIGHT}, X},
    [HAUL__CONV2D_WEIGHT] = {HAUL__CONV2D_WEIGHT, 2, {X, Y}, WEIGHT},
};

static haul_tensor **part_of(haul__convolution *v, enum part which)
{
    haul_tensor **parts[] = {[X] = &v->x, [WEIGHT] = &v->weight, [Y] = &v->y, [BIAS] = &v->bias};
    return parts[which];
}

/* Sizes and options of a call whose result has shape `result`. */
static haul__conv2d settings_of(const haul__call *c, const haul_shape *result)
{
    const conv2d_attributes *at = haul__attributes_of(c);
    const pass              *p = c->operation->extra;
    const haul_shape        *shapes[] = {[BIAS] = NULL};
    shapes[p->result] = result;
    for (int i = 0; i < 2; i++)
        shapes[p->operands[i]] = &c->operands[i]->shape;
    haul__conv2d s = {
        .dtype = c->operands[0]->dtype,
        .n = shapes[X]->dims[0],
        .c_in = shapes[X]->dims[1],
        .h = shapes[X]->dims[2],
        .w = shapes[X]->dims[3],
        .c_out = shapes[WEIGHT]->dims[0],
        .kh = shapes[WEIGHT]->dims[2],
        .kw = shapes[WEIGHT]->dims[3],
        .out_h = shapes[Y]->dims[2],
        .out_w = shapes[Y]->dims[3],
        .groups = at->groups,
        .relu = at->relu,
        .channels_last = at->channels_last,
    };
    s.tf32 = s.dtype == HAUL_F32 && haul_matmul_precision() == HAUL_PRECISION_HIGH;
    for (int i = 0; i < 2; i++) {
        s.stride[i] = at->stride[i];
        s.padding[i] = at->padding[i];
        s.dilation[i] = at->dilation[i];
    }
    return s;
}

/* ---- infer ---- */

/* Describe the result, and settle the format a pass computes in: the library's choice, else row-major. The result is
 * channels-last where it is computed so, and, if it `follows` them, where an operand is. */
static haul_status describe(haul__call *c, const haul_shape *shape, bool follows)
{
    conv2d_attributes   *at = haul__attributes(c);
    const haul__backend *backend = c->device->backend;
    const pass          *p = c->operation->extra;
    bool                 given = haul__wants_channels_last(c->operands[0]) || haul__wants_channels_last(c->operands[1]);
    at->channels_last = given;
    if (!at->relu)
        c->saves_results = 0;
    haul__conv2d settings = settings_of(c, shape);
    at->channels_last = backend->conv2d_channels_last && backend->conv2d_channels_last(c->device, p->id, &settings);
    return haul__describe_format(c, 0, c->operands[0]->dtype, shape, at->channels_last || (follows && given));
}

static haul_status check_shapes(const haul__call *c)
{
    char              wanted[160], have[80];
    const haul_shape *x = &c->operands[0]->shape, *weight = &c->operands[1]->shape;
    if (x->ndim != 4)
        return haul__refuse_shape(c, 0, "it must be [N, C, H, W]");
    if (weight->ndim != 4)
        return haul__refuse_shape(c, 1, "it must be [C_out, C_in / groups, KH, KW]");
    if (x->dims[1] == 0 || x->dims[2] == 0 || x->dims[3] == 0)
        return haul__refuse_shape(c, 0, "only its batch can be empty");
    if (c->operands[1]->count == 0)
        return haul__refuse_shape(c, 1, "it must not be empty");
    if (haul__has(c, 2) && (c->operands[2]->shape.ndim != 1 || c->operands[2]->shape.dims[0] != weight->dims[0])) {
        snprintf(wanted, sizeof wanted, "weight is %s: bias must be [%lld]",
                 haul__shape_text(weight, have, sizeof have), (long long)weight->dims[0]);
        return haul__refuse_shape(c, 2, wanted);
    }
    return HAUL_OK;
}

static haul_status refuse_pair(const haul__call *c, const char *what, const int64_t *pair, const char *wanted)
{
    return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, what, "%s is {%lld, %lld}; it %s", what,
                      (long long)pair[0], (long long)pair[1], wanted);
}

static haul_status check_attributes(const haul__call *c, const conv2d_attributes *at)
{
    for (int i = 0; i < 2; i++) {
        if (at->stride[i] < 0)
            return refuse_pair(c, "stride", at->stride, "must be positive");
        if (at->dilation[i] < 0)
            return refuse_pair(c, "dilation", at->dilation, "must be positive");
        if (at->padding[i] < 0)
            return refuse_pair(c, "padding", at->padding, "cannot be negative (haul_slice takes borders away)");
    }
    if (at->groups < 0)
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "groups", "groups is %lld; it must be positive",
                          (long long)at->groups);
    return HAUL_OK;
}

static void complete(const haul__call *c, conv2d_attributes *at)
{
    for (int i = 0; i < 2; i++) {
        at->stride[i] = at->stride[i] ? at->stride[i] : at->stride[0] ? at->stride[0] : 1;
        at->dilation[i] = at->dilation[i] ? at->dilation[i] : at->dilation[0] ? at->dilation[0] : 1;
        at->size[i] = c->operands[0]->shape.dims[2 + i];
        at->taps[i] = c->operands[1]->shape.dims[2 + i];
    }
    at->groups = at->groups ? at->groups : 1;
}

static haul_status check_groups(const haul__call *c, const conv2d_attributes *at)
{
    char              sx[80], sw[80];
    const haul_shape *x = &c->operands[0]->shape, *weight = &c->operands[1]->shape;
    if (x->dims[1] % at->groups == 0 && weight->dims[0] % at->groups == 0 && x->dims[1] / at->groups == weight->dims[1])
        return HAUL_OK;
    return haul__fail(HAUL_SHAPE, c->operation->name, "weight",
                      "x is %s and weight is %s with %lld group(s): weight must be [C_out, %lld / groups, KH, KW], "
                      "and groups must divide both numbers of channels",
                      haul__shape_text(x, sx, sizeof sx), haul__shape_text(weight, sw, sizeof sw),
                      (long long)at->groups, (long long)x->dims[1]);
}

/* Rows (axis 0) or columns of the result: of x, padded, where the weight, dilated, fits. Settings too large to add up
 * fail. */
static haul_status output_size(const haul__call *c, const conv2d_attributes *at, int axis, int64_t *out)
{
    const char *what = axis ? "columns" : "rows";
    int64_t     padded, reach;
    if (!haul__mul_size(at->padding[axis], 2, &padded) || !haul__add_size(padded, at->size[axis], &padded) ||
        !haul__mul_size(at->dilation[axis], at->taps[axis] - 1, &reach) || !haul__add_size(reach, 1, &reach) ||
        at->stride[axis] > INT32_MAX || padded > INT32_MAX || reach > INT32_MAX)
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, NULL,
                          "stride, padding or dilation is too large: %s of x, padded, and of the weight, dilated, must "
                          "be less than 2^31",
                          what);
    if (padded < reach)
        return haul__fail(
            HAUL_SHAPE, c->operation->name, "x",
            "the weight spans %lld %s, but x has %lld with its padding; pad more, or use a smaller kernel",
            (long long)reach, what, (long long)padded);
    *out = (padded - reach) / at->stride[axis] + 1;
    return HAUL_OK;
}

static haul_status infer_forward(haul__call *c)
{
    conv2d_attributes *at = haul__attributes(c);
    int64_t            out[2];
    if (check_shapes(c) || check_attributes(c, at))
        return haul_error_status();
    complete(c, at);
    if (check_groups(c, at) || output_size(c, at, 0, &out[0]) || output_size(c, at, 1, &out[1]))
        return haul_error_status();
    haul_shape shape = HAUL_SHAPE(c->operands[0]->shape.dims[0], c->operands[1]->shape.dims[0], out[0], out[1]);
    return describe(c, &shape, true);
}

/* The attributes are those that a forward pass completed, here and below. */
static haul_status infer_data(haul__call *c)
{
    const conv2d_attributes *at = haul__attributes(c);
    const int64_t           *dy = c->operands[0]->shape.dims, *weight = c->operands[1]->shape.dims;
    haul_shape               shape = HAUL_SHAPE(dy[0], weight[1] * at->groups, at->size[0], at->size[1]);
    return describe(c, &shape, true);
}

/* A leaf's gradient is brought to the leaf's format when it arrives. */
static haul_status infer_weight(haul__call *c)
{
    const conv2d_attributes *at = haul__attributes(c);
    const int64_t           *x = c->operands[0]->shape.dims, *dy = c->operands[1]->shape.dims;
    haul_shape               shape = HAUL_SHAPE(dy[1], x[1] / at->groups, at->taps[0], at->taps[1]);
    return describe(c, &shape, false);
}

/* ---- library calls ---- */

typedef haul_status library_call(haul__stream *, const haul__conv2d *);

static library_call *hook_of(const haul__backend *backend, haul__conv2d_pass id)
{
    library_call *const calls[] = {backend->conv2d_forward, backend->conv2d_backward_data,
                                   backend->conv2d_backward_weight};
    return calls[id];
}

static bool has_library(haul_device *device, haul__conv2d_pass id)
{
    const haul__backend *backend = device->backend;
    return hook_of(backend, id) && (!backend->conv2d_usable || backend->conv2d_usable(device));
}

typedef struct library_params {
    haul__conv2d      call;
    haul__conv2d_pass id;
} library_params;

static haul_status convolve(haul__stream *s, const haul__command *command)
{
    library_params        params = *(const library_params *)command->params;
    const pass           *p = &passes[params.id];
    haul__library_buffers buffers = haul__library_buffers_of(command);
    const haul__buffer  **parts[] = {
         [X] = &params.call.x, [WEIGHT] = &params.call.weight, [Y] = &params.call.y, [BIAS] = &params.call.bias};
    *parts[p->result] = buffers.out;
    for (int i = 0; i < p->count; i++)
        *parts[p->operands[i]] = buffers.ins[i];
    params.call.scratch = buffers.scratch;
    params.call.scratch_bytes = buffers.scratch_bytes;
    return hook_of(s->device->backend, p->id)(s, &params.call);
}

/* HAUL_UNSUPPORTED, with nothing recorded, where the library does not do it. */
static haul_status call_library(haul__convolution *v)
{
    haul_device   *device = v->call->device;
    const pass    *p = v->call->operation->extra;
    haul_tensor   *in[3];
    int            count = 0;
    library_params params = {.call = v->settings, .id = p->id};
    params.call.x = &v->x->storage->buffer;
    params.call.weight = &v->weight->storage->buffer;
    params.call.y = &v->y->storage->buffer;
    params.call.bias = v->bias ? &v->bias->storage->buffer : NULL;
    params.call.x_offset = v->x->offset;
    params.call.weight_offset = v->weight->offset;
    params.call.y_offset = v->y->offset;
    params.call.bias_offset = v->bias ? v->bias->offset : 0;
    for (int i = 0; i < p->count; i++)
        if (*part_of(v, p->operands[i]))
            in[count++] = *part_of(v, p->operands[i]);
    size_t scratch = device->backend->conv2d_scratch ? device->backend->conv2d_scratch(device, p->id, &params.call) : 0;
    return haul__call_library(v->call, convolve, &params, sizeof params, *part_of(v, p->result), in, count, scratch);
}

/* f32 forms of the operands, and room for the result. */
static haul_status widen(haul__convolution *v)
{
    const pass        *p = v->call->operation->extra;
    haul__convolution *wide = v->wide;
    wide->call = v->call;
    for (enum part i = X; i <= BIAS; i++) {
        haul_tensor *t = *part_of(v, i);
        if (!t)
            continue;
        haul_tensor *w = haul__temporary_strided(v->call, HAUL_F32, &t->shape, t->strides);
        if (!w || (i != p->result && haul__copy_elements(w, t, v->call->operation->name)))
            return haul_error_status();
        *part_of(wide, i) = w;
    }
    return HAUL_OK;
}

/* A library that does not take halves takes f32: the operands are copied, the result is rounded once. */
static haul_status try_library(haul__convolution *v)
{
    const pass        *p = v->call->operation->extra;
    haul__convolution *wide = v->wide;
    if (!has_library(v->call->device, p->id))
        return HAUL_UNSUPPORTED;
    haul_status status = call_library(v);
    if (status != HAUL_UNSUPPORTED || !haul__is_half(v->settings.dtype))
        return status;
    if (!wide->call && widen(v))
        return haul_error_status();
    wide->settings = v->settings;
    wide->settings.dtype = HAUL_F32;
    wide->bias = v->bias ? wide->bias : NULL;
    status = call_library(wide);
    return status ? status
                  : haul__copy_elements(*part_of(v, p->result), *part_of(wide, p->result), v->call->operation->name);
}

/* The last try is the one without relu and bias, row-major: after it the kernels compute. */
static haul_status run_library(haul__convolution *v)
{
    haul_status status = try_library(v);
    if (!status)
        haul__emit_implementation(v->call->operation->name, v->call->device, "library");
    else if (status == HAUL_UNSUPPORTED && !v->settings.channels_last && !v->settings.relu && !v->bias)
        haul__emit_implementation(v->call->operation->name, v->call->device, "kernels of conv2d_flat");
    return status;
}

/* ---- compute ---- */

/* The library's call without bias, which is added by itself. */
static haul_status run_without_bias(haul__convolution *v)
{
    haul_shape   shape = HAUL_SHAPE(1, v->settings.c_out, 1, 1);
    haul_tensor *bias = v->bias, *column = haul__view_as(v->call, bias, &shape, NULL, bias->offset);
    if (!column)
        return haul_error_status();
    v->bias = NULL;
    haul_status status = run_library(v);
    v->bias = bias;
    return status ? status : haul_add_into(v->y, v->y, column);
}

/* The library's call, without relu, and then without bias, where it cannot do all at once. */
static haul_status run_forward(haul__convolution *v)
{
    bool        relu = v->settings.relu;
    haul_status status = run_library(v);
    if (status != HAUL_UNSUPPORTED)
        return status;
    v->settings.relu = false;
    if (relu)
        status = run_library(v);
    if (status == HAUL_UNSUPPORTED && v->bias)
        status = run_without_bias(v);
    if (status == HAUL_UNSUPPORTED && !v->settings.channels_last)
        status = haul__conv2d_flat_forward(v);
    return !status && relu ? haul_relu_into(v->y, v->y) : status;
}

static haul_status run_data(haul__convolution *v)
{
    haul_status status = run_library(v);
    return status == HAUL_UNSUPPORTED && !v->settings.channels_last ? haul__conv2d_flat_data(v) : status;
}

static haul_status run_weight(haul__convolution *v)
{
    if (!v->settings.n)
        return haul_zero_into(v->weight);
    haul_status status = run_library(v);
    return status == HAUL_UNSUPPORTED && !v->settings.channels_last ? haul__conv2d_flat_weight(v) : status;
}

/* Operand t in the format that is computed in. */
static haul_tensor *lay(const haul__call *c, haul_tensor *t, enum part which, bool channels_last)
{
    if (haul__is_none(t))
        return NULL;
    return which == BIAS     ? t
           : which == WEIGHT ? haul__weight_in_format(c, t, channels_last)
                             : haul__as_format(c, t, channels_last);
}

/* The result y where it has that format, else a tensor that is copied to it. */
static haul_tensor *room_for(const haul__call *c, haul_tensor *y, bool channels_last)
{
    int64_t strides[HAUL_MAX_DIMS];
    if (channels_last)
        haul__shape_strides_channels_last(&y->shape, strides);
    else
        haul__shape_strides(&y->shape, strides);
    return haul__shape_same_strides(&y->shape, y->strides, strides)
               ? y
               : haul__temporary_strided(c, y->dtype, &y->shape, strides);
}

typedef haul_status run_fn(haul__convolution *v);

/* HAUL_UNSUPPORTED where nothing computes it in that format. */
static haul_status compute_in(haul__call *c, run_fn *run, bool channels_last)
{
    const pass       *p = c->operation->extra;
    haul_tensor      *y = c->results[0], *out = room_for(c, y, channels_last);
    haul__convolution wide = {.call = NULL};
    haul__convolution v = {.call = c, .settings = settings_of(c, &y->shape), .wide = &wide};
    v.settings.channels_last = channels_last;
    *part_of(&v, p->result) = out;
    for (int i = 0; i < p->count; i++)
        *part_of(&v, p->operands[i]) = lay(c, c->operands[i], p->operands[i], channels_last);
    if (!v.x || !v.weight || !v.y)
        return haul_error_status();
    haul_status status = run(&v);
    return status || out == y ? status : haul__copy_elements(y, out, c->operation->name);
}

static haul_status compute(haul__call *c, run_fn *run)
{
    const conv2d_attributes *at = haul__attributes(c);
    haul_status              status = compute_in(c, run, at->channels_last);
    if (status == HAUL_UNSUPPORTED && at->channels_last) /* after all */
        status = compute_in(c, run, false);
    return status;
}

static haul_status compute_forward(haul__call *c)
{
    return compute(c, run_forward);
}

static haul_status compute_data(haul__call *c)
{
    return compute(c, run_data);
}

static haul_status compute_weight(haul__call *c)
{
    return compute(c, run_weight);
}

/* Two operations for each tap that an element of y meets, in each of the three passes. */
static haul__cost cost(const haul__call *c)
{
    haul__conv2d s = settings_of(c, &c->results[0]->shape);
    double       outputs = (double)s.n * (double)s.c_out * (double)s.out_h * (double)s.out_w;
    return (haul__cost){.flops = 2 * outputs * (double)(s.c_in / s.groups) * (double)s.kh * (double)s.kw,
                        .bytes = haul__call_bytes(c)};
}

/* ---- the operations ---- */

static void gradient_of_forward(haul__gradient *c);
static void gradient_of_data(haul__gradient *c);
static void gradient_of_weight(haul__gradient *c);

HAUL__OPERATION(conv2d_backward_data) = {
    .name = "haul_conv2d_backward_data",
    .operands = {{"dy", .layout = HAUL__ANY_STRIDES, .saved_for = HAUL__FOR_1},
                 {"weight", .layout = HAUL__ANY_STRIDES, .saved_for = HAUL__FOR_0}},
    .results = {{"dx"}},
    .dtypes = HAUL__FLOATS,
    .rule = HAUL__PROMOTED,
    .attributes_size = HAUL__ATTRIBUTES(conv2d_attributes),
    .extra = &passes[HAUL__CONV2D_DATA],
    .infer = infer_data,
    .compute = compute_data,
    .gradient = gradient_of_data,
    .cost = cost,
};

HAUL__OPERATION(conv2d_backward_weight) = {
    .name = "haul_conv2d_backward_weight",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES, .saved_for = HAUL__FOR_1},
                 {"dy", .layout = HAUL__ANY_STRIDES, .saved_for = HAUL__FOR_0}},
    .results = {{"dweight"}},
    .dtypes = HAUL__FLOATS,
    .rule = HAUL__PROMOTED,
    .attributes_size = HAUL__ATTRIBUTES(conv2d_attributes),
    .extra = &passes[HAUL__CONV2D_WEIGHT],
    .infer = infer_weight,
    .compute = compute_weight,
    .gradient = gradient_of_weight,
    .cost = cost,
};

/* x or the weight has a floating dtype; the bias does not count for that. */
static haul_dtype common_dtype(const haul__call *c)
{
    haul_dtype dtype = haul_dtype_promote(c->operands[0]->dtype, c->operands[1]->dtype);
    if (!haul_dtype_is_float(dtype)) {
        haul__refuse_dtype(c, 0, "a convolution needs a floating dtype; convert it with haul_cast");
        return HAUL_DTYPE_NONE;
    }
    return haul__has(c, 2) ? haul_dtype_promote(dtype, c->operands[2]->dtype) : dtype;
}

HAUL__OPERATION(conv2d) = {
    .name = "haul_conv2d",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES, .saved_for = HAUL__FOR_1},
                 {"weight", .layout = HAUL__ANY_STRIDES, .saved_for = HAUL__FOR_0},
                 {"bias", .optional = true}},
    .results = {{"y", .saved_for = HAUL__FOR_ALL}},
    .dtypes = HAUL__FLOATS,
    .common_dtype = common_dtype,
    .autocast = HAUL__LOWER,
    .attributes_size = HAUL__ATTRIBUTES(conv2d_attributes),
    .extra = &passes[HAUL__CONV2D_FORWARD],
    .infer = infer_forward,
    .compute = compute_forward,
    .gradient = gradient_of_forward,
    .cost = cost,
};

/* With relu, dy flows where y > 0. */
static void gradient_of_forward(haul__gradient *c)
{
    conv2d_attributes at = *(const conv2d_attributes *)c->attributes;
    haul_tensor      *g = c->results[0];
    if (at.relu)
        g = haul_relu_backward(g, c->saved_results[0]);
    at.relu = false;
    if (haul__wanted(c, 0))
        c->operands[0] = HAUL__APPLY(conv2d_backward_data, &at, g, c->saved[1]);
    if (haul__wanted(c, 1))
        c->operands[1] = HAUL__APPLY(conv2d_backward_weight, &at, c->saved[0], g);
    if (haul__wanted(c, 2))
        c->operands[2] = haul_sum(g, .axes = {0, 2, 3}, .count = 3);
}

/* dx = D(dy, w) is linear in both; its gradient gg has x's shape. */
static void gradient_of_data(haul__gradient *c)
{
    haul_tensor *gg = c->results[0];
    if (haul__wanted(c, 0))
        c->operands[0] = HAUL__APPLY(conv2d, c->attributes, gg, c->saved[1], HAUL_NONE);
    if (haul__wanted(c, 1))
        c->operands[1] = HAUL__APPLY(conv2d_backward_weight, c->attributes, gg, c->saved[0]);
}

/* dw = W(x, dy) is linear in both; its gradient gg has the weight's shape. */
static void gradient_of_weight(haul__gradient *c)
{
    haul_tensor *gg = c->results[0];
    if (haul__wanted(c, 0))
        c->operands[0] = HAUL__APPLY(conv2d_backward_data, c->attributes, c->saved[1], gg);
    if (haul__wanted(c, 1))
        c->operands[1] = HAUL__APPLY(conv2d, c->attributes, c->saved[0], gg, HAUL_NONE);
}

static conv2d_attributes attributes_of(const haul_conv2d_options *o)
{
    return (conv2d_attributes){
        .stride = {o->stride[0], o->stride[1]},
        .padding = {o->padding[0], o->padding[1]},
        .dilation = {o->dilation[0], o->dilation[1]},
        .groups = o->groups,
        .relu = o->relu,
    };
}

haul_tensor *haul_conv2d_with(haul_tensor *x, haul_tensor *weight, const haul_conv2d_options *options)
{
    if (!options)
        return haul__no_options(&haul__operation_conv2d);
    conv2d_attributes at = attributes_of(options);
    return HAUL__APPLY(conv2d, &at, x, weight, options->bias);
}

haul_status haul_conv2d_into_with(haul_tensor *out, haul_tensor *x, haul_tensor *weight,
                                  const haul_conv2d_options *options)
{
    if (!options)
        return haul__fail_null(haul__operation_conv2d.name, "options");
    conv2d_attributes at = attributes_of(options);
    return HAUL__APPLY_INTO(out, conv2d, &at, x, weight, options->bias);
}
