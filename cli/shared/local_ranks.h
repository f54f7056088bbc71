/* Ranks that are threads of this process: --group local:cpu,opencl:0. */
#ifndef CLI_SHARED_LOCAL_RANKS_H
#define CLI_SHARED_LOCAL_RANKS_H

#include <haul/haul.h>

#include "group/local/crew.h"

enum { LOCAL_RANKS_MOST = HAUL__CREW_MOST };

/* True if the group's ranks are threads. */
bool local_ranks_named(const char *group);

/* What each thread runs, with its device as the current one. Returns an exit code. */
typedef int rank_main(haul_group *group, void *context);

/* Runs the function in a thread for each device of the group. Returns the exit code of rank 0; if a rank has failed,
 * that of the one whose complaints were printed. */
int local_ranks_run(const char *group, rank_main *function, void *context);

#endif
