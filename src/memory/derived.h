/* Copies of a storage's elements in another form, kept with the storage until its elements change: casts to another
 * dtype, weights in another memory format. They are a cache: counted (haul_memory_stats.derived_bytes), and freed if
 * memory runs short. Any thread may call these functions. */
#ifndef HAUL_MEMORY_DERIVED_H
#define HAUL_MEMORY_DERIVED_H

#include "core/tensor.h"

/* The form of a copy. `maker` separates forms whose layouts have different meanings, for example panels of a packed
 * factor; NULL: the elements of the tensor, in its shape, with `layout` as strides from the beginning of the copy. */
typedef struct haul__form {
    const void *maker;
    haul_dtype  dtype;
    int64_t     layout[HAUL_MAX_DIMS]; /* compared up to the tensor's number of dimensions */
} haul__form;

/* The copy in this form of t's current elements, with a reference for the caller; NULL if there is none. It must not be
 * written to. */
haul__storage *haul__derived_find(const haul_tensor *t, const haul__form *form);

/* Keeps `copy`, which has t's elements in this form, on t's device. Keeps nothing if host memory for the entry is
 * exhausted, or if the storage existed before the dry run that made the copy. */
void haul__derived_keep(const haul_tensor *t, const haul__form *form, haul__storage *copy);

/* The same in a dry run. If the storage existed before, the copy is kept until the run ends, if the run keeps copies.
 */
haul_status haul__derived_keep_in_run(const haul_tensor *t, const haul__form *form, haul__storage *copy);

/* Drops this copy of the storage; does nothing if it is not kept. */
void haul__derived_drop(haul__storage *storage, const haul__storage *copy);

/* Drops all copies of the storage. */
void haul__derived_drop_all(haul__storage *storage);

/* Frees all copies on the device; returns whether there were any. */
bool haul__derived_give_back(const haul_device *device);

/* Bytes in the blocks of copies on the device. */
int64_t haul__derived_bytes(const haul_device *device);

#endif
