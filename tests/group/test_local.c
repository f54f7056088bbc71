/* Threads as ranks: what a rank finds in its thread, ranks that fail, end early, are late or call different
 * collectives, and bad calls. tests/group/local_ranks.sh tests the collectives themselves.
 *
 * ctest: labels=threads */
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "group/group.h"
#include "support/scope.h"

static void check(haul_status status)
{
    if (status)
        fail_msg("%s", haul_error_message());
}

static void assert_says(const char *text)
{
    if (!strstr(haul_error_message(), text))
        fail_msg("\"%s\" does not say \"%s\"", haul_error_message(), text);
}

/* ---- what a rank finds ---- */

typedef struct found {
    double       draws[3][4];
    haul_device *devices[3];
    atomic_int   ranks;
} found;

static haul_status look(haul_group *group, void *context)
{
    found    *f = context;
    const int rank = haul_group_rank(group);
    assert_int_equal(haul_group_size(group), 3);
    assert_ptr_equal(haul_group_get("auto"), group);
    assert_null(haul_group_get("local:cpu"));
    assert_int_equal(haul_error_status(), HAUL_STATE);
    assert_int_equal(haul_group_size(haul_group_get("none")), 1);
    haul_group_properties p;
    check(haul_group_describe(group, &p));
    assert_string_equal(p.kind, "local");
    assert_string_equal(p.library, "");
    f->devices[rank] = haul_current_device();
    atomic_fetch_add(&f->ranks, 1);
    return haul_read(haul_uniform(HAUL_F64, HAUL_SHAPE(4), 0, 1), f->draws[rank], sizeof f->draws[rank]);
}

static void test_local__a_rank_has_a_device_and_draws_of_its_own(void **state)
{
    (void)state;
    found  f = {.ranks = 0};
    double own[4];
    haul_manual_seed(7);
    check(haul_group_run("local:cpu,sim:h200,sim:h200:1", look, &f));
    assert_int_equal(f.ranks, 3);
    assert_ptr_equal(f.devices[0], haul_device_get("cpu"));
    assert_ptr_equal(f.devices[1], haul_device_get("sim:h200"));
    assert_ptr_equal(f.devices[2], haul_device_get("sim:h200:1"));
    check(haul_read(haul_uniform(HAUL_F64, HAUL_SHAPE(4), 0, 1), own, sizeof own));
    for (int r = 0; r < 3; r++)
        assert_memory_equal(f.draws[r], own, sizeof own);
}

static haul_status count_inner(haul_group *group, void *context)
{
    assert_int_equal(haul_group_size(group), 2);
    atomic_fetch_add((atomic_int *)context, 1);
    return haul_group_barrier(group);
}

static haul_status run_inner(haul_group *group, void *context)
{
    check(haul_group_run("local:cpu,cpu", count_inner, context));
    assert_ptr_equal(haul_group_get("auto"), group);
    return haul_group_barrier(group);
}

static void test_local__a_rank_may_have_ranks(void **state)
{
    (void)state;
    atomic_int count = 0;
    check(haul_group_run("local:cpu,cpu,cpu", run_inner, &count));
    assert_int_equal(count, 6);
}

/* Works of both groups are under way, and each rank waits for another one first. */
static haul_status cross(haul_group *group, void *context)
{
    (void)context;
    const haul__group_call call = {.name = "test"};
    const int              rank = haul_group_rank(group);
    haul_group            *half = haul_group_split(group, 0, -rank);
    double                 a = rank, b = 10 + rank;
    assert_int_equal(haul_group_rank(half), 1 - rank);
    const haul__tree t = {.pieces = 2, .ranks = 2};
    haul__work      *first = haul__group_sum_begin(group, &call, &t, HAUL_F64, (void *[]){&a}, 1);
    haul__work      *second = haul__group_sum_begin(half, &call, &t, HAUL_F64, (void *[]){&b}, 1);
    check(haul__work_wait(rank ? first : second));
    check(haul__work_wait(rank ? second : first));
    assert_true(a == 1 && b == 21);
    return haul_group_barrier(group);
}

static void test_local__works_get_on_while_their_rank_waits_for_others(void **state)
{
    (void)state;
    check(haul_group_run("local:cpu,cpu", cross, NULL));
}

/* ---- failures ---- */

enum { LAST = 2 };

static haul_status fail_last(haul_group *group, void *context)
{
    atomic_int *failed = context;
    check(haul_group_barrier(group));
    if (haul_group_rank(group) == LAST)
        return haul_error_set(HAUL_IO, "read", NULL, "the disk is gone");
    const haul_status status = haul_group_barrier(group);
    assert_int_equal(status, HAUL_STATE);
    assert_says("rank 2 (cpu) has failed: read: the disk is gone");
    atomic_fetch_add(failed, 1);
    assert_int_equal(haul_group_barrier(group), HAUL_STATE);
    return status;
}

