#include "plan/fit.h"

#include "base/alloc.h"
#include "base/numbers.h"
#include "core/error.h"
#include "memory/settings.h"
#include "memory/spill/spill.h"
#include "record/program.h"

/* A dry run under way. */
typedef struct making {
    const haul__training    *training;
    const haul__fit_request *request;
    bool                     follows;
    bool chosen; /* the segments that run again are chosen; only what depends on them is estimated anew */
    haul__training_objects objects;
    const haul_batch      *batch;
    haul__fit_result      *out;
    haul_program          *program; /* of haul__fit_program */
    bool                   moves;   /* likewise */
    haul__fit_step        *step;    /* that is recorded: of haul__fit_record, or for the choice of segments */
    int64_t                made;    /* mini-batches of haul__fit_spilling */
} making;

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

/* ---- steps ---- */

/* Mini-batch `index` of `count` of a step, all of which are the one that was taken. */
static haul_status make_part(making *m, bool follows, int64_t index, int64_t count)
{
    const haul__training *t = m->training;
    const haul_step_part  part = {.first = index == 0, .last = index == count - 1, .weight = 1 / (double)t->accumulate};
    return follows ? t->follow(t->context, m->batch, &part) : t->step(t->context, m->batch, &part);
}

/* As many mini-batches of a step as differ from each other: one in the middle finds gradients of the first one, and
 * the next one those of another in the middle. */
static int64_t count_parts(const making *m)
{
    enum { MOST = 4 };
    return m->training->accumulate < MOST ? m->training->accumulate : MOST;
}

/* All but the last `left` mini-batches of a step. */
static haul_status make_parts(making *m, bool follows, int64_t left)
{
    const int64_t count = count_parts(m);
    haul_status   status = HAUL_OK;
    for (int64_t i = 0; i < count - left && !status; i++)
        status = make_part(m, follows, i, count);
    return status;
}

/* A step as the training makes it. */
static haul_status make_group(void *context)
{
    making *m = context;
    return make_parts(m, m->follows, 0);
}

/* The mini-batches of a step before its last one, as they are. */
static haul_status lead(making *m)
{
    return make_parts(m, false, 1);
}

/* With accumulation, the mini-batch that computes most, as it is: others came before it, and the parameters are
 * updated. */
static haul_status make_step(void *context)
{
    making *m = context;
    return make_part(m, false, count_parts(m) - 1, count_parts(m));
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
    haul_watch_calls(haul__layers_watch, &m->out->layers);
    const haul_status status = make_group(m);
    haul_watch_calls(NULL, NULL);
    return status;
}

static haul_status make_next(making *m)
{
    haul_status status = take_batch(m);
    return status ? status : make_group(m);
}

static haul_status make_one(void *context)
{
    making *m = context;
    return m->chosen ? make_group(m) : watched_step(m);
}

/* The first two steps: the optimizer's state does not exist yet, and then a step is recorded. The first one runs as it
 * is. */
static haul_status make_first(void *context)
{
    making              *m = context;
    haul_estimate_result one;
    const haul_status    status = haul_estimate(make_one, m, &one);
    if (status)
        return status;
    m->out->begin_peak = peak_in(&one, m->training->device);
    haul_estimate_free(&one);
    return make_next(m);
}

/* The state of the optimizer, which a training that goes on finds in its first step. */
static haul_status make_state(making *m)
{
    haul_status status = make_next(m);
    m->training->forget(m->training->context);
    return status;
}

static haul_status estimate_first(making *m)
{
    haul__layers *layers = &m->out->layers;
    haul_status   status = take_batch(m);
    if (!status)
        status = haul_estimate(make_first, m, &m->out->first);
    if (!status && layers->failed)
        status = haul__fail_memory(NULL, 0);
    return status || m->chosen ? status : haul__layers_count_parameters(layers, m->objects.net);
}

/* What the last mini-batch of a step computes, which is the same followed. */
static haul_status estimate_operations(making *m, haul_estimate_result *out)
{
    haul_status status = lead(m);
    return status ? status : haul_estimate(make_step, m, out);
}

