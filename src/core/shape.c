/* Arithmetic on shapes. */
#include "core/shape.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "core/error.h"

/* The largest element size. The byte counts of all tensors that pass haul__shape_count fit an int64_t. */
enum { LARGEST_ELEMENT = 8, TEXT = 200 };

bool haul__add_size(int64_t a, int64_t b, int64_t *out)
{
    int64_t sum;
    if (a < 0 || b < 0 || __builtin_add_overflow(a, b, &sum))
        return false;
    *out = sum;
    return true;
}

static haul_status check_ndim(const haul_shape *shape, const char *operation)
{
    if (shape->ndim >= 0 && shape->ndim <= HAUL_MAX_DIMS)
        return HAUL_OK;
    return haul__fail(HAUL_SHAPE, operation, "shape", "a shape of %d dimensions; expected 0 to %d", shape->ndim,
                      HAUL_MAX_DIMS);
}

/* Dimensions of 0 are left out of the product that is checked for overflow, because the strides of an empty tensor are
 * products of the other dimensions. */
haul_status haul__shape_count(const haul_shape *shape, const char *operation, int64_t *count)
{
    char    text[TEXT];
    int64_t elements = 1, bytes;
    bool    empty = false;
    if (check_ndim(shape, operation))
        return haul_error_status();
    for (int i = 0; i < shape->ndim; i++) {
        int64_t dim = shape->dims[i];
        if (dim < 0)
            return haul__fail(HAUL_SHAPE, operation, "shape", "dimension %d of shape %s is negative", i,
                              haul__shape_text(shape, text, sizeof text));
        empty = empty || dim == 0;
        if (dim > 0 && !haul__mul_size(elements, dim, &elements))
            goto overflow;
    }
    if (!haul__mul_size(elements, LARGEST_ELEMENT, &bytes))
        goto overflow;
    HAUL__ASSERT(elements > 0 && elements <= INT64_MAX / LARGEST_ELEMENT);
    *count = empty ? 0 : elements;
    return HAUL_OK;
overflow:
    return haul__fail(HAUL_SHAPE, operation, "shape", "shape %s has more elements than memory can address",
                      haul__shape_text(shape, text, sizeof text));
}

void haul__shape_strides(const haul_shape *shape, int64_t *strides)
{
    int64_t stride = 1;
    for (int i = shape->ndim - 1; i >= 0; i--) {
        strides[i] = stride;
        /* Cannot overflow for a shape that haul__shape_count has passed; for any other the stride keeps its value. */
        if (shape->dims[i] > 1)
            haul__mul_size(stride, shape->dims[i], &stride);
    }
}

bool haul__shape_layout(const haul_shape *shape, int64_t *strides, int64_t *count)
{
    int64_t elements = 1, bytes;
    bool    empty = false;
    if (shape->ndim < 0 || shape->ndim > HAUL_MAX_DIMS)
        return false;
    for (int i = shape->ndim - 1; i >= 0; i--) {
        const int64_t dim = shape->dims[i];
        strides[i] = elements;
        if (dim > 0 ? __builtin_mul_overflow(elements, dim, &elements) : dim < 0)
            return false;
        empty = empty || dim == 0;
    }
    if (__builtin_mul_overflow(elements, (int64_t)LARGEST_ELEMENT, &bytes))
        return false;
    *count = empty ? 0 : elements;
    return true;
}

/* Dense strides for the dimensions in this order, outermost first. */
static void strides_in_order(const haul_shape *shape, const int *order, int64_t *strides)
{
    int64_t stride = 1;
    for (int i = shape->ndim - 1; i >= 0; i--) {
        HAUL__ASSERT(0 <= order[i] && order[i] < shape->ndim);
        int64_t dim = shape->dims[order[i]];
        strides[order[i]] = stride;
        if (dim > 1) /* cannot overflow, as above */
            haul__mul_size(stride, dim, &stride);
    }
}

