/* 2-d convolution: forward, gradient of x and gradient of the weight, each a differentiable operation whose own
 * gradients are the other two. The backend's own calls serve where it has them, else the kernels of conv2d_flat.c. */
#include <stdio.h>

#include "core/half.h"
#include "engine/reorder.h"
#include "events/events.h"
#include "ops/conv2d_flat.h"

static const char *const operation = "haul_conv2d";

static haul_tensor *forward(haul_tensor *x, haul_tensor *weight, haul_tensor *bias, const haul__conv2d *c);
static haul_tensor *backward_data(haul_tensor *dy, haul_tensor *weight, const haul__conv2d *c);
static haul_tensor *backward_weight(haul_tensor *x, haul_tensor *dy, const haul__conv2d *c);

/* ---- library calls ---- */

typedef haul_status library_call(haul__stream *, const haul__conv2d *);

static library_call *hook_of(const haul__backend *backend, haul__conv2d_pass pass)
{
    library_call *const calls[] = {backend->conv2d_forward, backend->conv2d_backward_data,
                                   backend->conv2d_backward_weight};
    return calls[pass];
}

static bool has_library(haul_device *device, haul__conv2d_pass pass)
{
    const haul__backend *backend = device->backend;
    return hook_of(backend, pass) && (!backend->conv2d_usable || backend->conv2d_usable(device));
}

typedef struct library_params {
    haul__conv2d      call;
    haul__conv2d_pass pass;
} library_params;

/* The buffers are those of the command: the result, perhaps scratch memory, then the others in this order. */
static haul_status convolve(haul__stream *s, const haul__command *c)
{
    static const int     out_of[] = {[HAUL__CONV2D_FORWARD] = 2, [HAUL__CONV2D_DATA] = 0, [HAUL__CONV2D_WEIGHT] = 1};
    library_params       p = *(const library_params *)c->params;
    const haul__buffer **places[] = {&p.call.x, &p.call.weight, &p.call.y, &p.call.bias};
    for (int i = 0, next = c->write_count; i < 4; i++) {
        int from = i == out_of[p.pass] ? 0 : next++;
        *places[i] = from < c->buffer_count ? &c->buffers[from].storage->buffer : NULL;
    }
    if (c->write_count > 1) {
        p.call.scratch = &c->buffers[1].storage->buffer;
        p.call.scratch_bytes = c->buffers[1].storage->bytes;
    }
    return hook_of(s->device->backend, p.pass)(s, &p.call);
}

/* HAUL_UNSUPPORTED, with nothing recorded, where the library does not do it. `out` is one of the others. */
static haul_status call_library(haul__conv2d_pass pass, const haul__conv2d *c, haul_tensor *x, haul_tensor *weight,
                                haul_tensor *bias, haul_tensor *y, haul_tensor *out)
{
    haul_device   *device = out->storage->device;
    haul_tensor   *all[] = {x, weight, y, bias}, *in[3];
    int            in_count = 0;
    library_params p = {.call = *c, .pass = pass};
    if (!has_library(device, pass))
        return HAUL_UNSUPPORTED;
    p.call.dtype = out->dtype;
    p.call.x = &x->storage->buffer;
    p.call.weight = &weight->storage->buffer;
    p.call.y = &y->storage->buffer;
    p.call.bias = bias ? &bias->storage->buffer : NULL;
    p.call.x_offset = x->offset;
    p.call.weight_offset = weight->offset;
    p.call.y_offset = y->offset;
    p.call.bias_offset = bias ? bias->offset : 0;
    for (int i = 0; i < 4; i++)
        if (all[i] && all[i] != out)
            in[in_count++] = all[i];
    size_t scratch = device->backend->conv2d_scratch ? device->backend->conv2d_scratch(device, pass, &p.call) : 0;
    return haul__run_library(operation, device, convolve, &p, sizeof p, out, in, in_count, scratch);
}

/* The f32 form of an operand; of the one that is `out`, room for it. */
static haul_tensor *widened(const haul__conv2d *c, haul_tensor *t, const haul_tensor *out)
{
    return t == out ? haul__result_in_format(operation, t->storage->device, HAUL_F32, &t->shape, c->channels_last)
                    : haul__in_format(operation, haul_cast(t, HAUL_F32), c->channels_last);
}

