#include "engine/placement/reason.h"

#include <haul/placement.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/system/fork.h"
#include "core/error.h"
#include "memory/allocator.h"

typedef struct reason {
    haul__object object;
    char        *text;
} reason;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the attachments */

HAUL__MUTEX_AT_FORK(HAUL__FORK_REASONS, lock);

static void destroy(void *object)
{
    reason *r = object;
    haul__free(r->text);
    haul__free(r);
}

static const haul__class reason_class = {.name = "reason", .destroy = destroy};

haul__object *haul__reason_new(const char *operation, const haul_device *device, const char *why)
{
    reason *r = haul__calloc(1, sizeof *r);
    if (r)
        r->text = haul__format("%s runs on %s: %s", operation, device->name, why);
    if (!r || !r->text) {
        haul__free(r);
        return NULL;
    }
    haul__object_init(&r->object, &reason_class);
    return &r->object;
}

/* Memory that had a reason keeps it: the call writes what another one made. */
static void attach(haul__storage *storage, haul__object *of)
{
    pthread_mutex_lock(&lock);
    if (!storage->attached[HAUL__REASON]) {
        haul__object_keep(of);
        storage->attached[HAUL__REASON] = of;
    }
    pthread_mutex_unlock(&lock);
}

void haul__reason_attach(haul__call *c)
{
    for (int i = 0; i < c->result_count && !c->into; i++)
        if (c->results[i] && c->results[i]->storage)
            attach(c->results[i]->storage, c->reason);
    haul__object_release(c->reason);
    c->reason = NULL;
}

/* ---- for people ---- */

static reason *find(const haul__storage *storage)
{
    pthread_mutex_lock(&lock);
    reason *r = storage->attached[HAUL__REASON];
    haul__object_keep(r);
    pthread_mutex_unlock(&lock);
    return r;
}

static const char *origin_of(const haul__storage *storage)
{
    return storage->block ? storage->block->origin : NULL;
}

int64_t haul_place_explain(const haul_tensor *t, char *out, size_t size)
{
    static const char operation[] = "haul_place_explain";
    char              form[96];
    if (haul__check_tensor(operation, "t", t))
        return -1;
    if (size && !out) {
        haul__fail_null(operation, "out");
        return -1;
    }
    reason     *r = find(t->storage);
    const char *origin = origin_of(t->storage), *device = t->storage->device->name;
    haul__tensor_text(t, form, sizeof form);
    int length;
    if (r)
        length = snprintf(out, size, "%s: %s", form, r->text);
    else if (origin)
        length = snprintf(out, size, "%s: %s made it there", form, origin);
    else
        length =
            snprintf(out, size, "%s: its memory is from outside Haul, or it has none, and is that of %s", form, device);
    haul__object_release(r);
    return length;
}
