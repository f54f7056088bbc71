/* Crews, the threads that are their ranks, and how a rank's works get on. */
#include "group/local/rank.h"

#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/fnv.h"
#include "base/system/clock.h"
#include "base/system/fork.h"
#include "base/text/plain.h"
#include "device/device.h"
#include "group/local/crew.h"
#include "group/thread.h"

#define SECOND INT64_C(1000000000)

static const char prefix[] = "local:";

static _Thread_local haul__rank *self; /* NULL: the thread is not a rank */

/* ---- crews ---- */

static void free_crew(haul__crew *crew)
{
    haul__meeting_free(crew->world);
    pthread_cond_destroy(&crew->changed);
    pthread_mutex_destroy(&crew->lock);
    haul__free(crew);
}

void haul__crew_release(haul__crew *crew)
{
    if (!crew || crew->forks != haul__fork_count())
        return;
    pthread_mutex_lock(&crew->lock);
    const bool last = --crew->references == 0;
    pthread_mutex_unlock(&crew->lock);
    if (last)
        free_crew(crew);
}

static haul__crew *new_crew(const char *name)
{
    static atomic_ullong made;
    pthread_condattr_t   clock;
    haul__crew          *crew = haul__fork_watch() ? haul__calloc(1, sizeof *crew) : NULL;
    if (!crew)
        return NULL;
    const uint64_t number = atomic_fetch_add(&made, 1);
    crew->key = haul__fnv(haul__fnv(HAUL__FNV, prefix, sizeof prefix), &number, sizeof number);
    crew->forks = haul__fork_count();
    crew->references = 1;
    crew->failed = -1;
    haul__snprintf(crew->name, sizeof crew->name, "%s", name);
    pthread_mutex_init(&crew->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&crew->changed, &clock);
    pthread_condattr_destroy(&clock);
    HAUL__ASSERT(crew->references == 1 && !crew->size);
    return crew;
}

/* Adds a rank with the device of this name, which has `length` bytes. */
static haul_status add_rank(haul__crew *crew, const char *name, size_t length, const char *operation)
{
    if (crew->size == HAUL__CREW_MOST)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "name", "\"%.60s...\" has more than %d devices", crew->name,
                          HAUL__CREW_MOST);
    haul__rank *r = &crew->ranks[crew->size];
    if (length == 0 || length >= sizeof r->device_name)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "name",
                          "\"%.100s\" is unknown; \"local:\" and names of devices are expected, for example "
                          "\"local:cpu,opencl:0\"",
                          crew->name);
    *r = (haul__rank){.crew = crew, .place = crew->size};
    memcpy(r->device_name, name, length);
    r->device = haul_device_get(r->device_name);
    r->end = &r->first;
    HAUL__ASSERT(r->place == crew->size && !r->first);
    crew->size++;
    return haul__device_check(r->device, operation, "name");
}

static haul_status add_ranks(haul__crew *crew, const char *operation)
{
    haul_status status = HAUL_OK;
    const char *at = crew->name + strlen(prefix);
    for (bool more = true; more && !status;) {
        const size_t length = strcspn(at, ",");
        status = add_rank(crew, at, length, operation);
        more = at[length] == ',';
        at += length + 1;
    }
    HAUL__ASSERT(status || crew->size > 0);
    return status;
}

haul__crew *haul__crew_new(const char *name, const char *operation)
{
    if (!name || strncmp(name, prefix, strlen(prefix)) != 0 || strlen(name) >= HAUL__CREW_NAME) {
        haul__fail(HAUL_INVALID_ARGUMENT, operation, "name",
                   "the name is \"%.60s\"; \"local:\" and names of devices are expected, for example "
                   "\"local:cpu,opencl:0\"",
                   name ? name : "NULL");
        return NULL;
    }
    haul__crew *crew = new_crew(name);
    if (!crew) {
        haul__fail_memory(operation, sizeof *crew);
        return NULL;
    }
    haul_status status = add_ranks(crew, operation);
    if (!status && !(crew->world = haul__meeting_of_all(crew)))
        status = haul__fail_memory(operation, sizeof *crew);
    HAUL__ASSERT(status || (crew->world && crew->size > 0));
    if (!status)
        return crew;
    free_crew(crew);
    return NULL;
}

int haul__crew_size(const haul__crew *crew)
{
    return crew->size;
}

haul_device *haul__crew_device(const haul__crew *crew, int rank)
{
    return crew->ranks[rank].device;
}

/* ---- failures ---- */

/* The caller has the lock. */
static void lose(haul__crew *crew, const char *why)
{
    if (!crew->lost)
        haul__snprintf(crew->why, sizeof crew->why, "%s", why);
    crew->lost = true;
    haul__crew_changed(crew);
}

