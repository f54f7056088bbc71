/* The placement log: a subscriber that writes each placement decision as a line. */
#include <haul/device.h>
#include <haul/placement.h>
#include <pthread.h>
#include <stdio.h>

#include "events/events.h"

static struct {
    pthread_mutex_t lock; /* guards both */
    void (*sink)(const char *line, void *context);
    void *context;
} place_log = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void take(const haul_event *e, void *context)
{
    char               line[512];
    unsigned long long bytes = (unsigned long long)e->bytes;
    const char        *device = haul_device_name(e->device);
    (void)context;
    if (e->other)
        snprintf(line, sizeof line, "%s: %s moves from %s to %s, %llu bytes", e->operation, e->text,
                 haul_device_name(e->other), device, bytes);
    else if (*e->problem)
        snprintf(line, sizeof line, "%s: runs on %s: %s", e->operation, device, e->problem);
    else
        snprintf(line, sizeof line, "%s: runs on %s (holds %s, %llu bytes)", e->operation, device, e->text, bytes);
    pthread_mutex_lock(&place_log.lock);
    void (*const sink)(const char *, void *) = place_log.sink;
    void *const to = place_log.context;
    pthread_mutex_unlock(&place_log.lock);
    if (sink)
        sink(line, to);
}

static haul__subscriber subscriber = {.of = {.take = take, .kinds = HAUL_EVENT_PLACEMENT, .everywhere = true},
                                      .program = true};

void haul_placement_log_to(void (*sink)(const char *line, void *context), void *context)
{
    haul__detach(&subscriber);
    pthread_mutex_lock(&place_log.lock);
    place_log.sink = sink;
    place_log.context = context;
    pthread_mutex_unlock(&place_log.lock);
    if (sink)
        haul__attach(&subscriber);
}

static void to_stderr(const char *line, void *context)
{
    (void)context;
    fprintf(stderr, "%s\n", line);
}

void haul_placement_log(bool on)
{
    haul_placement_log_to(on ? to_stderr : NULL, NULL);
}
