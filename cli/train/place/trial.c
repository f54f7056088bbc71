#include "cli/train/place/trial.h"

#include <stdlib.h>

#include "cli/shared/cli.h"
#include "cli/train/one_step.h"
#include "observe/learn/learn.h"

enum { WARM_UP = 4, TIMED = 9, PROFILED = 3 }; /* the first steps are recorded, and kernels are compiled */

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
    haul_device     *devices[HAUL__PLACE_DEVICES];
    int              count;
    const haul_plan *plan;
    haul__machine   *learns;
} used;

/* ---- single operations ---- */

static void take_times(const haul_device *device, const haul__machine_learnt *times, int count, void *context)
{
    const used *u = context;
    for (int d = 0; d < u->count; d++)
        for (int i = 0; u->devices[d] == device && i < count; i++)
            haul__machine_learn(&u->learns->devices[u->plan->request.devices[d]], &times[i]);
}

/* Steps in a profile, in which operations run one by one. */
static haul_status learn_times(trainer *t, const haul_batch *batch, used *u)
{
    haul_scope   *scope = haul_scope_push();
    haul_profile *profile = haul_profile_begin(.everywhere = true);
    haul_status   status = profile ? HAUL_OK : haul_error_status();
    for (int i = 0; !status && i < PROFILED; i++) {
        status = one_step_follow(t, batch);
        if (!status)
            status = haul_profile_step(profile);
    }
    if (profile && haul_profile_end(profile) && !status)
        status = haul_error_status();
    const haul__analysis *a = status ? NULL : haul__profile_analysis(profile, "haul train");
    if (a)
        haul__profile_learn_into(profile, a, take_times, u);
    haul_scope_pop(scope);
    return status;
}

/* ---- steps ---- */

static haul_status time_step(trainer *t, const haul_batch *batch, const used *u, double *seconds)
{
    const double began = clock_seconds();
    haul_status  status = one_step_follow(t, batch);
    for (int d = 0; !status && d < u->count; d++)
        status = haul_device_sync(u->devices[d]);
    *seconds = clock_since(began);
    return status;
}

/* The network is on t->device, or where the plan in t->places has it. */
static haul_status time_steps(trainer *t, used *u, double *median)
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
    if (!status && u->learns)
        status = learn_times(t, batch, u);
    *median = samples_median(&times);
    free(times.values);
    return status;
}

static bool measure(const trainer *t, haul_plan *plan, haul__plan_way *w, used *u)
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

bool trial_measure(const trainer *t, haul_plan *plan, const bool wanted[HAUL__PLAN_CANDIDATES], haul__machine *learns)
{
    used u = {.count = haul__plan_device_count(plan), .plan = plan, .learns = learns};
    bool fine = find_devices(plan, u.devices);
    for (int i = 0; fine && i < haul__plan_way_count(plan); i++)
        if (wanted[i])
            fine = measure(t, plan, &plan->ways[i], &u);
    return fine;
}
