/* The step of a training as a program: dry runs that record it, its segments, and what the planner of memory gets. */
#include "base/alloc.h"
#include "base/assert.h"
#include "base/numbers.h"
#include "core/error.h"
#include "device/speeds.h"
#include "plan/fit_run.h"
#include "record/program.h"

haul_status haul__fit_step_find_segments(haul__fit_step *s, const haul__segments *segments, haul_module *net)
{
    const haul_program *p = &s->program;
    s->segment = haul__malloc(((size_t)p->operation_count + 1) * sizeof *s->segment);
    if (!s->segment)
        return haul__fail_memory("haul_fit", (size_t)p->operation_count * sizeof *s->segment);
    for (int64_t i = 0; i < p->operation_count; i++) {
        s->segment[i] = haul__segment_of(segments, net, p->operations[i].module);
        HAUL__ASSERT(s->segment[i] < segments->count);
    }
    return HAUL_OK;
}

haul_status haul__fit_step_plan(const haul__fit_step *s, const haul__fit_result *fit, const haul_device *device,
                                haul__memory_step *out)
{
    const haul__speeds speeds = haul__speeds_of(device);
    int64_t            peak;
    HAUL__ASSERT(s->segment && fit->segments.count <= HAUL__MOST_SEGMENTS);
    *out = (haul__memory_step){.program = &s->program,
                               .residency = &s->residency,
                               .machine = speeds.machine,
                               .number = speeds.number,
                               .segment = s->segment,
                               .segment_count = fit->segments.count};
    const haul_status status = haul__segments_peak(out, &peak);
    if (!status && fit->limit)
        out->limit = larger(fit->limit + peak - fit->plain_peak, 0);
    return status;
}

void haul__fit_step_free(haul__fit_step *s)
{
    haul_program_free(&s->program);
    haul__residency_free(&s->residency);
    haul__free(s->segment);
    *s = (haul__fit_step){.segment = NULL};
}

/* ---- the step as a program ---- */

/* All but the step. */
static haul_status come_to_third(haul__fit_run *m)
{
    const haul__training *t = m->training;
    haul_status           status = t->build(t->context, m->request->batch, false, &m->objects);
    if (!status)
        status = haul__segments_apply(&m->out->segments, m->objects.net);
    if (!status)
        status = haul__fit_next(m);
    if (!status)
        status = haul__fit_next(m);
    return status ? status : haul__fit_lead(m);
}

static haul_status record_third(void *context)
{
    haul__fit_run    *m = context;
    const haul_status status = come_to_third(m);
    return status ? status : haul__program_record(haul__fit_last_part, m, m->moves, m->program);
}

haul_status haul__fit_program(const haul__training *t, int64_t batch, const haul__segments *segments, bool moves,
                              haul_program *out)
{
    const haul__fit_request request = {.batch = batch};
    haul__fit_result        fit = {.segments = *segments};
    haul__fit_run           m = {.training = t, .request = &request, .out = &fit, .program = out, .moves = moves};
    haul_estimate_result    all;
    *out = (haul_program){.operation_count = 0};
    const haul_status status = haul_estimate(record_third, &m, &all);
    haul_estimate_free(&all);
    if (status)
        haul_program_free(out);
    return status;
}

static haul_status record_residency(void *context)
{
    haul__fit_run *m = context;
    haul_status    status = come_to_third(m);
    if (!status)
        status = m->training->hold(m->training->context);
    if (!status && !m->out->segments.count)
        status = haul__segments_find(m->objects.net, &m->out->segments);
    return status ? status : haul__fit_record_step(m);
}

haul_status haul__fit_record(const haul__training *t, int64_t batch, haul__segments *segments, haul__fit_step *out)
{
    const haul__fit_request request = {.batch = batch};
    haul__fit_result        fit = {.segments = *segments};
    haul__fit_run           m = {.training = t, .request = &request, .out = &fit, .step = out};
    haul_estimate_result    all;
    *out = (haul__fit_step){.segment = NULL};
    const haul_status status = haul_estimate(record_residency, &m, &all);
    haul_estimate_free(&all);
    *segments = fit.segments;
    HAUL__ASSERT(status || out->segment);
    if (status)
        haul__fit_step_free(out);
    return status;
}
