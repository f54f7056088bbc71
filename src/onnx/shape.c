/* Operators that change shapes, cut and join. */
#include <haul/dtype.h>
#include <haul/transfer.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "core/error.h"
#include "core/shape.h"
#include "core/tensor.h"
#include "onnx/families.h"
#include "onnx/run.h"

#define X(i) haul__onnx_x(c, i)

/* ---- the same elements in another shape ---- */

haul_status haul__onnx_reshaped(haul__onnx_call *c, const haul_shape *x, const haul__numbers *sizes, bool literal,
                                haul_shape *out)
{
    int64_t count = 1, known = 1;
    int     open = -1;
    if (sizes->count > HAUL_MAX_DIMS)
        return haul__onnx_refuse(c, "more than 8 dimensions"), haul_error_status();
    *out = (haul_shape){.ndim = (int)sizes->count};
    for (int d = 0; d < x->ndim; d++)
        count *= x->dims[d];
    for (int d = 0; d < out->ndim; d++) {
        int64_t size = sizes->items[d].i;
        if (size == 0 && !literal && d < x->ndim)
            size = x->dims[d];
        if (size < -1 || (size == -1 && open >= 0) || (size >= 0 && !haul__mul_size(known, size, &known)))
            return haul__onnx_wrong(c, "the shape is wrong"), haul_error_status();
        open = size == -1 ? d : open;
        out->dims[d] = size;
    }
    HAUL__ASSERT(open < out->ndim && known >= 0);
    if (open >= 0)
        out->dims[open] = known ? count / known : 0;
    return HAUL_OK;
}

haul_tensor *haul__onnx_reshape(haul__onnx_call *c)
{
    const haul__numbers *sizes = haul__onnx_numbers(c, 1);
    const haul_shape     from = haul__onnx_shape(c, 0);
    haul_shape           shape;
    if (!sizes || haul__onnx_reshaped(c, &from, sizes, haul__onnx_int(c, "allowzero", 0) != 0, &shape))
        return NULL;
    return haul_reshape(X(0), shape);
}

haul_tensor *haul__onnx_flatten(haul__onnx_call *c)
{
    const haul_shape x = haul__onnx_shape(c, 0);
    const int64_t    axis = haul__onnx_int(c, "axis", 1);
    haul_shape       shape = {.ndim = 2, .dims = {1, 1}};
    const int64_t    first = axis < 0 ? axis + x.ndim : axis;
    if (first < 0 || first > x.ndim)
        return haul__onnx_wrong(c, "an axis is out of range");
    for (int d = 0; d < x.ndim; d++)
        shape.dims[d >= first] *= x.dims[d];
    return haul_reshape(X(0), shape);
}

haul_tensor *haul__onnx_transpose(haul__onnx_call *c)
{
    haul_tensor    *x = X(0);
    haul__onnx_list perm;
    int             axes[HAUL_MAX_DIMS];
    const int       ndim = haul__onnx_shape(c, 0).ndim;
    if (haul__onnx_ints(c, "perm", &perm))
        return NULL;
    if (perm.given && perm.count != ndim)
        return haul__onnx_wrong(c, "perm has another number of axes");
    for (int d = 0; d < ndim; d++)
        if (haul__onnx_axis(c, perm.given ? perm.items[d] : ndim - 1 - d, ndim, &axes[d]))
            return NULL;
    return haul_permute(x, axes, ndim);
}

haul_tensor *haul__onnx_squeeze(haul__onnx_call *c)
{
    haul_tensor     *x = X(0);
    const haul_shape shape = haul__onnx_shape(c, 0);
    haul__onnx_list  axes;
    bool             gone[HAUL_MAX_DIMS] = {false};
    int              axis;
    if (haul__onnx_ints_or_input(c, "axes", 1, 13, &axes))
        return NULL;
    for (int i = 0; i < axes.count; i++) {
        if (haul__onnx_axis(c, axes.items[i], shape.ndim, &axis))
            return NULL;
        gone[axis] = true;
    }
    for (int d = shape.ndim; d-- > 0;)
        if (axes.given ? gone[d] : shape.dims[d] == 1)
            x = haul_squeeze(x, d);
    return x;
}

