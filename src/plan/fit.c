#include "plan/fit.h"

#include "core/error.h"
#include "memory/settings.h"
#include "record/program.h"

/* A dry run under way. */
typedef struct making {
    const haul__training    *training;
    const haul__fit_request *request;
    bool                     spills;
    haul__training_objects   objects;
    const haul_batch        *batch;
    haul__fit_result        *out;
    haul_program            *program; /* of haul__fit_program */
    bool                     moves;   /* likewise */
} making;

/* ---- steps ---- */

/* With accumulation, the mini-batch that needs most: others came before it, and the parameters are updated. */
static haul_status make_step(void *context)
{
    making              *m = context;
    const int64_t        accumulate = m->training->accumulate;
    const haul_step_part part = {.first = accumulate == 1, .last = true, .weight = 1 / (double)accumulate};
    return m->training->step(m->training->context, m->batch, &part);
}

/* The first batch of an epoch: later ones may be smaller. */
static haul_status take_batch(making *m)
{
    haul_loader *loader = m->objects.loader;
    m->batch = haul_loader_start(loader, 1) ? NULL : haul_loader_next(loader);
    if (!m->batch)
        return haul_error_status();
    m->out->examples = m->batch->size;
    return HAUL_OK;
}

static haul_status watched_step(making *m)
{
    haul__layers *layers = &m->out->layers;
    haul_status   status = take_batch(m);
    haul_watch_calls(haul__layers_watch, layers);
    if (!status)
        status = make_step(m);
    haul_watch_calls(NULL, NULL);
    if (!status && layers->failed)
        status = haul__fail_memory(NULL, 0);
    return status ? status : haul__layers_count_parameters(layers, m->objects.net);
}

/* After the first step: makes the second one and takes the batch of the third. */
static haul_status reach_third(making *m)
{
    haul_status status = take_batch(m);
    if (!status)
        status = make_step(m);
    return status ? status : take_batch(m);
}

/* The third step, and what a training keeps in addition. */
static haul_status estimate_step(making *m)
{
    haul_status status = reach_third(m);
    if (!status)
        status = m->training->hold(m->training->context);
    return status ? status : haul_estimate(make_step, m, &m->out->step);
}

/* ---- between two epochs ---- */

/* From the end of an epoch to the first step of the next one, which finds casts that measuring has left. */
static haul_status pass_epoch(void *context)
{
    making     *m = context;
    haul_status status = m->training->end_epoch(m->training->context);
    return status ? status : make_step(m);
}

const haul_estimate_device *haul__fit_device(const haul_estimate_result *r, const haul_device *device)
{
    for (int i = 0; i < r->device_count; i++)
        if (r->devices[i].device == device)
            return &r->devices[i];
    return NULL;
}

static int64_t peak_in(const haul_estimate_result *r, const haul_device *device)
{
    const haul_estimate_device *d = haul__fit_device(r, device);
    return d ? d->peak_bytes : 0;
}

static haul_status estimate_epoch(making *m)
{
    haul__fit_result *fit = m->out;
    haul_status       status = haul_estimate(pass_epoch, m, &fit->epoch);
    fit->plain_peak = fit->peak = peak_in(&fit->epoch, m->training->device);
    fit->limit = haul__room_limit_bytes(&m->request->limit, fit->plain_peak);
    fit->overhead = m->request->limit.overhead;
    return status;
}

/* ---- spilling ---- */

/* Mini-batches take turns in the memory of the loader, which may be away. One epoch follows the other. */
static haul_status make_steps(void *context)
{
    making      *m = context;
    haul_loader *loader = m->objects.loader;
    haul_status  status = haul_loader_start(loader, 1);
    for (int i = 0; i < HAUL__SPILLED_STEPS && !status; i++) {
        m->batch = haul_loader_next(loader);
        if (!m->batch && !haul_error_status() && !haul_loader_start(loader, 1))
            m->batch = haul_loader_next(loader);
        status = m->batch ? make_step(m) : haul_error_status();
    }
    return status;
}

/* Within the limit a step moves nothing. */
static haul_status estimate_spilling(making *m)
{
    haul__fit_result *fit = m->out;
    const bool        is_within = fit->limit && fit->peak <= fit->limit;
    haul_status       status = is_within ? HAUL_OK : haul_estimate(make_steps, m, &fit->steps);
    if (status)
        return status;
    const haul_estimate_device *steps = haul__fit_device(&fit->steps, m->training->device),
                               *epoch = haul__fit_device(&fit->epoch, m->training->device);
    fit->spill.fits = is_within || (steps && steps->fits && epoch && epoch->fits);
    if (steps) {
        fit->spill.bytes = steps->spilled_bytes / HAUL__SPILLED_STEPS;
        fit->spill.back_bytes = steps->returned_bytes / HAUL__SPILLED_STEPS;
    }
    return HAUL_OK;
}

