/* Where pages are, and whose. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/system/cgroup.h"
#include "base/text/ascii.h"
#include "base/text/plain.h"
#include "observe/watch/published_page.h"

/* ---- processes ---- */

/* "1234 (name) S 1 ...": the name may hold anything. The start is the 22nd field, the 20th after the name. */
bool haul__process_look(int64_t pid, haul__process *out)
{
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%" PRId64 "/stat", pid);
    if (pid < 1 || !haul__file_text(path, text, sizeof text))
        return false;
    const char *begin = strchr(text, '('), *end = strrchr(text, ')');
    if (!begin || !end || end < begin || strlen(end) < 4)
        return false;
    snprintf(out->command, sizeof out->command, "%.*s", (int)(end - begin - 1), begin + 1);
    out->state = end[2];
    for (int i = 0; i < 20; i++)
        if (!(end = strchr(end + 1, ' ')))
            return false;
    out->started = strtoll(end + 1, NULL, 10);
    return true;
}

uint64_t haul__process_space(void)
{
    struct stat s;
    return stat("/proc/self/ns/pid", &s) ? 0 : (uint64_t)s.st_ino;
}

/* ---- files ---- */

void haul__page_file(const haul__page_id *id, char out[HAUL__PAGE_PATH])
{
    snprintf(out, HAUL__PAGE_PATH, "%" PRIu64 "-%" PRId64 "-%" PRId64 ".page", id->space, id->pid, id->started);
}

/* Only a name that is written back the same is one of ours. */
bool haul__page_parse(const char *file, haul__page_id *out)
{
    char        again[HAUL__PAGE_PATH];
    const char *at = file;
    uint64_t    parts[3] = {0};
    for (int i = 0; i < 3; i++) {
        char *end;
        if (!haul__is_digit(*at))
            return false;
        parts[i] = strtoull(at, &end, 10);
        at = end + (*end == '-');
    }
    *out = (haul__page_id){parts[0], (int64_t)(parts[1] & INT64_MAX), (int64_t)(parts[2] & INT64_MAX)};
    haul__page_file(out, again);
    return strcmp(file, again) == 0;
}

/* ---- folders ---- */

static bool add(char out[HAUL__PAGE_PATH], const char *format, const char *folder, unsigned user)
{
    int length = haul__snprintf(out, HAUL__PAGE_PATH, format, folder, user);
    return length > 0 && length < HAUL__PAGE_PATH;
}

int haul__page_folders(char out[HAUL__PAGE_FOLDERS][HAUL__PAGE_PATH])
{
    const char    *chosen = getenv("HAUL_PUBLISH"), *runtime = getenv("XDG_RUNTIME_DIR");
    const unsigned user = (unsigned)geteuid();
    int            count = 0;
    if (chosen && *chosen)
        return strcmp(chosen, "off") != 0 && add(out[0], "%s", chosen, user);
    if (runtime && *runtime == '/')
        count += add(out[count], "%s/haul", runtime, user);
    count += add(out[count], "%s/user/%u/haul", "/run", user);
    count += add(out[count], "%s/haul-%u", "/dev/shm", user);
    count += add(out[count], "%s/haul-%u", "/tmp", user);
    HAUL__ASSERT(count <= HAUL__PAGE_FOLDERS);
    return count;
}

/* Anybody may make a folder of that name in /dev/shm or /tmp, so the one that is there must be this user's alone. */
int haul__page_open_folder(const char *path, bool make, char *why, size_t size)
{
    struct stat s;
    *why = 0;
    if (*path != '/') {
        snprintf(why, size, "HAUL_PUBLISH is \"%s\"; off or an absolute path is expected", path);
        return -1;
    }
    if (make && mkdir(path, 0700) && errno != EEXIST) {
        snprintf(why, size, "%s cannot be made: %s", path, haul__strerror(errno));
        return -1;
    }
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0 || fstat(folder, &s)) {
        snprintf(why, size, "%s cannot be opened: %s", path, haul__strerror(errno));
    } else if (s.st_uid != geteuid() || (s.st_mode & 077)) {
        snprintf(why, size, "%s is not private to this user: owner %u, mode %03o; 700 is expected", path,
                 (unsigned)s.st_uid, (unsigned)s.st_mode & 0777);
    } else {
        return folder;
    }
    if (folder >= 0)
        close(folder);
    return -1;
}
