#include "plan/link_rates.h"

#include <haul/autograd.h>
#include <haul/ops.h>
#include <haul/scope.h>
#include <haul/transfer.h>
#include <math.h>

#include "base/assert.h"
#include "core/device.h"
#include "core/error.h"
#include "core/scope.h"
#include "plan/probe.h"

typedef struct copy {
    haul_device *device;
    haul_tensor *from, *to;
} copy;

/* Each copy ends before the next begins, as the first use of a tensor on the other side waits for it. */
static haul_status run_copy(void *context)
{
    const copy *c = context;
    haul_status status = haul_copy_into(c->to, c->from);
    return status ? status : haul_device_sync(c->device);
}

/* Seconds of a copy; NaN: it failed, and the thread's error is the cause. */
static double time_copy(haul_device *device, bool up, bool pinned, int64_t bytes)
{
    const double budget = 0.02;
    double       seconds = NAN;
    HAUL__ASSERT(bytes > 0 && device != haul_cpu());
    haul_scope  *scope = haul__scope_push(NULL);
    haul_tensor *host = haul_to(haul_zeros(HAUL_U8, HAUL_SHAPE(bytes)), haul_cpu());
    haul_tensor *there = haul_to(host, device);
    if (pinned)
        host = haul_pin(host, device);
    copy c = {device, up ? host : there, up ? there : host};
    if (scope && !haul_tensor_check(host) && !haul_tensor_check(there))
        seconds = haul__probe_seconds(&(haul__probe){device, run_copy, &c}, budget);
    haul_scope_pop(scope);
    return seconds;
}

/* The largest size for which there is memory. */
static double rate_of(haul_device *device, bool up, bool pinned, double latency)
{
    enum { LEAST = 64 << 10, MOST = 16 << 20 };
    for (int64_t bytes = MOST; bytes >= LEAST; bytes /= 4) {
        const double seconds = time_copy(device, up, pinned, bytes);
        if (!isnan(seconds))
            return (double)bytes / fmax(seconds - latency, seconds / 10);
        if (haul_error_status() != HAUL_OUT_OF_MEMORY)
            break;
    }
    return NAN;
}

static haul_status measure(haul_device *device, bool up, haul__machine_link *out)
{
    const double latency = time_copy(device, up, true, 64);
    const double pinned = isnan(latency) ? NAN : rate_of(device, up, true, latency);
    const double pageable = isnan(pinned) ? NAN : rate_of(device, up, false, latency);
    if (isnan(pageable))
        return haul_error_status();
    out->latency_ns = (int64_t)fmin(latency * 1e9, 1e9);
    out->pinned = (int64_t)fmax(1, fmin(pinned, 1e18));
    out->pageable = (int64_t)fmax(1, fmin(pageable, 1e18));
    HAUL__ASSERT(out->latency_ns >= 0 && out->pinned > 0 && out->pageable > 0);
    out->overlap = (up ? device->upload : device->download) != device->compute;
    return HAUL_OK;
}

haul_status haul__links_measure(haul_device *device, haul__machine_link *up, haul__machine_link *down)
{
    haul_scope *scope = haul__scope_push(NULL);
    haul_status status = scope ? HAUL_OK : haul_error_status();
    if (scope)
        haul_set_grad_enabled(false);
    if (!status)
        status = measure(device, true, up);
    if (!status)
        status = measure(device, false, down);
    haul_scope_pop(scope);
    return status;
}