/* What a step computes, and the memory that it takes as the training makes it. */
static haul_status estimate_step(making *m)
{
    haul_estimate_result made, *step = &m->out->step;
    haul_status          status = estimate_operations(m, step);
    if (!status)
        status = haul_estimate(make_group, m, &made);
    if (status)
        return status;
    const haul_estimate_result plain = *step;
    step->devices = made.devices;
    step->device_count = made.device_count;
    made.devices = plain.devices;
    made.device_count = plain.device_count;
    haul_estimate_free(&made);
    return HAUL_OK;
}

/* The third step, and what a training keeps in addition. */
static haul_status estimate_third(making *m)
{
    haul_status status = take_batch(m);
    if (!status)
        status = m->training->hold(m->training->context);
    return status ? status : estimate_step(m);
}

/* ---- between two epochs ---- */

/* From the end of an epoch to the first step of the next one, which finds casts that measuring has left. */
static haul_status pass_epoch(void *context)
{
    making     *m = context;
    haul_status status = m->training->end_epoch(m->training->context);
    return status ? status : make_group(m);
}

/* The first steps may take more than those that are followed. */
static int64_t peak_of_training(const making *m)
{
    const haul__fit_result *fit = m->out;
    const haul_device      *device = m->training->device;
    const int64_t           steps = larger(peak_in(&fit->first, device), peak_in(&fit->step, device));
    return larger(fit->loading, larger(peak_in(&fit->epoch, device), steps));
}

static haul_status estimate_epoch(making *m)
{
    haul__fit_result *fit = m->out;
    haul_status       status = haul_estimate(pass_epoch, m, &fit->epoch);
    fit->peak = peak_of_training(m);
    if (m->chosen)
        return status;
    fit->plain_peak = fit->peak;
    fit->limit = haul__training_limit_bytes(&m->request->limit, fit->plain_peak);
    fit->overhead = m->request->limit.overhead;
    return status;
}

/* ---- recomputation ---- */

/* The step that comes next, as it is, with the memory of the device in it. */
static haul_status record_step(making *m)
{
    haul__fit_step   *s = m->step;
    const haul_status status =
        haul__program_record_residency(make_step, m, m->training->device, &s->program, &s->residency);
    return status ? status : haul__fit_step_find_segments(s, &m->out->segments, m->objects.net);
}

/* The step as it is, with nothing running again. */
static haul_status record_now(making *m)
{
    haul_status status = take_batch(m);
    if (!status)
        status = lead(m);
    return status ? status : record_step(m);
}

/* If the training does not fit, its step as a program, from which segments are chosen when the dry run is over. */
static haul_status record_for_choice(making *m)
{
    const haul__fit_result *fit = m->out;
    const haul_status       status = haul__segments_find(m->objects.net, &m->out->segments);
    return status || (fit->limit && fit->plain_peak <= fit->limit) ? status : record_now(m);
}

/* ---- the whole ---- */

static haul_status load(void *context)
{
    const haul__training *t = ((making *)context)->training;
    return t->load(t->context);
}

/* A run of its own, whose peak is that of loading. */
static haul_status estimate_load(making *m)
{
    haul_estimate_result r;
    if (!m->training->load)
        return HAUL_OK;
    const haul_status status = haul_estimate(load, m, &r);
    if (status)
        return status;
    m->out->loading = peak_in(&r, m->training->device);
    haul_estimate_free(&r);
    return HAUL_OK;
}

static haul_status run_training(void *context)
{
    making               *m = context;
    const haul__training *t = m->training;
    haul_status           status = t->build(t->context, m->request->batch, m->follows, &m->objects);
    if (!status)
        status = estimate_load(m);
    if (!status && m->chosen)
        status = haul__segments_apply(&m->out->segments, m->objects.net);
    if (!status && t->goes_on && m->follows)
        status = make_state(m);
    if (!status)
        status = estimate_first(m);
    if (!status)
        status = estimate_third(m);
    if (!status && !m->chosen)
        haul__layers_count_flops(&m->out->layers, &m->out->step);
    if (!status)
        status = estimate_epoch(m);
    if (!status && m->request->recompute && !m->chosen)
        status = record_for_choice(m);
    return status;
}

