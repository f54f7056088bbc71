/* The thread pool.
 *
 * One job runs at a time. A job is cut into units. Its threads are the members of a team: the caller is member 0, and a
 * pool thread keeps the number that it was started with. The units are shared out to the members in order, so that in
 * jobs of the same form a thread gets the same part of the memory, which its caches may still hold. A thread takes the
 * units of its own share from the front. When they are gone, it takes units of other shares from the back.
 *
 * A member's share is one word: the job's number (so that a late thread cannot take a unit of another job for one of
 * its own), the units taken from the front, and the units left. A job's description is written before the shares and
 * changes only after all units are done, so it is stable for every thread that took a unit. The shares come before the
 * offer, the word that idle threads look at.
 *
 * Idle threads watch the offer for a moment, because the next job of a training step comes within microseconds, and
 * then sleep. A caller that finds the pool taken, by another thread or by itself, works alone: nothing ever waits for
 * the pool.
 *
 *     the pool:  free --parallel_for--> taken --offer--> at work --all units are done--> free
 *
 *     a worker:  watching --an offer--> working --no share has units left--> watching
 *                   |  ^
 *          no offer |  | an offer, or quit
 *                   v  |
 *                  asleep
 *
 * Invariants:
 *
 *   1. Only a thread that took the pool starts and stops workers, and offers jobs.
 *   2. A member's number is its place in the table. A job has at most as many members as there are threads.
 *   3. Units are numbered from 0 below the job's number of units, and each is taken once.
 *   4. Workers report at most the units of the job: done <= units.
 *   5. When a job ends, no share of it has units left.
 *   6. The pieces of a unit are within the job's pieces. */
#include "core/pool.h"

#include <haul/device.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/system/clock.h"
#include "base/system/cores.h"
#include "base/system/fork.h"
#include "core/error.h"
#include "core/thread.h"

enum {
    MOST_THREADS = 1024,
    MOST_UNITS = 1024,     /* per job; with more pieces, a thread claims several at once */
    UNITS_EACH = 8,        /* for a thread: few enough that it reads and writes long runs of memory */
    WATCH_NS = 50000,      /* how long an idle thread watches for work, and a caller for the last unit */
    PAUSES_PER_LOOK = 32,  /* between looks at the clock */
    LEAST_STACK = 2 << 20, /* bytes, of every thread */
    LINE = 64              /* bytes of a cache line */
};

/* A share: from the low bits, the units left, those taken from the front, and the job's number. An offer: the job's
 * members in the low bits, and the job's number in the same place. */
enum { COUNT_BITS = 12, JOB_SHIFT = 2 * COUNT_BITS };
#define COUNT_MASK      ((UINT64_C(1) << COUNT_BITS) - 1)
#define TAKEN_IN_FRONT  (UINT64_C(1) << COUNT_BITS)
#define LEFT_OF(share)  ((int)((share)&COUNT_MASK))
#define TAKEN_OF(share) ((int)((share) >> COUNT_BITS & COUNT_MASK))
#define JOB_OF(word)    ((word) >> JOB_SHIFT)

/* What a thread has for itself. */
typedef struct member {
    _Alignas(LINE) _Atomic uint64_t share;
    atomic_bool    asleep;
    int            number;
    uint64_t       seen; /* the last offer that the thread took up */
    pthread_t      thread;
    pthread_cond_t work_came;
} member;

static struct {
    /* Written by the caller of a job and read by all threads: one cache line. */
    _Alignas(LINE) _Atomic uint64_t offer;
    _Atomic(haul__range_fn *) fn;
    _Atomic(void *)           context;
    _Atomic int64_t           count, grain;
    atomic_int                units; /* of the job */
    /* Written by all threads. */
    _Alignas(LINE) atomic_int done; /* units of the job that workers ran */
    atomic_bool caller_sleeps;
    /* Whoever holds this may start a job, and change what follows. No worker reads its line. */
    _Alignas(LINE) atomic_bool taken;
    int sized_for; /* the process's number of threads when the workers were started */
    int failed_at; /* this many could not be started: do not retry for as many or more */
    /* Read by all threads, and rarely written. */
    _Alignas(LINE) member *table; /* the caller, then the workers */
    int64_t     watch_ns;
    int         workers; /* running threads */
    atomic_bool quit;
} pool;

