#include "plan/cluster/stage.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/numbers.h"
#include "core/error.h"
#include "machine/picoseconds.h"
#include "plan/cluster/exchange.h"

enum { ADDED = 3 /* x += y reads two and writes one */ };

/* ---- copies over borders ---- */

/* Each tensor has its own latency. */
static int64_t copies(const haul__cluster_request *r, bool leaves_host, int64_t bytes, int64_t count)
{
    const int     peer = haul__exchange_peer(r->machine, r->device);
    const int64_t each = count ? bytes / count : 0, rest = larger(count - 1, 0);
    int64_t       one;
    if (leaves_host)
        return count ? haul__ps_add(haul__ps_of_waits(r->latency_ns, count), haul__ps_at_rate(bytes, r->rate)) : 0;
    if (peer)
        one = haul__machine_copy_time(r->machine, r->device, peer, each, true);
    else
        one = haul__ps_add(haul__machine_copy_time(r->machine, r->device, 0, each, true),
                           haul__machine_copy_time(r->machine, 0, r->device, each, true));
    return count ? haul__ps_add(one, haul__ps_times(one, rest)) : 0;
}

/* The stage behind the border begins a host. */
static bool leaves_host(const haul__cluster_request *r, int stage)
{
    return (stage + 1) % r->per_host == 0;
}

/* ---- cutting ---- */

/* The least time of the longest stage, if the first units are in the stages so far; `from` is the first unit of the
 * last one. */
typedef struct cut {
    int64_t longest;
    int     from;
} cut;

static int64_t border(const haul__units *u, const haul__cluster_request *r, int stage, int unit)
{
    HAUL__ASSERT(stage > 0 && unit > 0 && unit < u->count);
    const haul__unit *before = &u->items[unit - 1];
    return haul__ps_add(copies(r, leaves_host(r, stage - 1), before->up, before->up_count),
                        copies(r, leaves_host(r, stage - 1), before->down, before->down_count));
}

/* Stages have one unit with gradients at least. */
static void cut_before(const haul__units *u, const int64_t *border_ps, cut *best, int stage, int end)
{
    HAUL__ASSERT(0 <= end && end <= u->count);
    const int row = u->count + 1;
    int64_t   here = 0;
    bool      trains = false;
    cut      *out = &best[(size_t)stage * row + end];
    *out = (cut){HAUL__MACHINE_MOST_PS, end - 1};
    for (int from = end - 1; from >= stage; from--) {
        here = haul__ps_add(here, haul__ps_add(u->items[from].forward_ps, u->items[from].backward_ps));
        trains = trains || u->items[from].gradients > 0;
        if (!trains)
            continue;
        const int64_t before = stage  ? best[(size_t)(stage - 1) * row + from].longest
                               : from ? HAUL__MACHINE_MOST_PS
                                      : 0;
        const int64_t longest = larger(before, stage ? haul__ps_add(here, border_ps[from]) : here);
        if (longest < out->longest)
            *out = (cut){longest, from};
    }
}

static void add_units(const haul__units *u, const haul__cluster_request *r, int number, int count, haul__stage *s)
{
    HAUL__ASSERT(s->first < s->end && s->end <= u->count); /* a stage has one unit at least */
    for (int i = s->first; i < s->end; i++) {
        const haul__unit *x = &u->items[i];
        s->forward_ps = haul__ps_add(s->forward_ps, x->forward_ps);
        s->backward_ps = haul__ps_add(s->backward_ps, x->backward_ps);
        s->update_ps = haul__ps_add(s->update_ps, x->update_ps);
        s->sum.parameters += x->parameters;
        s->sum.gradients += x->gradients;
        s->sum.state += x->state;
        s->sum.other += x->other;
        s->sum.count += x->count;
        s->sum.metrics_ps = haul__ps_add(s->sum.metrics_ps, x->metrics_ps);
        s->sum.largest = larger(s->sum.largest, x->largest);
    }
    const haul__unit *last = &u->items[s->end - 1], *before = s->first ? &u->items[s->first - 1] : NULL;
    s->add_ps = haul__ps_at_rate(ADDED * s->sum.gradients, r->machine->devices[r->device].bytes_per_second);
    if (count > 1) /* each gradient by itself; one device adds buckets */
        s->add_ps = haul__ps_add(s->add_ps, haul__ps_of_waits(r->machine->devices[r->device].launch_ns, s->sum.count));
    s->sent_bytes = (number + 1 < count ? last->up : 0) + (before ? before->down : 0);
    if (number + 1 < count) {
        s->up_ps = copies(r, leaves_host(r, number), last->up, last->up_count);
        s->down_ps = copies(r, leaves_host(r, number), last->down, last->down_count);
    }
}

