/* Rows of arrays in mapped files: shared by npy files and shards. */
#ifndef HAUL_DATA_ARRAYS_H
#define HAUL_DATA_ARRAYS_H

#include <haul/dataset.h>

#include "files/file.h"
#include "formats/npy.h"

/* The elements of one field in one file. */
typedef struct haul__array {
    haul__mapping *mapping; /* holds a reference; NULL for an empty array */
    const uint8_t *data;
    bool           big_endian;
} haul__array;

/* A part of the dataset: `rows` examples, in one array for each field. */
typedef struct haul__shard {
    int64_t      first, rows;
    haul__array *arrays; /* [fields] */
} haul__shard;

typedef struct haul__arrays {
    char        *name;
    haul_field   fields[HAUL_MAX_FIELDS]; /* owns the names */
    size_t       bytes[HAUL_MAX_FIELDS];  /* of an example */
    int          field_count;
    haul__shard *shards;
    size_t       count, capacity;
} haul__arrays;

haul__arrays *haul__arrays_new(const char *name, const char *operation);
void          haul__arrays_free(haul__arrays *a);

/* Adds a field, before there is any shard. `shape` is the shape of all rows, at least 1-d. */
haul_status haul__arrays_add_field(haul__arrays *a, const char *name, size_t length, haul_dtype dtype,
                                   const haul_shape *shape, const char *operation);
/* Checks that field `f` has this dtype and shape, except for the number of rows. If not, HAUL_FORMAT. */
haul_status haul__arrays_check_field(const haul__arrays *a, int f, haul_dtype dtype, const haul_shape *shape,
                                     const char *path, const char *operation);
/* Adds a shard, whose arrays the caller sets. NULL, with the error recorded. */
haul__shard *haul__arrays_add_shard(haul__arrays *a, int64_t rows, const char *operation);

/* The array in an npy file, with its header in *head. */
haul_status haul__array_open_npy(haul__array *array, const char *path, haul__npy *head, const char *operation);

/* The dataset, which takes over the arrays. */
haul_dataset *haul__arrays_dataset(haul__arrays *a, const char *operation);

#endif
