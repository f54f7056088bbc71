/* 2-d convolution: forward, gradient of x and gradient of the weight, each an operation whose own gradients are the
 * other two. What the backend has of its own computes them, or the kernels of conv2d_flat.c. */
#include <stdio.h>
#include <string.h>

#include "core/half.h"
#include "core/option.h"
#include "engine/copy.h"
#include "engine/implementation.h"
#include "engine/reorder.h"
#include "ops/conv2d_flat.h"

typedef struct conv2d_attributes {
    int64_t stride[2], padding[2], dilation[2], groups;
    int64_t size[2], taps[2]; /* rows and columns of x and of the weight, which other shapes do not tell */
    bool    relu;
    bool    given;         /* stride, padding and dilation are as the user gave them */
    bool    channels_last; /* what it is computed in; infer's choice */
} conv2d_attributes;

/* ---- passes ---- */

enum part { X, WEIGHT, Y, BIAS, PARTS };

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
        .pass = p->id,
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

/* Describe the result, and settle the format a pass computes in: that of an implementation that wants one, else
 * row-major. The result is channels-last where it is computed so, and, if it `follows` them, where an operand is. */
static haul_status describe(haul__call *c, const haul_shape *shape, bool follows)
{
    conv2d_attributes *at = haul__attributes(c);
    bool               given = haul__wants_channels_last(c->operands[0]) || haul__wants_channels_last(c->operands[1]);
    at->channels_last = given;
    if (!at->relu)
        c->saves_results = 0;
    haul__conv2d settings = settings_of(c, shape);
    at->channels_last = haul__prefers_channels_last(c->operation, c->device, &settings);
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

static haul_status complete(const haul__call *c, conv2d_attributes *at)
{
    static const int64_t ones[2] = {1, 1}, zeros[2];
    const char          *name = c->operation->name;
    if (at->given && (haul__option_pair(name, "stride", at->stride, ones, 1) ||
                      haul__option_pair(name, "padding", at->padding, zeros, 0) ||
                      haul__option_pair(name, "dilation", at->dilation, ones, 1)))
        return haul_error_status();
    if (at->groups < 0)
        return haul__fail(HAUL_INVALID_ARGUMENT, name, "groups", "groups is %lld; it must be positive",
                          (long long)at->groups);
    at->given = false;
    at->groups = at->groups ? at->groups : 1;
    for (int i = 0; i < 2; i++) {
        at->size[i] = c->operands[0]->shape.dims[2 + i];
        at->taps[i] = c->operands[1]->shape.dims[2 + i];
    }
    return HAUL_OK;
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
    if (check_shapes(c) || complete(c, at) || check_groups(c, at) || output_size(c, at, 0, &out[0]) ||
        output_size(c, at, 1, &out[1]))
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

/* ---- one pass over its tensors ---- */

/* `now` has the form under way. */
typedef struct task {
    haul__convolution now;
    haul__conv2d      asked;
    haul_tensor      *given[PARTS];                 /* operands and result; NULL for what the pass does not have */
    haul_tensor      *laid[2][PARTS], *wide[PARTS]; /* the same by channels_last, and in f32, as far as they are made */
    bool              wide_last;                    /* `wide` is channels-last */
} task;

static task task_of(const haul__call *c)
{
    const pass *p = c->operation->extra;
    task        t = {.asked = settings_of(c, &c->results[0]->shape)};
    t.given[p->result] = c->results[0];
    for (int i = 0; i < p->count; i++)
        t.given[p->operands[i]] = haul__is_none(c->operands[i]) ? NULL : c->operands[i];
    t.asked.has_bias = t.given[BIAS] != NULL;
    t.now = (haul__convolution){.call = c, .settings = t.asked};
    return t;
}

/* Where part i is; t == NULL: where it will be is not known yet. */
static void place(haul__conv2d *problem, enum part i, const haul_tensor *t)
{
    const haul__buffer **const buffers[] = {
        [X] = &problem->x, [WEIGHT] = &problem->weight, [Y] = &problem->y, [BIAS] = &problem->bias};
    int64_t *const offsets[] = {[X] = &problem->x_offset,
                                [WEIGHT] = &problem->weight_offset,
                                [Y] = &problem->y_offset,
                                [BIAS] = &problem->bias_offset};
    *buffers[i] = t ? &t->storage->buffer : NULL;
    *offsets[i] = t ? t->offset : 0;
}

static bool is_laid(const haul_tensor *t, bool channels_last)
{
    int64_t strides[HAUL_MAX_DIMS];
    if (channels_last)
        haul__shape_strides_channels_last(&t->shape, strides);
    else
        haul__shape_strides(&t->shape, strides);
    return haul__shape_same_strides(&t->shape, t->strides, strides);
}

static bool is_wide(const task *t)
{
    return t->now.settings.dtype != t->asked.dtype;
}

/* Channels-last, then row-major; all at once, without relu, without relu and bias; halves as they are, then as f32. */
static const void *form(void *of, int i)
{
    task         *t = of;
    haul__conv2d *problem = &t->now.settings;
    int           widths = haul__is_half(t->asked.dtype) ? 2 : 1, fusions = 1 + t->asked.relu + t->asked.has_bias;
    int           fusion = i / widths % fusions, layout = i / widths / fusions;
    if (layout > t->asked.channels_last)
        return NULL;
    problem->channels_last = t->asked.channels_last && layout == 0;
    problem->relu = t->asked.relu && fusion == 0;
    problem->has_bias = t->asked.has_bias && fusion <= t->asked.relu;
    problem->dtype = i % widths ? HAUL_F32 : t->asked.dtype;
    for (enum part k = X; k <= BIAS; k++) {
        bool there = t->given[k] && !is_wide(t) &&
                     (k == BIAS ? problem->has_bias : is_laid(t->given[k], problem->channels_last));
        place(problem, k, there ? t->given[k] : NULL);
    }
    return problem;
}

static void describe_task(const void *of, char *out, size_t size)
{
    const haul__conv2d *c = &((const task *)of)->asked;
    snprintf(out, size, "%s [%lld,%lld,%lld,%lld] * [%lld,%lld,%lld,%lld]%s%s%s", haul_dtype_name(c->dtype),
             (long long)c->n, (long long)c->c_in, (long long)c->h, (long long)c->w, (long long)c->c_out,
             (long long)(c->c_in / c->groups), (long long)c->kh, (long long)c->kw, c->has_bias ? " + bias" : "",
             c->relu ? ", relu" : "", c->channels_last ? ", channels-last" : "");
}

/* ---- tensors of a form ---- */

/* Part i in a layout: an operand itself or a copy, the result itself or room for it. */
static haul_tensor *lay(const task *t, enum part i, bool channels_last)
{
    const haul__call *c = t->now.call;
    const pass       *p = c->operation->extra;
    haul_tensor      *given = t->given[i];
    int64_t           strides[HAUL_MAX_DIMS];
    if (i == BIAS || is_laid(given, channels_last))
        return given;
    if (i != p->result)
        return i == WEIGHT ? haul__weight_in_format(c, given, channels_last) : haul__as_format(c, given, channels_last);
    if (channels_last)
        haul__shape_strides_channels_last(&given->shape, strides);
    else
        haul__shape_strides(&given->shape, strides);
    return haul__temporary_strided(c, given->dtype, &given->shape, strides);
}

/* The same as f32. */
static haul_tensor *widen(const task *t, enum part i, haul_tensor *laid)
{
    const haul__call *c = t->now.call;
    const pass       *p = c->operation->extra;
    haul_tensor      *wide = haul__temporary_strided(c, HAUL_F32, &laid->shape, laid->strides);
    return wide && (i == p->result || haul__copy_elements(wide, laid, c->operation->name) == HAUL_OK) ? wide : NULL;
}

/* Make the tensors of the form under way, as far as an earlier form has not made them. */
static haul_status prepare(task *t)
{
    haul__conv2d *problem = &t->now.settings;
    bool          last = problem->channels_last;
    if (last != t->wide_last)
        memset(t->wide, 0, sizeof t->wide);
    t->wide_last = last;
    for (enum part i = X; i <= BIAS; i++) {
        haul_tensor **const parts[] = {
            [X] = &t->now.x, [WEIGHT] = &t->now.weight, [Y] = &t->now.y, [BIAS] = &t->now.bias};
        *parts[i] = NULL;
        if (!t->given[i] || (i == BIAS && !problem->has_bias))
            continue;
        if (!t->laid[last][i] && !(t->laid[last][i] = lay(t, i, last)))
            return haul_error_status();
        if (is_wide(t) && !t->wide[i] && !(t->wide[i] = widen(t, i, t->laid[last][i])))
            return haul_error_status();
        *parts[i] = is_wide(t) ? t->wide[i] : t->laid[last][i];
        place(problem, i, *parts[i]);
    }
    return HAUL_OK;
}

/* y += bias */
static haul_status add_bias(const haul__call *c, haul_tensor *y, haul_tensor *bias)
{
    haul_shape   shape = HAUL_SHAPE(1, bias->shape.dims[0], 1, 1);
    haul_tensor *column = haul__view_as(c, bias, &shape, NULL, bias->offset);
    return column ? haul_add_into(y, y, column) : haul_error_status();
}

/* What the form left to do. */
static haul_status complete_result(task *t)
{
    const haul__call   *c = t->now.call;
    const pass         *p = c->operation->extra;
    const haul__conv2d *problem = &t->now.settings;
    haul_tensor        *y = t->laid[problem->channels_last][p->result];
    haul_status         status = HAUL_OK;
    if (is_wide(t))
        status = haul__copy_elements(y, t->wide[p->result], c->operation->name);
    if (!status && t->asked.has_bias && !problem->has_bias)
        status = add_bias(c, y, t->given[BIAS]);
    if (!status && t->asked.relu && !problem->relu)
        status = haul_relu_into(y, y);
    return status || y == c->results[0] ? status : haul__copy_elements(c->results[0], y, c->operation->name);
}

/* ---- implementations ---- */

typedef struct library_params {
    haul__conv2d                problem;
    const haul__implementation *by;
} library_params;

static haul_status convolve(haul__stream *s, const haul__command *command)
{
    library_params       params = *(const library_params *)command->params;
    const pass          *p = &passes[params.problem.pass];
    const haul__storage *scratch = haul__library_scratch(command);
    const haul__buffer **parts[] = {[X] = &params.problem.x,
                                    [WEIGHT] = &params.problem.weight,
                                    [Y] = &params.problem.y,
                                    [BIAS] = &params.problem.bias};
    *parts[p->result] = haul__library_output(command);
    for (int i = 0; i < p->count; i++)
        *parts[p->operands[i]] = haul__library_input(command, i);
    params.problem.scratch = scratch ? &scratch->buffer : NULL;
    params.problem.scratch_bytes = scratch ? scratch->bytes : 0;
    return params.by->run(s, &params.problem);
}

static haul_status run(void *of, const haul__implementation *by)
{
    task             *t = of;
    const haul__call *c = t->now.call;
    const pass       *p = c->operation->extra;
    haul_tensor      *in[3];
    int               count = 0;
    if (prepare(t))
        return haul_error_status();
    haul_tensor *const parts[] = {[X] = t->now.x, [WEIGHT] = t->now.weight, [Y] = t->now.y, [BIAS] = t->now.bias};
    for (int i = 0; i < p->count; i++)
        if (parts[p->operands[i]])
            in[count++] = parts[p->operands[i]];
    library_params params = {.problem = t->now.settings, .by = by};
    size_t         scratch = by->scratch ? by->scratch(c->device, &params.problem) : 0;
    return haul__call_library(c, convolve, &params, sizeof params, parts[p->result], in, count, scratch);
}

static const char *kernels_refuse(haul_device *device, const void *problem)
{
    const haul__conv2d *c = problem;
    (void)device;
    if (c && c->channels_last)
        return "it takes row-major tensors only";
    return c && c->relu ? "it does no relu" : NULL;
}

static haul_status compute_flat(void *of)
{
    static haul_status (*const passes_of[])(const haul__convolution *) = {
        [HAUL__CONV2D_FORWARD] = haul__conv2d_flat_forward,
        [HAUL__CONV2D_DATA] = haul__conv2d_flat_data,
        [HAUL__CONV2D_WEIGHT] = haul__conv2d_flat_weight,
    };
    task       *t = of;
    haul_status status = prepare(t);
    return status ? status : passes_of[t->now.settings.pass](&t->now);
}

static const haul__implementation kernels[] = {
    {HAUL__PROBLEM_CONV2D, HAUL__BY_kernel, .refuses = kernels_refuse, .compute = compute_flat},
    {.refuses = NULL},
};

static const haul__implementations implementations = {
    .of = HAUL__PROBLEM_CONV2D, .portable = kernels, .form = form, .run = run, .describe = describe_task};

static haul_status compute(haul__call *c)
{
    const pass *p = c->operation->extra;
    task        t = task_of(c);
    if (p->id == HAUL__CONV2D_WEIGHT && !t.asked.n)
        return haul_zero_into(c->results[0]);
    haul_status status = haul__implement(c, &t);
    return status ? status : complete_result(&t);
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
    .compute = compute,
    .implementations = &implementations,
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
    .compute = compute,
    .implementations = &implementations,
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
    .compute = compute,
    .implementations = &implementations,
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
        c->operands[2] = haul_sum(g, HAUL_AXES(0, 2, 3));
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
        .given = true,
    };
}

haul_tensor *haul_conv2d_with(haul_tensor *x, haul_tensor *weight, const haul_conv2d_options *options)
{
    if (!options)
        return haul__no_options(&haul__operation_conv2d);
    conv2d_attributes at = attributes_of(options);
    return HAUL__APPLY(conv2d, &at, x, weight, haul__optional(options->bias));
}

haul_status haul_conv2d_into_with(haul_tensor *out, haul_tensor *x, haul_tensor *weight,
                                  const haul_conv2d_options *options)
{
    if (!options)
        return haul__fail_null(haul__operation_conv2d.name, "options");
    conv2d_attributes at = attributes_of(options);
    return HAUL__APPLY_INTO(out, conv2d, &at, x, weight, haul__optional(options->bias));
}
