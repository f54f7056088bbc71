/* The common head of everything a user can hold: a class and a reference count.
 *
 * Releasing is iterative: destroying an object may release others; those are queued, not recursed into, so that a
 * graph of a million nodes does not use a million stack frames. */
#ifndef HAUL_CORE_OBJECT_H
#define HAUL_CORE_OBJECT_H

#include <haul/scope.h>
#include <stdatomic.h>

typedef struct haul__object haul__object;

typedef struct haul__class {
    const char *name;
    void (*destroy)(void *object); /* release what it holds, free its memory */
} haul__class;

/* A place in a ring: of the objects a scope owns, or (next only) of those waiting to be destroyed. */
typedef struct haul__link haul__link;
struct haul__link {
    haul__link *next, *prev;
};

struct haul__object {
    const haul__class *type;
    atomic_int         refs;
    haul_scope        *scope; /* the owner; NULL when none */
    haul__link         link;
};

void haul__object_init(haul__object *object, const haul__class *type); /* refs = 1 */
void haul__object_keep(void *object);                                  /* NULL is ignored */
void haul__object_release(void *object);                               /* NULL is ignored */

/* Hand a fresh object (refs 1) to the innermost scope. Returns it; with no scope open releases it, records the error
 * and returns NULL. A NULL object gives NULL: the error that made it so is kept, and where there is none, host memory
 * is said to be exhausted. `operation` names who made it. */
void *haul__own(void *object, const char *operation);

/* The thread's settings that a scope restores. */
typedef struct haul__thread_state {
    haul_device *device; /* NULL: the CPU */
    int          policy; /* haul_policy */
    bool         no_grad;
    bool         tf32;     /* HAUL_PRECISION_HIGH */
    uint32_t     autocast; /* bits of ops/autocast.h; 0: never begun */
} haul__thread_state;

haul__thread_state *haul__thread(void);

#endif
