/* The energy that devices used while a profile was recorded, read every few milliseconds. */
#ifndef HAUL_OBSERVE_PROFILE_ENERGY_H
#define HAUL_OBSERVE_PROFILE_ENERGY_H

#include "observe/usage/sensors.h"

/* Joules since the beginning of the profile, at a time in its nanoseconds. */
typedef struct haul__energy_sample {
    int64_t at;
    double  joules;
} haul__energy_sample;

/* A device with a counter. */
typedef struct haul__energy_curve {
    haul__meter          meter;
    haul__energy_sample *samples;
    size_t               count, room;
} haul__energy_curve;

typedef struct haul__energy {
    haul__energy_curve *curves;
    size_t              count, room;
    int64_t             last; /* when it was read */
} haul__energy;

/* Begins for the CPU and the devices in use that have a counter. A curve for which there is no memory is left out. */
void haul__energy_open(haul__energy *e);
void haul__energy_close(haul__energy *e);

/* Reads all counters if that is due, or `always`. Samples for which there is no memory are left out. */
void haul__energy_read(haul__energy *e, int64_t now, bool always);

/* The curve of a device; NULL if it has no counter. */
const haul__energy_curve *haul__energy_of(const haul__energy *e, const haul_device *device);

/* Joules from `begin` to `end`, with the mean power between two samples. 0 without a curve. */
double haul__joules_between(const haul__energy_curve *c, int64_t begin, int64_t end);

#endif