void haul__crew_fail(haul__crew *crew, int rank)
{
    haul__error_record error;
    char               why[sizeof crew->why];
    if (crew->forks != haul__fork_count())
        return;
    haul__error_save(&error);
    HAUL__ASSERT(rank >= 0 && rank < crew->size && error.status);
    haul__snprintf(why, sizeof why, "rank %d (%s) has failed: %.450s", rank, crew->ranks[rank].device_name,
                   error.message);
    pthread_mutex_lock(&crew->lock);
    if (crew->failed < 0 || (crew->heard && !crew->ranks[rank].heard)) {
        crew->failed = rank;
        crew->heard = crew->ranks[rank].heard;
        crew->error = error;
    }
    lose(crew, why);
    pthread_mutex_unlock(&crew->lock);
}

haul_status haul__crew_status(haul__crew *crew, const char *operation)
{
    pthread_mutex_lock(&crew->lock);
    const int                failed = crew->failed;
    const haul__error_record error = crew->error;
    pthread_mutex_unlock(&crew->lock);
    return failed < 0 ? HAUL_OK
                      : haul__fail(error.status, operation, NULL, "rank %d (%s) has failed: %.400s", failed,
                                   crew->ranks[failed].device_name, error.message);
}

/* The works of a rank fail, and with them those of the others: its buffers are not there any more. */
static void lose_by(haul__rank *r, const char *why)
{
    pthread_mutex_lock(&r->crew->lock);
    lose(r->crew, why);
    pthread_mutex_unlock(&r->crew->lock);
}

/* ---- being a rank ---- */

haul_group *haul__rank_enter(haul__crew *crew, int rank)
{
    haul__rank   *r = &crew->ranks[rank];
    haul__engine *engine = haul__local_engine_new(crew->world, rank);
    haul_group   *g = engine ? haul__group_new(engine, crew->key) : NULL;
    if (!g)
        return NULL;
    HAUL__ASSERT(!r->group && !self && g->rank == rank);
    r->group = g;
    self = r;
    haul__group_threads(1);
    return g;
}

haul_group *haul__rank_group(const char *name)
{
    return self && (!name || strcmp(name, self->crew->name) == 0) ? self->group : NULL;
}

bool haul__rank_has_heard(void)
{
    return self && self->heard;
}

haul_status haul__rank_check(const haul_group *group, const char *operation)
{
    const haul__rank *owner = haul__local_engine_rank(group->engine);
    if (owner != self)
        return haul__fail(HAUL_STATE, operation, "group",
                          "only the thread of rank %d (%s), which haul_group_run has started, can use the group",
                          group->rank, owner->device_name);
    if (owner->crew->forks != haul__fork_count())
        return haul__fail(HAUL_STATE, operation, "group",
                          "this process is the child of a fork; only its parent has the ranks of the group");
    return HAUL_OK;
}

/* ---- works ---- */

/* Takes a work that is over off the list, which `at` points to. */
static void finish(haul__rank *r, haul__work **at)
{
    haul__work *w = *at;
    HAUL__ASSERT(w->over);
    *at = w->later;
    if (r->end == &w->later)
        r->end = at;
    if (w->status && !w->together)
        haul__work_break_group(w);
    if (w->status && haul__work_has_request(w))
        lose_by(r, w->error ? w->error->message : "a collective has failed, and no memory was left for its error");
    r->heard |= w->status && w->of_another;
    if (w->own)
        haul__work_drop(w);
    else
        atomic_store(&w->done, true);
}

/* The work waits for a rank that will not come, or has not come for the limit. The caller has the lock. */
static void blame(haul__rank *r, const haul__work *w, int rank, bool ended)
{
    char        one[128], which[48] = "the message", what[128] = "has ended without it", text[512];
    const int   place = w->group->places[rank]; /* the text is for all ranks, also those of other groups */
    const char *waits = r->crew->ranks[place].waits;
    HAUL__ASSERT(place >= 0 && place < r->crew->size);
    haul__snprintf(one, sizeof one, "rank %d (%s)", place, r->crew->ranks[place].device_name);
    if (w->collective)
        haul__snprintf(which, sizeof which, "collective %llu", (unsigned long long)w->number);
    if (!ended)
        haul__snprintf(what, sizeof what, "has not reached it for %g seconds%s%.60s", haul__group_limit(),
                       waits ? ", and waits in " : "", waits ? waits : "");
    haul__snprintf(text, sizeof text, "%s%s%.100s%s cannot be completed: %s %s", which, w->what[0] ? " (" : "", w->what,
                   w->what[0] ? ")" : "", one, what);
    haul__fail(HAUL_STATE, w->name, NULL, "%s", text);
    lose(r->crew, text);
}

/* The caller has the lock, so that no rank comes between the verdict and the loss. True if a rank is missing. */
static bool blame_missing(haul__rank *r, const haul__work *w, const haul__request *request, bool late)
{
    const int ended = haul__local_missing(w->group->engine, request, true);
    const int missing = ended < 0 && late ? haul__local_missing(w->group->engine, request, false) : ended;
    if (missing >= 0)
        blame(r, w, missing, ended >= 0);
    return missing >= 0;
}

