#include "support/devices/late.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "kernels/kernels.h"
#include "support/ledger.h"

typedef struct late_queue late_queue;

/* A copy, a fill, or a wait for another queue. */
typedef struct late_command {
    char       *to;
    const char *from;
    size_t      bytes;
    char        pattern[8];
    size_t      pattern_size; /* 0: no fill */
    late_queue *after;        /* NULL: no wait */
    size_t      position;
} late_command;

struct late_queue {
    late_command *commands;
    size_t        count, capacity, done;
};

typedef struct late_event {
    late_queue *queue;
    size_t      position;
} late_event;

/* Everything is under one lock: these are for looking at order, not for speed. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int64_t         room = -1, held, pending, pinned_room = -1, pinned_held, pageable;
static int64_t         parts, parts_made;
static bool            fail_wait, fail_part;

static void run_until(late_queue *q, size_t position)
{
    while (q->done < position) {
        late_command c = q->commands[q->done++];
        pending -= c.after ? 0 : 1;
        if (c.after)
            run_until(c.after, c.position);
        else if (c.pattern_size > 0)
            for (size_t i = 0; i < c.bytes; i++)
                c.to[i] = c.pattern[i % c.pattern_size];
        else
            memcpy(c.to, c.from, c.bytes);
    }
}

static haul_status add(haul__stream *s, late_command command)
{
    late_queue *q = s->queue;
    haul_status status = HAUL_OK;
    pthread_mutex_lock(&lock);
    if (q->count == q->capacity) {
        size_t        capacity = q->capacity ? 2 * q->capacity : 64;
        late_command *more = realloc(q->commands, capacity * sizeof *more);
        if (more) {
            q->commands = more;
            q->capacity = capacity;
        } else {
            status = haul__fail_memory("late", capacity * sizeof *more);
        }
    }
    if (!status) {
        q->commands[q->count++] = command;
        pending += command.after ? 0 : 1;
    }
    pthread_mutex_unlock(&lock);
    return status;
}

/* ---- the table ---- */

static int late_count(char *why, size_t why_size)
{
    (void)why;
    (void)why_size;
    return 2;
}

static haul_status late_open(haul_device *device, int index)
{
    (void)device;
    (void)index;
    return HAUL_OK;
}

/* A block keeps its size in front. */
enum { HEADER = 64 };

static haul_status memory_new(const haul_device *device, size_t bytes, char **out)
{
    char *memory = NULL;
    pthread_mutex_lock(&lock);
    if (room < 0 || (int64_t)bytes <= room)
        memory = malloc(HEADER + bytes);
    if (memory) {
        memcpy(memory, &bytes, sizeof bytes);
        held += (int64_t)bytes;
        room -= room < 0 ? 0 : (int64_t)bytes;
    }
    pthread_mutex_unlock(&lock);
    if (!memory)
        return haul__fail(HAUL_OUT_OF_MEMORY, "late", NULL, "%s is full", device->name);
    memset(memory + HEADER, 0xAB, bytes);
    *out = memory + HEADER;
    return HAUL_OK;
}

static void memory_free(char *memory)
{
    size_t bytes;
    memory -= HEADER;
    memcpy(&bytes, memory, sizeof bytes);
    pthread_mutex_lock(&lock);
    held -= (int64_t)bytes;
    room += room < 0 ? 0 : (int64_t)bytes;
    pthread_mutex_unlock(&lock);
    free(memory);
}

/* A handle of a device whose parts need handles. */
typedef struct late_handle late_handle;
struct late_handle {
    char        *memory;
    size_t       bytes;
    late_handle *whole; /* of a part */
    int          users; /* of a whole: its parts, and 1 until it is freed */
};

static haul_status handle_new(char *memory, size_t bytes, late_handle *whole, haul__buffer *out)
{
    late_handle *handle = malloc(sizeof *handle);
    if (!handle)
        return haul__fail_memory("late", sizeof *handle);
    *handle = (late_handle){.memory = memory, .bytes = bytes, .whole = whole, .users = 1};
    *out = (haul__buffer){.handle = handle};
    return HAUL_OK;
}

