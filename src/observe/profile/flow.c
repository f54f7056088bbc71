#include "observe/profile/flow.h"

#include <string.h>

#include "base/assert.h"
#include "core/tensor.h"
#include "device/device.h"
#include "memory/block_events.h"
#include "observe/profile/repeated_copies.h"

/* ---- memory ---- */

/* Of host memory, or of a storage behind a link. */
typedef struct region {
    const char *begin, *end;
    uint64_t    storage;
} region;

static region host_region(const void *at, int64_t bytes)
{
    return (region){.begin = at, .end = (const char *)at + bytes};
}

static region region_of(const haul_tensor *t)
{
    const haul__storage *s = t->storage;
    if (haul__device_is_host(s->device))
        return host_region(s->buffer.host, s->buffer.host ? (int64_t)s->bytes : 0);
    return (region){.storage = haul__storage_number(s)};
}

static bool is_in(const haul__trail *t, const region *r)
{
    return r->storage ? t->storage == r->storage : r->begin < t->end && t->begin < r->end;
}

static haul__trail *find(haul__flows *f, const region *r)
{
    for (int i = 0; f->any && i < HAUL__TRAILS; i++)
        if (is_in(&f->trails[i], r))
            return &f->trails[i];
    return NULL;
}

static void forget(haul__flows *f, const region *r)
{
    for (haul__trail *t; (t = find(f, r));)
        *t = (haul__trail){.begin = NULL};
}

static void put(haul__flows *f, const region *r, haul__trail t)
{
    if (!r->storage && r->begin == r->end)
        return;
    forget(f, r);
    t.begin = r->begin;
    t.end = r->end;
    t.storage = r->storage;
    HAUL__ASSERT(0 <= f->next && f->next < HAUL__TRAILS);
    f->trails[f->next] = t;
    f->next = (f->next + 1) % HAUL__TRAILS;
    f->any = true;
}

/* ---- copies ---- */

/* Bytes that crossed only because the data had been made larger before. */
static int64_t excess_of(const haul__trail *t, int64_t bytes)
{
    return t && t->narrow && t->narrow < bytes ? bytes - t->narrow : 0;
}

static uint64_t sample_of(const haul_event *e)
{
    return e->settled && e->host && e->bytes > 0 ? haul__sample(e->host, (size_t)e->bytes) : 0;
}

/* True if the program itself changed the bytes after they had arrived. */
static bool has_changed(const haul__trail *from, const haul_event *e)
{
    HAUL__ASSERT(from->begin || from->storage);
    const bool same_size = from->end - from->begin == e->bytes;
    return from->sample && same_size && e->settled && sample_of(e) != from->sample;
}

haul__flow haul__flow_copied(haul__flows *f, const haul_event *e, uint32_t number)
{
    haul__flow         flow = {0};
    const region       host = host_region(e->host, e->host ? e->bytes : 0), device = {.storage = e->storage};
    const bool         up = e->kind == HAUL_EVENT_COPY_TO_DEVICE;
    const haul__trail *from = e->kind == HAUL_EVENT_COPY_BETWEEN ? NULL : find(f, up ? &host : &device);
    if (e->kind == HAUL_EVENT_COPY_BETWEEN)
        return flow;
    HAUL__ASSERT(!from || from->since.back_from < number); /* an earlier one */
    if (from && up) {
        flow = from->since;
        flow.changed = has_changed(from, e);
        flow.operations += flow.changed;
    }
    flow.excess = excess_of(from, e->bytes);
    const haul__trail copied = {.since = {.back_from = number}, .sample = up ? 0 : sample_of(e)};
    if (up && e->storage)
        put(f, &device, copied);
    else if (!up && host.begin != host.end)
        put(f, &host, copied);
    return flow;
}

void haul__flow_allocated(haul__flows *f, const haul_event *e)
{
    const region host = host_region(e->host, e->host ? e->bytes : 0), device = {.storage = e->storage};
    if (f->any)
        forget(f, e->host ? &host : &device);
}

/* ---- operations ---- */

static int64_t size_of(const haul_tensor *t)
{
    return t->count * (int64_t)haul__dtype_size(t->dtype);
}

/* The trail of results computed from marked data. Copies of data that changed on a device are no longer the same data,
 * so there only conversions count. */
static haul__trail follow(const haul__trail *from, const haul_event *e, const haul_tensor *x, const haul_tensor *y)
{
    const bool  converts = strcmp(e->operation, "haul_cast") == 0;
    haul__trail t = {.narrow = converts && size_of(y) > size_of(x) ? size_of(x) : 0};
    if (from && haul__device_is_host(y->storage->device)) {
        t.since = from->since;
        t.since.operations++;
    }
    return t;
}

/* True if data were made smaller right after they were copied. */
static uint32_t narrowed(const haul__trail *from, const haul_event *e, haul__computed *out)
{
    const haul_tensor *x = e->x->tensors[0], *y = e->y->tensors[0];
    if (!from || !from->since.back_from || from->since.operations || strcmp(e->operation, "haul_cast") != 0 ||
        size_of(y) >= size_of(x))
        return 0;
    out->excess = size_of(x) - size_of(y);
    out->bytes = size_of(x);
    HAUL__ASSERT(0 < out->excess && out->excess <= out->bytes);
    return from->since.back_from;
}

static const haul__trail *find_operand(haul__flows *f, const haul_event *e, const haul_device *device)
{
    for (int i = 0; i < e->x->count; i++) {
        const haul_tensor *t = e->x->tensors[i];
        if (haul__is_none(t) || t->storage->device != device)
            continue;
        const region       r = region_of(t);
        const haul__trail *found = find(f, &r);
        if (found)
            return found;
    }
    return NULL;
}

static bool is_view(const haul_event *e, const haul_tensor *y)
{
    for (int i = 0; i < e->x->count; i++)
        if (!haul__is_none(e->x->tensors[i]) && e->x->tensors[i]->storage == y->storage)
            return true;
    return false;
}

/* What has no operands is new: a fill, random numbers. */
static void forget_results(haul__flows *f, const haul_event *e)
{
    for (int i = 0; i < e->y->count; i++) {
        const region r = region_of(e->y->tensors[i]);
        forget(f, &r);
    }
}

haul__computed haul__flow_computed(haul__flows *f, const haul_event *e)
{
    haul__computed computed = {0};
    const bool     converts = strcmp(e->operation, "haul_cast") == 0;
    if ((!f->any && !converts) || e->y->count == 0)
        return computed;
    if (e->x->count == 0 || haul__is_none(e->x->tensors[0])) {
        forget_results(f, e);
        return computed;
    }
    const haul_tensor *x = e->x->tensors[0];
    const haul__trail *found = find_operand(f, e, e->y->tensors[0]->storage->device);
    const haul__trail  from = found ? *found : (haul__trail){.begin = NULL};
    computed.narrowed = narrowed(found, e, &computed);
    for (int i = 0; i < e->y->count; i++) {
        const haul_tensor *y = e->y->tensors[i];
        if ((e->bytes == 0 && is_view(e, y)) || y->storage->device != x->storage->device)
            continue;
        const region      r = region_of(y);
        const haul__trail t = follow(found ? &from : NULL, e, x, y);
        if (t.narrow || t.since.back_from)
            put(f, &r, t);
        else
            forget(f, &r);
        computed.with = t.since.operations ? t.since.back_from : computed.with;
    }
    HAUL__ASSERT(!computed.excess == !computed.narrowed);
    return computed;
}
