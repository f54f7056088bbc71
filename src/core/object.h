/* The common head of everything a user can hold: a class, a reference count, and marks that expose wrong uses.
 *
 * Releasing is iterative. Destroying an object may release others; those are queued rather than destroyed recursively,
 * so a graph of a million nodes does not use a million stack frames.
 *
 * A pointer that a user passes is checked before it is trusted. Every object has a mark, and so do devices and scopes,
 * at the same offset, so one passed for the other is recognised. When an object is destroyed its class becomes
 * haul__dead_class. Its memory goes to lists of small blocks and never returns to the system (base/alloc.h), so a stale
 * pointer is recognised at least until the memory is used again. With HAUL_DEBUG=lifetimes the memory is never used
 * again, and the object's history is kept (core/lifetime.h). */
#ifndef HAUL_CORE_OBJECT_H
#define HAUL_CORE_OBJECT_H

#include <haul/scope.h>
#include <stdatomic.h>
#include <stddef.h>

#include "base/alloc.h"
#include "base/counter.h"
#include "core/small_blocks.h"

typedef struct haul__object haul__object;

typedef struct haul__class {
    const char *name;
    void (*destroy)(void *object); /* releases what it holds and frees its memory; NULL: it lives forever */
    /* Optional: describes the object for messages, "tensor f32[3,4] on cpu". It is also called, with `dead` set, on
     * what destroy leaves of the object. */
    void (*describe)(const void *object, bool dead, char *out, size_t size);
} haul__class;

/* The class of destroyed objects. */
extern const haul__class haul__dead_class;

/* Marks, at the same offset in objects, scopes and devices. */
typedef enum haul__mark {
    HAUL__OBJECT_MARK = 0x6a624f48, /* "HObj" */
    HAUL__SCOPE_MARK = 0x70635348,
    HAUL__DEVICE_MARK = 0x76654448
} haul__mark;
#define HAUL__MARK_OFFSET 12

/* A link in a ring of the objects that a scope owns, or (next only) in the list of those waiting to be destroyed. */
typedef struct haul__link haul__link;
struct haul__link {
    haul__link *next, *prev;
};

struct haul__object {
    const haul__class *type;
    atomic_int         refs; /* held by users, scopes and the library together */
    uint32_t           mark;
    union {
        haul_scope        *scope; /* the owning scope, or NULL */
        const haul__class *was;   /* of a dead object: its former class */
    };
    haul__link link;   /* a list of free blocks may overwrite this field and those after it */
    atomic_int kept;   /* references that haul_keep and haul_take returned */
    uint32_t   traced; /* set with HAUL_DEBUG=lifetimes, if haul__object_new made it */
};

/* HAUL_NONE and similar objects, which have no owner and live as long as the process: they are neither counted nor
 * linked. For live objects. */
static inline bool haul__is_nobodys(const haul__object *object)
{
    return !object->type->destroy;
}

/* Initialises the head of an object, in memory of any kind. */
static inline void haul__object_init(haul__object *object, const haul__class *type)
{
    object->type = type;
    atomic_init(&object->refs, 1);
    object->mark = HAUL__OBJECT_MARK;
    object->scope = NULL;
    atomic_init(&object->kept, 0);
    object->traced = 0;
}

/* HAUL_DEBUG=lifetimes (core/lifetime.h). 0: not read yet; 1: off; 2: on. */
extern atomic_int haul__lifetimes_state;
bool              haul__lifetimes_begin(void);

static inline bool haul__traces_lifetimes(void)
{
    int state = atomic_load_explicit(&haul__lifetimes_state, memory_order_relaxed);
    return __builtin_expect(state != 1, 0) && (state == 2 || haul__lifetimes_begin());
}

void *haul__object_new_traced(size_t bytes, const haul__class *type);
/* A traced object has died: its memory stays, but does not count as a live block. */
void haul__object_bury(haul__object *object);
void haul__life_made_by(haul__object *object, const char *operation);

/* Records who made an object that users see but no scope will own. */
static inline void haul__made_by(haul__object *object, const char *operation)
{
    if (__builtin_expect(object->traced, 0))
        haul__life_made_by(object, operation);
}

/* Memory for an object of `bytes` that users see, with its head initialised: one reference, no owner. Returns NULL,
 * without recording an error, if memory is exhausted. `destroy` calls haul__object_free last. */
static inline void *haul__object_new(size_t bytes, const haul__class *type)
{
    if (haul__traces_lifetimes())
        return haul__object_new_traced(bytes, type);
    haul__object *object = haul__small_alloc(bytes);
    if (object)
        haul__object_init(object, type);
    return object;
}

