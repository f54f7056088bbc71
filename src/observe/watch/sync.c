/* The sync report: a subscriber that writes each wait as a line; and the counts of waits, which the stream keeps. */
#include <haul/sync.h>
#include <pthread.h>
#include <stdio.h>

#include "base/assert.h"
#include "base/text/plain.h"
#include "core/error.h"
#include "events/events.h"
#include "observe/profile/source_line.h"

static struct {
    pthread_mutex_t lock; /* guards both */
    void (*sink)(const haul_sync_event *event, void *context);
    void *context;
} report = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void compose(const haul_sync_event *e, char *out, size_t size)
{
    char bytes[40] = "", module[300] = "";
    if (e->bytes > 0)
        snprintf(bytes, sizeof bytes, "%s%lld bytes", *e->stream ? ", " : "", (long long)e->bytes);
    if (*e->module)
        snprintf(module, sizeof module, " in layer '%s'", e->module);
    bool driver = e->kind == HAUL_SYNC_DRIVER;
    haul__snprintf(out, size, "%s %s%s %.1f us %s %s%s%s%s%s%s%s%s", e->operation, e->action, driver ? "," : "",
                   e->microseconds, driver ? "in the driver of" : "for", haul_device_name(e->device),
                   *e->stream || *bytes ? " (" : "", e->stream, bytes, *e->stream || *bytes ? ")" : "", module,
                   *e->place ? " at " : "", e->place);
}

static void take(const haul_event *e, void *context)
{
    HAUL__ASSERT(e->kind & HAUL_EVENT_WAIT && e->duration >= 0);
    char place[512], line[1024];
    (void)context;
    haul_sync_event event = {.kind = e->kind == HAUL_EVENT_WAITED       ? HAUL_SYNC_WAIT
                                     : e->kind == HAUL_EVENT_FOUND_DONE ? HAUL_SYNC_READY
                                                                        : HAUL_SYNC_DRIVER,
                             .operation = e->operation,
                             .action = e->text,
                             .device = e->device,
                             .stream = e->stream,
                             .bytes = e->bytes,
                             .microseconds = (double)e->duration / 1e3,
                             .module = e->origin,
                             .place = haul__source_place(e->frames, e->frame_count, e->operation, place, sizeof place),
                             .frames = e->frames,
                             .frame_count = e->frame_count};
    compose(&event, line, sizeof line);
    event.line = line;
    pthread_mutex_lock(&report.lock);
    void (*const sink)(const haul_sync_event *, void *) = report.sink;
    void *const to = report.context;
    pthread_mutex_unlock(&report.lock);
    if (sink)
        sink(&event, to);
}

static haul__subscriber subscriber = {
    .of = {.take = take, .kinds = HAUL_EVENT_WAIT, .everywhere = true, .frames = HAUL_EVENT_WAIT}, .program = true};

void haul_sync_report_to(void (*sink)(const haul_sync_event *event, void *context), void *context)
{
    haul__detach(&subscriber);
    pthread_mutex_lock(&report.lock);
    report.sink = sink;
    report.context = context;
    pthread_mutex_unlock(&report.lock);
    if (sink)
        haul__attach(&subscriber);
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
    const haul__event_count waited = haul__event_count_of(HAUL_EVENT_WAITED);
    *out = (haul_sync_stats){.waits = waited.events,
                             .ready = haul__event_count_of(HAUL_EVENT_FOUND_DONE).events,
                             .driver_calls = haul__event_count_of(HAUL_EVENT_DRIVER_CALLED).events,
                             .microseconds = (double)waited.duration / 1e3};
    return HAUL_OK;
}

int64_t haul_sync_count(void)
{
    return haul__event_count_of(HAUL_EVENT_WAITED).events + haul__event_count_of(HAUL_EVENT_FOUND_DONE).events;
}
