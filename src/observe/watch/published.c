/* Reading the pages of all processes, and removing those of processes that have ended. Nothing in a page is used before
 * it was checked. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <haul/publish.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/system/clock.h"
#include "base/text/plain.h"
#include "base/text/utf8.h"
#include "core/error.h"
#include "observe/watch/published_page.h"

enum { MOST_PAGES = 4096 };

/* ---- one page ---- */

/* A file that is this user's alone. A page may be of another version, so its size comes later. */
static bool is_page_file(int file, int64_t *bytes, char *why, size_t size)
{
    struct stat s = {.st_size = 0};
    if (fstat(file, &s))
        snprintf(why, size, "%s", haul__strerror(errno));
    else if (!S_ISREG(s.st_mode))
        snprintf(why, size, "not a regular file");
    else if (s.st_uid != geteuid() || (s.st_mode & 077))
        snprintf(why, size, "not private to this user: owner %u, mode %03o; 600 is expected", (unsigned)s.st_uid,
                 (unsigned)s.st_mode & 0777);
    *bytes = (int64_t)s.st_size;
    return !*why;
}

static double seconds_since(int64_t ns)
{
    const int64_t now = haul__system_ns();
    return ns < 0 || ns > now ? 0 : (double)(now - ns) / 1e9;
}

static void copy_out(haul_published *out, const haul__page *p)
{
    HAUL__ASSERT(0 <= p->device_count && p->device_count <= HAUL_PUBLISHED_DEVICES); /* the page was checked */
    haul__utf8_copy(out->name, sizeof out->name, p->name);
    out->age = seconds_since(p->written);
    out->running = seconds_since(p->began);
    out->steps = p->steps;
    out->examples = p->examples;
    out->epoch = p->epoch;
    out->epochs = p->epochs;
    out->step_seconds = p->step_seconds;
    out->examples_per_second = p->examples_per_second;
    out->copies_per_second = p->copies_per_second;
    out->bytes_per_second = p->bytes_per_second;
    out->waits_per_second = p->waits_per_second;
    out->waiting = p->waiting;
    out->seconds_left = p->seconds_left;
    out->loss = p->loss;
    out->accuracy = p->accuracy;
    out->copies = p->copies;
    out->copied_bytes = p->copied_bytes;
    out->waits = p->waits;
    out->rank = p->rank;
    out->ranks = p->ranks;
    out->sent_bytes = p->sent_bytes;
    out->sent_per_second = p->sent_per_second;
    out->device_count = (int)p->device_count;
    out->devices_left_out = (int)p->devices_left_out;
    memcpy(out->devices, p->devices, sizeof out->devices);
}

static void clear(haul_published *out)
{
    *out = (haul_published){.age = -1,
                            .running = -1,
                            .steps = -1,
                            .examples = -1,
                            .epoch = -1,
                            .epochs = -1,
                            .step_seconds = -1,
                            .examples_per_second = -1,
                            .copies_per_second = -1,
                            .bytes_per_second = -1,
                            .waits_per_second = -1,
                            .waiting = -1,
                            .seconds_left = -1,
                            .loss = -1,
                            .accuracy = -1,
                            .copies = -1,
                            .copied_bytes = -1,
                            .waits = -1,
                            .rank = -1,
                            .ranks = -1,
                            .sent_bytes = -1,
                            .sent_per_second = -1};
}

/* Fills *out with the page in the folder, or with the reason why it cannot be used. */
static void read_row(int folder, const char *name, const haul__page_id *id, haul_published *out)
{
    haul__page page;
    int64_t    bytes = 0;
    int        file = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file < 0) {
        snprintf(out->why, sizeof out->why, "%s", haul__strerror(errno));
        return;
    }
    if (is_page_file(file, &bytes, out->why, sizeof out->why))
        haul__page_read(file, &page, out->why, sizeof out->why);
    close(file);
    if (!*out->why && bytes != (int64_t)sizeof page)
        snprintf(out->why, sizeof out->why, "page of %lld bytes, %zu are expected", (long long)bytes, sizeof page);
    if (!*out->why && (page.pid != id->pid || page.started != id->started))
        snprintf(out->why, sizeof out->why, "page of another process, %lld", (long long)page.pid);
    if (!*out->why)
        copy_out(out, &page);
}