static haul_status call_widened(haul__conv2d_pass pass, const haul__conv2d *c, haul_tensor *x, haul_tensor *weight,
                                haul_tensor *bias, haul_tensor *y, haul_tensor *out)
{
    haul_tensor *wx = widened(c, x, out), *ww = wx ? widened(c, weight, out) : NULL;
    haul_tensor *wy = ww ? widened(c, y, out) : NULL, *wb = wy && bias ? haul_cast(bias, HAUL_F32) : NULL;
    if (!wy || (bias && !wb))
        return haul_error_status();
    haul_tensor *wide = out == x ? wx : out == y ? wy : ww;
    haul_status  status = call_library(pass, c, wx, ww, wb, wy, wide);
    return status ? status : haul__copy_elements(out, wide, operation);
}

/* A library that does not take halves takes f32: the operands are copied for as long as it runs, the result is rounded
 * once. */
static haul_status try_library(haul__conv2d_pass pass, const haul__conv2d *c, haul_tensor *x, haul_tensor *weight,
                               haul_tensor *bias, haul_tensor *y, haul_tensor *out)
{
    haul__error_record before;
    haul__error_save(&before);
    haul_status status = call_library(pass, c, x, weight, bias, y, out);
    if (haul__room_made(out->storage->device, status, &before))
        status = call_library(pass, c, x, weight, bias, y, out);
    if (status != HAUL_UNSUPPORTED || !haul__is_half(out->dtype) || !has_library(out->storage->device, pass))
        return status;
    haul_scope *scope = haul_scope_push();
    if (!scope)
        return haul_error_status();
    haul_set_grad_enabled(false);
    status = call_widened(pass, c, x, weight, bias, y, out);
    haul_scope_pop(scope);
    return status;
}

/* The last try is the one without relu and bias, row-major: after it the kernels compute. */
static haul_status run_library(haul__conv2d_pass pass, const haul__conv2d *c, haul_tensor *x, haul_tensor *weight,
                               haul_tensor *bias, haul_tensor *y, haul_tensor *out)
{
    haul_status status = try_library(pass, c, x, weight, bias, y, out);
    if (!status)
        haul__emit_implementation(operation, out->storage->device, "library");
    else if (status == HAUL_UNSUPPORTED && !c->channels_last && !c->relu && !bias)
        haul__emit_implementation(operation, out->storage->device, "kernels of conv2d_flat");
    return status;
}

/* Settle the format a pass computes in, c->channels_last: the library's choice, else row-major. Returns whether the
 * result shall be channels-last: where it is computed so, and where an operand lies so. */
static bool choose_format(haul__conv2d *c, haul__conv2d_pass pass, const haul_tensor *a, const haul_tensor *b)
{
    const haul_device   *device = a->storage->device;
    const haul__backend *backend = device->backend;
    bool                 given = haul__wants_channels_last(a) || haul__wants_channels_last(b);
    c->dtype = a->dtype;
    c->tf32 = c->dtype == HAUL_F32 && haul_matmul_precision() == HAUL_PRECISION_HIGH;
    c->channels_last = given;
    c->channels_last = backend->conv2d_channels_last && backend->conv2d_channels_last(a->storage->device, pass, c);
    return c->channels_last || given;
}

static haul_tensor *lay(haul_tensor *t, const haul__conv2d *c)
{
    return haul__in_format(operation, t, c->channels_last);
}

static haul_tensor *lay_weight(haul_tensor *t, const haul__conv2d *c)
{
    return haul__weight_in_format(operation, t, c->channels_last);
}

static haul_tensor *fresh(const haul_tensor *like, haul_shape shape, const haul__conv2d *c)
{
    return haul__result_in_format(operation, like->storage->device, like->dtype, &shape, c->channels_last);
}

/* ---- the three operations ---- */

