/* Convolutions and pooling: the attributes of windows, in one to three dimensions. */
#include <haul/channels.h>
#include <haul/conv.h>
#include <haul/dtype.h>
#include <haul/volume.h>
#include <math.h>
#include <string.h>

#include "core/error.h"
#include "core/tensor.h"
#include "onnx/families.h"

#define X(i) haul__onnx_x(c, i)

enum { MOST = 3 };

typedef struct window {
    int     ndim; /* axes after the channels */
    int64_t size[MOST], stride[MOST], dilation[MOST], before[MOST], after[MOST], groups;
    bool    even; /* the same padding before and after */
} window;

static haul_status read_list(haul__onnx_call *c, const char *name, int count, int64_t otherwise, int64_t *out)
{
    haul__onnx_list list;
    if (haul__onnx_ints(c, name, &list))
        return haul_error_status();
    if (list.given && list.count != count)
        return haul__onnx_wrong(c, "an attribute has another number of axes"), haul_error_status();
    for (int i = 0; i < count; i++) {
        out[i] = list.given ? list.items[i] : otherwise;
        if (out[i] < 0 || out[i] > INT32_MAX)
            return haul__onnx_wrong(c, "an attribute is negative or too large"), haul_error_status();
    }
    return HAUL_OK;
}

/* SAME_UPPER and SAME_LOWER: as many results as ceil(n / stride); an odd element goes to the end, or to the start. */
static void pad_same(window *w, const haul_shape *x, bool lower)
{
    for (int d = 0; d < w->ndim; d++) {
        const int64_t n = x->dims[d + 2], results = (n + w->stride[d] - 1) / w->stride[d];
        const int64_t reach = (results - 1) * w->stride[d] + w->dilation[d] * (w->size[d] - 1) + 1;
        const int64_t all = reach > n ? reach - n : 0;
        w->before[d] = lower ? all - all / 2 : all / 2;
        w->after[d] = all - w->before[d];
    }
}

static haul_status read_window(haul__onnx_call *c, window *w, const int64_t *size)
{
    const haul_shape x = haul__onnx_shape(c, 0);
    const char      *automatic = haul__onnx_string(c, "auto_pad", "NOTSET");
    int64_t          pads[2 * MOST];
    *w = (window){.ndim = x.ndim - 2, .groups = haul__onnx_int(c, "group", 1), .even = true};
    if (w->ndim < 1 || w->ndim > MOST)
        return haul__onnx_refuse(c, "this number of dimensions"), haul_error_status();
    if (size)
        memcpy(w->size, size, (size_t)w->ndim * sizeof *size);
    else if (read_list(c, "kernel_shape", w->ndim, 1, w->size))
        return haul_error_status();
    if (read_list(c, "strides", w->ndim, 1, w->stride) || read_list(c, "dilations", w->ndim, 1, w->dilation) ||
        read_list(c, "pads", 2 * w->ndim, 0, pads))
        return haul_error_status();
    for (int d = 0; d < w->ndim; d++) {
        if (w->size[d] < 1 || w->stride[d] < 1 || w->dilation[d] < 1)
            return haul__onnx_wrong(c, "a size, stride or dilation is 0"), haul_error_status();
        w->before[d] = pads[d];
        w->after[d] = pads[w->ndim + d];
    }
    if (!strncmp(automatic, "SAME", 4))
        pad_same(w, &x, !strcmp(automatic, "SAME_LOWER"));
    for (int d = 0; d < w->ndim; d++)
        w->even = w->even && w->before[d] == w->after[d];
    return HAUL_OK;
}

/* x with the window's padding around it, which the window then no longer has. */
static haul_tensor *pad_now(haul_tensor *x, window *w, double value)
{
    int64_t before[MOST + 2] = {0}, after[MOST + 2] = {0};
    for (int d = 0; d < w->ndim; d++) {
        before[d + 2] = w->before[d];
        after[d + 2] = w->after[d];
        w->before[d] = w->after[d] = 0;
    }
    w->even = true;
    return haul__onnx_pads(x, w->ndim + 2, before, after, HAUL_PAD_CONSTANT, value);
}

/* Options read 0 as the default, which is 1 for strides; HAUL_ZERO stands for 0. */
static int64_t padding_of(const window *w, int d)
{
    return w->before[d] ? w->before[d] : (int64_t)HAUL_ZERO;
}

/* ---- convolutions ---- */

static const int64_t *kernel_of(haul__onnx_call *c, haul_shape *weight)
{
    *weight = haul__onnx_shape(c, 1);
    return weight->ndim == haul__onnx_shape(c, 0).ndim && weight->ndim > 2 ? weight->dims + 2 : NULL;
}

