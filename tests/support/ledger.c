/* Events of copies against what backends were asked for, in every test program.
 *
 * One side adds up the bytes of COPY_TO_DEVICE, COPY_TO_HOST and COPY_BETWEEN of all threads, from before main on. The
 * other stands between the library and the backends: the linker (--wrap, tests/CMakeLists.txt) puts functions of this
 * file in the place of `submit` of the backends whose memory is behind a link, and the test
 * backend (late.c) calls ledger_asked. Both know nothing of each other. When the program exits the bytes must be equal
 * in each direction, or it fails. Commands are not compared: a copy may be many.
 *
 * On neither side:
 *   - what is refused: a function that failed, and all chunks of a call of the copy function that failed;
 *   - copies of a subscriber to events, which make no events;
 *   - copies that a test asks of a backend itself (LEDGER_APART);
 *   - copies of what kernels noted of indices out of range, which are no transfers;
 *   - copies on the CPU and within a device, which cross no link. */
#include "support/ledger.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/command.h"
#include "device/index_fault.h"
#include "events/events.h"
#include "transfer/transfer.h"

static atomic_llong asked[LEDGER_DIRECTIONS], heard[LEDGER_DIRECTIONS];
static atomic_bool  stopped;

/* A call of the copy function: what is asked for counts if it succeeds. */
typedef struct copying {
    bool      open;
    long long bytes[LEDGER_DIRECTIONS];
} copying;

/* What the thread is doing. */
static _Thread_local bool    apart;
static _Thread_local copying copy;

/* ---- the backends' side ---- */

haul_status ledger_asked(ledger_direction direction, size_t bytes, haul_status status)
{
    if (status || apart || haul__event_muted() || atomic_load(&stopped))
        return status;
    if (copy.open)
        copy.bytes[direction] += (long long)bytes;
    else
        atomic_fetch_add(&asked[direction], (long long)bytes);
    return status;
}

void ledger_apart_begin(void)
{
    apart = true;
}

haul_status ledger_apart_end(haul_status status)
{
    apart = false;
    return status;
}

static haul_status asked_by(const haul__command *c, haul_status status)
{
    if (strcmp(c->operation, haul__index_fault_operation) == 0)
        return status;
    switch (c->kind) {
    case HAUL__COMMAND_WRITE: return ledger_asked(LEDGER_UP, c->bytes, status);
    case HAUL__COMMAND_READ: return ledger_asked(LEDGER_DOWN, c->bytes, status);
    case HAUL__COMMAND_PEER: return ledger_asked(LEDGER_BETWEEN, c->bytes, status);
    default: return status;
    }
}

/* A backend that this build lacks has none. */
#define WRAP(name)                                                                                                     \
    haul_status __real_##name(haul__stream *s, const haul__command *c) __attribute__((weak));                          \
    haul_status __wrap_##name(haul__stream *s, const haul__command *c);                                                \
    haul_status __wrap_##name(haul__stream *s, const haul__command *c)                                                 \
    {                                                                                                                  \
        return asked_by(c, __real_##name(s, c));                                                                       \
    }

WRAP(haul__cl_submit)
WRAP(haul__cuda_submit)

/* ---- the copy function, which may fail when some chunks have left ---- */

/* A subscriber to what happens in one copy may make another. */
static copying begin_copy(void)
{
    copying outer = copy;
    copy = (copying){.open = true};
    return outer;
}

static haul_status end_copy(copying outer, haul_status status)
{
    for (int i = 0; i < LEDGER_DIRECTIONS && !status; i++)
        atomic_fetch_add(&asked[i], copy.bytes[i]);
    copy = outer;
    return status;
}

haul_status __real_haul__transfer(haul__storage *to, size_t to_offset, haul__storage *from, size_t from_offset,
                                  size_t bytes, bool fresh, const char *origin);
haul_status __wrap_haul__transfer(haul__storage *to, size_t to_offset, haul__storage *from, size_t from_offset,
                                  size_t bytes, bool fresh, const char *origin);
haul_status __wrap_haul__transfer(haul__storage *to, size_t to_offset, haul__storage *from, size_t from_offset,
                                  size_t bytes, bool fresh, const char *origin)
{
    copying outer = begin_copy();
    return end_copy(outer, __real_haul__transfer(to, to_offset, from, from_offset, bytes, fresh, origin));
}

haul_status __real_haul__transfer_from_host(haul__storage *to, size_t offset, const void *host, size_t bytes,
                                            bool fresh, const char *origin);
haul_status __wrap_haul__transfer_from_host(haul__storage *to, size_t offset, const void *host, size_t bytes,
                                            bool fresh, const char *origin);
haul_status __wrap_haul__transfer_from_host(haul__storage *to, size_t offset, const void *host, size_t bytes,
                                            bool fresh, const char *origin)
{
    copying outer = begin_copy();
    return end_copy(outer, __real_haul__transfer_from_host(to, offset, host, bytes, fresh, origin));
}

haul_status __real_haul__transfer_to_host(void *host, haul__storage *from, size_t offset, size_t bytes,
                                          const char *origin);
haul_status __wrap_haul__transfer_to_host(void *host, haul__storage *from, size_t offset, size_t bytes,
                                          const char *origin);
haul_status __wrap_haul__transfer_to_host(void *host, haul__storage *from, size_t offset, size_t bytes,
                                          const char *origin)
{
    copying outer = begin_copy();
    return end_copy(outer, __real_haul__transfer_to_host(host, from, offset, bytes, origin));
}

/* ---- the events' side ---- */

static void hear(const haul_event *e, void *context)
{
    (void)context;
    ledger_direction direction = e->kind == HAUL_EVENT_COPY_TO_DEVICE ? LEDGER_UP
                                 : e->kind == HAUL_EVENT_COPY_TO_HOST ? LEDGER_DOWN
                                                                      : LEDGER_BETWEEN;
    atomic_fetch_add(&heard[direction], (long long)e->bytes);
}

static haul__subscriber subscriber = {.of = {.take = hear, .kinds = HAUL_EVENT_COPY, .everywhere = true}};

void ledger_stop(void)
{
    haul__detach(&subscriber);
    atomic_store(&stopped, true);
}

void ledger_go_on(void)
{
    atomic_store(&stopped, false);
    haul__attach(&subscriber);
}

static void compare(void)
{
    static const char *const names[] = {"to devices", "to the host", "between devices"};
    bool                     equal = true;
    for (int i = 0; i < LEDGER_DIRECTIONS; i++) {
        long long backends = atomic_load(&asked[i]), events = atomic_load(&heard[i]);
        if (backends != events)
            fprintf(stderr,
                    "ledger: backends were asked to copy %lld bytes %s, and events tell of %lld: a difference of "
                    "%lld\n",
                    backends, names[i], events, events - backends);
        equal = equal && backends == events;
    }
    if (!equal)
        _exit(1);
}

/* Registered first, it runs last. */
__attribute__((constructor)) static void begin_ledger(void)
{
    if (!haul__attach(&subscriber) || atexit(compare) != 0)
        abort();
}
