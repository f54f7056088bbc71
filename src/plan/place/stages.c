/* A network in stages: consecutive modules on each device but the host, so that all of them can work at the same time
 * on different micro-batches (docs/decisions/039-pipelines.md). */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "core/error.h"
#include "plan/place/plan.h"

/* Times on each device. */
typedef struct module_times {
    double ps;     /* of all operations of the module there */
    double border; /* of the copies, if the module and later ones are there, and those before it on the device before */
} module_times;

/* Modules in the order of their first operations. */
typedef struct modules {
    const char **paths;
    module_times (*times)[HAUL__PLACE_DEVICES];
    size_t count, path_room, time_room;
} modules;

/* The least time of the longest stage, if the first `m` modules are on the devices up to that number; `from` is the
 * first module of the last one. */
typedef struct split {
    double longest;
    size_t from;
} split;

static bool has_stage(const haul__place_operation *o)
{
    return o->call >= 0 && *o->module && !o->outside;
}

/* SIZE_MAX: it has none. */
static size_t find_module(const modules *l, const char *path)
{
    for (size_t i = l->count; i > 0; i--)
        if (!strcmp(l->paths[i - 1], path))
            return i - 1;
    return SIZE_MAX;
}

static haul_status add_module(modules *l, const char *path)
{
    if (!haul__grow(&l->paths, &l->path_room, l->count + 1, sizeof *l->paths) ||
        !haul__grow(&l->times, &l->time_room, l->count + 1, sizeof *l->times))
        return haul__fail_memory("haul plan", l->count * sizeof *l->times);
    l->paths[l->count] = path;
    memset(l->times[l->count++], 0, sizeof *l->times);
    return HAUL_OK;
}

static haul_status list_modules(const haul__place_graph *g, modules *out)
{
    haul_status status = HAUL_OK;
    for (size_t i = 0; i < g->operation_count && !status; i++) {
        const haul__place_operation *o = &g->operations[i];
        if (!has_stage(o))
            continue;
        if (find_module(out, o->module) == SIZE_MAX)
            status = add_module(out, o->module);
        const size_t m = find_module(out, o->module);
        HAUL__ASSERT(status || m < out->count);
        for (int d = 0; d < g->device_count && !status; d++)
            out->times[m][d].ps += o->cost[d] == HAUL__PLACE_NEVER ? 0 : (double)o->cost[d];
    }
    return status;
}

/* A tensor of one module that others use crosses each border between them, in one direction. */
static void add_borders(const haul__place_graph *g, const haul__place_tensor *t, modules *l)
{
    const haul__place_operation *o = &g->operations[t->producer];
    const size_t                 made = has_stage(o) ? find_module(l, o->module) : SIZE_MAX;
    size_t                       first = made, last = made;
    for (int k = t->use; made != SIZE_MAX && k < t->use + t->use_count; k++) {
        const haul__place_operation *user = &g->operations[g->uses[k].operation];
        const size_t                 m = has_stage(user) ? find_module(l, user->module) : made;
        first = m < first ? m : first;
        last = m > last ? m : last;
    }
    HAUL__ASSERT(first <= made && made <= last && (made == SIZE_MAX || last < l->count));
    for (size_t m = first; made != SIZE_MAX && m < last; m++)
        for (int d = 2; d < g->device_count; d++) {
            const bool forward = m >= made;
            l->times[m + 1][d].border += (double)haul__place_copy_time(g, t, forward ? d - 1 : d, forward ? d : d - 1);
        }
}

/* The best end of the devices before for `m` modules, of which the rest is on the device. `best` has a row for each
 * device. */
static void split_before(const modules *l, split *best, int device, size_t m)
{
    const size_t row = l->count + 1;
    HAUL__ASSERT(device > 0 && m <= l->count);
    double here = 0;
    split *out = &best[(size_t)device * row + m];
    *out = (split){INFINITY, m};
    for (size_t from = m;; from--) {
        const double border = from < m ? l->times[from][device].border : 0;
        const double longest = fmax(best[(size_t)(device - 1) * row + from].longest, here + border);
        if (longest < out->longest)
            *out = (split){longest, from};
        if (!from)
            return;
        here += l->times[from - 1][device].ps;
    }
}