static void test_local__a_rank_that_fails_ends_the_others(void **state)
{
    (void)state;
    atomic_int failed = 0;
    assert_int_equal(haul_group_run("local:cpu,cpu,cpu", fail_last, &failed), HAUL_IO);
    assert_string_equal(haul_error_message(), "haul_group_run: rank 2 (cpu) has failed: read: the disk is gone");
    assert_int_equal(failed, 2);
}

static haul_status say_nothing(haul_group *group, void *context)
{
    (void)group;
    (void)context;
    return HAUL_IO;
}

static void test_local__an_error_without_a_record_is_reported(void **state)
{
    (void)state;
    assert_int_equal(haul_group_run("local:cpu", say_nothing, NULL), HAUL_IO);
    assert_says("rank 0 (cpu) has failed");
}

static haul_status end_early(haul_group *group, void *context)
{
    (void)context;
    if (haul_group_rank(group) == LAST)
        return HAUL_OK;
    assert_false(haul_tensor_is_valid(haul_all_reduce(haul_zeros(HAUL_F32, HAUL_SHAPE(3)), group)));
    return haul_error_status();
}

static void test_local__a_rank_that_ends_early_is_named(void **state)
{
    (void)state;
    assert_int_equal(haul_group_run("local:cpu,cpu,sim:h200", end_early, NULL), HAUL_STATE);
    assert_says("haul_all_reduce: collective 1 (");
    assert_says("cannot be completed: rank 2 (sim:h200) has ended without it");
}

static haul_status differ(haul_group *group, void *context)
{
    (void)context;
    haul_tensor *x = haul_zeros(HAUL_F32, HAUL_SHAPE(3));
    if (haul_group_rank(group) == LAST)
        return haul_group_barrier(group);
    return haul_tensor_check(haul_all_reduce(x, group));
}

static void test_local__ranks_that_differ_get_an_error_that_names_both(void **state)
{
    (void)state;
    assert_int_equal(haul_group_run("local:cpu,cpu,cpu", differ, NULL), HAUL_INVALID_ARGUMENT);
    assert_says("the ranks differ in collective 1: rank 0 (cpu) calls haul_all_reduce of f32[3]");
    assert_says("rank 2 (cpu) calls haul_group_barrier");
}

static haul_status agree(haul_group *group, void *context)
{
    (void)context;
    const haul__group_call call = {.name = "test"};
    return haul__group_agree(group, &call, haul_group_rank(group) == 1 ? "8 pieces" : "4 pieces");
}

static void test_local__options_that_differ_are_named(void **state)
{
    (void)state;
    assert_int_equal(haul_group_run("local:cpu,cpu", agree, NULL), HAUL_INVALID_ARGUMENT);
    assert_says("rank 0 (cpu) has 4 pieces, but rank 1 (cpu) has 8 pieces");
}

static void wait_until(atomic_int *count, int wanted)
{
    while (atomic_load(count) < wanted)
        sched_yield();
}

typedef struct lateness {
    atomic_int begun, left;
} lateness;

/* The last rank comes when the others have given up. The limit is short once these have begun. */
static haul_status be_late(haul_group *group, void *context)
{
    lateness              *l = context;
    const haul__group_call call = {.name = "test"};
    if (haul_group_rank(group) == LAST) {
        wait_until(&l->left, LAST);
        assert_int_equal(haul_group_barrier(group), HAUL_STATE);
        assert_says("rank 2 (cpu) has not reached it for 0.1 seconds");
        return haul_error_status();
    }
    haul__work *w = haul__group_broadcast_begin(group, &call, NULL, 0, 0);
    atomic_fetch_add(&l->begun, 1);
    wait_until(&l->begun, LAST);
    assert_non_null(haul_group_get("none", .limit = 0.1));
    const haul_status status = haul__work_wait(w);
    atomic_fetch_add(&l->left, 1);
    return status;
}

static void test_local__a_late_rank_is_named(void **state)
{
    (void)state;
    lateness l = {.begun = 0};
    assert_int_equal(haul_group_run("local:cpu,cpu,cpu", be_late, &l), HAUL_STATE);
    assert_says("test: collective 1 cannot be completed: rank 2 (cpu) has not reached it for 0.1 seconds");
    assert_non_null(haul_group_get("none", .limit = 300));
}

