#include "cli/shared/local_ranks.h"

#include <string.h>

#include "cli/shared/cli.h"

static const char prefix[] = "local:";

bool local_ranks_named(const char *group)
{
    return !strncmp(group, prefix, strlen(prefix));
}

typedef struct rank_threads {
    rank_main *function;
    void      *context;
    int        codes[LOCAL_RANKS_MOST]; /* with which ranks have ended; -1: not yet */
} rank_threads;

/* All ranks agree on other ends. */
static bool has_failed(int code)
{
    return code != EXIT_OK && code != EXIT_INTERRUPTED && code != EXIT_DIVERGED;
}

static haul_status be_rank(haul_group *group, void *context)
{
    rank_threads *all = context;
    const int     rank = haul_group_rank(group);
    complain_as_rank(rank, haul_device_name(haul_current_device()));
    const int code = all->codes[rank] = all->function(group, all->context);
    if (!has_failed(code))
        return HAUL_OK;
    return haul_error_status()
               ? haul_error_status()
               : haul_error_set(HAUL_STATE, NULL, NULL, "rank %d has ended with an error, which it has printed", rank);
}

int local_ranks_run(const char *group, rank_main *function, void *context)
{
    rank_threads all = {.function = function, .context = context};
    for (int r = 0; r < LOCAL_RANKS_MOST; r++)
        all.codes[r] = -1;
    if (!haul_group_run(group, be_rank, &all))
        return all.codes[0];
    const int heard = complain_heard();
    const int code = heard < 0 ? EXIT_OK : all.codes[heard];
    return code > 0 && has_failed(code) ? code : complain_error();
}