static haul_status forward_gradients(haul__node *node, haul_tensor *g, haul_tensor **out)
{
    haul__conv2d c = *(const haul__conv2d *)node->attributes;
    if (c.relu && !(g = haul_relu_backward(g, haul__saved(node, 2))))
        return haul_error_status();
    c.relu = false;
    if (haul__needs(node, 0) && !(out[0] = backward_data(g, haul__saved(node, 1), &c)))
        return haul_error_status();
    if (haul__needs(node, 1) && !(out[1] = backward_weight(haul__saved(node, 0), g, &c)))
        return haul_error_status();
    if (haul__needs(node, 2) && !(out[2] = haul_sum(g, .axes = {0, 2, 3}, .count = 3)))
        return haul_error_status();
    return HAUL_OK;
}

/* dx = D(dy, w) is linear in both; its gradient gg has x's shape. */
static haul_status data_gradients(haul__node *node, haul_tensor *gg, haul_tensor **out)
{
    const haul__conv2d *c = node->attributes;
    if (haul__needs(node, 0) && !(out[0] = forward(gg, haul__saved(node, 1), HAUL_NONE, c)))
        return haul_error_status();
    if (haul__needs(node, 1) && !(out[1] = backward_weight(gg, haul__saved(node, 0), c)))
        return haul_error_status();
    return HAUL_OK;
}

/* dw = W(x, dy) is linear in both; its gradient gg has the weight's shape. */
static haul_status weight_gradients(haul__node *node, haul_tensor *gg, haul_tensor **out)
{
    const haul__conv2d *c = node->attributes;
    if (haul__needs(node, 0) && !(out[0] = backward_data(haul__saved(node, 1), gg, c)))
        return haul_error_status();
    if (haul__needs(node, 1) && !(out[1] = forward(haul__saved(node, 0), gg, HAUL_NONE, c)))
        return haul_error_status();
    return HAUL_OK;
}

/* Save what the gradient of the other operand reads, and where relu let something through. */
static haul_tensor *finish(haul_tensor *y, haul__backward_fn *backward, haul_tensor *a, haul_tensor *b,
                           haul_tensor *bias, const haul__conv2d *c)
{
    haul_tensor *saves[] = {haul__tracks(b) ? a : NULL, haul__tracks(a) ? b : NULL, c->relu ? y : NULL};
    return haul__finish(y, &(haul__record){
                               .name = operation,
                               .backward = backward,
                               .inputs = (haul_tensor *[]){a, b, bias},
                               .input_count = 3,
                               .saves = saves,
                               .save_count = 3,
                               .attributes = c,
                               .attributes_size = sizeof *c,
                           });
}

static bool has_work(const haul_tensor *out)
{
    return out->count && !out->storage->device->backend->no_data;
}

/* The library's call without bias, which is added by itself. */
static haul_status run_without_bias(const haul__conv2d *c, haul_tensor *x, haul_tensor *weight, haul_tensor *bias,
                                    haul_tensor *y)
{
    haul_status status = run_library(HAUL__CONV2D_FORWARD, c, x, weight, NULL, y, y);
    if (status)
        return status;
    bool         grad = haul_set_grad_enabled(false);
    haul_tensor *column = haul_view(bias, HAUL_SHAPE(1, c->c_out, 1, 1));
    status = haul_add_into(y, y, column);
    haul_set_grad_enabled(grad);
    return status;
}

/* The library's call, without relu, and then without bias, where it cannot do all at once. */
static haul_status run_forward(const haul__conv2d *c, haul_tensor *x, haul_tensor *weight, haul_tensor *bias,
                               haul_tensor *y)
{
    haul__conv2d plain = *c;
    haul_status  status = run_library(HAUL__CONV2D_FORWARD, c, x, weight, bias, y, y);
    if (status != HAUL_UNSUPPORTED)
        return status;
    plain.relu = false;
    if (c->relu)
        status = run_library(HAUL__CONV2D_FORWARD, &plain, x, weight, bias, y, y);
    if (status == HAUL_UNSUPPORTED && bias)
        status = run_without_bias(&plain, x, weight, bias, y);
    if (status == HAUL_UNSUPPORTED && !c->channels_last)
        status = haul__conv2d_flat_forward(c, x, weight, bias, y);
    return !status && c->relu ? haul_relu_into(y, y) : status;
}

