/* The recorded step of a training: its segments, and what the planner of memory gets of it. */
#include "base/alloc.h"
#include "base/numbers.h"
#include "core/error.h"
#include "device/speeds.h"
#include "plan/fit.h"

haul_status haul__fit_step_find_segments(haul__fit_step *s, const haul__segments *segments, haul_module *net)
{
    const haul_program *p = &s->program;
    s->segment = haul__malloc(((size_t)p->operation_count + 1) * sizeof *s->segment);
    if (!s->segment)
        return haul__fail_memory("haul_fit", (size_t)p->operation_count * sizeof *s->segment);
    for (int64_t i = 0; i < p->operation_count; i++)
        s->segment[i] = haul__segment_of(segments, net, p->operations[i].module);
    return HAUL_OK;
}

haul_status haul__fit_step_plan(const haul__fit_step *s, const haul__fit_result *fit, const haul_device *device,
                                haul__memory_step *out)
{
    const haul__speeds speeds = haul__speeds_of(device);
    int64_t            peak;
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
