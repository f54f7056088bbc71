/* Statistics: every number that the library counts, by its name.
 *
 * The name of a statistic begins with what it is about. If it is about a device, the name of the device follows:
 *
 *     int64_t peak, waits;
 *     if (!haul_stat_get("memory.opencl:0.peak", &peak) && !haul_stat_get("sync.waits", &waits))
 *         printf("%lld bytes at the peak, %lld waits\n", (long long)peak, (long long)waits);
 *
 * The names are for tools that show, log or compare statistics without knowing them. The command `haul stats` lists
 * them. A program that wants a few numbers often can call haul_memory_stats_get, haul_pinned_stats_get (memory.h),
 * haul_transfer_stats_get (transfer.h) and haul_sync_stats_get (sync.h), which give the same numbers. Counting is
 * always on. Any thread may ask at any time. */
#ifndef HAUL_STATS_H
#define HAUL_STATS_H

#include <haul/base.h>
#include <haul/error.h>

HAUL_BEGIN

/* What a statistic is. Texts live as long as the process.
 *
 * - name: "transfers.h2d_bytes", or "memory.<device>.peak" for one that each device has: put the name of a device in
 *   the place of "<device>"
 * - unit: "bytes", "blocks", "calls", "ns" ...
 * - description: one sentence */
typedef struct haul_stat_info {
    const char *name, *unit, *description;
    bool        per_device; /* each device has one */
    bool        per_thread; /* it is counted for the calling thread, and not for the process */
} haul_stat_info;

/* The number of statistics. Those that each device has count once. */
HAUL_API int haul_stat_count(void);

/* Fill *out with the description of a statistic. Fails with HAUL_INVALID_ARGUMENT for another index, and leaves *out
 * unchanged.
 *
 * - index: 0 to haul_stat_count() - 1 */
HAUL_API haul_status haul_stat_describe(int index, haul_stat_info *out);

/* Set *out to the present value of a statistic. The device in the name is any name that haul_device_get accepts, and is
 * opened if it was not in use. Fails with HAUL_INVALID_ARGUMENT for a name that no statistic has; the message lists
 * names that are spelt like it.
 *
 * - name: "memory.cpu.allocated", "sync.waits" */
HAUL_API haul_status haul_stat_get(const char *name, int64_t *out);

/* Write the present values of all statistics to `out` as one JSON object, {"memory.cpu.allocated":0, ...}, with those
 * of all devices that the process has used. Like snprintf it writes at most `size` bytes, the last of which is 0, and
 * returns the length of the whole text without the 0: if that is `size` or more, the text is cut. Returns -1 on
 * failure.
 *
 * Values change and may take more digits in the next call, so ask for a few hundred bytes more than the length. */
HAUL_API int64_t haul_stats_json(char *out, size_t size);

HAUL_END

#endif
