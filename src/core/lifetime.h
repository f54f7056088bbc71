/* HAUL_DEBUG=lifetimes: no object's memory is used again, and what happened to each is remembered, so that every use of
 * one that is over is found and explained. What is remembered stands in front of the object in memory. */
#ifndef HAUL_CORE_LIFETIME_H
#define HAUL_CORE_LIFETIME_H

#include "core/object.h"

/* Memory for a traced object, whose making is noted; NULL when memory is exhausted. */
void *haul__life_new(size_t bytes);
/* haul__object_bury (core/object.h) for what has no history: a scope. */
void haul__life_bury_block(void *block);

typedef enum haul__life_end { HAUL__HELD, HAUL__POPPED, HAUL__DROPPED, HAUL__RELEASED } haul__life_end;

/* A scope or a user gave the object up here; it may live on. `scope` is the one that was popped. */
void haul__life_event(haul__object *object, haul__life_end how, const haul_scope *scope);
/* Of a dead object: what it was, and how it ended. */
const char *haul__life_text(const haul__object *object);
void        haul__life_history(const haul__object *object, char *out, size_t size);

#endif
