/* Hooks of tensors. Those of a leaf hang from the tensor, those of a result from its node, with the result's number. */
#include "autograd/hooks.h"

#include <haul/autograd.h>
#include <stdatomic.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "core/error.h"
#include "core/guest.h"
#include "core/scope.h"
#include "core/shape.h"
#include "core/trial.h"
#include "engine/follow.h"
#include "engine/node.h"

typedef struct hook {
    int64_t             id;
    int                 result;
    haul_gradient_hook *gradient;
    haul_leaf_hook     *accumulated;
    void               *context;
    void (*destroy)(void *context);
} hook;

typedef struct hook_list {
    haul__object object;
    hook        *items;
    size_t       count, capacity;
} hook_list;

static atomic_long  lists; /* of the process */
static atomic_llong added; /* the id of the newest hook */

bool haul__has_hooks(void)
{
    return atomic_load_explicit(&lists, memory_order_relaxed) > 0;
}

static void destroy(void *object)
{
    hook_list *list = object;
    HAUL__ASSERT(atomic_load_explicit(&lists, memory_order_relaxed) > 0);
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i].destroy)
            list->items[i].destroy(list->items[i].context);
    atomic_fetch_sub_explicit(&lists, 1, memory_order_relaxed);
    haul__free(list->items);
    haul__free(list);
}

static const haul__class list_class = {.name = "hooks of a tensor", .destroy = destroy};

static hook_list *new_list(void)
{
    hook_list *list = haul__calloc(1, sizeof *list);
    if (!list)
        return NULL;
    haul__object_init(&list->object, &list_class);
    atomic_fetch_add_explicit(&lists, 1, memory_order_relaxed);
    return list;
}

/* ---- adding and removing ---- */

/* Where the hooks of t are. */
static void **place_of(haul_tensor *t)
{
    return t->node ? &t->node->hooks : &t->hooks;
}

static haul_status check_options(const haul_tensor_hook_options *o, const char *operation)
{
    haul_status status = haul__check_tensor(operation, "t", o->t);
    if (status)
        return status;
    if (!o->gradient && !o->accumulated)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "gradient", "give .gradient, .accumulated or both");
    if (!haul__tracks(o->t))
        return haul__fail(HAUL_GRAPH, operation, "t",
                          "t requires no gradient, so its hook would never be called; make it require one with "
                          "haul_set_requires_grad, and check that haul_grad_enabled()");
    if (o->accumulated && o->t->node)
        return haul__fail(HAUL_GRAPH, operation, "accumulated",
                          "t is the result of %s, and only leaves keep gradients; use .gradient",
                          o->t->node->operation->name);
    return haul__refuse_followed(operation, "adds a hook");
}

int64_t haul_tensor_add_hook_with(const haul_tensor_hook_options *options)
{
    static const char operation[] = "haul_tensor_add_hook";
    if (!options) {
        haul__fail_null(operation, "options");
        return 0;
    }
    if (check_options(options, operation))
        return 0;
    void     **place = place_of(options->t);
    hook_list *list = *place ? *place : new_list();
    if (!list || !haul__grow(&list->items, &list->capacity, list->count + 1, sizeof *list->items)) {
        if (list && !*place)
            haul__object_release(list);
        haul__fail_memory(operation, sizeof *list);
        return 0;
    }
    *place = list;
    const int64_t id = atomic_fetch_add_explicit(&added, 1, memory_order_relaxed) + 1;
    HAUL__ASSERT(!list->count || list->items[list->count - 1].id < id); /* the order of calls */
    list->items[list->count++] = (hook){id,
                                        options->t->node ? options->t->node_result : 0,
                                        options->gradient,
                                        options->accumulated,
                                        options->context,
                                        options->destroy};
    return id;
}

static size_t find(const hook_list *list, int64_t id)
{
    size_t i = 0;
    while (i < list->count && list->items[i].id != id)
        i++;
    return i;
}

haul_status haul_tensor_remove_hook(haul_tensor *t, int64_t id)
{
    static const char operation[] = "haul_tensor_remove_hook";
    if (haul__check_tensor(operation, "t", t) || haul__refuse_followed(operation, "removes a hook"))
        return haul_error_status();
    void     **place = place_of(t);
    hook_list *list = *place;
    size_t     i = list ? find(list, id) : 0;
    HAUL__ASSERT(!list || list->count); /* an empty list is released */
    if (!list || i == list->count || (t->node && list->items[i].result != t->node_result))
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "id", "t has no hook %lld", (long long)id);
    const hook removed = list->items[i];
    for (list->count--; i < list->count; i++)
        list->items[i] = list->items[i + 1];
    if (!list->count) {
        *place = NULL;
        haul__object_release(list);
    }
    if (removed.destroy)
        removed.destroy(removed.context);
    return HAUL_OK;
}

