/* The attributes of windows, and convolutions, in one to three dimensions. */
#include <haul/conv.h>
#include <haul/dtype.h>
#include <haul/volume.h>
#include <string.h>

#include "base/assert.h"
#include "core/error.h"
#include "core/shape.h"
#include "core/tensor.h"
#include "onnx/families.h"
#include "onnx/window.h"

#define X(i) haul__onnx_x(c, i)

typedef haul__onnx_window window;

enum { MOST = HAUL__ONNX_WINDOW };

haul_status haul__onnx_window_list(haul__onnx_call *c, const char *name, int count, int64_t otherwise, int64_t *out)
{
    haul__onnx_list list;
    HAUL__ASSERT(0 < count && count <= 2 * MOST);
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
        HAUL__ASSERT(w->size[d] > 0 && w->stride[d] > 0 && w->dilation[d] > 0);
        const int64_t n = x->dims[d + 2], results = (n + w->stride[d] - 1) / w->stride[d];
        const int64_t reach = (results - 1) * w->stride[d] + w->dilation[d] * (w->size[d] - 1) + 1;
        const int64_t all = reach > n ? reach - n : 0;
        w->before[d] = lower ? all - all / 2 : all / 2;
        w->after[d] = all - w->before[d];
    }
}

haul_status haul__onnx_read_window(haul__onnx_call *c, window *w, const int64_t *size)
{
    const haul_shape x = haul__onnx_shape(c, 0);
    const char      *automatic = haul__onnx_string(c, "auto_pad", "NOTSET");
    int64_t          pads[2 * MOST];
    *w = (window){.ndim = x.ndim - 2, .groups = haul__onnx_int(c, "group", 1), .even = true};
    if (w->ndim < 1 || w->ndim > MOST)
        return haul__onnx_refuse(c, "this number of dimensions"), haul_error_status();
    if (size)
        memcpy(w->size, size, (size_t)w->ndim * sizeof *size);
    else if (haul__onnx_window_list(c, "kernel_shape", w->ndim, 1, w->size))
        return haul_error_status();
    if (haul__onnx_window_list(c, "strides", w->ndim, 1, w->stride) ||
        haul__onnx_window_list(c, "dilations", w->ndim, 1, w->dilation) ||
        haul__onnx_window_list(c, "pads", 2 * w->ndim, 0, pads))
        return haul_error_status();
    for (int d = 0; d < w->ndim; d++) {
        if (w->size[d] < 1 || w->stride[d] < 1 || w->dilation[d] < 1)
            return haul__onnx_wrong(c, "a size, stride or dilation is 0"), haul_error_status();
        w->before[d] = pads[d];
        w->after[d] = pads[w->ndim + d];
    }
    if (!strncmp(automatic, "SAME", 4))
        pad_same(w, &x, !strcmp(automatic, "SAME_LOWER"));
    for (int d = 0; d < w->ndim; d++) {
        HAUL__ASSERT(w->before[d] >= 0 && w->after[d] >= 0);
        w->even = w->even && w->before[d] == w->after[d];
    }
    return HAUL_OK;
}

haul_tensor *haul__onnx_pad_window(haul_tensor *x, window *w, double value)
{
    int64_t before[MOST + 2] = {0}, after[MOST + 2] = {0};
    HAUL__ASSERT(w->ndim <= MOST);
    for (int d = 0; d < w->ndim; d++) {
        before[d + 2] = w->before[d];
        after[d + 2] = w->after[d];
        w->before[d] = w->after[d] = 0;
    }
    w->even = true;
    return haul__onnx_pads(x, w->ndim + 2, before, after, HAUL_PAD_CONSTANT, value);
}

int64_t haul__onnx_padding(const window *w, int d)
{
    HAUL__ASSERT(0 <= d && d < MOST);
    return w->before[d] ? w->before[d] : (int64_t)HAUL_ZERO;
}

/* ---- convolutions ---- */

static const int64_t *kernel_of(haul__onnx_call *c, int i, haul_shape *weight)
{
    *weight = haul__onnx_shape(c, i);
    return weight->ndim == haul__onnx_shape(c, 0).ndim && weight->ndim > 2 ? weight->dims + 2 : NULL;
}

