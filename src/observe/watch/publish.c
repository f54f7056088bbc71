/* Publishing: the page of this process.
 *
 * There is no thread for it. Calls of haul_publish_progress read the clock, and now and then one of them writes. */
#include <errno.h>
#include <fcntl.h>
#include <haul/memory.h>
#include <haul/publish.h>
#include <haul/sync.h>
#include <haul/transfer.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/system/clock.h"
#include "base/system/fork.h"
#include "base/text/plain.h"
#include "core/error.h"
#include "device/device.h"
#include "group/group.h"
#include "observe/watch/published_page.h"

enum { PERIOD = 250000000, SAMPLES = 9 }; /* nanoseconds; rates are of the last SAMPLES - 1 periods */

/* What rates are made of. */
typedef struct sample {
    int64_t ns, steps, examples, copies, bytes, waits;
    int64_t sent;   /* -1: the process has no launcher */
    int64_t waited; /* nanoseconds */
} sample;

static struct {
    pthread_mutex_t lock; /* guards what follows */
    int             file; /* -1: nothing is published */
    char            path[5 * HAUL__PAGE_PATH];
    haul__page      page;
    sample          samples[SAMPLES]; /* the oldest first */
    int             sample_count;
    bool            registered; /* for the end of the process */
} own = {.lock = PTHREAD_MUTEX_INITIALIZER, .file = -1};

static atomic_llong due = INT64_MAX; /* when the page is to be written next; never while nothing is published */

/* ---- fork: the child has a page of its own, or none ---- */

static void take_lock(void)
{
    pthread_mutex_lock(&own.lock);
}

static void give_lock(void)
{
    pthread_mutex_unlock(&own.lock);
}

static void forget(void)
{
    if (own.file >= 0)
        close(own.file);
    own.file = -1;
    atomic_store(&due, INT64_MAX);
}

HAUL__AT_FORK(HAUL__FORK_PUBLISHING, .take = take_lock, .give = give_lock, .in_child = forget);

/* ---- the file ---- */