/* ---- calling ---- */

/* A second handle, which the innermost scope owns. */
static haul_tensor *handle_of(haul_tensor *t, const char *operation)
{
    haul_tensor *handle = haul__tensor_alias(t);
    if (handle && t->node) {
        handle->node = t->node;
        handle->node_result = t->node_result;
        haul__object_keep(handle->node);
    }
    return haul__own(handle, operation);
}

static haul_status check_like(const haul_tensor *given, const haul_tensor *returned, const char *operation)
{
    char want[160], have[160];
    if (!haul__is_tensor(returned))
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "gradient",
                          "a hook returned something that is not a tensor");
    if (returned->dtype == given->dtype && haul__shape_equal(&returned->shape, &given->shape) &&
        returned->storage->device == given->storage->device)
        return HAUL_OK;
    return haul__fail(HAUL_SHAPE, operation, "gradient", "a hook got the gradient %s and returned %s",
                      haul__tensor_text(given, want, sizeof want), haul__tensor_text(returned, have, sizeof have));
}

/* Calls one hook. */
static haul_status call(const hook *h, haul_tensor **gradient, const char *operation)
{
    HAUL__ASSERT(h->gradient && haul__is_tensor(*gradient));
    haul_scope  scope;
    haul_status status = haul__scope_open(&scope, operation);
    if (status)
        return status;
    haul_tensor *given = handle_of(*gradient, operation), *returned = NULL;
    status = given ? HAUL_OK : haul_error_status();
    if (!status) {
        haul__guest before = haul__guest_begin();
        returned = h->gradient(given, h->context);
        status = haul__guest_end(&before, HAUL_OK, operation);
    }
    if (!status && !returned && haul_error_status() == HAUL_OK)
        status = haul__fail(HAUL_STATE, operation, "gradient",
                            "a hook returned NULL but recorded no error; return a gradient, or HAUL_NONE to keep it");
    if (!status && !haul__is_none(returned))
        status = !returned ? haul_error_status() : haul__check_tensor(operation, "gradient", returned);
    if (!status && !haul__is_none(returned) && returned != given)
        status = check_like(*gradient, returned, operation);
    if (!status && !haul__is_none(returned) && returned != given) {
        haul__object_keep(returned);
        haul__object_release(*gradient);
        *gradient = returned;
    }
    haul__scope_close(&scope);
    return status;
}

/* What a hook does apart from operations would not happen in a followed step. */
static void refuse_recording(void)
{
    haul__recorder *recorder = haul__recorder_now();
    if (recorder)
        recorder->refuse(recorder, "a tensor has a hook, which followed steps do not call");
}

/* The first hook behind number *last: hooks may remove themselves. A copy, because the list may move. */
static bool next(const hook_list *list, int64_t *last, hook *out)
{
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i].id > *last) {
            *out = list->items[i];
            *last = out->id;
            return true;
        }
    return false;
}

haul_status haul__run_gradient_hooks(void *hooks, int result, haul_tensor **gradient, const char *operation)
{
    HAUL__ASSERT(hooks && haul__is_tensor(*gradient) && result >= 0 && result < HAUL__NODE_RESULTS);
    haul_status status = HAUL_OK;
    int64_t     last = 0;
    hook        h;
    haul__object_keep(hooks);
    while (!status && next(hooks, &last, &h)) {
        if (!h.gradient || h.result != result)
            continue;
        refuse_recording();
        status = call(&h, gradient, operation);
    }
    haul__object_release(hooks);
    return status;
}

haul_status haul__run_leaf_hooks(haul_tensor *leaf, const char *operation)
{
    void *hooks = leaf->hooks;
    HAUL__ASSERT(hooks && leaf->grad);
    haul_status status = HAUL_OK;
    int64_t     last = 0;
    hook        h;
    haul__object_keep(hooks);
    while (!status && next(hooks, &last, &h)) {
        if (!h.accumulated)
            continue;
        refuse_recording();
        haul__guest before = haul__guest_begin();
        status = haul__guest_end(&before, h.accumulated(leaf, h.context), operation);
        if (status && haul_error_status() == HAUL_OK)
            haul__fail(status, operation, "accumulated", "a hook failed but recorded no error");
    }
    haul__object_release(hooks);
    return status;
}
