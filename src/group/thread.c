/* The group thread: the queue of works, and how it starts, waits and ends. */
#include "group/thread.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/system/clock.h"
#include "base/system/cores.h"
#include "base/system/fork.h"
#include "base/text/plain.h"
#include "group/line.h"
#include "group/offer.h"

#define SECOND INT64_C(1000000000)

enum {
    STACK = 1 << 20,      /* MPI libraries need more than Haul's own threads */
    IDLE_MS = 20,         /* between two looks at control messages without works */
    EAGER_TESTS = 200,    /* before naps */
    NAP_NS = 50000,       /* measured: naps of 50 us leave the processor to computations and cost little */
    LONG_NAP_NS = 500000, /* after many naps: a rank is late */
    LONG_AFTER = 400,     /* so many */
    CONTROL_EVERY_NS = 2000000
};

haul__line haul__group_line = {.lock = PTHREAD_MUTEX_INITIALIZER};
#define line haul__group_line

static _Atomic double limit_seconds;

double haul__group_limit(void)
{
    double limit = atomic_load(&limit_seconds);
    if (limit > 0)
        return limit;
    return haul__group_limit_given(&limit) && limit > 0 ? limit : 300;
}

bool haul__group_limit_given(double *seconds)
{
    const char *text = getenv("HAUL_GROUP_LIMIT");
    char       *end;
    *seconds = text ? haul__strtod(text, &end) : 0;
    return !text || (end != text && *end == '\0' && *seconds > 0 && *seconds < 1e9);
}

void haul__group_set_limit(double seconds)
{
    atomic_store(&limit_seconds, seconds);
}

/* ---- works ---- */

/* True if the library still uses memory of the group's works. */
static bool uses_memory(const haul_group *group)
{
    bool uses = false;
    pthread_mutex_lock(&line.lock);
    for (const haul__work *w = line.first; w && !uses; w = w->later)
        uses = w->group == group && haul__work_has_request(w);
    pthread_mutex_unlock(&line.lock);
    return uses;
}

/* Takes a work that is over off the list, which `at` points to, and wakes its owner. With a failed work its group ends.
 * Owners of its other works may free their memory then, so the job ends if the library uses it. */
static void finish(haul__work **at)
{
    haul__work *w = *at;
    HAUL__ASSERT(w->over);
    haul__roll_call_forget(w);
    if (w->status && !w->together && uses_memory(w->group)) {
        if (w->error)
            haul__error_restore(w->error);
        else
            haul__fail_memory(w->name, sizeof *w->error);
        haul__line_lose();
        return;
    }
    pthread_mutex_lock(&line.lock);
    *at = w->later;
    if (line.end == &w->later)
        line.end = at;
    if (w->status && !w->together)
        haul__work_break_group(w);
    const bool own = w->own;
    if (!own)
        atomic_store(&w->done, true);
    pthread_cond_broadcast(&line.finished);
    pthread_mutex_unlock(&line.lock);
    if (own)
        haul__work_drop(w);
}

/* Gets on with each work that may run. Returns true if anything has changed. */
static bool step_works(bool *any)
{
    bool changed = false;
    pthread_mutex_lock(&line.lock);
    haul__work **at = &line.first, *w = *at;
    pthread_mutex_unlock(&line.lock);
    *any = w != NULL;
    while (w && !line.lost) {
        HAUL__ASSERT(!w->group->broken || !haul__work_has_request(w)); /* 4 */
        if (w->group->broken && !w->over)
            haul__work_refuse_broken(w);
        else if (!haul__work_must_wait(w, line.first))
            changed |= haul__work_step(w);
        if (!w->over && (double)(haul__system_ns() - w->begun_ns) > haul__group_limit() * (double)SECOND &&
            !haul__work_must_wait(w, line.first))
            haul__roll_call_about(w);
        if (!w->over)
            haul__roll_call_leavers(w);
        if (w->over)
            finish(at);
        else
            at = &w->later;
        if (line.lost) /* the owners of all works free them */
            return true;
        pthread_mutex_lock(&line.lock);
        w = *at;
        pthread_mutex_unlock(&line.lock);
    }
    return changed;
}

void haul__line_lose(void)
{
    HAUL__ASSERT(!line.lost);
    haul__error_save(&line.error);
    haul__roll_call_end(line.error.message);
    pthread_mutex_lock(&line.lock);
    line.lost = true;
    line.lost_at_exit = line.exiting;
    line.lost_ns = haul__system_ns();
    for (haul__work *w = line.first, *later; w; w = later) {
        later = w->later; /* its owner frees a work that is done */
        haul__error_restore(&line.error);
        haul__work_fail(w);
        haul__work_break_group(w);
        atomic_store(&w->done, true);
    }
    line.first = NULL;
    line.end = &line.first;
    if (line.world && !line.world->broken) {
        line.world->broken = true;
        line.world->why = haul__malloc(sizeof *line.world->why);
        if (line.world->why)
            *line.world->why = line.error;
    }
    pthread_cond_broadcast(&line.finished);
    pthread_mutex_unlock(&line.lock);
}

/* ---- waiting ---- */

static void sleep_ns(long ns)
{
    nanosleep(&(struct timespec){0, ns}, NULL);
}

/* True if the ranks of this host have a processor each, so that one may test without naps for a moment. */
static bool has_room(void)
{
    const haul_group *g = line.world;
    int               here = 0;
    for (int r = 0; g && r < g->size; r++)
        here += strcmp(g->members[r].host, g->members[g->rank].host) == 0;
    return here > 0 && 2 * here <= haul__core_count();
}

