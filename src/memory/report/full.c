#include "memory/report/full.h"

#include <stdio.h>
#include <string.h>

#include "base/numbers.h"
#include "core/error.h"
#include "device/device.h"
#include "memory/report/origins.h"
#include "memory/report/report.h"

/* "; haul_memory_pin keeps 2.0 MiB there; spill: ...", or "": what keeps elements from being spilled. */
static void spilling_text(const haul_memory_stats *stats, const char *refused, char *out, size_t size)
{
    char text[32];
    int  used = 0;
    if (stats->pinned)
        used =
            snprintf(out, size, "; haul_memory_pin keeps %s there", haul__size_text(stats->pinned, text, sizeof text));
    if (*refused)
        snprintf(out + used, size - (size_t)used, "; %s", refused);
}

void haul__fail_full(struct haul__allocator *a, size_t bytes, const char *origin)
{
    haul_device  *device = a->device;
    haul__holders holders;
    char asked[32], used[32], limit[32], who[400], refused[sizeof a->tiers.refused], spilling[400] = "", left[128] = "";
    haul__spin_lock(&a->lock);
    haul_memory_stats stats = a->stats;
    haul__holders_find(&a->live, NULL, &holders);
    memcpy(refused, a->tiers.refused, sizeof refused);
    *a->tiers.refused = '\0';
    haul__spin_unlock(&a->lock);
    haul__holders_text(&holders, who, sizeof who);
    haul__size_text((int64_t)bytes, asked, sizeof asked);
    haul__size_text(stats.allocated, used, sizeof used);
    spilling_text(&stats, refused, spilling, sizeof spilling);
    if (stats.limit > 0) {
        haul__fail(
            HAUL_OUT_OF_MEMORY, origin, NULL,
            "out of memory on %s: requested %s, %s of %s limit in use%s%s; lower the batch size, free tensors, or "
            "raise the limit with haul_memory_set_limit",
            device->name, asked, used, haul__size_text(stats.limit, limit, sizeof limit), who, spilling);
    } else {
        haul__device_memory_left(device, left, sizeof left);
        haul__fail(HAUL_OUT_OF_MEMORY, origin, NULL,
                   "out of memory on %s: requested %s, but the device does not have that much memory with %s in "
                   "use%s%s%s%s; lower "
                   "the batch size or free tensors",
                   device->name, asked, used, who, spilling, left[0] ? "; " : "", left);
    }
    haul__report_failure(a, NULL, bytes, origin);
}

void haul__fail_over(struct haul__allocator *a, const haul__scope_limit *over, size_t bytes, const char *origin)
{
    haul__holders holders;
    char          who[400];
    haul__spin_lock(&a->lock);
    haul__holders_find(&a->live, over, &holders);
    haul__spin_unlock(&a->lock);
    haul__scope_limit_fail(over, bytes, origin, haul__holders_text(&holders, who, sizeof who));
    haul__report_failure(a, over, bytes, origin);
}
