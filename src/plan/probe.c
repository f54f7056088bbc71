#include "plan/probe.h"

#include <haul/scope.h>
#include <math.h>

#include "base/assert.h"
#include "base/system/clock.h"
#include "core/scope.h"

double haul__now_seconds(void)
{
    return 1e-9 * (double)haul__now_ns();
}

static haul_status run_once(const haul__probe *p)
{
    haul_scope *scope = haul__scope_push(NULL);
    if (!scope)
        return haul_error_status();
    haul_status status = p->run(p->context);
    haul_scope_pop(scope);
    return status;
}

/* Seconds of one run, on average over `times`; NaN on failure. */
static double seconds_of(const haul__probe *p, int64_t times)
{
    HAUL__ASSERT(times > 0 && p->run && p->device);
    double began = haul__now_seconds();
    for (int64_t i = 0; i < times; i++)
        if (run_once(p))
            return NAN;
    if (haul_device_sync(p->device))
        return NAN;
    return (haul__now_seconds() - began) / (double)times;
}

double haul__probe_seconds(const haul__probe *p, double budget)
{
    enum { LEAST = 3, MOST = 16 };
    const double together = 2e-3;
    double       first = seconds_of(p, 1), best; /* the first compiles, and touches the memory */
    const double until = haul__now_seconds() + budget;
    int64_t      before = 1;
    best = isnan(first) ? first : seconds_of(p, 1);
    for (int i = 1, tried = 1; !isnan(best) && tried < MOST && (i < LEAST || haul__now_seconds() < until); tried++) {
        const int64_t times = best < together ? (int64_t)(together / fmax(best, 1e-7)) : 1;
        const double  seconds = seconds_of(p, times);
        i += 2 * before >= times; /* a shorter run was mostly the wait for the device at its end */
        before = times;
        best = isnan(seconds) ? seconds : fmin(best, seconds);
    }
    return best;
}
