/* The memory of an example that is being read: two buffers for each field, used in turn, and the place in the batch for
 * the finished value. */
#ifndef HAUL_DATA_EXAMPLE_H
#define HAUL_DATA_EXAMPLE_H

#include "data/fields.h"

/* A dataset on the way to the one that reads the example, and the example's index there. */
typedef struct haul__example_step {
    const haul_dataset *dataset;
    int64_t             index;
} haul__example_step;

typedef struct haul__example_memory {
    const haul__fields *wanted;                   /* the final fields */
    void               *targets[HAUL_MAX_FIELDS]; /* for values with their final size; NULL: none */
    haul_value          given[HAUL_MAX_FIELDS];   /* the memory that each field has, and what fits there */
    struct {
        void  *memory[2];
        size_t capacity[2];
    } buffers[HAUL_MAX_FIELDS];
    haul__example_step *steps; /* outermost first */
    size_t              step_capacity;
} haul__example_memory;

/* An example without values, with the fields in `fields`. `memory` is used as long as the example is. */
void haul__example_begin(haul_example *e, const haul__fields *fields);

/* Allocates all values of `fields` that do not vary in size. */
haul_status haul__example_prepare(haul_example *e, const haul__fields *fields, const char *operation);

/* Calls a function of the program to read or transform the example, which must leave everything in its place but the
 * elements: the fields' memory, dtypes and shapes change only by haul_example_resize. Fails if it does not. */
haul_status haul__example_call(haul_example *e, haul_example_function *function, void *context, const char *who);

/* Checks that the values of the example, which `who` made, match `fields`. */
haul_status haul__example_check(const haul_example *e, const haul__fields *fields, const char *who);

/* Bools of a checked example that are neither 0 nor 1, as a function of the program may leave them, become 1. */
void haul__example_normalise(const haul_example *e, const haul__fields *fields);

void haul__example_memory_free(haul__example_memory *memory);

#endif
