/* Collapsing operands' dimensions for the pointwise loop. */
#include "ops/layout.h"

#include "ops/dispatch.h"

static bool all_dense(const haul_shape *shape, haul_tensor *const *operands, int count, int64_t items)
{
    for (int k = 0; k < count; k++)
        if (!operands[k]->contiguous || operands[k]->count != items || operands[k]->shape.ndim != shape->ndim)
            return false;
    return true;
}

/* Stride of operand t along dimension d of the broadcast shape. */
static int64_t broadcast_stride(const haul_tensor *t, const haul_shape *shape, int d)
{
    int own = d - (shape->ndim - t->shape.ndim);
    return own < 0 || t->shape.dims[own] == 1 ? 0 : t->strides[own];
}

static bool can_merge(const pointwise_params *p, const int64_t *strides, int64_t dim, int count)
{
    for (int k = 0; k < count; k++)
        if (p->strides[k][p->ndim - 1] != strides[k] * dim)
            return false;
    return true;
}

/* Dimensions larger than 1 as the result has them in memory, outermost first: elements are independent of each other,
 * and neighbours there are written one after the other. */
static int sort_by_stride(int *order, const haul_shape *shape, const haul_tensor *result)
{
    int count = 0;
    for (int d = 0; d < shape->ndim; d++) {
        if (shape->dims[d] == 1)
            continue;
        int at = count++;
        for (; at > 0 && !result->contiguous && result->strides[order[at - 1]] < result->strides[d]; at--)
            order[at] = order[at - 1];
        order[at] = d;
    }
    return count;
}

void haul__layout(pointwise_params *p, const haul_shape *shape, haul_tensor *const *operands, int count)
{
    int64_t items = 1;
    for (int d = 0; d < shape->ndim; d++)
        items *= shape->dims[d]; /* checked when the result was made */
    p->items = items;
    p->ndim = 0;
    p->reserved = 0;
    for (int k = 0; k < 4; k++)
        p->offsets[k] = k < count ? operands[k]->offset : 0;
    if (all_dense(shape, operands, count, items)) {
        p->ndim = 1;
        p->dims[0] = items;
        for (int k = 0; k < count; k++)
            p->strides[k][0] = 1;
        return;
    }
    int order[HAUL_MAX_DIMS], dims = sort_by_stride(order, shape, operands[0]);
    for (int i = 0; i < dims; i++) {
        int     d = order[i];
        int64_t strides[4];
        for (int k = 0; k < count; k++)
            strides[k] = broadcast_stride(operands[k], shape, d);
        int last = p->ndim - 1;
        if (p->ndim > 0 && can_merge(p, strides, shape->dims[d], count)) {
            p->dims[last] *= shape->dims[d];
        } else {
            last = p->ndim++;
            p->dims[last] = shape->dims[d];
        }
        for (int k = 0; k < count; k++)
            p->strides[k][last] = strides[k];
    }
    if (p->ndim == 0) { /* one element */
        p->ndim = 1;
        p->dims[0] = 1;
        for (int k = 0; k < count; k++)
            p->strides[k][0] = 1;
    }
}

static bool repeats(const haul_tensor *t)
{
    for (int d = 0; d < t->shape.ndim; d++)
        if (t->shape.dims[d] > 1 && t->strides[d] == 0)
            return true;
    return false;
}

haul_tensor *haul__pointwise_result(const char *operation, haul_device *device, haul_dtype dtype,
                                    const haul_shape *shape, haul_tensor *const *operands, int count)
{
    for (int k = 0; k < count; k++)
        if (haul__shape_equal(&operands[k]->shape, shape) && (operands[k]->contiguous || !repeats(operands[k])))
            return haul__result_like(operation, device, dtype, shape, operands[k]);
    return haul__result(operation, device, dtype, shape);
}