/* Makes the whole file under another name first, so that no reader finds a part of it. */
static int make_file(int folder, const char *name, const haul__page *page)
{
    char other[HAUL__PAGE_PATH + 8];
    snprintf(other, sizeof other, "%s.new", name);
    unlinkat(folder, other, 0); /* of a process of this number that failed here */
    int file = openat(folder, other, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (file < 0)
        return -1;
    if (!fchmod(file, 0600) && haul__page_may_be_written() &&
        pwrite(file, page, sizeof *page, 0) == (ssize_t)sizeof *page && !renameat(folder, other, folder, name))
        return file;
    int why = errno;
    unlinkat(folder, other, 0);
    close(file);
    errno = why;
    return -1;
}

static haul_status open_page(const haul__page_id *id, const char *path)
{
    HAUL__ASSERT(own.file < 0);
    char why[HAUL__PAGE_PATH + 128], name[HAUL__PAGE_PATH];
    int  folder = haul__page_open_folder(path, true, why, sizeof why);
    if (folder < 0)
        return haul__fail(HAUL_IO, "haul_publish_begin", NULL,
                          "%s; HAUL_PUBLISH=FOLDER names another folder, and HAUL_PUBLISH=off none", why);
    haul__page_file(id, name);
    snprintf(own.path, sizeof own.path, "%s/%s", path, name);
    own.file = make_file(folder, name, &own.page);
    int code = errno;
    close(folder);
    if (own.file < 0)
        return haul__fail(HAUL_IO, "haul_publish_begin", NULL, "no page can be written in %s: %s", path,
                          haul__strerror(code));
    return HAUL_OK;
}

/* In the first folder where it can be done. The error is that of the last one; there is none if one of them works. */
static haul_status open_in_folders(const haul__page_id *id)
{
    char      folders[HAUL__PAGE_FOLDERS][HAUL__PAGE_PATH];
    const int count = haul__page_folders(folders);
    HAUL__ASSERT(0 <= count && count <= HAUL__PAGE_FOLDERS);
    haul_status        status = HAUL_OK;
    haul__error_record before;
    haul__error_save(&before);
    for (int i = 0; i < count; i++)
        if (!(status = open_page(id, folders[i])))
            break;
    if (!status)
        haul__error_restore(&before);
    return status;
}

static void close_page(void)
{
    if (own.file >= 0)
        unlink(own.path);
    forget();
}

/* ---- rates ---- */

static void add_sample(const sample *s)
{
    HAUL__ASSERT(0 <= own.sample_count && own.sample_count <= SAMPLES);
    if (own.sample_count == SAMPLES) {
        memmove(own.samples, own.samples + 1, (SAMPLES - 1) * sizeof *own.samples);
        own.sample_count--;
    }
    own.samples[own.sample_count++] = *s;
}

/* What changed between the oldest sample in which a count is known and the newest one: by how much, and in what time.
 * False if it is not known, or went backwards, as after a reset. */
static bool change_of(size_t count, double *by, double *seconds)
{
    HAUL__ASSERT(own.sample_count > 0 && count + sizeof(int64_t) <= sizeof(sample));
    const sample *last = &own.samples[own.sample_count - 1];
    int64_t       to, from = -1;
    memcpy(&to, (const char *)last + count, sizeof to);
    for (const sample *s = own.samples; s < last; s++) {
        memcpy(&from, (const char *)s + count, sizeof from);
        if (from < 0)
            continue;
        *by = (double)(to - from);
        *seconds = (double)(last->ns - s->ns) / 1e9;
        return to >= from && *seconds > 0;
    }
    return false;
}

static double rate_of(size_t count)
{
    double by, seconds;
    return change_of(count, &by, &seconds) ? by / seconds : -1;
}

#define RATE_OF(count) rate_of(offsetof(sample, count))

static void fill_rates(haul__page *p)
{
    double by, seconds;
    HAUL__ASSERT(0 < own.sample_count && own.sample_count <= SAMPLES);
    if (change_of(offsetof(sample, steps), &by, &seconds) && by > 0)
        p->step_seconds = seconds / by; /* else it stays: in a pass without training, for example */
    p->examples_per_second = RATE_OF(examples);
    p->copies_per_second = RATE_OF(copies);
    p->bytes_per_second = RATE_OF(bytes);
    p->waits_per_second = RATE_OF(waits);
    p->sent_per_second = own.samples[own.sample_count - 1].sent < 0 ? -1 : RATE_OF(sent);
    const double share = RATE_OF(waited) / 1e9;
    p->waiting = share < 0 ? -1 : share > 1 ? 1 : share;
}

/* ---- the published figures ---- */

static void fill_device(haul__page *p, const haul_device *device)
{
    haul_memory_stats m;
    if (!haul__device_computes(device) || haul_memory_stats_get(device, &m) || (!m.reserved && !m.spilled))
        return;
    if (p->device_count == HAUL_PUBLISHED_DEVICES) {
        p->devices_left_out++;
        return;
    }
    haul_published_device *d = &p->devices[p->device_count++];
    *d = (haul_published_device){
        .allocated = m.allocated, .reserved = m.reserved, .spilled = m.spilled, .spilled_to_file = m.spilled_to_file};
    HAUL__ASSERT(p->device_count <= HAUL_PUBLISHED_DEVICES);
    haul__page_text(d->name, sizeof d->name, device->name);
    haul__page_text(d->bus, sizeof d->bus, device->properties.bus);
    haul__page_text(d->model, sizeof d->model, device->model);
}

static void fill_devices(haul__page *p)
{
    p->device_count = p->devices_left_out = 0;
    memset(p->devices, 0, sizeof p->devices);
    for (int slot = 0; slot < HAUL__MAX_DEVICES; slot++) {
        const haul_device *device = haul__device_in_use(slot);
        if (device)
            fill_device(p, device);
    }
}

static int64_t known(int64_t value)
{
    return value > 0 ? value : -1;
}

static double known_real(double value, double high)
{
    return value > 0 && value <= high ? value : -1;
}

static void fill_progress(haul__page *p, const haul_publish_progress_options *o)
{
    p->steps = known(o->steps);
    p->examples = known(o->examples);
    p->epoch = known(o->epoch);
    p->epochs = known(o->epochs);
    p->seconds_left = known_real(o->seconds_left, 1e12);
    p->loss = known_real(o->loss, 1e300);
    p->accuracy = known_real(o->accuracy, 1);
}

static void fill_ranks(haul__page *p)
{
    const haul__group_world world = haul__group_world_now();
    p->rank = world.size > 1 ? world.rank : -1;
    p->ranks = world.size > 1 ? world.size : -1;
    p->sent_bytes = world.size > 1 ? haul__group_counts().sent_bytes : -1;
}

static sample take_sample(const haul__page *p)
{
    haul_transfer_stats moved = {.h2d_bytes = 0};
    haul_sync_stats     sync = {.waits = 0};
    haul_transfer_stats_get(&moved);
    haul_sync_stats_get(&sync);
    return (sample){.ns = p->written,
                    .steps = p->steps,
                    .examples = p->examples,
                    .copies = moved.h2d_count + moved.d2h_count + moved.d2d_count,
                    .bytes = moved.h2d_bytes + moved.d2h_bytes + moved.d2d_bytes,
                    .waits = sync.waits,
                    .sent = p->sent_bytes,
                    .waited = (int64_t)(sync.microseconds * 1e3)};
}

static void fill(haul__page *p, const haul_publish_progress_options *o)
{
    haul__error_record error;
    haul__error_save(&error);
    p->written = haul__system_ns();
    fill_progress(p, o);
    fill_devices(p);
    fill_ranks(p);
    const sample s = take_sample(p);
    p->copies = s.copies;
    p->copied_bytes = s.bytes;
    p->waits = s.waits;
    add_sample(&s);
    fill_rates(p);
    haul__error_restore(&error);
}

/* ---- the functions ---- */

static haul_status begin(const char *name, const haul__page_id *id, const char *command)
{
    static const haul_publish_progress_options none = {.steps = 0};
    if (own.file >= 0)
        return haul__fail(HAUL_STATE, "haul_publish_begin", NULL,
                          "the process publishes already; call haul_publish_end first");
    own.page = (haul__page){.version = HAUL__PAGE_VERSION,
                            .size = sizeof own.page,
                            .pid = id->pid,
                            .started = id->started,
                            .began = haul__system_ns(),
                            .step_seconds = -1};
    memcpy(own.page.magic, HAUL__PAGE_MAGIC, sizeof own.page.magic);
    haul__page_text(own.page.name, sizeof own.page.name, name && *name ? name : command);
    own.sample_count = 0;
    fill(&own.page, &none);
    own.page.checksum = haul__page_checksum(&own.page);
    haul_status status = open_in_folders(id);
    if (!status && own.file >= 0) {
        own.registered = own.registered || !atexit(haul_publish_end);
        atomic_store(&due, own.page.written + PERIOD);
    }
    return status;
}

haul_status haul_publish_begin_with(const haul_publish_options *options)
{
    haul__page_id id = {haul__process_space(), (int64_t)getpid(), 0};
    haul__process process;
    if (!options)
        return haul__fail_null("haul_publish_begin", "options");
    if (!haul__fork_watch())
        return haul__fail_memory("haul_publish_begin", 0);
    if (!haul__process_look(id.pid, &process))
        return haul__fail(HAUL_IO, "haul_publish_begin", NULL, "/proc/%lld/stat cannot be read; is /proc mounted?",
                          (long long)id.pid);
    id.started = process.started;
    take_lock();
    haul_status status = begin(options->name, &id, process.command);
    give_lock();
    return status;
}

/* A page that cannot be written any more is closed. */
void haul_publish_progress_with(const haul_publish_progress_options *options)
{
    if (haul__system_ns() < atomic_load_explicit(&due, memory_order_relaxed) || !options)
        return;
    take_lock();
    if (own.file >= 0 && haul__system_ns() >= atomic_load(&due)) {
        fill(&own.page, options);
        atomic_store(&due, own.page.written + PERIOD);
        if (!haul__page_write(own.file, &own.page))
            close_page();
    }
    give_lock();
}

void haul_publish_end(void)
{
    take_lock();
    close_page();
    give_lock();
}