haul_tensor *haul__onnx_unsqueeze(haul__onnx_call *c)
{
    haul_tensor    *x = X(0);
    haul__onnx_list axes;
    const int       ndim = haul__onnx_shape(c, 0).ndim;
    bool            added[2 * HAUL_MAX_DIMS] = {false};
    int             axis;
    if (haul__onnx_ints_or_input(c, "axes", 1, 13, &axes))
        return NULL;
    if (ndim + axes.count > HAUL_MAX_DIMS)
        return haul__onnx_refuse(c, "more than 8 dimensions");
    for (int i = 0; i < axes.count; i++) {
        if (haul__onnx_axis(c, axes.items[i], ndim + axes.count, &axis))
            return NULL;
        if (added[axis])
            return haul__onnx_wrong(c, "an axis is given twice");
        added[axis] = true;
    }
    for (int d = 0; d < ndim + axes.count; d++)
        x = added[d] ? haul_unsqueeze(x, d) : x;
    return x;
}

haul_tensor *haul__onnx_expand(haul__onnx_call *c)
{
    const haul__numbers *sizes = haul__onnx_numbers(c, 1);
    const haul_shape     x = haul__onnx_shape(c, 0);
    haul_shape           wanted = {.ndim = 0}, shape;
    if (!sizes)
        return NULL;
    if (sizes->count > HAUL_MAX_DIMS)
        return haul__onnx_refuse(c, "more than 8 dimensions");
    for (int64_t i = 0; i < sizes->count; i++)
        wanted.dims[wanted.ndim++] = sizes->items[i].i;
    if (haul__shape_broadcast(&x, &wanted, "haul_expand", &shape))
        return NULL;
    return haul_expand(X(0), shape);
}

haul_tensor *haul__onnx_tile(haul__onnx_call *c)
{
    const haul__numbers *times = haul__onnx_numbers(c, 1);
    haul_shape           shape = {.ndim = 0};
    if (!times)
        return NULL;
    if (times->count > HAUL_MAX_DIMS)
        return haul__onnx_refuse(c, "more than 8 dimensions");
    for (int64_t i = 0; i < times->count; i++)
        shape.dims[shape.ndim++] = times->items[i].i;
    return haul_repeat(X(0), shape);
}

/* Blocks of a picture as channels, or channels as blocks: a permutation of six axes. */
haul_tensor *haul__onnx_depth_to_space(haul__onnx_call *c)
{
    const haul_shape s = haul__onnx_shape(c, 0);
    const int64_t    b = haul__onnx_int(c, "blocksize", 0);
    const bool       crd = !strcmp(haul__onnx_string(c, "mode", "DCR"), "CRD");
    if (s.ndim != 4 || b < 1 || b > 1 << 15 || s.dims[1] % (b * b))
        return haul__onnx_wrong(c, "the shape is wrong");
    const int64_t depth = s.dims[1] / (b * b);
    haul_tensor  *x = haul_reshape(X(0), crd ? HAUL_SHAPE(s.dims[0], depth, b, b, s.dims[2], s.dims[3])
                                             : HAUL_SHAPE(s.dims[0], b, b, depth, s.dims[2], s.dims[3]));
    x = haul_permute(x, crd ? (const int[]){0, 1, 4, 2, 5, 3} : (const int[]){0, 3, 4, 1, 5, 2}, 6);
    return haul_reshape(x, HAUL_SHAPE(s.dims[0], depth, s.dims[2] * b, s.dims[3] * b));
}

