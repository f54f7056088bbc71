#include "plan/cluster/ranks.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/numbers.h"
#include "core/error.h"
#include "group/tree.h"
#include "machine/picoseconds.h"
#include "plan/cluster/exchange.h"
#include "record/work.h"

enum { ADDED = 3 /* x += y reads two and writes one */ };

#define MOST_BYTES (INT64_C(1) << 42) /* of gradients: products with ranks and rounds do not overflow */

/* The program's time on the device, and when it has which gradients. */
typedef struct timeline {
    int64_t *ready; /* of each store with a gradient: picoseconds from the start of the step to its last value in the
                     * backward pass; 0: it has none */
    int64_t passes, update; /* picoseconds */
    int64_t bytes;          /* of gradients */
} timeline;

/* ---- the program ---- */

/* The time of a rank that takes `ps` without the others of its host. Ranks that compute on the CPU share it. */
static int64_t shared(const haul__ranks_request *r, int64_t ps)
{
    return r->device ? ps : haul__machine_divided(r->machine, ps, r->per_host);
}

static int64_t time_of(const haul__ranks_request *r, const haul_program_operation *o)
{
    const haul__machine_work w = haul__program_work_of(r->program, o);
    const int64_t            alone = haul__machine_time(r->machine, r->device, &w);
    return haul__program_takes_time(o) ? shared(r, alone) : 0;
}

/* The operations up to this one are forward and backward pass; those after it update the parameters. */
static int64_t last_of_passes(const haul_program *p)
{
    int64_t last = p->operation_count - 1;
    while (last >= 0 && strcmp(p->operations[last].section, "backward pass") != 0)
        last--;
    return last;
}

static void note_results(const haul_program *p, const haul_program_operation *o, int64_t now, timeline *out)
{
    for (int64_t v = o->value; v < o->value + o->operand_count + o->result_count; v++) {
        const int64_t store = p->values[v].store;
        if (store >= 0 && p->values[v].written && !strcmp(p->stores[store].role, "gradients"))
            out->ready[store] = larger(now, 1);
    }
}

static haul_status find_timeline(const haul__ranks_request *r, timeline *out)
{
    const haul_program *p = r->program;
    const int64_t       last = last_of_passes(p);
    *out = (timeline){.ready = haul__calloc((size_t)p->store_count + 1, sizeof *out->ready)};
    if (!out->ready)
        return haul__fail_memory("haul__ranks_predict", ((size_t)p->store_count + 1) * sizeof *out->ready);
    for (int64_t i = 0; i < p->operation_count; i++) {
        int64_t *part = i <= last ? &out->passes : &out->update;
        *part = haul__ps_add(*part, time_of(r, &p->operations[i]));
        if (i <= last)
            note_results(p, &p->operations[i], out->passes, out);
    }
    for (int64_t s = 0; s < p->store_count && out->bytes <= MOST_BYTES; s++)
        out->bytes += out->ready[s] ? smaller(p->stores[s].bytes, MOST_BYTES + 1) : 0;
    HAUL__ASSERT(last < p->operation_count && out->bytes >= 0);
    if (out->bytes > MOST_BYTES)
        return haul__fail(HAUL_INVALID_ARGUMENT, "haul__ranks_predict", "program",
                          "the gradients take more than 4 TiB; give a smaller network");
    return out->bytes ? HAUL_OK
                      : haul__fail(HAUL_INVALID_ARGUMENT, "haul__ranks_predict", "program",
                                   "the program has no gradients of parameters; record a training step");
}

/* ---- the exchange ---- */

/* The most sums that a rank sends: one for each of its nodes. */
static int most_nodes(const haul__ranks_request *r)
{
    const haul__tree tree = {.pieces = r->pieces, .ranks = r->ranks};
    haul__tree_node  nodes[HAUL__TREE_NODES];
    int              most = 0;
    for (int rank = 0; rank < r->ranks; rank++)
        most = (int)larger(most, haul__tree_nodes(&tree, rank, nodes));
    return most;
}

static haul__exchange exchange_of(const haul__ranks_request *r)
{
    return (haul__exchange){.machine = r->machine,
                            .device = r->device,
                            .ranks = r->ranks,
                            .near = r->per_host,
                            .groups = 1,
                            .rate = r->rate,
                            .latency_ns = r->latency_ns};
}