static atomic_int      wanted; /* threads of the process, including the caller; 0: not decided yet */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t  work_done = PTHREAD_COND_INITIALIZER;

/* ---- number of threads ---- */

static int clamp_threads(long threads)
{
    if (threads < 1)
        return 1;
    return threads > MOST_THREADS ? MOST_THREADS : (int)threads;
}

/* HAUL_NUM_THREADS: 0 if it is empty or not set, -1 if it is invalid. */
static int environment_threads(void)
{
    const char *text = getenv("HAUL_NUM_THREADS");
    if (!text || !*text)
        return 0;
    long threads = text[strspn(text, "0123456789")] ? -1 : strtol(text, NULL, 10);
    return threads >= 1 && threads <= MOST_THREADS ? (int)threads : -1;
}

haul_status haul__pool_check_environment(const char *operation)
{
    if (environment_threads() >= 0)
        return HAUL_OK;
    return haul__fail(HAUL_INVALID_ARGUMENT, operation, "threads",
                      "the environment variable HAUL_NUM_THREADS is \"%.40s\"; a whole number from 1 to %d is expected",
                      getenv("HAUL_NUM_THREADS"), MOST_THREADS);
}

/* The value of HAUL_NUM_THREADS, else one thread per core. */
static int default_threads(void)
{
    int threads = environment_threads();
    return threads > 0 ? threads : clamp_threads(haul__core_count());
}

static int process_threads(void)
{
    int threads = atomic_load_explicit(&wanted, memory_order_relaxed);
    if (threads)
        return threads;
    int none = 0;
    atomic_compare_exchange_strong(&wanted, &none, default_threads());
    return atomic_load_explicit(&wanted, memory_order_relaxed);
}

int haul__pool_threads(void)
{
    int threads = (int)haul__thread()->words[HAUL__THREADS];
    return threads ? threads : process_threads();
}

int haul__pool_set_threads(int threads)
{
    atomic_store(&wanted, threads > 0 ? clamp_threads(threads) : default_threads());
    return process_threads();
}

static haul_status check_threads(int threads, const char *zero, const char *operation)
{
    if (threads >= 0 && threads <= MOST_THREADS)
        return HAUL_OK;
    return haul__fail(HAUL_INVALID_ARGUMENT, operation, "threads", "%d threads; expected 1 to %d, or 0 for %s", threads,
                      MOST_THREADS, zero);
}

haul_status haul_set_num_threads(int threads)
{
    static const char operation[] = "haul_set_num_threads";
    haul_status       status = check_threads(threads, "one per core", operation);
    if (!status && !threads)
        status = haul__pool_check_environment(operation);
    if (!status)
        haul__pool_set_threads(threads);
    return status;
}

haul_status haul_set_scope_threads(int threads)
{
    haul_status status = check_threads(threads, "the process's number", "haul_set_scope_threads");
    if (!status)
        haul__thread()->words[HAUL__THREADS] = (uint32_t)threads;
    return status;
}

int haul_num_threads(void)
{
    return haul__pool_threads();
}

/* ---- watching ---- */

