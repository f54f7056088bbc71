#include "plan/cluster/exchange.h"

#include "base/assert.h"
#include "base/numbers.h"
#include "machine/picoseconds.h"

enum { INSIDE_NS = 1000 /* latency of a message within a host */ };

/* Bytes a second of messages that a core moves from one process to another on its host: 1.6 to 3.3 GB/s by haul bench
 * group with Open MPI 4.1 and messages of 2 to 32 MiB on an AMD EPYC, whose memory moves ten times as much. */
#define INSIDE_RATE INT64_C(2500000000)

static int64_t rounds_of(int ranks)
{
    int64_t rounds = 0;
    while ((1 << rounds) < ranks)
        rounds++;
    HAUL__ASSERT(ranks <= 1 << rounds);
    return rounds;
}

int haul__exchange_peer(const haul__machine *m, int device)
{
    for (int d = 1; device && d < m->device_count; d++)
        if (d != device && haul__machine_link_of(m, device, d))
            return d;
    return 0;
}

static const haul__machine_link *link_of(const haul__exchange *x)
{
    const int peer = x->direct ? haul__exchange_peer(x->machine, x->device) : 0;
    return peer ? haul__machine_link_of(x->machine, x->device, peer) : NULL;
}

static int64_t inside_ns(const haul__exchange *x)
{
    const haul__machine_link *link = link_of(x);
    return link ? link->latency_ns : INSIDE_NS;
}

/* The time in which each rank of a host reads and writes so many bytes of its memory. */
static int64_t by_ranks(const haul__exchange *x, int64_t bytes)
{
    const int64_t alone = haul__ps_at_rate(bytes, x->machine->devices[0].bytes_per_second);
    return haul__machine_divided(x->machine, alone, (int64_t)x->groups * x->near);
}

/* Each rank copies so many bytes from the memory of other processes of its host: the longer one of what a core for each
 * rank and what the host's memory need, which are read and written. */
static int64_t from_processes(const haul__exchange *x, int64_t bytes)
{
    const int64_t ranks = (int64_t)x->groups * x->near, cores = x->machine->devices[0].cores; /* 0: not known */
    const int64_t alone = haul__ps_at_rate(bytes, INSIDE_RATE);
    return larger(cores && ranks > cores ? haul__ps_times(alone, ranks) / cores : alone, by_ranks(x, 2 * bytes));
}

/* The longer one: `outside` bytes of the group cross each host's interface while each rank moves `inside` bytes within
 * the host: over its link, or through the host's memory. */
static int64_t moving(const haul__exchange *x, int64_t outside, int64_t inside)
{
    const haul__machine_link *link = link_of(x);
    const int64_t             within = link ? haul__ps_at_rate(inside, link->pinned) : from_processes(x, inside);
    return larger(haul__ps_at_rate(x->groups * outside, x->rate), within);
}

int64_t haul__exchange_latency(const haul__exchange *x, int64_t messages)
{
    return haul__ps_of_waits(x->ranks > x->near ? x->latency_ns : inside_ns(x), messages);
}

/* Each rank has `bytes` and sends every rank a part of them. */
static int64_t all_to_all(const haul__exchange *x, int64_t bytes)
{
    const int64_t ranks = x->ranks, near = x->near, far = ranks - near, rounds = rounds_of(x->ranks);
    const int64_t pairs =
        haul__ps_add(haul__ps_of_waits(x->latency_ns, far) + haul__ps_of_waits(inside_ns(x), near - 1),
                     moving(x, near * (bytes / ranks) * far, bytes / ranks * (near - 1)));
    HAUL__ASSERT(near >= 1 && far >= 0);
    const int64_t half = bytes / 2 * rounds;
    const int64_t bruck = haul__ps_add(haul__exchange_latency(x, rounds), moving(x, far ? near * half : 0, half));
    return smaller(pairs, bruck);
}

int64_t haul__exchange_gather(const haul__exchange *x, int64_t bytes)
{
    const int64_t ranks = x->ranks, near = x->near, far = ranks - near, got = bytes / ranks * (ranks - 1);
    const int64_t ring = haul__ps_add(haul__exchange_latency(x, ranks - 1), moving(x, far ? got : 0, got));
    const int64_t doubling =
        haul__ps_add(haul__exchange_latency(x, rounds_of(x->ranks)), moving(x, near * (bytes / ranks) * far, got));
    return smaller(ring, doubling);
}

int64_t haul__exchange_staging(const haul__exchange *x, int64_t bytes)
{
    if (x->direct || !x->device || x->machine->devices[x->device].shares_host_memory)
        return 0;
    return haul__ps_add(haul__machine_copy_time(x->machine, x->device, 0, bytes, true),
                        haul__machine_copy_time(x->machine, 0, x->device, bytes, true));
}

/* The owner of a part adds what it got from all ranks; without direct messages the ranks of a host share its memory. */
static int64_t adding(const haul__exchange *x, int64_t bytes, int64_t nodes)
{
    const int64_t moved = bytes * nodes + bytes / x->ranks;
    return x->direct ? haul__ps_at_rate(moved, x->machine->devices[x->device].bytes_per_second) : by_ranks(x, moved);
}

int64_t haul__exchange_sum(const haul__exchange *x, int64_t bytes, int64_t nodes)
{
    return haul__ps_add(all_to_all(x, bytes * nodes), adding(x, bytes, nodes));
}

bool haul__exchange_takes_cores(const haul__exchange *x)
{
    return !x->device && x->ranks <= x->near && haul__machine_is_busy(x->machine, (int64_t)x->groups * x->near);
}

int64_t haul__exchange_sent(const haul__exchange *x, int64_t bytes)
{
    return bytes / x->ranks * (x->ranks - 1);
}
