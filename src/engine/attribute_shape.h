/* A shape among the attributes of a call. A haul_shape has padding, and its sizes from ndim on may be unset; attributes
 * are compared byte by byte. */
#ifndef HAUL_ENGINE_ATTRIBUTE_SHAPE_H
#define HAUL_ENGINE_ATTRIBUTE_SHAPE_H

#include <stddef.h>
#include <string.h>

#include <haul/tensor.h>

/* A haul_shape of which all bytes are set. */
typedef struct haul__attribute_shape {
    int     ndim, reserved;
    int64_t dims[HAUL_MAX_DIMS]; /* zeros from ndim on */
} haul__attribute_shape;

_Static_assert(sizeof(haul__attribute_shape) == sizeof(haul_shape), "they differ only in names");
_Static_assert(offsetof(haul__attribute_shape, ndim) == offsetof(haul_shape, ndim), "they differ only in names");
_Static_assert(offsetof(haul__attribute_shape, dims) == offsetof(haul_shape, dims), "they differ only in names");

/* The shape may be one that no tensor has: its ndim is kept. */
static inline void haul__shape_to_attribute(haul__attribute_shape *a, const haul_shape *shape)
{
    *a = (haul__attribute_shape){.ndim = shape->ndim};
    for (int d = 0; d < shape->ndim && d < HAUL_MAX_DIMS; d++)
        a->dims[d] = shape->dims[d];
}

static inline haul_shape haul__shape_of_attribute(const haul__attribute_shape *a)
{
    haul_shape shape;
    memcpy(&shape, a, sizeof shape);
    return shape;
}

#endif
