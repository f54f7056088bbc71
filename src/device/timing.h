/* The events of commands: submitted, started, done. haul/events.h has their fields.
 *
 * submit.c hands a command over through haul__timing_give where somebody listens to one of the three. A synchronous
 * stream's command is done when that returns. Others are noted with the stream, and reported by a thread that waited
 * for it. */
#ifndef HAUL_DEVICE_TIMING_H
#define HAUL_DEVICE_TIMING_H

#include "device/device.h"

/* Let `give` hand the command to the backend, and emit its events. A command that is refused makes none. An
 * asynchronous stream is locked, and events are held. */
haul_status haul__timing_give(haul__stream *s, const haul__command *c,
                              haul_status (*give)(haul__stream *s, const haul__command *c));

/* Emit STARTED and DONE of what is known to be done on the device's streams, asking the device without waiting. To be
 * called when the host has waited for one of them, without their locks. */
void haul__timing_report(haul_device *device);

/* The device is lost: forget what is noted. */
void haul__timing_drop(haul_device *device);

/* To be called after each command. Where nobody waits for long the device is asked how far it is, so that what is noted
 * does not grow without bound. */
enum { HAUL__TIMED_MANY = 256 };
void               haul__timing_catch_up(haul__stream *s);
static inline void haul__timing_relieve(haul__stream *s)
{
    int count = atomic_load_explicit(&s->timed_count, memory_order_relaxed);
    if (__builtin_expect(count >= HAUL__TIMED_MANY && count % HAUL__TIMED_MANY == 0, 0))
        haul__timing_catch_up(s);
}

#endif
