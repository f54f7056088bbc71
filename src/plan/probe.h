/* Timing a function that submits work to a device. */
#ifndef HAUL_PLAN_PROBE_H
#define HAUL_PLAN_PROBE_H

#include <haul/device.h>

typedef struct haul__probe {
    haul_device *device;
    haul_status (*run)(void *context);
    void *context;
} haul__probe;

/* Seconds of the fastest run, measured for about `budget` seconds, but at least three times; NaN on failure. Several
 * short runs are timed together, so that the wait at their end does not count. Objects that a run makes are freed after
 * it. */
double haul__probe_seconds(const haul__probe *p, double budget);

/* Seconds since an arbitrary moment; never decreases. */
double haul__now_seconds(void);

#endif