int64_t haul__stage_shared(const haul__cluster_request *r, int64_t ps, int ranks)
{
    return r->device ? ps : haul__machine_divided(r->machine, ps, ranks);
}

void haul__stage_share(haul__stage *s, const haul__cluster_request *r, int ranks)
{
    int64_t *all[] = {&s->forward_ps, &s->backward_ps, &s->update_ps, &s->add_ps, &s->sum.metrics_ps};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        *all[i] = haul__stage_shared(r, *all[i], ranks);
}

static void take_stages(const haul__units *u, const cut *best, int count, haul__stage *out)
{
    int end = u->count;
    for (int s = count - 1; s >= 0; s--) {
        const int from = s ? best[(size_t)s * (u->count + 1) + end].from : 0;
        out[s] = (haul__stage){.first = from, .end = end};
        HAUL__ASSERT(out[s].first <= out[s].end);
        end = from;
    }
    HAUL__ASSERT(end == 0); /* the stages have all units */
}

haul_status haul__stages_cut(const haul__units *u, const haul__cluster_request *r, int count, haul__stage *out)
{
    const size_t row = (size_t)u->count + 1, n = u->graph.operation_count;
    cut         *best = haul__calloc((size_t)count * row, sizeof *best);
    int64_t     *border_ps = haul__calloc(row, sizeof *border_ps), *change = haul__calloc(n + 1, sizeof *change);
    haul_status  status =
        best && border_ps && change ? HAUL_OK : haul__fail_memory("haul plan", (size_t)count * row * sizeof *best);
    HAUL__ASSERT(0 < count && count <= u->count && count <= HAUL__CLUSTER_STAGES);
    for (int s = 0; s < count && !status; s++) {
        for (int i = 1; s && i < u->count; i++)
            border_ps[i] = border(u, r, s, i);
        for (int end = 0; end <= u->count; end++)
            cut_before(u, border_ps, best, s, end);
    }
    if (!status)
        take_stages(u, best, count, out);
    for (int s = 0; s < count && !status; s++) {
        add_units(u, r, s, count, &out[s]);
        out[s].memory = haul__units_memory_of(u, out[s].first, out[s].end, change);
    }
    haul__free(best);
    haul__free(border_ps);
    haul__free(change);
    return status;
}

/* ---- running ---- */

/* Parameters are fetched while others are used. */
static int64_t pass(int64_t ps, const haul__stage *s, bool fetches)
{
    return fetches ? larger(ps, s->fetch_ps) : ps;
}

void haul__stages_run(haul__stage *stages, int count, int parts, bool fetches)
{
    HAUL__ASSERT(0 < count && count <= HAUL__CLUSTER_STAGES && parts > 0);
    int64_t up[HAUL__CLUSTER_STAGES] = {0}, down[HAUL__CLUSTER_STAGES] = {0}; /* when the links are free */
    for (int s = 0; s < count; s++)
        stages[s].done_ps = 0;
    for (int i = 0; i < parts; i++)
        for (int s = 0; s < count; s++) {
            haul__stage *x = &stages[s];
            x->done_ps = haul__ps_add(larger(x->done_ps, s ? up[s - 1] : 0), pass(x->forward_ps, x, fetches));
            up[s] = haul__ps_add(larger(up[s], x->done_ps), x->up_ps);
        }
    for (int i = 0; i < parts; i++)
        for (int s = count - 1; s >= 0; s--) {
            haul__stage *x = &stages[s];
            x->last_ps = larger(haul__ps_add(x->done_ps, i ? x->add_ps : 0), s + 1 < count ? down[s] : 0);
            x->done_ps = haul__ps_add(x->last_ps, pass(x->backward_ps, x, fetches));
            if (s)
                down[s - 1] = haul__ps_add(larger(down[s - 1], x->done_ps), stages[s - 1].down_ps);
        }
}