static void wait_for_works(void)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += IDLE_MS * 1000000L;
    until.tv_sec += until.tv_nsec / SECOND;
    until.tv_nsec %= SECOND;
    pthread_mutex_lock(&line.lock);
    if (!line.first && !line.exiting)
        pthread_cond_timedwait(&line.come, &line.lock, &until);
    pthread_mutex_unlock(&line.lock);
}

/* ---- the thread ---- */

static bool open_engine(const haul__group_kind *kind)
{
    haul__engine *engine = NULL;
    bool          failed = kind->open(NULL, 0, 0, &engine, NULL) != HAUL_OK;
    line.engine = engine;
    HAUL__ASSERT(failed || (engine && engine->rank < engine->size));
    if (!failed && haul__roll_call_begin()) {
        failed = true;
        kind->close(engine);
    }
    pthread_mutex_lock(&line.lock);
    line.open_failed = failed;
    if (failed)
        haul__error_save(&line.error);
    else
        line.opened = true;
    pthread_cond_broadcast(&line.finished);
    pthread_mutex_unlock(&line.lock);
    return !failed;
}

static void *run(void *kind)
{
    if (!open_engine(kind))
        return NULL;
    int64_t looked = 0;
    int     quiet = 0;
    bool    room = false;
    for (;;) {
        bool       any, changed = step_works(&any);
        const bool offers = !line.lost && haul__offers_poll(&changed);
        if (haul__system_ns() - looked > CONTROL_EVERY_NS && !line.lost) {
            haul__roll_call_poll();
            room = has_room();
            looked = haul__system_ns();
        }
        if (line.lost)
            haul__end_job();
        pthread_mutex_lock(&line.lock);
        const bool exiting = line.exiting;
        pthread_mutex_unlock(&line.lock);
        if (exiting)
            haul__offers_leave();
        if (exiting && !any && haul__roll_call_leave() && !offers)
            break;
        quiet = changed ? 0 : quiet + 1;
        if (!any && !offers && !exiting)
            wait_for_works();
        else if (room && quiet < EAGER_TESTS)
            sched_yield();
        else if (!changed)
            sleep_ns(quiet < LONG_AFTER || offers ? NAP_NS : LONG_NAP_NS);
    }
    haul__line_close();
    return NULL;
}

/* ---- starting and leaving ---- */

static bool is_mine(void)
{
    return line.forks == haul__fork_count();
}

/* When the program exits: the library must be finished by the thread that has started it. */
static void leave(void)
{
    if (!line.opened || !is_mine())
        return;
    if (atomic_load(&line.aborting))
        _exit(1);
    pthread_mutex_lock(&line.lock);
    line.exiting = true;
    pthread_cond_broadcast(&line.come);
    pthread_mutex_unlock(&line.lock);
    pthread_join(line.thread, NULL);
}

static int create(const haul__group_kind *kind)
{
    pthread_attr_t     attributes;
    pthread_condattr_t clock;
    sigset_t           all, before;
    int                failed = pthread_attr_init(&attributes);
    if (failed)
        return failed;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&line.come, &clock);
    pthread_cond_init(&line.finished, &clock);
    pthread_condattr_destroy(&clock);
    sigfillset(&all);
    failed = pthread_attr_setstacksize(&attributes, STACK);
    if (!failed)
        failed = pthread_sigmask(SIG_SETMASK, &all, &before);
    if (!failed) {
        failed = pthread_create(&line.thread, &attributes, run, (void *)kind);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    pthread_attr_destroy(&attributes);
    return failed;
}

/* Called under the lock of the groups (group.c). */
haul_status haul__group_thread_start(const haul__group_kind *kind, haul__engine **engine)
{
    static const char operation[] = "haul_group_get";
    HAUL__ASSERT(!line.opened || line.engine);
    if (!line.opened) {
        if (!haul__fork_watch())
            return haul__fail_memory(operation, 0);
        line.forks = haul__fork_count();
        line.end = &line.first;
        line.open_failed = false;
        const int failed = create(kind);
        if (failed)
            return haul__fail(HAUL_STATE, operation, NULL, "the group's thread cannot start: %s",
                              haul__strerror(failed));
        pthread_mutex_lock(&line.lock);
        while (!line.opened && !line.open_failed)
            pthread_cond_wait(&line.finished, &line.lock);
        pthread_mutex_unlock(&line.lock);
        if (line.open_failed) {
            pthread_join(line.thread, NULL);
            haul__error_restore(&line.error);
            return haul_error_status();
        }
        atexit(leave);
    }
    HAUL__ASSERT(line.opened && line.engine);
    *engine = line.engine;
    return HAUL_OK;
}

void haul__group_thread_know(haul_group *world)
{
    pthread_mutex_lock(&line.lock);
    line.world = world;
    pthread_mutex_unlock(&line.lock);
}

/* ---- for the program's threads ---- */

haul__work *haul__group_thread_take(haul__work *w)
{
    haul_group *g = w->group;
    pthread_mutex_lock(&line.lock);
    const bool broken = g->broken || line.lost;
    if (!broken) {
        if (w->collective)
            w->number = atomic_fetch_add(&g->begun, 1) + 1;
        HAUL__ASSERT(!w->later && !*line.end);
        *line.end = w;
        line.end = &w->later;
        pthread_cond_signal(&line.come);
    }
    pthread_mutex_unlock(&line.lock);
    if (!broken)
        return w;
    haul__work_refuse_broken(w);
    haul__work_drop(w);
    return NULL;
}

void haul__group_thread_wait(haul__work *w)
{
    pthread_mutex_lock(&line.lock);
    while (!atomic_load(&w->done))
        pthread_cond_wait(&line.finished, &line.lock);
    pthread_mutex_unlock(&line.lock);
}