static haul_tensor *compute_forward(haul__conv2d *c, haul_tensor *x, haul_tensor *weight, haul_tensor *bias)
{
    haul_tensor *dx = lay(x, c), *dw = lay_weight(weight, c);
    haul_tensor *db = haul__is_none(bias) ? NULL : haul__dense(bias);
    haul_tensor *y = fresh(x, HAUL_SHAPE(c->n, c->c_out, c->out_h, c->out_w), c);
    if (!dx || !dw || !y || (!db && !haul__is_none(bias)))
        return NULL;
    haul_status status = has_work(y) ? run_forward(c, dx, dw, db, y) : HAUL_OK;
    if (status == HAUL_UNSUPPORTED && c->channels_last) { /* after all */
        c->channels_last = false;
        return compute_forward(c, x, weight, bias);
    }
    return status ? NULL : y;
}

static haul_tensor *compute_data(haul__conv2d *c, haul_tensor *dy, haul_tensor *weight)
{
    haul_tensor *g = lay(dy, c), *dw = lay_weight(weight, c);
    haul_tensor *x = fresh(dy, HAUL_SHAPE(c->n, c->c_in, c->h, c->w), c);
    if (!g || !dw || !x)
        return NULL;
    if (!has_work(x))
        return x;
    haul_status status = run_library(HAUL__CONV2D_DATA, c, x, dw, NULL, g, x);
    if (status == HAUL_UNSUPPORTED && c->channels_last) {
        c->channels_last = false;
        return compute_data(c, dy, weight);
    }
    if (status == HAUL_UNSUPPORTED)
        status = haul__conv2d_flat_data(c, x, dw, g);
    return status ? NULL : x;
}

/* The kernels' sums are operations; they are not what the graph shall hold. */
static haul_tensor *weight_by_kernels(const haul__conv2d *c, haul_tensor *x, haul_tensor *dy)
{
    bool         grad = haul_set_grad_enabled(false);
    haul_tensor *w = haul__conv2d_flat_weight(c, x, dy);
    haul_set_grad_enabled(grad);
    return w;
}

static haul_tensor *compute_weight(haul__conv2d *c, haul_tensor *x, haul_tensor *dy)
{
    haul_tensor *dx = lay(x, c), *g = lay(dy, c);
    haul_tensor *w = fresh(x, HAUL_SHAPE(c->c_out, c->c_in / c->groups, c->kh, c->kw), c);
    if (!dx || !g || !w)
        return NULL;
    if (!has_work(w))
        return w;
    if (!c->n)
        return haul_zero_into(w) ? NULL : w;
    haul_status status = run_library(HAUL__CONV2D_WEIGHT, c, dx, w, NULL, g, w);
    if (status == HAUL_UNSUPPORTED && c->channels_last) {
        c->channels_last = false;
        return compute_weight(c, x, dy);
    }
    if (status == HAUL_UNSUPPORTED)
        return weight_by_kernels(c, dx, g);
    return status ? NULL : w;
}

/* The result in the format it shall have, whatever it was computed in. */
static haul_tensor *deliver(haul_tensor *y, bool channels_last)
{
    return y && channels_last ? haul__in_format(operation, y, true) : y;
}

static haul_tensor *forward_in_scope(haul_tensor *x, haul_tensor *weight, haul_tensor *bias, haul__conv2d c)
{
    bool         last = choose_format(&c, HAUL__CONV2D_FORWARD, x, weight);
    haul_tensor *y = deliver(compute_forward(&c, x, weight, bias), last);
    return y ? finish(y, forward_gradients, x, weight, bias, &c) : NULL;
}

static haul_tensor *data_in_scope(haul_tensor *dy, haul_tensor *weight, haul__conv2d c)
{
    bool         last = choose_format(&c, HAUL__CONV2D_DATA, dy, weight);
    haul_tensor *x = deliver(compute_data(&c, dy, weight), last);
    return x ? finish(x, data_gradients, dy, weight, haul_none, &c) : NULL;
}

