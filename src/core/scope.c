/* Scopes: a per-thread stack. Each scope has a ring of the objects it owns and the thread's settings to restore.
 *
 * Owning an object links it into the ring, so it cannot fail, and an object can leave its scope early at no cost. A
 * scope's address is compared with those of the open scopes before it is dereferenced, so a stale one is refused. */
#include "core/scope.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "core/error.h"
#include "core/guest.h"
#include "core/lifetime.h"
#include "core/small_blocks.h"
#include "core/thread.h"

static void unlink_object(haul__object *object)
{
    HAUL__ASSERT(object->scope && object->link.prev->next == &object->link && object->link.next->prev == &object->link);
    object->link.prev->next = object->link.next;
    object->link.next->prev = object->link.prev;
    object->scope = NULL;
}

static inline void enter(haul_scope *scope, haul__context *context, const char *name, haul__scope_memory memory,
                         bool library)
{
    HAUL__ASSERT(!context->innermost || context->innermost->thread == context);
    scope->mark = HAUL__SCOPE_MARK;
    scope->name = name;
    scope->owned.next = scope->owned.prev = &scope->owned;
    scope->outer = context->innermost;
    scope->thread = context;
    scope->saved = context->state;
    scope->depth = scope->outer ? scope->outer->depth + 1 : 1;
    scope->memory = memory;
    scope->library = library;
    context->innermost = scope;
}

static inline haul_scope *push(const char *name, bool library)
{
    bool           traced = haul__traces_lifetimes();
    haul__context *context = haul__context_get();
    haul_scope    *scope = NULL;
    if (context)
        scope = traced ? haul__malloc(sizeof *scope) : haul__small_alloc(sizeof *scope);
    if (!scope) {
        haul__fail_memory("haul_scope_push", sizeof *scope);
        return NULL;
    }
    enter(scope, context, name, traced ? HAUL__SCOPE_TRACED : HAUL__SCOPE_SMALL, library);
    return scope;
}

haul_scope *haul_scope_push_named(const char *name)
{
    return push(name, false);
}

haul_scope *haul_scope_push(void)
{
    return push(NULL, false);
}

haul_scope *haul__scope_push(const char *name)
{
    return push(name, true);
}

haul_status haul__scope_open(haul_scope *scope, const char *operation)
{
    haul__context *context = haul__context_get();
    if (!context)
        return haul__fail_memory(operation, sizeof *scope);
    enter(scope, context, operation, HAUL__SCOPE_LOCAL, true);
    return HAUL_OK;
}

const haul__thread_state *haul__scope_settings(void)
{
    const haul__thread_state *settings = &haul__tls.state;
    for (const haul_scope *s = haul__tls.innermost; s && s->library && s->depth > haul__tls.guest.floor; s = s->outer)
        settings = &s->saved;
    return settings;
}

/* In a thread's base state all of them are NULL. */
static void *outer_held(const haul_scope *scope, haul__object_setting which)
{
    return scope ? scope->saved.held[which] : NULL;
}

bool haul__thread_hold(haul__object_setting which, void *object)
{
    haul__context *context = haul__context_get();
    if (!context)
        return false;
    void *outer = outer_held(context->innermost, which), *before = context->state.held[which];
    if (object != outer)
        haul__object_keep(object);
    context->state.held[which] = object;
    if (before != outer)
        haul__object_release(before);
    return true;
}

/* True if the scope holds objects for the thread's settings. Usually it does not. */
static inline bool holds(const haul__context *context, const haul_scope *scope)
{
    uintptr_t different = 0;
    for (int i = 0; i < HAUL__OBJECT_SETTINGS; i++)
        different |= (uintptr_t)context->state.held[i] ^ (uintptr_t)scope->saved.held[i];
    return __builtin_expect(different != 0, 0);
}

/* Releases them, and restores the settings. */
static void release_held(haul__context *context, const haul_scope *scope)
{
    for (int i = 0; i < HAUL__OBJECT_SETTINGS; i++) {
        void *over = context->state.held[i];
        context->state.held[i] = scope->saved.held[i];
        if (over != scope->saved.held[i])
            haul__object_release(over);
    }
}

