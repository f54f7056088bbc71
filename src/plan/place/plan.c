/* Makes plans of programs. */
#include "plan/place/plan.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "core/error.h"
#include "plan/graph/makespan.h"
#include "plan/graph/overlap.h"
#include "plan/place/certificate.h"

enum { PLACEMENTS = 2 + HAUL__PLACE_DEVICES }; /* the best one, those on single devices, the cheapest one */

static void destroy(void *object)
{
    haul_plan *p = object;
    for (size_t i = 0; p->reasons && i < p->graph.operation_count; i++)
        haul__free(p->reasons[i]);
    haul__free(p->reasons);
    for (int i = 0; i < PLACEMENTS; i++)
        haul__placement_free(&p->best[i]);
    haul__free(p->best);
    haul__free(p->ways);
    haul__place_free(&p->graph);
    haul_program_free(&p->program);
    haul__free(p->request.machine);
    haul__free(p->request.held);
    haul__object_free(&p->object, sizeof *p);
}

static const haul__class plan_class = {.name = "plan", .destroy = destroy};

haul_status haul__check_plan(const haul_plan *p, const char *operation)
{
    return haul__check_object(p, &plan_class, operation, "plan");
}

/* ---- ways to run the step ---- */

/* By the model. */
static haul__plan_figures figures_of(const haul_plan *p, haul__makespan *schedule, const haul__placement *placement)
{
    haul__plan_figures f = {.sum = placement->cost};
    f.ps = haul__makespan_of(schedule, placement->device, &f.waits);
    f.copied_bytes = haul__place_copied_bytes(&p->graph, placement->device, &f.copies);
    for (int d = 0; d < haul__plan_device_count(p); d++)
        f.peak[d] = placement->peaks[d].bytes;
    HAUL__ASSERT(f.ps >= 0 && f.waits >= 0 && f.copied_bytes >= 0);
    return f;
}

static void check_limits(const haul_plan *p, haul__plan_way *w)
{
    *w->why_not = '\0';
    for (int d = haul__plan_device_count(p) - 1; d >= 0; d--)
        if (p->limit[d] && w->figures.peak[d] > p->limit[d])
            snprintf(w->why_not, sizeof w->why_not, "it needs %" PRId64 " bytes on %s, and the limit is %" PRId64,
                     w->figures.peak[d], p->request.names[d], p->limit[d]);
}

static int compare_ways(const void *a, const void *b)
{
    const haul__plan_way *x = a, *y = b;
    if (!*x->why_not != !*y->why_not)
        return *x->why_not ? 1 : -1;
    return x->figures.ps != y->figures.ps ? (x->figures.ps > y->figures.ps ? 1 : -1) : x->device - y->device;
}

bool haul__plan_is_better(const haul_plan *p, haul__plan_way *a, haul__plan_way *b)
{
    check_limits(p, a);
    check_limits(p, b);
    return compare_ways(a, b) < 0;
}

void haul__plan_sort(haul_plan *p)
{
    for (int i = 0; i < haul__plan_way_count(p); i++)
        check_limits(p, &p->ways[i]);
    qsort(p->ways, (size_t)haul__plan_way_count(p), sizeof *p->ways, compare_ways);
}

static haul_status find_ways(haul_plan *p)
{
    haul__makespan    schedule;
    const haul_status status = haul__makespan_new(&p->graph, &schedule);
    HAUL__ASSERT(haul__plan_way_count(p) <= HAUL__PLAN_CANDIDATES);
    for (int i = 0; i < haul__plan_way_count(p) && !status; i++) {
        haul__plan_way *w = &p->ways[i];
        *w = (haul__plan_way){.device = i - 1, .placement = i ? &p->single[i - 1] : p->best, .measured = NAN};

        w->figures = figures_of(p, &schedule, w->placement);
        snprintf(w->name, sizeof w->name, "%s%s", i ? "all on " : "plan", i ? p->request.names[i - 1] : "");
    }
    haul__makespan_free(&schedule);
    if (!status)
        haul__plan_sort(p);
    return status;
}

