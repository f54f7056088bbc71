/* The internal interface of scopes. A scope on the C stack, for the length of a call, costs no allocation. */
#ifndef HAUL_CORE_SCOPE_H
#define HAUL_CORE_SCOPE_H

#include "core/tensor.h"
#include "core/thread.h"

/* Where the scope is: on the C stack, among the small blocks, or (HAUL_DEBUG=lifetimes) in memory that stays after the
 * pop. */
typedef enum haul__scope_memory { HAUL__SCOPE_LOCAL, HAUL__SCOPE_SMALL, HAUL__SCOPE_TRACED } haul__scope_memory;

struct haul_scope {
    haul_scope        *outer;
    int                depth; /* 1 for the outermost */
    uint32_t           mark;  /* HAUL__SCOPE_MARK: not an object */
    haul__link         owned; /* a ring; the newest object is owned.next */
    haul__context     *thread;
    haul__thread_state saved;
    const char        *name; /* for messages; NULL: no name */
    haul__scope_memory memory;
    bool               library; /* a function of the library opened it */
};

/* Opens `scope`, which must stay valid until it is closed. It owns the objects made in the meantime, and closing it
 * restores the thread's settings. Fails if there is no memory for the thread's context. */
haul_status haul__scope_open(haul_scope *scope, const char *operation);
void        haul__scope_close(haul_scope *scope);

/* The same in memory that outlives the call, for a function that passes results on. haul_scope_pop or
 * haul__scope_close closes it. name: may be NULL. */
haul_scope *haul__scope_push(const char *name);

/* Releases what the innermost scope owns; it stays open. The second form calls no function if it owns nothing. */
void               haul__scope_release(haul_scope *scope);
static inline void haul__scope_empty(haul_scope *scope)
{
    if (__builtin_expect(scope->owned.next != &scope->owned, 0))
        haul__scope_release(scope);
}

/* The thread's settings as the program's code left them: without the changes by functions of the library that are
 * running. */
const haul__thread_state *haul__scope_settings(void);

static inline void haul__scope_link(haul_scope *scope, haul__object *object)
{
    object->scope = scope;
    object->link.prev = &scope->owned;
    object->link.next = scope->owned.next;
    scope->owned.next->prev = &object->link;
    scope->owned.next = &object->link;
}

/* haul__own, inlined, for a fresh tensor. */
static inline haul_tensor *haul__own_tensor(haul_tensor *t, const char *operation)
{
    haul_scope *scope = haul__tls.innermost;
    if (__builtin_expect(!scope || t->object.traced, 0))
        return haul__own(t, operation);
    haul__scope_link(scope, &t->object);
    return t;
}

bool haul__scope_is_open(const haul_scope *scope); /* on this thread */

/* Fails if the scope is not open on this thread. */
haul_status haul__scope_check(const haul_scope *scope, const char *operation);

/* For the destructor of an object that a scope owns: haul_scope_pop, which ends the object, returns this status. */
void haul__scope_outcome(haul_status status);

/* Removes an object from `scope`, or from one opened after it, so that it survives; the caller then holds its
 * reference. Returns false, and changes nothing, if another scope owns it, or none. The object must be live. */
bool haul__scope_take(haul_scope *scope, void *object);

/* Passes an object that `scope`, or one opened after it, owns to the enclosing scope. Does nothing if another scope
 * owns it, or if there is no enclosing scope. */
void haul__scope_hand_over(haul_scope *scope, void *object);

#endif
