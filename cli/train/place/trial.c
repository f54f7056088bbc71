#include "cli/train/place/trial.h"

#include <stdlib.h>

#include "cli/shared/cli.h"
#include "cli/train/one_step.h"

enum { WARM_UP = 4, TIMED = 9 }; /* the first steps are recorded, and kernels are compiled */

static bool find_devices(const haul_plan *plan, haul_device *out[HAUL__PLACE_DEVICES])
{
    for (int d = 0; d < haul__plan_device_count(plan); d++) {
        haul_device_properties p;
        out[d] = haul_device_get(plan->request.names[d]);
        if (haul_device_describe(out[d], &p)) {
            complain("steps cannot be measured on this computer, because %s cannot be used here: %s",
                     plan->request.names[d], error_text());
            return false;
        }
    }
    return true;
}

/* The devices of the plan. */
typedef struct used {
    haul_device *devices[HAUL__PLACE_DEVICES];
    int          count;
} used;

static haul_status time_step(trainer *t, const haul_batch *batch, const used *u, double *seconds)
{
    const double began = clock_seconds();
    haul_status  status = one_step_follow(t, batch);
    for (int d = 0; !status && d < u->count; d++)
        status = haul_device_sync(u->devices[d]);
    *seconds = clock_seconds() - began;
    return status;
}

/* The network is on t->device, or where the plan in t->places has it. */
static haul_status time_steps(trainer *t, const used *u, double *median)
{
    samples           times = {0};
    const haul_batch *batch;
    double            seconds;
    haul_status       status = haul_set_device(t->device);
    if (!status)
        status = one_step_build(t, &batch);
    for (int i = 0; !status && i < WARM_UP + TIMED; i++) {
        status = time_step(t, batch, u, &seconds);
        if (i >= WARM_UP)
            samples_add(&times, seconds);
    }
    *median = samples_median(&times);
    free(times.values);
    return status;
}

static bool measure(const trainer *t, haul_plan *plan, haul__plan_way *w, const used *u)
{
    trainer       trial = *t;
    train_options options = *t->options;
    haul_scope   *scope = haul_scope_push();
    bool          fine = scope != NULL;
    trial.places = (place_list){.plan = w->device < 0 ? plan : NULL}; /* without a reference */
    options.pipeline = w->device < 0 ? options.pipeline : 1;
    trial.options = &options;
    trial.device = u->devices[w->device < 0 ? 0 : w->device];
    trial.follows = !t->options->eager;
    if (!scope || (fine && time_steps(&trial, u, &w->measured))) {
        complain_error();
        fine = false;
    }
    haul_scope_pop(scope);
    return fine;
}

bool trial_measure(const trainer *t, haul_plan *plan, const bool wanted[HAUL__PLAN_CANDIDATES])
{
    used u = {.count = haul__plan_device_count(plan)};
    bool fine = find_devices(plan, u.devices);
    for (int i = 0; fine && i < haul__plan_way_count(plan); i++)
        if (wanted[i])
            fine = measure(t, plan, &plan->ways[i], &u);
    return fine;
}
