/* Reading files with checked sizes, and writing them so that a crash, a full disk or an error leaves the old file. */
#include "files/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/plain.h"
#include "core/error.h"
#include "core/object.h"
#include "files/descriptor.h"

/* Linux transfers at most 2 GiB in a call; smaller pieces keep the process responsive to signals. */
#define PIECE ((size_t)1 << 28)

static haul_status fail_shorter(const haul__file *file)
{
    return haul__fail(HAUL_FORMAT, file->operation, "path", "%s became shorter while it was read", file->path);
}

static haul_status fail_errno(const char *operation, const char *what, const char *path, int error)
{
    return haul__fail(HAUL_IO, operation, "path", "cannot %s %s: %s", what, path, haul__strerror(error));
}

/* ---- reading ---- */

static haul_status open_with(haul__file *file, const char *path, const char *operation, int flags)
{
    *file = (haul__file){.fd = -1, .path = path, .operation = operation};
    if (!path)
        return haul__fail_null(operation, "path");
    /* O_NONBLOCK: opening a pipe must not wait for its writer; it has no effect on regular files. */
    int fd = haul__file_fault() ? -1 : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | flags);
    if (fd < 0)
        return fail_errno(operation, "open", path, errno);
    struct stat info;
    haul_status status = HAUL_OK;
    if (fstat(fd, &info) != 0)
        status = fail_errno(operation, "examine", path, errno);
    else if (!S_ISREG(info.st_mode))
        status = haul__fail(HAUL_IO, operation, "path", "%s is %s, not a file", path,
                            S_ISDIR(info.st_mode) ? "a folder" : "a device or pipe");
    if (status) {
        close(fd);
        return status;
    }
    file->fd = fd;
    file->size = (uint64_t)info.st_size;
    return HAUL_OK;
}

haul_status haul__file_open(haul__file *file, const char *path, const char *operation)
{
    return open_with(file, path, operation, 0);
}

haul_status haul__file_open_unlinked(haul__file *file, const char *path, const char *operation)
{
    return open_with(file, path, operation, O_NOFOLLOW);
}

void haul__file_open_memory(haul__file *file, const uint8_t *data, size_t size, const char *path, const char *operation)
{
    *file = (haul__file){.fd = -1, .size = size, .path = path, .operation = operation, .memory = data};
}

