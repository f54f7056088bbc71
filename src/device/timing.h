/* The events of commands: submitted, started, done. haul/events.h documents their fields.
 *
 * submit.c submits a command through haul__timing_give if one of the three has a subscriber. A synchronous stream's
 * command is done when that function returns. Other commands are recorded with the stream, and reported by a thread
 * that waited for it. */
#ifndef HAUL_DEVICE_TIMING_H
#define HAUL_DEVICE_TIMING_H

#include "device/device.h"

/* Lets `give` pass the command to the backend, and emits its events. A refused command emits none. The caller holds the
 * lock of an asynchronous stream, and events are held back. */
haul_status haul__timing_give(haul__stream *s, const haul__command *c,
                              haul_status (*give)(haul__stream *s, const haul__command *c));

/* Emits STARTED and DONE of commands that are known to be done on the device's streams; queries the device without
 * waiting. Call it after the host has waited for one of them, without their locks. */
void haul__timing_emit(haul_device *device);

/* The device is lost: drops the recorded commands. */
void haul__timing_drop(haul_device *device);

/* Call this after each command. If no thread waits for long, it asks the device how far it is, so that the record does
 * not grow without bound. */
enum { HAUL__TIMED_MANY = 256 };
void               haul__timing_catch_up(haul__stream *s);
static inline void haul__timing_relieve(haul__stream *s)
{
    int count = atomic_load_explicit(&s->timed_count, memory_order_relaxed);
    if (__builtin_expect(count >= HAUL__TIMED_MANY && count % HAUL__TIMED_MANY == 0, 0))
        haul__timing_catch_up(s);
}

#endif
