/* The thread pool: every piece once, whoever calls, however many threads.
 * ctest: labels=concurrency,threads; processors=2 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <haul/device.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/system/cores.h"
#include "core/error.h"
#include "core/pool.h"
#include "support/calm.h"

#if defined(__SANITIZE_THREAD__)
#define UNDER_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define UNDER_TSAN 1
#endif
#endif
#ifndef UNDER_TSAN
#define UNDER_TSAN 0
#endif

/* ---- every piece once ---- */

typedef struct tally {
    int64_t        count, grain;
    unsigned char *done; /* one a piece, each written by whoever runs the piece */
    atomic_int     wrong;
} tally;

static void mark(void *context, int64_t first, int64_t last)
{
    tally  *t = context;
    int64_t end = t->count - first < t->grain ? t->count : first + t->grain;
    if (first % t->grain != 0 || last != end)
        atomic_fetch_add(&t->wrong, 1);
    else
        t->done[first / t->grain]++;
}

static void check_pieces(int64_t count, int64_t grain)
{
    int64_t pieces = (count - 1) / grain + 1;
    tally   t = {.count = count, .grain = grain, .done = calloc((size_t)pieces, 1)};
    assert_non_null(t.done);
    haul__parallel_for(count, grain, mark, &t);
    assert_int_equal(atomic_load(&t.wrong), 0);
    for (int64_t i = 0; i < pieces; i++)
        if (t.done[i] != 1)
            fail_msg("piece %lld of %lld was done %d times", (long long)i, (long long)pieces, t.done[i]);
    free(t.done);
}

static void test_pool__does_each_piece_once(void **state)
{
    (void)state;
    static const int64_t cases[][2] = {
        {1, 1},    {2, 1},         {7, 3},        {1024, 1},     {1025, 1},
        {5000, 1}, {100000, 7},    {100001, 100}, {64, 1 << 20}, {INT64_MAX, INT64_MAX / 3},
        {3, 2},    {1000003, 999},
    };
    for (int threads = 1; threads <= 5; threads++) {
        assert_int_equal(haul__pool_set_threads(threads), threads);
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
            check_pieces(cases[i][0], cases[i][1]);
    }
}

static void never(void *context, int64_t first, int64_t last)
{
    (void)first, (void)last;
    *(bool *)context = true;
}

static void test_pool__nothing_to_do(void **state)
{
    (void)state;
    bool called = false;
    haul__parallel_for(0, 10, never, &called);
    haul__parallel_for(-5, 10, never, &called);
    assert_false(called);
}

static void note_thread(void *context, int64_t first, int64_t last)
{
    (void)first, (void)last;
    *(pthread_t *)context = pthread_self();
}

static void test_pool__small_work_stays_on_the_caller(void **state)
{
    (void)state;
    haul__pool_set_threads(4);
    for (int i = 0; i < 100; i++) {
        pthread_t thread;
        haul__parallel_for(100, 100, note_thread, &thread);
        assert_true(pthread_equal(thread, pthread_self()));
    }
}

/* Pieces that wait for one another end only if as many threads run them. */
typedef struct meeting {
    pthread_barrier_t barrier;
    pthread_t         who[4];
} meeting;

static void meet(void *context, int64_t first, int64_t last)
{
    meeting *m = context;
    (void)last;
    m->who[first] = pthread_self();
    pthread_barrier_wait(&m->barrier);
}

/* A thread that takes a unit of its own share first has the same piece in every job. */
static void test_pool__pieces_run_side_by_side(void **state)
{
    (void)state;
    meeting   m;
    pthread_t before[3];
    haul__pool_set_threads(3);
    assert_int_equal(pthread_barrier_init(&m.barrier, NULL, 3), 0);
    for (int i = 0; i < 50; i++) {
        haul__parallel_for(3, 1, meet, &m);
        for (int j = 0; j < 3 && i > 0; j++)
            assert_true(pthread_equal(m.who[j], before[j]));
        memcpy(before, m.who, sizeof before);
        if (i % 10 == 0)
            wait_for_other_threads(); /* until the workers have fallen asleep */
    }
    pthread_barrier_destroy(&m.barrier);
}

