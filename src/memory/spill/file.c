/* The file for spilled elements: its parts are a list in the order of their places, which covers the file. */
#include "memory/spill/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/numbers.h"
#include "base/spin.h"
#include "base/text/plain.h"
#include "core/error.h"
#include "files/descriptor.h"
#include "memory/report/origins.h"

enum { ALIGNMENT = 4096, MOST_AT_ONCE = 64 << 20 };

static const char origin[] = "spill";

struct haul__spill_part {
    haul__spill_file *file;
    int64_t           at, bytes;
    bool              used;
    haul__spill_part *before, *after; /* its neighbours; NULL: none */
};

struct haul__spill_file {
    atomic_bool       lock; /* guards all but the descriptor and the folder */
    int               fd;
    char             *folder;
    int64_t           limit, bytes, used;
    haul__spill_part *first, *last;
};

/* ---- errors ---- */

/* "; 1.2 GiB are free there", or "" if the system does not say. */
static const char *free_text(const haul__spill_file *f, char *out, size_t size)
{
    struct statvfs info;
    char           text[32];
    *out = '\0';
    if (fstatvfs(f->fd, &info) == 0)
        snprintf(out, size, "; %s are free there",
                 haul__size_text((int64_t)info.f_bavail * (int64_t)info.f_frsize, text, sizeof text));
    return out;
}

static haul_status fail_open(const char *operation, const char *folder, int error)
{
    return haul__fail(HAUL_IO, operation, "folder", "a file for spilled tensors cannot be made in %s: %s", folder,
                      haul__strerror(error));
}

static haul_status fail_space(const haul__spill_file *f, int64_t more, const char *why)
{
    char wanted[32], used[32], left[64];
    return haul__fail(HAUL_IO, origin, NULL, "the file for spilled tensors in %s has %s and needs %s more: %s%s",
                      f->folder, haul__size_text(f->bytes, used, sizeof used),
                      haul__size_text(more, wanted, sizeof wanted), why, free_text(f, left, sizeof left));
}

static haul_status fail_transfer(const haul__spill_part *p, const char *what, int64_t bytes, int64_t done, int error)
{
    char left[64];
    return haul__fail(HAUL_IO, origin, NULL, "%lld of %lld bytes could be %s the file for spilled tensors in %s: %s%s",
                      (long long)done, (long long)bytes, what, p->file->folder,
                      error ? haul__strerror(error) : "the file ends there", free_text(p->file, left, sizeof left));
}

/* ---- opening ---- */

/* On file systems without O_TMPFILE the file has a name, which is removed at once. */
static int open_named(const char *folder)
{
    char path[4096];
    if (snprintf(path, sizeof path, "%s/haul-spill-XXXXXX", folder) >= (int)sizeof path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    const int fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0)
        unlink(path);
    return fd;
}

static int open_unnamed(const char *folder)
{
    if (haul__file_fault())
        return -1;
    const int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC | O_EXCL, 0600);
    return fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL) ? fd : open_named(folder);
}

haul__spill_file *haul__spill_file_open(const char *folder, int64_t limit, const char *operation)
{
    HAUL__ASSERT(limit >= 0);
    haul__spill_file *f = haul__calloc(1, sizeof *f);
    char             *name = f ? haul__strdup(folder) : NULL;
    if (!name) {
        haul__free(f);
        haul__fail_memory(operation, sizeof *f);
        return NULL;
    }
    f->folder = name;
    f->limit = limit;
    f->fd = open_unnamed(folder);
    if (f->fd >= 0)
        return f;
    fail_open(operation, folder, errno);
    haul__free(name);
    haul__free(f);
    return NULL;
}

void haul__spill_file_close(haul__spill_file *file)
{
    if (!file)
        return;
    HAUL__ASSERT(file->used == 0);
    for (haul__spill_part *p = file->first, *after; p; p = after) {
        after = p->after;
        haul__free(p);
    }
    close(file->fd);
    haul__free(file->folder);
    haul__free(file);
}

const char *haul__spill_file_folder(const haul__spill_file *file)
{
    return file->folder;
}

void haul__spill_file_set_limit(haul__spill_file *file, int64_t limit)
{
    haul__spin_lock(&file->lock);
    file->limit = limit;
    haul__spin_unlock(&file->lock);
}