static void free_estimates(haul__fit_result *fit)
{
    haul_estimate_free(&fit->first);
    haul_estimate_free(&fit->step);
    haul_estimate_free(&fit->epoch);
}

/* Estimates the training from its beginning with the chosen segments, in a dry run of its own. */
static haul_status run_chosen(making *m, haul_estimate_result *all)
{
    haul__fit_result *fit = m->out;
    m->chosen = true;
    haul_estimate_free(all);
    fit->first = fit->step = fit->epoch = (haul_estimate_result){0};
    return haul_estimate(run_training, m, all);
}

/* Of two choices, that with the lower peak remains. */
static void keep_lower(haul__fit_result *before, haul__fit_result *now)
{
    const bool       is_lower = now->peak < before->peak;
    haul__fit_result worse = is_lower ? *before : *now;
    if (!is_lower)
        *now = *before;
    free_estimates(&worse);
}

/* True if the request allows one more dry run. */
static bool may_run(const haul__fit_request *r, const haul__fit_result *fit)
{
    return !r->most_runs || fit->runs < r->most_runs;
}

static bool is_over(const haul__fit_result *fit)
{
    return fit->limit && fit->peak > fit->limit;
}

/* A dry run with the segments that are on in `chosen`. Of its result and the one before, that with the lower peak
 * remains. *peak becomes that of the dry run. */
static haul_status account(making *m, const haul__segments *chosen, haul_estimate_result *all, int64_t *peak)
{
    haul__fit_result before = *m->out;
    m->out->segments = *chosen;
    const haul_status status = run_chosen(m, all);
    *peak = m->out->peak;
    keep_lower(&before, m->out);
    m->out->runs = before.runs + 1;
    return status;
}

/* Chooses segments by the recorded step, and makes a dry run with them, if any. If that exceeds the limit, there is a
 * second one: with what the planner chooses for a lower limit, or, if it could not keep the limit itself, with all
 * segments.
 */
static haul_status choose_segments(making *m, haul_estimate_result *all)
{
    haul__fit_result *fit = m->out;
    haul__segments    first = fit->segments, second = fit->segments;
    haul__memory_step step;
    bool              fits = false;
    int64_t           peak = 0;
    haul_status       status = haul__fit_step_plan(m->step, fit, m->training->device, &step);
    if (!status)
        status = haul__segments_choose(&first, &step, &fits);
    if (status)
        return status;
    if (!may_run(m->request, fit)) {
        fit->segments = first;
        fit->peak = fits ? fit->limit : fit->peak;
        return HAUL_OK;
    }
    if (haul__segments_count_on(&first))
        status = account(m, &first, all, &peak);
    if (status || (fit->limit && fit->peak <= fit->limit) || !may_run(m->request, fit))
        return status;
    step.limit -= smaller(step.limit, larger(peak - fit->limit, 1));
    if (fits)
        status = haul__segments_choose(&second, &step, &fits);
    else
        haul__segments_turn_all(&second, true);
    return status || haul__segments_equal(&second, &first) ? status : account(m, &second, all, &peak);
}

static haul_status fit(const haul__training *t, const haul__fit_request *r, bool follows, haul__fit_result *out)
{
    haul__fit_step       step = {.segment = NULL};
    making               m = {.training = t, .request = r, .follows = follows, .out = out, .step = &step};
    haul_estimate_result all;
    *out = (haul__fit_result){.follows = follows, .runs = 1};
    haul_status status = haul_estimate(run_training, &m, &all);
    if (!status && step.segment)
        status = choose_segments(&m, &all);
    haul__fit_step_free(&step);
    const haul_estimate_device *d = haul__fit_device(&all, t->device);
    out->start = d ? d->start_bytes : 0;
    haul_estimate_free(&all);
    if (status)
        haul__fit_free(out);
    return status;
}

/* True if steps as they are should be tried, too. They may take less memory than followed ones. That matters if these
 * exceed the limit, or if the training adds up gradients, which it does to save memory. On a device that spills they
 * are not tried, because followed steps move less. A search for a batch, which limits the dry runs, does not try them
 * if the first step, which is not followed, exceeds the limit: only recomputation helps then. */