haul_tensor *haul__onnx_space_to_depth(haul__onnx_call *c)
{
    const haul_shape s = haul__onnx_shape(c, 0);
    const int64_t    b = haul__onnx_int(c, "blocksize", 0);
    const bool       crd = !strcmp(haul__onnx_string(c, "mode", "DCR"), "CRD");
    if (s.ndim != 4 || b < 1 || b > 1 << 15 || s.dims[2] % b || s.dims[3] % b)
        return haul__onnx_wrong(c, "the shape is wrong");
    haul_tensor *x = haul_reshape(X(0), HAUL_SHAPE(s.dims[0], s.dims[1], s.dims[2] / b, b, s.dims[3] / b, b));
    x = haul_permute(x, crd ? (const int[]){0, 1, 3, 5, 2, 4} : (const int[]){0, 3, 5, 1, 2, 4}, 6);
    return haul_reshape(x, HAUL_SHAPE(s.dims[0], s.dims[1] * b * b, s.dims[2] / b, s.dims[3] / b));
}

/* ---- parts and joins ---- */

haul_tensor *haul__onnx_concat(haul__onnx_call *c)
{
    const int     count = haul__onnx_count(c);
    haul_tensor **xs = NULL, *y = NULL;
    int           axis;
    if (haul__onnx_axis(c, haul__onnx_int(c, "axis", 1), haul__onnx_shape(c, 0).ndim, &axis))
        return NULL;
    xs = haul__calloc((size_t)count + 1, sizeof(haul_tensor *));
    if (!xs)
        return haul__fail_memory(HAUL__ONNX_CALL, (size_t)count * sizeof *xs), NULL;
    for (int i = 0; i < count; i++)
        xs[i] = X(i);
    y = haul_cat(xs, count, axis);
    haul__free(xs);
    return y;
}

haul_tensor *haul__onnx_split(haul__onnx_call *c)
{
    const haul_shape            shape = haul__onnx_shape(c, 0);
    const int                   count = c->step->output_count;
    int64_t                     sizes[HAUL__ONNX_RESULTS];
    const haul__numbers        *n = c->opset >= 13 && haul__onnx_has(c, 1) ? haul__onnx_numbers(c, 1) : NULL;
    const haul__onnx_attribute *a = c->opset < 13 ? haul__onnx_attribute_of(c->step->node, "split") : NULL;
    int                         axis;
    if (haul__onnx_axis(c, haul__onnx_int(c, "axis", 0), shape.ndim, &axis))
        return NULL;
    if (c->opset >= 13 && haul__onnx_has(c, 1) && !n)
        return NULL;
    if (count < 1 || (n && n->count != count) || (a && a->int_count != (size_t)count))
        return haul__onnx_wrong(c, "there is another number of parts");
    HAUL__ASSERT(count <= HAUL__ONNX_RESULTS);
    const int64_t equal = (shape.dims[axis] + count - 1) / count;
    for (int i = 0; i < count; i++) {
        const int64_t left = shape.dims[axis] - equal * i;
        sizes[i] = n ? n->items[i].i : a ? a->ints[i] : left < 0 ? 0 : left < equal ? left : equal;
    }
    return haul_split(X(0), axis, sizes, count, c->y) ? NULL : c->y[0];
}

static int64_t clamped(int64_t at, int64_t n, int64_t low, int64_t high)
{
    at = at < 0 ? at + n : at;
    return at < low ? low : at > high ? high : at;
}

void haul__onnx_range(int64_t n, int64_t start, int64_t stop, int64_t step, int64_t *first, int64_t *count)
{
    HAUL__ASSERT(step != 0);
    *first = *count = 0;
    if (n <= 0)
        return;
    const bool    up = step > 0;
    const int64_t wide = step == INT64_MIN ? INT64_MAX : up ? step : -step;
    const int64_t from = clamped(start, n, 0, up ? n : n - 1), to = clamped(stop, n, up ? 0 : -1, up ? n : n - 1);
    const int64_t length = up ? to - from : from - to;
    *first = from;
    *count = length <= 0 ? 0 : (length - 1) / wide + 1;
    HAUL__ASSERT(0 <= *count && *count <= n && (!*count || (0 <= *first && *first < n)));
}

