/* Runs the calls of a variant on the tensors of a step. */
#include <haul/memory.h>
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "core/scope.h"
#include "engine/driver.h"
#include "engine/node.h"
#include "engine/price.h"
#include "events/call.h"
#include "events/events.h"
#include "memory/allocator.h"
#include "memory/dry_run/dry_run.h"
#include "memory/mark.h"
#include "memory/planned_scratch.h"
#include "memory/spill/spill.h"
#include "ops/random/generator.h"
#include "record/follow/blocks.h"
#include "record/follow/chain.h"
#include "record/follow/device_chain.h"
#include "record/follow/places.h"
#include "record/follow/variant.h"

/* ---- memory ---- */

static void stays(haul__storage *storage)
{
    (void)storage; /* its variant frees it */
}

/* NULL if there is none. */
static haul__arena *arena_of(haul__arenas *arenas, const haul_device *device)
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
    haul__arena *a = arena_of(arenas, needed->device);
    if (!a) {
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
        if (s->in_block)
            continue;
        if (s->within)
            place_within(s, is_placed);
        else if (s->early && !v->settled)
            status = take_apart(s);
        else if (s->offset >= 0 && (!is_placed || s->early))
            status = place(s, arena_of(arenas, s->device)->storage, v->apart);
    }
    v->early_placed = v->settled;
    v->generation = status ? 0 : arenas->generation + 1;
    return status;
}

/* ---- tensors ---- */

void haul__handles_bind(haul__variant *v, int first, haul__storage *storage)
{
    for (int i = first; i >= 0; i = v->handles[i].next) {
        HAUL__ASSERT((size_t)i < v->handle_count);
        v->handles[i].tensor.storage = storage;
    }
}

static void bind(haul__variant *v)
{
    for (size_t i = 0; i < v->outside_count; i++) {
        haul__outside *o = &v->outsides[i];
        if (o->bound != o->last)
            haul__handles_bind(v, o->first_handle, o->bound);
        o->last = o->bound;
    }
    for (size_t i = 0; i < v->inside_count; i++) {
        haul__inside *s = &v->insides[i];
        if (s->storage != s->bound)
            haul__handles_bind(v, s->first_handle, s->storage);
        s->bound = s->storage;
    }
}

/* ---- calls ---- */

/* Puts the random state into the attributes of a call that has one. */
static void draw(haul__variant *v, const haul__replayed *r)
{
    unsigned char    *attributes = v->attributes.bytes + r->form.attributes;
    haul_random_state state;
    int64_t           blocks;
    if (r->draws == HAUL__DRAWS) {
        memcpy(&blocks, attributes + r->operation->blocks_at, sizeof blocks);
        state = haul__random_take(blocks);
    } else {
        const haul__replayed *by = &v->calls[r->drawn_by];
        memcpy(&state, v->attributes.bytes + by->form.attributes + by->operation->random_at, sizeof state);
    }
    memcpy(attributes + r->operation->random_at, &state, sizeof state);
}

static void count_versions(const haul__call *c)
{
    for (uint64_t left = c->writes; left; left &= left - 1)
        haul__storage_changed(c->operands[__builtin_ctzll(left)]->storage);
    for (int i = 0; i < c->result_count; i++)
        if (c->results[i])
            haul__storage_changed(c->results[i]->storage);
}

/* A run of the calls. */
typedef struct run {
    haul__variant *v;
    haul_scope    *scope; /* of all calls: it restores the thread's settings, and temporaries of a call go with it */
    haul__planned_scratch scratch;
    haul__alloc_watch    *watch;
    bool                  has_moved;     /* an update has computed before its place */
    bool                  has_constants; /* those of the last run are there */
} run;

static void begin(run *x, const haul__replayed *r, haul__call *c)
{
    haul__variant      *v = x->v;
    haul_tensor *const *tensors = v->tensors + r->tensors;
    HAUL__ASSERT(r->tensors + (size_t)(r->count + r->result_count) <= v->tensor_count);
    haul__call_settings_set(&r->form.settings);
    haul__thread()->no_grad = true;
    x->scratch.items = v->scratch + r->scratch;
    x->scratch.count = v->in_blocks ? 0 : r->scratch_count;
    if (r->draws)
        draw(v, r);
    haul__call_begin(c, r->operation, v->attributes.bytes + r->form.attributes, r->count, r->result_count);
    c->device = r->device;
    c->partner = r->form.partner;
    c->records = r->form.records;
    c->into = r->form.into;
    c->wanted = r->form.wanted;
    c->saves = r->form.saves;
    c->saves_results = r->form.saves_results;
    c->writes = r->form.writes;
    c->inferred = c->fits = true;
    if (r->count <= HAUL__OWN_OPERANDS)
        memcpy(c->own_operands, tensors, (size_t)r->count * sizeof *tensors);
    else
        c->inputs = c->operands = v->tensors + r->tensors;
    for (int i = 0; i < r->result_count; i++)
        c->results[i] = tensors[r->count + i];
}

