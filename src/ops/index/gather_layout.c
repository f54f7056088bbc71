/* How a tensor of indices, the tensor that they point into and a third one are passed to kernels. */
#include "base/assert.h"
#include "ops/index/gather.h"
#include "ops/index/sort.h"

/* FEW_LINES of more than FEW elements keep a GPU busy. */
enum { FEW_LINES = 8192, FEW = 64 };

/* True if a dimension continues where the last one ends, in all tensors, so that both can be merged. */
static bool joins(const gather_params *p, int64_t dim, const int64_t strides[3])
{
    bool whole = p->ndim > 0;
    for (int k = 0; k < 3 && whole; k++)
        whole = p->strides[k].of[p->ndim - 1] == strides[k] * dim;
    return whole;
}

/* Adds a dimension, the innermost so far, or merges it into the last one. */
static void add_dimension(gather_params *p, int64_t dim, const int64_t strides[3])
{
    bool joined = joins(p, dim, strides);
    int  d = joined ? p->ndim - 1 : p->ndim++;
    HAUL__ASSERT(0 <= d && d < HAUL_MAX_DIMS);
    p->dims[d] = joined ? p->dims[d] * dim : dim; /* a part of index's count */
    for (int k = 0; k < 3; k++)
        p->strides[k].of[d] = strides[k];
}

/* True if the dimensions have a place for each item. */
static bool covers_all(const gather_params *p)
{
    int64_t places = 1; /* a part of index's count */
    for (int d = 0; d < p->ndim; d++)
        places *= p->dims[d];
    return places == p->items;
}

gather_params haul__gather_describe(const haul_tensor *into, const haul_tensor *index, const haul_tensor *other,
                                    int axis, bool lines)
{
    HAUL__ASSERT(into->shape.ndim == index->shape.ndim && haul__shape_equal(&other->shape, &index->shape));
    const haul_tensor *all[] = {into, index, other};
    gather_params      p = {.items = index->count, .length = 1, .size = 1};
    for (int d = 0; d < index->shape.ndim; d++) {
        const int64_t strides[] = {d == axis ? 0 : into->strides[d], index->strides[d], other->strides[d]};
        if ((lines && d == axis) || index->shape.dims[d] == 1)
            continue;
        add_dimension(&p, index->shape.dims[d], strides);
    }
    if (!p.ndim)
        add_dimension(&p, 1, (int64_t[]){0, 0, 0});
    for (int k = 0; k < 3; k++) {
        p.offsets[k] = all[k]->offset;
        p.along[k] = index->shape.ndim ? all[k]->strides[axis] : 0;
    }
    if (index->shape.ndim) {
        p.length = index->shape.dims[axis];
        p.size = into->shape.dims[axis];
    }
    if (lines && p.length)
        p.items /= p.length;
    HAUL__ASSERT(!p.length || covers_all(&p));
    return p;
}

bool haul__has_few_lines(const haul__call *c, const gather_params *p)
{
    return c->device->strided && p->along[1] == 1 && p->items < FEW_LINES && p->length > FEW &&
           p->length <= HAUL__SORT_MOST;
}

haul_status haul__check_index_shapes(haul__call *c, int *axis)
{
    const haul_shape *x = &c->operands[0]->shape, *index = &c->operands[1]->shape;
    if (haul__call_axis(c, 0, axis))
        return haul_error_status();
    bool fits = index->ndim == x->ndim;
    for (int d = 0; d < x->ndim && fits; d++)
        fits = d == *axis || index->dims[d] <= x->dims[d];
    if (!fits)
        return haul__refuse_shape(c, 1, "as many dimensions as x are expected, none larger than x's but the axis");
    if (c->operands[1]->count > 0 && x->ndim && x->dims[*axis] == 0)
        return haul__fail(HAUL_SHAPE, c->operation->name, "index", "no index is valid: that axis has no elements");
    return HAUL_OK;
}