/* As in OpenCL, a part of a part is an error, and so are places that are not aligned. */
static haul_status part_new(size_t bytes, const haul__buffer_address *of, haul__buffer *out)
{
    late_handle *whole = of->handle;
    pthread_mutex_lock(&lock);
    bool wrong =
        fail_part || whole->whole || of->offset % HAUL__SUB_BUFFER_ALIGNMENT || of->offset + bytes > whole->bytes;
    fail_part = false;
    if (!wrong && !(wrong = handle_new(whole->memory + of->offset, bytes, whole, out))) {
        whole->users++;
        parts++;
        parts_made++;
    }
    pthread_mutex_unlock(&lock);
    return wrong ? haul__fail(HAUL_OUT_OF_MEMORY, "late", NULL, "no handle for a part") : HAUL_OK;
}

/* As in OpenCL, memory goes with the last handle. */
static void handle_free(late_handle *handle)
{
    late_handle *whole = handle->whole ? handle->whole : handle;
    pthread_mutex_lock(&lock);
    parts -= handle != whole;
    const bool last = --whole->users == 0;
    pthread_mutex_unlock(&lock);
    if (handle != whole)
        free(handle);
    if (last) {
        memory_free(whole->memory);
        free(whole);
    }
}

static haul_status late_alloc(haul_device *device, size_t bytes, const haul__buffer_address *of, haul__buffer *out)
{
    char *memory = NULL;
    if (of)
        return part_new(bytes, of, out);
    haul_status status = memory_new(device, bytes, &memory);
    if (status)
        return status;
    *out = (haul__buffer){.handle = memory};
    if (device->sub_buffers && (status = handle_new(memory, bytes, NULL, out)))
        memory_free(memory);
    return status;
}

static void late_free(haul_device *device, haul__buffer *buffer)
{
    if (device->sub_buffers)
        handle_free(buffer->handle);
    else
        memory_free(buffer->handle);
}

char *late_address(const haul__storage *s)
{
    void *handle = s->buffer.handle;
    return s->device->sub_buffers ? ((late_handle *)handle)->memory : handle;
}

/* Pinned memory hangs in a ring, so that copies can be asked if they use it. */
typedef struct late_pin late_pin;
struct late_pin {
    late_pin *next, *prev;
    char     *memory;
    size_t    bytes;
};
static late_pin pins = {&pins, &pins, NULL, 0};

static haul_status late_host_alloc(haul_device *device, size_t bytes, void **out, void **handle)
{
    late_pin *pin = NULL;
    pthread_mutex_lock(&lock);
    if (pinned_room < 0 || (int64_t)bytes <= pinned_room)
        pin = malloc(sizeof *pin);
    if (pin && posix_memalign((void **)&pin->memory, 64, bytes) != 0) {
        free(pin);
        pin = NULL;
    }
    if (pin) {
        pin->bytes = bytes;
        pin->next = &pins;
        pin->prev = pins.prev;
        pin->prev->next = pins.prev = pin;
        pinned_held += (int64_t)bytes;
        pinned_room -= pinned_room < 0 ? 0 : (int64_t)bytes;
        memset(pin->memory, 0xCD, bytes);
    }
    pthread_mutex_unlock(&lock);
    if (!pin)
        return haul__fail(HAUL_OUT_OF_MEMORY, "late", NULL, "no pinned memory for %s", device->name);
    *out = pin->memory;
    *handle = pin;
    return HAUL_OK;
}

static bool late_host_is_pinned(haul_device *device, const void *memory, size_t bytes)
{
    bool found = false;
    (void)device;
    pthread_mutex_lock(&lock);
    for (const late_pin *pin = pins.next; pin != &pins && !found; pin = pin->next) {
        const uintptr_t at = (uintptr_t)memory, begin = (uintptr_t)pin->memory;
        found = at >= begin && at + bytes <= begin + pin->bytes;
    }
    pthread_mutex_unlock(&lock);
    return found;
}

static void late_host_free(haul_device *device, void *memory, void *handle)
{
    late_pin *pin = handle;
    (void)device;
    pthread_mutex_lock(&lock);
    pin->prev->next = pin->next;
    pin->next->prev = pin->prev;
    pinned_held -= (int64_t)pin->bytes;
    pinned_room += pinned_room < 0 ? 0 : (int64_t)pin->bytes;
    pthread_mutex_unlock(&lock);
    free(memory);
    free(pin);
}

