/* The plan that is in force on a thread: where the operations of a step compute, in the order in which the step calls
 * them. */
#ifndef HAUL_ENGINE_PLACEMENT_PLACING_H
#define HAUL_ENGINE_PLACEMENT_PLACING_H

#include <haul/placement.h>

#include "core/device.h"
#include "core/object.h"
#include "core/thread.h"

/* An operation of the step, outside the optimizer's step: updates are made where the parameters are. */
typedef struct haul__placed {
    char         name[48], module[80]; /* "haul_conv2d", the path of the module that is called */
    haul_device *device;
    char        *why; /* of this structure; NULL: no reason is known */
} haul__placed;

typedef struct haul__placing {
    haul__object  object;
    haul__placed *items;
    size_t        count;
    atomic_size_t next; /* the item that is expected */
} haul__placing;

/* Without items that are filled in; NULL, with the error recorded, if host memory is exhausted. */
haul__placing *haul__placing_new(size_t count, const char *operation);

/* The item of a call: the next one, or the first after it with this name and module. So calls that the step does not
 * make disturb nothing. NULL: the step has none. */
const haul__placed *haul__placing_find(haul__placing *s, const char *name, const char *module);

/* The same, but the item stays expected. */
const haul__placed *haul__placing_peek(haul__placing *s, const char *name, const char *module);

/* Puts it into force until the innermost scope ends; NULL: none. Fails if host memory is exhausted. */
haul_status haul__placing_begin(haul__placing *s, const char *operation);

/* The thread's; NULL: none. */
haul__placing *haul__placing_now(void);

/* True if a plan decides where operations compute: it is in force, under HAUL_PLACE_AUTO. */
static inline bool haul__is_planned(void)
{
    return haul__thread()->words[HAUL__PLACEMENT] == HAUL_PLACE_AUTO && haul__placing_now();
}

#endif
