/* Streams, events and timings of simulated devices: moments on the virtual clock, in picoseconds. */
#include "backends/cpu/cpu.h"
#include "backends/function.h"
#include "backends/sim/sim.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "base/numbers.h"
#include "base/system/clock.h"

typedef struct queue {
    atomic_llong ends;   /* the last command */
    int64_t      began;  /* when it began */
    uint64_t     copy;   /* the number of the copy that it was a part of; 0: of none */
    int64_t      copied; /* bytes of that copy so far */
} queue;

typedef struct timing {
    int64_t began, ended;
} timing;

haul_status haul__sim_stream_open(haul_device *device, void **out)
{
    (void)device;
    *out = haul__calloc(1, sizeof(queue));
    return *out ? HAUL_OK : haul__fail_memory("haul_device_get", sizeof(queue));
}

void haul__sim_stream_close(haul_device *device, void *q)
{
    (void)device;
    haul__free(q);
}

/* ---- commands ---- */

/* The kernel notes faults in a record that the device layer reads later. */
static haul_status launch_checked(const haul__command *c)
{
    HAUL__ASSERT(c->buffer_count < HAUL__MAX_BUFFERS);
    void *buffers[HAUL__MAX_BUFFERS];
    for (int i = 0; i < c->buffer_count; i++)
        buffers[i] = c->buffers[i].storage->buffer.host;
    buffers[c->buffer_count] = c->record->host;
    haul__function_run(c->kernel->function, buffers, c->params, c->items, c->grain);
    return HAUL_OK;
}

static haul_status compute(haul__stream *s, const haul__command *c)
{
    if (c->kind == HAUL__COMMAND_LAUNCH && c->checks && c->record)
        return launch_checked(c);
    return c->kind == HAUL__COMMAND_PEER ? haul__cpu_copy(s, c) : haul__cpu_submit(s, c);
}

/* Devices of different machines have no link. */
static bool is_linked(const haul__command *peer)
{
    int                  to, from;
    const haul__machine *m = haul__sim_machine(peer->device, &to);
    return haul__sim_machine(peer->buffers[1].storage->device, &from) == m && haul__machine_link_of(m, from, to);
}

haul_status haul__sim_submit(haul__stream *s, const haul__command *c)
{
    queue *q = s->queue;
    if (c->kind == HAUL__COMMAND_PEER && !is_linked(c))
        return HAUL_UNSUPPORTED;
    haul_status status = compute(s, c);
    if (status)
        return status;
    if (c->copy != q->copy)
        q->copied = 0;
    HAUL__ASSERT(c->copy || !q->copied);
    q->began = larger(atomic_load(&q->ends), haul__clock_ps());
    atomic_store(&q->ends, q->began + haul__sim_time(c, q->copied));
    HAUL__ASSERT(q->copied >= 0 && atomic_load(&q->ends) >= q->began);
    q->copy = c->copy;
    q->copied += c->copy ? (int64_t)c->bytes : 0;
    return HAUL_OK;
}

/* ---- waiting ---- */

static haul_status moment_new(int64_t began, int64_t ended, const char *operation, void **out)
{
    timing *t = haul__malloc(sizeof *t);
    if (!t)
        return haul__fail_memory(operation, sizeof *t);
    *t = (timing){began, ended};
    *out = t;
    return HAUL_OK;
}

haul_status haul__sim_sync(haul__stream *s, void *event)
{
    queue *q = s->queue;
    haul__clock_reach(event ? ((const timing *)event)->ended : atomic_load(&q->ends));
    return HAUL_OK;
}

haul_status haul__sim_event_record(haul__stream *s, void **event)
{
    queue *q = s->queue;
    return moment_new(0, atomic_load(&q->ends), "haul_device_sync", event);
}

haul_status haul__sim_event_wait(haul__stream *s, void *event)
{
    queue        *q = s->queue;
    const int64_t reached = ((const timing *)event)->ended;
    long long     now = atomic_load(&q->ends);
    while (now < reached && !atomic_compare_exchange_weak(&q->ends, &now, reached))
        ;
    return HAUL_OK;
}

haul_status haul__sim_event_query(haul_device *device, void *event, bool *reached)
{
    (void)device;
    *reached = haul__clock_ps() >= ((const timing *)event)->ended;
    return HAUL_OK;
}

void haul__sim_event_free(haul_device *device, void *event)
{
    (void)device;
    haul__free(event);
}

/* ---- timings ---- */

haul_status haul__sim_timing_begin(haul__stream *s, void **out)
{
    (void)s;
    return moment_new(0, 0, "haul_event", out);
}

haul_status haul__sim_timing_end(haul__stream *s, void *t)
{
    const queue *q = s->queue;
    *(timing *)t = (timing){q->began, atomic_load(&q->ends)};
    return HAUL_OK;
}

haul_status haul__sim_timing_read(haul_device *device, void *of, void *origin, int64_t *after, int64_t *duration)
{
    const timing *t = of, *from = origin;
    (void)device;
    HAUL__ASSERT(t->began <= t->ended && from->began <= from->ended);
    *after = t->began / 1000 - from->began / 1000;
    *duration = t->ended / 1000 - t->began / 1000;
    return HAUL_OK;
}

void haul__sim_timing_free(haul_device *device, void *t)
{
    (void)device;
    haul__free(t);
}
