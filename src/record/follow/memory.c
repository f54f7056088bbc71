/* The memory in which a variant's calls run: arenas, places in them, and memory outside them. */
#include <inttypes.h>

#include "base/assert.h"
#include "memory/allocator.h"
#include "memory/dry_run/dry_run.h"
#include "memory/mark.h"
#include "memory/spill/spill.h"
#include "record/follow/blocks.h"
#include "record/follow/places.h"
#include "record/follow/variant.h"

static void stays(haul__storage *storage)
{
    (void)storage; /* its variant frees it */
}

haul__arena *haul__arenas_of(haul__arenas *arenas, const haul_device *device)
{
    for (int i = 0; i < arenas->count; i++)
        if (arenas->items[i].device == device)
            return &arenas->items[i];
    return NULL;
}

int64_t haul__arenas_bytes(const haul__arenas *arenas)
{
    int64_t bytes = 0;
    for (int i = 0; i < arenas->count; i++)
        bytes += arenas->items[i].bytes;
    return bytes;
}

bool haul__arenas_spill(const haul__arenas *arenas)
{
    for (int i = 0; i < arenas->count; i++)
        if (haul__spills(arenas->items[i].device))
            return true;
    return false;
}

static void end_arena(haul__arena *a)
{
    HAUL__ASSERT(!a->storage || atomic_load(&a->storage->uses->fixed) > 0);
    if (a->storage)
        atomic_fetch_sub(&a->storage->uses->fixed, 1);
    haul__object_release(a->storage);
    a->storage = NULL;
    a->bytes = 0;
}

void haul__arenas_free(haul__arenas *arenas)
{
    for (int i = 0; i < arenas->count; i++)
        end_arena(&arenas->items[i]);
    arenas->count = 0;
    arenas->generation++;
}

static haul__storage *step_memory(haul__storage *storage)
{
    haul__set_storage_role(storage, HAUL__ROLE_STEP);
    return storage;
}

/* The storage of an arena, with a reference; `*bytes` is what it needs, and becomes what it has. */
static haul__storage *arena_memory(const haul__arenas *arenas, const haul_device *device, int64_t *bytes)
{
    static const char operation[] = "haul_recording_run";
    haul__storage    *given = arenas->given ? arenas->given->storage : NULL;
    if (!given || given->device != device)
        return step_memory(haul__storage_alloc((haul_device *)device, (size_t)*bytes, operation));
    if ((int64_t)given->bytes < *bytes) {
        haul__fail(HAUL_OUT_OF_MEMORY, operation, "arena",
                   "the arena that was given has %zu bytes; %" PRId64 " are needed", given->bytes, *bytes);
        return NULL;
    }
    *bytes = (int64_t)given->bytes;
    haul__object_keep(given);
    return given;
}

static haul_status make_arena(haul__arenas *arenas, const haul__arena *needed)
{
    haul__arena *a = haul__arenas_of(arenas, needed->device);
    if (!a) {
        HAUL__ASSERT(arenas->count < HAUL__MAX_DEVICES);
        a = &arenas->items[arenas->count++];
        *a = (haul__arena){.device = needed->device};
    }
    if (a->bytes >= needed->bytes)
        return HAUL_OK;
    end_arena(a);
    arenas->generation++;
    int64_t bytes = needed->bytes;
    a->storage = arena_memory(arenas, a->device, &bytes);
    if (!a->storage)
        return haul_error_status();
    a->bytes = bytes;
    HAUL__ASSERT(a->bytes >= needed->bytes);
    atomic_fetch_add(&a->storage->uses->fixed, 1); /* its stores name places in it */
    return HAUL_OK;
}

static haul_status place(haul__inside *s, const haul__storage *arena, bool apart)
{
    haul__storage *own = &s->own;
    HAUL__ASSERT(s->offset >= 0 && (size_t)(s->offset + s->bytes) <= arena->bytes && arena->device == s->device);
    haul__inside_embed(s);
    haul__place_uses(s, arena, apart);
    own->planned = arena->planned;
    if (arena->planned)
        return HAUL_OK;
    own->buffer = haul__device_sub_buffer(s->device, arena->buffer, (size_t)s->offset);
    if (haul__device_has_sub_buffers(s->device)) {
        haul__buffer_address address = haul__block_address(arena->block);
        address.offset += (size_t)s->offset;
        haul_status status = haul__device_sub_buffer_alloc(s->device, (size_t)s->bytes, address, &s->sub_buffer);
        if (status) {
            s->storage = NULL;
            return status;
        }
        own->buffer.handle = s->sub_buffer;
    }
    return HAUL_OK;
}

void haul__inside_leave(haul__inside *s)
{
    HAUL__ASSERT(s->storage == &s->own || !s->sub_buffer); /* a place in an arena */
    if (s->storage != &s->own)
        return;
    for (int i = 0; i < HAUL__ATTACHMENTS; i++)
        haul__object_release(s->own.attached[i]);
    if (s->sub_buffer)
        haul__device_sub_buffer_free(s->device, s->sub_buffer);
    s->sub_buffer = NULL;
    s->storage = NULL;
}

bool haul__inside_is_free(const haul__inside *s, int holders)
{
    return s->storage && atomic_load(&s->storage->object.refs) <= 1 + holders;
}

