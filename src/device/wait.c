/* Where the host waits for devices, and what is told about it.
 *
 * The hooks of backends that wait, sync and event_sync, and those in which a driver may wait by itself, alloc, free,
 * host_alloc and host_free, are called here and nowhere else (tests/waits.sh looks); compile is called in kernel.c. So
 * the counts are complete by construction. A report costs a walk over the stack; without one a wait costs two looks at
 * the clock. */
#include "device/wait.h"

#include <dlfcn.h>
#include <haul/sync.h>
#include <stdio.h>
#include <string.h>
#if defined(__has_include)
#if __has_include(<execinfo.h>)
#include <execinfo.h>
#define HAVE_BACKTRACE 1
#endif
#if __has_include(<sys/auxv.h>)
#include <sys/auxv.h>
#define HAVE_AUXILIARY_VECTOR 1
#endif
#endif

#include "core/call.h"
#include "core/clock.h"

enum { FRAMES = 32, SHOWN = 8 };

static _Thread_local haul_sync_stats   counts;
static _Thread_local haul__wait_group *group;
static _Thread_local bool              reporting; /* what the sink waits for is counted, but not reported */

static struct {
    pthread_mutex_t lock;
    atomic_bool     on;
    void (*sink)(const haul_sync_event *event, void *context);
    void *context;
} report = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- places ---- */

static const char *base_name(const char *path)
{
    const char *slash = path ? strrchr(path, '/') : NULL;
    return slash ? slash + 1 : path;
}

/* Is `symbol` the public function of `operation`? A macro's function has "_with" behind its name. */
static bool is_of(const char *symbol, const char *operation)
{
    size_t size = strlen(operation);
    return strncmp(symbol, operation, size) == 0 && (!symbol[size] || strcmp(symbol + size, "_with") == 0);
}

/* Is what was loaded at `base` the program itself? Its headers are. */
static bool is_program(const void *base)
{
#ifdef HAVE_AUXILIARY_VECTOR
    Dl_info     program;
    const void *headers = (const void *)getauxval(AT_PHDR);
    return headers && dladdr(headers, &program) && program.dli_fbase == base;
#else
    (void)base;
    return true;
#endif
}

/* The frame from which the library was called: the one around the operation's function, where names are exported; else
 * the first outside of the shared library. In a program that holds the library nothing says which functions are whose:
 * -1. *end becomes the first frame outside of what holds the library. */
static int caller_of(void *const *frames, int count, const char *operation, int *end)
{
    Dl_info own, info;
    int     exported = -1, named = -1;
    bool    inside = false; /* what intercepts backtrace() comes first */
    void   *here;
    int (*self)(void *const *, int, const char *, int *) = caller_of;
    memcpy(&here, &self, sizeof here);
    *end = count;
    if (!dladdr(here, &own))
        return -1;
    for (int i = 0; i < *end; i++) {
        if (!dladdr((char *)frames[i] - 1, &info))
            continue;
        if (info.dli_fbase != own.dli_fbase) {
            *end = inside ? i : count;
            continue;
        }
        inside = true;
        if (!info.dli_sname || strncmp(info.dli_sname, "haul_", 5) != 0)
            continue;
        if (exported < 0)
            exported = i;
        if (is_of(info.dli_sname, operation))
            named = i;
    }
    if (named >= 0 || exported >= 0)
        return (named >= 0 ? named : exported) + 1;
    return is_program(own.dli_fbase) || *end == count ? -1 : *end;
}

/* "train_step+0x4f in ./train", or "./train+0x1f3a" where the function has no name. */
static int describe_frame(void *frame, char *out, size_t size)
{
    Dl_info info;
    if (!dladdr((char *)frame - 1, &info) || !info.dli_fname)
        return snprintf(out, size, "%p", frame);
    if (info.dli_sname)
        return snprintf(out, size, "%s+0x%zx in %s", info.dli_sname, (size_t)((char *)frame - (char *)info.dli_saddr),
                        base_name(info.dli_fname));
    return snprintf(out, size, "%s+0x%zx", base_name(info.dli_fname), (size_t)((char *)frame - (char *)info.dli_fbase));
}

