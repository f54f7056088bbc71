#include "observe/profile/energy.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "device/device.h"

enum { PERIOD = 5000000 }; /* ns: RAPL's counters change every millisecond, and a reading takes about 10 microseconds */

static void add_curve(haul__energy *e, const haul_device *device)
{
    haul__meter meter;
    if (haul__meter_find(&meter, device) && haul__grow(&e->curves, &e->room, e->count + 1, sizeof *e->curves))
        e->curves[e->count++] = (haul__energy_curve){.meter = meter};
}

void haul__energy_open(haul__energy *e)
{
    add_curve(e, haul_cpu());
    for (int slot = 0; slot < HAUL__MAX_DEVICES; slot++) {
        const haul_device *device = haul__device_in_use(slot);
        if (device && device != haul_cpu() && haul__device_computes(device))
            add_curve(e, device);
    }
    haul__energy_read(e, 0, true);
}

void haul__energy_close(haul__energy *e)
{
    for (size_t i = 0; i < e->count; i++)
        haul__free(e->curves[i].samples);
    haul__free(e->curves);
}

static void add_sample(haul__energy_curve *c, int64_t now)
{
    HAUL__ASSERT(!c->count || c->samples[c->count - 1].at <= now);
    const double joules = haul__meter_read(&c->meter);
    if (!isnan(joules) && haul__grow(&c->samples, &c->room, c->count + 1, sizeof *c->samples))
        c->samples[c->count++] = (haul__energy_sample){now, joules};
}

void haul__energy_read(haul__energy *e, int64_t now, bool always)
{
    if (!e->count || (!always && now - e->last < PERIOD))
        return;
    for (size_t i = 0; i < e->count; i++)
        add_sample(&e->curves[i], now);
    e->last = now;
}

const haul__energy_curve *haul__energy_of(const haul__energy *e, const haul_device *device)
{
    for (size_t i = 0; i < e->count; i++)
        if (e->curves[i].meter.device == device)
            return &e->curves[i];
    return NULL;
}

/* Joules until a time, between two samples in proportion to it. */
static double joules_at(const haul__energy_curve *c, int64_t at)
{
    size_t low = 0, high = c->count; /* the first sample after `at` */
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (c->samples[middle].at <= at)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0 || low == c->count)
        return c->count ? c->samples[low ? low - 1 : 0].joules : 0;
    const haul__energy_sample before = c->samples[low - 1], after = c->samples[low];
    HAUL__ASSERT(before.at <= at && at < after.at);
    const double share = (double)(at - before.at) / (double)(after.at - before.at);
    return before.joules + share * (after.joules - before.joules);
}

double haul__joules_between(const haul__energy_curve *c, int64_t begin, int64_t end)
{
    return c ? joules_at(c, end) - joules_at(c, begin) : 0;
}
