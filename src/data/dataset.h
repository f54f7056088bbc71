/* What stands behind a dataset, for the readers of formats and the loader. */
#ifndef HAUL_DATA_DATASET_H
#define HAUL_DATA_DATASET_H

#include <haul/data.h>

#include "core/object.h"

struct haul_dataset {
    haul__object        object;
    haul_dataset_source source;
    char               *name;
    char              **class_names; /* spec.classes of them */
    size_t              input_bytes, target_bytes;
    int64_t             input_count;      /* elements */
    uint8_t            *inputs, *targets; /* all examples, when they were read ahead; else NULL */
};

extern const haul__class haul__dataset_class;

/* Is `dataset`, the argument of that name, a dataset that exists? Records what is wrong. */
static inline haul_status haul__check_dataset(const haul_dataset *dataset, const char *operation)
{
    return haul__check_object(dataset, &haul__dataset_class, operation, "dataset");
}

/* A dataset over `source`, with names of classes (NULL: their numbers), belonging to the innermost scope. With
 * `read_ahead` all examples are read now, by several threads, if they fit into half a gigabyte; later ones each time
 * they are wanted. Takes over the source's context: on failure it has been closed. */
haul_dataset *haul__dataset_make(const haul_dataset_source *source, const char *const *class_names, bool read_ahead,
                                 const char *operation);

/* One example. Any thread. A failure is recorded. */
haul_status haul__dataset_read(const haul_dataset *dataset, int64_t index, void *input, void *target);

#endif
