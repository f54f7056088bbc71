/* The records of index faults: making, copying and clearing them, and turning them into errors.
 *
 * A record keeps a fault until it is cleared. So only the newest copy that has arrived matters, and a later copy makes
 * up for one that could not be made. The lock of the device's compute stream guards everything here that is not atomic.
 * Only commands of that stream write the record. */
#include "device/index_fault.h"

#include <string.h>

#include "backends/index_check.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "base/hostile.h"
#include "device/stream.h"
#include "device/wait.h"
#include "events/events.h"

enum { COPIES = 16, RECORD_BYTES = FAULT_WORDS * sizeof(uint32_t) };

typedef struct haul__index_faults faults;
struct haul__index_faults {
    haul_device  *device;
    faults       *next;   /* on another device */
    haul__storage record; /* not from the allocator, whose statistics count the user's memory */
    uint32_t (*copies)[FAULT_WORDS];
    uint64_t      tickets[COPIES]; /* tickets of the commands that make the copies; 0: free */
    uint64_t      launched;        /* ticket of the newest launch without a copy after it; 0: none */
    uint64_t      cleared;         /* ticket of the command that cleared the record: earlier copies are out of date */
    atomic_ullong due;             /* ticket of the first copy, or of the launch; 0: none */
    atomic_ullong reached;         /* how far the compute stream is known to be done, through waits for other streams */
};

const char haul__index_fault_operation[] = "index faults";

static _Atomic(faults *) all;

static faults *faults_of(const haul_device *device)
{
    return atomic_load_explicit(&device->index_faults, memory_order_acquire);
}

/* ---- commands ---- */

/* Bypasses haul__submit, so that recordings do not repeat these commands, and transfers and events do not count them.
 * The caller holds the lock. Returns the ticket, or 0 on failure, which is not recorded. */
static uint64_t give(faults *f, haul__command c)
{
    haul__error_record before;
    haul__stream      *s = f->device->compute;
    HAUL__ASSERT(!f->device->backend->synchronous && (c.kind == HAUL__COMMAND_FILL) == !c.to_host);
    c.operation = haul__index_fault_operation;
    c.device = f->device;
    c.buffers = &(haul__region){&f->record, 0};
    c.buffer_count = 1;
    c.bytes = RECORD_BYTES;
    haul__error_save(&before);
    haul_status status = f->device->backend->submit(s, &c);
    if (status)
        haul__error_restore(&before);
    return status ? 0 : haul__stream_advance(s).ticket;
}

static uint64_t clear(faults *f)
{
    return give(f, (haul__command){.kind = HAUL__COMMAND_FILL, .write_count = 1, .pattern_size = sizeof(uint32_t)});
}

/* ---- making a record ---- */

/* Pinned if possible, because a copy to pageable memory may make the host wait. */
static void *host_memory(haul_device *device, size_t bytes, const char *operation)
{
    haul__error_record before;
    void              *memory = NULL, *pin;
    haul__error_save(&before);
    if (device->backend->host_alloc && !haul__device_host_alloc(device, bytes, &memory, &pin, operation))
        return memory;
    haul__error_restore(&before);
    return haul__malloc(bytes);
}

/* Until the record is cleared. A failure of the wait is not recorded, because another one has been. */
static void await_clear(haul__stream *s, const char *operation)
{
    haul__error_record before;
    haul__error_save(&before);
    haul__wait(s, NULL, operation);
    haul__error_restore(&before);
}

/* Kept for the life of the process, like the device. */
static haul_status make(haul_device *device, const char *operation)
{
    HAUL__ASSERT(!device->backend->synchronous && !faults_of(device)); /* a device has one record */
    faults *f = haul__calloc(1, sizeof *f);
    if (!f)
        return haul__fail_memory(operation, sizeof *f);
    f->device = device;
    haul__storage_embed(&f->record, device);
    f->record.bytes = RECORD_BYTES;
    haul_status status = haul__device_alloc(device, RECORD_BYTES, &f->record.buffer, operation);
    if (status) {
        haul__free(f);
        return status;
    }
    pthread_mutex_lock(&device->compute->lock);
    if (!clear(f))
        status = haul__fail(HAUL_BACKEND, operation, NULL,
                            "the memory in which %s records wrong indices cannot be cleared", device->name);
    pthread_mutex_unlock(&device->compute->lock);
    if (!status && !(f->copies = host_memory(device, COPIES * RECORD_BYTES, operation))) {
        status = haul__fail_memory(operation, COPIES * RECORD_BYTES);
        await_clear(device->compute, operation);
    }
    if (status) {
        haul__device_free(device, &f->record.buffer, RECORD_BYTES, operation);
        haul__free(f);
        return status;
    }
    f->next = atomic_load(&all);
    while (!atomic_compare_exchange_weak(&all, &f->next, f))
        ;
    atomic_store_explicit(&device->index_faults, f, memory_order_release);
    return HAUL_OK;
}

haul_status haul__index_fault_buffer(haul_device *device, const char *operation, const haul__buffer **out)
{
    haul_status status = HAUL_OK;
    *out = NULL;
    if (device->backend->synchronous)
        return HAUL_OK;
    if (!faults_of(device)) {
        haul__events_hold();
        pthread_mutex_lock(&device->kernels_lock);
        if (!faults_of(device))
            status = make(device, operation);
        pthread_mutex_unlock(&device->kernels_lock);
        haul__events_release();
    }
    HAUL__ASSERT(status || faults_of(device)->device == device);
    if (!status)
        *out = &faults_of(device)->record.buffer;
    return status;
}

