/* Scopes: a stack a thread, each with a ring of the objects it owns and the thread's settings to restore.
 *
 * Owning is linking into the ring, so it cannot fail, and an object can leave its scope early at no cost. A scope's
 * address is compared with those of the open scopes before it is looked at, so a stale one is refused, not followed. */
#include "core/scope.h"

#include <haul/tensor.h>

#include "core/alloc.h"
#include "core/error.h"
#include "core/thread.h"

static void unlink_object(haul__object *object)
{
    object->link.prev->next = object->link.next;
    object->link.next->prev = object->link.prev;
    object->scope = NULL;
}

static void link_object(haul_scope *scope, haul__object *object)
{
    object->scope = scope;
    object->link.prev = &scope->owned;
    object->link.next = scope->owned.next;
    scope->owned.next->prev = &object->link;
    scope->owned.next = &object->link;
}

static void enter(haul_scope *scope, haul__context *context, bool local)
{
    scope->owned.next = scope->owned.prev = &scope->owned;
    scope->outer = context->innermost;
    scope->thread = context;
    scope->saved = context->state;
    scope->depth = scope->outer ? scope->outer->depth + 1 : 1;
    scope->local = local;
    context->innermost = scope;
}

haul_scope *haul_scope_push(void)
{
    haul__context *context = haul__context_get();
    haul_scope    *scope = context ? haul__small_alloc(sizeof *scope) : NULL;
    if (!scope) {
        haul__fail_memory("haul_scope_push", sizeof *scope);
        return NULL;
    }
    enter(scope, context, false);
    return scope;
}

haul_status haul__scope_open(haul_scope *scope, const char *operation)
{
    haul__context *context = haul__context_get();
    if (!context)
        return haul__fail_memory(operation, sizeof *scope);
    enter(scope, context, true);
    return HAUL_OK;
}

/* Close the innermost scope. What its objects do when they are destroyed may open scopes or make objects: the latter
 * land in this scope and go with it. */
static void pop_innermost(haul__context *context)
{
    haul_scope *scope = context->innermost;
    while (scope->owned.next != &scope->owned) {
        haul__object *object = (haul__object *)((char *)scope->owned.next - offsetof(haul__object, link));
        unlink_object(object);
        haul__object_release(object);
    }
    context->state = scope->saved;
    context->innermost = scope->outer;
    if (!scope->local)
        haul__small_free(scope, sizeof *scope);
    haul__context_settle(context);
}

static bool is_open(const haul_scope *scope)
{
    for (const haul_scope *s = haul__tls.innermost; s; s = s->outer)
        if (s == scope)
            return true;
    return false;
}

static haul_status check_open(const haul_scope *scope, const char *operation)
{
    if (is_open(scope))
        return HAUL_OK;
    return haul__fail(HAUL_STATE, operation, "scope",
                      "the scope is not open on this thread: it was popped already, or pushed by another thread; pop "
                      "each scope once, on the thread that pushed it");
}

static void pop_to(haul_scope *scope)
{
    haul_scope *outer = scope->outer;
    while (haul__tls.innermost != outer)
        pop_innermost(&haul__tls);
}

void haul__scope_close(haul_scope *scope)
{
    pop_to(scope);
}

haul_status haul_scope_pop(haul_scope *scope)
{
    if (!scope)
        return HAUL_OK;
    haul_status status = check_open(scope, "haul_scope_pop");
    if (status == HAUL_OK)
        pop_to(scope);
    return status;
}

void haul__scope_pop_all(void)
{
    while (haul__tls.innermost)
        pop_innermost(&haul__tls);
}

/* Is the object owned by `scope` or one that was opened after it? */
static bool owned_within(const haul__object *object, const haul_scope *scope)
{
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

haul_tensor *haul_scope_return(haul_scope *scope, haul_tensor *result)
{
    if (!scope) {
        haul__fail_null("haul_scope_return", "scope");
        return NULL;
    }
    if (check_open(scope, "haul_scope_return") != HAUL_OK)
        return NULL;
    haul_scope *outer = scope->outer;
    if (!result) {
        haul__fail_null("haul_scope_return", "result");
    } else if (!outer) {
        haul__fail(HAUL_STATE, "haul_scope_return", "scope",
                   "there is no scope outside to take the result; push one in the caller");
        result = NULL;
    } else if (owned_within((haul__object *)result, scope)) {
        unlink_object((haul__object *)result);
        link_object(outer, (haul__object *)result);
    }
    pop_to(scope);
    return result;
}

int haul_scope_depth(void)
{
    return haul__tls.innermost ? haul__tls.innermost->depth : 0;
}

haul_status haul_drop(void *p)
{
    haul__object *object = p;
    if (!object || haul__is_nobodys(object))
        return HAUL_OK;
    if (!object->scope || object->scope->thread != &haul__tls)
        return haul__fail(
            HAUL_STATE, "haul_drop", "object",
            "the %s belongs to no scope of this thread: it was dropped already, or made by another thread",
            object->type->name);
    unlink_object(object);
    haul__object_release(object);
    return HAUL_OK;
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
    link_object(haul__tls.innermost, object);
    return object;
}