/* The device of each module. */
static haul_status find_stages(const modules *l, int device_count, uint8_t *device)
{
    const size_t row = l->count + 1;
    split       *best = haul__calloc((size_t)device_count * row, sizeof *best);
    if (!best)
        return haul__fail_memory("haul plan", (size_t)device_count * row * sizeof *best);
    for (size_t m = 1; m < row; m++)
        best[m].longest = INFINITY; /* the host has no stage */
    for (int d = 1; d < device_count; d++)
        for (size_t m = 0; m < row; m++)
            split_before(l, best, d, m);
    size_t end = l->count;
    for (int d = device_count - 1; d > 0; d--) {
        const size_t from = best[(size_t)d * row + end].from;
        HAUL__ASSERT(from <= end);
        memset(device + from, d, end - from);
        end = from;
    }
    HAUL__ASSERT(end == 0); /* the stages have all modules */
    haul__free(best);
    return HAUL_OK;
}

/* False if the host is the only device that the group can run on. */
static bool can_leave_host(const haul__place_graph *g, const int64_t *cost)
{
    bool can = false;
    for (int d = 1; d < g->device_count; d++)
        can = can || cost[d] != HAUL__PLACE_NEVER;
    return can;
}

/* The first stage of each group's operations that the group can be in; 0: there is none. A gradient that modules of
 * several stages add to is in the first one: in a backward pass a copy to a later stage would wait for an earlier one.
 */
static void find_first_stages(const haul__place_graph *g, const modules *l, const uint8_t *device, uint8_t *first)
{
    for (size_t i = 0; i < g->operation_count; i++) {
        const haul__place_operation *o = &g->operations[i];
        const uint8_t                stage = has_stage(o) ? device[find_module(l, o->module)] : 0;
        HAUL__ASSERT(stage < g->device_count);
        uint8_t *now = &first[o->group];
        if (stage && haul__place_allows(g, o->group, stage) && (!*now || stage < *now))
            *now = stage;
    }
}

/* Operations of modules stay in their stages, unless their groups cannot. The others leave the host, which would wait
 * for the devices. */
static void keep_in_stages(const haul__place_graph *g, const uint8_t *first, haul__place_group *groups)
{
    for (size_t k = 0; k < g->group_count; k++)
        for (int d = 0; first[k] && d < g->device_count; d++)
            groups[k].cost[d] = d == first[k] ? groups[k].cost[d] : HAUL__PLACE_NEVER;
    for (size_t i = 0; i < g->operation_count; i++) {
        const haul__place_operation *o = &g->operations[i];
        int64_t                     *cost = groups[o->group].cost;
        if (o->call >= 0 && can_leave_host(g, cost))
            cost[0] = HAUL__PLACE_NEVER;
    }
}

static haul_status place_stages(const haul__place_graph *g, const modules *l, haul__placement *out)
{
    haul__place_graph kept = *g;
    uint8_t          *device = haul__calloc(l->count + 1, 1), *first = haul__calloc(g->group_count + 1, 1);
    kept.groups = haul__malloc((g->group_count + 1) * sizeof *kept.groups);
    haul_status status = device && first && kept.groups
                             ? find_stages(l, g->device_count, device)
                             : haul__fail_memory("haul plan", g->group_count * sizeof *kept.groups);
    if (!status) {
        memcpy(kept.groups, g->groups, g->group_count * sizeof *kept.groups);
        find_first_stages(g, l, device, first);
        keep_in_stages(g, first, kept.groups);
        status = haul__place_solve(&kept, out);
    }
    haul__free(device);
    haul__free(first);
    haul__free(kept.groups);
    return status;
}

haul_status haul__plan_stage(haul_plan *p)
{
    modules         l = {.count = 0};
    haul__placement staged = {0};
    haul_status     status = list_modules(&p->graph, &l);
    for (size_t t = 0; !status && t < p->graph.tensor_count; t++)
        add_borders(&p->graph, &p->graph.tensors[t], &l);
    if (!status)
        status = place_stages(&p->graph, &l, &staged);
    if (!status) { /* the bound is that of all placements */
        haul__place_proof_free(&staged.proof);
        staged.proof = p->best->proof;
        p->best->proof = (haul__place_proof){0};
        haul__placement_free(p->best);
        *p->best = staged;
        HAUL__ASSERT(p->best->cost >= p->best->proof.bound);
    }
    haul__free(l.paths);
    haul__free(l.times);
    return status;
}