/* A leaf's gradient is brought to the leaf's format when it arrives. */
static haul_tensor *weight_in_scope(haul_tensor *x, haul_tensor *dy, haul__conv2d c)
{
    choose_format(&c, HAUL__CONV2D_WEIGHT, x, dy);
    haul_tensor *w = compute_weight(&c, x, dy);
    return w ? finish(w, weight_gradients, x, dy, haul_none, &c) : NULL;
}

static haul_tensor *forward(haul_tensor *x, haul_tensor *weight, haul_tensor *bias, const haul__conv2d *c)
{
    haul_scope *scope = x && weight ? haul_scope_push() : NULL;
    return scope ? haul_scope_return(scope, forward_in_scope(x, weight, bias, *c)) : NULL;
}

static haul_tensor *backward_data(haul_tensor *dy, haul_tensor *weight, const haul__conv2d *c)
{
    haul_scope *scope = dy && weight ? haul_scope_push() : NULL;
    return scope ? haul_scope_return(scope, data_in_scope(dy, weight, *c)) : NULL;
}

static haul_tensor *backward_weight(haul_tensor *x, haul_tensor *dy, const haul__conv2d *c)
{
    haul_scope *scope = x && dy ? haul_scope_push() : NULL;
    return scope ? haul_scope_return(scope, weight_in_scope(x, dy, *c)) : NULL;
}

/* ---- checks ---- */

static haul_status check_operands(haul_tensor *x, haul_tensor *weight, haul_tensor *bias)
{
    char wanted[160], have[80];
    if (haul__is_none(x) || haul__is_none(weight))
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, haul__is_none(x) ? "x" : "weight",
                          "%s is HAUL_NONE, but a tensor is needed here", haul__is_none(x) ? "x" : "weight");
    if (x->shape.ndim != 4)
        return haul__fail_shape(operation, "x", x, "it must be [N, C, H, W]");
    if (weight->shape.ndim != 4)
        return haul__fail_shape(operation, "weight", weight, "it must be [C_out, C_in / groups, KH, KW]");
    if (x->shape.dims[1] == 0 || x->shape.dims[2] == 0 || x->shape.dims[3] == 0)
        return haul__fail_shape(operation, "x", x, "only its batch can be empty");
    if (weight->count == 0)
        return haul__fail_shape(operation, "weight", weight, "it must not be empty");
    if (!haul__is_none(bias) && (bias->shape.ndim != 1 || bias->shape.dims[0] != weight->shape.dims[0])) {
        snprintf(wanted, sizeof wanted, "weight is %s: bias must be [%lld]",
                 haul__shape_text(&weight->shape, have, sizeof have), (long long)weight->shape.dims[0]);
        return haul__fail_shape(operation, "bias", bias, wanted);
    }
    return HAUL_OK;
}

static haul_status check_options(const haul_conv2d_options *o)
{
    for (int i = 0; i < 2; i++) {
        if (o->stride[i] < 0 || o->dilation[i] < 0)
            return haul__fail(HAUL_INVALID_ARGUMENT, operation, o->stride[i] < 0 ? "stride" : "dilation",
                              "%s is {%lld, %lld}; it must be positive", o->stride[i] < 0 ? "stride" : "dilation",
                              (long long)(o->stride[i] < 0 ? o->stride : o->dilation)[0],
                              (long long)(o->stride[i] < 0 ? o->stride : o->dilation)[1]);
        if (o->padding[i] < 0)
            return haul__fail(HAUL_INVALID_ARGUMENT, operation, "padding",
                              "padding is {%lld, %lld}; it cannot be "
                              "negative (haul_slice takes borders away)",
                              (long long)o->padding[0], (long long)o->padding[1]);
    }
    if (o->groups < 0)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "groups", "groups is %lld; it must be positive",
                          (long long)o->groups);
    return HAUL_OK;
}

/* Rows or columns of the result: of `size`, padded, where a kernel of `taps` fits. Settings too large to add up fail.
 */