/* Fewer threads than the pool has, then all of them, on threads that sleep or watch. */
static void test_pool__some_of_the_workers(void **state)
{
    (void)state;
    haul__pool_set_threads(4);
    for (int i = 0; i < 200; i++) {
        haul_set_scope_threads(i % 5);
        check_pieces(1 + i % 7, 1);
        if (i % 20 == 0)
            wait_for_other_threads();
    }
    haul_set_scope_threads(0);
}

/* Workers look for work for a moment and then sleep. Ones that went on would keep this test from ending. */
static void test_pool__idle_workers_sleep(void **state)
{
    (void)state;
    meeting m;
    haul__pool_set_threads(4);
    assert_int_equal(pthread_barrier_init(&m.barrier, NULL, 4), 0);
    haul__parallel_for(4, 1, meet, &m);
    wait_for_other_threads();
    pthread_barrier_destroy(&m.barrier);
}

/* ---- nested and concurrent ---- */

static void add_up(void *context, int64_t first, int64_t last)
{
    int64_t sum = 0;
    for (int64_t i = first; i < last; i++)
        sum += i;
    atomic_fetch_add((atomic_llong *)context, sum);
}

static void nest(void *context, int64_t first, int64_t last)
{
    (void)first, (void)last;
    haul__parallel_for(1000, 10, add_up, context);
}

static void test_pool__nested_calls(void **state)
{
    (void)state;
    atomic_llong sum = 0;
    haul__pool_set_threads(4);
    haul__parallel_for(40, 1, nest, &sum);
    assert_int_equal(atomic_load(&sum), 40 * 499500);
}

enum { USERS = 4, JOBS = 3000 };

/* Plain memory, written by the pieces and read by the caller: ThreadSanitizer sees it if a job ends too early. */
static void fill(void *context, int64_t first, int64_t last)
{
    int64_t *numbers = context;
    for (int64_t i = first; i < last; i++)
        numbers[i] += i;
}

static void *user(void *context)
{
    int64_t  seed = (intptr_t)context;
    int64_t  numbers[512] = {0};
    intptr_t wrong = 0;
    for (int job = 1; job <= JOBS; job++) {
        if (seed == 0 && job % 100 == 0)
            haul__pool_set_threads(job / 100 % 4 + 1);
        haul__parallel_for(512, (job + seed) % 60 + 1, fill, numbers);
        for (int64_t i = 0; i < 512; i++)
            wrong += numbers[i] != i * job;
    }
    return (void *)wrong;
}

static void test_pool__several_users_at_once(void **state)
{
    (void)state;
    pthread_t users[USERS];
    haul__pool_set_threads(3);
    for (intptr_t i = 0; i < USERS; i++)
        assert_int_equal(pthread_create(&users[i], NULL, user, (void *)i), 0);
    for (int i = 0; i < USERS; i++) {
        void *wrong;
        pthread_join(users[i], &wrong);
        assert_null(wrong);
    }
}

/* ---- how many ---- */

static void test_pool__number_of_threads(void **state)
{
    (void)state;
    assert_int_equal(haul_set_num_threads(3), HAUL_OK);
    assert_int_equal(haul_num_threads(), 3);
    assert_int_equal(haul_set_num_threads(-1), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_set_num_threads(100000), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_num_threads(), 3);
    assert_int_equal(setenv("HAUL_NUM_THREADS", "5", 1), 0);
    assert_int_equal(haul_set_num_threads(0), HAUL_OK);
    assert_int_equal(haul_num_threads(), 5);
    unsetenv("HAUL_NUM_THREADS");
    haul_set_num_threads(0);
    int cores = haul_num_threads();
    assert_true(cores >= 1);
    setenv("HAUL_NUM_THREADS", "", 1);
    assert_int_equal(haul_set_num_threads(0), HAUL_OK);
    assert_int_equal(haul_num_threads(), cores);
    unsetenv("HAUL_NUM_THREADS");
}

