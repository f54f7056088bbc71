/* The group of the ranks on which a test program runs, one rank without a launcher, and the device on which each makes
 * its tensors: HAUL_TEST_RANK_DEVICE, in which a % is the rank's number. For a test program's one source file. */
#ifndef HAUL_TESTS_RANKS_H
#define HAUL_TESTS_RANKS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/scope.h"

static haul_group *group;
static int         rank, size;

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

#endif