haul_status haul__inside_renew(haul__inside *s, int holders)
{
    HAUL__ASSERT(s->offset < 0 && !s->in_block); /* it has memory of its own */
    if (haul__inside_is_free(s, holders))
        return HAUL_OK;
    haul__storage *fresh = s->pinned_for ? haul__host_alloc_for(s->pinned_for, (size_t)s->bytes, "haul_recording_run")
                                         : haul__storage_alloc(s->device, (size_t)s->bytes, "haul_recording_run");
    if (!fresh)
        return haul_error_status();
    haul__set_storage_role(fresh, HAUL__ROLE_STEP);
    haul__object_release(s->storage);
    s->storage = fresh;
    s->filled = false;
    return HAUL_OK;
}

/* Gives up memory outside of the arena. */
static void release_storage(haul__inside *s)
{
    haul__object_release(s->storage);
    s->storage = NULL;
    s->filled = false;
}

void haul__inside_embed(haul__inside *s)
{
    haul__storage *own = &s->own;
    if (s->storage != own)
        release_storage(s);
    haul__inside_leave(s);
    HAUL__ASSERT(!s->storage && !s->sub_buffer);
    haul__storage_embed(own, s->device);
    own->bytes = (size_t)s->bytes;
    own->release = stays;
    own->lent = true;
    s->storage = own;
}

/* Apart from the arena while updates do not move. */
static bool is_apart(const haul__inside *s)
{
    return s->early && s->storage && s->storage != &s->own;
}

void haul__variant_drop(haul__variant *v)
{
    for (size_t i = 0; i < v->inside_count; i++) {
        haul__inside *s = &v->insides[i];
        if (s->offset < 0 && !s->constant && s->storage && !haul__object_is_shared(s->storage))
            release_storage(s);
    }
}

/* What constants are made of may be freed. */
static void forget_steady(haul__variant *v)
{
    for (size_t i = 0; i < v->outside_count; i++) {
        haul__object_release(v->outsides[i].prepared);
        v->outsides[i].prepared = NULL;
    }
}

void haul__variant_give_back(haul__variant *v)
{
    forget_steady(v);
    for (size_t i = 0; i < v->inside_count; i++) {
        haul__inside *s = &v->insides[i];
        haul__inside_leave(s);
        if (is_apart(s) || s->constant)
            release_storage(s);
    }
    haul__variant_drop(v);
}

void haul__variant_let_go(haul__variant *v)
{
    for (size_t i = 0; i < v->inside_count; i++) {
        haul__inside *s = &v->insides[i];
        if (s->offset < 0 && s->outlives && s->storage && haul__object_is_shared(s->storage))
            release_storage(s);
    }
}

void haul__variant_end_run(haul__variant *v)
{
    for (size_t i = 0; i < v->inside_count && !v->early_placed; i++) {
        haul__inside *s = &v->insides[i];
        if (is_apart(s))
            release_storage(s);
    }
}

/* Memory apart from the arena, for a step whose updates do not move. */
static haul_status take_apart(haul__inside *s)
{
    HAUL__ASSERT(s->early && s->offset >= 0 && !s->in_block);
    if (is_apart(s))
        return HAUL_OK;
    haul__storage *fresh = step_memory(haul__storage_alloc(s->device, (size_t)s->bytes, "haul_recording_run"));
    if (!fresh)
        return haul_error_status();
    haul__inside_leave(s);
    s->storage = fresh;
    return HAUL_OK;
}

/* A storage without memory, for the tensors of the program. */
static void place_within(haul__inside *s, bool is_placed)
{
    if (!is_placed)
        haul__inside_embed(s);
    s->own.planned = haul__is_dry();
}

/* Stores on devices that spill have no place in an arena. */
static bool needs_arena(const haul__variant *v, const haul_device *device)
{
    return !v->in_blocks || !haul__spills(device);
}

haul_status haul__variant_prepare(haul__variant *v, haul__arenas *arenas)
{
    haul_status status =
        haul__workspace_grow(&arenas->work) ? HAUL_OK : haul__fail_memory("haul_recording_run", arenas->work.most);
    const bool had_blocks = v->in_blocks;
    v->in_blocks = haul__arenas_spill(&v->needed);
    for (int i = 0; i < v->needed.count && !status; i++)
        if (needs_arena(v, v->needed.items[i].device))
            status = make_arena(arenas, &v->needed.items[i]);
    if (!status && (v->in_blocks || had_blocks))
        status = haul__blocks_prepare(v);
    const bool is_placed = v->generation == arenas->generation + 1 && had_blocks == v->in_blocks;
    if (status || (is_placed && ((v->settled && v->early_placed) || !v->moved_count)))
        return status;
    v->apart = is_placed ? v->apart : haul__places_apart(v, arenas);
    haul__places_forget(v);
    for (size_t i = 0; i < v->inside_count && !status; i++) {
        haul__inside *s = &v->insides[i];
        HAUL__ASSERT(!s->in_block || s->offset >= 0);
        if (s->in_block)
            continue;
        if (s->within)
            place_within(s, is_placed);
        else if (s->early && !v->settled)
            status = take_apart(s);
        else if (s->offset >= 0 && (!is_placed || s->early))
            status = place(s, haul__arenas_of(arenas, s->device)->storage, v->apart);
    }
    v->early_placed = v->settled;
    v->generation = status ? 0 : arenas->generation + 1;
    return status;
}