static haul_status output_size(const char *what, int64_t size, int64_t taps, int64_t stride, int64_t padding,
                               int64_t dilation, int64_t *out)
{
    int64_t padded, reach;
    if (!haul__mul_size(padding, 2, &padded) || !haul__add_size(padded, size, &padded) ||
        !haul__mul_size(dilation, taps - 1, &reach) || !haul__add_size(reach, 1, &reach) || stride > INT32_MAX ||
        padded > INT32_MAX || reach > INT32_MAX)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, NULL,
                          "stride, padding or dilation is too large: %s of x, padded, and of the weight, dilated, must "
                          "be less than 2^31",
                          what);
    if (padded < reach)
        return haul__fail(
            HAUL_SHAPE, operation, "x",
            "the weight spans %lld %s, but x has %lld with its padding; pad more, or use a smaller kernel",
            (long long)reach, what, (long long)padded);
    *out = (padded - reach) / stride + 1;
    return HAUL_OK;
}

static haul_status describe(haul__conv2d *c, const haul_tensor *x, const haul_tensor *weight,
                            const haul_conv2d_options *o)
{
    char sx[80], sw[80];
    *c = (haul__conv2d){
        .n = x->shape.dims[0],
        .c_in = x->shape.dims[1],
        .h = x->shape.dims[2],
        .w = x->shape.dims[3],
        .c_out = weight->shape.dims[0],
        .kh = weight->shape.dims[2],
        .kw = weight->shape.dims[3],
        .groups = o->groups ? o->groups : 1,
        .relu = o->relu,
    };
    for (int i = 0; i < 2; i++) {
        c->stride[i] = o->stride[i] ? o->stride[i] : (o->stride[0] ? o->stride[0] : 1);
        c->dilation[i] = o->dilation[i] ? o->dilation[i] : (o->dilation[0] ? o->dilation[0] : 1);
        c->padding[i] = o->padding[i];
    }
    if (c->c_in % c->groups || c->c_out % c->groups || c->c_in / c->groups != weight->shape.dims[1])
        return haul__fail(HAUL_SHAPE, operation, "weight",
                          "x is %s and weight is %s with %lld group(s): weight must be [C_out, %lld / groups, KH, KW], "
                          "and groups must divide both numbers of channels",
                          haul__shape_text(&x->shape, sx, sizeof sx), haul__shape_text(&weight->shape, sw, sizeof sw),
                          (long long)c->groups, (long long)c->c_in);
    haul_status status = output_size("rows", c->h, c->kh, c->stride[0], c->padding[0], c->dilation[0], &c->out_h);
    if (status)
        return status;
    return output_size("columns", c->w, c->kw, c->stride[1], c->padding[1], c->dilation[1], &c->out_w);
}

/* Bring all to one floating dtype. */
static haul_status promote(haul_tensor *in[3])
{
    haul_dtype dtype = haul_dtype_promote(in[0]->dtype, in[1]->dtype);
    if (!haul_dtype_is_float(dtype))
        return haul__fail_dtype(operation, "x", in[0],
                                "a convolution needs a floating dtype; convert it with haul_cast");
    if (!haul__is_none(in[2]))
        dtype = haul_dtype_promote(dtype, in[2]->dtype);
    for (int i = 0; i < 3; i++)
        if (!haul__is_none(in[i]) && in[i]->dtype != dtype && !(in[i] = haul_cast(in[i], dtype)))
            return haul_error_status();
    return HAUL_OK;
}

static haul_tensor *conv2d(haul_tensor *x, haul_tensor *weight, const haul_conv2d_options *options)
{
    haul_tensor      *in[] = {x, weight, options->bias};
    const char *const names[] = {"x", "weight", "bias"};
    haul__conv2d      c;
    if (!haul__place(operation, in, names, 3) || check_operands(in[0], in[1], in[2]) || check_options(options) ||
        describe(&c, in[0], in[1], options) || promote(in))
        return NULL;
    return forward(in[0], in[1], in[2], &c);
}

haul_tensor *haul_conv2d_with(haul_tensor *x, haul_tensor *weight, const haul_conv2d_options *options)
{
    if (!options) {
        haul__fail_null(operation, "options");
        return NULL;
    }
    haul_scope *scope = haul_scope_push();
    return scope ? haul_scope_return(scope, conv2d(x, weight, options)) : NULL;
}
