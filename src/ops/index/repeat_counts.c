/* Elements repeated a number of times each, which a tensor holds: the sums of the counts so far say where the copies of
 * each element end, and a search finds for each place of the result whose copy it is. */
#include <math.h>

#include "base/assert.h"
#include "ops/index/index.h"
#include "ops/index/places.h"

typedef struct counts_attributes {
    int64_t size; /* of the axis in the result; as the caller gave it, then -1 for all */
    int     axis;
    bool    reserved[4];
} counts_attributes;

enum { X, COUNTS };

static haul_status check(haul__call *c, counts_attributes *a)
{
    char              text[96];
    const haul_shape *x = &c->operands[X]->shape, *counts = &c->operands[COUNTS]->shape;
    if (haul__call_proper_axis(c, X, &a->axis) || haul__bounded_size(c, &a->size))
        return haul_error_status();
    if (counts->ndim != 1 || counts->dims[0] != x->dims[a->axis])
        return haul__fail(HAUL_SHAPE, c->operation->name, "counts",
                          "counts has shape %s; [%lld] is expected, a number for each element of axis %d of x",
                          haul__shape_text(counts, text, sizeof text), (long long)x->dims[a->axis], a->axis);
    return HAUL_OK;
}

/* The number of copies in all. */
static haul_status count_all(haul__call *c, haul_tensor *counts, haul_tensor *ends, int64_t *total)
{
    HAUL__ASSERT(counts->count > 0 && ends->count == counts->count);
    haul_tensor *negative = haul_lt_scalar(haul_min(counts), 0);
    haul_tensor *all = haul_where_scalar(haul_logical_not(negative), haul_select(ends, 0, -1), -1);
    if (haul__failed(all) || haul__read_count(c, all, "how many elements the result has", total))
        return haul_error_status();
    return *total >= 0 ? HAUL_OK
                       : haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "counts",
                                    "a count is negative; an element is repeated 0 times or more");
}

static haul_status give(haul__call *c, haul_tensor *y)
{
    c->results[0] = y;
    return haul__failed(y) ? haul_error_status() : HAUL_OK;
}

static haul_status repeat_counts(haul__call *c)
{
    counts_attributes *a = haul__attributes(c);
    haul_tensor       *x = c->operands[X], *counts = c->operands[COUNTS];
    haul_shape         shape = x->shape;
    if (check(c, a) || haul_set_device(c->device)) /* until the call ends */
        return haul_error_status();
    const bool    bounded = a->size >= 0;
    const int64_t n = shape.dims[a->axis];
    if (n == 0) { /* none has a copy */
        shape.dims[a->axis] = bounded ? a->size : 0;
        return give(c, haul_zeros(x->dtype, shape));
    }
    haul_tensor *ends = haul_cumsum(haul_clamp(counts, 0, INFINITY), 0);
    int64_t      size = a->size;
    if (haul__failed(ends) || (!bounded && count_all(c, counts, ends, &size)))
        return haul_error_status();
    HAUL__ASSERT(size >= 0);
    haul_tensor *places = haul_arange_i64(0, size, 1);
    haul_tensor *from = haul_searchsorted(ends, places, true);
    HAUL__ASSERT(haul__failed(from) || from->count == size);
    if (!bounded)
        return give(c, haul_index_select(x, a->axis, from));
    haul_tensor *y = haul_index_select(x, a->axis, haul_clamp(from, 0, (double)(n - 1)));
    haul_shape   along = {.ndim = shape.ndim};
    for (int d = 0; d < along.ndim; d++)
        along.dims[d] = d == a->axis ? size : 1;
    return give(c, haul_masked_fill(y, haul_reshape(haul_ge_scalar(from, (double)n), along), 0));
}

HAUL__OPERATION(repeat_interleave_counts) = {
    .name = "haul_repeat_interleave_counts",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES}, {"counts", .accepts = HAUL__INTEGERS, .becomes = HAUL_I64}},
    .results = {{"y"}},
    .dtypes = HAUL__EVERY,
    .attributes_size = HAUL__ATTRIBUTES(counts_attributes),
    .compose = repeat_counts,
};

haul_tensor *haul_repeat_interleave_counts_with(haul_tensor *x, int axis,
                                                const haul_repeat_interleave_counts_options *o)
{
    return o ? HAUL__APPLY(repeat_interleave_counts, (&(counts_attributes){.size = o->size, .axis = axis}), x,
                           o->counts)
             : haul__no_options(&haul__operation_repeat_interleave_counts);
}