static const char *describe_place(void *const *frames, int count, const char *operation, char *out, size_t size)
{
    int    end, first = caller_of(frames, count, operation, &end), last = first;
    size_t at = 0;
    if (first < 0) { /* the whole way, for addr2line */
        first = end > 2 ? 2 : 0;
        last = (first + SHOWN < end ? first + SHOWN : end) - 1;
    }
    out[0] = '\0';
    for (int i = first; i <= last && i < count && at < size; i++) {
        int length = snprintf(out + at, size - at, "%s", i > first ? " < " : "");
        at += length > 0 ? (size_t)length : 0;
        length = at < size ? describe_frame(frames[i], out + at, size - at) : 0;
        at += length > 0 ? (size_t)length : 0;
    }
    return out;
}

/* ---- reports ---- */

static void compose(const haul_sync_event *e, char *out, size_t size)
{
    char bytes[40] = "", module[300] = "";
    if (e->bytes > 0)
        snprintf(bytes, sizeof bytes, "%s%lld bytes", *e->stream ? ", " : "", (long long)e->bytes);
    if (*e->module)
        snprintf(module, sizeof module, " in layer '%s'", e->module);
    bool driver = e->kind == HAUL_SYNC_DRIVER;
    snprintf(out, size, "%s %s%s %.1f us %s %s%s%s%s%s%s%s%s", e->operation, e->action, driver ? "," : "",
             e->microseconds, driver ? "in the driver of" : "for", haul_device_name(e->device),
             *e->stream || *bytes ? " (" : "", e->stream, bytes, *e->stream || *bytes ? ")" : "", module,
             *e->place ? " at " : "", e->place);
}

static void tell(haul_sync_event *event)
{
    void *frames[FRAMES];
    char  place[512] = "", module[256], line[1024];
    reporting = true;
    event->module = haul__call_path(module, sizeof module);
    event->frames = frames;
#ifdef HAVE_BACKTRACE
    event->frame_count = backtrace(frames, FRAMES);
#endif
    event->place = describe_place(frames, event->frame_count, event->operation, place, sizeof place);
    compose(event, line, sizeof line);
    event->line = line;
    pthread_mutex_lock(&report.lock);
    if (report.sink)
        report.sink(event, report.context);
    pthread_mutex_unlock(&report.lock);
    reporting = false;
}

static void note(haul_sync_event *event)
{
    if (event->kind == HAUL_SYNC_WAIT) {
        counts.waits++;
        counts.microseconds += event->microseconds;
    } else if (event->kind == HAUL_SYNC_READY) {
        counts.ready++;
    } else {
        counts.driver_calls++;
    }
    if (atomic_load_explicit(&report.on, memory_order_relaxed) && !reporting)
        tell(event);
}

void haul_sync_report_to(void (*sink)(const haul_sync_event *event, void *context), void *context)
{
    pthread_mutex_lock(&report.lock);
    report.sink = sink;
    report.context = context;
    atomic_store(&report.on, sink != NULL);
    pthread_mutex_unlock(&report.lock);
}

static void to_stderr(const haul_sync_event *event, void *context)
{
    (void)context;
    fprintf(stderr, "%s\n", event->line);
}

void haul_sync_report(bool on)
{
    haul_sync_report_to(on ? to_stderr : NULL, NULL);
}

haul_status haul_sync_stats_get(haul_sync_stats *out)
{
    if (!out)
        return haul__fail_null("haul_sync_stats_get", "out");
    *out = counts;
    return HAUL_OK;
}

int64_t haul_sync_count(void)
{
    return counts.waits + counts.ready;
}

/* ---- waits ---- */

static const char *name_of(const haul__stream *s)
{
    const haul_device *d = s->device;
    return s == d->compute ? "compute" : s == d->upload ? "upload" : s == d->download ? "download" : "";
}

