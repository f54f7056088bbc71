#include "plan/spill_cost.h"

#include <string.h>

#include "base/assert.h"
#include "base/numbers.h"
#include "memory/settings.h"
#include "memory/spill/spill.h"
#include "plan/calibrate.h"
#include "plan/fit_run.h"

/* ---- a training that spills ---- */

/* Memory that is allocated now does not move, so the device gets the training's limit in addition to it. */
static haul_status begin_spilling(haul_device *device, const haul__fit_request *r)
{
    HAUL__ASSERT(r->limit.bytes > 0 && r->limit.percent == 0);
    haul_memory_stats now = {0};
    haul_status       status = haul_memory_stats_get(device, &now);
    if (!status)
        status = haul_memory_set_spill(device, true);
    return status ? status : haul_memory_set_tensor_limit(device, r->limit.bytes + now.allocated - r->start);
}

/* Mini-batches from the beginning of the training on, one epoch after the other. */
static haul_status make_mini_batches(haul__fit_run *m, int count)
{
    haul_loader *loader = m->objects.loader;
    haul_status  status = HAUL_OK;
    for (int i = 0; i < count && !status; i++, m->made++) {
        m->batch = haul_loader_next(loader);
        if (!m->batch && !haul_error_status() && !haul_loader_start(loader, 1))
            m->batch = haul_loader_next(loader);
        status = m->batch ? haul__fit_part(m, m->follows, m->made % haul__fit_count_parts(m), haul__fit_count_parts(m))
                          : haul_error_status();
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
    haul__fit_run        *m = context;
    const haul__training *t = m->training;
    haul_status           status = t->build(t->context, m->request->batch, m->follows, &m->objects);
    if (!status)
        status = haul__segments_apply(&m->out->segments, m->objects.net);
    if (!status && t->goes_on)
        status = haul__fit_state(m);
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
    if (d && d->over_bytes > spill->over) {
        spill->over = d->over_bytes;
        memcpy(spill->over_operation, d->over_operation, sizeof spill->over_operation);
        memcpy(spill->over_module, d->over_module, sizeof spill->over_module);
    }
}

/* Within the limit a step moves nothing. */
static haul_status estimate_spilling(const haul__training *t, const haul__fit_request *r, haul__fit_result *fit)
{
    haul__fit_run        m = {.training = t, .request = r, .follows = fit->follows, .out = fit};
    haul_estimate_result all;
    fit->spill = (haul__fit_spill){.fits = fit->limit && fit->peak <= fit->limit};
    if (fit->spill.fits)
        return HAUL_OK;
    const haul_status status = haul_estimate(begin_training, &m, &all);
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
    HAUL__ASSERT(!fit->spill.fits || !fit->spill.missing);
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
        status = haul__fit_run_whole(t, r, out);
    if (!status && (status = estimate_spilling(t, r, out)))
        haul__fit_free(out);
    haul__memory_settings_set(t->device, &before);
    return status;
}

/* ---- its cost ---- */

void haul__spill_cost_of(const haul__fit_spill *spill, haul_device *device, haul__spill_cost *out)
{
    *out = (haul__spill_cost){.spill = *spill,
                              .seconds = (double)(spill->bytes + spill->back_bytes) / haul__measure_link(device)};
}

bool haul__spill_cost_find(const haul__training *t, const haul__fit_request *r, haul__spill_cost *out)
{
    haul__fit_result fit;
    haul_status      status = haul__fit_spilling(t, r, &fit);
    haul_error_clear();
    if (status)
        return false;
    haul__spill_cost_of(&fit.spill, t->device, out);
    haul__fit_free(&fit);
    return true;
}