/* ---- recomputation ---- */

static haul_status measure_parts(const haul__network_parts *p, int64_t *peak, void *context)
{
    making              *m = context;
    haul_estimate_result r;
    haul_status          status = haul__parts_apply(p, m->objects.net);
    if (!status)
        status = haul_estimate(pass_epoch, m, &r);
    if (status)
        return status;
    *peak = peak_in(&r, m->training->device);
    haul_estimate_free(&r);
    return HAUL_OK;
}

static haul_status choose_parts(making *m)
{
    haul__fit_result *fit = m->out;
    haul_status       status = haul__parts_find(m->objects.net, &fit->parts);
    if (status || (fit->limit && fit->plain_peak <= fit->limit))
        return status;
    status = haul__parts_choose(&fit->parts, fit->limit, measure_parts, m, &fit->peak);
    if (!status)
        status = haul__parts_apply(&fit->parts, m->objects.net);
    if (status)
        return status;
    haul_estimate_free(&fit->step);
    haul_estimate_free(&fit->epoch);
    status = haul_estimate(make_step, m, &fit->step);
    return status ? status : haul_estimate(pass_epoch, m, &fit->epoch);
}

/* ---- the whole ---- */

static haul_status run_training(void *context)
{
    making               *m = context;
    const haul__training *t = m->training;
    haul_status           status = t->build(t->context, m->request->batch, &m->objects);
    if (!status)
        status = watched_step(m);
    if (!status)
        status = estimate_step(m);
    if (!status)
        haul__layers_count_flops(&m->out->layers, &m->out->step);
    if (!status)
        status = estimate_epoch(m);
    if (!status && m->request->recompute)
        status = choose_parts(m);
    return status || !m->spills ? status : estimate_spilling(m);
}

static haul_status fit(const haul__training *t, const haul__fit_request *r, bool spills, haul__fit_result *out)
{
    making               m = {.training = t, .request = r, .spills = spills, .out = out};
    haul_estimate_result all;
    *out = (haul__fit_result){0};
    haul_status                 status = haul_estimate(run_training, &m, &all);
    const haul_estimate_device *d = haul__fit_device(&all, t->device);
    out->start = d ? d->start_bytes : 0;
    haul_estimate_free(&all);
    if (status)
        haul__fit_free(out);
    return status;
}

haul_status haul__fit(const haul__training *t, const haul__fit_request *r, haul__fit_result *out)
{
    return fit(t, r, false, out);
}

/* ---- the step as a program ---- */

static haul_status record_third(void *context)
{
    making               *m = context;
    const haul__training *t = m->training;
    haul_status           status = t->build(t->context, m->request->batch, &m->objects);
    if (!status)
        status = haul__parts_apply(&m->out->parts, m->objects.net);
    if (!status)
        status = take_batch(m);
    if (!status)
        status = make_step(m);
    if (!status)
        status = reach_third(m);
    return status ? status : haul__program_record(make_step, m, m->moves, m->program);
}

haul_status haul__fit_program(const haul__training *t, int64_t batch, const haul__network_parts *parts, bool moves,
                              haul_program *out)
{
    const haul__fit_request request = {.batch = batch};
    haul__fit_result        fit = {.parts = *parts};
    making                  m = {.training = t, .request = &request, .out = &fit, .program = out, .moves = moves};
    haul_estimate_result    all;
    *out = (haul_program){.operation_count = 0};
    const haul_status status = haul_estimate(record_third, &m, &all);
    haul_estimate_free(&all);
    if (status)
        haul_program_free(out);
    return status;
}

/* ---- on a device that spills ---- */

/* Memory that is allocated now does not move, so the device gets the training's limit in addition to it. */
static haul_status begin_spilling(haul_device *device, const haul__fit_request *r)
{
    haul_memory_stats now = {0};
    haul_status       status = haul_memory_stats_get(device, &now);
    if (!status)
        status = haul_memory_set_spill(device, true);
    return status ? status : haul_memory_set_tensor_limit(device, r->limit.bytes + now.allocated - r->start);
}

haul_status haul__fit_spilling(const haul__training *t, const haul__fit_request *r, haul__fit_result *out)
{
    haul__memory_settings before;
    haul_status           status = haul__memory_settings_get(t->device, &before);
    if (status)
        return status;
    status = begin_spilling(t->device, r);
    if (!status)
        status = fit(t, r, true, out);
    haul__memory_settings_set(t->device, &before);
    return status;
}

int64_t haul__fit_step_peak(const haul__fit_result *fit, const haul_device *device)
{
    return peak_in(&fit->step, device);
}

void haul__fit_free(haul__fit_result *fit)
{
    haul_estimate_free(&fit->step);
    haul_estimate_free(&fit->epoch);
    haul_estimate_free(&fit->steps);
    haul__layers_free(&fit->layers);
    *fit = (haul__fit_result){0};
}
