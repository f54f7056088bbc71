/* Runs the calls of a variant on the tensors of a step. */
#include <haul/memory.h>
#include <string.h>

#include "base/assert.h"
#include "core/scope.h"
#include "engine/driver.h"
#include "engine/price.h"
#include "events/call.h"
#include "events/events.h"
#include "memory/dry_run/dry_run.h"
#include "memory/planned_scratch.h"
#include "ops/random/generator.h"
#include "record/follow/blocks.h"
#include "record/follow/chain.h"
#include "record/follow/device_chain.h"
#include "record/follow/places.h"
#include "record/follow/variant.h"

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
        HAUL__ASSERT(r->drawn_by < r - v->calls && by->draws == HAUL__DRAWS);
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
    HAUL__ASSERT(r->result_count <= HAUL__MAX_RESULTS && r->scratch + (size_t)r->scratch_count <= v->scratch_count);
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
    HAUL__ASSERT(!chain->groups && !chain->refused);
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
    HAUL__ASSERT(r == &v->calls[chain->first]);
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
    HAUL__ASSERT(r == &v->calls[chain->first]);
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
    HAUL__ASSERT(*next <= v->moved_count);
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
    HAUL__ASSERT(late <= v->moved_count);
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
    HAUL__ASSERT(!v->moved_count);
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

/* While the calls compute, memory that is not in an arena, of constants or pinned, does not become that of a kept copy
 * (memory/derived.h), which may not change, and whose memory outlives the step. */
static void lend_apart(haul__variant *v, bool lent)
{
    for (size_t i = 0; i < v->inside_count; i++)
        if (v->insides[i].offset < 0 && v->insides[i].storage && v->insides[i].storage != &v->insides[i].own)
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
        HAUL__ASSERT(!o->written); /* the step only reads it */
        o->prepared = o->bound;
        o->version = version_of(o);
    }
}

haul_status haul__variant_run(haul__variant *v, haul__arenas *arenas, bool frozen)
{
    haul_scope  scope;
    haul_status status = haul__places_begin(v, arenas);
    HAUL__ASSERT(v->generation == arenas->generation + 1); /* its stores have places in these */
    if (!status)
        status = haul__scope_open(&scope, "haul_recording_run");
    if (status)
        return status;
    run x = {.v = v, .scope = &scope, .scratch.refuses = frozen, .watch = haul__alloc_watch_now()};
    x.watch->refuses = frozen;
    x.watch->refused = 0;
    x.has_constants = has_constants(v);
    const bool fills = v->constant && !x.has_constants;
    if (fills)
        set_filled(v, false);
    lend_apart(v, true);
    bind(v);
    if (haul__is_dry()) /* only what the calls allocate counts */
        haul__thread()->words[HAUL__DRY_RUN] |= HAUL__DRY_WITHIN;
    haul__planned_scratch *scratch = haul__planned_scratch_set(&x.scratch);
    haul__workspace       *work = haul__workspace_set(&arenas->work);
    status = v->in_blocks ? run_in_blocks(&x) : run_all(&x);
    x.watch->refuses = false;
    haul__workspace_set(work);
    haul__planned_scratch_set(scratch);
    lend_apart(v, false);
    if (fills && !status) {
        set_filled(v, true);
        note_steady(v);
    }
    v->runs += !status;
    v->settled = !status && !x.scratch.missed;
    haul__scope_close(&scope);
    return status;
}
