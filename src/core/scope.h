/* Scopes from inside: one on the C stack, for the length of a call, costs no allocation. */
#ifndef HAUL_CORE_SCOPE_H
#define HAUL_CORE_SCOPE_H

#include "core/object.h"

struct haul__context;

struct haul_scope {
    haul__link            owned; /* a ring; the newest object is owned.next */
    haul_scope           *outer;
    struct haul__context *thread;
    haul__thread_state    saved;
    int                   depth; /* 1 for the outermost */
    bool                  local; /* on the C stack */
};

/* Open `scope`, which stays valid until it is closed. It takes what is made in the meantime, and closing restores the
 * thread's settings. Fails without memory for the thread's context. */
haul_status haul__scope_open(haul_scope *scope, const char *operation);
void        haul__scope_close(haul_scope *scope);

/* Take an object out of `scope`, or out of one that was opened after it, so that it survives: the caller holds its
 * reference then. False if another scope or nobody owns it: nothing has changed. */
bool haul__scope_take(haul_scope *scope, void *object);

#endif
