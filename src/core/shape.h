/* Arithmetic on shapes. Every product of dimensions is computed here. */
#ifndef HAUL_CORE_SHAPE_H
#define HAUL_CORE_SHAPE_H

#include <haul/tensor.h>

/* Returns false on overflow and leaves *out untouched. Negative factors are refused. */
static inline bool haul__mul_size(int64_t a, int64_t b, int64_t *out)
{
    int64_t product;
    if (a < 0 || b < 0 || __builtin_mul_overflow(a, b, &product))
        return false;
    *out = product;
    return true;
}

bool haul__add_size(int64_t a, int64_t b, int64_t *out);

/* The number of elements. Fails on negative dims, ndim out of range, and overflow, including overflow of the size in
 * bytes for elements of 8 bytes; the error names `operation`. */
haul_status haul__shape_count(const haul_shape *shape, const char *operation, int64_t *count);

/* Row-major strides. Size-1 dimensions get the stride they would have (canonical). */
void haul__shape_strides(const haul_shape *shape, int64_t *strides);

/* Sorts axes by falling stride. Those of equal strides keep their order. */
void haul__shape_sort_axes(int *axes, int count, const int64_t *strides);

/* Dense strides that keep the order of dimensions of `like` in memory: by falling stride, equal ones in their order.
 * Strides of 0 repeat elements and do not define an order: if there is one, the result is row-major. */
void haul__shape_strides_like(const haul_shape *shape, const int64_t *like, int64_t *strides);

/* Channels-last strides for [N, C, ...]: N, ..., C. */
void haul__shape_strides_channels_last(const haul_shape *shape, int64_t *strides);

/* haul__shape_count and haul__shape_strides at once. Returns false, without recording an error, for a shape that
 * haul__shape_count refuses. */
bool haul__shape_layout(const haul_shape *shape, int64_t *strides, int64_t *count);

/* True if two sets of strides address the same elements of a shape. Strides of size-1 dimensions do not count. */
bool haul__shape_same_strides(const haul_shape *shape, const int64_t *a, const int64_t *b);

static inline bool haul__shape_equal(const haul_shape *a, const haul_shape *b)
{
    bool equal = a->ndim == b->ndim;
    for (int d = 0; equal && d < a->ndim; d++)
        equal = a->dims[d] == b->dims[d];
    return equal;
}

/* Broadcasts the shapes a and b into out, by NumPy's rules. */
haul_status haul__shape_broadcast(const haul_shape *a, const haul_shape *b, const char *operation, haul_shape *out);

/* Negative axes count from the end. */
haul_status haul__axis(int axis, int ndim, const char *operation, int *out);

/* Writes "[64,3,32,32]" into buffer, and returns buffer. */
char *haul__shape_text(const haul_shape *shape, char *buffer, size_t size);

#endif
