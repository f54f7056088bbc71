#include "spill_cost.h"

#include <math.h>

#include "cli.h"
#include "trainer.h"

/* ---- the link ---- */

/* Seconds of a copy from pinned memory and of one back to it; NaN if there is no room for them. */
static double time_copies(haul_device *device, int64_t bytes)
{
    enum { ROUNDS = 3 };
    double       best = NAN;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *x = haul_pin(haul_to(haul_zeros(HAUL_U8, HAUL_SHAPE(bytes)), haul_cpu()), device);

    for (int i = 0; i < ROUNDS && !haul_error_status(); i++) {
        haul_scope  *round = haul_scope_push();
        const double began = clock_seconds();
        haul_tensor *there = haul_to(x, device);
        haul_tensor *back = haul_to(there, haul_cpu());
        if (!haul_tensor_check(back) && !haul_device_sync(device))
            best = fmin(best, clock_seconds() - began);
        haul_scope_pop(round);
    }
    haul_scope_pop(scope);
    return best;
}

/* Bytes a second, of both ways together; NaN: not known. */
static double link_speed(haul_device *device)
{
    enum { LEAST = 64 << 10, MOST = 8 << 20 };
    double seconds = NAN;

    for (int64_t bytes = MOST; bytes >= LEAST; bytes /= 4) {
        seconds = time_copies(device, bytes);
        haul_error_clear();
        if (!isnan(seconds))
            return 2 * (double)bytes / seconds;
    }
    return NAN;
}

/* ---- a step ---- */

/* The dry run counts what is allocated now as well. */
static haul_status estimate(trainer *t, int64_t limit, spill_cost *out)
{
    const trainer     kept = *t;
    haul_memory_stats now = {0};
    dry_run           d;
    haul_status       status = haul_memory_stats_get(t->device, &now);

    t->plans_spill = true;
    if (!status)
        status = haul_memory_set_tensor_limit(t->device, limit + now.allocated - t->expected.start);
    if (!status)
        status = dry_run_try(t, &d);
    *t = kept; /* the dry run has built a training of its own */
    if (now.limit)
        trainer_set_limit(t);
    else
        haul_memory_set_limit(t->device, 0);
    if (status)
        return status;
    const haul_estimate_device *steps = dry_run_device(&d.steps, t->device),
                               *epoch = dry_run_device(&d.epoch, t->device);
    if (steps && epoch)
        *out = (spill_cost){.fits = steps->fits && epoch->fits,
                            .bytes = steps->spilled_bytes / SPILLED_STEPS,
                            .back_bytes = steps->returned_bytes / SPILLED_STEPS};
    dry_run_free(&d);
    return HAUL_OK;
}

bool spill_cost_find(trainer *t, int64_t limit, spill_cost *out)
{
    *out = (spill_cost){.seconds = NAN};
    const double speed = link_speed(t->device);
    haul_status  status = haul_memory_set_spill(t->device, true);

    if (!status)
        status = estimate(t, limit, out);
    if (!status)
        haul_memory_set_spill(t->device, false);
    haul_error_clear();
    out->seconds = (double)(out->bytes + out->back_bytes) / speed;
    return !status;
}

const char *spill_cost_text(char *out, size_t size, const spill_cost *c)
{
    int used = snprintf(out, size, "%s to host memory and %s back in each step", text_bytes(c->bytes),
                        text_bytes(c->back_bytes));

    if (!isnan(c->seconds) && used > 0 && (size_t)used < size)
        snprintf(out + used, size - (size_t)used, ", about %s", text_seconds(c->seconds));
    return out;
}