/* A step below 0 goes through the axis backwards. */
static haul_tensor *slice(haul__onnx_call *c, haul_tensor *x, int axis, int64_t start, int64_t stop, int64_t step)
{
    const int64_t n = haul_tensor_shape(x).dims[axis];
    int64_t       first, count;
    if (!step)
        return haul__onnx_wrong(c, "a step is 0");
    haul__onnx_range(n, start, stop, step, &first, &count);
    const int64_t wide = step > 0 ? step : step == INT64_MIN ? INT64_MAX : -step;
    if (!count)
        return haul_slice(x, axis, 0, 0, 1);
    const int64_t last = (count - 1) * wide; /* from the first */
    if (step > 0)
        return haul_slice(x, axis, first, first + last + 1, wide);
    x = haul_slice(x, axis, first - last, first + 1, 1);
    x = haul_flip(x, HAUL_AXES(axis));
    return haul_slice(x, axis, 0, last + 1, wide);
}

haul_tensor *haul__onnx_slice(haul__onnx_call *c)
{
    haul_tensor    *x = X(0);
    haul__onnx_list starts, stops, axes, steps;
    int             axis;
    if (haul__onnx_ints_or_input(c, "starts", 1, 10, &starts) || haul__onnx_ints_or_input(c, "ends", 2, 10, &stops) ||
        haul__onnx_ints_or_input(c, "axes", 3, 10, &axes) || haul__onnx_ints_or_input(c, "steps", 4, 10, &steps))
        return NULL;
    if (starts.count != stops.count || (axes.given && axes.count != starts.count) ||
        (steps.given && steps.count != starts.count))
        return haul__onnx_wrong(c, "the ranges have different numbers of axes");
    for (int i = 0; i < starts.count; i++) {
        if (haul__failed(x) || haul__onnx_axis(c, axes.given ? axes.items[i] : i, haul_tensor_shape(x).ndim, &axis))
            return NULL;
        x = slice(c, x, axis, starts.items[i], stops.items[i], steps.given ? steps.items[i] : 1);
    }
    return x;
}

/* ---- padding ---- */

static bool find_mode(const char *name, haul_pad_mode *mode)
{
    static const char *const names[] = {"constant", "reflect", "edge", "wrap"};
    for (int i = 0; i < 4; i++)
        if (!strcmp(names[i], name)) {
            *mode = (haul_pad_mode)i; /* in the order of haul_pad_mode */
            return true;
        }
    return false;
}

static haul_status place_pads(haul__onnx_call *c, const haul__onnx_list *pads, int ndim, int64_t before[],
                              int64_t after[])
{
    haul__onnx_list axes = {.given = false};
    int             axis;
    if (c->opset >= 18 && haul__onnx_ints_or_input(c, "axes", 3, 18, &axes))
        return haul_error_status();
    const int count = axes.given ? axes.count : ndim;
    if (pads->count != 2 * count)
        return haul__onnx_wrong(c, "pads has another number of axes"), haul_error_status();
    for (int i = 0; i < count; i++) {
        if (haul__onnx_axis(c, axes.given ? axes.items[i] : i, ndim, &axis))
            return haul_error_status();
        before[axis] = pads->items[i];
        after[axis] = pads->items[count + i];
        const int64_t n = haul__onnx_shape(c, 0).dims[axis], most = INT64_C(1) << 40;
        if (before[axis] < -n || after[axis] < -n || before[axis] > most || after[axis] > most ||
            before[axis] + after[axis] + n < 0)
            return haul__onnx_wrong(c, "pads cuts more than there is, or adds too much"), haul_error_status();
    }
    return HAUL_OK;
}

haul_tensor *haul__onnx_pads(haul_tensor *x, int ndim, const int64_t before[], const int64_t after[],
                             haul_pad_mode mode, double value)
{
    haul_pad_options o = {.mode = mode, .value = value};
    int              lowest = ndim;
    for (int d = 0; d < ndim; d++) {
        if (before[d] < 0 || after[d] < 0)
            x = haul_slice(x, d, before[d] < 0 ? -before[d] : 0, after[d] < 0 ? after[d] : INT64_MAX, 1);
        lowest = lowest == ndim && (before[d] > 0 || after[d] > 0) ? d : lowest;
    }
    if (lowest == ndim)
        return x;
    for (int d = ndim - 1; d >= lowest; d--) {
        o.haul__pads.sizes[o.haul__pads.count++] = before[d] > 0 ? before[d] : 0;
        o.haul__pads.sizes[o.haul__pads.count++] = after[d] > 0 ? after[d] : 0;
    }
    HAUL__ASSERT(o.haul__pads.count == 2 * (ndim - lowest));
    o.x = x;
    return haul_pad_with(&o);
}

