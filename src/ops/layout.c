/* Collapsing operands' dimensions for the pointwise loop. */
#include "ops/layout.h"

#include <string.h>

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
    for (int d = 0; d < shape->ndim; d++) {
        if (shape->dims[d] == 1)
            continue;
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