void *haul__object_new_zeroed(size_t bytes, const haul__class *type);

/* Marks an object as dead before its memory is freed. */
static inline void haul__object_end(haul__object *object)
{
    object->was = object->type;
    object->type = &haul__dead_class;
}

static inline void haul__object_free(haul__object *object, size_t bytes)
{
    haul__object_end(object);
    if (__builtin_expect(object->traced, 0))
        haul__object_bury(object);
    else
        haul__small_free(object, bytes);
}

/* Adds a reference; NULL is ignored. */
static inline void haul__object_keep(void *object)
{
    if (object)
        haul__add_int(&((haul__object *)object)->refs, 1, memory_order_relaxed);
}

/* Removes a reference; returns true if it was the last one, and the caller must destroy the object. */
static inline bool haul__object_ends(haul__object *object)
{
    /* A caller that sees a count of 1 holds the only reference, so no atomic subtraction is needed. */
    return atomic_load_explicit(&object->refs, memory_order_acquire) == 1 ||
           haul__add_int(&object->refs, -1, memory_order_acq_rel) == 1;
}

/* Destroys an object without references, or queues it if another one is being destroyed. */
void haul__object_destroy(haul__object *object);

/* Removes a reference; NULL is ignored. */
static inline void haul__object_release(void *object)
{
    if (object && haul__object_ends(object))
        haul__object_destroy(object);
}

bool haul__object_is_shared(const void *object); /* true if there are references other than the caller's */

/* True if `p`, which is not NULL, is a live object. */
static inline bool haul__exists(const haul__object *p)
{
    return p->mark == HAUL__OBJECT_MARK && p->type != &haul__dead_class;
}

/* Checks that `p`, the argument of that name, is a live object, and of class `type` unless that is NULL. If not,
 * records what it is instead. Returns the status. */
haul_status haul__refuse_object(const void *p, const haul__class *type, const char *operation, const char *argument);

static inline haul_status haul__check_object(const void *p, const haul__class *type, const char *operation,
                                             const char *argument)
{
    const haul__object *object = p;
    return __builtin_expect(object && object->type == type, 1) ? HAUL_OK
                                                               : haul__refuse_object(object, type, operation, argument);
}

/* Describes an object: "tensor f32[3,4] on cpu". Returns `out`. */
const char *haul__object_text(const haul__object *object, char *out, size_t size);

/* Passes a fresh object (refs 1) to the innermost scope and returns it. If no scope is open, releases it, records the
 * error and returns NULL. For a NULL object it returns NULL: it keeps the recorded error, or records that host memory
 * is exhausted. `operation` names the creator. */
void *haul__own(void *object, const char *operation);

/* Settings that layers above keep per thread, a word each. The layer that owns a setting defines its meaning; threads
 * start with zeros. */
typedef enum haul__setting {
    HAUL__PLACEMENT,
    HAUL__PRECISION,
    HAUL__AUTOCAST,
    HAUL__DRY_RUN,
    HAUL__THREADS, /* 0: the process's number */
    HAUL__RECOMPUTE,
    HAUL__ANOMALY,
    HAUL__SETTINGS
} haul__setting;

/* Settings that are objects. NULL is the default. */
typedef enum haul__object_setting {
    HAUL__GENERATOR,
    HAUL__SCOPE_LIMIT,
    HAUL__PLAN,
    HAUL__OBJECT_SETTINGS
} haul__object_setting;

/* The thread's settings that a scope saves and restores. */
typedef struct haul__thread_state {
    haul_device *device; /* NULL: the CPU */
    bool         no_grad;
    uint32_t     words[HAUL__SETTINGS];
    void        *held[HAUL__OBJECT_SETTINGS]; /* the scope holds the objects that differ from those it will restore */
} haul__thread_state;

/* Replaces the thread's object until the innermost scope, which holds the new one, is popped. Returns false, without
 * recording an error, if there is no memory for the thread's context. */
bool haul__thread_hold(haul__object_setting which, void *object);

/* An object that a layer keeps with the thread while the word of its setting is not 0. Takes over the caller's
 * reference; returns false, and leaves the reference with the caller, if the thread cannot keep it. */
bool  haul__thread_keep(haul__setting setting, void *object);
void *haul__thread_kept(haul__setting setting); /* NULL if there is none */
/* Keeps another object, or NULL, instead, and returns the former one. References pass with the objects. */
void *haul__thread_exchange(haul__setting setting, void *object);
/* Call this when a word may have become 0. Scopes do so themselves. */
void haul__thread_settle(void);

#endif
