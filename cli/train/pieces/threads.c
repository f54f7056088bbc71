#include "cli/train/pieces/threads.h"

#include <string.h>

#include "cli/shared/cli.h"
#include "cli/shared/local_ranks.h"
#include "group/launcher.h"

bool threads_suit(const option_values *values, const train_options *o)
{
    const haul__launcher launcher = haul__launcher_now();
    if (option_given(values, "device"))
        complain("--group %s names the device of each rank; leave --device out", o->group);
    else if (o->devices)
        complain("--group %s names the device of each rank; leave --devices out", o->group);
    else if (launcher.size > 1)
        complain("%s has started %d processes, and --group %s is for one process; start it without a launcher, or "
                 "give --group mpi",
                 launcher.name, launcher.size, o->group);
    else
        return true;
    return false;
}

/* The first device of the group's list that is in it twice; NULL: there is none. */
static const haul_device *shared_device(const char *group)
{
    const haul_device *devices[LOCAL_RANKS_MOST];
    int                count = 0;
    for (const char *at = strchr(group, ':') + 1, *end = at; *at && count < LOCAL_RANKS_MOST;
         at = *end ? end + 1 : end) {
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
    if (o->shard == 3) {
        complain("--shard 3 is for ranks that are processes, and those of --group %s are threads; give --shard 2",
                 o->group);
        return false;
    }
    const char        *given = o->memory_limit ? "memory-limit" : o->spill ? "spill" : NULL;
    const haul_device *shared = given ? shared_device(o->group) : NULL;
    if (shared)
        complain("--%s is for the memory of one rank, and ranks of --group %s share %s; leave it out, or start "
                 "processes: mpirun -n 2 haul train ...",
                 given, o->group, haul_device_name(shared));
    return !shared;
}

/* ---- ranks ---- */

typedef struct trained_rank {
    const option_values *values;
    const train_options *options;
    threads_function    *train;
} trained_rank;

/* Rank 0 has the first turn, and until it is over complains as a training on one rank does. */
static int train_rank(haul_group *group, void *context)
{
    const trained_rank *common = context;
    train_options       options = *common->options;
    option_values       values = *common->values;
    values.values = &options;
    option_give(&values, "device", haul_device_name(haul_current_device()));
    if (haul_group_rank(group) == 0)
        complain_as_rank(0, "");
    return common->train(&values, &options);
}

int threads_train(const option_values *values, const train_options *o, threads_function *train)
{
    return local_ranks_run(o->group, train_rank, &(trained_rank){.values = values, .options = o, .train = train});
}
