/* Block sizes: four classes for each power of two (64, 80, 96, 112, 128, 160, ...), so that at most a fifth of a block
 * is unused. */
#ifndef HAUL_MEMORY_SIZE_CLASS_H
#define HAUL_MEMORY_SIZE_CLASS_H

#include "base/hostile.h"
#include "device/device.h"

enum { HAUL__MIN_LOG = 6, HAUL__CLASS_STEPS = 4, HAUL__BINS = (63 - HAUL__MIN_LOG) * HAUL__CLASS_STEPS };

/* The smallest block of pinned memory: drivers pin whole pages. */
enum { HAUL__LEAST_PINNED = 4096 };

/* The only two sizes up to the second one in hostile builds. */
enum { HAUL__HOSTILE_SMALL = 64 << 10, HAUL__HOSTILE_LARGE = 4 << 20 };

/* The smallest class that holds `bytes`; -1 if none does. */
static inline int haul__bin_of(size_t bytes)
{
    if (haul__is_hostile(HAUL__HOSTILE_SIZES) && bytes <= HAUL__HOSTILE_LARGE)
        bytes = bytes <= HAUL__HOSTILE_SMALL ? HAUL__HOSTILE_SMALL : HAUL__HOSTILE_LARGE;
    if (bytes <= (size_t)1 << HAUL__MIN_LOG)
        return 0;
    if (bytes > (size_t)7 << 60)
        return -1;
    int    log = 63 - __builtin_clzll(bytes - 1); /* 2^log <= bytes - 1 */
    size_t quarter = (bytes - 1) >> (log - 2) & 3;
    return (log - HAUL__MIN_LOG) * HAUL__CLASS_STEPS + (int)quarter + 1;
}

/* The same for a request of a device's memory, or of memory that is pinned for it. Where the driver takes large
 * requests in whole pages, they are rounded up to these: so all counts, limits and estimates are what the driver takes.
 * From eight pages on, all classes are whole pages. */
static inline int haul__bin_for(const haul_device *device, bool pinned, size_t bytes)
{
    if (pinned)
        return haul__bin_of(bytes < HAUL__LEAST_PINNED ? (size_t)HAUL__LEAST_PINNED : bytes);
    const size_t page = haul__device_page(device);
    if (bytes > page / 2 && page && bytes <= SIZE_MAX - page)
        bytes = (bytes + page - 1) & ~(page - 1);
    return haul__bin_of(bytes);
}

static inline size_t haul__bin_bytes(int bin)
{
    return (size_t)(HAUL__CLASS_STEPS + bin % HAUL__CLASS_STEPS) << (bin / HAUL__CLASS_STEPS + HAUL__MIN_LOG - 2);
}

#endif
