#include "plan/calibrate.h"

#include <haul/autograd.h>
#include <haul/device.h>
#include <haul/ops.h>
#include <haul/scope.h>
#include <haul/transfer.h>
#include <math.h>

#include "backends/sim/sim.h"
#include "base/assert.h"
#include "core/scope.h"
#include "plan/probe.h"

/* ---- peaks ---- */

/* A result and two operands, and the operation on them. */
typedef struct operands {
    haul_tensor *out, *a, *b;
    haul_status (*run)(haul_tensor *out, haul_tensor *a, haul_tensor *b);
} operands;

static haul_status run_operands(void *context)
{
    const operands *p = context;
    return p->run(p->out, p->a, p->b);
}

static double fastest(haul_device *device, operands *p, double budget)
{
    return haul__probe_seconds(&(haul__probe){device, run_operands, p}, budget);
}

static bool make_operands(operands *p, haul_shape shape)
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
        haul_scope *scope = haul__scope_push(NULL);
        operands    p = {.run = haul_matmul_into};
        double      seconds = scope && make_operands(&p, HAUL_SHAPE(n, n)) ? fastest(device, &p, budget) : NAN;
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
        haul_scope *scope = haul__scope_push(NULL);
        operands    p = {.run = haul_add_into};
        double      seconds = scope && make_operands(&p, HAUL_SHAPE(count)) ? fastest(device, &p, budget) : NAN;
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

bool haul__measure_peaks(haul_device *device, haul__peaks *out)
{
    int                  number;
    const haul__machine *machine = haul__sim_machine(device, &number);
    if (machine && can_compute(device)) { /* virtual times follow from the machine: nothing is measured */
        HAUL__ASSERT(0 <= number && number < machine->device_count);
        const haul__machine_device *d = &machine->devices[number];
        *out = (haul__peaks){(double)haul__machine_product_rate(d, HAUL_F32), (double)d->bytes_per_second};
        return true;
    }
    haul_scope *scope = haul__scope_push(NULL);
    haul__peaks peaks = {NAN, NAN};
    if (scope && can_compute(device) && !haul_set_device(device)) {
        haul_set_grad_enabled(false);
        peaks.bytes = peak_bytes(device);
        peaks.flops = isnan(peaks.bytes) ? NAN : peak_flops(device);
    }
    haul_scope_pop(scope);
    if (isnan(peaks.bytes) || isnan(peaks.flops))
        return false;
    HAUL__ASSERT(peaks.bytes > 0 && peaks.flops > 0);
    *out = peaks;
    haul_error_clear();
    return true;
}

/* ---- the link ---- */

/* Seconds of a copy from pinned memory and of one back to it; NaN if there is no room for them. */
static double time_copies(haul_device *device, int64_t bytes)
{
    enum { ROUNDS = 3 };
    double best = NAN;
    HAUL__ASSERT(bytes > 0);
    haul_scope  *scope = haul__scope_push(NULL);
    haul_tensor *x = haul_pin(haul_to(haul_zeros(HAUL_U8, HAUL_SHAPE(bytes)), haul_cpu()), device);
    for (int i = 0; i < ROUNDS && !haul_error_status(); i++) {
        haul_scope  *round = haul__scope_push(NULL);
        const double began = haul__now_seconds();
        haul_tensor *there = haul_to(x, device);
        haul_tensor *back = haul_to(there, haul_cpu());
        if (!haul_tensor_check(back) && !haul_device_sync(device))
            best = fmin(best, haul__now_seconds() - began);
        haul_scope_pop(round);
    }
    haul_scope_pop(scope);
    return best;
}

double haul__measure_link(haul_device *device)
{
    enum { LEAST = 64 << 10, MOST = 8 << 20 };
    int                  number;
    const haul__machine *machine = haul__sim_machine(device, &number);
    double               seconds = NAN;
    if (machine && number)
        return (double)haul__machine_link_of(machine, 0, number)->pinned;
    for (int64_t bytes = MOST; bytes >= LEAST; bytes /= 4) {
        seconds = time_copies(device, bytes);
        haul_error_clear();
        if (!isnan(seconds))
            return 2 * (double)bytes / seconds;
    }
    return NAN;
}
