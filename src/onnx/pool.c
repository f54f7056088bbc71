/* Pooling, in one to three dimensions. */
#include <haul/channels.h>
#include <haul/conv.h>
#include <haul/dtype.h>
#include <haul/transfer.h>
#include <haul/volume.h>
#include <math.h>
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

static haul_pool1d_options options1(const window *w)
{
    return (haul_pool1d_options){
        .size = w->size[0], .stride = w->stride[0], .padding = w->before[0], .dilation = w->dilation[0]};
}

static haul_pool2d_options options2(const window *w)
{
    return (haul_pool2d_options){.size = w->size[0],
                                 .size_w = w->size[1],
                                 .stride = {w->stride[0], w->stride[1]},
                                 .padding = {haul__onnx_padding(w, 0), haul__onnx_padding(w, 1)},
                                 .dilation = {w->dilation[0], w->dilation[1]}};
}

static haul_pool3d_options options3(const window *w)
{
    return (haul_pool3d_options){
        .size = w->size[0],
        .size_h = w->size[1],
        .size_w = w->size[2],
        .stride = {w->stride[0], w->stride[1], w->stride[2]},
        .padding = {haul__onnx_padding(w, 0), haul__onnx_padding(w, 1), haul__onnx_padding(w, 2)},
        .dilation = {w->dilation[0], w->dilation[1], w->dilation[2]}};
}

static haul_tensor *largest(haul_tensor *x, const window *w)
{
    const haul_pool1d_options o1 = options1(w);
    const haul_pool2d_options o2 = options2(w);
    const haul_pool3d_options o3 = options3(w);
    return w->ndim == 1   ? haul_max_pool1d_with(x, &o1)
           : w->ndim == 2 ? haul_max_pool2d_with(x, &o2)
                          : haul_max_pool3d_with(x, &o3);
}

static bool is_dilated(const window *w)
{
    for (int d = 0; d < w->ndim; d++)
        if (w->dilation[d] != 1)
            return true;
    return false;
}

/* The means of a window without dilation. */
static haul_tensor *means(haul_tensor *x, const window *w, bool exclude)
{
    haul_pool1d_options o1 = options1(w);
    haul_pool2d_options o2 = options2(w);
    haul_pool3d_options o3 = options3(w);
    o1.exclude_padding = o2.exclude_padding = o3.exclude_padding = exclude;
    o1.dilation = 0;
    memset(o2.dilation, 0, sizeof o2.dilation);
    memset(o3.dilation, 0, sizeof o3.dilation);
    return w->ndim == 1   ? haul_avg_pool1d_with(x, &o1)
           : w->ndim == 2 ? haul_avg_pool2d_with(x, &o2)
                          : haul_avg_pool3d_with(x, &o3);
}

/* From the first element of a window to the last. */
static int64_t reach(const window *w, int d)
{
    return w->dilation[d] * (w->size[d] - 1) + 1;
}

/* ceil_mode: windows may go past the end by less than a stride, but none begins there. */
static void add_for_ceil(window *w, const haul_shape *x)
{
    for (int d = 0; d < w->ndim; d++) {
        HAUL__ASSERT(w->size[d] > 0 && w->stride[d] > 0);
        const int64_t n = x->dims[d + 2] + w->before[d] + w->after[d], rest = (n - reach(w, d)) % w->stride[d];
        const int64_t begins = n - reach(w, d) - rest + w->stride[d]; /* of the window that is cut */
        if (n < reach(w, d) || !rest || begins >= x->dims[d + 2] + w->before[d])
            continue;
        w->after[d] += w->stride[d] - rest;
        w->even = false;
    }
}

/* The sum of each window of a padded x, one axis after the other. */
static haul_tensor *sums(haul_tensor *x, const window *w)
{
    for (int d = 0; d < w->ndim; d++) {
        HAUL__ASSERT(w->size[d] > 0 && w->stride[d] > 0);
        const int64_t n = haul__failed(x) ? 0 : haul_tensor_shape(x).dims[d + 2],
                      count = (n - reach(w, d)) / w->stride[d];
        haul_tensor *y = NULL;
        if (haul__failed(x) || n < reach(w, d))
            return haul__failed(x) ? x : haul_slice(x, d + 2, 0, 0, 1);
        for (int64_t k = 0; k < w->size[d]; k++) {
            const int64_t first = k * w->dilation[d];
            haul_tensor  *part = haul_slice(x, d + 2, first, first + count * w->stride[d] + 1, w->stride[d]);
            y = y ? haul_add(y, part) : part;
        }
        x = y;
    }
    return x;
}

