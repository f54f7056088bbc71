/* The ledger (haul/ledger.h) against what backends were asked for, in every test program.
 *
 * One side is a ledger of all threads, from before main on. The other stands between the library and the backends: the
 * linker (--wrap, tests/CMakeLists.txt) puts functions of this file in the place of `submit` of the backends whose
 * memory is behind a link, and the test backend (late.c) calls ledger_asked. Both know nothing of each other. When the
 * program exits the bytes must be equal in each direction, or it fails. Commands are not compared: a copy may be many.
 *
 * On neither side:
 *   - refused calls: a function that failed, and all chunks of a call of the copy function that failed;
 *   - copies of a subscriber to events, which make no events;
 *   - copies that a test asks of a backend itself (LEDGER_APART);
 *   - copies of the records of indices out of range, which do not count as transfers;
 *   - copies on the CPU and within a device, which cross no link. */
#include "support/ledger.h"

#include <haul/haul.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/command.h"
#include "device/index_fault.h"
#include "events/events.h"
#include "transfer/copy.h"

static haul_ledger *ledger;
static atomic_llong asked[LEDGER_DIRECTIONS];
static long long    heard[LEDGER_DIRECTIONS];
static atomic_bool  stopped;

/* A call of the copy function: the requested bytes count if it succeeds. */
typedef struct copying {
    bool      open;
    long long bytes[LEDGER_DIRECTIONS];
} copying;

const char ledger_operation[] = "test";

/* What the thread is doing. */
static _Thread_local bool    apart;
static _Thread_local copying copy;

/* ---- the backends' side ---- */

/* A device may spill, or return what it spilled, before it takes a command of a test: those copies count. */
static bool is_apart(const haul__command *c)
{
    return apart && strcmp(c->operation, ledger_operation) == 0;
}

haul_status ledger_asked(ledger_direction direction, const haul__command *c, haul_status status)
{
    if (status || is_apart(c) || haul__event_muted() || atomic_load(&stopped))
        return status;
    if (copy.open)
        copy.bytes[direction] += (long long)c->bytes;
    else
        atomic_fetch_add(&asked[direction], (long long)c->bytes);
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
    case HAUL__COMMAND_WRITE: return ledger_asked(LEDGER_UP, c, status);
    case HAUL__COMMAND_READ: return ledger_asked(LEDGER_DOWN, c, status);
    case HAUL__COMMAND_PEER: return ledger_asked(LEDGER_BETWEEN, c, status);
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
WRAP(haul__sim_submit)

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

haul_status __real_haul__transfer(const haul__copy *c);
haul_status __wrap_haul__transfer(const haul__copy *c);
haul_status __wrap_haul__transfer(const haul__copy *c)
{
    copying outer = begin_copy();
    return end_copy(outer, __real_haul__transfer(c));
}

/* ---- the ledger's side ---- */

static void hear(const haul_ledger_row *row)
{
    const haul_device *host = haul_cpu();
    ledger_direction   direction = row->from == host ? LEDGER_UP : row->to == host ? LEDGER_DOWN : LEDGER_BETWEEN;
    heard[direction] += row->bytes;
}

/* A ledger that no scope owns. */
static void begin(void)
{
    haul_scope *scope = haul_scope_push();
    ledger = haul_keep(haul_ledger_begin(.everywhere = true));
    haul_scope_pop(scope);
    if (!ledger)
        abort();
}

static void end(void)
{
    enum { ROWS = 256 };
    static haul_ledger_row rows[ROWS];
    const int              count = haul_ledger_rows(ledger, rows, ROWS, .by = HAUL_LEDGER_FROM | HAUL_LEDGER_TO);
    if (count < 0 || count > ROWS)
        abort();
    for (int i = 0; i < count; i++)
        hear(&rows[i]);
    haul_release(ledger);
    ledger = NULL;
}

void ledger_stop(void)
{
    end();
    atomic_store(&stopped, true);
}

void ledger_go_on(void)
{
    atomic_store(&stopped, false);
    begin();
}

static void compare(void)
{
    static const char *const names[] = {"to devices", "to the host", "between devices"};
    bool                     equal = true;
    if (ledger)
        end();
    for (int i = 0; i < LEDGER_DIRECTIONS; i++) {
        long long backends = atomic_load(&asked[i]), rows = heard[i];
        if (backends != rows)
            fprintf(stderr,
                    "ledger: backends were asked to copy %lld bytes %s, and the ledger has %lld: a difference of "
                    "%lld\n",
                    backends, names[i], rows, rows - backends);
        equal = equal && backends == rows;
    }
    if (!equal)
        _exit(1);
}

/* Registered first, it runs last. */
__attribute__((constructor)) static void begin_ledger(void)
{
    begin();
    if (atexit(compare) != 0)
        abort();
}
