/* Transforms as objects, and what the built-in ones share. */
#ifndef HAUL_DATA_TRANSFORM_H
#define HAUL_DATA_TRANSFORM_H

#include <haul/transform.h>

#include "core/object.h"

haul_status haul__transform_apply(haul_transform *transform, haul_example *e, const char *who);

/* Checks a field, and says how the transform changes it. */
typedef haul_status haul__plan(const void *context, haul_field *field);

/* What a built-in transform begins with. */
typedef struct haul__named {
    char       *names;
    haul__plan *plan;
    const char *operation;
} haul__named;

/* A context of `bytes` that begins with a haul__named. NULL, with the error recorded. */
void *haul__named_new(size_t bytes, const char *names, haul__plan *plan, const char *operation);
/* The transform, which takes the context over. */
haul_transform *haul__named_transform(void *context, haul_example_function *apply);

/* The number of the next named field of the example; -1 at the end. */
int haul__named_next(const char **names, const haul_example *e);

#endif
