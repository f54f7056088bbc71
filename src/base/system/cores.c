/* How many cores the process may use: its affinity, and the quota of its control groups (cgroup v2, cpu.max), as
 * containers and systemd set it. */
#include "base/system/cores.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/system/cgroup.h"

int haul__quota_cores(const char *text)
{
    char     *end;
    long long quota, period;
    errno = 0;
    quota = strtoll(text, &end, 10); /* "max" without a limit */
    if (end == text || errno || quota <= 0)
        return 0;
    text = end;
    period = strtoll(text, &end, 10);
    if (end == text || errno || period <= 0)
        return 0;
    const long long cores = quota / period + (quota % period != 0);
    return cores > 0 && cores < 1 << 20 ? (int)cores : 0;
}

/* The least quota of the group and those that it is in; 0 if none has one. */
static int group_cores(void)
{
    haul__cgroup group;
    char         line[128];
    int          least = 0;
    if (!haul__cgroup_find(&group, "", NULL))
        return 0;
    do {
        haul__cgroup_read(&group, "cpu.max", line, sizeof line);
        const int cores = haul__quota_cores(line);
        if (cores && (!least || cores < least))
            least = cores;
    } while (haul__cgroup_leave(&group));
    return least;
}

int haul__core_count(void)
{
    cpu_set_t set;
    long      cores = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : sysconf(_SC_NPROCESSORS_ONLN);
    const int quota = group_cores();
    if (cores < 1)
        cores = 1;
    return quota && quota < cores ? quota : (int)cores;
}
