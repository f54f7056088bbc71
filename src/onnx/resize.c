/* Resize where haul_interpolate has no form for it: along one axis after the other, with the elements that a result is
 * made of, and their factors, computed on the host. */
#include <haul/dtype.h>
#include <haul/elementwise.h>
#include <haul/indexing.h>
#include <haul/transfer.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "core/error.h"
#include "core/shape.h"
#include "core/tensor.h"
#include "onnx/families.h"
#include "onnx/run.h"

#define X(i) haul__onnx_x(c, i)

enum { MOST_FACTORS = 1 << 24, MOST_RESULTS = 1 << 20 };

typedef enum place { HALF_PIXEL, HALF_PIXEL_SYMMETRIC, PYTORCH_HALF_PIXEL, ALIGN_CORNERS, ASYMMETRIC, CROP } place;
typedef enum kernel { NEAREST, LINEAR, CUBIC } kernel;
typedef enum rounding { PREFER_FLOOR, PREFER_CEIL, FLOOR, CEIL } rounding;

typedef struct resizing {
    place    place;
    kernel   kernel;
    rounding rounding;
    double   a, outside; /* the coefficient of cubic; the value outside of a crop */
    bool     exclude, antialias;
} resizing;

/* An axis: n elements become m. */
typedef struct line {
    int64_t n, m;
    double  scale, start, stop; /* start and stop: of a crop, in parts of the axis */
} line;

static int find(const char *name, const char *const *names, int count)
{
    for (int i = 0; i < count; i++)
        if (!strcmp(name, names[i]))
            return i;
    return -1;
}