static void count_pageable(const char *memory, size_t bytes)
{
    bool found = false;
    pthread_mutex_lock(&lock);
    for (const late_pin *pin = pins.next; pin != &pins && !found; pin = pin->next)
        found = memory >= pin->memory && memory + bytes <= pin->memory + pin->bytes;
    pageable += !found;
    pthread_mutex_unlock(&lock);
}

static haul_status late_stream_open(haul_device *device, void **queue)
{
    (void)device;
    *queue = calloc(1, sizeof(late_queue));
    return *queue ? HAUL_OK : haul__fail_memory("late", sizeof(late_queue));
}

static void late_stream_close(haul_device *device, void *queue)
{
    late_queue *q = queue;
    (void)device;
    free(q->commands);
    free(q);
}

static char *place_of(const haul__region *r)
{
    return late_address(r->storage) + r->offset;
}

static bool is_inside(const haul__region *r, size_t bytes)
{
    const haul__storage *s = r->storage;
    return !s->device->sub_buffers || r->offset + bytes <= ((late_handle *)s->buffer.handle)->bytes;
}

static haul_status late_write(haul__stream *s, const haul__command *c)
{
    const void *from = haul__command_source(c);
    count_pageable(from, c->bytes);
    late_command copy = {.to = place_of(&c->buffers[0]), .from = from, .bytes = c->bytes};
    return ledger_asked(LEDGER_UP, c, add(s, copy));
}

static haul_status late_read(haul__stream *s, const haul__command *c)
{
    void *to = haul__command_target(c);
    count_pageable(to, c->bytes);
    late_command copy = {.to = to, .from = place_of(&c->buffers[c->buffer_count - 1]), .bytes = c->bytes};
    return ledger_asked(LEDGER_DOWN, c, add(s, copy));
}

/* There are no kernels and no libraries, and its devices do not reach each other. */
static haul_status late_submit(haul__stream *s, const haul__command *c)
{
    for (int i = 0; i < c->buffer_count; i++)
        if (c->buffers[i].storage->device == s->device && !is_inside(&c->buffers[i], c->bytes))
            return haul__fail(HAUL_BACKEND, c->operation, NULL, "%s: the buffer is smaller", s->device->name);
    late_command command = {.to = place_of(&c->buffers[0]), .bytes = c->bytes};
    switch (c->kind) {
    case HAUL__COMMAND_WRITE: return late_write(s, c);
    case HAUL__COMMAND_READ: return late_read(s, c);
    case HAUL__COMMAND_COPY: command.from = place_of(&c->buffers[1]); return add(s, command);
    case HAUL__COMMAND_FILL:
        command.pattern_size = c->pattern_size;
        memcpy(command.pattern, &c->pattern, c->pattern_size);
        return add(s, command);
    default: return haul__fail(HAUL_UNSUPPORTED, c->operation, NULL, "%s has no such command", s->device->name);
    }
}

static haul_status late_compile(haul_device *device, const haul__unit *unit, haul__kernel *out)
{
    (void)out;
    return haul__fail(HAUL_UNSUPPORTED, unit->kernel, NULL, "%s has no kernels", device->name);
}

static haul_status report(void)
{
    if (!fail_wait)
        return HAUL_OK;
    fail_wait = false;
    return haul__fail(HAUL_BACKEND, "late", NULL, "the device fell off the bus");
}

static haul_status late_sync(haul__stream *s, void *event)
{
    const late_event *e = event;
    pthread_mutex_lock(&lock);
    haul_status status = report();
    if (!status)
        run_until(e ? e->queue : s->queue, e ? e->position : ((late_queue *)s->queue)->count);
    pthread_mutex_unlock(&lock);
    return status;
}

static haul_status late_event_record(haul__stream *s, void **event)
{
    late_event *e = malloc(sizeof *e);
    if (!e)
        return haul__fail_memory("late", sizeof *e);
    pthread_mutex_lock(&lock);
    *e = (late_event){s->queue, ((late_queue *)s->queue)->count};
    pthread_mutex_unlock(&lock);
    *event = e;
    return HAUL_OK;
}

static haul_status late_event_wait(haul__stream *s, void *event)
{
    const late_event *e = event;
    return add(s, (late_command){.after = e->queue, .position = e->position});
}

static haul_status late_event_query(haul_device *device, void *event, bool *reached)
{
    const late_event *e = event;
    (void)device;
    pthread_mutex_lock(&lock);
    *reached = e->queue->done >= e->position;
    pthread_mutex_unlock(&lock);
    return HAUL_OK;
}

