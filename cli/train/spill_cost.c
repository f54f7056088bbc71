#include "cli/train/spill_cost.h"

#include <math.h>

#include "cli/shared/cli.h"
#include "cli/train/trainer.h"

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

static haul_status find_spill(trainer *t, int64_t limit, dry_run_spill *out)
{
    dry_run     d;
    haul_status status = dry_run_try_spilling(t, limit, &d);
    if (status)
        return status;
    *out = d.spill;
    dry_run_free(&d);
    return HAUL_OK;
}

void spill_cost_of(const dry_run_spill *spill, haul_device *device, spill_cost *out)
{
    *out = (spill_cost){.fits = spill->fits,
                        .bytes = spill->bytes,
                        .back_bytes = spill->back_bytes,
                        .seconds = (double)(spill->bytes + spill->back_bytes) / link_speed(device)};
}

bool spill_cost_find(trainer *t, int64_t limit, spill_cost *out)
{
    dry_run_spill spill;
    haul_status   status = find_spill(t, limit, &spill);
    haul_error_clear();
    if (!status)
        spill_cost_of(&spill, t->device, out);
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