/* 1 at the elements that count, as x with all of its padding: those of x, or those of x and the padding that the node
 * asks for. */
static haul_tensor *counted(haul_tensor *x, const window *asked, const window *all, bool include)
{
    window       inner = *asked, outer = *all;
    haul_tensor *ones = haul_ones_like(x);
    if (!include)
        return haul__onnx_pad_window(ones, &outer, 0);
    for (int d = 0; d < all->ndim; d++) {
        outer.before[d] = 0;
        outer.after[d] -= inner.after[d];
    }
    return haul__onnx_pad_window(haul__onnx_pad_window(ones, &inner, 1), &outer, 0);
}

static haul_tensor *average(haul_tensor *x, const window *asked, window w, bool include, bool fits)
{
    const bool dilated = is_dilated(&w);
    if (fits && !dilated)
        return means(x, &w, !include);
    haul_tensor *ones = counted(x, asked, &w, include);
    x = haul__onnx_pad_window(x, &w, 0);
    return dilated ? haul_div(sums(x, &w), sums(ones, &w)) : haul_div(means(x, &w, false), means(ones, &w, false));
}

/* ---- maxima with their places ---- */

static haul_status with_places(haul_tensor *x, const window *w, bool ceil_mode, haul_tensor **y, haul_tensor **places)
{
    haul_pool1d_options o1 = options1(w);
    haul_pool2d_options o2 = options2(w);
    haul_pool3d_options o3 = options3(w);
    o1.ceil_mode = o2.ceil_mode = o3.ceil_mode = ceil_mode;
    return w->ndim == 1   ? haul_max_pool1d_indices_with(x, y, places, &o1)
           : w->ndim == 2 ? haul_max_pool2d_indices_with(x, y, places, &o2)
                          : haul_max_pool3d_indices_with(x, y, places, &o3);
}

/* Haul counts within a picture, ONNX within the whole tensor; storage_order 1 counts columns first. */
static haul_tensor *places_of(haul__onnx_call *c, const haul_shape *x, haul_tensor *places)
{
    int64_t plane = 1;
    for (int d = 2; d < x->ndim; d++)
        plane *= x->dims[d];
    if (haul__onnx_int(c, "storage_order", 0)) {
        if (x->ndim != 4)
            return haul__result(haul__onnx_refuse(c, "storage_order for this number of dimensions"));
        const double width = (double)x->dims[3], height = (double)x->dims[2];
        places = haul_add(haul_mul_scalar(haul_remainder_scalar(places, width), height),
                          haul_floor_div_scalar(places, width));
    }
    haul_shape line = {.ndim = x->ndim, .dims = {x->dims[0], x->dims[1], 1, 1, 1}};
    return haul_add(places, haul_reshape(haul_arange_i64(0, x->dims[0] * x->dims[1] * plane, plane ? plane : 1), line));
}

/* True if no padding is wider than half of the window, which is as much as Haul's pooling takes. */
static bool is_half_padded(const window *w)
{
    bool half = true;
    for (int d = 0; d < w->ndim; d++)
        half = half && w->before[d] <= w->size[d] / 2;
    return half;
}

haul_tensor *haul__onnx_max_pool(haul__onnx_call *c)
{
    const bool       ceil_mode = haul__onnx_int(c, "ceil_mode", 0) != 0;
    const haul_shape shape = haul__onnx_shape(c, 0);
    const haul_dtype dtype = haul__onnx_type(c, 0);
    window           w;
    if (haul__onnx_read_window(c, &w, NULL))
        return NULL;
    const bool   half = is_half_padded(&w);
    haul_tensor *x = haul_dtype_is_float(dtype) ? X(0) : haul_cast(X(0), HAUL_F32); /* of 8 bits */
    if (c->step->output_count > 1 && c->step->outputs[1] >= 0) {
        haul_tensor *y = NULL, *places = NULL;
        if (!w.even || !half)
            return haul__onnx_refuse(c, "indices with uneven or wide padding");
        if (with_places(x, &w, ceil_mode, &y, &places))
            return NULL;
        c->y[1] = places_of(c, &shape, places);
        return haul_cast(y, dtype);
    }
    if (ceil_mode)
        add_for_ceil(&w, &shape);
    if (!w.even || !half)
        x = haul__onnx_pad_window(x, &w, -(double)INFINITY);
    return haul_cast(largest(x, &w), dtype);
}