static int64_t exchange(const haul__exchange *x, int64_t bytes, int64_t nodes)
{
    return haul__ps_add(haul__exchange_staging(x, bytes),
                        haul__ps_add(haul__exchange_sum(x, bytes, nodes), haul__exchange_gather(x, bytes)));
}

/* ---- the step ---- */

/* The gradient that is ready first after this time; -1: none is. */
static int64_t next_ready(const haul__ranks_request *r, const timeline *t, int64_t after_ps, int64_t after)
{
    int64_t found = -1;
    for (int64_t s = 0; s < r->program->store_count; s++) {
        const bool later = t->ready[s] > after_ps || (t->ready[s] == after_ps && s > after);
        if (t->ready[s] && later && (found < 0 || t->ready[s] < t->ready[found]))
            found = s;
    }
    HAUL__ASSERT(found < 0 || t->ready[found] >= after_ps);
    return found;
}

/* Exchanges the gradients in buckets, in the order in which the pass finishes them. Returns when the last one is there,
 * from the start of the pass. */
static int64_t exchange_all(const haul__ranks_request *r, const timeline *t, haul__ranks_step *out)
{
    const int            nodes = most_nodes(r);
    const haul__exchange x = exchange_of(r);
    const bool           overlaps = r->overlaps && !haul__exchange_takes_cores(&x);
    int64_t              free_at = 0, ready = 0, filled = 0, last = -1, next = next_ready(r, t, 0, -1);
    while (next >= 0) {
        filled += r->program->stores[next].bytes;
        ready = t->ready[next];
        last = next;
        next = next_ready(r, t, ready, last);
        if (filled < r->bucket && next >= 0)
            continue;
        HAUL__ASSERT(last >= 0 && ready > 0);
        const int64_t takes = exchange(&x, filled, nodes), start = larger(free_at, overlaps ? ready : t->passes);
        free_at = haul__ps_add(start, takes);
        out->exchange_ps = haul__ps_add(out->exchange_ps, takes);
        out->staging_ps = haul__ps_add(out->staging_ps, haul__exchange_staging(&x, filled));
        out->sent_bytes += haul__exchange_sent(&x, filled) * (nodes + 1);
        filled = 0;
    }
    HAUL__ASSERT(filled == 0); /* the last gradient ends a bucket */
    return free_at;
}

static haul_status check(const haul__ranks_request *r)
{
    if (r->ranks >= 1 && r->ranks <= HAUL__MOST_RANKS && r->pieces >= r->ranks && r->pieces <= HAUL__MOST_PIECES &&
        r->per_host >= 1 && r->rate >= 1 && r->latency_ns >= 0 && r->bucket >= 1)
        return HAUL_OK;
    return haul__fail(HAUL_INVALID_ARGUMENT, "haul__ranks_predict", "ranks",
                      "there are %d ranks and %d pieces; from 1 to %d ranks are expected, at most one for each piece",
                      r->ranks, r->pieces, HAUL__MOST_RANKS);
}

/* A binary counter of sums: one for each bit of the number of pieces that are summed. */
static int64_t sums_of(int pieces)
{
    int64_t sums = 0;
    for (; pieces; pieces /= 2)
        sums++;
    return sums;
}

haul_status haul__ranks_predict(const haul__ranks_request *request, haul__ranks_step *out)
{
    haul__ranks_request r = *request;
    timeline            t = {0};
    *out = (haul__ranks_step){0};
    haul_status status = check(&r);
    r.per_host = (int)smaller(r.per_host, r.ranks);
    if (!status)
        status = find_timeline(&r, &t);
    if (!status) {
        const int64_t each = haul__ceil_div(r.pieces, r.ranks), end = r.ranks > 1 ? exchange_all(&r, &t, out) : 0;
        HAUL__ASSERT(each >= 1 && each * r.ranks >= r.pieces);
        const int64_t added =
            shared(&r, haul__ps_at_rate(ADDED * (each - 1) * t.bytes, r.machine->devices[r.device].bytes_per_second));
        out->hosts = haul__ceil_div(r.ranks, r.per_host);
        out->pieces_each = (int)each;
        out->compute_ps = haul__ps_add(haul__ps_times(t.passes, each), added);
        out->waited_ps = larger(end - t.passes, 0);
        out->update_ps = t.update;
        out->step_ps = haul__ps_add(haul__ps_add(out->compute_ps, out->waited_ps), out->update_ps);
        out->gradient_bytes = t.bytes;
        out->sum_bytes = t.bytes * sums_of((int)each);
    }
    haul__free(t.ready);
    return status;
}
