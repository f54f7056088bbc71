#include "plan/keep.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/numbers.h"
#include "machine/picoseconds.h"
#include "plan/memory/step.h"

enum { MOST_TRIES = 5 };

/* A plan under way. */
typedef struct planning {
    const haul__keep_request *r;
    haul__fit_step            step; /* with nothing running again */
    haul__segments            segments;
    haul__keep               *out;
} planning;

/* A step with some segments running again, or none, and its plan. */
typedef struct solved {
    haul__memory_model model;
    haul__memory_plan  plan;
} solved;

static void free_solved(solved *s)
{
    haul__memory_model_free(&s->model);
    haul__memory_plan_free(&s->plan);
}

static haul__memory_step step_of(const planning *p, const haul__fit_step *step, bool recomputes, int64_t limit)
{
    return (haul__memory_step){.program = &step->program,
                               .residency = &step->residency,
                               .machine = p->r->machine,
                               .number = p->r->number,
                               .segment = recomputes ? step->segment : NULL,
                               .segment_count = recomputes ? p->segments.count : 0,
                               .spills = p->r->spills,
                               .limit = limit};
}

static haul_status solve(const haul__memory_step *step, solved *out)
{
    *out = (solved){.plan = {.bound = 0}};
    haul_status status = haul__memory_model_of(step, &out->model);
    if (!status)
        status = haul__memory_solve(&out->model, &out->plan);
    HAUL__ASSERT(status || out->model.limit == step->limit);
    if (status)
        free_solved(out);
    return status;
}

/* ---- one try ---- */

/* The copies of the moves, away and back, as if the device waited for each of them. */
static int64_t time_of_moves(const solved *s)
{
    int64_t ps = 0;
    for (int i = 0; i < s->model.tensor_count; i++)
        if (s->plan.issued[i] >= 0)
            ps = haul__ps_add(ps, haul__ps_add(s->model.tensors[i].out, s->model.tensors[i].in));
    return ps;
}

/* What the plan of a step takes. */
static haul_status take_plan(const planning *p, const haul__fit_step *step, const haul__memory_step *of,
                             const solved *s, haul__keep *out)
{
    haul_status status = haul__memory_schedule(of, &s->model, &s->plan, &out->schedule);
    if (!status)
        status = haul__residency_peak(&step->residency, &step->program, &out->schedule, &out->peak);
    out->ps = s->plan.figures.ps;
    out->moved = s->plan.figures.moved;
    out->spill_ps = status ? 0 : time_of_moves(s);
    out->fits = out->peak <= p->r->limit;
    HAUL__ASSERT(status || (out->moved >= 0 && out->peak >= 0));
    return status;
}

/* Records the step with the segments that are on, and plans what it spills. The peak of the plan is that of all moments
 * of the step, and may be above the model's, which has one moment of each operation: then it plans for less. */
static haul_status rehearse(planning *p, const haul__segments *segments, int64_t limit, haul__keep *out)
{
    haul__fit_step step;
    solved         s;
    *out = (haul__keep){.segments = *segments};
    haul_status status = p->r->record(p->r->context, &out->segments, &step);
    if (status)
        return status;
    for (int i = 0; i < MOST_TRIES && !status && limit > 0; i++) {
        HAUL__ASSERT(limit <= p->r->limit);
        const haul__memory_step of = step_of(p, &step, false, limit);
        status = solve(&of, &s);
        if (status)
            break;
        haul__free(out->schedule.moves);
        status = take_plan(p, &step, &of, &s, out);
        const bool is_last = s.plan.figures.over || out->peak <= p->r->limit;
        free_solved(&s);
        if (is_last)
            break;
        limit -= out->peak - p->r->limit;
    }
    out->program = step.program;
    step.program = (haul_program){.operation_count = 0};
    haul__fit_step_free(&step);
    if (status)
        haul__keep_free(out);
    return status;
}

/* ---- tries ---- */

static bool is_better(const haul__keep *a, const haul__keep *b)
{
    if (!b->program.operation_count)
        return true;
    if (a->fits != b->fits)
        return a->fits;
    return a->fits ? a->ps < b->ps : a->peak < b->peak;
}

/* Keeps the better one of two, with the figures that both have in common. */
static void keep_better(haul__keep *now, haul__keep *best)
{
    now->free_ps = best->free_ps;
    now->free_peak = best->free_peak;
    now->bound = best->bound;
    now->least = best->least;
    if (is_better(now, best)) {
        haul__keep_free(best);
        *best = *now;
    } else {
        haul__keep_free(now);
    }
}

/* The step with what the model chooses for the limit. *over becomes the bytes by which the next try lowers the limit;
 * 0: there is none. */
static haul_status try_limit(planning *p, int64_t limit, haul__segments *before, int64_t *over)
{
    solved                  s;
    haul__segments          segments = p->segments;
    haul__keep              now;
    const haul__memory_step of = step_of(p, &p->step, p->r->recomputes, limit);
    haul_status             status = solve(&of, &s);
    HAUL__ASSERT(0 < limit && limit <= p->r->limit);
    if (status)
        return status;
    haul__segments_take(&segments, &s.model, &s.plan);
    if (!p->out->program.operation_count) {
        p->out->free_ps = haul__memory_time(&s.model);
        p->out->bound = s.plan.bound;
        p->out->least = haul__memory_step_least(&of, &s.model);
    }
    free_solved(&s);
    const bool repeats = p->out->program.operation_count && haul__segments_equal(&segments, before);
    *before = segments;
    *over = repeats ? larger(1, limit / 32) : 0;
    if (repeats)
        return HAUL_OK;
    status = rehearse(p, &segments, limit, &now);
    if (status)
        return status;
    *over = larger(0, now.peak - p->r->limit);
    keep_better(&now, p->out);
    return HAUL_OK;
}

static haul_status find(planning *p)
{
    const haul__spill_schedule none = {.count = 0};
    haul__segments             before = p->segments;
    int64_t                    limit = p->r->limit, over = 0;
    haul_status status = haul__residency_peak(&p->step.residency, &p->step.program, &none, &p->out->free_peak);
    for (int i = 0; i < 2 * MOST_TRIES && !status && limit > 0; i++) {
        status = try_limit(p, limit, &before, &over);
        HAUL__ASSERT(over >= 0);
        if (!over)
            break;
        limit -= over;
    }
    return status;
}

haul_status haul__keep_find(const haul__keep_request *r, haul__keep *out)
{
    planning p = {.r = r, .out = out};
    *out = (haul__keep){.fits = false};
    haul_status status = r->record(r->context, &p.segments, &p.step);
    if (!status)
        status = find(&p);
    haul__fit_step_free(&p.step);
    HAUL__ASSERT(status || !out->fits || out->peak <= r->limit);
    if (status)
        haul__keep_free(out);
    return status;
}

void haul__keep_free(haul__keep *k)
{
    haul_program_free(&k->program);
    haul__free(k->schedule.moves);
    *k = (haul__keep){.fits = false};
}
