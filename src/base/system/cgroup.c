#include "base/system/cgroup.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"

#define MOUNT "/sys/fs/cgroup"

bool haul__file_text(const char *path, char *out, size_t size)
{
    size_t    used = 0;
    const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    HAUL__ASSERT(size > 0);
    out[0] = 0;
    if (file < 0)
        return false;
    for (ssize_t got; used + 1 < size && (got = read(file, out + used, size - 1 - used)) > 0;)
        used += (size_t)got;
    close(file);
    HAUL__ASSERT(used < size);
    out[used] = 0;
    return used > 0;
}

/* True if the word is in a list with commas, which ends at a colon. */
static bool is_listed(const char *list, const char *word)
{
    const size_t length = strlen(word);
    for (;;) {
        const size_t here = strcspn(list, ",:");
        if (here == length && strncmp(list, word, length) == 0)
            return true;
        if (list[here] != ',')
            return false;
        list += here + 1;
    }
}

/* The path in a line of /proc/self/cgroup, "ID:CONTROLLERS:PATH"; NULL if it is of another hierarchy. */
static const char *path_in_line(const char *line, const char *controller)
{
    const char *list = strchr(line, ':'), *path = list ? strchr(list + 1, ':') : NULL;
    if (!path)
        return NULL;
    return (controller ? is_listed(list + 1, controller) : strncmp(line, "0::", 3) == 0) ? path + 1 : NULL;
}

bool haul__cgroup_find(haul__cgroup *group, const char *root, const char *controller)
{
    char text[4096];
    snprintf(group->path, sizeof group->path, "%s/proc/self/cgroup", root);
    if (!haul__file_text(group->path, text, sizeof text))
        return false;
    for (char *line = text, *next; line; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = 0;
        const char *path = path_in_line(line, controller);
        if (!path)
            continue;
        if (strstr(path, "/..") ||
            strcmp(path, "/") == 0) /* outside the groups that are visible here; or the outermost */
            path = "";
        const int mount = snprintf(group->path, sizeof group->path, "%s" MOUNT "%s%s", root, controller ? "/" : "",
                                   controller ? controller : "");
        if (mount < 0 || (size_t)mount + strlen(path) >= sizeof group->path)
            return false;
        HAUL__ASSERT((size_t)mount < sizeof group->path);
        group->mount = (size_t)mount;
        memcpy(group->path + mount, path, strlen(path) + 1);
        return true;
    }
    return false;
}

bool haul__cgroup_leave(haul__cgroup *group)
{
    HAUL__ASSERT(group->mount <= strlen(group->path));
    char *slash = strrchr(group->path + group->mount, '/');
    if (slash)
        *slash = 0;
    return slash != NULL;
}

bool haul__cgroup_read(const haul__cgroup *group, const char *name, char *out, size_t size)
{
    char      path[sizeof group->path + 64];
    const int length = snprintf(path, sizeof path, "%s/%s", group->path, name);
    out[0] = 0;
    return length > 0 && (size_t)length < sizeof path && haul__file_text(path, out, size);
}