static haul_status compute_call(run *x, const haul__replayed *r)
{
    haul__call c;
    begin(x, r, &c);
    const bool        priced = haul__watched(HAUL_EVENT_COMMAND) && haul__price_begin(&c);
    const haul_status status = r->operation->compute(&c);
    if (priced)
        haul__price_end();
    count_versions(&c);
    haul__scope_empty(x->scope);
    return status;
}

/* Makes the kernels of a chain whose first call is `r`. Without them its calls go on one by one. */
static void make_kernels(run *x, const haul__replayed *r, haul__device_chain *chain)
{
    haul__error_record before;
    haul_status        status = HAUL_OK;
    haul__error_save(&before);
    for (int i = 0; i < chain->count && !status; i++) {
        haul__call c;
        begin(x, &r[i], &c);
        status = haul__device_chain_learn(chain, i, &c);
        haul__scope_empty(x->scope);
    }
    if (!status)
        status = haul__device_chain_compile(chain, x->v, (size_t)(r - x->v->calls));
    chain->refused = status != HAUL_OK;
    if (status)
        haul__error_restore(&before);
}

/* Computes all calls of a chain on a device that compiles kernel text. */
static haul_status compute_on_device(run *x, const haul__replayed *r)
{
    haul__variant *v = x->v;
    haul__chain   *chain = &v->chains[r->chain];
    haul_status    status = HAUL_OK;
    if (!chain->on_device && !x->watch->refuses)
        chain->on_device = haul__device_chain_new(chain->count);
    haul__device_chain *d = chain->on_device;
    const bool          may_fuse = d && !haul__is_dry() && !v->in_blocks;
    if (may_fuse && !d->groups && !x->watch->refuses && haul__device_chain_pays(d, v, chain->first))
        make_kernels(x, r, d);
    if (!may_fuse || !d->groups) {
        for (int i = 0; i < chain->count && !status; i++)
            status = compute_call(x, &r[i]);
        return status;
    }
    for (int i = 0; i < d->group_count && !status; i++) {
        const haul__chain_group *group = &d->groups[i];
        status = group->kernel ? haul__device_chain_launch(d, group, chain->name) : compute_call(x, &r[group->first]);
    }
    return status;
}

/* Computes all calls of a chain, of which `r` is the first. */
static haul_status compute_chain(run *x, const haul__replayed *r)
{
    haul__variant *v = x->v;
    haul__chain   *chain = &v->chains[r->chain];
    haul_status    status = HAUL_OK;
    if (!haul__device_is_host(r->device))
        return compute_on_device(x, r);
    for (int i = 0; i < chain->count && !status && !haul__is_dry() && !haul__chain_is_known(chain); i++) {
        haul__call c;
        begin(x, &r[i], &c);
        status = haul__chain_learn(v, chain, i, &c);
        haul__scope_empty(x->scope);
    }
    return status ? status : haul__chain_run(v, chain);
}

static haul_status compute_once(run *x, const haul__replayed *r)
{
    return r->chain >= 0 ? compute_chain(x, r) : compute_call(x, r);
}

/* Where parameters have changed, a call that writes nothing else is made again if it finds no memory, although the last
 * run needed none. */
static haul_status compute(run *x, const haul__replayed *r)
{
    haul__error_record before;
    if (!x->has_moved || r->form.writes)
        return compute_once(x, r);
    haul__error_save(&before);
    haul_status status = compute_once(x, r);
    if (status != HAUL_OUT_OF_MEMORY || haul_memory_release_cached(r->device))
        return status;
    haul__error_restore(&before);
    return compute_once(x, r);
}

static haul_status refuse_frozen(const run *x, const haul__replayed *r)
{
    const bool   is_host = x->watch->refused > 0;
    const char  *module = x->v->modules[r - x->v->calls].path;
    const size_t bytes = is_host ? x->watch->bytes : x->scratch.bytes;
    x->watch->refuses = false;
    return haul__fail(HAUL_STATE, r->operation->name, NULL,
                      "%zu bytes of %s are allocated%s%s in a followed step, and the recording is frozen", bytes,
                      is_host ? "host memory" : r->device->name, *module ? " by " : "", module);
}

/* Events and errors name the module whose forward function, or whose gradient, made the call. */
static haul_status compute_in_module(run *x, const haul__replayed *r)
{
    const char             *path = x->v->modules[r - x->v->calls].path;
    const haul__call_frame *around = haul__call_now();
    const haul__call_frame  frame = {.name = path, .mode = around ? around->mode : 0};
    if (!*path)
        return compute(x, r);
    haul__call_set(&frame);
    const haul_status status = compute(x, r);
    haul__call_set(around);
    return status;
}

static haul_status run_call(run *x, const haul__replayed *r)
{
    haul_status status = HAUL_OK;
    const int   count = r->chain < 0 ? 1 : x->v->chains[r->chain].count;
    for (int i = 0; i < count && !status; i++)
        status = haul__places_make(x->v, &r[i]);
    if (!status)
        status = compute_in_module(x, r);
    x->has_moved = x->has_moved || r->moved;
    return x->scratch.refuses && (x->scratch.missed || x->watch->refused) ? refuse_frozen(x, r) : status;
}

