/* The group of the ranks on which a test program runs, one rank without a launcher, and the device on which each makes
 * its tensors: HAUL_TEST_RANK_DEVICE, in which a % is the rank's number. With HAUL_TEST_LOCAL, a name of
 * haul_group_run, ranks are threads, which run each test together. For a test program's one source file. */
#ifndef HAUL_TESTS_RANKS_H
#define HAUL_TESTS_RANKS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/scope.h"

static _Thread_local haul_group *group;
static _Thread_local int         rank, size;
static const char               *local_name; /* NULL: ranks are processes */

static inline haul_status choose_device(void)
{
    const char *pattern = getenv("HAUL_TEST_RANK_DEVICE");
    char        name[64];
    if (!pattern)
        return HAUL_OK;
    const int before = (int)strcspn(pattern, "%");
    if (pattern[before])
        snprintf(name, sizeof name, "%.*s%d%s", before, pattern, rank, pattern + before + 1);
    else
        snprintf(name, sizeof name, "%s", pattern);
    return haul_set_device(haul_device_get(name));
}

/* Before all tests. The group is there before the device is chosen, so GPUs do not make it one of NCCL. */
static inline int group_setup(void **state)
{
    (void)state;
    local_name = getenv("HAUL_TEST_LOCAL");
    if (local_name)
        return 0;
    group = haul_group_get("auto");
    rank = group ? haul_group_rank(group) : 0;
    size = group ? haul_group_size(group) : 0;
    if (group && !choose_device())
        return 0;
    print_error("%s\n", haul_error_message());
    return 1;
}

static inline void check(haul_status status)
{
    if (status)
        fail_msg("rank %d: %s", rank, haul_error_message());
}

/* Sets a variable of the library for all ranks, while none is in a collective. */
static inline void set_for_all(int64_t *variable, int64_t value)
{
    check(haul_group_barrier(group));
    if (!local_name || rank == 0)
        *variable = value;
    check(haul_group_barrier(group));
}

/* An assertion that fails in a thread that is not the main one ends the program. */
static inline haul_status run_rank(haul_group *own, void *test)
{
    group = own;
    rank = haul_group_rank(own);
    size = haul_group_size(own);
    ((const struct CMUnitTest *)test)->test_func(NULL);
    return HAUL_OK;
}

static inline void run_local(void **test)
{
    check(haul_group_run(local_name, run_rank, *test));
}

/* Runs the tests, in the threads of ranks if ranks are threads. */
static inline int run_on_ranks(const struct CMUnitTest *tests, size_t count, CMFixtureFunction group_begin)
{
    struct CMUnitTest all[64];
    if (count > sizeof all / sizeof *all)
        return 1;
    for (size_t i = 0; i < count; i++) {
        all[i] = tests[i];
        if (getenv("HAUL_TEST_LOCAL")) {
            all[i].test_func = run_local;
            all[i].initial_state = (void *)(uintptr_t)&tests[i];
        }
    }
    return _cmocka_run_group_tests("tests", all, count, group_begin, NULL);
}

#endif
