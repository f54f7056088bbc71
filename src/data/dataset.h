/* The dataset object, for the readers of formats and the loader. */
#ifndef HAUL_DATA_DATASET_H
#define HAUL_DATA_DATASET_H

#include <haul/dataset.h>
#include <haul/transform.h>
#include <string.h>

#include "core/object.h"
#include "core/tensor.h"
#include "data/fields.h"

/* A file that a dataset reads: its path, and the end of the path that stays when the folder of the data moves. */
typedef struct haul__data_file {
    const char *path, *name;
    uint64_t    content; /* a hash of its bytes; 0: they were not all read */
} haul__data_file;

/* The only file of a dataset that reads an archive. */
static inline haul__data_file haul__archive_file(const char *archive, int64_t index)
{
    const char *slash = strrchr(archive, '/');
    if (index)
        return (haul__data_file){.path = NULL};
    return (haul__data_file){.path = archive, .name = slash ? slash + 1 : archive};
}

/* File `index` of a source, counted from 0; without a path after the last one. */
typedef haul__data_file haul__data_file_function(const void *context, int64_t index);

/* Finds an example of a dataset that consists of others: returns the one that has it, and changes *index to its index
 * there. */
typedef haul_dataset *haul__dataset_choose(const void *context, int64_t *index);

/* A dataset reads examples with a function, maps those of another dataset, or chooses among those of others. */
struct haul_dataset {
    haul__object  object;
    haul__fields *fields;
    int64_t       count; /* or HAUL_UNKNOWN */
    char         *name;

    haul_example_function *read; /* NULL if it maps or chooses */
    haul__dataset_choose  *choose;
    void (*close)(void *context);
    haul__data_file_function *file; /* NULL: the files are not known */
    void                     *context;
    uint8_t                  *ahead[HAUL_MAX_FIELDS]; /* all examples, if they were read ahead; else NULL */
    haul__storage            *kept;                   /* their memory: from the CPU's allocator */
    uint8_t                  *own;                    /* or from haul__malloc */

    haul_dataset    *base; /* of a mapped dataset; else NULL */
    haul_transform **transforms;
    int              transform_count;
};

extern const haul__class haul__dataset_class;

/* Checks that `dataset`, the argument of that name, is a live dataset; records an error if not. */
static inline haul_status haul__check_dataset(const haul_dataset *dataset, const char *operation)
{
    return haul__check_object(dataset, &haul__dataset_class, operation, "dataset");
}

typedef enum haul__dataset_kind {
    HAUL__READ_EACH, /* whenever an example is needed */
    HAUL__READ_AHEAD /* all when it is made, by several threads, if they fit into half a gigabyte */
} haul__dataset_kind;

/* A dataset over `source` that the innermost scope owns. Takes over the source's context, which is closed on
 * failure. */
haul_dataset *haul__dataset_make(const haul_dataset_source *source, haul__dataset_kind kind, const char *operation);

/* `count` examples of datasets that `context` holds, which have the fields and the name of `like`. Takes over the
 * context, as haul__dataset_make does. */
haul_dataset *haul__dataset_of(const haul_dataset *like, int64_t count, haul__dataset_choose *choose,
                               void (*close)(void *context), void *context, const char *operation);

/* `base` followed by transforms, which it holds, and the resulting fields. */
haul_dataset *haul__dataset_map(haul_dataset *base, haul_transform *const *transforms, int count,
                                const haul_field *fields, int field_count, const char *operation);

/* File `index` that the dataset itself reads, in a fixed order; without a path after the last one, and for datasets
 * that read no files, that do not name them, or that take examples from other datasets. */
haul__data_file haul__dataset_file(const haul_dataset *dataset, int64_t index);

/* Reads example e->index, with e->epoch, e->draws and e->haul__memory set. Any thread may call it; a failure is
 * recorded. If the dataset's count is unknown, returns HAUL_END_OF_DATA, without recording an error, after its end. */
haul_status haul__dataset_read(const haul_dataset *dataset, haul_example *e);

/* Its two parts for a dataset whose count is unknown: the one that must happen in order, and the rest. */
haul_status haul__dataset_fetch(const haul_dataset *dataset, haul_example *e);
haul_status haul__dataset_finish(const haul_dataset *dataset, haul_example *e);

#endif
