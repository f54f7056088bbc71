/* How many cores the process may use: its affinity, and the quota of its control groups (cgroup v2, cpu.max), as
 * containers and systemd set it. */
#include "core/cores.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH = 4096 };

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

/* The first line of a file; "" if there is none. */
static void read_line(const char *path, char *line, int size)
{
    FILE *f = fopen(path, "re");
    if (!f || !fgets(line, size, f))
        line[0] = 0;
    if (f)
        fclose(f);
}

/* The process's group, "/a/b"; false without cgroup v2. Its line of /proc/self/cgroup begins with "0::". */
static int find_group(char *group, int size)
{
    FILE *f = fopen("/proc/self/cgroup", "re");
    int   found = 0;
    while (f && !found && fgets(group, size, f))
        found = strncmp(group, "0::/", 4) == 0;
    if (f)
        fclose(f);
    if (!found)
        return 0;
    group[strcspn(group, "\n")] = 0;
    memmove(group, group + 3, strlen(group + 3) + 1);
    return 1;
}

/* The least quota of the group and those that it is in; 0 if none has one. */
static int group_cores(void)
{
    char group[PATH], path[PATH + 64], line[128];
    int  least = 0;
    if (!find_group(group, sizeof group))
        return 0;
    for (;;) {
        snprintf(path, sizeof path, "/sys/fs/cgroup%s/cpu.max", group);
        read_line(path, line, sizeof line);
        const int cores = haul__quota_cores(line);
        if (cores && (!least || cores < least))
            least = cores;
        char *slash = strrchr(group, '/');
        if (!slash)
            return least;
        *slash = 0;
    }
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
