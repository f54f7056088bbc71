/* Writes the log of a dry run. */
#include "program/program.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "core/error.h"
#include "events/call.h"

static const char caller[] = "haul_estimate"; /* in messages; the driver replaces it by the call's */

void haul__program_init(haul__program *p)
{
    *p = (haul__program){.now = -1};
}

void haul__program_clear(haul__program *p)
{
    haul__free(p->calls);
    haul__free(p->values);
    haul__free(p->stores);
    haul__free(p->commands);
    haul__free(p->changes);
    haul__free(p->foresights);
    haul__free(p->uses);
    haul__free(p->described);
    haul__free(p->attributes.bytes);
    haul__map_free(&p->outside);
    haul__program_init(p);
}

/* Room for one more element of an array. */
#define ROOM_FOR(p, items, count, room)                                                                                \
    (haul__grow(&(p)->items, &(p)->room, (p)->count + 1, sizeof *(p)->items)                                           \
         ? HAUL_OK                                                                                                     \
         : haul__fail_memory(caller, sizeof *(p)->items))

/* In a gradient the path stands for a module that is not called. */
static haul__program_module module_now(void)
{
    haul__program_module    m;
    char                    path[sizeof m.path];
    const haul__call_frame *frame = haul__call_now();
    const char             *text = haul__call_path(path, sizeof path);
    memcpy(m.path, text, strlen(text) + 1);
    m.of_gradient = frame && !frame->module;
    return m;
}

/* ---- calls ---- */

int haul__program_begin(haul__program *p, const haul__operation *operation, const char *name)
{
    if (ROOM_FOR(p, calls, call_count, call_room))
        return -1;
    HAUL__ASSERT(p->now < (int)p->call_count);
    haul__program_call *c = &p->calls[p->call_count];
    *c = (haul__program_call){.operation = operation, .name = name, .parent = p->now, .module = module_now()};
    p->now = (int)p->call_count;
    return (int)p->call_count++;
}

void haul__program_end(haul__program *p, int call)
{
    HAUL__ASSERT(p->now == call); /* calls end in the reverse order */
    p->now = p->calls[call].parent;
}

haul_status haul__program_describe(haul__program *p)
{
    HAUL__ASSERT(p->now >= 0 && !p->calls[p->now].listed);
    if (ROOM_FOR(p, described, described_count, described_room))
        return haul_error_status();
    p->described[p->described_count++] = p->now;
    p->calls[p->now].listed = true;
    return HAUL_OK;
}

haul_status haul__program_add_value(haul__program *p, const haul_tensor *t, int store, bool written)
{
    if (ROOM_FOR(p, values, value_count, value_room))
        return haul_error_status();
    HAUL__ASSERT(!t || (0 <= store && (size_t)store < p->store_count));
    haul_program_value *v = &p->values[p->value_count++];
    *v = (haul_program_value){.store = -1, .dtype = HAUL_DTYPE_NONE};
    if (!t)
        return HAUL_OK;
    *v = (haul_program_value){
        .store = store, .written = written, .dtype = t->dtype, .shape = t->shape, .offset = t->offset};
    memcpy(v->strides, t->strides, sizeof v->strides);
    return HAUL_OK;
}

haul_status haul__attributes_add(haul__attribute_list *list, const void *attributes, size_t size, size_t *at)
{
    enum { PLACE = 16 };
    const size_t end = (list->size + size + PLACE - 1) / PLACE * PLACE;
    if (!haul__grow(&list->bytes, &list->room, end + 1, 1))
        return haul__fail_memory(caller, size);
    HAUL__ASSERT(list->size % PLACE == 0 && end < list->room);
    *at = list->size;
    if (size)
        memcpy(list->bytes + list->size, attributes, size);
    list->size = end;
    return HAUL_OK;
}

haul__call_settings haul__call_settings_now(void)
{
    const haul__thread_state *s = haul__thread();
    return (haul__call_settings){.device = s->device,
                                 .no_grad = s->no_grad,
                                 .placement = s->words[HAUL__PLACEMENT],
                                 .precision = s->words[HAUL__PRECISION],
                                 .autocast = s->words[HAUL__AUTOCAST]};
}

