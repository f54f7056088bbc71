/* Joining tensors: each operand is copied into its place in the result; the gradient takes it out again. */
#include <string.h>

#include "engine/dispatch.h"

typedef struct cat_attributes {
    int axis;
} cat_attributes;

static haul_status cat_backward(haul__node *node, haul_tensor *g, haul_tensor **out)
{
    const cat_attributes *a = node->attributes;
    int64_t               at = 0;
    for (int i = 0; i < node->edge_count; i++) {
        int64_t end = at + node->edges[i].shape.dims[a->axis];
        if (haul__needs(node, i) && !(out[i] = haul_slice(g, a->axis, at, end, 1)))
            return haul_error_status();
        at = end;
    }
    return HAUL_OK;
}

/* The result's shape and dtype. */
static haul_status infer(haul_tensor *const *xs, int count, int axis, haul_shape *shape, haul_dtype *dtype)
{
    char want[96], have[96];
    *shape = xs[0]->shape;
    *dtype = xs[0]->dtype;
    for (int i = 1; i < count; i++) {
        haul_shape other = xs[i]->shape;
        bool       fits = other.ndim == shape->ndim;
        if (fits) {
            int64_t size = other.dims[axis];
            other.dims[axis] = shape->dims[axis];
            fits = haul__shape_equal(&other, shape);
            if (fits && !haul__add_size(shape->dims[axis], size, &shape->dims[axis]))
                return haul__fail(HAUL_SHAPE, "haul_cat", "xs", "axis %d of the result is too long", axis);
        }
        if (!fits)
            return haul__fail(HAUL_SHAPE, "haul_cat", "xs",
                              "xs[0] has shape %s, xs[%d] has %s; all must agree but along axis %d",
                              haul__shape_text(&xs[0]->shape, want, sizeof want), i,
                              haul__shape_text(&xs[i]->shape, have, sizeof have), axis);
        *dtype = haul_dtype_promote(*dtype, xs[i]->dtype);
    }
    return HAUL_OK;
}

/* Copy x to where it begins along the axis of y. */
static haul_status copy_part(haul_tensor *y, haul_tensor *x, int axis, int64_t at)
{
    if (x->count == 0)
        return HAUL_OK;
    haul_tensor *place = haul__view_of(y, &x->shape, y->strides, y->offset + at * y->strides[axis]);
    haul_tensor *plain = haul__view_of(x, &x->shape, x->strides, x->offset);
    if (!place || !plain)
        return haul_error_status();
    return haul_copy_into(place, plain);
}

static haul_tensor *join(haul_tensor **xs, const char *const *names, int count, int axis)
{
    haul_device *device = haul__place("haul_cat", xs, names, count);
    haul_shape   shape;
    haul_dtype   dtype;
    if (!device)
        return NULL;
    for (int i = 0; i < count; i++)
        if (haul__is_none(xs[i])) {
            haul__fail(HAUL_INVALID_ARGUMENT, "haul_cat", "xs", "xs[%d] is HAUL_NONE, but a tensor is needed here", i);
            return NULL;
        }
    if (haul__axis(axis, xs[0]->shape.ndim, "haul_cat", &axis) || infer(xs, count, axis, &shape, &dtype))
        return NULL;
    haul_tensor *y = haul__result_like("haul_cat", device, dtype, &shape, xs[0]);
    if (!y)
        return NULL;
    int64_t at = 0;
    for (int i = 0; i < count; i++) {
        if (copy_part(y, xs[i], axis, at))
            return NULL;
        at += xs[i]->shape.dims[axis];
    }
    return haul__finish(y, &(haul__record){.name = "haul_cat",
                                           .backward = cat_backward,
                                           .inputs = xs,
                                           .input_count = count,
                                           .attributes = &(cat_attributes){axis},
                                           .attributes_size = sizeof(cat_attributes)});
}

static haul_status check_list(const char *operation, haul_tensor *const *xs, int count)
{
    if (count < 1 || !xs)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "xs", "%d tensors are given; at least one is needed",
                          count);
    return HAUL_OK;
}

haul_tensor *haul_cat(haul_tensor *const *xs, int count, int axis)
{
    if (check_list("haul_cat", xs, count))
        return NULL;
    haul_scope   *scope = haul_scope_push();
    haul_tensor **placed = haul__calloc((size_t)count, sizeof(haul_tensor *));
    const char  **names = haul__calloc((size_t)count, sizeof(const char *));
    haul_tensor  *y = NULL;
    if (placed && names) {
        for (int i = 0; i < count; i++) {
            placed[i] = xs[i];
            names[i] = "xs";
        }
        y = scope ? join(placed, names, count, axis) : NULL;
    } else {
        haul__fail_memory("haul_cat", (size_t)count * sizeof *placed);
    }
    haul__free(placed);
    haul__free(names);
    return haul_scope_return(scope, y);
}

haul_tensor *haul_stack(haul_tensor *const *xs, int count, int axis)
{
    if (check_list("haul_stack", xs, count))
        return NULL;
    haul_scope   *scope = haul_scope_push();
    haul_tensor **rows = haul__calloc((size_t)count, sizeof(haul_tensor *));
    haul_tensor  *y = NULL;
    if (!rows)
        haul__fail_memory("haul_stack", (size_t)count * sizeof *rows);
    for (int i = 0; rows && scope && i < count; i++)
        rows[i] = haul_unsqueeze(xs[i], axis); /* a NULL keeps its error and fails in cat */
    if (rows && scope && rows[0])
        y = haul_cat(rows, count, axis);
    haul__free(rows);
    return haul_scope_return(scope, y);
}
