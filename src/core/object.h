/* The common head of everything a user can hold: a class, a reference count, and what shows wrong uses.
 *
 * Releasing is iterative: destroying an object may release others; those are queued, not recursed into, so that a
 * graph of a million nodes does not use a million stack frames.
 *
 * A pointer that a user passes is looked at before it is believed. Every object has a mark, and so do devices and
 * scopes, at the same offset, so that one passed for the other is recognised. When an object is destroyed its class
 * becomes haul__dead_class. Its memory goes to lists of small blocks and is never given back to the system
 * (core/alloc.h), so a stale pointer is recognised at least until the memory is used again. With HAUL_DEBUG=lifetimes
 * it is never used again, and what happened to the object is remembered (core/lifetime.h). */
#ifndef HAUL_CORE_OBJECT_H
#define HAUL_CORE_OBJECT_H

#include <haul/scope.h>
#include <stdatomic.h>
#include <stddef.h>

#include "core/alloc.h"

typedef struct haul__object haul__object;

typedef struct haul__class {
    const char *name;
    void (*destroy)(void *object); /* release what it holds, free its memory; NULL: it lives forever */
    /* Optional: what it is, in words for messages, "tensor f32[3,4] on cpu". Also called, when it is over and `dead`
     * says so, on what destroy leaves of the object itself. */
    void (*describe)(const void *object, bool dead, char *out, size_t size);
} haul__class;

/* The class of what was destroyed. */
extern const haul__class haul__dead_class;

/* Marks, at the same offset in objects, scopes and devices. */
typedef enum haul__mark {
    HAUL__OBJECT_MARK = 0x6a624f48, /* "HObj" */
    HAUL__SCOPE_MARK = 0x70635348,
    HAUL__DEVICE_MARK = 0x76654448
} haul__mark;
#define HAUL__MARK_OFFSET 12

/* A place in a ring: of the objects a scope owns, or (next only) of those waiting to be destroyed. */
typedef struct haul__link haul__link;
struct haul__link {
    haul__link *next, *prev;
};

struct haul__object {
    const haul__class *type;
    atomic_int         refs; /* of users, scopes and the library together */
    uint32_t           mark;
    union {
        haul_scope        *scope; /* the owner; NULL when none */
        const haul__class *was;   /* of a dead one: its class */
    };
    haul__link link;   /* a list of free blocks may overwrite this and what follows up to the end */
    atomic_int kept;   /* references that haul_keep and haul_take gave away */
    uint32_t   traced; /* with HAUL_DEBUG=lifetimes, if made by haul__object_new */
};

/* HAUL_NONE and the like, which belong to nobody and live as long as the process: not to be counted or linked. Of
 * objects that exist. */
static inline bool haul__is_nobodys(const haul__object *object)
{
    return !object->type->destroy;
}

/* The head of an object in memory of any kind. */
static inline void haul__object_init(haul__object *object, const haul__class *type)
{
    object->type = type;
    atomic_init(&object->refs, 1);
    object->mark = HAUL__OBJECT_MARK;
    object->scope = NULL;
    atomic_init(&object->kept, 0);
    object->traced = 0;
}

/* HAUL_DEBUG=lifetimes (core/lifetime.h). 0: it was not looked at yet; 1: off; 2: on. */
extern atomic_int haul__lifetimes_state;
bool              haul__lifetimes_begin(void);

static inline bool haul__traces_lifetimes(void)
{
    int state = atomic_load_explicit(&haul__lifetimes_state, memory_order_relaxed);
    return __builtin_expect(state != 1, 0) && (state == 2 || haul__lifetimes_begin());
}

void *haul__object_new_traced(size_t bytes, const haul__class *type);
/* A traced object is over: its memory stays, but does not count as a live block. */
void haul__object_bury(haul__object *object);
void haul__life_made_by(haul__object *object, const char *operation);

/* Say who made an object that no scope will own but users see. */
static inline void haul__made_by(haul__object *object, const char *operation)
{
    if (__builtin_expect(object->traced, 0))
        haul__life_made_by(object, operation);
}

/* Memory for an object of `bytes` that users see, with its head filled in: one reference, no owner. NULL when memory is
 * exhausted, with nothing recorded. `destroy` calls haul__object_free last. */
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

static inline void haul__object_free(haul__object *object, size_t bytes)
{
    object->was = object->type;
    object->type = &haul__dead_class;
    if (__builtin_expect(object->traced, 0))
        haul__object_bury(object);
    else
        haul__small_free(object, bytes);
}

void haul__object_keep(void *object);            /* NULL is ignored */
void haul__object_release(void *object);         /* NULL is ignored */
bool haul__object_is_shared(const void *object); /* is there a reference beside the caller's? */

/* Is `p`, which is not NULL, an object that is not over? */
static inline bool haul__exists(const haul__object *p)
{
    return p->mark == HAUL__OBJECT_MARK && p->type != &haul__dead_class;
}

/* Is `p`, the argument of that name, an object that is not over, and of class `type` unless that is NULL? Otherwise
 * records what it is instead, and returns the status recorded. */
haul_status haul__refuse_object(const void *p, const haul__class *type, const char *operation, const char *argument);

static inline haul_status haul__check_object(const void *p, const haul__class *type, const char *operation,
                                             const char *argument)
{
    const haul__object *object = p;
    return __builtin_expect(object && object->type == type, 1) ? HAUL_OK
                                                               : haul__refuse_object(object, type, operation, argument);
}

/* What it is, in words: "tensor f32[3,4] on cpu". Returns `out`. */
const char *haul__object_text(const haul__object *object, char *out, size_t size);

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
    HAUL__THREADS, /* 0: as many as the process */
    HAUL__SETTINGS
} haul__setting;

/* Settings that are objects. NULL is the default. */
typedef enum haul__object_setting { HAUL__GENERATOR, HAUL__BUDGET, HAUL__OBJECT_SETTINGS } haul__object_setting;

/* The thread's settings that a scope restores. */
typedef struct haul__thread_state {
    haul_device *device; /* NULL: the CPU */
    bool         no_grad;
    uint32_t     words[HAUL__SETTINGS];
    void        *held[HAUL__OBJECT_SETTINGS]; /* each scope holds what differs from what it restores */
} haul__thread_state;

/* Put an object in place of the thread's present one until the innermost scope is popped, which holds it. False, with
 * nothing recorded, without memory for the thread's context. */
bool haul__thread_hold(haul__object_setting which, void *object);

/* An object that a room keeps with the thread for as long as the word of its setting is not 0. Keeping takes over a
 * reference; false, with the reference still the caller's, if the thread can keep nothing. */
bool  haul__thread_keep(haul__setting setting, void *object);
void *haul__thread_kept(haul__setting setting); /* NULL: none */
/* To be called when a word may have become 0, but for scopes, which see to it. */
void haul__thread_settle(void);

#endif
