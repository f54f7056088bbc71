/* Follows allocations, uses and releases in the log of a dry run, and moves storages away where room is short: those
 * that were used longest ago, or in a followed step those that are used latest. */
#include "record/spill_plan.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/numbers.h"
#include "core/error.h"
#include "memory/spill/spill.h"

/* Where a store's elements are while they are away. */
typedef enum place { IN_HOST, IN_FILE, NOWHERE } place;

/* A store that could be moved. */
typedef struct movable {
    uint64_t last;  /* when it was last allocated or used */
    uint64_t next;  /* the position of its next use (memory/spill/next_use.h) */
    place    place; /* of one that is away */
    bool     live, away;
} movable;

typedef struct plan {
    const haul__program *log;
    const haul_device   *device;
    movable             *movables; /* of the log's stores */
    size_t               count;    /* those up to here have been allocated */
    int64_t              limit;    /* bytes */
    int64_t              present;  /* bytes that are not away */
    int64_t              room[2];  /* bytes that host memory and the file may have; -1: any number */
    int64_t              held[3];  /* bytes of elements that are away, by place */
    uint64_t             clock;
    uint64_t             now, end; /* positions in a followed step; 0: there is none */
    bool                 is_full;  /* there was no room for a store that would return ahead of this call */
    int                  call;     /* that is under way; -1: none */
    haul__spill_plan     done;
} plan;

static bool is_movable(const plan *p, int store)
{
    const haul__program_store *s = &p->log->stores[store];
    return s->planned && !s->pinned_for && s->device == p->device;
}

/* ---- tiers ---- */

static bool has_room(const plan *p, place where, int64_t bytes)
{
    return p->room[where] < 0 || p->held[where] + bytes <= p->room[where];
}

/* As haul__spill_copy_for of memory/spill/copy.c. Copies of stores that are on the device make room. */
static place place_for(const plan *p, int64_t bytes)
{
    return has_room(p, IN_HOST, bytes) ? IN_HOST : has_room(p, IN_FILE, bytes) ? IN_FILE : NOWHERE;
}

static void leave(plan *p, int store)
{
    const haul__program_store *s = &p->log->stores[store];
    movable                   *m = &p->movables[store];
    m->away = true;
    m->place = place_for(p, s->bytes);
    HAUL__ASSERT(m->live && p->present >= s->block);
    p->held[m->place] += s->bytes;
    p->present -= s->block;
    p->done.spilled += s->bytes;
    p->done.to_file += m->place == IN_FILE ? s->bytes : 0;
    HAUL__ASSERT(p->done.to_file <= p->done.spilled);
    p->done.host_peak = larger(p->done.host_peak, p->held[IN_HOST]);
    p->done.file_peak = larger(p->done.file_peak, p->held[IN_FILE]);
    p->done.missing = larger(p->done.missing, p->held[NOWHERE]);
}

/* Its place is free once it is back. */
static void end_copy(plan *p, int store)
{
    movable *m = &p->movables[store];
    p->held[m->place] -= m->away ? p->log->stores[store].bytes : 0;
    HAUL__ASSERT(p->held[m->place] >= 0);
    m->away = false;
}

/* ---- room ---- */

/* As haul__goes_before of memory/spill/next_use.c. */
static bool goes_before(const plan *p, const movable *a, const movable *b)
{
    const uint64_t next_a = a->next >= p->now ? a->next : p->end, next_b = b->next >= p->now ? b->next : p->end;
    return p->now && next_a != next_b ? next_a > next_b : a->last < b->last;
}

/* The one that goes first of those with a block of at least `least` bytes, but none that is in use now; -1: there is
 * none. */
static int find_first(const plan *p, int64_t least)
{
    int found = -1;
    for (size_t i = 0; i < p->count; i++) {
        const movable *m = &p->movables[i];
        if (m->live && !m->away && !p->log->stores[i].stays && p->log->stores[i].block >= least && m->last < p->clock &&
            (found < 0 || goes_before(p, m, &p->movables[found])))
            found = (int)i;
    }
    HAUL__ASSERT(found < 0 || (is_movable(p, found) && p->movables[found].live));
    return found;
}

/* As make_room of memory/spill/spill.c. */
static void make_room(plan *p, int64_t wanted)
{
    HAUL__ASSERT(wanted >= 0);
    for (int64_t moved = 0; moved < wanted;) {
        int store = find_first(p, (wanted - moved) / 16);
        store = store >= 0 ? store : find_first(p, 0);
        if (store < 0)
            return;
        moved += p->log->stores[store].block;
        leave(p, store);
    }
}

static void enter(plan *p, int store)
{
    const int64_t block = p->log->stores[store].block;
    HAUL__ASSERT(p->movables[store].away == p->movables[store].live); /* it is new, or returns */
    p->movables[store].last = p->clock;
    if (p->present + block > p->limit)
        make_room(p, smaller(block, p->present + block - p->limit));
    p->present += block;
    if (p->present > larger(p->limit, p->done.over)) {
        p->done.over = p->present;
        p->done.over_store = store;
        p->done.over_call = p->call;
    }
}