/* ---- placing ---- */

haul_status haul__plan_graph(const haul_plan *p, const haul_program *program, haul__place_graph *out)
{
    const haul__plan_request *r = &p->request;
    haul__place_step          step = {.program = program,
                                      .machine = r->machine,
                                      .device_count = r->device_count,
                                      .pins = r->pins,
                                      .pin_count = r->pin_count,
                                      .held = program == &p->program ? r->held : NULL,
                                      .ahead = r->ahead};
    memcpy(step.devices, r->devices, sizeof step.devices);
    const haul_status status = haul__place_graph_of(&step, out);
    for (int d = 0; d < r->device_count && !status; d++)
        out->names[d] = r->names[d];
    HAUL__ASSERT(status || out->device_count == r->device_count);
    return status;
}

/* Limits: those that were given, or the memory of the devices. */
static void set_limits(haul_plan *p)
{
    const haul__plan_request *r = &p->request;
    for (int d = 0; d < r->device_count; d++) {
        p->limit[d] = r->limit[d] ? r->limit[d] : r->machine->devices[r->devices[d]].memory_bytes;
        if (r->percent[d] > 0)
            p->limit[d] = (int64_t)(r->percent[d] / 100 * (double)p->single[d].peaks[d].bytes) + 1;
        HAUL__ASSERT(p->limit[d] >= 0);
        p->graph.limit[d] = p->limit[d];
    }
}

/* The memory of the first device alone at its peak. */
static void find_needs(haul_plan *p)
{
    const haul__placement *single = &p->single[0];
    for (size_t t = 0; t < p->graph.tensor_count; t++)
        p->needs[p->graph.tensors[t].role] +=
            haul__place_resident(&p->graph, (int)t, single->device, 0, single->peaks[0].moment);
}

static haul_status place_singles(haul_plan *p)
{
    haul_status status = HAUL_OK;
    for (int d = 0; !status && d < haul__plan_device_count(p); d++)
        status = haul__place_single(&p->graph, d, &p->single[d]);
    return status;
}

void haul__plan_take_cheapest(haul_plan *p)
{
    if (!p->cheapest->device)
        return;
    p->cheapest->proof = p->best->proof;
    p->best->proof = (haul__place_proof){0};
    haul__placement_free(p->best);
    *p->best = *p->cheapest;
    HAUL__ASSERT(p->best->cost >= p->best->proof.bound);
    *p->cheapest = (haul__placement){0};
    p->spread = false;
}

/* The proof is that of all placements. */
static haul_status take_spread(haul_plan *p, haul__placement *spread)
{
    const haul_status status = haul__place_measure(&p->graph, spread);
    if (status)
        return status;
    HAUL__ASSERT(!p->cheapest->device && spread->device != p->best->device);
    spread->proof = p->best->proof;
    p->best->proof = (haul__place_proof){0};
    *p->cheapest = *p->best;
    *p->best = *spread;
    *spread = (haul__placement){0};
    p->spread = true;
    return HAUL_OK;
}

/* Looks for a placement with a shorter makespan. */
static haul_status find_spread(haul_plan *p)
{
    enum { LEAST_GAIN = 33 }; /* 3 %, as much as is noise in a run */
    const size_t    n = p->graph.group_count;
    haul__placement spread = {.device = haul__malloc(n + 1)};
    int64_t         before = 0, ps = 0;
    if (!spread.device)
        return haul__fail_memory("haul plan", n);
    memcpy(spread.device, p->best->device, n);
    haul_status status = haul__place_overlap(&p->graph, spread.device, &before, &ps);
    HAUL__ASSERT(status || ps <= before);
    if (!status && ps < before - before / LEAST_GAIN)
        status = take_spread(p, &spread);
    haul__placement_free(&spread);
    return status;
}