haul_tensor *haul__onnx_pad(haul__onnx_call *c)
{
    int64_t         before[HAUL_MAX_DIMS] = {0}, after[HAUL_MAX_DIMS] = {0};
    const int       ndim = haul__onnx_shape(c, 0).ndim;
    haul_pad_mode   mode;
    haul__onnx_list pads;
    double          value = haul__onnx_float(c, "value", 0);
    if (!find_mode(haul__onnx_string(c, "mode", "constant"), &mode))
        return haul__onnx_refuse(c, "this mode");
    if (haul__onnx_ints_or_input(c, "pads", 1, 11, &pads) || place_pads(c, &pads, ndim, before, after))
        return NULL;
    if (c->opset >= 11 && mode == HAUL_PAD_CONSTANT && haul__onnx_real(c, 2, 0, &value))
        return NULL;
    return haul__onnx_pads(X(0), ndim, before, after, mode, value);
}

/* ---- filling ---- */

haul_tensor *haul__onnx_constant_of_shape(haul__onnx_call *c)
{
    const haul__numbers *sizes = haul__onnx_numbers(c, 0), *value = c->step->value;
    haul_shape           shape = {.ndim = 0};
    if (!sizes)
        return NULL;
    if (sizes->count > HAUL_MAX_DIMS)
        return haul__onnx_refuse(c, "more than 8 dimensions");
    for (int64_t i = 0; i < sizes->count; i++)
        shape.dims[shape.ndim++] = sizes->items[i].i;
    if (value && value->dtype == HAUL_I64) /* exactly */
        return haul_contiguous(haul_expand(haul_reshape(haul__onnx_from_numbers(value), HAUL_SCALAR_SHAPE), shape));
    return haul_full(value ? value->dtype : HAUL_F32, shape, value ? value->items->f : 0);
}

haul_tensor *haul__onnx_range_of(haul__onnx_call *c)
{
    const haul_dtype     dtype = haul__onnx_type(c, 0);
    const haul__numbers *start = haul__onnx_numbers(c, 0), *stop = start ? haul__onnx_numbers(c, 1) : NULL;
    const haul__numbers *step = stop ? haul__onnx_numbers(c, 2) : NULL;
    if (!step)
        return NULL;
    if (start->count != 1 || stop->count != 1 || step->count != 1)
        return haul__onnx_wrong(c, "an input must have one element");
    if (dtype == HAUL_I64)
        return haul_arange_i64(start->items->i, stop->items->i, step->items->i);
    return haul_arange(dtype, start->items->f, stop->items->f, step->items->f);
}

haul_tensor *haul__onnx_eye_like(haul__onnx_call *c)
{
    const haul_shape s = haul__onnx_shape(c, 0);
    const haul_dtype dtype = haul__onnx_attribute_of(c->step->node, "dtype")
                                 ? haul__onnx_dtype(haul__onnx_int(c, "dtype", 0))
                                 : haul__onnx_type(c, 0);
    const int64_t    k = haul__onnx_int(c, "k", 0);
    if (s.ndim != 2 || dtype == HAUL_DTYPE_NONE)
        return haul__onnx_refuse(c, "the shape or the dtype");
    haul_tensor *ones = haul_ones(HAUL_F32, HAUL_SHAPE(s.dims[0], s.dims[1]));
    return haul_cast(haul_tril(haul_triu(ones, k), k), dtype);
}

haul_tensor *haul__onnx_trilu(haul__onnx_call *c)
{
    int64_t k;
    if (haul__onnx_integer(c, 1, 0, &k))
        return NULL;
    return haul__onnx_int(c, "upper", 1) ? haul_triu(X(0), k) : haul_tril(X(0), k);
}
