/* Compiled again for each commit, because the build writes haul_commit.h (cmake/haul_commit.cmake). */
#include "cli/shared/commit.h"

#include "haul_commit.h"

const char *build_commit(void)
{
    return HAUL_COMMIT;
}
