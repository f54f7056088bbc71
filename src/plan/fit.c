#include "base/assert.h"
#include "base/numbers.h"
#include "core/error.h"
#include "memory/spill/spill.h"
#include "plan/fit_run.h"
#include "record/program.h"

#include <string.h>

typedef haul__fit_run making; /* a dry run under way */

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

static haul__fit_span span_in(const haul_estimate_result *r, const haul_device *device)
{
    const haul_estimate_device *d = haul__fit_device(r, device);
    return d ? (haul__fit_span){d->start_bytes, d->peak_bytes} : (haul__fit_span){0, 0};
}

/* ---- steps ---- */

haul_status haul__fit_part(making *m, bool follows, int64_t index, int64_t count)
{
    const haul__training *t = m->training;
    HAUL__ASSERT(0 <= index && index < count);
    const haul_step_part part = {.first = index == 0, .last = index == count - 1, .weight = 1 / (double)t->accumulate};
    return follows ? t->follow(t->context, m->batch, &part) : t->step(t->context, m->batch, &part);
}

int64_t haul__fit_count_parts(const making *m)
{
    enum { MOST = 4 };
    return m->training->accumulate < MOST ? m->training->accumulate : MOST;
}

/* All but the last `left` mini-batches of a step. */
static haul_status make_parts(making *m, bool follows, int64_t left)
{
    const int64_t count = haul__fit_count_parts(m);
    haul_status   status = HAUL_OK;
    HAUL__ASSERT(0 <= left && left <= count);
    for (int64_t i = 0; i < count - left && !status; i++)
        status = haul__fit_part(m, follows, i, count);
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

haul_status haul__fit_last_part(void *context)
{
    making *m = context;
    return haul__fit_part(m, false, haul__fit_count_parts(m) - 1, haul__fit_count_parts(m));
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

haul_status haul__fit_next(making *m)
{
    haul_status status = take_batch(m);
    return status ? status : make_group(m);
}

static haul_status make_one(void *context)
{
    making *m = context;
    return m->again ? make_group(m) : watched_step(m);
}

static haul_status estimate_one(making *m, haul_estimate_function *step, haul__fit_span *span)
{
    haul_estimate_result one;
    const haul_status    status = haul_estimate(step, m, &one);
    if (status)
        return status;
    *span = span_in(&one, m->training->device);
    HAUL__ASSERT(span->start <= span->peak);
    haul_estimate_free(&one);
    return HAUL_OK;
}

/* The first two steps: the optimizer's state does not exist yet, and then a step is recorded. The first one runs as it
 * is. */
static haul_status make_first(void *context)
{
    making     *m = context;
    haul_status status = estimate_one(m, make_one, &m->begin);
    if (!status)
        status = take_batch(m);
    return status ? status : estimate_one(m, make_group, &m->second);
}

haul_status haul__fit_state(making *m)
{
    haul_status status = haul__fit_next(m);
    m->training->forget(m->training->context);
    return status;
}

/* The first step finds no gradients. */
static haul_status estimate_first(making *m)
{
    haul__layers *layers = &m->out->layers;
    haul_status   status = take_batch(m);
    if (!status)
        status = haul_module_zero_grad(m->objects.net);
    if (!status)
        status = haul_estimate(make_first, m, &m->out->first);
    if (!status && layers->failed)
        status = haul__fail_memory(NULL, 0);
    return status || m->again ? status : haul__layers_count_parameters(layers, m->objects.net);
}

/* What the last mini-batch of a step computes, which is the same followed. */
static haul_status estimate_operations(making *m, haul_estimate_result *out)
{
    haul_status status = lead(m);
    return status ? status : haul_estimate(haul__fit_last_part, m, out);
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
    return haul_estimate(pass_epoch, m, &m->out->epoch);
}

/* ---- recomputation ---- */

haul_status haul__fit_lead(haul__fit_run *m)
{
    const haul_status status = take_batch(m);
    return status ? status : lead(m);
}

haul_status haul__fit_record_step(haul__fit_run *m)
{
    haul__fit_step   *s = m->step;
    const haul_status status =
        haul__program_record_residency(haul__fit_last_part, m, m->training->device, &s->program, &s->residency);
    return status ? status : haul__fit_step_find_segments(s, &m->out->segments, m->objects.net);
}

/* Recorded steps and their memory. */
static void forget_steps(making *m)
{
    if (m->training->follows)
        m->training->forget(m->training->context);
}

static void free_estimates(haul__fit_result *fit)
{
    haul_estimate_free(&fit->first);
    haul_estimate_free(&fit->step);
    haul_estimate_free(&fit->epoch);
    fit->first = fit->step = fit->epoch = (haul_estimate_result){0};
}

/* True if parts of a step, mini-batches or pieces, come one after the other: the first step follows those that are
 * recorded in it. */
static bool has_parts(const making *m)
{
    return m->training->accumulate > 1 || m->training->pieces > 1;
}

/* The first two steps are made again, with memory that came later: the optimizer's state in the first one, and what the
 * training holds. It is there from their beginning to their end. Only the update of the first step, after whose
 * backward pass nothing of the segments is left, makes the state itself. Where parts are followed in the first
 * step, that memory counts as if it were there. */
static void correct_first(making *m)
{
    haul__fit_result *fit = m->out;
    if (!has_parts(m)) {
        m->begin.peak = larger(m->begin.peak - m->begin.start + m->plain[0].start, m->update);
        m->second.peak += m->plain[1].start - m->second.start;
    }
    for (int i = 0; i < fit->first.device_count; i++)
        if (fit->first.devices[i].device == m->training->device)
            fit->first.devices[i].peak_bytes = larger(m->begin.peak, m->second.peak);
    fit->begin_peak = m->begin.peak;
}

static bool is_enough(const making *m, const haul_estimate_result *r)
{
    return m->enough && peak_in(r, m->training->device) > m->enough;
}

/* The training from its first step on, with the segments that are on. */
static haul_status try_again(making *m)
{
    haul__fit_result *fit = m->out;
    free_estimates(fit);
    forget_steps(m);
    haul_status status = haul__segments_apply(&fit->segments, m->objects.net);
    if (!status)
        status = estimate_first(m);
    if (!status)
        correct_first(m);
    if (!status && !is_enough(m, &fit->first))
        status = take_batch(m);
    if (!status && !is_enough(m, &fit->first))
        status = estimate_step(m);
    if (!status && !is_enough(m, &fit->first) && !is_enough(m, &fit->step))
        status = estimate_epoch(m);
    fit->peak = peak_of_training(m);
    return status;
}

/* The peak with these segments; one above `enough` may be higher than the result. */
static haul_status try_segments(void *context, const haul__segments *segments, int64_t enough, int64_t *peak)
{
    making *m = context;
    m->out->segments = *segments;
    m->enough = enough;
    const haul_status status = try_again(m);
    *peak = m->out->peak;
    return status;
}

/* The most that the recorded step takes after its backward pass. */
static int64_t peak_of_update(const haul__fit_step *s)
{
    int64_t peak = 0;
    for (int64_t i = s->program.operation_count - 1; i >= 0; i--) {
        if (!strcmp(s->program.operations[i].section, "backward pass"))
            break;
        peak = larger(peak, s->residency.bytes[i]);
    }
    return peak;
}

/* Makes the first two steps again with nothing running again, to find out what the first one takes after its backward
 * pass: that is its peak if it is above that of the rest, and else as much as in later steps. */
static haul_status find_update(making *m)
{
    if (has_parts(m))
        return HAUL_OK;
    const int64_t whole = m->plain[0].peak;
    forget_steps(m);
    const haul_status status = estimate_first(m);
    const int64_t     later = peak_of_update(m->step) - m->begin.start + m->plain[1].start;
    m->update = m->begin.peak - m->begin.start + m->plain[0].start < whole ? whole : smaller(later, whole);
    return status;
}

/* Records the step as it is, from which segments are chosen. */
static haul_status record_for_choice(making *m)
{
    haul_estimate_result first = m->out->first;
    HAUL__ASSERT(!m->step->segment); /* it is recorded once */
    forget_steps(m);
    haul_status status = haul__fit_lead(m);
    if (!status)
        status = haul__fit_record_step(m);
    m->out->first = (haul_estimate_result){0};
    if (!status)
        status = find_update(m);
    haul_estimate_free(&m->out->first);
    m->out->first = first;
    return status;
}

static bool is_over(const haul__fit_result *fit)
{
    return fit->limit && fit->peak > fit->limit;
}

/* True if segments have to run again: without a limit, those with which the peak is lowest. */
static bool has_to_recompute(const making *m)
{
    return m->request->recompute && (!m->out->limit || is_over(m->out));
}

static haul_status choose_segments(making *m)
{
    haul__fit_result          *fit = m->out;
    haul__segments             chosen = fit->segments;
    const haul__segments_tries tries = {
        .run = try_segments, .context = m, .limit = fit->limit, .plain_peak = fit->plain_peak};
    haul__memory_step step;
    HAUL__ASSERT(m->step->segment);
    int64_t     peak;
    haul_status status = haul__fit_step_plan(m->step, fit, m->training->device, &step);
    if (!status)
        status = haul__segments_search(&chosen, &step, &tries);
    return status ? status : try_segments(m, &chosen, 0, &peak);
}

static haul_status recompute(making *m)
{
    haul_status status = m->step->segment ? HAUL_OK : record_for_choice(m);
    return status ? status : choose_segments(m);
}

/* ---- steps as they are ---- */

/* True if steps as they are should be tried, too. They may take less memory than followed ones. That matters if these
 * exceed the limit, or if the training adds up gradients, which it does to save memory. On a device that spills they
 * are not tried, because followed steps move less. */
static bool may_be_better(const making *m)
{
    return m->follows && !haul__spills(m->training->device) && (is_over(m->out) || m->training->accumulate > 1);
}

static const char *reason_for(const haul__fit_result *plain, const haul__fit_result *followed)
{
    if (is_over(followed) && (plain->peak <= plain->limit || plain->peak < followed->peak))
        return "only steps as they are fit in the limit";
    return followed->peak / 9 * 8 > plain->peak ? "the parts of a step take much less memory as they are" : NULL;
}

/* The training without following, in the same limit. What needs no recomputation is tried first. */
static haul_status try_as_it_is(making *m)
{
    haul__fit_result *fit = m->out;
    m->follows = fit->follows = false;
    m->enough = 0;
    haul__segments_turn_all(&fit->segments, false);
    haul_status status = m->step->segment ? HAUL_OK : record_for_choice(m);
    if (!status)
        status = try_again(m);
    fit->plain_peak = fit->peak;
    if (!status && has_to_recompute(m))
        status = choose_segments(m);
    return status;
}

static haul_status fit_as_it_is(making *m)
{
    HAUL__ASSERT(m->follows && m->out->follows);
    haul__fit_result followed = *m->out;
    m->out->first = m->out->step = m->out->epoch = (haul_estimate_result){0};
    const haul_status status = try_as_it_is(m);
    m->out->unfollowed = status ? NULL : reason_for(m->out, &followed);
    free_estimates(m->out->unfollowed ? &followed : m->out);
    if (m->out->unfollowed)
        return status;
    followed.layers = m->out->layers;
    *m->out = followed;
    HAUL__ASSERT(m->out->follows && !m->out->unfollowed);
    return status;
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

/* As the training is with nothing running again. */
static haul_status estimate_plain(making *m)
{
    const haul__training *t = m->training;
    haul__fit_result     *fit = m->out;
    haul_status           status = t->goes_on && m->follows ? haul__fit_state(m) : HAUL_OK;
    if (!status)
        status = estimate_first(m);
    m->plain[0] = m->begin;
    m->plain[1] = m->second;
    fit->begin_peak = m->begin.peak;
    if (!status)
        status = estimate_third(m);
    if (!status)
        haul__layers_count_flops(&fit->layers, &fit->step);
    if (!status)
        status = estimate_epoch(m);
    fit->peak = fit->plain_peak = peak_of_training(m);
    fit->limit = haul__training_limit_bytes(&m->request->limit, fit->plain_peak);
    fit->overhead = m->request->limit.overhead;
    return status;
}

static haul_status run_training(void *context)
{
    making               *m = context;
    const haul__training *t = m->training;
    haul_status           status = t->build(t->context, m->request->batch, m->follows, &m->objects);
    if (!status)
        status = estimate_load(m);
    if (!status)
        status = estimate_plain(m);
    if (!status && m->request->recompute)
        status = haul__segments_find(m->objects.net, &m->out->segments);
    m->again = true;
    if (!status && has_to_recompute(m))
        status = recompute(m);
    if (!status && m->follows && m->as_it_is && may_be_better(m))
        status = fit_as_it_is(m);
    return status;
}

static haul_status run_dry(const haul__training *t, const haul__fit_request *r, bool as_it_is, haul__fit_result *out)
{
    haul__fit_step step = {.segment = NULL};
    making m = {.training = t, .request = r, .follows = t->follows, .as_it_is = as_it_is, .out = out, .step = &step};
    haul_estimate_result all;
    *out = (haul__fit_result){.follows = t->follows};
    const haul_status status = haul_estimate(run_training, &m, &all);
    haul__fit_step_free(&step);
    const haul_estimate_device *d = haul__fit_device(&all, t->device);
    out->start = d ? d->start_bytes : 0;
    haul_estimate_free(&all);
    if (status)
        haul__fit_free(out);
    return status;
}

haul_status haul__fit_run_whole(const haul__training *t, const haul__fit_request *r, haul__fit_result *out)
{
    return run_dry(t, r, false, out);
}

haul_status haul__fit(const haul__training *t, const haul__fit_request *r, haul__fit_result *out)
{
    return run_dry(t, r, true, out);
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