static int64_t read_count(haul__spill_file *file, const int64_t *count)
{
    haul__spin_lock(&file->lock);
    const int64_t value = *count;
    haul__spin_unlock(&file->lock);
    return value;
}

int64_t haul__spill_file_used(haul__spill_file *file)
{
    return read_count(file, &file->used);
}

int64_t haul__spill_file_bytes(haul__spill_file *file)
{
    return read_count(file, &file->bytes);
}

int64_t haul__spill_file_room(haul__spill_file *file)
{
    struct statvfs info;
    const bool     is_known = fstatvfs(file->fd, &info) == 0;
    haul__spin_lock(&file->lock);
    int64_t room = file->limit ? file->limit : INT64_MAX;
    if (is_known)
        room = smaller(room, file->bytes + (int64_t)info.f_bavail * (int64_t)info.f_frsize);
    haul__spin_unlock(&file->lock);
    return room < INT64_MAX ? room : -1;
}

/* ---- parts; the caller holds the lock ---- */

static void take(haul__spill_part *p)
{
    HAUL__ASSERT(!p->used && p->bytes >= 0);
    p->used = true;
    p->file->used += p->bytes;
}

/* Puts `fresh` behind `p`, or at the beginning if that is NULL. */
static void insert(haul__spill_file *f, haul__spill_part *p, haul__spill_part *fresh)
{
    fresh->file = f;
    fresh->before = p;
    fresh->after = p ? p->after : f->first;
    *(p ? &p->after : &f->first) = fresh;
    *(fresh->after ? &fresh->after->before : &f->last) = fresh;
    HAUL__ASSERT(fresh->at % ALIGNMENT == 0 && (!p || p->at <= fresh->at));
}

static haul__spill_part *unlink_part(haul__spill_part *p)
{
    haul__spill_file *f = p->file;
    *(p->before ? &p->before->after : &f->first) = p->after;
    *(p->after ? &p->after->before : &f->last) = p->before;
    return p;
}

/* Takes a free part of at least `bytes`. What exceeds them becomes a part of its own, `*spare`. NULL: there is none. */
static haul__spill_part *find_free(haul__spill_file *f, int64_t bytes, haul__spill_part **spare)
{
    haul__spill_part *p = f->first;
    HAUL__ASSERT(bytes > 0 && bytes % ALIGNMENT == 0);
    while (p && (p->used || p->bytes < bytes))
        p = p->after;
    if (p && p->bytes > bytes) {
        **spare = (haul__spill_part){.at = p->at + bytes, .bytes = p->bytes - bytes};
        insert(f, p, *spare);
        *spare = NULL;
        p->bytes = bytes;
    }
    if (p)
        take(p);
    return p;
}

/* Takes the last part if it is free; else appends `*spare`, which has no bytes yet. The caller makes it larger. */
static haul__spill_part *take_end(haul__spill_file *f, haul__spill_part **spare)
{
    haul__spill_part *p = f->last;
    HAUL__ASSERT(!p || (!p->after && p->at + p->bytes == f->bytes)); /* the parts cover the file */
    if (!p || p->used) {
        p = *spare;
        *spare = NULL;
        *p = (haul__spill_part){.at = f->bytes};
        insert(f, f->last, p);
    }
    take(p);
    return p;
}

/* ---- growing ---- */

/* A file larger than the process's limit would raise SIGXFSZ. */
static bool exceeds_process(int64_t bytes)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && (uint64_t)bytes > limit.rlim_cur;
}

/* Reserves the space, so that a write into it finds it. */
static haul_status grow(const haul__spill_file *f, int64_t limit, int64_t at, int64_t more)
{
    char text[80], size[32];
    int  error = EINTR;
    if (limit && at + more > limit) {
        snprintf(text, sizeof text, "its limit is %s", haul__size_text(limit, size, sizeof size));
        return fail_space(f, more, text);
    }
    if (exceeds_process(at + more))
        return fail_space(f, more, "the process's limit on file sizes (ulimit -f) is reached");
    while (error == EINTR)
        error = haul__file_fault() ? EIO : posix_fallocate(f->fd, (off_t)at, (off_t)more);
    return error ? fail_space(f, more, haul__strerror(error)) : HAUL_OK;
}