static bool may_be_better(const haul__training *t, const haul__fit_request *r, const haul__fit_result *followed)
{
    const bool may_fit = r->recompute || !r->most_runs || followed->begin_peak <= followed->limit;
    return followed->follows && !haul__spills(t->device) && may_run(r, followed) &&
           (is_over(followed) ? may_fit : t->accumulate > 1);
}

static const char *reason_for(const haul__fit_result *plain, const haul__fit_result *followed)
{
    if (is_over(followed) && (plain->peak <= plain->limit || plain->peak < followed->peak))
        return "only steps as they are fit in the limit";
    return followed->peak / 9 * 8 > plain->peak ? "the parts of a step take much less memory as they are" : NULL;
}

/* Recomputation is for what does not fit otherwise. */
static haul_status fit_as_it_is(const haul__training *t, const haul__fit_request *r, haul__fit_result *followed)
{
    const haul__fit_request request = {
        .batch = r->batch,
        .limit = {.bytes = followed->limit ? followed->limit + followed->overhead : 0, .overhead = followed->overhead},
        .recompute = r->recompute && (!followed->limit || followed->peak > followed->limit),
        .most_runs = r->most_runs ? r->most_runs - followed->runs : 0,
        .start = r->start};
    haul__fit_result plain;
    haul_status      status = fit(t, &request, false, &plain);
    if (status)
        return status;
    plain.unfollowed = reason_for(&plain, followed);
    plain.runs = followed->runs = plain.runs + followed->runs;
    haul__fit_free(plain.unfollowed ? followed : &plain);
    if (plain.unfollowed)
        *followed = plain;
    return HAUL_OK;
}

haul_status haul__fit(const haul__training *t, const haul__fit_request *r, haul__fit_result *out)
{
    haul_status status = fit(t, r, t->follows, out);
    if (status || !may_be_better(t, r, out))
        return status;
    status = fit_as_it_is(t, r, out);
    if (status)
        haul__fit_free(out);
    return status;
}

/* ---- the step as a program ---- */

/* All but the step. */
static haul_status come_to_third(making *m)
{
    const haul__training *t = m->training;
    haul_status           status = t->build(t->context, m->request->batch, false, &m->objects);
    if (!status)
        status = haul__segments_apply(&m->out->segments, m->objects.net);
    if (!status)
        status = make_next(m);
    if (!status)
        status = make_next(m);
    if (!status)
        status = take_batch(m);
    return status ? status : lead(m);
}

static haul_status record_third(void *context)
{
    making           *m = context;
    const haul_status status = come_to_third(m);
    return status ? status : haul__program_record(make_step, m, m->moves, m->program);
}

haul_status haul__fit_program(const haul__training *t, int64_t batch, const haul__segments *segments, bool moves,
                              haul_program *out)
{
    const haul__fit_request request = {.batch = batch};
    haul__fit_result        fit = {.segments = *segments};
    making                  m = {.training = t, .request = &request, .out = &fit, .program = out, .moves = moves};
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
    making     *m = context;
    haul_status status = come_to_third(m);
    if (!status)
        status = m->training->hold(m->training->context);
    if (!status && !m->out->segments.count)
        status = haul__segments_find(m->objects.net, &m->out->segments);
    return status ? status : record_step(m);
}