static bool read_settings(haul__onnx_call *c, resizing *r)
{
    static const char *const places[] = {"half_pixel",    "half_pixel_symmetric", "pytorch_half_pixel",
                                         "align_corners", "asymmetric",           "tf_crop_and_resize"};
    static const char *const kernels[] = {"nearest", "linear", "cubic"};
    static const char *const roundings[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"};
    const bool               old = c->opset < 11;
    const int                at =
        find(haul__onnx_string(c, "coordinate_transformation_mode", old ? "asymmetric" : "half_pixel"), places, 6);
    const int mode = find(haul__onnx_string(c, "mode", "nearest"), kernels, 3);
    const int near = find(haul__onnx_string(c, "nearest_mode", old ? "floor" : "round_prefer_floor"), roundings, 4);
    if (at < 0 || mode < 0 || near < 0)
        return false;
    *r = (resizing){.place = (place)at,
                    .kernel = (kernel)mode,
                    .rounding = (rounding)near,
                    .a = haul__onnx_float(c, "cubic_coeff_a", -0.75),
                    .outside = haul__onnx_float(c, "extrapolation_value", 0),
                    .exclude = haul__onnx_int(c, "exclude_outside", 0) != 0,
                    .antialias = haul__onnx_int(c, "antialias", 0) != 0};
    return true;
}

/* Where result i is among the elements. */
static double position(const resizing *r, const line *l, int64_t i)
{
    const double n = (double)l->n, m = (double)l->n * l->scale, x = (double)i;
    switch (r->place) {
    case ALIGN_CORNERS: return m == 1 ? 0 : x * (n - 1) / (m - 1);
    case ASYMMETRIC: return x / l->scale;
    case PYTORCH_HALF_PIXEL: return m == 1 ? -0.5 : (x + 0.5) / l->scale - 0.5;
    case HALF_PIXEL_SYMMETRIC: return n / 2 * (1 - (double)l->m / m) + (x + 0.5) / l->scale - 0.5;
    case CROP:
        return l->start * (n - 1) +
               (m == 1 ? (l->stop - l->start) * (n - 1) / 2 : x * (l->stop - l->start) * (n - 1) / (m - 1));
    default: return (x + 0.5) / l->scale - 0.5;
    }
}

static bool is_outside(const resizing *r, const line *l, double at)
{
    return r->place == CROP && !(at >= 0 && at <= (double)(l->n - 1));
}

static int64_t clamped(double at, int64_t n)
{
    HAUL__ASSERT(n > 0);
    return at > 0 ? at < (double)(n - 1) ? (int64_t)at : n - 1 : 0;
}

static int64_t nearest(const resizing *r, const line *l, double at)
{
    return clamped(r->rounding == FLOOR         ? floor(at)
                   : r->rounding == CEIL        ? ceil(at)
                   : r->rounding == PREFER_CEIL ? floor(at + 0.5)
                                                : ceil(at - 0.5),
                   l->n);
}

static double weigh(const resizing *r, double distance)
{
    const double x = fabs(distance), a = r->a;
    if (r->kernel == LINEAR)
        return x < 1 ? 1 - x : 0;
    return x <= 1 ? ((a + 2) * x - (a + 3)) * x * x + 1 : x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

/* The factors of the n elements for the result at a position. Elements beyond the ends have the value of the last. */
static void weigh_all(const resizing *r, const line *l, double at, double *row)
{
    const double slope = r->antialias && l->scale < 1 ? l->scale : 1, reach = (r->kernel == LINEAR ? 1 : 2) / slope;
    double       sum = 0;
    at = at > -1e9 ? at < 1e9 ? at : 1e9 : -1e9;
    for (double k = ceil(at - reach); k <= floor(at + reach); k++) {
        const double w = weigh(r, (k - at) * slope);
        if (r->exclude && (k < 0 || k > (double)(l->n - 1)))
            continue;
        row[clamped(k, l->n)] += w;
        sum += w;
    }
    for (int64_t i = 0; i < l->n && sum != 0; i++)
        row[i] /= sum;
}

/* 1 where a result is inside of the crop, along an axis. */
static haul_tensor *inside(const resizing *r, const line *l, int ndim, int axis)
{
    haul_shape     shape = {.ndim = ndim};
    unsigned char *marks = haul__calloc((size_t)l->m, 1);
    bool           all = true;
    if (!marks)
        return haul__fail_memory(HAUL__ONNX_CALL, (size_t)l->m), haul__result(NULL);
    HAUL__ASSERT(0 <= axis && axis < ndim);
    for (int d = 0; d < ndim; d++)
        shape.dims[d] = d == axis ? l->m : 1;
    for (int64_t i = 0; i < l->m; i++) {
        marks[i] = !is_outside(r, l, position(r, l, i));
        all = all && marks[i];
    }
    haul_tensor *t = all ? NULL : haul_from_host(HAUL_BOOL, shape, marks);
    haul__free(marks);
    return t;
}

static haul_tensor *pick(const resizing *r, const line *l, haul_tensor *x, int axis)
{
    int64_t *places = haul__calloc((size_t)l->m, sizeof *places);
    if (!places)
        return haul__fail_memory(HAUL__ONNX_CALL, (size_t)l->m * sizeof *places), haul__result(NULL);
    for (int64_t i = 0; i < l->m; i++)
        places[i] = nearest(r, l, position(r, l, i));
    haul_tensor *index = haul_from_host(HAUL_I64, HAUL_SHAPE(l->m), places);
    haul__free(places);
    return haul_index_select(x, axis, index);
}

static haul_tensor *mix(const resizing *r, const line *l, haul_tensor *x, int ndim, int axis)
{
    const size_t size = (size_t)(l->m * l->n);
    double      *factors = haul__calloc(size, sizeof *factors);
    if (!factors)
        return haul__fail_memory(HAUL__ONNX_CALL, size * sizeof *factors), haul__result(NULL);
    for (int64_t i = 0; i < l->m; i++)
        weigh_all(r, l, position(r, l, i), factors + i * l->n);
    haul_tensor *matrix = haul_cast(haul_from_host(HAUL_F64, HAUL_SHAPE(l->m, l->n), factors), haul_tensor_dtype(x));
    haul__free(factors);
    const int last = ndim - 1;
    return haul_transpose(haul_linear(haul_transpose(x, axis, last), matrix, .bias = NULL), axis, last);
}

static haul_tensor *along(haul__onnx_call *c, const resizing *r, const line *l, haul_tensor *x, int ndim, int axis)
{
    int64_t factors;
    if (l->n < 1 || l->m < 1 || l->m > MOST_RESULTS || !haul__mul_size(l->n, l->m, &factors) ||
        (r->kernel != NEAREST && factors > MOST_FACTORS))
        return haul__result(haul__onnx_refuse(c, "these sizes"));
    haul_tensor *y = r->kernel == NEAREST ? pick(r, l, x, axis) : mix(r, l, x, ndim, axis);
    haul_tensor *mask = r->place == CROP ? inside(r, l, ndim, axis) : NULL;
    return mask ? haul_where_scalar(mask, y, r->outside) : y;
}

/* ---- sizes ---- */

/* Sizes that keep the ratio: one factor for all axes, the smallest or the largest. */
static haul_status keep_ratio(haul__onnx_call *c, line *lines, const int *axes, int count)
{
    const char *policy = haul__onnx_string(c, "keep_aspect_ratio_policy", "stretch");
    double      scale = 0;
    if (!strcmp(policy, "stretch"))
        return HAUL_OK;
    if (strcmp(policy, "not_larger") != 0 && strcmp(policy, "not_smaller") != 0)
        return haul__onnx_refuse(c, "this keep_aspect_ratio_policy"), haul_error_status();
    for (int i = 0; i < count; i++) {
        const double s = lines[axes[i]].scale;
        scale = !i || (strcmp(policy, "not_larger") ? s > scale : s < scale) ? s : scale;
    }
    for (int i = 0; i < count; i++) {
        line *l = &lines[axes[i]];
        if (!(scale * (double)l->n < 1e9))
            return haul__onnx_refuse(c, "these sizes"), haul_error_status();
        l->scale = scale;
        l->m = (int64_t)floor(scale * (double)l->n + 0.5);
    }
    return HAUL_OK;
}

static haul_status read_axes(haul__onnx_call *c, int ndim, int64_t numbers, int *axes)
{
    haul__onnx_list list;
    if (haul__onnx_ints(c, "axes", &list))
        return haul_error_status();
    if (numbers != (list.given ? list.count : ndim) || numbers > ndim)
        return haul__onnx_wrong(c, "there is another number of sizes or scales than of axes"), haul_error_status();
    for (int i = 0; i < (int)numbers; i++)
        if (haul__onnx_axis(c, list.given ? list.items[i] : i, ndim, &axes[i]))
            return haul_error_status();
    return HAUL_OK;
}

static haul_status read_crop(haul__onnx_call *c, line *lines, const int *axes, int count)
{
    const haul__numbers *roi = haul__onnx_has(c, 1) ? haul__onnx_numbers(c, 1) : NULL;
    if (!roi || roi->count != 2 * count)
        return haul__onnx_wrong(c, "roi must have a start and an end for each axis"), haul_error_status();
    for (int i = 0; i < count; i++) {
        lines[axes[i]].start = roi->items[i].f;
        lines[axes[i]].stop = roi->items[count + i].f;
    }
    return HAUL_OK;
}

haul_tensor *haul__onnx_resample(haul__onnx_call *c, const haul__numbers *given, bool sizes)
{
    const haul_shape x = haul__onnx_shape(c, 0);
    const haul_dtype dtype = haul__onnx_type(c, 0);
    line             lines[HAUL_MAX_DIMS];
    resizing         r;
    int              axes[HAUL_MAX_DIMS];
    if (!read_settings(c, &r))
        return haul__onnx_refuse(c, "this mode");
    if (read_axes(c, x.ndim, given->count, axes))
        return NULL;
    for (int d = 0; d < x.ndim; d++)
        lines[d] = (line){.n = x.dims[d], .m = x.dims[d], .scale = 1, .start = 0, .stop = 1};
    for (int i = 0; i < (int)given->count; i++) {
        line        *l = &lines[axes[i]];
        const double n = (double)l->n;
        l->scale = sizes ? (double)given->items[i].i / n : given->items[i].f;
        if (!(l->scale > 0 && l->scale * n < 1e9 && n > 0))
            return haul__onnx_wrong(c, "a size or a scale is not positive, or too large");
        l->m = sizes ? given->items[i].i : (int64_t)floor(n * l->scale);
    }
    if (sizes && keep_ratio(c, lines, axes, (int)given->count))
        return NULL;
    if (r.place == CROP && read_crop(c, lines, axes, (int)given->count))
        return NULL;
    haul_tensor *y = X(0);
    if (!haul_dtype_is_float(dtype) && r.kernel != NEAREST)
        y = haul_cast(y, HAUL_F64);
    for (int d = 0; d < x.ndim; d++)
        if (lines[d].scale != 1 || lines[d].m != lines[d].n || lines[d].start != 0 || lines[d].stop != 1)
            y = along(c, &r, &lines[d], y, x.ndim, d);
    return haul_dtype_is_float(dtype) || r.kernel == NEAREST ? y : haul_cast(haul_round(y), dtype);
}