/* ---- stores ---- */

/* Each store is allocated and released at most once, so writing these changes cannot fail later. */
static haul_status reserve_store(haul__program *p)
{
    const size_t most = 2 * (p->store_count + 1);
    if (ROOM_FOR(p, stores, store_count, store_room))
        return haul_error_status();
    return haul__grow(&p->changes, &p->change_room, most, sizeof *p->changes)
               ? HAUL_OK
               : haul__fail_memory(caller, most * sizeof *p->changes);
}

static int64_t change(haul__program *p, int store, bool freed)
{
    HAUL__ASSERT(p->change_count < p->change_room); /* reserved with the store */
    p->changes[p->change_count++] = (haul__program_change){store, freed};
    return (int64_t)p->change_count;
}

int haul__program_add_store(haul__program *p, const haul__program_store *store)
{
    if (reserve_store(p))
        return -1;
    const int            number = (int)p->store_count++;
    haul__program_store *s = &p->stores[number];
    *s = *store;
    HAUL__ASSERT(!store->planned && store->bytes <= store->block);
    s->planned = true;
    s->born = change(p, number, false);
    s->freed = INT64_MAX;
    s->born_in = p->now;
    s->born_after = p->described_count;
    s->freed_in = -1;
    s->module = module_now();
    return number;
}

int haul__program_find(const haul__program *p, const haul__storage *storage)
{
    const haul__map_entry *e = haul__map_find(&p->outside, storage);
    return e && e->value ? (int)((uintptr_t)e->value - 1) : -1;
}

int haul__program_add_outside(haul__program *p, const haul__storage *storage, const haul__program_store *store)
{
    bool             is_new;
    haul__map_entry *e = reserve_store(p) ? NULL : haul__map_insert(&p->outside, storage, &is_new);
    if (!e)
        return haul__fail_memory(caller, sizeof *e), -1;
    haul__program_store *s = &p->stores[p->store_count];
    *s = *store;
    HAUL__ASSERT(!s->planned && s->born == 0 && !e->value); /* it is in the log once */
    s->origin = "";
    s->freed = INT64_MAX;
    s->born_in = s->freed_in = -1;
    const uintptr_t number = ++p->store_count;
    e->value = (void *)number;
    return (int)number - 1;
}

void haul__program_free_store(haul__program *p, int store)
{
    HAUL__ASSERT(p->stores[store].freed == INT64_MAX);
    HAUL__ASSERT((size_t)store < p->store_count);
    p->stores[store].freed = change(p, store, true);
    p->stores[store].freed_in = p->now;
}

void haul__program_forget(haul__program *p, const haul__storage *storage)
{
    haul__map_entry *e = haul__map_find(&p->outside, storage);
    if (e)
        e->value = NULL;
}

/* ---- commands ---- */

haul_status haul__program_add_command(haul__program *p, bool checks)
{
    if (ROOM_FOR(p, commands, command_count, command_room))
        return haul_error_status();
    p->commands[p->command_count++] = (haul__program_command){
        .call = p->now, .after = p->described_count, .moment = p->change_count, .use = p->use_count, .checks = checks};
    return HAUL_OK;
}

haul_status haul__program_add_use(haul__program *p, int store)
{
    if (ROOM_FOR(p, uses, use_count, use_room))
        return haul_error_status();
    HAUL__ASSERT(p->command_count && store >= 0 && (size_t)store < p->store_count);
    p->uses[p->use_count++] = store;
    p->commands[p->command_count - 1].use_count++;
    return HAUL_OK;
}

haul_status haul__program_foresee(haul__program *p, const haul__program_foresight *foresight)
{
    if (ROOM_FOR(p, foresights, foresight_count, foresight_room))
        return haul_error_status();
    haul__program_foresight *f = &p->foresights[p->foresight_count++];
    HAUL__ASSERT(foresight->kind == HAUL__FORESEES_CALL || (size_t)foresight->store < p->store_count);
    *f = *foresight;
    f->moment = p->change_count;
    f->after = p->command_count;
    return HAUL_OK;
}