haul_status haul__plan_solve(haul_plan *p)
{
    haul__placement   best;
    const haul_status status = haul__place_solve(&p->graph, &best);
    if (status)
        return status;
    HAUL__ASSERT(best.device && best.cost >= best.proof.bound);
    haul__placement_free(p->best);
    haul__placement_free(p->cheapest);
    *p->best = best;
    p->spread = false;
    if (p->request.stages ? haul__plan_stage(p) : find_spread(p))
        return haul_error_status();
    return find_ways(p);
}

static haul_status make(haul_plan *p)
{
    haul_status status = haul__plan_graph(p, &p->program, &p->graph);
    if (!status)
        status = place_singles(p);
    if (status)
        return status;
    set_limits(p);
    find_needs(p);
    snprintf(p->digests[0], sizeof p->digests[0], "%016" PRIx64, haul__place_digest(&p->program));
    snprintf(p->digests[1], sizeof p->digests[1], "%016" PRIx64, haul__machine_digest(p->request.machine));
    return haul__plan_solve(p);
}

static haul_plan *plan_new(const char *operation)
{
    haul_plan       *p = haul__object_new_zeroed(sizeof *p, &plan_class);
    haul__placement *placements = haul__calloc(PLACEMENTS, sizeof *placements);
    haul__plan_way  *ways = haul__calloc(HAUL__PLAN_CANDIDATES, sizeof *ways);
    if (p && placements && ways) {
        p->best = placements;
        p->single = placements + 1;
        p->cheapest = p->single + HAUL__PLACE_DEVICES;
        p->ways = ways;
        return p;
    }
    haul__free(placements);
    haul__free(ways);
    if (p)
        haul__object_free(&p->object, sizeof *p);
    haul__fail_memory(operation, sizeof *p);
    return NULL;
}

haul_plan *haul__plan_new(haul_program *program, haul__plan_request *request, const char *operation)
{
    haul_plan *p = plan_new(operation);
    if (!p) {
        haul_program_free(program);
        haul__free(request->machine);
        haul__free(request->held);
    } else {
        p->program = *program;
        p->request = *request;
    }
    *program = (haul_program){.operation_count = 0};
    request->machine = NULL;
    request->held = NULL;
    if (!p || !make(p))
        return p;
    haul__object_release(p);
    return NULL;
}

/* ---- certificates ---- */

char *haul__plan_text(const haul_plan *p, const char *operation)
{
    const char *names[HAUL__PLACE_DEVICES];
    for (int d = 0; d < haul__plan_device_count(p); d++)
        names[d] = p->request.names[d];
    char *text = haul__certificate_text(&(haul__certificate){&p->graph, p->best, p->digests[0], p->digests[1], names});
    if (!text)
        haul__fail_within(operation);
    return text;
}

haul_plan *haul__plan_read(const haul__json *file, const char *source, const char *operation)
{
    haul_plan  *p = plan_new(operation);
    haul_status status = p ? haul__certificate_read(file, source, operation, &p->graph, p->best) : haul_error_status();
    if (!status)
        status = place_singles(p);
    if (status) {
        haul__object_release(p);
        return NULL;
    }
    const haul__json *device = haul__json_member(haul__json_member(file, "graph"), "devices")->child;
    for (int d = 0; device; d++, device = device->next) {
        HAUL__ASSERT(d < p->graph.device_count);
        snprintf(p->request.names[d], sizeof p->request.names[d], "%s", device->string);
        p->limit[d] = p->graph.limit[d];
    }
    snprintf(p->digests[0], sizeof p->digests[0], "%s", haul__json_member(file, "program")->string);
    snprintf(p->digests[1], sizeof p->digests[1], "%s", haul__json_member(file, "machine")->string);
    find_needs(p);
    if (find_ways(p)) {
        haul__object_release(p);
        return NULL;
    }
    p->spread = p->best->cost > p->best->proof.bound && p->ways[0].figures.ps < p->best->cost;
    return p;
}
