#include "base/system/free_memory.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/assert.h"
#include "base/system/cgroup.h"

enum { TEXT = 8192, NOT_KNOWN = -1 };

static int64_t least(int64_t a, int64_t b)
{
    return a < 0 || (b >= 0 && b < a) ? b : a;
}

/* The number at the beginning of a text; NOT_KNOWN without one, as "max" says that there is no limit. */
static int64_t number_of(const char *text)
{
    char *end;
    errno = 0;
    const long long number = strtoll(text, &end, 10);
    return end == text || errno || number < 0 ? NOT_KNOWN : (int64_t)number;
}

/* The number after `key` at the beginning of a line. */
static int64_t number_after(const char *text, const char *key)
{
    const size_t length = strlen(key);
    for (const char *line = text; *line; line++) {
        if (strncmp(line, key, length) == 0)
            return number_of(line + length);
        line += strcspn(line, "\n");
        if (!*line)
            break;
    }
    return NOT_KNOWN;
}

/* The number after `key` in a file below the root, whose unit is KiB, in bytes. */
static int64_t kib_of_file(const char *root, const char *file, const char *key)
{
    char path[4096], text[TEXT];
    snprintf(path, sizeof path, "%s%s", root, file);
    if (!haul__file_text(path, text, sizeof text))
        return NOT_KNOWN;
    const int64_t kib = number_after(text, key);
    return kib > INT64_MAX / 1024 ? INT64_MAX : kib < 0 ? NOT_KNOWN : kib * 1024;
}

/* ---- control groups ---- */

/* The names of the files of a version, and of the line in memory.stat that has the bytes of files which nothing used
 * lately. */
typedef struct group_files {
    const char *controller, *limits[2], *used, *inactive;
} group_files;

static const group_files versions[] = {
    {NULL, {"memory.max", "memory.high"}, "memory.current", "inactive_file "},
    {"memory", {"memory.limit_in_bytes", NULL}, "memory.usage_in_bytes", "total_inactive_file "},
};

static int64_t left_in_group(const haul__cgroup *group, const group_files *files)
{
    char    text[TEXT];
    int64_t limit = NOT_KNOWN;
    for (int i = 0; i < 2 && files->limits[i]; i++)
        if (haul__cgroup_read(group, files->limits[i], text, sizeof text))
            limit = least(limit, number_of(text));
    if (limit < 0)
        return NOT_KNOWN;
    int64_t used = haul__cgroup_read(group, files->used, text, sizeof text) ? number_of(text) : 0;
    if (haul__cgroup_read(group, "memory.stat", text, sizeof text) && used > 0) {
        const int64_t inactive = number_after(text, files->inactive);
        used -= inactive < 0 ? 0 : inactive < used ? inactive : used;
    }
    HAUL__ASSERT(used >= NOT_KNOWN);
    return used < 0 ? limit : used < limit ? limit - used : 0;
}

static int64_t left_in_groups(const char *root, const group_files *files)
{
    haul__cgroup group;
    int64_t      left = NOT_KNOWN;
    if (!haul__cgroup_find(&group, root, files->controller))
        return NOT_KNOWN;
    do
        left = least(left, left_in_group(&group, files));
    while (haul__cgroup_leave(&group));
    return left;
}

/* ---- limits of the process ---- */

/* `key` is the line of /proc/self/status with what counts for the limit. */
static int64_t left_of_limit(const char *root, int resource, const char *key)
{
    struct rlimit limit;
    if (getrlimit(resource, &limit) || limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur > INT64_MAX)
        return NOT_KNOWN;
    const int64_t used = kib_of_file(root, "/proc/self/status", key), most = (int64_t)limit.rlim_cur;
    return used < 0 ? most : used < most ? most - used : 0;
}

int64_t haul__free_memory(const char *root)
{
    int64_t left = kib_of_file(root, "/proc/meminfo", "MemAvailable:");
    for (size_t i = 0; i < sizeof versions / sizeof versions[0]; i++)
        left = least(left, left_in_groups(root, &versions[i]));
    left = least(left, left_of_limit(root, RLIMIT_AS, "VmSize:"));
    return least(left, left_of_limit(root, RLIMIT_DATA, "VmData:"));
}