/* The updates that do not move in this run and whose place is before `place`. */
static haul_status run_late(run *x, size_t place, size_t *next)
{
    const haul__variant *v = x->v;
    haul_status          status = HAUL_OK;
    for (; *next < v->moved_count && v->calls[v->moved[*next]].place < place && !status; ++*next)
        status = run_call(x, &v->calls[v->moved[*next]]);
    return status;
}

/* True for the calls that the first one of their chain computes. */
static bool is_in_chain(const haul__variant *v, size_t call)
{
    return v->calls[call].chain >= 0 && v->chains[v->calls[call].chain].first != call;
}

static haul_status run_all(run *x)
{
    haul__variant *v = x->v;
    size_t         late = v->settled ? v->moved_count : 0;
    haul_status    status = HAUL_OK;
    for (size_t i = 0; i < v->call_count && !status; i++) {
        const haul__replayed *r = &v->calls[i];
        if ((r->moved && !v->settled) || (r->once && x->has_constants) || is_in_chain(v, i))
            continue;
        if (late < v->moved_count && !r->moved)
            status = run_late(x, r->place, &late);
        if (!status)
            status = run_call(x, r);
    }
    return status ? status : run_late(x, SIZE_MAX, &late);
}

/* The calls from `call` on that compute at once: one, or a chain. */
static size_t end_of_turn(const haul__variant *v, size_t call)
{
    const int chain = v->calls[call].chain;
    return call + (chain < 0 ? 1 : (size_t)v->chains[chain].count);
}

/* The same with blocks, where no updates move. */
static haul_status run_in_blocks(run *x)
{
    haul__variant *v = x->v;
    haul_status    status = HAUL_OK;
    haul__blocks_begin(v);
    for (size_t i = 0, end; i < v->call_count && !status; i = end) {
        end = end_of_turn(v, i);
        for (size_t k = i; k < end && !status; k++)
            status = haul__blocks_before(v, k);
        if (!status && !(v->calls[i].once && x->has_constants))
            status = run_call(x, &v->calls[i]);
        for (size_t k = i; k < end && !status; k++)
            haul__blocks_after(v, k);
    }
    haul__blocks_end(v);
    return status;
}

static uint64_t version_of(const haul__outside *o)
{
    return atomic_load_explicit(&o->bound->version, memory_order_relaxed);
}

static bool is_as_before(const haul__outside *o)
{
    return !o->steady || (o->prepared && o->prepared == o->bound && o->version == version_of(o));
}

static bool has_constants(const haul__variant *v)
{
    bool all = v->constant;
    for (size_t i = 0; i < v->inside_count && all; i++)
        all = v->insides[i].filled || !v->insides[i].constant;
    for (size_t i = 0; i < v->outside_count && all; i++)
        all = is_as_before(&v->outsides[i]);
    return all;
}

static void set_filled(haul__variant *v, bool filled)
{
    for (size_t i = 0; i < v->inside_count; i++)
        v->insides[i].filled = filled && v->insides[i].constant;
}

/* While constants are computed, their memory does not become that of a kept cast (memory/derived.h), which may not
 * change. */
static void lend_constants(haul__variant *v, bool lent)
{
    for (size_t i = 0; i < v->inside_count; i++)
        if (v->insides[i].constant && v->insides[i].storage)
            v->insides[i].storage->lent = lent;
}

/* The step does not write what constants are made of, so its version is that of the beginning. */
static void note_steady(haul__variant *v)
{
    for (size_t i = 0; i < v->outside_count; i++) {
        haul__outside *o = &v->outsides[i];
        if (!o->steady || !o->bound)
            continue;
        haul__object_keep(o->bound);
        haul__object_release(o->prepared);
        o->prepared = o->bound;
        o->version = version_of(o);
    }
}

haul_status haul__variant_run(haul__variant *v, haul__arenas *arenas, bool frozen)
{
    haul_scope  scope;
    haul_status status = haul__places_begin(v, arenas);
    if (!status)
        status = haul__scope_open(&scope, "haul_recording_run");
    if (status)
        return status;
    run x = {.v = v, .scope = &scope, .scratch.refuses = frozen, .watch = haul__alloc_watch_now()};
    x.watch->refuses = frozen;
    x.watch->refused = 0;
    x.has_constants = has_constants(v);
    const bool fills = v->constant && !x.has_constants;
    if (fills) {
        set_filled(v, false);
        lend_constants(v, true);
    }
    bind(v);
    if (haul__is_dry()) /* only what the calls allocate counts */
        haul__thread()->words[HAUL__DRY_RUN] |= HAUL__DRY_WITHIN;
    haul__planned_scratch *scratch = haul__planned_scratch_set(&x.scratch);
    haul__workspace       *work = haul__workspace_set(&arenas->work);
    status = v->in_blocks ? run_in_blocks(&x) : run_all(&x);
    x.watch->refuses = false;
    haul__workspace_set(work);
    haul__planned_scratch_set(scratch);
    if (fills)
        lend_constants(v, false);
    if (fills && !status) {
        set_filled(v, true);
        note_steady(v);
    }
    v->runs += !status;
    v->settled = !status && !x.scratch.missed;
    haul__scope_close(&scope);
    return status;
}