/* Destructors may open scopes or make objects; objects they make land in this scope and are released with it. */
void haul__scope_release(haul_scope *scope)
{
    while (scope->owned.next != &scope->owned) {
        haul__object *object = (haul__object *)((char *)scope->owned.next - offsetof(haul__object, link));
        HAUL__ASSERT(object->scope == scope && haul__exists(object) && atomic_load(&object->refs) > 0);
        unlink_object(object);
        if (__builtin_expect(object->traced, 0))
            haul__life_event(object, HAUL__POPPED, scope);
        haul__object_release(object);
    }
}

static void pop_innermost(haul__context *context)
{
    haul_scope *scope = context->innermost;
    haul__scope_release(scope);
    HAUL__ASSERT(context->innermost == scope && scope->thread == context); /* destructors closed their scopes */
    if (holds(context, scope))
        release_held(context, scope);
    context->state = scope->saved;
    context->innermost = scope->outer;
    if (scope->memory == HAUL__SCOPE_SMALL)
        haul__small_free(scope, sizeof *scope);
    else if (scope->memory == HAUL__SCOPE_TRACED)
        haul__life_bury_block(scope);
    haul__context_settle(context);
}

bool haul__scope_is_open(const haul_scope *scope)
{
    for (const haul_scope *s = haul__tls.innermost; s; s = s->outer)
        if (s == scope)
            return true;
    return false;
}

static inline haul_status check_open(const haul_scope *scope, const char *operation)
{
    if (!scope)
        return haul__fail_null(operation, "scope");
    if (haul__scope_is_open(scope))
        return HAUL_OK;
    return haul__fail(HAUL_STATE, operation, "scope",
                      "the scope is not open on this thread: it was popped already, or pushed by another thread; pop "
                      "each scope once, on the thread that pushed it");
}

haul_status haul__scope_check(const haul_scope *scope, const char *operation)
{
    return check_open(scope, operation);
}

/* HAUL_OK if the scope is open, and the function that runs now may close it. */
static inline haul_status check_closable(const haul_scope *scope, const char *operation)
{
    haul_status status = check_open(scope, operation);
    if (status || __builtin_expect(scope->depth > haul__tls.guest.floor, 1))
        return status;
    return haul__guest_may_close(scope->depth, operation);
}

static void pop_to(haul_scope *scope)
{
    haul_scope *outer = scope->outer;
    HAUL__ASSERT(haul__scope_is_open(scope));
    while (haul__tls.innermost != outer)
        pop_innermost(&haul__tls);
}

void haul__scope_close(haul_scope *scope)
{
    haul__context *context = &haul__tls;
    if (context->innermost != scope || scope->owned.next != &scope->owned || holds(context, scope) || context->keeps ||
        scope->memory != HAUL__SCOPE_LOCAL) {
        pop_to(scope);
        return;
    }
    HAUL__ASSERT(scope->thread == context && scope->mark == HAUL__SCOPE_MARK);
    context->state = scope->saved; /* nothing to release: what pop_innermost does for an empty scope */
    context->innermost = scope->outer;
}

haul_status haul_scope_pop(haul_scope *scope)
{
    if (!scope)
        return HAUL_OK;
    haul_status status = check_closable(scope, "haul_scope_pop");
    if (status)
        return status;
    haul__tls.outcome = HAUL_OK;
    pop_to(scope);
    return haul__tls.outcome;
}

void haul__scope_outcome(haul_status status)
{
    haul__tls.outcome = status;
}

void haul__scope_pop_all(void)
{
    while (haul__tls.innermost)
        pop_innermost(&haul__tls);
    for (int i = 0; i < HAUL__OBJECT_SETTINGS; i++)
        haul__thread_hold((haul__object_setting)i, NULL);
}

/* True if the object is owned by `scope` or by one opened after it. */
static bool owned_within(const haul__object *object, const haul_scope *scope)
{
    HAUL__ASSERT(haul__scope_is_open(scope));
    if (!object->scope)
        return false;
    for (const haul_scope *s = haul__tls.innermost; s != scope->outer; s = s->outer)
        if (s == object->scope)
            return true;
    return false;
}