/* ---- copies ---- */

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t reached_of(const faults *f)
{
    return later(atomic_load(&f->reached), atomic_load(&f->device->compute->completed));
}

static void find_due(faults *f)
{
    uint64_t first = f->launched;
    for (int i = 0; i < COPIES; i++)
        if (f->tickets[i] && (!first || f->tickets[i] < first))
            first = f->tickets[i];
    HAUL__ASSERT(first <= atomic_load(&f->device->compute->submitted));
    atomic_store(&f->due, first);
}

/* The newest copy that has arrived, or -1. The slots of older copies become free. */
static int newest(faults *f, uint64_t reached)
{
    int found = -1;
    for (int i = 0; i < COPIES; i++) {
        if (!f->tickets[i] || f->tickets[i] > reached)
            continue;
        bool newer = found < 0 || f->tickets[i] > f->tickets[found];
        int  older = newer ? found : i;
        found = newer ? i : found;
        if (older >= 0)
            f->tickets[older] = 0;
    }
    HAUL__ASSERT(found < COPIES && (found < 0 || (f->tickets[found] && f->tickets[found] <= reached)));
    return found;
}

/* A free slot for a copy, or -1. */
static int take_copy(faults *f)
{
    newest(f, reached_of(f));
    for (int i = 0; i < (haul__is_hostile(HAUL__HOSTILE_CACHES) ? 1 : COPIES); i++)
        if (!f->tickets[i])
            return i;
    return -1;
}

static void read_record(faults *f)
{
    int i = take_copy(f);
    if (i < 0)
        return;
    HAUL__ASSERT(i < COPIES && f->tickets[i] == 0);
    memset(f->copies[i], 0, RECORD_BYTES);
    f->tickets[i] = give(f, (haul__command){.kind = HAUL__COMMAND_READ, .to_host = f->copies[i]});
    if (f->tickets[i])
        f->launched = 0;
}

void haul__index_faults_launched(haul_device *device, uint64_t ticket)
{
    faults *f = faults_of(device);
    HAUL__ASSERT(f && ticket > f->launched && ticket <= atomic_load(&device->compute->submitted));
    f->launched = ticket;
    if (!atomic_load(&f->due))
        atomic_store(&f->due, ticket);
}

void haul__index_faults_read(haul__stream *s)
{
    faults *f = faults_of(s->device);
    if (f && s == s->device->compute && f->launched)
        read_record(f);
}

uint64_t haul__index_faults_behind(haul__stream *s)
{
    const haul__stream *compute = s->device->compute;
    return atomic_load(s == compute ? &s->submitted : &s->after[compute->id]);
}

void haul__index_faults_reached(haul_device *device, uint64_t ticket)
{
    faults *f = faults_of(device);
    HAUL__ASSERT(!f || ticket <= atomic_load(&device->compute->submitted));
    if (f)
        haul__raise_to(&f->reached, ticket);
}

/* ---- errors ---- */

/* Stores the fault that the newest copy holds and clears the device's record; false if the copy holds none. The caller
 * holds the lock. */
static bool take_noted(faults *f, uint64_t reached, uint32_t out[FAULT_WORDS])
{
    int i = newest(f, reached);
    if (i < 0)
        return false;
    bool noted = f->tickets[i] > f->cleared && haul__index_noted(f->copies[i]);
    HAUL__ASSERT(f->tickets[i] <= atomic_load(&f->device->compute->submitted));
    if (noted) {
        memcpy(out, f->copies[i], RECORD_BYTES);
        f->cleared = later(f->cleared, clear(f));
    }
    f->tickets[i] = 0;
    return noted;
}

/* The ticket of a copy that must be waited for, because no slot was free when the point was made; 0: none. The caller
 * holds the lock. */
static uint64_t make_up(faults *f, uint64_t reached)
{
    if (!f->launched || f->launched > reached)
        return 0;
    read_record(f);
    return f->launched ? 0 : atomic_load(&f->device->compute->submitted);
}

static haul_status report(faults *f)
{
    uint32_t      record[FAULT_WORDS] = {0};
    haul__stream *s = f->device->compute;
    for (bool again = true; again;) {
        uint64_t first = atomic_load(&f->due), reached = reached_of(f), missing = 0;
        if (!first || first > reached)
            return HAUL_OK;
        HAUL__ASSERT(reached <= atomic_load(&s->submitted));
        pthread_mutex_lock(&s->lock);
        bool noted = take_noted(f, reached, record);
        if (!noted)
            missing = make_up(f, reached);
        find_due(f);
        pthread_mutex_unlock(&s->lock);
        if (noted)
            return haul__index_fail(record);
        again = missing && !haul__use_wait_host((haul__use){s, missing}, haul__index_fault_operation);
    }
    return HAUL_OK;
}

haul_status haul__index_faults_raise(haul_device *device)
{
    haul_status status = HAUL_OK;
    for (faults *f = atomic_load_explicit(&all, memory_order_acquire); f && !status; f = f->next)
        if (!device || f->device == device)
            status = report(f);
    return status;
}