/* `p` is the last part, and in use. */
static haul_status extend(haul__spill_part *p, int64_t bytes, int64_t limit)
{
    haul__spill_file *f = p->file;
    const int64_t     more = bytes - p->bytes;
    if (grow(f, limit, p->at + p->bytes, more))
        return haul_error_status();
    haul__spin_lock(&f->lock);
    HAUL__ASSERT(p == f->last && p->used && more > 0 && p->at + p->bytes == f->bytes);
    p->bytes = bytes;
    f->bytes += more;
    f->used += more;
    haul__spin_unlock(&f->lock);
    return HAUL_OK;
}

haul__spill_part *haul__spill_file_reserve(haul__spill_file *file, int64_t bytes)
{
    haul__spill_part *spare = bytes <= INT64_MAX / 4 ? haul__calloc(1, sizeof *spare) : NULL;
    if (!spare) {
        haul__fail_memory(origin, sizeof *spare);
        return NULL;
    }
    haul__spin_lock(&file->lock);
    const int64_t     size = round_up(bytes, ALIGNMENT), limit = file->limit;
    haul__spill_part *p = find_free(file, size, &spare);
    const bool        grows = !p;
    if (grows)
        p = take_end(file, &spare);
    haul__spin_unlock(&file->lock);
    haul__free(spare);
    if (!grows || !extend(p, size, limit))
        return p;
    haul__spill_part_release(p);
    return NULL;
}

void haul__spill_part_release(haul__spill_part *part)
{
    haul__spill_file *f = part->file;
    haul__spill_part *gone[3] = {NULL};
    haul__spin_lock(&f->lock);
    HAUL__ASSERT(part->used && f->used >= part->bytes);
    part->used = false;
    f->used -= part->bytes;
    if (part->after && !part->after->used) {
        gone[0] = unlink_part(part->after);
        part->bytes += gone[0]->bytes;
    }
    if (part->before && !part->before->used) {
        part->before->bytes += part->bytes;
        gone[1] = unlink_part(part);
    } else if (!part->bytes) {
        gone[2] = unlink_part(part);
    }
    HAUL__ASSERT(0 <= f->used && f->used <= f->bytes && !f->first == !f->last);
    haul__spin_unlock(&f->lock);
    for (int i = 0; i < 3; i++)
        haul__free(gone[i]);
}

/* If the file cannot be made shorter, its space stays free for other elements. */
void haul__spill_file_trim(haul__spill_file *file)
{
    haul__spin_lock(&file->lock);
    haul__spill_part *p = file->last && !file->last->used ? file->last : NULL;
    if (p)
        take(p);
    haul__spin_unlock(&file->lock);
    if (!p)
        return;
    const bool is_shorter = ftruncate(file->fd, (off_t)p->at) == 0;
    haul__spin_lock(&file->lock);
    HAUL__ASSERT(p == file->last && p->at + p->bytes == file->bytes);
    if (is_shorter) {
        file->bytes -= p->bytes;
        file->used -= p->bytes;
        p->bytes = 0;
    }
    haul__spin_unlock(&file->lock);
    haul__spill_part_release(p);
}

/* ---- elements ---- */

haul_status haul__spill_part_write(haul__spill_part *part, int64_t at, const void *from, int64_t bytes)
{
    HAUL__ASSERT(part->used && at >= 0 && at + bytes <= part->bytes);
    for (int64_t done = 0; done < bytes;) {
        const size_t  piece = (size_t)smaller(bytes - done, MOST_AT_ONCE);
        const off_t   place = (off_t)(part->at + at + done);
        const ssize_t put = haul__file_fault() ? -1 : pwrite(part->file->fd, (const char *)from + done, piece, place);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return fail_transfer(part, "written to", bytes, done, put ? errno : ENOSPC);
        done += put;
    }
    return HAUL_OK;
}

haul_status haul__spill_part_read(haul__spill_part *part, int64_t at, void *to, int64_t bytes)
{
    HAUL__ASSERT(part->used && at >= 0 && at + bytes <= part->bytes);
    for (int64_t done = 0; done < bytes;) {
        const size_t  piece = (size_t)smaller(bytes - done, MOST_AT_ONCE);
        const off_t   place = (off_t)(part->at + at + done);
        const ssize_t got = haul__file_fault() ? -1 : pread(part->file->fd, (char *)to + done, piece, place);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return fail_transfer(part, "read from", bytes, done, got ? errno : 0);
        done += got;
    }
    return HAUL_OK;
}