bool haul__scope_take(haul_scope *scope, void *object)
{
    if (!owned_within(object, scope))
        return false;
    unlink_object(object);
    return true;
}

void haul__scope_hand_over(haul_scope *scope, void *object)
{
    if (!scope->outer || !owned_within(object, scope))
        return;
    unlink_object(object);
    haul__scope_link(scope->outer, object);
}

/* Passes the result to `outer` before `scope` is popped. A result that no scope owns may be held by an object that a
 * scope owns, as a parameter is held by its module. If the last holder ends with `scope`, `outer` owns the result. */
static void pop_around(haul_scope *scope, haul__object *result)
{
    haul_scope *outer = scope->outer;
    bool        owned = result->scope != NULL;
    if (owned_within(result, scope)) {
        unlink_object(result);
        haul__scope_link(outer, result);
    }
    HAUL__ASSERT(outer && !haul__is_nobodys(result));
    if (!owned)
        haul__object_keep(result);
    pop_to(scope);
    if (owned)
        return;
    if (atomic_load_explicit(&result->refs, memory_order_acquire) == 1)
        haul__scope_link(outer, result);
    else
        haul__object_release(result);
}

void *haul_scope_return(haul_scope *scope, void *result)
{
    if (check_closable(scope, "haul_scope_return"))
        return NULL;
    if (haul__refuse_object(result, NULL, "haul_scope_return", "result")) {
        result = NULL;
    } else if (!scope->outer) {
        haul__fail(HAUL_STATE, "haul_scope_return", "scope",
                   "no enclosing scope takes the result; push one in the caller");
        result = NULL;
    }
    if (result && !haul__is_nobodys(result))
        pop_around(scope, result);
    else
        pop_to(scope);
    return result;
}

int haul_scope_depth(void)
{
    return haul__tls.innermost ? haul__tls.innermost->depth : 0;
}

/* Records the error of an object that no scope of this thread owns; records nothing for an object without an owner. */
static haul_status refuse_foreign(const haul__object *object, const char *operation)
{
    char text[100];
    if (haul__refuse_object(object, NULL, operation, "object"))
        return haul_error_status();
    if (haul__is_nobodys(object))
        return HAUL_OK;
    return haul__fail(
        HAUL_STATE, operation, "object",
        "the %s belongs to no scope of this thread: it was dropped or taken already, something else holds "
        "it, or another thread made it",
        haul__object_text(object, text, sizeof text));
}

/* True if a scope of this thread owns the object. */
static inline bool is_owned(const haul__object *object)
{
    return haul__exists(object) && object->scope && object->scope->thread == &haul__tls;
}

haul_status haul_drop(void *p)
{
    haul__object *object = p;
    if (!object)
        return HAUL_OK;
    if (!is_owned(object))
        return refuse_foreign(object, "haul_drop");
    unlink_object(object);
    if (__builtin_expect(object->traced, 0))
        haul__life_event(object, HAUL__DROPPED, NULL);
    haul__object_release(object);
    return HAUL_OK;
}

void *haul_take(void *p)
{
    haul__object *object = p;
    if (!p || !is_owned(object))
        return refuse_foreign(object, "haul_take") ? NULL : p;
    unlink_object(object);
    atomic_fetch_add_explicit(&object->kept, 1, memory_order_relaxed);
    return p;
}

void *haul__own(void *p, const char *operation)
{
    haul__object *object = p;
    if (!object) {
        if (haul_error_status() == HAUL_OK)
            haul__fail_memory(operation, 0);
        return NULL;
    }
    if (!haul__tls.innermost) {
        haul__fail(
            HAUL_STATE, operation, NULL,
            "no scope is open on this thread to own the new %s; call haul_scope_push() first, and haul_scope_pop() "
            "when its objects are no longer needed",
            object->type->name);
        haul__object_release(object);
        return NULL;
    }
    HAUL__ASSERT(!object->scope && atomic_load(&object->refs) > 0);
    haul__made_by(object, operation);
    haul__scope_link(haul__tls.innermost, object);
    return object;
}
