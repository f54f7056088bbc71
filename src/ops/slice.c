/* Slices: parts of a tensor as views of it. Their gradient is g among zeros, an operation with a gradient of its own.
 */
#include "engine/dispatch.h"

/* Elements start, start + step ... of an axis, `count` of them. */
typedef struct part {
    int     axis;
    int64_t start, step, count;
} part;

/* The part of x as a view, without graph. */
static haul_tensor *view_part(haul_tensor *x, const part *at)
{
    haul_shape shape = x->shape;
    int64_t    strides[HAUL_MAX_DIMS] = {0};
    for (int d = 0; d < shape.ndim; d++)
        strides[d] = d == at->axis ? x->strides[d] * at->step : x->strides[d];
    shape.dims[at->axis] = at->count;
    return haul__view_of(x, &shape, strides, x->offset + (at->count ? at->start * x->strides[at->axis] : 0));
}

static haul_tensor *take(haul_tensor *x, const part *at);

static haul_status put_backward(haul__node *node, haul_tensor *g, haul_tensor **out)
{
    out[0] = take(g, node->attributes);
    return out[0] ? HAUL_OK : haul_error_status();
}

/* Zeros of `shape` with g in the place of the part. */
static haul_tensor *put(haul_tensor *g, const haul_shape *shape, const part *at)
{
    haul_tensor *y = g ? haul__result_like("haul_slice", g->storage->device, g->dtype, shape, g) : NULL;
    if (!y || haul_zero_into(y))
        return NULL;
    haul_tensor *place = view_part(y, at), *plain = haul__view_of(g, &g->shape, g->strides, g->offset);
    if (!place || !plain || haul_copy_into(place, plain))
        return NULL;
    haul_drop(place);
    haul_drop(plain);
    return haul__finish(y, &(haul__record){.name = "haul_slice_backward",
                                           .backward = put_backward,
                                           .inputs = &g,
                                           .input_count = 1,
                                           .attributes = at,
                                           .attributes_size = sizeof *at});
}

static haul_status take_backward(haul__node *node, haul_tensor *g, haul_tensor **out)
{
    out[0] = put(g, &node->edges[0].shape, node->attributes);
    return out[0] ? HAUL_OK : haul_error_status();
}

static haul_tensor *take(haul_tensor *x, const part *at)
{
    return haul__finish(view_part(x, at), &(haul__record){.name = "haul_slice",
                                                          .backward = take_backward,
                                                          .inputs = &x,
                                                          .input_count = 1,
                                                          .attributes = at,
                                                          .attributes_size = sizeof *at});
}

static int64_t clamp_index(int64_t i, int64_t size)
{
    i = i < 0 ? i + size : i;
    return i < 0 ? 0 : i > size ? size : i;
}

haul_tensor *haul_slice(haul_tensor *x, int axis, int64_t start, int64_t stop, int64_t step)
{
    part at = {.step = step};
    if (!haul__place("haul_slice", &x, (const char *const[]){"x"}, 1) ||
        haul__axis(axis, x->shape.ndim, "haul_slice", &at.axis))
        return NULL;
    if (step < 1) {
        haul__fail(HAUL_INVALID_ARGUMENT, "haul_slice", "step", "step is %lld; it must be at least 1", (long long)step);
        return NULL;
    }
    int64_t size = x->shape.dims[at.axis];
    at.start = clamp_index(start, size);
    stop = clamp_index(stop, size);
    at.count = stop > at.start ? (stop - at.start - 1) / step + 1 : 0;
    if (at.count <= 1)
        at.step = 1; /* so that no stride overflows */
    return take(x, &at);
}

haul_tensor *haul_select(haul_tensor *x, int axis, int64_t index)
{
    part at = {.step = 1, .count = 1};
    if (!haul__place("haul_select", &x, (const char *const[]){"x"}, 1) ||
        haul__axis(axis, x->shape.ndim, "haul_select", &at.axis))
        return NULL;
    int64_t size = x->shape.dims[at.axis];
    at.start = index < 0 ? index + size : index;
    if (at.start < 0 || at.start >= size) {
        haul__fail(HAUL_INVALID_ARGUMENT, "haul_select", "index",
                   "index %lld is out of range for axis %d, which has %lld elements", (long long)index, axis,
                   (long long)size);
        return NULL;
    }
    haul_scope *scope = haul_scope_push();
    return scope ? haul_scope_return(scope, haul_squeeze(take(x, &at), at.axis)) : NULL;
}
