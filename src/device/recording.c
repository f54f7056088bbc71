/* Recordings: lists of copied commands, and their replay by the backend or one by one. */
#include "device/recording.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "core/error.h"
#include "events/events.h"

struct haul__recording {
    const char         *operation;
    haul__command      *commands;
    int                 count;
    size_t              capacity;
    size_t              room_size; /* size of the largest params */
    void               *room;      /* where slots are written */
    haul_device        *device;    /* the device on whose compute stream all commands are; NULL: there is none */
    void               *captured;  /* the backend's handle; NULL: none */
    const haul__buffer *record;    /* the record of the launches that check indices; NULL: none */
    haul__region       *touched;   /* for the backend's replay: each storage once, the written ones first */
    int                 touched_count, written_count;
    pthread_mutex_t     lock; /* a replay holds it */
};

_Thread_local haul__recording *haul__recording_current HAUL__TLS_MODEL;

/* ---- collecting ---- */

haul_status haul__recording_refuse(const char *operation, const char *what)
{
    if (!haul__recording_current)
        return HAUL_OK;
    return haul__fail(HAUL_STATE, operation, NULL,
                      "%s cannot be recorded, because a replay could not repeat it: end the recording (%s) first", what,
                      haul__recording_current->operation);
}

haul_status haul__recording_begin(const char *operation)
{
    if (haul__recording_current)
        return haul__fail(HAUL_STATE, operation, NULL, "this thread is already recording: end the recording (%s) first",
                          haul__recording_current->operation);
    haul__recording *r = haul__calloc(1, sizeof *r);
    if (!r)
        return haul__fail_memory(operation, sizeof *r);
    r->operation = operation;
    pthread_mutex_init(&r->lock, NULL);
    haul__recording_current = r;
    return HAUL_OK;
}

/* Does a copy use host memory that may not be there at the replay? */
static bool needs_caller(const haul__command *c)
{
    return (c->kind == HAUL__COMMAND_WRITE || c->kind == HAUL__COMMAND_READ) && c->buffer_count == 1;
}

haul_status haul__recording_note(const haul__command *command)
{
    haul__recording *r = haul__recording_current;
    if (needs_caller(command))
        return haul__recording_refuse(command->operation, command->kind == HAUL__COMMAND_READ
                                                              ? "a read into the program's memory"
                                                              : "a write from the program's memory");
    if (!haul__grow(&r->commands, &r->capacity, (size_t)r->count + 1, sizeof *r->commands))
        return haul__fail_memory(command->operation, sizeof *command);
    haul_status status = haul__command_copy(&r->commands[r->count], command);
    if (status)
        return status;
    r->commands[r->count].copy = 0; /* each replay copies anew */
    for (int i = 0; i < command->buffer_count; i++) {
        haul__storage *storage = command->buffers[i].storage;
        haul__object_keep(storage);
        if (storage->uses)
            atomic_fetch_add(&storage->uses->fixed, 1);
    }
    r->count++;
    return HAUL_OK;
}

static void let_go(haul__storage *storage)
{
    if (storage->uses)
        atomic_fetch_sub(&storage->uses->fixed, 1);
    haul__object_release(storage);
}

static void cut(haul__recording *r, int count)
{
    while (r->count > count) {
        haul__command *c = &r->commands[--r->count];
        for (int i = 0; i < c->buffer_count; i++)
            let_go(c->buffers[i].storage);
        haul__command_free(c);
    }
}

void haul__recording_cut(int count)
{
    cut(haul__recording_current, count);
}

/* ---- the finished list ---- */

static int by_storage(const void *a, const void *b)
{
    uintptr_t x = (uintptr_t)((const haul__region *)a)->storage, y = (uintptr_t)((const haul__region *)b)->storage;
    return (x > y) - (x < y);
}

/* Sorts the regions from `first` on by storage and removes duplicates. Returns the new count. */
static int unique(haul__region *regions, int first, int count)
{
    int kept = first;
    qsort(regions + first, (size_t)(count - first), sizeof *regions, by_storage);
    for (int i = first; i < count; i++)
        if (kept == first || regions[i].storage != regions[kept - 1].storage)
            regions[kept++] = (haul__region){regions[i].storage, 0};
    return kept;
}

/* A storage that is both written and read is in both parts, as in any command. */
static haul_status list_touched(haul__recording *r)
{
    size_t all = 1;
    for (int i = 0; i < r->count; i++)
        all += (size_t)r->commands[i].buffer_count;
    r->touched = haul__malloc(all * sizeof *r->touched);
    if (!r->touched)
        return haul__fail_memory(r->operation, all * sizeof *r->touched);
    int n = 0;
    for (int i = 0; i < r->count; i++)
        for (int k = 0; k < r->commands[i].write_count; k++)
            r->touched[n++] = r->commands[i].buffers[k];
    r->written_count = n = unique(r->touched, 0, n);
    for (int i = 0; i < r->count; i++)
        for (int k = r->commands[i].write_count; k < r->commands[i].buffer_count; k++)
            r->touched[n++] = r->commands[i].buffers[k];
    r->touched_count = unique(r->touched, r->written_count, n);
    return HAUL_OK;
}