static void waited(haul__stream *s, bool ready, int64_t ns, const char *operation)
{
    if (!group) {
        note(&(haul_sync_event){.kind = ready ? HAUL_SYNC_READY : HAUL_SYNC_WAIT,
                                .operation = operation ? operation : "a library call",
                                .action = ready ? "found done" : "waited",
                                .device = s->device,
                                .stream = name_of(s),
                                .microseconds = (double)ns / 1e3});
        return;
    }
    group->stream = group->stream ? group->stream : s;
    group->ns += ns;
    group->waits += !ready;
    group->ready += ready;
}

void haul__wait_group_begin(haul__wait_group *g, const char *operation, size_t bytes)
{
    *g = (haul__wait_group){.operation = operation, .bytes = bytes, .outer = group != NULL};
    if (!g->outer)
        group = g;
}

void haul__wait_group_end(haul__wait_group *g)
{
    if (g->outer)
        return;
    group = NULL;
    if (!g->stream)
        return;
    note(&(haul_sync_event){.kind = g->waits ? HAUL_SYNC_WAIT : HAUL_SYNC_READY,
                            .operation = g->operation,
                            .action = g->waits ? "waited" : "found done",
                            .device = g->stream->device,
                            .stream = name_of(g->stream),
                            .bytes = (int64_t)g->bytes,
                            .microseconds = (double)g->ns / 1e3});
}

bool haul__event_reached(haul_device *device, void *event)
{
    haul__error_record before;
    bool               reached = false;
    if (!device->backend->event_query)
        return false;
    haul__error_save(&before);
    if (device->backend->event_query(device, event, &reached)) { /* the wait says so again */
        haul__error_restore(&before);
        return false;
    }
    return reached;
}

haul_status haul__wait(haul__stream *s, void *event, const char *operation)
{
    const haul__backend *backend = s->device->backend;
    bool                 ready = event && haul__event_reached(s->device, event);
    int64_t              start = haul__now_ns();
    haul_status          status = event ? backend->event_sync(s->device, event) : backend->sync(s);
    waited(s, ready, haul__now_ns() - start, operation);
    return status;
}

/* ---- calls in which drivers may wait ---- */

void haul__driver_called(const haul_device *device, const char *operation, const char *action, size_t bytes,
                         int64_t start_ns)
{
    if (!device->backend->synchronous)
        note(&(haul_sync_event){.kind = HAUL_SYNC_DRIVER,
                                .operation = operation ? operation : "a library call",
                                .action = action,
                                .device = device,
                                .stream = "",
                                .bytes = (int64_t)bytes,
                                .microseconds = (double)(haul__now_ns() - start_ns) / 1e3});
}

haul_status haul__device_alloc(haul_device *device, size_t bytes, haul__buffer *out, const char *operation)
{
    int64_t     start = haul__now_ns();
    haul_status status = device->backend->alloc(device, bytes, out);
    haul__driver_called(device, operation, "obtained memory", bytes, start);
    return status;
}

void haul__device_free(haul_device *device, haul__buffer *buffer, size_t bytes, const char *operation)
{
    int64_t start = haul__now_ns();
    device->backend->free(device, buffer);
    haul__driver_called(device, operation, "gave memory back", bytes, start);
}

haul_status haul__device_host_alloc(haul_device *device, size_t bytes, void **out, void **handle, const char *operation)
{
    int64_t     start = haul__now_ns();
    haul_status status = device->backend->host_alloc(device, bytes, out, handle);
    haul__driver_called(device, operation, "obtained pinned memory", bytes, start);
    return status;
}

void haul__device_host_free(haul_device *device, void *memory, void *handle, size_t bytes, const char *operation)
{
    int64_t start = haul__now_ns();
    device->backend->host_free(device, memory, handle);
    haul__driver_called(device, operation, "gave pinned memory back", bytes, start);
}
