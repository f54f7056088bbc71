/* Scopes from inside: one on the C stack, for the length of a call, costs no allocation. */
#ifndef HAUL_CORE_SCOPE_H
#define HAUL_CORE_SCOPE_H

#include "core/object.h"

struct haul__context;

/* Where it lies: on the C stack; among the small blocks; where it stays when it was popped (HAUL_DEBUG=lifetimes). */
typedef enum haul__scope_memory { HAUL__SCOPE_LOCAL, HAUL__SCOPE_SMALL, HAUL__SCOPE_TRACED } haul__scope_memory;

struct haul_scope {
    haul_scope           *outer;
    int                   depth; /* 1 for the outermost */
    uint32_t              mark;  /* HAUL__SCOPE_MARK: it is not an object */
    haul__link            owned; /* a ring; the newest object is owned.next */
    struct haul__context *thread;
    haul__thread_state    saved;
    const char           *name; /* for messages; NULL: it has none */
    haul__scope_memory    memory;
};

/* Open `scope`, which stays valid until it is closed. It takes what is made in the meantime, and closing restores the
 * thread's settings. Fails without memory for the thread's context. */
haul_status haul__scope_open(haul_scope *scope, const char *operation);
void        haul__scope_close(haul_scope *scope);

/* Refuses a scope that is not open on this thread. */
haul_status haul__scope_check(const haul_scope *scope, const char *operation);

/* Take an object out of `scope`, or out of one that was opened after it, so that it survives: the caller holds its
 * reference then. False if another scope or nobody owns it: nothing has changed. The object must be alive. */
bool haul__scope_take(haul_scope *scope, void *object);

/* Hand an object that `scope` owns, or one that was opened after it, to the scope around it. Nothing happens if another
 * one owns it, or if there is none around. */
void haul__scope_hand_over(haul_scope *scope, void *object);

#endif
