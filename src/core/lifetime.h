/* HAUL_DEBUG=lifetimes: the memory of an object is never used again, and Haul remembers what happened to the object, so
 * every later use is detected and explained. The history precedes the object in memory. */
#ifndef HAUL_CORE_LIFETIME_H
#define HAUL_CORE_LIFETIME_H

#include "core/object.h"

/* Memory for a traced object, with its creation recorded; NULL if memory is exhausted. */
void *haul__life_new(size_t bytes);
/* haul__object_bury (core/object.h) for a scope, which has no history. */
void haul__life_bury_block(void *block);

typedef enum haul__life_end { HAUL__HELD, HAUL__POPPED, HAUL__DROPPED, HAUL__RELEASED } haul__life_end;

/* A scope or a user gave up the object here; others may still hold it. `scope` is the one that was popped. */
void haul__life_event(haul__object *object, haul__life_end how, const haul_scope *scope);
/* For a dead object: what it was, and how it ended. */
const char *haul__life_text(const haul__object *object);
void        haul__life_history(const haul__object *object, char *out, size_t size);

#endif