static inline void pause_briefly(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Runs on a pool thread. */
static bool work_came(const void *context)
{
    const member  *own = context;
    const uint64_t offer = atomic_load(&pool.offer);
    return (offer != own->seen && (int)(offer & COUNT_MASK) > own->number) || atomic_load(&pool.quit);
}

static bool units_are_done(const void *wanted_units)
{
    return atomic_load(&pool.done) == *(const int *)wanted_units;
}

/* Watches for `happened` for a moment; false if it did not happen. */
static bool watch(bool (*happened)(const void *), const void *context)
{
    int64_t end = 0;
    for (;;) {
        for (int i = 0; i < PAUSES_PER_LOOK; i++) {
            if (happened(context))
                return true;
            pause_briefly();
        }
        int64_t now = haul__system_ns();
        if (!end)
            end = now + pool.watch_ns;
        else if (now >= end)
            return false;
    }
}

/* ---- working ---- */

static void run_pieces(haul__range_fn *fn, void *context, int64_t count, int64_t grain, int64_t first, int64_t last)
{
    for (int64_t piece = first; piece < last; piece++) {
        int64_t begin = piece * grain;
        fn(context, begin, count - begin < grain ? count : begin + grain);
    }
}

static int64_t pieces_of(int64_t count, int64_t grain)
{
    return count / grain + (count % grain != 0);
}

/* The first unit of a member's share. */
static int first_unit(int number, int units, int members)
{
    return (int)((int64_t)units * number / members);
}

/* Takes a unit of a share of the job, which has `members` members, and runs it; false if none is left. All units are of
 * one job, which cannot end before this thread reports. */
static bool run_unit(uint64_t job, int members, int number, bool own)
{
    _Atomic uint64_t *word = &pool.table[number].share;
    uint64_t          share = atomic_load(word);
    do {
        if (JOB_OF(share) != job || !LEFT_OF(share))
            return false;
    } while (!atomic_compare_exchange_weak(word, &share, share - 1 + (own ? TAKEN_IN_FRONT : 0)));
    int     units = atomic_load_explicit(&pool.units, memory_order_relaxed);
    int64_t count = atomic_load_explicit(&pool.count, memory_order_relaxed);
    int64_t grain = atomic_load_explicit(&pool.grain, memory_order_relaxed);
    int     unit = first_unit(number, units, members) + TAKEN_OF(share) + (own ? 0 : LEFT_OF(share) - 1);
    HAUL__ASSERT(0 <= unit && unit < units && units <= MOST_UNITS); /* 3 */
    /* Units differ by at most one piece. Pieces / units comes first, because their product could overflow. */
    int64_t pieces = pieces_of(count, grain), each = pieces / units, longer = pieces % units;
    int64_t first = unit * each + (unit < longer ? unit : longer);
    HAUL__ASSERT(0 <= first && first + each + (unit < longer) <= pieces); /* 6 */
    run_pieces(atomic_load_explicit(&pool.fn, memory_order_relaxed),
               atomic_load_explicit(&pool.context, memory_order_relaxed), count, grain, first,
               first + each + (unit < longer));
    return true;
}

/* Takes and runs units of a share until none is left; returns how many ran here. */
static int run_share(uint64_t job, int members, int number, bool own)
{
    int done = 0;
    while (run_unit(job, members, number, own))
        done++;
    return done;
}

static void report_done(int units)
{
    if (units == 0)
        return;
    const int before = atomic_fetch_add(&pool.done, units);
    HAUL__ASSERT(before >= 0 && before + units <= MOST_UNITS); /* 4 */
    (void)before;
    if (!atomic_load(&pool.caller_sleeps))
        return;
    pthread_mutex_lock(&lock);
    pthread_cond_broadcast(&work_done);
    pthread_mutex_unlock(&lock);
}

static void sleep_until_work(member *own)
{
    pthread_mutex_lock(&lock);
    atomic_store(&own->asleep, true);
    while (!work_came(own))
        pthread_cond_wait(&own->work_came, &lock);
    atomic_store(&own->asleep, false);
    pthread_mutex_unlock(&lock);
}

static void *worker(void *context)
{
    member *own = context;
    HAUL__ASSERT(own->number > 0 && own == &pool.table[own->number]); /* 2 */
    while (!atomic_load(&pool.quit)) {
        if (!watch(work_came, own))
            sleep_until_work(own);
        own->seen = atomic_load(&pool.offer);
        int members = (int)(own->seen & COUNT_MASK);
        for (int i = 0; own->number < members && i < members; i++)
            report_done(run_share(JOB_OF(own->seen), members, (own->number + i) % members, i == 0));
    }
    return NULL;
}

/* ---- starting and stopping; only for whoever holds the pool ---- */

/* Kernels, image decoders and the user's `read` run here, so the stack size does not follow the main thread's limit
 * (ulimit -s). */
static int create_with_stack(pthread_t *thread, void *(*run)(void *), void *context)
{
    pthread_attr_t attributes;
    size_t         bytes = 0;
    int            failed = pthread_attr_init(&attributes);
    if (failed)
        return failed;
    if (pthread_attr_getstacksize(&attributes, &bytes) == 0 && bytes < LEAST_STACK)
        failed = pthread_attr_setstacksize(&attributes, LEAST_STACK);
    if (!failed)
        failed = pthread_create(thread, &attributes, run, context);
    pthread_attr_destroy(&attributes);
    return failed;
}

static int start_thread(pthread_t *thread, void *(*run)(void *), void *context)
{
    sigset_t all, before;
    sigfillset(&all);
    if (pthread_sigmask(SIG_SETMASK, &all, &before) != 0)
        return -1;
    int failed = create_with_stack(thread, run, context);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}

static void stop_workers(void)
{
    HAUL__ASSERT(atomic_load(&pool.taken)); /* 1 */
    pthread_mutex_lock(&lock);
    atomic_store(&pool.quit, true);
    for (int i = 1; i <= pool.workers; i++)
        pthread_cond_signal(&pool.table[i].work_came);
    pthread_mutex_unlock(&lock);
    for (int i = 1; i <= pool.workers; i++) {
        pthread_join(pool.table[i].thread, NULL);
        pthread_cond_destroy(&pool.table[i].work_came);
    }
    pool.workers = 0;
    free(pool.table);
    pool.table = NULL;
    atomic_store(&pool.quit, false);
}

/* In the child of a fork the workers do not exist, and the caller of a job may not either. */
static void forget_workers(void)
{
    pool.workers = 0;
    pool.sized_for = pool.failed_at = 0;
    atomic_store(&pool.quit, false);
    atomic_fetch_and(&pool.offer, ~COUNT_MASK); /* no units are left of a job of the parent */
    atomic_store(&pool.done, 0);
    atomic_store(&pool.caller_sleeps, false);
    atomic_store(&pool.taken, false);
    lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    work_done = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
}

HAUL__AT_FORK(HAUL__FORK_POOL, .in_child = forget_workers);

/* Starts a worker, which becomes the next member. */
static bool add_worker(int number)
{
    member *own = &pool.table[number];
    HAUL__ASSERT(atomic_load(&pool.taken) && number == pool.workers + 1); /* 1, 2 */
    *own = (member){.number = number, .seen = atomic_load(&pool.offer)};
    if (pthread_cond_init(&own->work_came, NULL) != 0)
        return false;
    if (start_thread(&own->thread, worker, own) == 0)
        return true;
    pthread_cond_destroy(&own->work_came);
    return false;
}

/* Start as many workers as the process and this job want, or as many as the system allows. There may be more, because
 * another scope wanted them, until the process's number changes. The process owns the list, so it does not count among
 * the blocks that leak tests check. */
static void adjust_workers(int job_threads)
{
    const int process = process_threads(), threads = job_threads > process ? job_threads : process;
    if (pool.sized_for == process && (pool.workers >= threads - 1 || (pool.failed_at && threads >= pool.failed_at)))
        return;
    pool.sized_for = process;
    HAUL__ASSERT(atomic_load(&pool.taken) && 1 <= threads && threads <= MOST_THREADS); /* 1 */
    if (pool.workers == threads - 1)
        return;
    haul__fork_watch();
    stop_workers();
    pool.failed_at = 0;
    /* With more threads than cores, watching would take cores from other work. */
    pool.watch_ns = threads > haul__core_count() ? 0 : WATCH_NS;
    pool.table = aligned_alloc(LINE, (size_t)threads * sizeof *pool.table);
    if (pool.table)
        pool.table[0] = (member){.number = 0};
    while (pool.table && pool.workers < threads - 1 && add_worker(pool.workers + 1))
        pool.workers++;
    if (pool.workers < threads - 1)
        pool.failed_at = threads;
}

/* At the end of the process, or when the library is unloaded. If a job is still running (on a thread that outlives
 * main, or because the job itself called exit), its threads are left alone; no new job gets the pool. */
__attribute__((destructor)) static void finish(void)
{
    if (!atomic_exchange(&pool.taken, true))
        stop_workers();
}

/* ---- jobs ---- */

static void wake_workers(int members)
{
    bool asleep = false;
    HAUL__ASSERT(members <= pool.workers + 1); /* 2 */
    for (int i = 1; i < members; i++)
        asleep |= atomic_load(&pool.table[i].asleep);
    if (!asleep)
        return;
    pthread_mutex_lock(&lock);
    for (int i = 1; i < members; i++)
        pthread_cond_signal(&pool.table[i].work_came);
    pthread_mutex_unlock(&lock);
}

static void wait_for_units(int count)
{
    HAUL__ASSERT(atomic_load(&pool.done) <= count); /* 4 */
    if (watch(units_are_done, &count))
        return;
    pthread_mutex_lock(&lock);
    atomic_store(&pool.caller_sleeps, true);
    while (!units_are_done(&count))
        pthread_cond_wait(&work_done, &lock);
    atomic_store(&pool.caller_sleeps, false);
    pthread_mutex_unlock(&lock);
}

static void run_job(int64_t count, int64_t grain, int threads, haul__range_fn *fn, void *context)
{
    int64_t pieces = pieces_of(count, grain);
    int     most = threads < MOST_UNITS / UNITS_EACH ? threads * UNITS_EACH : MOST_UNITS;
    int     units = pieces < most ? (int)pieces : most;
    int     members = threads <= pool.workers ? threads : pool.workers + 1;
    members = units < members ? units : members;
    atomic_store_explicit(&pool.fn, fn, memory_order_relaxed);
    atomic_store_explicit(&pool.context, context, memory_order_relaxed);
    atomic_store_explicit(&pool.count, count, memory_order_relaxed);
    atomic_store_explicit(&pool.grain, grain, memory_order_relaxed);
    atomic_store_explicit(&pool.units, units, memory_order_relaxed);
    atomic_store_explicit(&pool.done, 0, memory_order_relaxed);
    uint64_t job = JOB_OF(atomic_load_explicit(&pool.offer, memory_order_relaxed)) + 1;
    HAUL__ASSERT(atomic_load(&pool.taken) && 1 <= members && members <= pool.workers + 1); /* 1, 2 */
    for (int i = 0; i < members; i++) {
        HAUL__ASSERT(pool.table[i].number == i); /* 2 */
        int share = first_unit(i + 1, units, members) - first_unit(i, units, members);
        atomic_store_explicit(&pool.table[i].share, job << JOB_SHIFT | (uint64_t)share, memory_order_release);
    }
    atomic_store(&pool.offer, job << JOB_SHIFT | (uint64_t)members);
    wake_workers(members);
    for (int i = 0; i < members; i++)
        units -= run_share(job, members, i, i == 0);
    HAUL__ASSERT(units >= 0); /* 3 */
    wait_for_units(units);
    for (int i = 0; HAUL__ASSERTS && i < members; i++)
        HAUL__ASSERT(LEFT_OF(atomic_load(&pool.table[i].share)) == 0); /* 5 */
}

void haul__parallel_for(int64_t count, int64_t grain, haul__range_fn *fn, void *context)
{
    if (count <= 0)
        return;
    if (grain < 1)
        grain = 1;
    int threads = haul__pool_threads();
    HAUL__ASSERT(1 <= threads && threads <= MOST_THREADS);
    if (count <= grain || threads == 1 || atomic_exchange(&pool.taken, true)) {
        run_pieces(fn, context, count, grain, 0, pieces_of(count, grain));
        return;
    }
    adjust_workers(threads);
    if (pool.workers)
        run_job(count, grain, threads, fn, context);
    else
        run_pieces(fn, context, count, grain, 0, pieces_of(count, grain));
    atomic_store(&pool.taken, false);
}

/* ---- threads of their own ---- */

struct haul__thread_handle {
    pthread_t thread;
    void (*run)(void *);
    void *context;
};

static void *run_thread(void *p)
{
    haul__thread_handle *handle = p;
    handle->run(handle->context);
    return NULL;
}

haul__thread_handle *haul__thread_start(void (*run)(void *), void *context)
{
    haul__thread_handle *handle = haul__malloc(sizeof *handle);
    if (!handle)
        return NULL;
    handle->run = run;
    handle->context = context;
    if (start_thread(&handle->thread, run_thread, handle) != 0) {
        haul__free(handle);
        return NULL;
    }
    return handle;
}

void haul__thread_forget(haul__thread_handle *handle)
{
    haul__free(handle);
}

void haul__thread_join(haul__thread_handle *handle)
{
    if (!handle)
        return;
    pthread_join(handle->thread, NULL);
    haul__free(handle);
}
