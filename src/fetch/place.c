#include "fetch/place.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/text/ascii.h"
#include "base/text/plain.h"
#include "core/error.h"
#include "fetch/download.h"
#include "fetch/sha256.h"
#include "files/descriptor.h"
#include "files/disk_cache.h"
#include "files/file.h"

enum { HASH_DIGITS = 16, MOST_NAME = 100, MARK_SIZE = 64 };

static haul_status fail_errno(const char *what, const char *path)
{
    return haul__fail(HAUL_IO, HAUL__FETCH, "folder", "cannot %s %s: %s", what, path, haul__strerror(errno));
}

/* ---- names ---- */

/* The last part of the address's path, with "_" for other characters than those of names. */
static void name_of(const char *url, char out[MOST_NAME + 1])
{
    const char *end = url + strcspn(url, "?#"), *begin = end;
    size_t      length = 0;
    while (begin > url && begin[-1] != '/')
        begin--;
    const char *host = strstr(url, "://");
    if (host && begin == host + 3)
        begin = end; /* there is only a host */
    for (; begin < end && length < MOST_NAME; begin++) {
        const char c = *begin;
        const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                           c == '_' || (c == '.' && length);
        out[length++] = plain ? c : '_';
    }
    out[length] = 0;
    if (!length)
        memcpy(out, "file", 5);
}

static char *cache_folder(void)
{
    char *cache = haul__cache_folder();
    if (!cache) {
        haul__fail(HAUL_IO, HAUL__FETCH, "folder",
                   "the cache has no folder: set HAUL_CACHE_DIR or HOME, or give a folder");
        return NULL;
    }
    char *folder = haul__format("%s/downloads", cache);
    haul__free(cache);
    if (!folder)
        haul__fail_memory(HAUL__FETCH, 64);
    return folder;
}

static char *path_of(const haul__fetch_place *p, const char *url)
{
    char         name[MOST_NAME + 1], digits[65];
    haul__sha256 sum;
    name_of(url, name);
    if (!p->cached)
        return haul__format("%s/%s", p->folder, name);
    haul__sha256_begin(&sum);
    haul__sha256_add(&sum, url, strlen(url));
    haul__sha256_end(&sum, digits);
    return haul__format("%s/%.*s-%s", p->folder, HASH_DIGITS, digits, name);
}

haul_status haul__fetch_place_init(haul__fetch_place *p, const haul_fetch_options *o)
{
    struct stat info;
    *p = (haul__fetch_place){.cached = !o->folder};
    p->folder = o->folder ? haul__strdup(o->folder) : cache_folder();
    if (!p->folder)
        return p->cached ? haul_error_status() : haul__fail_memory(HAUL__FETCH, strlen(o->folder));
    p->path = path_of(p, o->url);
    p->part = p->path ? haul__format("%s.part", p->path) : NULL;
    p->mark = p->part ? haul__format("%s.sha256", p->path) : NULL;
    if (!p->mark)
        return haul__fail_memory(HAUL__FETCH, strlen(p->folder));
    if (stat(p->folder, &info))
        haul__make_folders(p->folder, 0700);
    if (stat(p->folder, &info))
        return fail_errno("make the folder", p->folder);
    return HAUL_OK;
}

void haul__fetch_place_free(haul__fetch_place *p)
{
    haul__free(p->folder);
    haul__free(p->path);
    haul__free(p->part);
    haul__free(p->mark);
}

/* ---- files that are there ---- */

static bool is_older(const struct stat *a, const struct stat *b)
{
    return a->st_mtim.tv_sec != b->st_mtim.tv_sec ? a->st_mtim.tv_sec < b->st_mtim.tv_sec
                                                  : a->st_mtim.tv_nsec < b->st_mtim.tv_nsec;
}

/* True if the mark has this SHA-256, and the file did not change since. */
static bool is_marked(const haul__fetch_place *p, const char *sha256, const struct stat *file)
{
    char        digits[MARK_SIZE];
    struct stat info;
    const int   fd = open(p->mark, O_RDONLY | O_CLOEXEC);
    const bool  read = fd >= 0 && fstat(fd, &info) == 0 && !is_older(&info, file) &&
                      haul__read_all(fd, digits, sizeof digits) && haul__same_letters(digits, sha256, MARK_SIZE);
    if (fd >= 0)
        close(fd);
    return read;
}

/* The file was used now; the mark, that it was checked. Both are best effort. */
static void note_use(const haul__fetch_place *p, const char *sha256)
{
    utimensat(AT_FDCWD, p->path, NULL, 0);
    const int fd = sha256 ? open(p->mark, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666) : -1;
    if (fd >= 0 && !haul__write_all(fd, sha256, MARK_SIZE))
        unlink(p->mark);
    if (fd >= 0)
        close(fd);
}

haul_status haul__fetch_find(const haul__fetch_place *p, const haul_fetch_options *o, bool *found)
{
    struct stat info;
    *found = stat(p->path, &info) == 0;
    if (!*found)
        return errno == ENOENT ? HAUL_OK : fail_errno("examine", p->path);
    haul__file file;
    if (!o->sha256 || !is_marked(p, o->sha256, &info)) {
        if (haul__file_open(&file, p->path, HAUL__FETCH))
            return haul_error_status();
        const haul_status status =
            haul__check_sha256(file.fd, p->path, o, "delete the file, so that it is fetched again");
        haul__file_close(&file);
        if (status)
            return status;
    }
    note_use(p, o->sha256);
    return HAUL_OK;
}