haul_tensor *haul__onnx_conv(haul__onnx_call *c)
{
    window         w;
    haul_shape     shape;
    const int64_t *size = kernel_of(c, &shape);
    if (!size)
        return haul__onnx_wrong(c, "the weight has another number of dimensions");
    if (read_window(c, &w, size))
        return NULL;
    haul_tensor *x = w.even ? X(0) : pad_now(X(0), &w, 0), *weight = X(1), *bias = haul__onnx_has(c, 2) ? X(2) : NULL;
    if (w.ndim == 1)
        return haul_conv1d(x, weight, .bias = bias, .stride = w.stride[0], .padding = w.before[0],
                           .dilation = w.dilation[0], .groups = w.groups);
    if (w.ndim == 2)
        return haul_conv2d(x, weight, .bias = bias, .stride = {w.stride[0], w.stride[1]},
                           .padding = {padding_of(&w, 0), padding_of(&w, 1)},
                           .dilation = {w.dilation[0], w.dilation[1]}, .groups = w.groups);
    return haul_conv3d(x, weight, .bias = bias, .stride = {w.stride[0], w.stride[1], w.stride[2]},
                       .padding = {padding_of(&w, 0), padding_of(&w, 1), padding_of(&w, 2)},
                       .dilation = {w.dilation[0], w.dilation[1], w.dilation[2]}, .groups = w.groups);
}

/* Uneven padding: the result without padding is cut. */
static haul_tensor *cut(haul_tensor *y, const window *w)
{
    for (int d = 0; d < w->ndim; d++) {
        const int64_t n = haul__failed(y) ? 0 : haul_tensor_shape(y).dims[d + 2];
        if (n < w->after[d]) /* nothing is left, and a negative end would count from the end */
            return haul_slice(y, d + 2, 0, 0, 1);
        if (w->before[d] || w->after[d])
            y = haul_slice(y, d + 2, w->before[d], n - w->after[d], 1);
    }
    return y;
}

haul_tensor *haul__onnx_conv_transpose(haul__onnx_call *c)
{
    window          w;
    haul_shape      shape;
    int64_t         more[MOST];
    haul__onnx_list sizes;
    const int64_t  *size = kernel_of(c, &shape);
    const char     *automatic = haul__onnx_string(c, "auto_pad", "NOTSET");
    if (!size)
        return haul__onnx_wrong(c, "the weight has another number of dimensions");
    if (read_window(c, &w, size) || read_list(c, "output_padding", w.ndim, 0, more) ||
        haul__onnx_ints(c, "output_shape", &sizes))
        return NULL;
    if (sizes.given || !strncmp(automatic, "SAME", 4))
        return haul__onnx_refuse(c, "output_shape or auto_pad");
    const window whole = w;
    haul_tensor *x = X(0), *weight = X(1), *bias = haul__onnx_has(c, 2) ? X(2) : NULL, *y = NULL;
    bool         fits = w.even;
    for (int d = 0; d < w.ndim; d++)
        fits = fits && more[d] < w.stride[d];
    if (!fits)
        memset(w.before, 0, sizeof w.before);
    for (int d = 0; d < w.ndim && !fits; d++)
        if (more[d] >= w.stride[d])
            return haul__onnx_refuse(c, "output_padding that is not less than the stride");
    if (w.ndim == 1)
        y = haul_conv_transpose1d(x, weight, .bias = bias, .stride = w.stride[0], .padding = w.before[0],
                                  .output_padding = more[0], .dilation = w.dilation[0], .groups = w.groups);
    else if (w.ndim == 2)
        y = haul_conv_transpose2d(x, weight, .bias = bias, .stride = {w.stride[0], w.stride[1]},
                                  .padding = {padding_of(&w, 0), padding_of(&w, 1)},
                                  .output_padding = {more[0] ? more[0] : HAUL_ZERO, more[1] ? more[1] : HAUL_ZERO},
                                  .dilation = {w.dilation[0], w.dilation[1]}, .groups = w.groups);
    else
        y = haul_conv_transpose3d(x, weight, .bias = bias, .stride = {w.stride[0], w.stride[1], w.stride[2]},
                                  .padding = {padding_of(&w, 0), padding_of(&w, 1), padding_of(&w, 2)},
                                  .output_padding = {more[0] ? more[0] : HAUL_ZERO, more[1] ? more[1] : HAUL_ZERO,
                                                     more[2] ? more[2] : HAUL_ZERO},
                                  .dilation = {w.dilation[0], w.dilation[1], w.dilation[2]}, .groups = w.groups);
    return fits ? y : cut(y, &whole);
}

/* ---- pooling ---- */