static void come_back(plan *p, int store)
{
    enter(p, store);
    end_copy(p, store);
    p->done.returned += p->log->stores[store].bytes;
}

/* ---- what the log says ---- */

static void allocate(plan *p, int store)
{
    HAUL__ASSERT((size_t)store >= p->count && !p->movables[store].live); /* in the order of their numbers */
    p->clock++;
    p->call = p->log->stores[store].born_in;
    enter(p, store);
    p->movables[store].live = true;
    p->movables[store].next = p->now;
    p->count = (size_t)store + 1;
}

static void release(plan *p, int store)
{
    HAUL__ASSERT(p->movables[store].live);
    p->present -= p->movables[store].away ? 0 : p->log->stores[store].block;
    end_copy(p, store);
    HAUL__ASSERT(p->present >= 0 && !p->movables[store].away);
    p->movables[store].live = false;
}

/* All that the command uses stays until the next one. */
static void submit(plan *p, const haul__program_command *c)
{
    const int *uses = p->log->uses + c->use;
    HAUL__ASSERT(c->use + (size_t)c->use_count <= p->log->use_count);
    p->clock++;
    p->call = c->call;
    for (int i = 0; i < c->use_count; i++)
        if (is_movable(p, uses[i]))
            p->movables[uses[i]].last = p->clock;
    for (int i = 0; i < c->use_count; i++)
        if (p->movables[uses[i]].away)
            come_back(p, uses[i]);
}

static void apply(plan *p, const haul__program_change *c)
{
    const haul__program_store *s = &p->log->stores[c->store];
    HAUL__ASSERT((size_t)c->store < p->log->store_count && p->present >= 0);
    if (!is_movable(p, c->store))
        p->present -= c->freed && !s->pinned_for && s->device == p->device ? s->block : 0;
    else if (c->freed)
        release(p, c->store);
    else
        allocate(p, c->store);
}

static void return_ahead(plan *p, int store, int64_t room)
{
    if (!is_movable(p, store) || !p->movables[store].away || p->is_full)
        return;
    HAUL__ASSERT(p->movables[store].live && room >= 0);
    p->is_full = p->present + p->log->stores[store].block + room > p->limit;
    if (!p->is_full)
        come_back(p, store);
}

static void foresee(plan *p, const haul__program_foresight *f)
{
    if (f->device != p->device)
        return;
    HAUL__ASSERT(f->kind == HAUL__FORESEES_CALL ? f->position <= f->end : (size_t)f->store < p->log->store_count);
    if (f->kind == HAUL__FORESEES_USE) {
        p->movables[f->store].next = f->position;
    } else if (f->kind == HAUL__FORESEES_RETURN) {
        return_ahead(p, f->store, f->room);
    } else {
        p->now = f->position;
        p->end = f->end;
        p->is_full = false;
    }
}

static haul__spill_plan follow(plan *p, size_t from, size_t command)
{
    const haul__program *log = p->log;
    haul__spill_plan     before = {.spilled = 0};
    for (size_t i = 0, c = 0, f = 0; i < log->change_count || c < log->command_count;) {
        const haul__program_foresight *foresight = f < log->foresight_count ? &log->foresights[f] : NULL;
        if (i == from && c == command) {
            before = p->done;
            p->done.over = p->done.host_peak = p->done.file_peak = p->done.missing = 0;
        }
        if (foresight && foresight->moment <= i && foresight->after <= c)
            foresee(p, &log->foresights[f++]);
        else if (c < log->command_count && log->commands[c].moment <= i)
            submit(p, &log->commands[c++]);
        else
            apply(p, &log->changes[i++]);
    }
    HAUL__ASSERT(p->held[IN_HOST] >= 0 && p->held[IN_FILE] >= 0 && p->present >= 0);
    return before;
}

haul_status haul__spill_plan_make(const haul__dry_run *run, const haul__dry_base *base, size_t from, size_t command,
                                  haul__spill_plan *out)
{
    const haul__program *log = &run->program;
    plan p = {.log = log, .device = base->device, .limit = base->limit, .present = base->start, .clock = 1, .call = -1};
    HAUL__ASSERT(from <= log->change_count && command <= log->command_count);
    *out = (haul__spill_plan){.spilled = 0};
    if (!base->limit || (from == log->change_count && command == log->command_count))
        return HAUL_OK;
    haul__spill_tiers_room(base->device, &p.room[IN_HOST], &p.room[IN_FILE]);
    p.movables = haul__calloc(log->store_count + 1, sizeof *p.movables);
    if (!p.movables)
        return haul__fail_memory("haul_estimate", log->store_count * sizeof *p.movables);
    const haul__spill_plan before = follow(&p, from, command);
    haul__free(p.movables);
    *out = p.done;
    out->spilled -= before.spilled;
    out->to_file -= before.to_file;
    out->returned -= before.returned;
    HAUL__ASSERT(0 <= out->to_file && out->to_file <= out->spilled && out->returned >= 0);
    return HAUL_OK;
}