void haul__shape_sort_axes(int *axes, int count, const int64_t *strides)
{
    for (int i = 1; i < count; i++) {
        const int axis = axes[i];
        int       at = i;
        for (; at > 0 && strides[axes[at - 1]] < strides[axis]; at--)
            axes[at] = axes[at - 1];
        HAUL__ASSERT(at == 0 || strides[axes[at - 1]] >= strides[axis]);
        axes[at] = axis;
    }
}

void haul__shape_strides_like(const haul_shape *shape, const int64_t *like, int64_t *strides)
{
    int order[HAUL_MAX_DIMS], count = 0;
    for (int d = 0; d < shape->ndim; d++) {
        if (shape->dims[d] == 1)
            continue;
        if (like[d] == 0) {
            haul__shape_strides(shape, strides);
            return;
        }
        order[count++] = d;
    }
    haul__shape_sort_axes(order, count, like);
    for (int d = 0; d < shape->ndim; d++)
        if (shape->dims[d] == 1) /* their strides do not matter */
            order[count++] = d;
    HAUL__ASSERT(count == shape->ndim); /* each axis once */
    strides_in_order(shape, order, strides);
}

void haul__shape_strides_channels_last(const haul_shape *shape, int64_t *strides)
{
    int order[HAUL_MAX_DIMS] = {0};
    for (int d = 1; d < shape->ndim; d++)
        order[d] = d + 1 < shape->ndim ? d + 1 : 1;
    strides_in_order(shape, order, strides);
}

bool haul__shape_same_strides(const haul_shape *shape, const int64_t *a, const int64_t *b)
{
    for (int d = 0; d < shape->ndim; d++)
        if (shape->dims[d] > 1 && a[d] != b[d])
            return false;
    return true;
}

haul_status haul__shape_broadcast(const haul_shape *a, const haul_shape *b, const char *operation, haul_shape *out)
{
    if (check_ndim(a, operation) || check_ndim(b, operation))
        return haul_error_status();
    if (haul__shape_equal(a, b)) {
        *out = *a;
        return HAUL_OK;
    }
    haul_shape wide = {.ndim = a->ndim > b->ndim ? a->ndim : b->ndim};
    for (int i = 1; i <= wide.ndim; i++) { /* counted from the last dimension */
        int64_t x = i <= a->ndim ? a->dims[a->ndim - i] : 1;
        int64_t y = i <= b->ndim ? b->dims[b->ndim - i] : 1;
        if (x != y && x != 1 && y != 1) {
            char left[TEXT], right[TEXT];
            return haul__fail(
                HAUL_SHAPE, operation, NULL,
                "shapes %s and %s do not broadcast: dimension %d from the end is %lld and %lld; they must be "
                "equal, or one of them 1",
                haul__shape_text(a, left, sizeof left), haul__shape_text(b, right, sizeof right), i, (long long)x,
                (long long)y);
        }
        wide.dims[wide.ndim - i] = x == 1 ? y : x;
    }
    HAUL__ASSERT(wide.ndim <= HAUL_MAX_DIMS && wide.ndim > 0); /* two scalars have equal shapes */
    *out = wide;
    return HAUL_OK;
}

haul_status haul__axis(int axis, int ndim, const char *operation, int *out)
{
    if (ndim == 0)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "axis", "axis %d of a 0-d tensor, which has no axes", axis);
    if (axis < -ndim || axis >= ndim)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "axis",
                          "axis %d of a tensor of %d dimensions; expected %d to %d", axis, ndim, -ndim, ndim - 1);
    *out = axis < 0 ? axis + ndim : axis;
    return HAUL_OK;
}

char *haul__shape_text(const haul_shape *shape, char *buffer, size_t size)
{
    int    ndim = shape->ndim < HAUL_MAX_DIMS ? shape->ndim : HAUL_MAX_DIMS;
    size_t at = (size_t)snprintf(buffer, size, "[");
    for (int i = 0; i < ndim && at < size; i++)
        at += (size_t)snprintf(buffer + at, size - at, "%s%lld", i ? "," : "", (long long)shape->dims[i]);
    if (at < size)
        snprintf(buffer + at, size - at, "]");
    return buffer;
}
