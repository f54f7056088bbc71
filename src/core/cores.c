/* How many cores the process may use: its affinity, and the quota of its control groups (cgroup v2, cpu.max), as
 * containers and systemd set it. */
#include "core/cores.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROOT  "/sys/fs/cgroup"
#define QUOTA "/cpu.max"
enum { ROOT_LENGTH = sizeof ROOT - 1 };

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

/* Where the process's group is in the file system; false without cgroup v2. Its line of /proc/self/cgroup begins with
 * "0::/". */
static int find_group(char *path, int size)
{
    FILE *f = fopen("/proc/self/cgroup", "re");
    int   found = 0;
    while (f && !found && fgets(path + ROOT_LENGTH - 3, size - ROOT_LENGTH + 3, f))
        found = strncmp(path + ROOT_LENGTH - 3, "0::/", 4) == 0;
    if (f)
        fclose(f);
    if (!found)
        return 0;
    memcpy(path, ROOT, ROOT_LENGTH);
    path[strcspn(path, "\n")] = 0;
    return 1;
}

/* The least quota of the group and those that it is in; 0 if none has one. */
static int group_cores(void)
{
    char path[4096], line[128];
    int  least = 0;
    if (!find_group(path, sizeof path - sizeof QUOTA))
        return 0;
    for (;;) {
        char *end = path + strlen(path);
        memcpy(end, QUOTA, sizeof QUOTA);
        read_line(path, line, sizeof line);
        const int cores = haul__quota_cores(line);
        if (cores && (!least || cores < least))
            least = cores;
        *end = 0;
        char *slash = strrchr(path + ROOT_LENGTH, '/');
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