haul_status haul__fit_record(const haul__training *t, int64_t batch, haul__segments *segments, haul__fit_step *out)
{
    const haul__fit_request request = {.batch = batch};
    haul__fit_result        fit = {.segments = *segments};
    making                  m = {.training = t, .request = &request, .out = &fit, .step = out};
    haul_estimate_result    all;
    *out = (haul__fit_step){.segment = NULL};
    const haul_status status = haul_estimate(record_residency, &m, &all);
    haul_estimate_free(&all);
    *segments = fit.segments;
    if (status)
        haul__fit_step_free(out);
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

/* Mini-batches from the beginning of the training on, one epoch after the other. */
static haul_status make_mini_batches(making *m, int count)
{
    haul_loader *loader = m->objects.loader;
    haul_status  status = HAUL_OK;
    for (int i = 0; i < count && !status; i++, m->made++) {
        m->batch = haul_loader_next(loader);
        if (!m->batch && !haul_error_status() && !haul_loader_start(loader, 1))
            m->batch = haul_loader_next(loader);
        status = m->batch ? make_part(m, m->follows, m->made % count_parts(m), count_parts(m)) : haul_error_status();
    }
    return status;
}

static haul_status make_steps(void *context)
{
    return make_mini_batches(context, HAUL__SPILLED_STEPS);
}

/* The first steps move more: the optimizer makes its state, and the recording does not know the next uses yet. */
static haul_status begin_training(void *context)
{
    enum { FIRST = 4 };
    making               *m = context;
    const haul__training *t = m->training;
    haul_status           status = t->build(t->context, m->request->batch, m->follows, &m->objects);
    if (!status)
        status = haul__segments_apply(&m->out->segments, m->objects.net);
    if (!status && t->goes_on)
        status = make_state(m);
    if (!status)
        status = haul_loader_start(m->objects.loader, 1);
    if (!status)
        status = make_mini_batches(m, FIRST);
    return status ? status : haul_estimate(make_steps, m, &m->out->steps);
}

static void count_tiers(haul__fit_spill *spill, const haul_estimate_device *d)
{
    spill->host_peak = larger(spill->host_peak, d ? d->spill_host_peak_bytes : 0);
    spill->file_peak = larger(spill->file_peak, d ? d->spill_file_peak_bytes : 0);
    spill->missing = larger(spill->missing, d ? d->spill_missing_bytes : 0);
}

/* Within the limit a step moves nothing. */
static haul_status estimate_spilling(const haul__training *t, const haul__fit_request *r, haul__fit_result *fit)
{
    making               m = {.training = t, .request = r, .follows = fit->follows, .out = fit};
    haul_estimate_result all;
    fit->spill = (haul__fit_spill){.fits = fit->limit && fit->peak <= fit->limit};
    if (fit->spill.fits)
        return HAUL_OK;
    const haul_status status = haul_estimate(begin_training, &m, &all);
    fit->runs++;
    if (status)
        return status;
    const haul_estimate_device *whole = haul__fit_device(&all, t->device),
                               *epoch = haul__fit_device(&fit->epoch, t->device),
                               *steps = haul__fit_device(&fit->steps, t->device);
    count_tiers(&fit->spill, whole);
    count_tiers(&fit->spill, epoch);
    fit->spill.missing = larger(fit->spill.missing, haul__missing_on_host(fit->spill.host_peak));
    fit->spill.fits = whole && whole->fits && epoch && epoch->fits && !fit->spill.missing;
    if (steps) {
        fit->spill.bytes = steps->spilled_bytes / HAUL__SPILLED_STEPS;
        fit->spill.back_bytes = steps->returned_bytes / HAUL__SPILLED_STEPS;
        fit->spill.to_file = steps->spilled_to_file_bytes / HAUL__SPILLED_STEPS;
    }
    haul_estimate_free(&all);
    return HAUL_OK;
}

haul_status haul__fit_spilling(const haul__training *t, const haul__fit_request *r, haul__fit_result *out)
{
    haul__memory_settings before;
    haul_status           status = haul__memory_settings_get(t->device, &before);
    if (status)
        return status;
    status = begin_spilling(t->device, r);
    if (!status)
        status = fit(t, r, t->follows, out);
    if (!status && (status = estimate_spilling(t, r, out)))
        haul__fit_free(out);
    haul__memory_settings_set(t->device, &before);
    return status;
}

int64_t haul__fit_step_peak(const haul__fit_result *fit, const haul_device *device)
{
    return peak_in(&fit->step, device);
}

void haul__fit_free(haul__fit_result *fit)
{
    free_estimates(fit);
    haul_estimate_free(&fit->steps);
    haul__layers_free(&fit->layers);
    *fit = (haul__fit_result){0};
}
