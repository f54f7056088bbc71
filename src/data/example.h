/* The memory of an example that is being read: for each field two buffers, which take turns, and the place in the batch
 * where the finished value belongs. */
#ifndef HAUL_DATA_EXAMPLE_H
#define HAUL_DATA_EXAMPLE_H

#include "data/fields.h"

typedef struct haul__example_room {
    const haul__fields *wanted;                  /* the fields in the end */
    void               *places[HAUL_MAX_FIELDS]; /* for values of their size; NULL: none */
    struct {
        void  *memory[2];
        size_t capacity[2];
    } buffers[HAUL_MAX_FIELDS];
} haul__example_room;

/* An example without values whose fields are those of `fields`. `room` stays with the example. */
void haul__example_begin(haul_example *e, const haul__fields *fields);

/* Memory for all values of `fields` that do not vary. */
haul_status haul__example_prepare(haul_example *e, const haul__fields *fields, const char *operation);

/* Are the values of the example, which `who` made, those of `fields`? */
haul_status haul__example_check(const haul_example *e, const haul__fields *fields, const char *who);

void haul__example_room_free(haul__example_room *room);

#endif