haul_tensor *haul__onnx_convolve(haul__onnx_call *c, haul_tensor *x, int i, haul_tensor *weight, haul_tensor *bias)
{
    window         w;
    haul_shape     shape;
    const int64_t *size = kernel_of(c, i, &shape);
    if (!size)
        return haul__onnx_wrong(c, "the weight has another number of dimensions");
    if (haul__onnx_read_window(c, &w, size))
        return NULL;
    if (!w.even)
        x = haul__onnx_pad_window(x, &w, 0);
    HAUL__ASSERT(w.even && 1 <= w.ndim && w.ndim <= MOST);
    if (w.ndim == 1)
        return haul_conv1d(x, weight, .bias = bias, .stride = w.stride[0], .padding = w.before[0],
                           .dilation = w.dilation[0], .groups = w.groups);
    if (w.ndim == 2)
        return haul_conv2d(x, weight, .bias = bias, .stride = {w.stride[0], w.stride[1]},
                           .padding = {haul__onnx_padding(&w, 0), haul__onnx_padding(&w, 1)},
                           .dilation = {w.dilation[0], w.dilation[1]}, .groups = w.groups);
    return haul_conv3d(x, weight, .bias = bias, .stride = {w.stride[0], w.stride[1], w.stride[2]},
                       .padding = {haul__onnx_padding(&w, 0), haul__onnx_padding(&w, 1), haul__onnx_padding(&w, 2)},
                       .dilation = {w.dilation[0], w.dilation[1], w.dilation[2]}, .groups = w.groups);
}

haul_tensor *haul__onnx_conv(haul__onnx_call *c)
{
    return haul__onnx_convolve(c, X(0), 1, X(1), haul__onnx_has(c, 2) ? X(2) : NULL);
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

/* Padding that gives a result of these sizes; an odd element goes to the start, but with SAME_UPPER to the end. A
 * larger result has more at its end. */
static haul_status pad_to(haul__onnx_call *c, window *w, const int64_t *sizes, int64_t *more, bool upper)
{
    const haul_shape x = haul__onnx_shape(c, 0);
    w->even = true;
    for (int d = 0; d < w->ndim; d++) {
        if (sizes[d] < 1 || sizes[d] > INT32_MAX || x.dims[d + 2] > INT32_MAX || w->size[d] > INT32_MAX)
            return haul__onnx_wrong(c, "a size of output_shape or auto_pad is out of range"), haul_error_status();
        const int64_t whole = w->stride[d] * (x.dims[d + 2] - 1) + more[d] + w->dilation[d] * (w->size[d] - 1) + 1;
        const int64_t all = whole > sizes[d] ? whole - sizes[d] : 0;
        more[d] += whole < sizes[d] ? sizes[d] - whole : 0;
        w->before[d] = upper ? all / 2 : all - all / 2;
        w->after[d] = all - w->before[d];
        w->even = w->even && w->before[d] == w->after[d];
    }
    return HAUL_OK;
}

/* The padding that output_shape or auto_pad asks for, if they are given. */
static haul_status pad_result(haul__onnx_call *c, window *w, int64_t *more)
{
    const haul_shape x = haul__onnx_shape(c, 0);
    const char      *automatic = haul__onnx_string(c, "auto_pad", "NOTSET");
    const bool       upper = !strcmp(automatic, "SAME_UPPER"), same = !strncmp(automatic, "SAME", 4);
    haul__onnx_list  sizes;
    int64_t          strided[MOST];
    if (haul__onnx_ints(c, "output_shape", &sizes))
        return haul_error_status();
    if (sizes.given && sizes.count != w->ndim)
        return haul__onnx_wrong(c, "output_shape has another number of axes"), haul_error_status();
    for (int d = 0; d < w->ndim; d++)
        if (!haul__mul_size(x.dims[d + 2], w->stride[d], &strided[d]))
            return haul__onnx_wrong(c, "the strides are too large"), haul_error_status();
    return sizes.given || same ? pad_to(c, w, sizes.given ? sizes.items : strided, more, upper) : HAUL_OK;
}

haul_tensor *haul__onnx_conv_transpose(haul__onnx_call *c)
{
    window         w;
    haul_shape     shape;
    int64_t        more[MOST];
    const int64_t *size = kernel_of(c, 1, &shape);
    if (!size)
        return haul__onnx_wrong(c, "the weight has another number of dimensions");
    if (haul__onnx_read_window(c, &w, size) || haul__onnx_window_list(c, "output_padding", w.ndim, 0, more) ||
        pad_result(c, &w, more))
        return NULL;
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
                                  .padding = {haul__onnx_padding(&w, 0), haul__onnx_padding(&w, 1)},
                                  .output_padding = {more[0] ? more[0] : HAUL_ZERO, more[1] ? more[1] : HAUL_ZERO},
                                  .dilation = {w.dilation[0], w.dilation[1]}, .groups = w.groups);
    else
        y = haul_conv_transpose3d(
            x, weight, .bias = bias, .stride = {w.stride[0], w.stride[1], w.stride[2]},
            .padding = {haul__onnx_padding(&w, 0), haul__onnx_padding(&w, 1), haul__onnx_padding(&w, 2)},
            .output_padding = {more[0] ? more[0] : HAUL_ZERO, more[1] ? more[1] : HAUL_ZERO,
                               more[2] ? more[2] : HAUL_ZERO},
            .dilation = {w.dilation[0], w.dilation[1], w.dilation[2]}, .groups = w.groups);
    return fits ? y : cut(y, &whole);
}
