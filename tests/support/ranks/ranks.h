/* The group of the ranks on which a test program runs, one rank without a launcher. For a test program's one source
 * file. */
#ifndef HAUL_TESTS_RANKS_H
#define HAUL_TESTS_RANKS_H

#include "support/scope.h"

static haul_group *group;
static int         rank, size;

/* Before all tests. */
static inline int group_setup(void **state)
{
    (void)state;
    group = haul_group_get("auto");
    if (!group) {
        print_error("%s\n", haul_error_message());
        return 1;
    }
    rank = haul_group_rank(group);
    size = haul_group_size(group);
    return 0;
}

static inline void check(haul_status status)
{
    if (status)
        fail_msg("rank %d: %s", rank, haul_error_message());
}

#endif
