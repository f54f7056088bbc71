#include "cli/plan/study.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/shared/cli.h"
#include "cli/train/planner.h"

const char *study_role_name(int role)
{
    static const char *const names[HAUL__PLACE_ROLES] = {"parameters",  "gradients", "optimizer state",
                                                         "activations", "workspace", "data and others"};
    return names[role];
}

const char *study_candidate_name(const study *s, const candidate *c, const char *best)
{
    static char name[64];
    if (c->device < 0)
        return best;
    snprintf(name, sizeof name, "all on %s", s->devices[c->device]);
    return name;
}

int study_device_of(const study *s, const haul__place_operation *o)
{
    return s->best.device[o->group];
}

/* ---- the graph ---- */

static haul_status make_graph(const study_request *r, const haul_program *program, const int64_t *limit,
                              haul__place_graph *out)
{
    haul__place_step step = {.program = program,
                             .machine = r->machine,
                             .device = r->device,
                             .pins = r->pins,
                             .pin_count = r->pin_count,
                             .ahead = true};
    for (int d = 0; limit && d < HAUL__PLACE_DEVICES; d++)
        step.limit[d] = limit[d];
    return haul__place_graph_of(&step, out);
}

/* Limits: those that were given, or the memory of the devices. */
static void set_limits(study *s)
{
    const study_request *r = s->request;
    for (int d = 0; d < HAUL__PLACE_DEVICES; d++) {
        const int64_t memory = r->machine->devices[d ? r->device : 0].memory_bytes;
        s->graph.limit[d] = r->limit[d] ? r->limit[d] : memory;
        if (r->percent[d] > 0)
            s->graph.limit[d] = (int64_t)(r->percent[d] / 100 * (double)s->single[d].peaks[d].bytes) + 1;
    }
}

/* What the first device alone needs at its peak. */
static void find_needs(study *s)
{
    const haul__placement *p = &s->single[0];
    for (size_t t = 0; t < s->graph.tensor_count; t++)
        s->needs[s->graph.tensors[t].role] += haul__place_resident(&s->graph, (int)t, p->device, 0, p->peaks[0].moment);
}

static int compare_candidates(const void *a, const void *b)
{
    const candidate *x = a, *y = b;
    if (x->fits != y->fits)
        return x->fits ? -1 : 1;
    return (x->placement->cost > y->placement->cost) - (x->placement->cost < y->placement->cost);
}

static void find_candidates(study *s)
{
    for (int i = 0; i < MOST_CANDIDATES; i++) {
        const haul__placement *p = i ? &s->single[i - 1] : &s->best;
        candidate c = {.device = i - 1, .placement = p, .fits = haul__place_fits(&s->graph, p->peaks), .seconds = NAN};
        c.link_bytes = haul__place_copied_bytes(&s->graph, p->device, &c.copies);
        s->candidates[i] = c;
    }
    qsort(s->candidates, MOST_CANDIDATES, sizeof *s->candidates, compare_candidates);
}

/* ---- from which batch the second device pays ---- */

/* What a step of that batch takes without limits: at best, and on each device alone. */
typedef struct times {
    int64_t best, single[HAUL__PLACE_DEVICES];
} times;

static haul_status times_of(trainer *t, const study_request *r, int64_t batch, times *out)
{
    haul_program      program = {0};
    haul__place_graph graph = {0};
    haul__placement   p = {0};
    haul_status       status = planner_record(t->planner, batch, false, &program);
    if (!status)
        status = make_graph(r, &program, NULL, &graph);
    for (int d = 0; !status && d < HAUL__PLACE_DEVICES; d++) {
        status = haul__place_single(&graph, d, &p);
        out->single[d] = p.cost;
        haul__placement_free(&p);
    }
    if (!status)
        status = haul__place_solve(&graph, &p);
    out->best = p.cost;
    haul__placement_free(&p);
    haul__place_free(&graph);
    haul_program_free(&program);
    return status;
}

static bool pays(const times *t, bool all)
{
    return (all ? t->single[1] : t->best) < t->single[0];
}

/* The least batch for which the second device pays: doubled until it does, then halved. *out is 0 if it does for none
 * that was tried. */
static haul_status least_batch(trainer *t, const study_request *r, bool all, int64_t *out)
{
    enum { MOST_TRIED = 1024 };
    int64_t     high = 1, low = 0;
    times       now;
    haul_status status = times_of(t, r, high, &now);
    while (!status && high < MOST_TRIED && !pays(&now, all)) {
        low = high;
        high *= 2;
        status = times_of(t, r, high, &now);
    }
    *out = status || !pays(&now, all) ? 0 : high;
    while (!status && *out && high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        status = times_of(t, r, middle, &now);
        *(!status && pays(&now, all) ? &high : &low) = middle;
        *out = high;
    }
    return status;
}

/* ---- the whole ---- */

static void count_learnt(study *s)
{
    s->timed = haul__place_timed(&s->program);
    for (int d = 0; d < HAUL__PLACE_DEVICES; d++)
        s->learnt[d] = haul__place_learnt(&s->program, s->request->machine, d ? s->request->device : 0);
}

static haul_status place(study *s)
{
    haul_status status = HAUL_OK;
    for (int d = 0; !status && d < HAUL__PLACE_DEVICES; d++)
        status = haul__place_single(&s->graph, d, &s->single[d]);
    if (status)
        return status;
    set_limits(s);
    status = haul__place_solve(&s->graph, &s->best);
    if (!status) {
        find_needs(s);
        find_candidates(s);
    }
    return status;
}

bool study_make(study *s, trainer *t, const study_request *request)
{
    s->request = request;
    s->devices[0] = request->machine->devices[0].name;
    s->devices[1] = request->machine->devices[request->device].name;
    if (!planner_open(t))
        return false;
    haul_status status = planner_record(t->planner, t->options->batch, false, &s->program);
    if (!status)
        status = make_graph(request, &s->program, NULL, &s->graph);
    if (!status)
        status = place(s);
    if (status)
        complain_error();
    count_learnt(s);
    if (status || !study_find_rows(s))
        return false;
    status = least_batch(t, request, false, &s->pays_some);
    if (!status)
        status = least_batch(t, request, true, &s->pays_all);
    if (status)
        complain_error();
    return !status;
}

void study_free(study *s)
{
    haul_program_free(&s->program);
    haul__placement_free(&s->best);
    for (int d = 0; d < HAUL__PLACE_DEVICES; d++)
        haul__placement_free(&s->single[d]);
    haul__place_free(&s->graph);
    haul__free(s->rows);
    haul__free(s->edges);
}
