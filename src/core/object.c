/* Reference counts, and destruction that does not recurse: what dies while something is being destroyed waits in a
 * list of the thread's. */
#include "core/object.h"

#include <haul/tensor.h>

#include "core/error.h"
#include "core/thread.h"

void haul__object_init(haul__object *object, const haul__class *type)
{
    object->type = type;
    atomic_init(&object->refs, 1);
    object->scope = NULL;
}

void haul__object_keep(void *p)
{
    haul__object *object = p;
    if (object)
        atomic_fetch_add_explicit(&object->refs, 1, memory_order_relaxed);
}

bool haul__object_is_shared(const void *object)
{
    return atomic_load_explicit(&((const haul__object *)object)->refs, memory_order_relaxed) > 1;
}

static haul__object *object_of(haul__link *link)
{
    return (haul__object *)((char *)link - offsetof(haul__object, link));
}

static void destroy_all(haul__context *context)
{
    context->destroying = true;
    while (context->doomed) {
        haul__object *object = object_of(context->doomed);
        context->doomed = object->link.next;
        object->type->destroy(object);
    }
    context->destroying = false;
}

void haul__object_release(void *p)
{
    haul__object *object = p;
    if (!object)
        return;
    /* Whoever sees a count of 1 holds the only reference: no atomic subtraction is needed then. */
    if (atomic_load_explicit(&object->refs, memory_order_acquire) != 1 &&
        atomic_fetch_sub_explicit(&object->refs, 1, memory_order_acq_rel) != 1)
        return;
    haul__context *context = &haul__tls;
    object->link.next = context->doomed;
    context->doomed = &object->link;
    if (!context->destroying)
        destroy_all(context);
}

void *haul_keep(void *object)
{
    if (object && !haul__is_nobodys(object))
        haul__object_keep(object);
    return object;
}

void haul_release(void *p)
{
    haul__object *object = p;
    if (!object || haul__is_nobodys(object)) /* threads must not meet in its link */
        return;
    if (object->scope && atomic_load_explicit(&object->refs, memory_order_relaxed) == 1) {
        haul__fail(HAUL_STATE, "haul_release", "object",
                   "the %s was released more often than it was kept; its scope still owns it (haul_drop ends it early)",
                   object->type->name);
        return;
    }
    haul__object_release(object);
}
