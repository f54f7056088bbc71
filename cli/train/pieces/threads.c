#include "cli/train/pieces/threads.h"

#include <inttypes.h>
#include <string.h>

#include "cli/shared/cli.h"
#include "group/launcher.h"

enum { MOST_RANKS = 64 };

static const char prefix[] = "local:";

/* ---- options ---- */

bool threads_named(const char *group)
{
    return !strncmp(group, prefix, strlen(prefix));
}

bool threads_suit(const option_values *values, const train_options *o)
{
    const haul__launcher launcher = haul__launcher_now();
    if (option_given(values, "device"))
        complain("--group %s names the device of each rank; leave --device out", o->group);
    else if (launcher.size > 1)
        complain("%s has started %d processes, and --group %s is for one process; start it without a launcher, or "
                 "give --group mpi",
                 launcher.name, launcher.size, o->group);
    else if (o->shard == 3)
        complain("--shard 3 is for ranks that are processes, and those of --group %s are threads; give --shard 2",
                 o->group);
    else
        return true;
    return false;
}

/* The first device of the group's list that is in it twice; NULL: there is none. */
static const haul_device *shared_device(const char *group)
{
    const haul_device *devices[MOST_RANKS];
    int                count = 0;
    for (const char *at = group + strlen(prefix), *end = at; *at && count < MOST_RANKS; at = *end ? end + 1 : end) {
        char name[64];
        end = at + strcspn(at, ",");
        snprintf(name, sizeof name, "%.*s", (int)(end - at), at);
        devices[count] = haul_device_get(name);
        for (int i = 0; i < count; i++)
            if (devices[i] == devices[count])
                return devices[count];
        count++;
    }
    return NULL;
}

bool threads_suit_devices(const train_options *o)
{
    const char        *given = o->memory_limit ? "memory-limit" : o->spill ? "spill" : NULL;
    const haul_device *shared = given ? shared_device(o->group) : NULL;
    if (shared)
        complain("--%s is for the memory of one rank, and ranks of --group %s share %s; leave it out, or start "
                 "processes: mpirun -n 2 haul train ...",
                 given, o->group, haul_device_name(shared));
    return !shared;
}

/* ---- ranks ---- */

typedef struct rank_threads {
    const option_values *values;
    const train_options *options;
    threads_function    *train;
    int                  codes[MOST_RANKS]; /* with which ranks have ended; -1: not yet */
} rank_threads;

/* The others do not learn of these ends by what all ranks agree on. */
static bool ends_others(int code)
{
    return code != EXIT_OK && code != EXIT_INTERRUPTED && code != EXIT_DIVERGED;
}

/* Rank 0 has the first turn, and complains as a training without ranks does until it is over. */
static haul_status be_rank(haul_group *group, void *context)
{
    rank_threads *all = context;
    const int     rank = haul_group_rank(group);
    const char   *device = haul_device_name(haul_current_device());
    train_options options = *all->options;
    option_values values = *all->values;
    values.values = &options;
    option_give(&values, "device", device);
    complain_as_rank(rank, rank ? device : "");
    const int code = all->train(&values, &options);
    all->codes[rank] = code;
    if (!ends_others(code))
        return HAUL_OK;
    return haul_error_status() ? haul_error_status()
                               : haul_error_set(HAUL_STATE, "haul train", NULL,
                                                "rank %d has ended with an error, which it has printed", rank);
}

/* Of the rank whose complaints were printed, if it has failed. */
static int code_of(const rank_threads *all)
{
    const int heard = complain_heard();
    int       code = heard >= 0 ? all->codes[heard] : EXIT_OK;
    for (int r = 0; r < MOST_RANKS && !ends_others(code); r++)
        code = all->codes[r];
    return ends_others(code) && code > 0 ? code : EXIT_FAILED;
}

int threads_train(const option_values *values, const train_options *o, threads_function *train)
{
    rank_threads all = {.values = values, .options = o, .train = train};
    for (int r = 0; r < MOST_RANKS; r++)
        all.codes[r] = -1;
    if (!haul_group_run(o->group, be_rank, &all))
        return all.codes[0];
    if (complain_heard() < 0)
        return complain_error();
    return code_of(&all);
}