static void late_event_free(haul_device *device, void *event)
{
    (void)device;
    free(event);
}

static const haul__backend backend = {
    .size = sizeof backend,
    .name = "late",
    .count = late_count,
    .open = late_open,
    .alloc = late_alloc,
    .free = late_free,
    .host_alloc = late_host_alloc,
    .host_free = late_host_free,
    .host_is_pinned = late_host_is_pinned,
    .stream_open = late_stream_open,
    .stream_close = late_stream_close,
    .submit = late_submit,
    .compile = late_compile,
    .sync = late_sync,
    .event_record = late_event_record,
    .event_wait = late_event_wait,
    .event_query = late_event_query,
    .event_free = late_event_free,
    .precompiled = true,
    .addresses = true,
};

/* ---- devices ---- */

static haul__backend parted; /* the same without addresses */

static haul_device *new_device(int index, bool with_parts)
{
    haul_device *device = calloc(1, sizeof *device);
    if (!device)
        abort();
    device->backend = with_parts ? &parted : &backend;
    device->sub_buffers = with_parts;
    device->index = index;
    device->slot = HAUL__MAX_DEVICES - 1 - index;
    device->mark = HAUL__DEVICE_MARK;
    device->valid = true;
    snprintf(device->name, sizeof device->name, "late:%d", index);
    device->properties.name = device->name;
    device->properties.kind = HAUL_KIND_ACCELERATOR;
    device->kernels =
        calloc((size_t)(haul__kernel_count + HAUL__KERNELS_ADDED) * HAUL_DTYPE_END, sizeof *device->kernels);
    pthread_mutex_init(&device->kernels_lock, NULL);
    if (!device->kernels || haul__streams_open(device))
        abort();
    return device;
}

static haul_device *devices[2];

static void make_devices(void)
{
    devices[0] = new_device(0, false);
    devices[1] = new_device(1, false);
}

haul_device *late_device(int index)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_devices);
    return devices[index];
}

static haul_device *keep_device(bool with_parts)
{
    static haul_device *kept[32]; /* reachable, for leak checkers */
    static int          count;
    if (count == 32)
        abort();
    return kept[count++] = new_device(0, with_parts);
}

haul_device *late_device_new(void)
{
    return keep_device(false);
}

haul_device *late_device_with_parts(void)
{
    parted = backend;
    parted.addresses = false;
    return keep_device(true);
}

static int64_t read_locked(const int64_t *variable)
{
    pthread_mutex_lock(&lock);
    int64_t value = *variable;
    pthread_mutex_unlock(&lock);
    return value;
}

static void write_locked(int64_t *variable, int64_t value)
{
    pthread_mutex_lock(&lock);
    *variable = value;
    pthread_mutex_unlock(&lock);
}

void late_set_room(int64_t bytes)
{
    write_locked(&room, bytes);
}

int64_t late_held(void)
{
    return read_locked(&held);
}

int64_t late_pending(void)
{
    return read_locked(&pending);
}

void late_set_pinned_room(int64_t bytes)
{
    write_locked(&pinned_room, bytes);
}

int64_t late_pinned_held(void)
{
    return read_locked(&pinned_held);
}

int64_t late_pageable(void)
{
    return read_locked(&pageable);
}

int64_t late_parts(void)
{
    return read_locked(&parts);
}

int64_t late_parts_made(void)
{
    return read_locked(&parts_made);
}

void late_fail_part(void)
{
    pthread_mutex_lock(&lock);
    fail_part = true;
    pthread_mutex_unlock(&lock);
}

void late_fail_wait(void)
{
    pthread_mutex_lock(&lock);
    fail_wait = true;
    pthread_mutex_unlock(&lock);
}

void late_run(haul_device *device)
{
    haul__stream *streams[HAUL__DEVICE_STREAMS];
    haul__device_streams(device, streams);
    pthread_mutex_lock(&lock);
    for (int k = 0; k < HAUL__DEVICE_STREAMS; k++) {
        late_queue *q = streams[k]->queue;
        run_until(q, q->count);
    }
    pthread_mutex_unlock(&lock);
}

void late_run_all(void)
{
    for (int i = 0; i < 2; i++)
        late_run(devices[i]);
}
