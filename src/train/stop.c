/* Early stopping: the best metric, and the epochs since then. */
#include <haul/train.h>
#include <inttypes.h>
#include <math.h>

#include "core/error.h"

static haul_status check(const haul_early_stop *stop, int64_t epoch)
{
    static const char operation[] = "haul_early_stop_update";
    if (!stop)
        return haul__fail_null(operation, "stop");
    if (!(stop->min_delta >= 0 && stop->min_delta < INFINITY))
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "stop",
                          "stop.min_delta is %g; a finite number of 0 or more is expected", stop->min_delta);
    if (epoch < 1)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "epoch", "epoch is %" PRId64 "; 1 or more is expected",
                          epoch);
    return HAUL_OK;
}

static bool is_better(const haul_early_stop *s, double metric)
{
    if (!isfinite(metric) || !s->best_epoch)
        return isfinite(metric);
    return s->rising ? metric > s->best + s->min_delta : metric < s->best - s->min_delta;
}

bool haul_early_stop_update(haul_early_stop *stop, int64_t epoch, double metric)
{
    if (check(stop, epoch))
        return false;
    const bool better = is_better(stop, metric);
    stop->stalled = better ? 0 : stop->stalled + (stop->stalled < INT64_MAX);
    if (better) {
        stop->best = metric;
        stop->best_epoch = epoch;
    }
    return better;
}

bool haul_early_stop_is_due(const haul_early_stop *stop)
{
    if (!stop) {
        haul__fail_null("haul_early_stop_is_due", "stop");
        return false;
    }
    return stop->patience > 0 && stop->stalled >= stop->patience;
}
