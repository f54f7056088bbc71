/* Arithmetic on shapes; every product of dimensions goes through here. */
#ifndef HAUL_CORE_SHAPE_H
#define HAUL_CORE_SHAPE_H

#include <haul/tensor.h>

/* false on overflow; *out is untouched then. Negative factors are refused. */
static inline bool haul__mul_size(int64_t a, int64_t b, int64_t *out)
{
    int64_t product;
    if (a < 0 || b < 0 || __builtin_mul_overflow(a, b, &product))
        return false;
    *out = product;
    return true;
}

bool haul__add_size(int64_t a, int64_t b, int64_t *out);

/* a / b rounded up, for b > 0; 0 for a < 0. */
static inline int64_t haul__ceil_div(int64_t a, int64_t b)
{
    return a > 0 ? (a - 1) / b + 1 : 0;
}

/* Number of elements; fails (HAUL_SHAPE_... recorded for `operation`) on negative dims, ndim out of range, overflow,
 * also of the size in bytes for elements of 8 bytes. */
haul_status haul__shape_count(const haul_shape *shape, const char *operation, int64_t *count);

/* Row-major strides; size-1 dimensions get the stride they would have (canonical). */
void haul__shape_strides(const haul_shape *shape, int64_t *strides);

/* Strides without gaps whose dimensions lie in memory in the order in which `like` has them: by falling stride, equal
 * ones as they stand. Strides of 0 repeat elements and say nothing about order: with one among them the result is
 * row-major. */
void haul__shape_strides_like(const haul_shape *shape, const int64_t *like, int64_t *strides);

/* Strides of [N, C, ...] where the channels of a pixel lie next to each other: N, ..., C. */
void haul__shape_strides_channels_last(const haul_shape *shape, int64_t *strides);

/* Do two strides of one shape address the same? Those of size-1 dimensions do not count. */
bool haul__shape_same_strides(const haul_shape *shape, const int64_t *a, const int64_t *b);

static inline bool haul__shape_equal(const haul_shape *a, const haul_shape *b)
{
    bool equal = a->ndim == b->ndim;
    for (int d = 0; equal && d < a->ndim; d++)
        equal = a->dims[d] == b->dims[d];
    return equal;
}

/* NumPy broadcasting of a and b into out. */
haul_status haul__shape_broadcast(const haul_shape *a, const haul_shape *b, const char *operation, haul_shape *out);

/* Negative axes count from the end. */
haul_status haul__axis(int axis, int ndim, const char *operation, int *out);

/* "[64,3,32,32]" into buffer; returns buffer. */
char *haul__shape_text(const haul_shape *shape, char *buffer, size_t size);

#endif