static void judge(haul__rank *r, haul__work *w)
{
    const bool late = (double)(haul__system_ns() - w->begun_ns) > haul__group_limit() * (double)SECOND;
    bool       fails = false;
    HAUL__ASSERT(!w->over);
    pthread_mutex_lock(&r->crew->lock);
    for (int i = 0; i < 2 && !fails && !r->crew->lost; i++)
        fails = w->requests[i].open && blame_missing(r, w, &w->requests[i], late);
    pthread_mutex_unlock(&r->crew->lock);
    if (fails)
        haul__work_fail(w);
}

static bool is_lost(haul__crew *crew)
{
    pthread_mutex_lock(&crew->lock);
    const bool lost = crew->lost;
    pthread_mutex_unlock(&crew->lock);
    return lost;
}

/* A call that was completed for one rank was completed for all, so also a lost crew ends what another rank has ended.
 * Once a crew is lost, its reason stays as it is. */
static bool step(haul__rank *r, haul__work *w)
{
    bool       changed = true;
    const bool lost = is_lost(r->crew); /* before the step: a call that ended until then has ended for all */
    if (w->over)
        return true;
    if (w->group->broken) {
        haul__work_refuse_broken(w);
    } else if (!(changed = haul__work_step(w)) && lost) {
        haul__fail(HAUL_STATE, w->name, NULL, "%.450s", r->crew->why);
        w->of_another = true;
        haul__work_fail(w);
    } else if (!changed) {
        judge(r, w);
    }
    return changed || w->over;
}

/* Gets on with each work that may run. Returns true if anything has changed. */
static bool step_works(haul__rank *r)
{
    bool        changed = false;
    haul__work *w;
    for (haul__work **at = &r->first; (w = *at);) {
        if (!haul__work_must_wait(w, r->first))
            changed |= step(r, w);
        if (w->over)
            finish(r, at);
        else
            at = &w->later;
    }
    return changed;
}

/* Waits until the crew has changed since the last call, for a second at most. */
static void await_change(haul__rank *r, const char *operation)
{
    const double    limit = haul__group_limit();
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += limit < 1 ? (long)(limit * (double)SECOND) : SECOND;
    until.tv_sec += until.tv_nsec / SECOND;
    until.tv_nsec %= SECOND;
    pthread_mutex_lock(&r->crew->lock);
    HAUL__ASSERT(r->seen <= r->crew->changes);
    bool in_time = true;
    r->waits = operation;
    while (r->crew->changes == r->seen && in_time)
        in_time = pthread_cond_timedwait(&r->crew->changed, &r->crew->lock, &until) == 0;
    r->seen = r->crew->changes;
    pthread_mutex_unlock(&r->crew->lock);
}

void haul__rank_step(void)
{
    haul__error_record before;
    if (!self || !self->first)
        return;
    haul__error_save(&before);
    step_works(self);
    haul__error_restore(&before);
}

haul__work *haul__rank_take(haul__work *w)
{
    haul__rank *r = self;
    const bool  foreign = haul__rank_check(w->group, w->name) != HAUL_OK;
    if (foreign || w->group->broken) {
        if (!foreign)
            haul__work_refuse_broken(w);
        haul__work_drop(w);
        return NULL;
    }
    if (w->collective)
        w->number = atomic_fetch_add(&w->group->begun, 1) + 1;
    HAUL__ASSERT(!w->later && !*r->end);
    *r->end = w;
    r->end = &w->later;
    haul__rank_step();
    return w;
}

/* Another thread may free an object whose work is under way. The rank's thread then completes the work, or ends it. */
void haul__rank_wait(haul__work *w)
{
    haul__error_record before;
    const bool         own = haul__local_engine_rank(w->group->engine) == self;
    bool               waited = false;
    haul__error_save(&before);
    while (!atomic_load(&w->done)) {
        if (!own)
            nanosleep(&(struct timespec){0, SECOND / 1000}, NULL);
        else if (!step_works(self) && !atomic_load(&w->done)) {
            await_change(self, w->name);
            waited = true;
        }
    }
    HAUL__ASSERT(w->over);
    if (waited) {
        pthread_mutex_lock(&self->crew->lock);
        self->waits = NULL;
        pthread_mutex_unlock(&self->crew->lock);
    }
    haul__error_restore(&before);
}

void haul__rank_leave(void)
{
    haul__rank *r = self;
    if (!r || r->crew->forks != haul__fork_count())
        return;
    while (r->first) {
        haul__fail(HAUL_STATE, r->first->name, NULL, "the thread of its rank has ended");
        haul__work_fail(r->first);
        finish(r, &r->first);
    }
    HAUL__ASSERT(!r->first && r->end == &r->first);
    self = NULL;
    haul__object_release(r->group);
    r->group = NULL;
    haul__group_threads(-1);
    pthread_mutex_lock(&r->crew->lock);
    r->ended = true;
    haul__crew_changed(r->crew);
    pthread_mutex_unlock(&r->crew->lock);
}