/* ---- the lock ---- */

/* True if the part still has its name: the process that had the lock did not complete or remove it. */
static bool is_named(int fd, const char *path)
{
    struct stat a, b;
    return fstat(fd, &a) == 0 && lstat(path, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* Waits in small steps, so that the program can stop it. */
static haul_status wait_for(int fd, const haul__fetch_place *p, const haul_fetch_options *o)
{
    const struct timespec step = {.tv_nsec = 50000000};
    while (flock(fd, LOCK_EX | LOCK_NB)) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return fail_errno("lock", p->part);
        if (o->progress && !o->progress(o->context, 0, 0))
            return haul__fail(HAUL_STATE, HAUL__FETCH, "progress",
                              "waiting for another process that fetches %s was stopped", p->path);
        nanosleep(&step, NULL);
    }
    return HAUL_OK;
}

haul_status haul__fetch_lock(const haul__fetch_place *p, const haul_fetch_options *o, int *fd)
{
    for (bool there = false;;) {
        *fd = haul__file_fault() ? -1 : open(p->part, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
        if (*fd < 0)
            return fail_errno("write", p->part);
        haul_status status = wait_for(*fd, p, o);
        const bool  named = status == HAUL_OK && is_named(*fd, p->part);
        if (named)
            status = haul__fetch_find(p, o, &there);
        if (status == HAUL_OK && named && !there)
            return HAUL_OK;
        if (named)
            unlink(p->part); /* an empty one, made after the file was complete */
        close(*fd);
        *fd = -1;
        if (status || there)
            return status;
    }
}

/* ---- the limit ---- */

typedef struct cached {
    char           *path;
    int64_t         size;
    struct timespec used;
} cached;

typedef struct cache {
    cached *items;
    size_t  count, capacity;
    int64_t size;
} cache;

/* Names of files in the cache begin with digits of a hash, so that others are left alone. */
static bool is_ours(const char *name)
{
    const size_t length = strlen(name);
    return strspn(name, "0123456789abcdef") == HASH_DIGITS && name[HASH_DIGITS] == '-' &&
           !(length > 7 && strcmp(name + length - 7, ".sha256") == 0);
}

static void add_cached(cache *c, const haul__fetch_place *p, const char *name)
{
    struct stat info;
    char       *path = haul__format("%s/%s", p->folder, name);
    if (path && lstat(path, &info) == 0 && S_ISREG(info.st_mode) && strcmp(path, p->path) != 0 &&
        haul__grow(&c->items, &c->capacity, c->count + 1, sizeof *c->items)) {
        c->items[c->count++] = (cached){path, info.st_size, info.st_mtim};
        c->size += info.st_size;
        return;
    }
    haul__free(path);
}

static int by_use(const void *a, const void *b)
{
    const struct timespec *x = &((const cached *)a)->used, *y = &((const cached *)b)->used;
    if (x->tv_sec != y->tv_sec)
        return x->tv_sec < y->tv_sec ? -1 : 1;
    return (x->tv_nsec > y->tv_nsec) - (x->tv_nsec < y->tv_nsec);
}

/* A part that another process fetches is locked, and stays. */
static bool remove_cached(const cached *file)
{
    const int  fd = open(file->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    const bool removed = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 && unlink(file->path) == 0;
    char      *mark = removed ? haul__format("%s.sha256", file->path) : NULL;
    if (mark)
        unlink(mark);
    haul__free(mark);
    if (fd >= 0)
        close(fd);
    return removed;
}

/* Removes those that were not used for longest, until all fit with the new one. Best effort. */
static void make_room(const haul__fetch_place *p, int64_t own, int64_t limit)
{
    cache                c = {.count = 0};
    DIR                 *folder = opendir(p->folder);
    const struct dirent *entry;
    while (folder && (entry = readdir(folder)))
        if (is_ours(entry->d_name))
            add_cached(&c, p, entry->d_name);
    if (folder)
        closedir(folder);
    if (c.count)
        qsort(c.items, c.count, sizeof *c.items, by_use);
    for (size_t i = 0; i < c.count; i++) {
        if (c.size > limit - own && remove_cached(&c.items[i]))
            c.size -= c.items[i].size;
        haul__free(c.items[i].path);
    }
    haul__free(c.items);
}

haul_status haul__fetch_finish(const haul__fetch_place *p, const haul_fetch_options *o, int fd)
{
    struct stat info;
    if (haul__file_fault() || fsync(fd) || fstat(fd, &info))
        return fail_errno("write", p->path);
    if (!info.st_size) {
        unlink(p->part);
        return haul__fail(HAUL_IO, HAUL__FETCH, "url", "the server sent an empty file for %s", o->url);
    }
    if (rename(p->part, p->path))
        return fail_errno("write", p->path);
    note_use(p, o->sha256);
    if (p->cached)
        make_room(p, (int64_t)info.st_size, o->cache_limit);
    return HAUL_OK;
}
