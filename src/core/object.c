/* Reference counts, checks of what users pass, and destruction without recursion: objects that die during another's
 * destruction wait in a per-thread list. */
#include "core/object.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "core/device.h"
#include "core/error.h"
#include "core/lifetime.h"
#include "core/scope.h"
#include "core/thread.h"

_Static_assert(offsetof(haul__object, mark) == HAUL__MARK_OFFSET, "marks are at one offset");
_Static_assert(offsetof(haul_scope, mark) == HAUL__MARK_OFFSET, "marks are at one offset");
_Static_assert(offsetof(haul_device, mark) == HAUL__MARK_OFFSET, "marks are at one offset");
_Static_assert(offsetof(haul__object, link) >= HAUL__SMALL_HEAD, "free lists leave class, mark and owner alone");

const haul__class haul__dead_class = {.name = "object that is over"};

/* ---- making and freeing ---- */

void *haul__object_new_traced(size_t bytes, const haul__class *type)
{
    haul__object *object = haul__life_new(bytes);
    if (!object)
        return NULL;
    haul__object_init(object, type);
    object->traced = 1;
    return object;
}

void *haul__object_new_zeroed(size_t bytes, const haul__class *type)
{
    HAUL__ASSERT(bytes >= sizeof(haul__object));
    haul__object *object = haul__object_new(bytes, type);
    if (object)
        memset(object + 1, 0, bytes - sizeof *object);
    return object;
}

/* ---- counting ---- */

bool haul__object_is_shared(const void *object)
{
    return atomic_load_explicit(&((const haul__object *)object)->refs, memory_order_relaxed) > 1;
}

static haul__object *object_of(haul__link *link)
{
    return (haul__object *)((char *)link - offsetof(haul__object, link));
}

void haul__object_destroy(haul__object *object)
{
    haul__context *context = &haul__tls;
    HAUL__ASSERT(!haul__is_nobodys(object)); /* nor is it dead: that class has no destructor either */
    HAUL__ASSERT(!object->scope);            /* its scope would hold a reference */
    if (context->destroying) {
        object->link.next = context->doomed;
        context->doomed = &object->link;
        return;
    }
    context->destroying = true;
    object->type->destroy(object);
    while (context->doomed) {
        object = object_of(context->doomed);
        context->doomed = object->link.next;
        object->type->destroy(object);
    }
    context->destroying = false;
}

/* ---- what users pass ---- */

const char *haul__object_text(const haul__object *object, char *out, size_t size)
{
    bool               dead = object->type == &haul__dead_class;
    const haul__class *type = dead ? object->was : object->type;
    if (dead && object->traced)
        snprintf(out, size, "%s", haul__life_text(object));
    else if (type->describe)
        type->describe(object, dead, out, size);
    else
        snprintf(out, size, "%s", type->name);
    return out;
}

/* "a tensor", "an optimizer" */
static const char *article(const char *text)
{
    return strchr("aeiouAEIOU", *text) ? "an" : "a";
}

static haul_status refuse_dead(const haul__object *object, const char *operation, const char *argument)
{
    char text[100], history[400];
    haul__object_text(object, text, sizeof text);
    if (object->traced)
        haul__life_history(object, history, sizeof history);
    else
        snprintf(
            history, sizeof history,
            "its scope was popped, or it was dropped or released. Run with HAUL_DEBUG=lifetimes to find out where");
    return haul__fail(HAUL_STATE, operation, argument, "%s is %s %s that has been freed: %s", argument, article(text),
                      text, history);
}

haul_status haul__refuse_object(const void *p, const haul__class *type, const char *operation, const char *argument)
{
    const haul__object *object = p;
    const char         *wanted = type ? type->name : "object";
    uint32_t            mark;
    char                text[100];
    if (!p)
        return haul__fail_null(operation, argument);
    memcpy(&mark, (const char *)p + HAUL__MARK_OFFSET, sizeof mark);
    if (mark == HAUL__DEVICE_MARK)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, argument,
                          "%s is the device %s, but %s %s is expected; devices belong to the library", argument,
                          haul_device_name(p), article(wanted), wanted);
    if (mark == HAUL__SCOPE_MARK)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, argument,
                          "%s is a scope, but %s %s is expected; scopes end with haul_scope_pop", argument,
                          article(wanted), wanted);
    if (mark != HAUL__OBJECT_MARK)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, argument, "%s is not an object of this library", argument);
    if (object->type == &haul__dead_class)
        return refuse_dead(object, operation, argument);
    if (!type || object->type == type)
        return HAUL_OK;
    haul__object_text(object, text, sizeof text);
    return haul__fail(HAUL_INVALID_ARGUMENT, operation, argument, "%s is %s %s, but %s %s is expected", argument,
                      article(text), text, article(wanted), wanted);
}

void *haul_keep(void *p)
{
    haul__object *object = p;
    if (!p)
        return p;
    if (!haul__exists(object)) {
        haul__refuse_object(object, NULL, "haul_keep", "object");
        return NULL;
    }
    if (haul__is_nobodys(object))
        return p;
    atomic_fetch_add_explicit(&object->kept, 1, memory_order_relaxed);
    haul__object_keep(object);
    return p;
}

/* Removes one of the references that users hold; false if there is none. */
static bool give_up_kept(haul__object *object)
{
    int kept = atomic_load_explicit(&object->kept, memory_order_relaxed);
    while (kept > 0)
        if (atomic_compare_exchange_weak_explicit(&object->kept, &kept, kept - 1, memory_order_relaxed,
                                                  memory_order_relaxed))
            return true;
    return false;
}

void haul_release(void *p)
{
    haul__object *object = p;
    char          text[100];
    if (!p)
        return;
    if (!haul__exists(object)) {
        haul__refuse_object(object, NULL, "haul_release", "object");
        return;
    }
    if (haul__is_nobodys(object))
        return;
    if (!give_up_kept(object)) {
        haul__fail(HAUL_STATE, "haul_release", "object", "the %s was released more often than it was kept; %s",
                   haul__object_text(object, text, sizeof text),
                   object->scope ? "its scope still owns it (haul_drop ends it early)"
                                 : "what still holds it, such as a module or a graph, releases it");
        return;
    }
    if (object->traced)
        haul__life_event(object, HAUL__RELEASED, NULL);
    HAUL__ASSERT(atomic_load(&object->refs) > 0); /* the user's reference is counted there, too */
    haul__object_release(object);
}
