/* Follows allocations, uses and releases in the log of a dry run, and moves storages away that were used longest ago
 * where room is short. */
#include "record/spill_plan.h"

#include "base/alloc.h"
#include "core/error.h"

/* A store that could be moved. */
typedef struct movable {
    uint64_t last; /* when it was last allocated or used */
    bool     live, away;
} movable;

typedef struct plan {
    const haul__program *log;
    const haul_device   *device;
    movable             *movables; /* of the log's stores */
    size_t               count;    /* those up to here have been allocated */
    int64_t              limit;    /* bytes */
    int64_t              present;  /* bytes that are not away */
    uint64_t             clock;
    haul__spill_plan     done;
} plan;

static bool is_movable(const plan *p, int store)
{
    const haul__program_store *s = &p->log->stores[store];
    return s->planned && !s->pinned_for && s->device == p->device;
}

/* The one used longest ago with a block of at least `least` bytes, but none that is in use now; -1: there is none. */
static int find_oldest(const plan *p, int64_t least)
{
    int found = -1;
    for (size_t i = 0; i < p->count; i++) {
        const movable *m = &p->movables[i];
        if (m->live && !m->away && !p->log->stores[i].stays && p->log->stores[i].block >= least && m->last < p->clock &&
            (found < 0 || m->last < p->movables[found].last))
            found = (int)i;
    }
    return found;
}

/* As make_room of memory/spill/spill.c. */
static void make_room(plan *p, int64_t wanted)
{
    for (int64_t moved = 0; moved < wanted;) {
        int store = find_oldest(p, (wanted - moved) / 16);
        store = store >= 0 ? store : find_oldest(p, 0);
        if (store < 0)
            return;
        p->movables[store].away = true;
        moved += p->log->stores[store].block;
        p->present -= p->log->stores[store].block;
        p->done.spilled += p->log->stores[store].bytes;
    }
}

static void enter(plan *p, int store)
{
    const int64_t block = p->log->stores[store].block;
    p->movables[store].last = p->clock;
    p->movables[store].away = false;
    if (p->present + block > p->limit)
        make_room(p, block);
    p->present += block;
    p->done.over = p->done.over || p->present > p->limit;
}

static void allocate(plan *p, int store)
{
    p->clock++;
    enter(p, store);
    p->movables[store].live = true;
    p->count = (size_t)store + 1;
}

static void release(plan *p, int store)
{
    p->present -= p->movables[store].away ? 0 : p->log->stores[store].block;
    p->movables[store].live = false;
}

/* All that the command uses stays until the next one. */
static void submit(plan *p, const haul__program_command *c)
{
    const int *uses = p->log->uses + c->use;
    p->clock++;
    for (int i = 0; i < c->use_count; i++)
        if (is_movable(p, uses[i]))
            p->movables[uses[i]].last = p->clock;
    for (int i = 0; i < c->use_count; i++) {
        if (!p->movables[uses[i]].away)
            continue;
        enter(p, uses[i]);
        p->done.returned += p->log->stores[uses[i]].bytes;
    }
}

static void apply(plan *p, const haul__program_change *c)
{
    const haul__program_store *s = &p->log->stores[c->store];
    if (!is_movable(p, c->store))
        p->present -= c->freed && !s->pinned_for && s->device == p->device ? s->block : 0;
    else if (c->freed)
        release(p, c->store);
    else
        allocate(p, c->store);
}

static haul__spill_plan follow(plan *p, size_t from, size_t command)
{
    const haul__program *log = p->log;
    haul__spill_plan     before = {.spilled = 0};
    for (size_t i = 0, c = 0; i < log->change_count || c < log->command_count;) {
        if (i == from && c == command) {
            before = p->done;
            p->done.over = false;
        }
        if (c < log->command_count && log->commands[c].moment <= i)
            submit(p, &log->commands[c++]);
        else
            apply(p, &log->changes[i++]);
    }
    return before;
}

haul_status haul__spill_plan_make(const haul__dry_run *run, const haul__dry_base *base, size_t from, size_t command,
                                  haul__spill_plan *out)
{
    const haul__program *log = &run->program;
    plan p = {.log = log, .device = base->device, .limit = base->limit, .present = base->start, .clock = 1};
    *out = (haul__spill_plan){.spilled = 0};
    if (!base->limit || (from == log->change_count && command == log->command_count))
        return HAUL_OK;
    p.movables = haul__calloc(log->store_count + 1, sizeof *p.movables);
    if (!p.movables)
        return haul__fail_memory("haul_estimate", log->store_count * sizeof *p.movables);
    const haul__spill_plan before = follow(&p, from, command);
    haul__free(p.movables);
    *out = (haul__spill_plan){
        .spilled = p.done.spilled - before.spilled, .returned = p.done.returned - before.returned, .over = p.done.over};
    return HAUL_OK;
}
