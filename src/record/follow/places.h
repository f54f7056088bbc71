/* The order of commands in an arena whose stores are used by several devices.
 *
 * Stores have bytes of an arena one after the other. If they shared one record of uses, each command that writes a
 * store would wait for all earlier commands in the arena: a copy to a device, for what the device computes. In a
 * variant with several devices each store has a record of its own. When a call makes a store, the store's record takes
 * over the uses of those that had its bytes before: `haul__segment` says which did.
 *
 * The arena's record has all uses. A variant that runs after another one waits for them. */
#ifndef HAUL_RECORD_FOLLOW_PLACES_H
#define HAUL_RECORD_FOLLOW_PLACES_H

#include "record/follow/variant.h"

/* True if its stores have records of their own. */
bool haul__places_apart(const haul__variant *v, const haul__arenas *arenas);

/* Gives a store in the arena its record. */
void haul__place_uses(haul__inside *s, const haul__storage *arena, bool apart);

/* Forgets who had which bytes, because stores have got other places. */
void haul__places_forget(haul__variant *v);

/* Before a run. */
haul_status haul__places_begin(haul__variant *v, haul__arenas *arenas);

/* Before a call computes: it makes its results and its scratch memory. Does nothing if stores share their record. */
haul_status haul__places_make(haul__variant *v, const haul__replayed *r);

void haul__places_free(haul__variant *v);

#endif
