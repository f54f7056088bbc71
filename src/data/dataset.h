/* What stands behind a dataset, for the readers of formats and the loader. */
#ifndef HAUL_DATA_DATASET_H
#define HAUL_DATA_DATASET_H

#include <haul/dataset.h>
#include <haul/transform.h>

#include "core/object.h"
#include "data/fields.h"

/* A dataset reads examples by a function, or maps those of another one. */
struct haul_dataset {
    haul__object  object;
    haul__fields *fields;
    int64_t       count; /* or HAUL_UNKNOWN */
    char         *name;

    haul_example_function *read;
    void (*close)(void *context);
    void    *context;
    bool     nested;                 /* `read` reads other datasets, which prepare the example */
    uint8_t *ahead[HAUL_MAX_FIELDS]; /* all examples, when they were read ahead; else NULL */

    haul_dataset    *base; /* of a mapped one; else NULL */
    haul_transform **transforms;
    int              transform_count;
};

extern const haul__class haul__dataset_class;

/* Is `dataset`, the argument of that name, a dataset that exists? Records what is wrong. */
static inline haul_status haul__check_dataset(const haul_dataset *dataset, const char *operation)
{
    return haul__check_object(dataset, &haul__dataset_class, operation, "dataset");
}

typedef enum haul__dataset_kind {
    HAUL__READ_EACH,  /* each time an example is wanted */
    HAUL__READ_AHEAD, /* all now, by several threads, if they fit into half a gigabyte */
    HAUL__READ_NESTED /* `read` calls haul__dataset_read */
} haul__dataset_kind;

/* A dataset over `source` that belongs to the innermost scope. Takes over the source's context: on failure it has been
 * closed. */
haul_dataset *haul__dataset_make(const haul_dataset_source *source, haul__dataset_kind kind, const char *operation);

/* `base` with transforms behind it, all of which it holds, and the fields that they lead to. */
haul_dataset *haul__dataset_map(haul_dataset *base, haul_transform *const *transforms, int count,
                                const haul_field *fields, int field_count, const char *operation);

/* Read example e->index, with e->epoch, e->draws and e->haul__room set. Any thread; a failure is recorded. Of a dataset
 * without a known count HAUL_END_OF_DATA, with nothing recorded, past its end. */
haul_status haul__dataset_read(const haul_dataset *dataset, haul_example *e);

/* The two parts of this: what must be done in order if the count is unknown, and what need not be. */
haul_status haul__dataset_fetch(const haul_dataset *dataset, haul_example *e);
haul_status haul__dataset_finish(const haul_dataset *dataset, haul_example *e);

#endif
