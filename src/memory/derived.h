/* Copies of a storage's elements in another form, kept with it until its elements change: casts to another dtype,
 * weights in another memory format. They are a cache: counted (haul_memory_stats.derived_bytes), and given back where
 * memory runs short. Any thread may call these. */
#ifndef HAUL_MEMORY_DERIVED_H
#define HAUL_MEMORY_DERIVED_H

#include "core/tensor.h"

/* The form of a copy. `maker` tells forms apart whose layouts mean different things, such as panels of a packed factor;
 * NULL: the elements of the tensor, in its shape, with `layout` as strides from the beginning of the copy. */
typedef struct haul__form {
    const void *maker;
    haul_dtype  dtype;
    int64_t     layout[HAUL_MAX_DIMS]; /* as many as the tensor has dimensions are compared */
} haul__form;

/* The copy of t in this form if there is one of the elements that t has now: a reference of the caller's. NULL: none.
 * Nobody may write to it. */
haul__storage *haul__derived_find(const haul_tensor *t, const haul__form *form);

/* Keep `copy`, which has t's elements in this form, on t's device. Nothing is kept without host memory for it, nor for
 * a storage that existed before the dry run that made the copy. */
void haul__derived_keep(const haul_tensor *t, const haul__form *form, haul__storage *copy);

/* Keep this copy of the storage's no longer; nothing happens where it is not kept. */
void haul__derived_drop(haul__storage *storage, const haul__storage *copy);

/* Give up all copies on the device; says if there were some. */
bool haul__derived_give_back(const haul_device *device);

/* Bytes in blocks of the copies on the device. */
int64_t haul__derived_bytes(const haul_device *device);

#endif