static void test_pool__a_wrong_number_in_the_environment_is_an_error(void **state)
{
    static const char *const senseless[] = {"x", "-3", "0", "2 threads", " 2", "+2", "1025", "99999999999999999999"};
    (void)state;
    assert_int_equal(haul_set_num_threads(3), HAUL_OK);
    for (size_t i = 0; i < sizeof senseless / sizeof *senseless; i++) {
        setenv("HAUL_NUM_THREADS", senseless[i], 1);
        assert_int_equal(haul_set_num_threads(0), HAUL_INVALID_ARGUMENT);
        assert_non_null(strstr(haul_error_message(), "HAUL_NUM_THREADS is \""));
        assert_non_null(strstr(haul_error_message(), "from 1 to 1024"));
        assert_int_equal(haul_num_threads(), 3);
        haul_error_clear();
    }
    assert_int_equal(haul_set_num_threads(2), HAUL_OK); /* does not ask it */
    unsetenv("HAUL_NUM_THREADS");
    assert_int_equal(haul_set_num_threads(0), HAUL_OK);
}

/* ---- threads of their own ---- */

static void look_at_signals(void *context)
{
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    *(int *)context = sigismember(&mask, SIGINT) && sigismember(&mask, SIGTERM);
}

static void test_pool__own_threads_block_signals(void **state)
{
    (void)state;
    int                  blocked = -1;
    sigset_t             mask;
    haul__thread_handle *handle = haul__thread_start(look_at_signals, &blocked);
    assert_non_null(handle);
    haul__thread_join(handle);
    assert_int_equal(blocked, 1);
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    assert_int_equal(sigismember(&mask, SIGINT), 0);
    haul__thread_join(NULL);
}

/* ---- the end of the process ---- */

static void leave(void *context, int64_t first, int64_t last)
{
    (void)context, (void)last;
    if (first == 3)
        exit(7);
}

static void leave_from_a_job(void)
{
    haul__pool_set_threads(3);
    haul__parallel_for(100, 1, leave, NULL);
}

static void leave_after_a_job(void)
{
    atomic_llong sum = 0;
    haul__pool_set_threads(3);
    for (int i = 0; i < 20; i++)
        haul__parallel_for(1000, 10, add_up, &sum);
    exit(atomic_load(&sum) == 20 * 499500 ? 7 : 1);
}

/* In the child of a process that has a pool: it gets one of its own and ends in time. */
static void check_child(void (*run)(void))
{
    haul__pool_set_threads(3);
    check_pieces(1000, 10);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(900);
        run();
        _exit(1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 7);
}

static void test_pool__exit_does_not_hang(void **state)
{
    (void)state;
    if (UNDER_TSAN) /* it does not let the child of a fork start threads */
        skip();
    for (int i = 0; i < 5; i++) {
        check_child(leave_after_a_job);
        check_child(leave_from_a_job);
    }
}

static void test_pool__cores_of_a_quota(void **state)
{
    (void)state;
    assert_int_equal(haul__quota_cores("max 100000\n"), 0);
    assert_int_equal(haul__quota_cores("200000 100000\n"), 2);
    assert_int_equal(haul__quota_cores("150000 100000\n"), 2);
    assert_int_equal(haul__quota_cores("1000 100000\n"), 1);
    static const char *const none[] = {
        "", "100000", "100000 0", "-1 100000", "0 100000", "x 100000", "99999999999999999999 100000", "100000 x"};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
        assert_int_equal(haul__quota_cores(none[i]), 0);
    assert_true(haul__core_count() >= 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pool__cores_of_a_quota),
        cmocka_unit_test(test_pool__does_each_piece_once),
        cmocka_unit_test(test_pool__nothing_to_do),
        cmocka_unit_test(test_pool__small_work_stays_on_the_caller),
        cmocka_unit_test(test_pool__pieces_run_side_by_side),
        cmocka_unit_test(test_pool__some_of_the_workers),
        cmocka_unit_test(test_pool__idle_workers_sleep),
        cmocka_unit_test(test_pool__nested_calls),
        cmocka_unit_test(test_pool__several_users_at_once),
        cmocka_unit_test(test_pool__number_of_threads),
        cmocka_unit_test(test_pool__a_wrong_number_in_the_environment_is_an_error),
        cmocka_unit_test(test_pool__own_threads_block_signals),
        cmocka_unit_test(test_pool__exit_does_not_hang),
    };
    return cmocka_run_group_tests_name("core_pool", tests, NULL, NULL);
}