/* The elements go where they were in the input that kernel_shape, strides and pads of the pooling imply; output_shape
 * adds zeros behind it. */
haul_tensor *haul__onnx_max_unpool(haul__onnx_call *c)
{
    const haul_shape     x = haul__onnx_shape(c, 0);
    const haul__numbers *wanted = haul__onnx_has(c, 2) ? haul__onnx_numbers(c, 2) : NULL;
    int64_t              none[HAUL_MAX_DIMS] = {0}, more[HAUL_MAX_DIMS] = {0}, n[MOST] = {1, 1, 1}, plane = 1;
    window               w;
    if ((haul__onnx_has(c, 2) && !wanted) || haul__onnx_read_window(c, &w, NULL))
        return NULL;
    if (wanted && wanted->count != x.ndim)
        return haul__onnx_wrong(c, "output_shape has another number of axes");
    for (int d = 0; d < w.ndim; d++) {
        if (x.dims[d + 2] < 1 || x.dims[d + 2] > INT32_MAX)
            return haul__onnx_wrong(c, "a size of the input is out of range");
        n[d] = (x.dims[d + 2] - 1) * w.stride[d] + w.size[d] - w.before[d] - w.after[d];
        more[d + 2] = wanted ? wanted->items[d + 2].i - n[d] : 0;
        if (n[d] < 1 || n[d] > INT32_MAX || more[d + 2] < 0 || !haul__mul_size(plane, n[d], &plane))
            return haul__onnx_wrong(c, "output_shape or the padding is out of range");
    }
    haul_tensor *places = haul_remainder(X(1), haul_full(HAUL_I64, (haul_shape){.ndim = 0}, (double)plane));
    haul_tensor *y = w.ndim == 1   ? haul_max_unpool1d(X(0), places, n[0])
                     : w.ndim == 2 ? haul_max_unpool2d(X(0), places, n[0], n[1])
                                   : haul_max_unpool3d(X(0), places, n[0], n[1], n[2]);
    return haul__onnx_pads(y, x.ndim, none, more, HAUL_PAD_CONSTANT, 0);
}

/* ---- means and norms ---- */

haul_tensor *haul__onnx_average_pool(haul__onnx_call *c)
{
    const bool       include = haul__onnx_int(c, "count_include_pad", 0) != 0;
    const haul_shape shape = haul__onnx_shape(c, 0);
    window           w;
    if (haul__onnx_read_window(c, &w, NULL))
        return NULL;
    const bool   half = is_half_padded(&w);
    const window asked = w;
    if (haul__onnx_int(c, "ceil_mode", 0))
        add_for_ceil(&w, &shape);
    return average(X(0), &asked, w, include, w.even && half);
}

haul_tensor *haul__onnx_lp_pool(haul__onnx_call *c)
{
    const haul_shape shape = haul__onnx_shape(c, 0);
    const int64_t    p = haul__onnx_int(c, "p", 2);
    window           w;
    if (p < 1)
        return haul__onnx_wrong(c, "p is not positive");
    if (haul__onnx_read_window(c, &w, NULL))
        return NULL;
    if (haul__onnx_int(c, "ceil_mode", 0))
        add_for_ceil(&w, &shape);
    haul_tensor *x = haul__onnx_pad_window(X(0), &w, 0);
    x = p == 1 ? haul_abs(x) : p == 2 ? haul_square(x) : haul_pow_scalar(haul_abs(x), (double)p);
    x = sums(x, &w);
    return p == 1 ? x : p == 2 ? haul_sqrt(x) : haul_pow_scalar(x, 1 / (double)p);
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
