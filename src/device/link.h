/* How fast a device copies from and to host memory, by large copies for which the host waited. */
#ifndef HAUL_DEVICE_LINK_H
#define HAUL_DEVICE_LINK_H

#include <stddef.h>

#include "base/system/clock.h"
#include "core/device.h"

/* Smaller copies take their time for other things than the link. */
enum { HAUL__LINK_LEAST = 1 << 20 };

/* Before a copy that is timed; 0: it is too small. */
static inline int64_t haul__link_start(size_t bytes)
{
    return bytes >= HAUL__LINK_LEAST ? haul__now_ns() : 0;
}

/* The copy that began at `start` is over. */
void haul__link_end(haul_device *device, size_t bytes, int64_t start);

/* Nanoseconds that a copy of `bytes` probably takes; -1 if none was timed yet. */
int64_t haul__link_ns(const haul_device *device, int64_t bytes);

#endif