/* ---- all pages ---- */

typedef struct list {
    haul_published *out;
    int             capacity, count, seen;
    uint64_t        space;
} list;

/* True if the process of the page is alive. Those of other containers are unknown, and are left alone. */
static bool is_alive(const haul__page_id *id, haul__process *process)
{
    return haul__process_look(id->pid, process) && process->started == id->started && !strchr("ZXx", process->state);
}

/* Taken away while the page was read: the process has ended. */
static bool is_there(int folder, const char *name)
{
    return faccessat(folder, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static void visit(list *l, int folder, const char *name)
{
    HAUL__ASSERT(l->capacity >= 0 && (l->out || !l->capacity));
    haul__page_id  id;
    haul__process  process;
    haul_published row;
    if (!haul__page_parse(name, &id) || id.space != l->space)
        return;
    if (!is_alive(&id, &process)) {
        unlinkat(folder, name, 0);
        return;
    }
    clear(&row);
    read_row(folder, name, &id, &row);
    if (!is_there(folder, name))
        return;
    row.pid = id.pid;
    row.started = id.started;
    row.state = *row.why                                       ? HAUL_PUBLISHED_UNREADABLE
                : process.state == 'T' || process.state == 't' ? HAUL_PUBLISHED_STOPPED
                                                               : HAUL_PUBLISHED_RUNNING;
    haul__page_text(row.command, sizeof row.command, process.command);
    if (l->count < l->capacity)
        l->out[l->count] = row;
    l->count++;
}

static void visit_folder(list *l, int folder)
{
    DIR *entries = fdopendir(folder);
    if (!entries) {
        close(folder);
        return;
    }
    for (struct dirent *e; (e = readdir(entries)) && l->seen < MOST_PAGES; l->seen++)
        visit(l, dirfd(entries), e->d_name);
    closedir(entries);
}

/* The variable and the usual place often name one folder. */
static bool is_new(int folder, struct stat *known, int *count)
{
    HAUL__ASSERT(0 <= *count && *count < HAUL__PAGE_FOLDERS);
    struct stat *s = &known[*count];
    if (fstat(folder, s))
        return false;
    for (int i = 0; i < *count; i++)
        if (known[i].st_dev == s->st_dev && known[i].st_ino == s->st_ino)
            return false;
    ++*count;
    return true;
}

int haul_published_list(haul_published *out, int capacity)
{
    list          l = {.out = out, .capacity = capacity, .space = haul__process_space()};
    char          folders[HAUL__PAGE_FOLDERS][HAUL__PAGE_PATH], why[2 * HAUL__PAGE_PATH];
    struct stat   known[HAUL__PAGE_FOLDERS];
    int           known_count = 0;
    haul__process self;
    if (capacity < 0 || (!out && capacity)) {
        haul__fail(HAUL_INVALID_ARGUMENT, "haul_published_list", out ? "capacity" : "out",
                   "out is %s and capacity is %d; room for as many rows is expected", out ? "there" : "NULL", capacity);
        return -1;
    }
    if (!haul__process_look((int64_t)getpid(), &self)) {
        haul__fail(HAUL_IO, "haul_published_list", NULL, "/proc cannot be read; is it mounted?");
        return -1;
    }
    const int count = haul__page_folders(folders);
    for (int i = 0; i < count; i++) {
        int folder = haul__page_open_folder(folders[i], false, why, sizeof why);
        if (folder >= 0 && is_new(folder, known, &known_count))
            visit_folder(&l, folder);
        else if (folder >= 0)
            close(folder);
    }
    return l.count;
}