static haul_tensor *pooled(haul_tensor *x, const window *w, bool average, bool exclude)
{
    if (w->ndim == 1) {
        const haul_pool1d_options o = {
            .size = w->size[0], .stride = w->stride[0], .padding = w->before[0], .exclude_padding = exclude && average};
        return average ? haul_avg_pool1d_with(x, &o) : haul_max_pool1d_with(x, &o);
    }
    if (w->ndim == 2) {
        const haul_pool2d_options o = {.size = w->size[0],
                                       .size_w = w->size[1],
                                       .stride = {w->stride[0], w->stride[1]},
                                       .padding = {padding_of(w, 0), padding_of(w, 1)},
                                       .exclude_padding = exclude && average};
        return average ? haul_avg_pool2d_with(x, &o) : haul_max_pool2d_with(x, &o);
    }
    const haul_pool3d_options o = {.size = w->size[0],
                                   .size_h = w->size[1],
                                   .size_w = w->size[2],
                                   .stride = {w->stride[0], w->stride[1], w->stride[2]},
                                   .padding = {padding_of(w, 0), padding_of(w, 1), padding_of(w, 2)},
                                   .exclude_padding = exclude && average};
    return average ? haul_avg_pool3d_with(x, &o) : haul_max_pool3d_with(x, &o);
}

/* ceil_mode: windows may go past the end by less than a stride, but none begins there. Returns whether something is
 * added. */
static bool add_for_ceil(window *w, const haul_shape *x)
{
    bool added = false;
    for (int d = 0; d < w->ndim; d++) {
        const int64_t n = x->dims[d + 2] + w->before[d] + w->after[d], rest = (n - w->size[d]) % w->stride[d];
        const int64_t begins = n - w->size[d] - rest + w->stride[d]; /* of the window that is cut */
        if (n < w->size[d] || !rest || begins >= x->dims[d + 2] + w->before[d])
            continue;
        w->after[d] += w->stride[d] - rest;
        w->even = false;
        added = true;
    }
    return added;
}

haul_tensor *haul__onnx_pool(haul__onnx_call *c)
{
    const bool   average = !strcmp(c->step->row->name, "AveragePool");
    const bool   include = haul__onnx_int(c, "count_include_pad", 0) != 0;
    haul_shape   shape = haul__onnx_shape(c, 0);
    window       w;
    bool         half = true, partial = false;
    haul_tensor *x = X(0);
    if (read_window(c, &w, NULL))
        return NULL;
    for (int d = 0; d < w.ndim; d++) {
        if (w.dilation[d] != 1)
            return haul__onnx_refuse(c, "dilations");
        half = half && w.before[d] <= w.size[d] / 2;
    }
    const window before = w;
    if (haul__onnx_int(c, "ceil_mode", 0))
        partial = add_for_ceil(&w, &shape);
    if (w.even && half)
        return pooled(x, &w, average, !include);
    if (!average)
        return pooled(pad_now(x, &w, -(double)INFINITY), &w, false, false);
    /* Each sum is divided by the number of elements that count: those of x, or those of x with its padding. */
    haul_tensor *ones = haul_ones_like(x);
    if (include && partial) {
        window inner = before, outer = w;
        for (int d = 0; d < w.ndim; d++) {
            outer.before[d] = 0;
            outer.after[d] -= inner.after[d];
        }
        int64_t lows[MOST + 2] = {0}, highs[MOST + 2] = {0};
        for (int d = 0; d < w.ndim; d++) {
            lows[d + 2] = inner.before[d];
            highs[d + 2] = inner.after[d];
        }
        ones = haul__onnx_pads(ones, w.ndim + 2, lows, highs, HAUL_PAD_CONSTANT, 1);
        ones = pad_now(ones, &outer, 0);
        x = pad_now(x, &w, 0);
        return haul_div(pooled(x, &w, true, false), pooled(ones, &w, true, false));
    }
    window same = w;
    x = pad_now(x, &w, 0);
    if (include)
        return pooled(x, &w, true, false);
    ones = pad_now(ones, &same, 0);
    return haul_div(pooled(x, &w, true, false), pooled(ones, &w, true, false));
}

haul_tensor *haul__onnx_global_pool(haul__onnx_call *c)
{
    const int           ndim = haul__onnx_shape(c, 0).ndim;
    haul_reduce_options o = {.x = X(0), .keepdim = true};
    if (ndim < 3)
        return haul__onnx_wrong(c, "the input has fewer than 3 dimensions");
    for (int d = 2; d < ndim; d++)
        o.haul__axes.axes[o.haul__axes.count++] = d;
    return c->step->row->use.reduce(&o);
}
