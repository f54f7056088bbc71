#include "plan/graph/makespan.h"

#include <math.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/numbers.h"
#include "core/error.h"
#include "plan/graph/timeline.h"

/* ---- tensors by operation ---- */

static void list_tensors(haul__makespan *s)
{
    const haul__place_graph *g = s->graph;
    for (size_t i = 0; i < g->use_count; i++)
        s->input[g->uses[i].operation + 1]++;
    for (size_t t = 0; t < g->tensor_count; t++)
        s->made[g->tensors[t].producer + 1]++;
    for (size_t i = 0; i < g->operation_count; i++) {
        s->input[i + 1] += s->input[i];
        s->made[i + 1] += s->made[i];
    }
    /* Number i + 1 is where the list of operation i ends. Lists are filled from there, and each entry lowers it, until
     * it is where the list begins. */
    for (size_t i = g->use_count; i > 0; i--)
        s->inputs[--s->input[g->uses[i - 1].operation + 1]] = g->uses[i - 1].tensor;
    for (size_t t = g->tensor_count; t > 0; t--)
        s->makes[--s->made[g->tensors[t - 1].producer + 1]] = (int)t - 1;
    for (size_t i = 0; i < g->operation_count; i++) {
        s->input[i] = s->input[i + 1];
        s->made[i] = s->made[i + 1];
    }
    s->input[g->operation_count] = (int)g->use_count;
    s->made[g->operation_count] = (int)g->tensor_count;
    HAUL__ASSERT(s->input[0] == 0 && s->made[0] == 0);
    HAUL__ASSERT(g->operation_count == 0 || s->input[g->operation_count - 1] <= (int)g->use_count);
}

haul_status haul__makespan_new(const haul__place_graph *g, haul__makespan *out)
{
    const size_t n = g->operation_count + 2, tensors = g->tensor_count + 1, devices = (size_t)g->device_count;
    *out = (haul__makespan){.graph = g,
                            .inputs = haul__calloc(g->use_count + 1, sizeof *out->inputs),
                            .input = haul__calloc(n, sizeof *out->input),
                            .makes = haul__calloc(tensors, sizeof *out->makes),
                            .made = haul__calloc(n, sizeof *out->made),
                            .ready = haul__calloc(tensors * devices, sizeof *out->ready),
                            .number = haul__calloc(tensors, sizeof *out->number)};
    if (!out->inputs || !out->input || !out->makes || !out->made || !out->ready || !out->number)
        return haul__fail_memory("haul plan", tensors * (devices + 1) * sizeof *out->ready);
    list_tensors(out);
    return HAUL_OK;
}

void haul__makespan_free(haul__makespan *s)
{
    haul__free(s->inputs);
    haul__free(s->input);
    haul__free(s->makes);
    haul__free(s->made);
    haul__free(s->ready);
    haul__free(s->number);
    *s = (haul__makespan){0};
}

int64_t haul__makespan_effort(const haul__makespan *s)
{
    const haul__place_graph *g = s->graph;
    return (int64_t)(g->operation_count + g->use_count + g->tensor_count * (size_t)g->device_count) + 1;
}

/* ---- the makespan ---- */

typedef struct run {
    haul__makespan *s;
    const uint8_t  *place;
    haul__timeline  of[HAUL__PLACE_DEVICES];
    int64_t         waits;
} run;

/* When the tensor is on the device; it is copied unless it is there. */
static int64_t bring(run *r, int tensor, int on)
{
    const haul__place_graph  *g = r->s->graph;
    const haul__place_tensor *t = &g->tensors[tensor];
    const size_t              n = (size_t)g->device_count, row = (size_t)tensor * n;
    int64_t                  *there = &r->s->ready[row + (size_t)on];
    const int                 from = r->place[g->operations[t->producer].group];
    if (*there >= 0)
        return *there;
    const int64_t ps = haul__place_copy_time(g, t, from, on), made = r->s->ready[row + (size_t)from];
    HAUL__ASSERT(made >= 0); /* operations are in the order of the graph */
    const int64_t readable = r->s->number[tensor] ? haul__timeline_after(&r->of[from], r->s->number[tensor]) : made;
    int64_t      *lane = on ? &r->of[on].up : &r->of[from].down;
    *there = larger(r->of[0].compute, readable);
    if (ps)
        *there = *lane = larger(*there, *lane) + ps;
    return *there;
}

static void add_operation(run *r, size_t i)
{
    haul__makespan              *s = r->s;
    const haul__place_operation *o = &s->graph->operations[i];
    const int                    on = r->place[o->group];
    haul__timeline              *t = &r->of[on];
    int64_t                      ready = 0;
    HAUL__ASSERT(o->cost[on] != HAUL__PLACE_NEVER);
    for (int k = s->input[i]; k < s->input[i + 1]; k++)
        ready = larger(ready, bring(r, s->inputs[k], on));
    if (o->cost[on]) {
        const int64_t idle = larger(r->of[0].compute, t->compute), start = larger(idle, ready);
        r->waits += start - idle;
        t->compute = ready = start + o->cost[on];
        t->number += on > 0;
    }
    HAUL__ASSERT(ready >= 0);
    for (int k = s->made[i]; k < s->made[i + 1]; k++) {
        const size_t tensor = (size_t)s->makes[k];
        s->ready[tensor * (size_t)s->graph->device_count + (size_t)on] = ready;
        s->number[tensor] = on && o->call >= 0 ? t->number : 0;
    }
}

int64_t haul__makespan_of(haul__makespan *s, const uint8_t *place, int64_t *waits)
{
    const haul__place_graph *g = s->graph;
    run                      r = {.s = s, .place = place};
    int64_t                  end = 0;
    for (size_t i = 0; i < g->tensor_count * (size_t)g->device_count; i++)
        s->ready[i] = -1;
    for (size_t i = 0; i < g->operation_count; i++)
        add_operation(&r, i);
    for (int d = 0; d < g->device_count; d++)
        end = larger(end, larger(r.of[d].compute, larger(r.of[d].up, r.of[d].down)));
    HAUL__ASSERT(end >= 0 && r.waits >= 0);
    if (waits)
        *waits = r.waits;
    return end;
}

/* ---- priorities ---- */

static double mean_cost(const haul__place_graph *g, const haul__place_operation *o)
{
    double sum = 0;
    int    count = 0;
    for (int d = 0; d < g->device_count; d++)
        if (o->cost[d] != HAUL__PLACE_NEVER) {
            sum += (double)o->cost[d];
            count++;
        }
    return count ? sum / count : 0;
}

static double mean_copy(const haul__place_graph *g, const haul__place_tensor *t)
{
    const int n = g->device_count;
    double    sum = 0;
    for (int i = 0; i < n * n; i++)
        sum += i / n != i % n ? (double)haul__place_copy_time(g, t, i / n, i % n) : 0;
    return sum / (n * n);
}

void haul__makespan_ranks(const haul__makespan *s, double *out)
{
    const haul__place_graph *g = s->graph;
    for (size_t i = g->operation_count; i > 0; i--) {
        double longest = 0;
        for (int k = s->made[i - 1]; k < s->made[i]; k++) {
            const haul__place_tensor *t = &g->tensors[s->makes[k]];
            const double              copy = mean_copy(g, t);
            for (int u = t->use; u < t->use + t->use_count; u++)
                if ((size_t)g->uses[u].operation >= i)
                    longest = fmax(longest, copy + out[g->uses[u].operation]);
        }
        out[i - 1] = mean_cost(g, &g->operations[i - 1]) + longest;
    }
}
