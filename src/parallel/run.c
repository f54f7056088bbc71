/* Threads as the ranks of a group: one for each device of the process that a name lists. */
#include <haul/random.h>
#include <haul/scope.h>
#include <pthread.h>
#include <signal.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/plain.h"
#include "core/guest.h"
#include "core/scope.h"
#include "core/trial.h"
#include "device/device.h"
#include "group/local/rank.h"

#define RUN "haul_group_run"

/* A thread and its rank. */
typedef struct rank_thread {
    haul__crew         *crew;
    int                 rank;
    haul_rank_function *function;
    void               *context;
    haul_random_state   random; /* with which each rank begins */
    pthread_t           thread;
} rank_thread;

/* ---- on the thread ---- */

/* All ranks draw the same numbers, as processes that have the same seed do. */
static haul_status choose_settings(const rank_thread *t)
{
    haul_generator *generator = haul_generator_new(t->random.seed);
    haul_status     status = haul_generator_state_set(generator, t->random);
    if (!status)
        status = haul_set_generator(generator);
    return status ? status : haul_set_device(haul__crew_device(t->crew, t->rank));
}

static haul_status call(const rank_thread *t, haul_group *group)
{
    haul_error_clear();
    const haul__guest before = haul__guest_begin();
    haul_status       status = t->function(group, t->context);
    status = haul__guest_end(&before, status, RUN);
    if (status && haul_error_status() != status)
        haul__fail(status, RUN, "function", "the function returned an error that it had not recorded");
    return status;
}

/* The others learn of a failure before the scope is popped, which may wait for collectives under way. */
static void be_rank(const rank_thread *t)
{
    haul_scope *scope = haul__scope_push(NULL);
    haul_group *group = scope ? haul__rank_enter(t->crew, t->rank) : NULL;
    haul_status status = group ? choose_settings(t) : haul_error_status();
    if (!status)
        status = call(t, group);
    if (status)
        haul__crew_fail(t->crew, t->rank);
    HAUL__ASSERT(!group || haul_group_rank(group) == t->rank);
    const haul_status popped = haul_scope_pop(scope);
    if (!status && popped)
        haul__crew_fail(t->crew, t->rank);
    haul__rank_leave();
}

static void *run_thread(void *context)
{
    be_rank(context);
    return NULL;
}

/* ---- starting ---- */

/* Signals are for the program's own threads, but for faults of the thread itself. */
static int start(rank_thread *t)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
    sigset_t         all, before;
    sigfillset(&all);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        sigdelset(&all, faults[i]);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int failed = pthread_create(&t->thread, NULL, run_thread, t);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}

/* Returns when all threads have ended. */
static void run_all(rank_thread *threads, int count)
{
    int started = 0;
    while (started < count) {
        const int failed = start(&threads[started]);
        if (failed) {
            haul__fail(HAUL_STATE, RUN, NULL, "the thread cannot start: %s", haul__strerror(failed));
            haul__crew_fail(threads->crew, started);
            break;
        }
        started++;
    }
    HAUL__ASSERT(started <= count);
    for (int r = 0; r < started; r++)
        pthread_join(threads[r].thread, NULL);
}

static haul_status run(haul__crew *crew, haul_rank_function *function, void *context)
{
    const int               count = haul__crew_size(crew);
    const haul_generator   *generator = haul_current_generator();
    const haul_random_state random = generator ? haul_generator_state_get(generator) : haul_random_state_get();
    rank_thread            *threads = haul__calloc((size_t)count, sizeof *threads);
    if (!threads)
        return haul__fail_memory(RUN, (size_t)count * sizeof *threads);
    for (int r = 0; r < count; r++)
        threads[r] = (rank_thread){.crew = crew, .rank = r, .function = function, .context = context, .random = random};
    run_all(threads, count);
    haul__free(threads);
    return haul__crew_status(crew, RUN);
}

haul_status haul_group_run(const char *name, haul_rank_function *function, void *context)
{
    if (!function)
        return haul__fail_no_function(RUN, "function");
    if (haul__is_trial())
        return haul__fail(HAUL_UNSUPPORTED, RUN, NULL,
                          "threads cannot start in a dry run or a recorded step; call haul_group_run outside");
    haul__crew *crew = haul__crew_new(name, RUN);
    if (!crew)
        return haul_error_status();
    const haul_status status = run(crew, function, context);
    haul__crew_release(crew);
    return status;
}