static haul_status use_all(haul_group *group, void *context)
{
    (void)context;
    const haul__group_call call = {.name = "test"};
    const int              rank = haul_group_rank(group), to = (rank + 1) % 3, from = (rank + 2) % 3;
    haul_tensor           *x = haul_full(HAUL_F32, HAUL_SHAPE(6), rank);
    int                    got = -1;
    haul_status            status = haul_tensor_check(haul_all_gather(haul_all_reduce(x, group), 0, group));
    if (!status)
        status = haul__group_send(group, &call, &rank, (int64_t)sizeof rank, to);
    if (!status)
        status = haul__work_wait(haul__group_receive_begin(group, &call, &got, (int64_t)sizeof got, from));
    haul_group *half = status ? NULL : haul_group_split(group, rank % 2, 0);
    if (!status && half)
        status = haul_group_barrier(half);
    if (!status && half)
        assert_int_equal(got, from);
    return half ? status : haul_error_status();
}

/* Each allocation fails in turn, in whichever thread: all ranks end, with an error if something was missing. */
static void test_local__ranks_end_wherever_memory_is_missing(void **state)
{
    (void)state;
    check(haul_group_run("local:cpu,cpu,cpu", use_all, NULL));
    haul__fault_plan(HAUL__FAULT_HOST, INT64_MAX);
    check(haul_group_run("local:cpu,cpu,cpu", use_all, NULL));
    const int64_t count = haul__fault_count();
    assert_in_range(count, 20, 2000);
    for (int64_t nth = 1; nth <= count; nth++) {
        haul__fault_plan(HAUL__FAULT_HOST, nth);
        const haul_status status = haul_group_run("local:cpu,cpu,cpu", use_all, NULL);
        haul__fault_plan(0, 0);
        if (status && status != HAUL_OUT_OF_MEMORY) /* a later collective of the rank that lacked it */
            assert_says("cannot be used after a failed collective: haul_group_run: host memory is exhausted");
        haul_error_clear();
    }
    check(haul_group_run("local:cpu,cpu,cpu", use_all, NULL));
}

/* ---- bad calls ---- */

static haul_group *shared;

static haul_status use_another(haul_group *group, void *context)
{
    (void)context;
    if (haul_group_rank(group) == 0)
        shared = group;
    check(haul_group_barrier(group));
    if (haul_group_rank(group) == 1) {
        assert_int_equal(haul_group_barrier(shared), HAUL_STATE);
        assert_says("only the thread of rank 0 (cpu), which haul_group_run has started, can use the group");
        haul_error_clear();
    }
    return haul_group_barrier(group);
}

static void test_local__a_group_is_for_its_own_thread(void **state)
{
    (void)state;
    check(haul_group_run("local:cpu,cpu", use_another, NULL));
    assert_null(haul_group_get("local:cpu,cpu"));
    assert_int_equal(haul_error_status(), HAUL_STATE);
    assert_says("haul_group_run");
}

static haul_status estimated(void *context)
{
    (void)context;
    assert_int_equal(haul_group_run("local:cpu", say_nothing, NULL), HAUL_UNSUPPORTED);
    haul_error_clear();
    return HAUL_OK;
}

static void test_local__bad_calls_are_refused(void **state)
{
    (void)state;
    char many[512] = "local:cpu";
    for (int i = 0; i < 64; i++)
        strcat(many, ",cpu");
    const char *const names[] = {"", "cpu", "local", "local:", "local:cpu,", "local:,cpu", "local:cpu cpu", many};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const haul_status status = haul_group_run(names[i], say_nothing, NULL);
        assert_true(status == HAUL_INVALID_ARGUMENT || status == HAUL_DEVICE);
        haul_error_clear();
    }
    assert_int_equal(haul_group_run(NULL, say_nothing, NULL), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_group_run("local:cpu", NULL, NULL), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_group_run("local:cpu,nowhere:3", say_nothing, NULL), HAUL_DEVICE);
    assert_says("nowhere");
    haul_estimate_result estimate;
    check(haul_estimate(estimated, NULL, &estimate));
    haul_estimate_free(&estimate);
    haul_error_clear();
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(test_local__##name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(a_rank_has_a_device_and_draws_of_its_own),
        T(a_rank_may_have_ranks),
        T(works_get_on_while_their_rank_waits_for_others),
        T(a_rank_that_fails_ends_the_others),
        T(an_error_without_a_record_is_reported),
        T(a_rank_that_ends_early_is_named),
        T(ranks_that_differ_get_an_error_that_names_both),
        T(options_that_differ_are_named),
        T(a_late_rank_is_named),
        T(ranks_end_wherever_memory_is_missing),
        T(a_group_is_for_its_own_thread),
        T(bad_calls_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
