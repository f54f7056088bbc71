/* What commands take, from the machine's file. */
#include "backends/sim/sim.h"
#include "base/assert.h"
#include "base/system/clock.h"

static _Atomic(const haul__machine *) first;

/* An operation under way: what its first command takes in addition; 0 after that. */
static _Thread_local struct {
    bool    within;
    int64_t ps;
} under_way;

void haul__sim_machine_begin(const haul__machine *machine)
{
    const haul__machine *none = NULL;
    atomic_compare_exchange_strong(&first, &none, machine);
}

const haul__machine *haul__sim_machine(const haul_device *device, int *number)
{
    const haul__machine *of_process = atomic_load_explicit(&first, memory_order_acquire);
    *number = 0;
    if (!of_process || device->backend != &haul__backend_sim)
        return of_process;
    const haul__sim_device *own = device->impl;
    *number = own->number;
    return own->machine;
}

void haul__sim_operation_begin(int64_t ps)
{
    HAUL__ASSERT(ps >= 0);
    under_way.within = true;
    under_way.ps = ps;
}

bool haul__sim_within_operation(void)
{
    return under_way.within;
}

void haul__sim_operation_end(void)
{
    under_way.within = false;
    under_way.ps = 0;
}

/* A command that computes, or moves bytes within the device. */
static int64_t time_here(const haul__machine *m, int number, const haul__command *c)
{
    const bool moves = c->kind == HAUL__COMMAND_COPY || c->kind == HAUL__COMMAND_FILL;
    HAUL__ASSERT(0 <= number && number < m->device_count && (under_way.within || !under_way.ps));
    const int64_t ps = under_way.ps, launch = 1000 * m->devices[number].launch_ns;
    if (!under_way.within)
        return moves ? haul__machine_copy_time(m, number, number, (int64_t)c->bytes, true) : launch;
    under_way.ps = 0;
    return launch + ps;
}

/* Over a link. Host memory is pinned if it is a storage, and not a buffer for the program's pageable memory. The parts
 * of a copy take the time of the whole: the latency once, and no picosecond is lost to rounding. */
static int64_t time_of_copy(const haul__machine *m, int from, int to, const haul__command *c, int64_t copied)
{
    const bool pinned = c->buffer_count == 2 && !c->staged;
    HAUL__ASSERT(copied >= 0 && from != to);
    const int64_t before = copied ? haul__machine_copy_time(m, from, to, copied, pinned) : 0;
    return c->copy ? haul__machine_copy_time(m, from, to, copied + (int64_t)c->bytes, pinned) - before : 0;
}

int64_t haul__sim_time(const haul__command *c, int64_t copied)
{
    int                  number, other;
    const haul__machine *m = haul__sim_machine(c->device, &number);
    HAUL__ASSERT(m && copied >= 0);
    switch (c->kind) {
    case HAUL__COMMAND_WRITE: return time_of_copy(m, 0, number, c, copied);
    case HAUL__COMMAND_READ: return time_of_copy(m, number, 0, c, copied);
    case HAUL__COMMAND_PEER:
        HAUL__ASSERT(c->buffer_count == 2);
        haul__sim_machine(c->buffers[1].storage->device, &other);
        return time_of_copy(m, other, number, c, copied);
    case HAUL__COMMAND_CALLBACK: return 0;
    default: return time_here(m, number, c);
    }
}

void haul__sim_host_done(const haul__command *c)
{
    const bool crosses = c->kind == HAUL__COMMAND_WRITE || c->kind == HAUL__COMMAND_READ;
    if (!crosses)
        haul__clock_advance(haul__sim_time(c, 0));
}