haul_status haul__file_read(const haul__file *file, uint64_t offset, void *out, size_t bytes)
{
    HAUL__ASSERT(!file->memory == (file->fd >= 0)); /* open, in one of the two ways */
    if (file->memory) {
        if (offset > file->size || bytes > file->size - offset)
            return fail_shorter(file);
        memcpy(out, file->memory + offset, bytes);
        return HAUL_OK;
    }
    for (size_t done = 0; done < bytes;) {
        size_t  piece = bytes - done < PIECE ? bytes - done : PIECE;
        ssize_t got = haul__file_fault() ? -1 : pread(file->fd, (char *)out + done, piece, (off_t)(offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fail_errno(file->operation, "read", file->path, errno);
        if (got == 0)
            return fail_shorter(file);
        done += (size_t)got;
    }
    return HAUL_OK;
}

void haul__file_close(haul__file *file)
{
    if (file->fd >= 0)
        close(file->fd);
    file->fd = -1;
}

haul_status haul__file_check_limit(const haul__file *file, uint64_t limit)
{
    if (file->size <= limit)
        return HAUL_OK;
    return haul__fail(HAUL_FORMAT, file->operation, "path", "%s has %llu bytes; Haul reads at most %llu", file->path,
                      (unsigned long long)file->size, (unsigned long long)limit);
}

haul_status haul__file_read_all(const char *path, const char *operation, uint64_t limit, size_t room, uint8_t **data,
                                size_t *size)
{
    HAUL__ASSERT(limit <= SIZE_MAX - room);
    haul__file  file;
    uint8_t    *bytes = NULL;
    haul_status status = haul__file_open(&file, path, operation);
    if (status)
        return status;
    if ((status = haul__file_check_limit(&file, limit)))
        goto out;
    if (!(bytes = haul__malloc((size_t)file.size + room))) {
        status = haul__fail_memory(operation, (size_t)file.size + room);
        goto out;
    }
    if ((status = haul__file_read(&file, 0, bytes, (size_t)file.size)))
        goto out;
    *data = bytes;
    *size = (size_t)file.size;
    bytes = NULL;
out:
    haul__free(bytes);
    haul__file_close(&file);
    return status;
}

/* ---- mapping ---- */

struct haul__mapping {
    haul__object object;
    uint8_t     *memory;
    size_t       size;
};

static void destroy_mapping(void *object)
{
    haul__mapping *mapping = object;
    if (mapping->memory)
        munmap(mapping->memory, mapping->size);
    haul__free(mapping);
}

static const haul__class mapping_class = {.name = "mapping of a file", .destroy = destroy_mapping};

static haul__mapping *map(const haul__file *file, int protection, int flags)
{
    HAUL__ASSERT(file->fd >= 0 && !file->memory);
    haul__mapping *mapping = haul__calloc(1, sizeof *mapping);
    if (!mapping) {
        haul__fail_memory(file->operation, sizeof *mapping);
        return NULL;
    }
    haul__object_init(&mapping->object, &mapping_class);
    mapping->size = (size_t)file->size;
    void *memory = MAP_FAILED;
    if (mapping->size != file->size)
        errno = EFBIG;
    else if (!haul__file_fault())
        memory = mmap(NULL, mapping->size, protection, flags, file->fd, 0);
    if (memory == MAP_FAILED) {
        fail_errno(file->operation, "map", file->path, errno);
        haul__object_release(mapping);
        return NULL;
    }
    mapping->memory = memory;
    return mapping;
}

haul__mapping *haul__file_map(const haul__file *file)
{
    return map(file, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE);
}

haul__mapping *haul__file_map_readonly(const haul__file *file)
{
    return map(file, PROT_READ, MAP_SHARED);
}

uint8_t *haul__mapping_at(const haul__mapping *mapping, uint64_t offset)
{
    HAUL__ASSERT(mapping->memory && offset <= mapping->size);
    return mapping->memory + offset;
}

haul_status haul__file_check_size(const haul__file *file)
{
    struct stat info;
    if (haul__file_fault() || fstat(file->fd, &info) != 0)
        return fail_errno(file->operation, "examine", file->path, errno);
    return (uint64_t)info.st_size < file->size ? fail_shorter(file) : HAUL_OK;
}

/* ---- writing ---- */

struct haul__writer {
    int         fd;
    uint64_t    size; /* bytes written */
    char       *path, *temporary, *folder;
    const char *operation;
    bool        created;  /* this writer must remove the temporary file */
    bool        replaces; /* there is a file, whose permissions the new one gets */
    mode_t      mode;     /* these; else those for a new file, of which the umask takes some away */
};

static void writer_free(haul__writer *w)
{
    if (w->created)
        unlink(w->temporary);
    if (w->fd >= 0)
        close(w->fd); /* also gives up the lock; the name is gone by then */
    haul__free(w->path);
    haul__free(w->temporary);
    haul__free(w->folder);
    haul__free(w);
}

/* The final target: links are followed, and anything that is not a file is left alone. */
static haul_status resolve(haul__writer *w, const char *path)
{
    struct stat info;
    HAUL__ASSERT(!w->path && !w->temporary && !w->created);
    w->mode = 0666;
    if (stat(path, &info) == 0) {
        if (!S_ISREG(info.st_mode))
            return haul__fail(HAUL_IO, w->operation, "path", "%s is %s, not a file", path,
                              S_ISDIR(info.st_mode) ? "a folder" : "a device or pipe");
        w->replaces = true;
        w->mode = info.st_mode & 0777;
        char *real = realpath(path, NULL);
        if (!real)
            return fail_errno(w->operation, "follow", path, errno);
        w->path = haul__strdup(real);
        free(real);
    } else {
        w->path = haul__strdup(path);
    }
    if (!w->path)
        return haul__fail_memory(w->operation, strlen(path));
    const char *slash = strrchr(w->path, '/');
    w->temporary = haul__format("%s.tmp", w->path);
    w->folder = !slash ? haul__strdup(".") : haul__format("%.*s", (int)(slash - w->path) + 1, w->path);
    return w->temporary && w->folder ? HAUL_OK : haul__fail_memory(w->operation, strlen(path));
}

/* True if the name still refers to the open file. Another writer may have renamed or removed it. */
static bool is_named(int fd, const char *name)
{
    struct stat a, b;
    return fstat(fd, &a) == 0 && lstat(name, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* File systems without locks are accepted; only another holder of the lock is an error. */
static haul_status lock(const haul__writer *w, int fd)
{
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return haul__fail(HAUL_IO, w->operation, "path", "another program is writing %s", w->path);
    return HAUL_OK;
}

/* Removes the temporary file of a killed process. Its contents may have another name elsewhere, so it is not used. */
static haul_status remove_open(const haul__writer *w, int fd)
{
    struct stat info;
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode))
        return haul__fail(HAUL_IO, w->operation, "path",
                          "the temporary file %s cannot be written: something that is not a file has its name",
                          w->temporary);
    if (lock(w, fd))
        return haul_error_status();
    if (is_named(fd, w->temporary) && (haul__file_fault() || unlink(w->temporary) != 0))
        return fail_errno(w->operation, "remove", w->temporary, errno);
    return HAUL_OK;
}

static haul_status remove_left(const haul__writer *w)
{
    int fd = haul__file_fault() ? -1 : open(w->temporary, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return errno == ENOENT ? HAUL_OK : fail_errno(w->operation, "create", w->temporary, errno);
    haul_status status = remove_open(w, fd);
    close(fd);
    return status;
}

/* A file of its own. Only its owner can read it until it has the permissions of the file that it replaces. */
static haul_status open_temporary(haul__writer *w)
{
    HAUL__ASSERT(w->fd < 0 && !w->created && w->temporary);
    for (;;) {
        w->fd = haul__file_fault() ? -1 : open(w->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, w->mode | 0600);
        if (w->fd < 0 && errno != EEXIST)
            return fail_errno(w->operation, "create", w->temporary, errno);
        if (w->fd < 0 && remove_left(w))
            return haul_error_status();
        if (w->fd < 0)
            continue;
        if (lock(w, w->fd))
            return haul_error_status();
        if (is_named(w->fd, w->temporary))
            break;
        close(w->fd);
        w->fd = -1;
    }
    HAUL__ASSERT(w->fd >= 0);
    w->created = true;
    return HAUL_OK;
}

haul__writer *haul__writer_open(const char *path, const char *operation)
{
    if (!path) {
        haul__fail_null(operation, "path");
        return NULL;
    }
    haul__writer *w = haul__calloc(1, sizeof *w);
    if (!w) {
        haul__fail_memory(operation, sizeof *w);
        return NULL;
    }
    w->fd = -1;
    w->operation = operation;
    if (resolve(w, path) || open_temporary(w)) {
        writer_free(w);
        return NULL;
    }
    HAUL__ASSERT(w->created && w->fd >= 0);
    return w;
}

/* How much of a piece fits within the limit on file sizes. */
static size_t room_for(const haul__writer *w, size_t piece)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return piece;
    uint64_t left = limit.rlim_cur > w->size ? limit.rlim_cur - w->size : 0;
    return left < piece ? (size_t)left : piece;
}

/* write(), without the signal for a file that exceeds the limit. */
static ssize_t put_piece(haul__writer *w, const char *data, size_t piece)
{
    if (haul__file_fault())
        return -1;
    piece = room_for(w, piece);
    if (!piece) {
        errno = EFBIG;
        return -1;
    }
    return write(w->fd, data, piece);
}

haul_status haul__writer_put(haul__writer *w, const void *data, size_t bytes)
{
    HAUL__ASSERT(w->fd >= 0 && w->created);
    for (size_t done = 0; done < bytes;) {
        size_t  piece = bytes - done < PIECE ? bytes - done : PIECE;
        ssize_t put = put_piece(w, (const char *)data + done, piece);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return fail_errno(w->operation, "write", w->path, errno);
        done += (size_t)put;
        w->size += (uint64_t)put;
    }
    return HAUL_OK;
}

/* The umask has no say in the permissions of a file that existed. */
static bool set_mode(const haul__writer *w)
{
    struct stat info;
    if (!w->replaces)
        return true;
    if (haul__file_fault() || fstat(w->fd, &info) != 0)
        return false;
    return (info.st_mode & 0777) == w->mode || fchmod(w->fd, w->mode) == 0;
}

haul_status haul__writer_commit(haul__writer *w)
{
    haul_status status = HAUL_OK;
    int         folder = haul__file_fault() ? -1 : open(w->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    HAUL__ASSERT(w->fd >= 0 && w->created);
    HAUL__ASSERT(w->path && w->temporary && w->folder);
    if (folder < 0)
        status = fail_errno(w->operation, "open the folder of", w->path, errno);
    else if (!set_mode(w))
        status = fail_errno(w->operation, "give the permissions of the file before to", w->path, errno);
    else if (haul__file_fault() || fsync(w->fd) != 0)
        status = fail_errno(w->operation, "write", w->path, errno);
    else if (haul__file_fault() || rename(w->temporary, w->path) != 0)
        status = fail_errno(w->operation, "replace", w->path, errno);
    else {
        w->created = false;
        /* The new file is complete; this makes its name survive a loss of power. Some file systems cannot. */
        fsync(folder);
    }
    if (folder >= 0)
        close(folder);
    writer_free(w);
    return status;
}

void haul__writer_abandon(haul__writer *w)
{
    if (w)
        writer_free(w);
}

haul_status haul__file_write_all(const char *path, const char *operation, const void *data, size_t size)
{
    haul__writer *writer = haul__writer_open(path, operation);
    if (!writer)
        return haul_error_status();
    haul_status status = haul__writer_put(writer, data, size);
    if (!status)
        return haul__writer_commit(writer);
    haul__writer_abandon(writer);
    return status;
}
