/* Opens files that other files name. Each folder on the way is opened from the one before without following links, so
 * the way cannot be led elsewhere in the meantime. */
#include "files/below.h"
#include "base/assert.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text/plain.h"
#include "base/text/quoted.h"
#include "core/error.h"
#include "files/descriptor.h"

enum { MAX_PATH = 4096 };

static haul_status refuse(const char *operation, const char *name, const char *why)
{
    char quoted[HAUL__QUOTED_SIZE];
    return haul__fail(HAUL_FORMAT, operation, "path", "the file names the file %s, %s", haul__quoted(name, quoted),
                      why);
}

static haul_status fail_open(const char *operation, const char *name, int error)
{
    char quoted[HAUL__QUOTED_SIZE];
    return error == ELOOP || error == ENOTDIR
               ? refuse(operation, name, "which leads through a link; Haul follows none")
               : haul__fail(HAUL_IO, operation, "path", "cannot open %s, which the file names: %s",
                            haul__quoted(name, quoted), haul__strerror(error));
}

/* The folder of a path, opened. -1: errno has the reason. */
static int open_folder(const char *path)
{
    char        folder[MAX_PATH];
    const char *slash = strrchr(path, '/');
    size_t      length = slash ? (size_t)(slash - path) + 1 : 1;
    if (length >= sizeof folder) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(folder, slash ? path : ".", length);
    folder[length] = 0;
    return haul__file_fault() ? -1 : open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static haul_status check_name(const char *name, const char *operation)
{
    if (!*name || *name == '/' || strlen(name) >= MAX_PATH)
        return refuse(operation, name, "which is not a path below its folder");
    for (const char *part = name; *part; part += *part == '/') {
        const size_t length = strcspn(part, "/");
        if (!length || (length == 2 && !memcmp(part, "..", 2)) || (part[length] == '/' && !part[length + 1]))
            return refuse(operation, name, "which is not a path below its folder");
        part += length;
    }
    return HAUL_OK;
}

/* Goes down to the last part of the name. Ends `folder`. */
static int open_parts(int folder, const char *name)
{
    char part[MAX_PATH];
    while (folder >= 0) {
        const size_t length = strcspn(name, "/");
        const bool   last = !name[length];
        HAUL__ASSERT(0 < length && length < sizeof part);
        memcpy(part, name, length);
        part[length] = 0;
        const int next =
            haul__file_fault()
                ? -1
                : openat(folder, part, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | (last ? 0 : O_DIRECTORY));
        const int error = errno;
        close(folder);
        errno = error;
        folder = next;
        if (last)
            break;
        name += length + 1;
    }
    return folder;
}

haul_status haul__file_open_below(haul__file *file, const char *owner, const char *name, const char *operation)
{
    struct stat info;
    haul_status status = check_name(name, operation);
    *file = (haul__file){.fd = -1, .path = name, .operation = operation};
    if (status)
        return status;
    HAUL__ASSERT(*name && *name != '/');
    const int folder = open_folder(owner);
    const int fd = folder < 0 ? -1 : open_parts(folder, name);
    if (fd < 0)
        return fail_open(operation, name, errno);
    if (fstat(fd, &info) != 0)
        status = fail_open(operation, name, errno);
    else if (!S_ISREG(info.st_mode))
        status = refuse(operation, name, "which is not a regular file");
    if (status) {
        close(fd);
        return status;
    }
    file->fd = fd;
    file->size = (uint64_t)info.st_size;
    return HAUL_OK;
}
