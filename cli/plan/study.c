#include "cli/plan/study.h"

#include "base/alloc.h"
#include "base/numbers.h"
#include "cli/shared/cli.h"
#include "program/role.h"

const char *study_role_name(int role)
{
    static const haul__role roles[HAUL__PLACE_ROLES] = {HAUL__ROLE_PARAMETER,  HAUL__ROLE_GRADIENT,  HAUL__ROLE_STATE,
                                                        HAUL__ROLE_ACTIVATION, HAUL__ROLE_WORKSPACE, HAUL__ROLE_DATA,
                                                        HAUL__ROLE_OTHER};
    return haul__role_name(roles[role]);
}

const char *study_candidate_name(const haul__plan_way *c, const char *best)
{
    return c->device < 0 ? best : c->name;
}

int64_t study_work_of(const study *s, int device)
{
    const haul__place_graph *g = &s->plan->graph;
    int64_t                  sum = 0;
    for (size_t i = 0; i < g->operation_count; i++)
        if (haul__plan_device_of(s->plan, &g->operations[i]) == device)
            sum += g->operations[i].cost[device];
    return sum;
}

int64_t study_makespan(const study *s)
{
    return haul__plan_own_way(s->plan)->figures.ps;
}

/* ---- from which batch the other devices pay ---- */

/* What a step of that batch takes without limits: at best, and on each device alone. */
typedef struct times {
    int64_t best, single[HAUL__PLACE_DEVICES];
} times;

static haul_status times_of(const one_training *t, const study *s, int64_t batch, times *out)
{
    haul_program      program = {0};
    haul__place_graph graph = {0};
    haul__placement   p = {0};
    haul_status       status = planner_record(t->planner, batch, false, &program);
    if (!status)
        status = haul__plan_graph(s->plan, &program, &graph);
    for (int d = 0; !status && d < graph.device_count; d++) {
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

/* All of the network: on the fastest of the other devices. */
static bool pays(const times *t, int device_count, bool all)
{
    int64_t least = all ? t->single[1] : t->best;
    for (int d = 2; all && d < device_count; d++)
        least = smaller(least, t->single[d]);
    return least < t->single[0];
}

/* The least batch for which the other devices pay: doubled until they do, then halved. *out is 0 if they do for none
 * that was tried. */
static haul_status least_batch(const one_training *t, const study *s, bool all, int64_t *out)
{
    enum { MOST_TRIED = 1024 };
    const int   count = haul__plan_device_count(s->plan);
    int64_t     high = 1, low = 0;
    times       now;
    haul_status status = times_of(t, s, high, &now);
    while (!status && high < MOST_TRIED && !pays(&now, count, all)) {
        low = high;
        high *= 2;
        status = times_of(t, s, high, &now);
    }
    *out = status || !pays(&now, count, all) ? 0 : high;
    while (!status && *out && high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        status = times_of(t, s, middle, &now);
        *(!status && pays(&now, count, all) ? &high : &low) = middle;
        *out = high;
    }
    return status;
}

/* ---- the whole ---- */

static void count_learnt(study *s)
{
    const haul__plan_request *r = &s->plan->request;
    s->timed = haul__place_timed(&s->plan->program);
    for (int d = 0; d < r->device_count; d++)
        s->learnt[d] = haul__place_learnt(&s->plan->program, r->machine, r->devices[d]);
}

bool study_make(study *s, const one_training *t, study_request *request)
{
    s->plan = planner_place(t->planner, t->options->batch, &request->plan, "haul plan");
    if (!s->plan) {
        complain_error();
        return false;
    }
    count_learnt(s);
    if (!study_find_rows(s))
        return false;
    if (s->plan->request.stages)
        return true;
    haul_status status = least_batch(t, s, false, &s->pays_some);
    if (!status)
        status = least_batch(t, s, true, &s->pays_all);
    if (status)
        complain_error();
    return !status;
}

void study_free(study *s)
{
    haul__object_release(s->plan);
    haul__free(s->rows);
    haul__free(s->edges);
}
