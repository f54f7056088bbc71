/* haul plan --measure: steps with the candidates, on this computer. */
#include <stdlib.h>

#include "cli/plan/study.h"
#include "cli/shared/cli.h"
#include "cli/train/one_step.h"

enum { WARM_UP = 3, TIMED = 9 };

static bool find_devices(const study *s, haul_device *out[HAUL__PLACE_DEVICES])
{
    for (int d = 0; d < HAUL__PLACE_DEVICES; d++) {
        haul_device_properties p;
        out[d] = haul_device_get(s->plan->request.names[d]);
        if (haul_device_describe(out[d], &p)) {
            complain("--measure makes steps on this computer, and %s cannot be used here: %s",
                     s->plan->request.names[d], error_text());
            return false;
        }
    }
    return true;
}

static haul_status time_step(trainer *t, const haul_batch *batch, haul_device *const devices[HAUL__PLACE_DEVICES],
                             double *seconds)
{
    const double began = clock_seconds();
    haul_status  status = one_step_make(t, batch);
    for (int d = 0; !status && d < HAUL__PLACE_DEVICES; d++)
        status = haul_device_sync(devices[d]);
    *seconds = clock_seconds() - began;
    return status;
}

/* The network is on t->device, or where the plan in t->places has it. */
static haul_status time_steps(trainer *t, haul_device *const devices[HAUL__PLACE_DEVICES], double *median)
{
    samples           times = {0};
    const haul_batch *batch;
    double            seconds;
    haul_status       status = haul_set_device(t->device);
    if (!status)
        status = one_step_build(t, &batch);
    for (int i = 0; !status && i < WARM_UP + TIMED; i++) {
        status = time_step(t, batch, devices, &seconds);
        if (i >= WARM_UP)
            samples_add(&times, seconds);
    }
    *median = samples_median(&times);
    free(times.values);
    return status;
}

static bool measure(const study *s, const trainer *t, haul__plan_way *c,
                    haul_device *const devices[HAUL__PLACE_DEVICES])
{
    trainer     trial = *t;
    haul_scope *scope = haul_scope_push();
    bool        fine = scope != NULL;
    trial.places = (place_list){.plan = c->device < 0 ? s->plan : NULL}; /* without a reference */
    trial.device = devices[c->device > 0];
    if (!scope || (fine && time_steps(&trial, devices, &c->measured))) {
        complain_error();
        fine = false;
    }
    haul_scope_pop(scope);
    return fine;
}

bool study_measure(study *s, const trainer *t)
{
    haul_device *devices[HAUL__PLACE_DEVICES];
    bool         fine = find_devices(s, devices);
    for (int i = 0; fine && i < HAUL__PLAN_CANDIDATES; i++)
        if (!*s->plan->ways[i].why_not)
            fine = measure(s, t, &s->plan->ways[i], devices);
    return fine;
}
