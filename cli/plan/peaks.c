#include "cli/plan/peaks.h"

#include <math.h>

#include "cli/shared/cli.h"

/* A result and two operands, and what is computed with them. */
typedef struct probe probe;
struct probe {
    haul_device *device;
    haul_tensor *out, *a, *b;
    haul_status (*run)(haul_tensor *out, haul_tensor *a, haul_tensor *b);
};

/* Seconds of one run, on average over `times`; NaN on failure. */
static double seconds_of(const probe *p, int64_t times)
{
    double began = clock_seconds();
    for (int64_t i = 0; i < times; i++)
        if (p->run(p->out, p->a, p->b))
            return NAN;
    if (haul_device_sync(p->device))
        return NAN;
    return (clock_seconds() - began) / (double)times;
}

/* Seconds of the fastest run, measured for about `budget` seconds; NaN on failure. Several short runs are timed
 * together, so that the wait at their end does not count. */
static double fastest(const probe *p, double budget)
{
    const double together = 2e-3, until = clock_seconds() + budget;
    double       first = seconds_of(p, 1), best; /* the first compiles, and touches the memory */
    best = isnan(first) ? first : seconds_of(p, 1);
    while (!isnan(best) && clock_seconds() < until) {
        int64_t times = best < together ? (int64_t)(together / fmax(best, 1e-7)) : 1;
        double  seconds = seconds_of(p, times);
        best = isnan(seconds) ? seconds : fmin(best, seconds);
    }
    return best;
}

static bool make_operands(probe *p, haul_shape shape)
{
    p->a = haul_full(HAUL_F32, shape, 1);
    p->b = haul_full(HAUL_F32, shape, 0.5);
    p->out = haul_full(HAUL_F32, shape, 0);
    return haul_tensor_is_valid(p->a) && haul_tensor_is_valid(p->b) && haul_tensor_is_valid(p->out);
}

/* Matrices grow as long as a product is so short that the time allows a larger one. */
static double peak_flops(haul_device *device)
{
    enum { FIRST = 256, LAST = 8192 };
    const double long_enough = 4e-3, budget = 0.025;
    double       best = 0;
    for (int64_t n = FIRST; n <= LAST; n *= 2) {
        haul_scope *scope = haul_scope_push();
        probe       p = {.device = device, .run = haul_matmul_into};
        double      seconds = scope && make_operands(&p, HAUL_SHAPE(n, n)) ? fastest(&p, budget) : NAN;
        haul_scope_pop(scope);
        if (isnan(seconds))
            return best > 0 && haul_error_status() == HAUL_OUT_OF_MEMORY ? best : NAN;
        best = fmax(best, 2 * (double)n * (double)n * (double)n / seconds);
        if (seconds > long_enough)
            break;
    }
    return best;
}

/* Larger than the caches of most processors. Where memory is scarce, half of the size is tried, and so on. */
static double peak_bytes(haul_device *device)
{
    enum { FIRST = 16 << 20, LEAST = 1 << 16 };
    const double budget = 0.08;
    for (int64_t count = FIRST; count >= LEAST; count /= 2) {
        haul_scope *scope = haul_scope_push();
        probe       p = {.device = device, .run = haul_add_into};
        double      seconds = scope && make_operands(&p, HAUL_SHAPE(count)) ? fastest(&p, budget) : NAN;
        haul_scope_pop(scope);
        if (!isnan(seconds))
            return 3 * (double)count * sizeof(float) / seconds;
        if (haul_error_status() != HAUL_OUT_OF_MEMORY)
            break;
    }
    return NAN;
}

static bool can_compute(const haul_device *device)
{
    haul_device_properties p;
    if (haul_device_describe(device, &p))
        return false;
    if (p.kind == HAUL_KIND_META)
        haul_error_set(HAUL_DEVICE, "measure_peaks", "device", "%s computes nothing, so it has no speed; name another",
                       p.name);
    return p.kind != HAUL_KIND_META;
}

bool measure_peaks(haul_device *device, device_peaks *out)
{
    haul_scope  *scope = haul_scope_push();
    device_peaks peaks = {NAN, NAN};
    if (scope && can_compute(device) && !haul_set_device(device)) {
        haul_set_grad_enabled(false);
        peaks.bytes = peak_bytes(device);
        peaks.flops = isnan(peaks.bytes) ? NAN : peak_flops(device);
    }
    haul_scope_pop(scope);
    if (isnan(peaks.bytes) || isnan(peaks.flops))
        return false;
    *out = peaks;
    haul_error_clear();
    return true;
}
