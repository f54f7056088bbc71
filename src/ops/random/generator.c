/* Random number generators. One belongs to the process, others are objects. The thread's setting HAUL__GENERATOR says
 * which one draws use. */
#include "ops/random/generator.h"

#include "base/assert.h"
#include "base/spin.h"
#include "base/system/fork.h"
#include "core/error.h"
#include "core/trial.h"
#include "engine/follow.h"
#include "memory/dry_run/dry_run.h"

struct haul_generator {
    haul__object      object;
    haul_random_state state;
};

static haul_generator process; /* users never see it */
static atomic_bool    lock;    /* guards the states of all */

static void take_lock(void)
{
    haul__spin_lock(&lock);
}

static void give_lock(void)
{
    haul__spin_unlock(&lock);
}

HAUL__AT_FORK(HAUL__FORK_GENERATORS, .take = take_lock, .give = give_lock);

static haul__map_entry *moved(const haul_generator *g);

static void destroy(void *object)
{
    haul__map_entry *e = moved(object);
    if (e)
        e->value = NULL; /* another generator may be made in its place */
    haul__object_free(object, sizeof(haul_generator));
}

static const haul__class generator_class = {.name = "generator", .destroy = destroy};

/* ---- states ---- */

/* How far a dry run has moved a generator, which itself does not change; NULL: not at all, or outside of dry runs. */
static haul__map_entry *moved(const haul_generator *g)
{
    return haul__is_dry() ? haul__map_find(&haul__dry_run_now()->drawn, g) : NULL;
}

static haul_random_state get(const haul_generator *g)
{
    static const char      operation[] = "haul_random_state_get";
    const haul__map_entry *e = moved(g);
    haul__refuse_followed(operation, "reads the random state");
    take_lock();
    haul_random_state state = g->state;
    give_lock();
    state.offset += e ? (uintptr_t)e->value : 0;
    return state;
}

/* In a dry run another seed is not taken over. */
static haul_status set(haul_generator *g, haul_random_state state, const char *operation)
{
    bool             is_new;
    haul__map_entry *e = NULL;
    if (haul__refuse_followed(operation, "changes the random state"))
        return haul_error_status();
    if (haul__is_dry() && !(e = haul__map_insert(&haul__dry_run_now()->drawn, g, &is_new)))
        return haul__fail_memory(operation, sizeof *e);
    HAUL__ASSERT(!haul__is_dry() || e);
    take_lock();
    if (haul__is_dry())
        e->value = (void *)(uintptr_t)(state.offset - g->state.offset);
    else
        g->state = state;
    give_lock();
    return HAUL_OK;
}

haul_random_state haul_random_state_get(void)
{
    return get(&process);
}

void haul_random_state_set(haul_random_state state)
{
    set(&process, state, "haul_random_state_set");
}

void haul_manual_seed(uint64_t seed)
{
    set(&process, (haul_random_state){seed, 0}, "haul_manual_seed");
}

/* ---- the user's generators ---- */

haul_generator *haul_generator_new(uint64_t seed)
{
    haul_generator *g = haul__object_new(sizeof *g, &generator_class);
    if (g)
        g->state = (haul_random_state){seed, 0};
    else
        haul__fail_memory("haul_generator_new", sizeof *g);
    return haul__own(g, "haul_generator_new");
}

static haul_status check(const haul_generator *g, const char *operation)
{
    return haul__check_object(g, &generator_class, operation, "generator");
}

haul_random_state haul_generator_state_get(const haul_generator *generator)
{
    if (check(generator, "haul_generator_state_get"))
        return (haul_random_state){0, 0};
    return get(generator);
}

haul_status haul_generator_state_set(haul_generator *generator, haul_random_state state)
{
    haul_status status = check(generator, "haul_generator_state_set");
    return status ? status : set(generator, state, "haul_generator_state_set");
}

haul_status haul_set_generator(haul_generator *generator)
{
    static const char operation[] = "haul_set_generator";
    haul__recorder   *recorder = haul__thread()->words[HAUL__RECOMPUTE] ? NULL : haul__recorder_now();
    haul_status       status = generator ? check(generator, operation) : HAUL_OK;
    if (recorder)
        recorder->refuse(recorder, "haul_set_generator changes the generator in the step; set it before");
    if (!status)
        status = haul__refuse_followed(operation, "changes the generator");
    if (!status && !haul__thread_hold(HAUL__GENERATOR, generator))
        status = haul__fail_memory(operation, 0);
    return status;
}

haul_generator *haul_current_generator(void)
{
    return haul__thread()->held[HAUL__GENERATOR];
}

/* ---- for operations ---- */

static haul_generator *current(void)
{
    haul_generator *g = haul__thread()->held[HAUL__GENERATOR];
    return g ? g : &process;
}

/* A dry run draws nothing, but gives each draw a place of its own. */
static haul_random_state take_dry(haul_generator *g, int64_t blocks)
{
    bool                    is_new;
    const haul_random_state taken = get(g);
    haul__map_entry        *e = haul__map_insert(&haul__dry_run_now()->drawn, g, &is_new);
    if (e)
        e->value = (void *)((uintptr_t)e->value + (uintptr_t)blocks);
    return taken;
}

haul_random_state haul__random_take(int64_t blocks)
{
    HAUL__ASSERT(blocks >= 0);
    haul_generator *g = current();
    if (haul__is_dry())
        return take_dry(g, blocks);
    take_lock();
    haul_random_state taken = g->state;
    g->state.offset += (uint64_t)blocks;
    give_lock();
    return taken;
}

void haul__random_give_back(haul_random_state taken, int64_t blocks)
{
    HAUL__ASSERT(blocks >= 0);
    haul_generator *g = current();
    if (haul__is_dry())
        return;
    take_lock();
    if (g->state.seed == taken.seed && g->state.offset == taken.offset + (uint64_t)blocks)
        g->state = taken;
    give_lock();
}