static haul_status reserve_room(haul__recording *r)
{
    for (int i = 0; i < r->count; i++)
        if (r->commands[i].slot_count > 0 && r->commands[i].params_size > r->room_size)
            r->room_size = r->commands[i].params_size;
    r->room = haul__malloc(r->room_size + 1);
    return r->room ? HAUL_OK : haul__fail_memory(r->operation, r->room_size + 1);
}

/* Offers the commands to the backend as one list, if all are for the compute stream of one device. */
static haul_status capture(haul__recording *r)
{
    haul__error_record before;
    r->device = r->count ? r->commands[0].device : NULL;
    for (int i = 0; i < r->count && !r->record; i++)
        r->record = r->commands[i].record;
    for (int i = 0; i < r->count; i++)
        if (r->commands[i].device != r->device || r->commands[i].stream != HAUL__STREAM_COMPUTE)
            r->device = NULL;
    if (!r->device || !r->device->backend->capture)
        return HAUL_OK;
    haul__error_save(&before);
    haul_status status = r->device->backend->capture(r->device, r->commands, r->count, &r->captured);
    if (status == HAUL_UNSUPPORTED) {
        haul__error_restore(&before);
        status = HAUL_OK;
    }
    return status;
}

haul__recording *haul__recording_end(void)
{
    haul__recording *r = haul__recording_current;
    if (!r) {
        haul__fail(HAUL_STATE, "recording", NULL, "this thread is not recording; begin a recording first");
        return NULL;
    }
    haul__recording_current = NULL;
    haul_status status = list_touched(r);
    if (!status)
        status = reserve_room(r);
    if (!status)
        status = capture(r);
    if (!status)
        return r;
    haul__recording_free(r);
    return NULL;
}

void haul__recording_free(haul__recording *r)
{
    if (!r)
        return;
    if (r->captured)
        r->device->backend->capture_free(r->device, r->captured);
    cut(r, 0);
    pthread_mutex_destroy(&r->lock);
    haul__free(r->commands);
    haul__free(r->touched);
    haul__free(r->room);
    haul__free(r);
}

int haul__recording_count(const haul__recording *r)
{
    return r->count;
}

const haul__command *haul__recording_command(const haul__recording *r, int i)
{
    return &r->commands[i];
}

bool haul__recording_captured(const haul__recording *r)
{
    return r->captured != NULL;
}

/* ---- replay ---- */

typedef struct replay_params {
    void                    *handle;
    const haul__slot_values *values;
} replay_params;

static haul_status run_captured(haul__stream *s, const haul__command *c)
{
    const replay_params *p = c->params;
    return s->device->backend->replay(s, p->handle, p->values);
}

/* For haul__submit the backend's replay is one library call, which waits for and marks all storages. */
static haul_status replay_captured(haul__recording *r, const haul__slot_values *values)
{
    return haul__submit(&(haul__command){.kind = HAUL__COMMAND_LIBRARY,
                                         .operation = r->operation,
                                         .device = r->device,
                                         .buffers = r->touched,
                                         .write_count = r->written_count,
                                         .buffer_count = r->touched_count,
                                         .params = &(replay_params){r->captured, values},
                                         .params_size = sizeof(replay_params),
                                         .record = r->record,
                                         .run = run_captured});
}

/* Copies over a link are counted by whoever requests them (src/transfer), once. Here they are requested again. */
static void count_copy(const haul__command *c)
{
    static const haul_event_kind kinds[] = {[HAUL__COMMAND_WRITE] = HAUL_EVENT_COPY_TO_DEVICE,
                                            [HAUL__COMMAND_READ] = HAUL_EVENT_COPY_TO_HOST,
                                            [HAUL__COMMAND_PEER] = HAUL_EVENT_COPY_BETWEEN,
                                            [HAUL__COMMAND_CALLBACK] = HAUL_EVENT_NONE};
    const haul__backend         *backend = c->device->backend;
    if (kinds[c->kind] && !backend->host_memory && !backend->no_data)
        haul__emit_counted(&(haul_event){.kind = kinds[c->kind],
                                         .operation = c->operation,
                                         .device = c->buffers[0].storage->device,
                                         .other = c->buffers[1].storage->device,
                                         .bytes = (int64_t)c->bytes});
}

static haul_status replay_each(haul__recording *r, const haul__slot_values *values)
{
    haul_status status = HAUL_OK;
    for (int i = 0; i < r->count && !status; i++) {
        haul__command c = haul__command_with(&r->commands[i], values, r->room);
        status = haul__submit(&c);
        if (!status)
            count_copy(&c);
    }
    return status;
}

haul_status haul__recording_replay(haul__recording *r, const haul__slot_values *values)
{
    pthread_mutex_lock(&r->lock);
    bool as_one = r->captured && !haul__recording_current; /* another recording collects the individual
                                                            * commands */
    haul_status status = as_one ? replay_captured(r, values) : replay_each(r, values);
    for (int i = 0; i < r->written_count; i++)
        atomic_fetch_add_explicit(&r->touched[i].storage->version, 1, memory_order_relaxed);
    pthread_mutex_unlock(&r->lock);
    return status;
}
