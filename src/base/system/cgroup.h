/* The control groups of the process, as containers and systemd set them: the group itself, and those that it is in. */
#ifndef HAUL_BASE_SYSTEM_CGROUP_H
#define HAUL_BASE_SYSTEM_CGROUP_H

#include <stdbool.h>
#include <stddef.h>

/* A group's folder. */
typedef struct haul__cgroup {
    char   path[4096];
    size_t mount; /* bytes of the path up to the outermost group */
} haul__cgroup;

/* The innermost group. `root` is put before each path, "" for the machine's own files. `controller` names the hierarchy
 * of version 1, NULL that of version 2. False without it. Neither this nor the others allocate. */
bool haul__cgroup_find(haul__cgroup *group, const char *root, const char *controller);

/* Goes on to the group that it is in; false if it was the outermost one. */
bool haul__cgroup_leave(haul__cgroup *group);

/* The beginning of a file of the group, as a text; false, and "", if there is none. */
bool haul__cgroup_read(const haul__cgroup *group, const char *name, char *out, size_t size);

/* The same of any file, by its path. */
bool haul__file_text(const char *path, char *out, size_t size);

#endif
