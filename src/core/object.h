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
    void (*destroy)(void *object); /* release what it holds, free its memory; NULL: it lives forever */
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

/* HAUL_NONE and the like, which belong to nobody and live as long as the process: not to be counted or linked. */
static inline bool haul__is_nobodys(const haul__object *object)
{
    return !object->type->destroy;
}

void haul__object_init(haul__object *object, const haul__class *type); /* refs = 1 */
void haul__object_keep(void *object);                                  /* NULL is ignored */
void haul__object_release(void *object);                               /* NULL is ignored */
bool haul__object_is_shared(const void *object);                       /* is there a reference beside the caller's? */

/* Hand a fresh object (refs 1) to the innermost scope. Returns it; with no scope open releases it, records the error
 * and returns NULL. A NULL object gives NULL: the error that made it so is kept, and where there is none, host memory
 * is said to be exhausted. `operation` names who made it. */
void *haul__own(void *object, const char *operation);

/* Settings that rooms above keep with a thread, a word each. What a word says is for its room to define; threads begin
 * with zeros. */
typedef enum haul__setting {
    HAUL__PLACEMENT,
    HAUL__PRECISION,
    HAUL__AUTOCAST,
    HAUL__DRY_RUN,
    HAUL__SETTINGS
} haul__setting;

/* The thread's settings that a scope restores. */
typedef struct haul__thread_state {
    haul_device *device; /* NULL: the CPU */
    bool         no_grad;
    uint32_t     words[HAUL__SETTINGS];
} haul__thread_state;

/* An object that a room keeps with the thread for as long as the word of its setting is not 0. Keeping takes over a
 * reference; false, with the reference still the caller's, if the thread can keep nothing. */
bool  haul__thread_keep(haul__setting setting, void *object);
void *haul__thread_kept(haul__setting setting); /* NULL: none */
/* To be called when a word may have become 0, but for scopes, which see to it. */
void haul__thread_settle(void);

#endif
