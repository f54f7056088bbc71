/* Merges the dimensions of operands for the pointwise loop. */
#include "engine/layout/layout.h"

#include <math.h>

#include "base/assert.h"
#include "base/copy_uncached.h"
#include "base/numbers.h"
#include "engine/copy.h"

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
        if (p->strides[k].of[p->ndim - 1] != strides[k] * dim)
            return false;
    return true;
}

/* Dimensions larger than 1 in the result's order in memory, outermost first. Elements are independent, and neighbours
 * in this order are written one after the other. */
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
    HAUL__ASSERT(0 < count && count <= 4);
    for (int d = 0; d < shape->ndim; d++)
        items *= shape->dims[d]; /* checked when the result was made */
    p->items = items;
    p->nontemporal = 0;
    p->ndim = 0;
    p->pack = 1;
    for (int k = 0; k < 4; k++)
        p->offsets[k] = k < count ? operands[k]->offset : 0;
    if (all_dense(shape, operands, count, items)) {
        p->ndim = 1;
        p->dims[0] = items;
        for (int k = 0; k < count; k++)
            p->strides[k].of[0] = 1;
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
            p->strides[k].of[last] = strides[k];
    }
    if (p->ndim == 0) { /* one element */
        p->ndim = 1;
        p->dims[0] = 1;
        for (int k = 0; k < count; k++)
            p->strides[k].of[0] = 1;
    }
    HAUL__ASSERT(p->ndim <= HAUL_MAX_DIMS && (p->ndim > 1 || p->dims[0] == items));
}

/* A result goes past the caches from so many bytes on that an operation reads and writes; 0: none does. */
static double nontemporal_from(const haul_device *device)
{
    return haul__device_is_host(device)        ? (double)HAUL__UNCACHED_FROM
           : haul__device_reaches_host(device) ? 64 << 20
                                               : 0;
}

bool haul__layout_is_flat(const pointwise_params *p, int count)
{
    bool all = p->ndim == 1 && p->strides[0].of[0] == 1;
    for (int k = 0; k < count && all; k++)
        all = p->strides[k].of[0] == 1 || p->strides[k].of[0] == 0;
    return all;
}

void haul__layout_stores(pointwise_params *p, haul_tensor *const *operands, int count)
{
    const haul_tensor *result = operands[0];
    const double       from = nontemporal_from(result->storage->device);
    double             bytes = 0;
    for (int k = 0; k < count; k++)
        if (operands[k]->count == p->items) /* smaller ones are broadcast, and stay in the caches */
            bytes += (double)p->items * (double)haul__dtype_size(operands[k]->dtype);
    p->nontemporal = from > 0 && bytes >= from && haul__tensor_is_gap_free(result);
    for (int k = 1; k < count; k++)
        p->nontemporal = p->nontemporal && operands[k]->storage != result->storage;
}

/* True if each operand can be read in aligned groups of `pack` elements or is broadcast along them. The result must be
 * written in aligned groups. */
static bool can_pack(const pointwise_params *p, int operands, int64_t pack)
{
    int last = p->ndim - 1;
    if (p->strides[0].of[last] != 1 || (p->ndim > 1 && p->dims[last] % pack != 0))
        return false;
    for (int k = 0; k < operands; k++) {
        bool aligned = p->strides[k].of[last] == 1 && p->offsets[k] % pack == 0;
        for (int d = 0; d < last; d++)
            aligned = aligned && p->strides[k].of[d] % pack == 0;
        if (!aligned && p->strides[k].of[last] != 0)
            return false;
    }
    return true;
}

/* True if each element is fewer than 2^31 elements away from its operand's first one, and there are fewer than 2^31. */
static bool is_narrow(const pointwise_params *p, int operands)
{
    for (int k = 0; k < operands; k++) {
        double reach = 0; /* exact in the range that matters */
        for (int d = 0; d < p->ndim; d++)
            reach += (double)(p->dims[d] - 1) * fabs((double)p->strides[k].of[d]);
        if (reach > INT32_MAX)
            return false;
    }
    return p->count <= INT32_MAX;
}

/* n / d = (high word of n * factor + n) >> shift for n < 2^31: T. Granlund, P. Montgomery, "Division by invariant
 * integers using multiplication", 1994. */
static void set_divisor(uint32_t d, uint32_t *factor, int32_t *shift)
{
    HAUL__ASSERT(0 < d && d <= INT32_MAX);
    *shift = 0;
    while ((UINT64_C(1) << *shift) < d)
        ++*shift;
    *factor = (uint32_t)((((UINT64_C(1) << *shift) - d) << 32) / d + 1);
}

void haul__layout_packs(pointwise_params *p, const haul_device *device, haul_dtype dtype, int operands)
{
    int64_t pack = smaller(POINTWISE_PACK_BYTES / (int64_t)haul__dtype_size(dtype), POINTWISE_PACK_MOST);
    if (!device->strided || p->items == 0)
        return;
    p->count = p->items;
    p->narrow = is_narrow(p, operands);
    for (int d = 1; d < p->ndim && p->narrow; d++)
        set_divisor((uint32_t)p->dims[d], &p->factors[d], &p->shifts[d]);
    if (can_pack(p, operands, pack)) {
        p->pack = (int32_t)pack;
        p->items = (p->count - 1) / pack + 1;
        HAUL__ASSERT(p->items <= p->count && p->count <= p->items * pack);
    }
}

haul_status haul__describe_pointwise(haul__call *c, haul_dtype dtype)
{
    haul_shape shape = c->operands[0]->shape;
    for (int k = 1; k < c->count; k++)
        if (haul__shape_broadcast(&shape, &c->operands[k]->shape, c->operation->name, &shape))
            return haul_error_status();
    for (int k = 0; k < c->count; k++) {
        const haul_tensor *t = c->operands[k];
        if (haul__shape_equal(&t->shape, &shape) && (t->contiguous || !haul__overlaps_itself(t)))
            return haul__describe_like(c, 0, dtype, &shape, t);
    }
    return haul__describe(c, 0, dtype, &shape);
}
