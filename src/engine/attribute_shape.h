/* A shape among the attributes of a call. A haul_shape has padding, and its sizes from ndim on may be unset; attributes
 * are compared byte by byte. */
#ifndef HAUL_ENGINE_ATTRIBUTE_SHAPE_H
#define HAUL_ENGINE_ATTRIBUTE_SHAPE_H

#include <string.h>

#include <haul/tensor.h>

typedef struct haul__attribute_shape {
    int64_t ndim;
    int64_t dims[HAUL_MAX_DIMS]; /* zeros from ndim on */
} haul__attribute_shape;

/* The shape may be one that no tensor has: its ndim is kept. */
static inline haul__attribute_shape haul__shape_to_attribute(const haul_shape *shape)
{
    haul__attribute_shape a = {.ndim = shape->ndim};
    for (int d = 0; d < shape->ndim && d < HAUL_MAX_DIMS; d++)
        a.dims[d] = shape->dims[d];
    return a;
}

static inline haul_shape haul__shape_of_attribute(const haul__attribute_shape *a)
{
    haul_shape shape = {.ndim = (int)a->ndim};
    memcpy(shape.dims, a->dims, sizeof shape.dims);
    return shape;
}

#endif
