/* Statistics by name. The table below is the only list of them: a new statistic is one row.
 *
 * A row has a function that reads one member of what the library counts. The member is named by its offset in the
 * struct that the function fills. */
#include <haul/memory.h>
#include <haul/stats.h>
#include <haul/sync.h>
#include <haul/transfer.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/json_text.h"
#include "base/text/list.h"
#include "base/text/spelling.h"
#include "device/device.h"
#include "events/events.h"
#include "files/disk_cache.h"
#include "group/group.h"

/* ---- readers: device is NULL for statistics that no device has ---- */

typedef haul_status reader(const haul_device *device, size_t member, int64_t *out);

static haul_status read_member(haul_status status, const void *all, size_t member, int64_t *out)
{
    HAUL__ASSERT(member % sizeof *out == 0);
    if (!status)
        memcpy(out, (const char *)all + member, sizeof *out);
    return status;
}

static haul_status read_memory(const haul_device *device, size_t member, int64_t *out)
{
    haul_memory_stats all;
    return read_member(haul_memory_stats_get(device, &all), &all, member, out);
}

static haul_status read_pinned(const haul_device *device, size_t member, int64_t *out)
{
    haul_memory_stats all;
    return read_member(haul_pinned_stats_get(device, &all), &all, member, out);
}

static haul_status read_transfers(const haul_device *device, size_t member, int64_t *out)
{
    haul_transfer_stats all;
    (void)device;
    return read_member(haul_transfer_stats_get(&all), &all, member, out);
}

/* Waits of the calling thread, as the stream counts them: by nanoseconds. */
typedef struct waits {
    haul__event_count waited, ready, driver;
} waits;

static haul_status read_waits(const haul_device *device, size_t member, int64_t *out)
{
    waits all = {haul__event_count_of(HAUL_EVENT_WAITED), haul__event_count_of(HAUL_EVENT_FOUND_DONE),
                 haul__event_count_of(HAUL_EVENT_DRIVER_CALLED)};
    (void)device;
    return read_member(HAUL_OK, &all, member, out);
}

static haul_status read_cache(const haul_device *device, size_t member, int64_t *out)
{
    haul__cache_count all = haul__cache_counts();
    (void)device;
    return read_member(HAUL_OK, &all, member, out);
}

static haul_status read_groups(const haul_device *device, size_t member, int64_t *out)
{
    haul__group_count all = haul__group_counts();
    (void)device;
    return read_member(HAUL_OK, &all, member, out);
}

static haul_status read_free(const haul_device *device, size_t member, int64_t *out)
{
    (void)member;
    *out = haul__device_free_bytes((haul_device *)device);
    return HAUL_OK;
}

static haul_status read_kernels(const haul_device *device, size_t member, int64_t *out)
{
    (void)member;
    *out = haul__kernels_ready(device);
    return HAUL_OK;
}

static haul_status read_events(const haul_device *device, size_t member, int64_t *out)
{
    (void)device, (void)member;
    *out = haul__events_delivered();
    return HAUL_OK;
}

static haul_status read_host(const haul_device *device, size_t member, int64_t *out)
{
    (void)device, (void)member;
    *out = haul__host_blocks();
    return HAUL_OK;
}

/* ---- the table ---- */

#define DEVICE "<device>"

typedef struct statistic {
    const char *name, *unit, *description;
    reader     *read;
    size_t      member;
    bool        per_thread;
} statistic;

#define MEMORY(member)   read_memory, offsetof(haul_memory_stats, member), false
#define PINNED(member)   read_pinned, offsetof(haul_memory_stats, member), false
#define TRANSFER(member) read_transfers, offsetof(haul_transfer_stats, member), false
#define WAITS(member)    read_waits, offsetof(waits, member), true
#define CACHE(member)    read_cache, offsetof(haul__cache_count, member), false

#define GROUPS(member) read_groups, offsetof(haul__group_count, member), false

static const statistic table[] = {
    {"memory." DEVICE ".allocated", "bytes", "Bytes in blocks that tensors hold now.", MEMORY(allocated)},
    {"memory." DEVICE ".reserved", "bytes", "Bytes obtained from the device, in use or cached.", MEMORY(reserved)},
    {"memory." DEVICE ".peak", "bytes", "Highest value of allocated since the start or a reset.",
     MEMORY(peak_allocated)},
    {"memory." DEVICE ".peak_reserved", "bytes", "Highest value of reserved since the start or a reset.",
     MEMORY(peak_reserved)},
    {"memory." DEVICE ".limit", "bytes", "Bytes that reserved and overhead may not exceed together; 0 for no limit.",
     MEMORY(limit)},
    {"memory." DEVICE ".overhead", "bytes", "Bytes of the driver's context, kernels and libraries, as far as known.",
     MEMORY(overhead)},
    {"memory." DEVICE ".free", "bytes",
     "Bytes that the device has left, on the CPU for this process; -1 if it cannot tell.", read_free, 0, false},
    {"memory." DEVICE ".derived", "bytes", "Of allocated: copies of parameters in another dtype or memory format.",
     MEMORY(derived_bytes)},
    {"memory." DEVICE ".spilled", "bytes", "Bytes of tensors whose elements are in host memory or a file now.",
     MEMORY(spilled)},
    {"memory." DEVICE ".spilled_total", "bytes", "Bytes moved to host memory or a file since the start.",
     MEMORY(spilled_total)},
    {"memory." DEVICE ".spilled_to_file", "bytes", "Of spilled: bytes in the file.", MEMORY(spilled_to_file)},
    {"memory." DEVICE ".spilled_to_file_total", "bytes", "Of spilled_total: bytes moved to the file.",
     MEMORY(spilled_to_file_total)},
    {"memory." DEVICE ".spill_host", "bytes", "Host memory that copies of spilled tensors take.", MEMORY(spill_host)},
    {"memory." DEVICE ".spill_file", "bytes", "Bytes that the file for spilled tensors takes.", MEMORY(spill_file)},
    {"memory." DEVICE ".spill_file_nanoseconds", "ns", "Time that threads waited for that file.",
     MEMORY(spill_file_nanoseconds)},
    {"memory." DEVICE ".pinned", "bytes", "Of allocated: bytes that haul_memory_pin keeps from being spilled.",
     MEMORY(pinned)},
    {"memory." DEVICE ".live_blocks", "blocks", "Blocks that tensors hold now.", MEMORY(live_blocks)},
    {"memory." DEVICE ".allocations", "blocks", "Blocks that tensors were given since the start.", MEMORY(allocations)},
    {"memory." DEVICE ".cache_hits", "blocks", "Of allocations: blocks that came from the cache.", MEMORY(cache_hits)},
    {"memory." DEVICE ".device_allocations", "blocks", "Of allocations: blocks obtained from the device.",
     MEMORY(device_allocations)},

    {"pinned." DEVICE ".allocated", "bytes", "Bytes of pinned memory in blocks that are in use now.",
     PINNED(allocated)},
    {"pinned." DEVICE ".reserved", "bytes", "Bytes of host memory pinned for the device, in use or cached.",
     PINNED(reserved)},
    {"pinned." DEVICE ".peak", "bytes", "Highest value of allocated since the start or a reset.",
     PINNED(peak_allocated)},
    {"pinned." DEVICE ".peak_reserved", "bytes", "Highest value of reserved since the start or a reset.",
     PINNED(peak_reserved)},
    {"pinned." DEVICE ".limit", "bytes", "Bytes that reserved may not exceed; 0 for no limit.", PINNED(limit)},
    {"pinned." DEVICE ".live_blocks", "blocks", "Blocks of pinned memory that are in use now.", PINNED(live_blocks)},
    {"pinned." DEVICE ".allocations", "blocks", "Blocks of pinned memory that were handed out since the start.",
     PINNED(allocations)},
    {"pinned." DEVICE ".cache_hits", "blocks", "Of allocations: blocks that came from the cache.", PINNED(cache_hits)},
    {"pinned." DEVICE ".device_allocations", "blocks", "Of allocations: blocks that the driver pinned.",
     PINNED(device_allocations)},

    {"kernels." DEVICE ".ready", "kernels", "Kernels ready to run, counting each dtype.", read_kernels, 0, false},

    {"transfers.h2d_bytes", "bytes", "Bytes copied from the host to devices.", TRANSFER(h2d_bytes)},
    {"transfers.d2h_bytes", "bytes", "Bytes copied from devices to the host.", TRANSFER(d2h_bytes)},
    {"transfers.d2d_bytes", "bytes", "Bytes copied between devices without a stop in host memory.",
     TRANSFER(d2d_bytes)},
    {"transfers.h2d_count", "copies", "Copies from the host to devices.", TRANSFER(h2d_count)},
    {"transfers.d2h_count", "copies", "Copies from devices to the host.", TRANSFER(d2h_count)},
    {"transfers.d2d_count", "copies", "Copies between devices without a stop in host memory.", TRANSFER(d2d_count)},

    {"groups.sent_bytes", "bytes", "Bytes of elements sent to other ranks of process groups.", GROUPS(sent_bytes)},
    {"groups.collectives", "collectives", "Collectives of process groups begun.", GROUPS(collectives)},
    {"groups.exchange_time", "ns", "Time in which exchanges of gradients were under way.", GROUPS(exchange_ns)},
    {"groups.hidden_time", "ns", "Of exchange_time: while the backward pass went on.", GROUPS(hidden_ns)},

    {"sync.waits", "waits", "How often the thread waited for work that was not done.", WAITS(waited.events)},
    {"sync.wait_time", "ns", "Time that the thread spent in these waits.", WAITS(waited.duration)},
    {"sync.ready", "waits", "How often the thread would have waited, but the work was done.", WAITS(ready.events)},
    {"sync.driver_calls", "calls", "Calls of the thread in which a driver may wait.", WAITS(driver.events)},
    {"sync.driver_time", "ns", "Time that the thread spent in these calls.", WAITS(driver.duration)},

    {"events.delivered", "events", "Events of the thread that reached subscribers.", read_events, 0, true},

    {"cache.found", "entries", "Compiled programs and choices found in the cache on disk.", CACHE(found)},
    {"cache.missing", "entries", "Compiled programs and choices that the cache did not have.", CACHE(missing)},
    {"cache.stored", "entries", "Compiled programs and choices written to the cache.", CACHE(stored)},

    {"host.blocks", "blocks", "Blocks of host memory that the library holds for its own structures.", read_host, 0,
     false},
};

enum { COUNT = sizeof table / sizeof *table };

static bool is_per_device(const statistic *s)
{
    return strstr(s->name, DEVICE) != NULL;
}

int haul_stat_count(void)
{
    return COUNT;
}

haul_status haul_stat_describe(int index, haul_stat_info *out)
{
    static const char operation[] = "haul_stat_describe";
    if (index < 0 || index >= COUNT)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "index", "index is %d; 0 to %d is expected", index,
                          COUNT - 1);
    if (!out)
        return haul__fail_null(operation, "out");
    const statistic *s = &table[index];
    *out = (haul_stat_info){s->name, s->unit, s->description, is_per_device(s), s->per_thread};
    return HAUL_OK;
}

/* ---- names ---- */

enum { NAME = 96, DEVICE_NAME = 32 };

/* The name of a statistic of a device. */
static const char *name_for(const statistic *s, const char *device, char out[NAME])
{
    const char *place = strstr(s->name, DEVICE);
    if (!place)
        return s->name;
    snprintf(out, NAME, "%.*s%s%s", (int)(place - s->name), s->name, device, place + strlen(DEVICE));
    return out;
}

/* True if it is a name of the statistic. Copies the name of the device in it. */
static bool matches(const statistic *s, const char *name, char device[DEVICE_NAME])
{
    const char *place = strstr(s->name, DEVICE);
    *device = 0;
    if (!place)
        return strcmp(s->name, name) == 0;
    const char  *rest = place + strlen(DEVICE);
    const size_t before = (size_t)(place - s->name), after = strlen(rest), all = strlen(name);
    if (all <= before + after || strncmp(name, s->name, before) != 0 || strcmp(name + all - after, rest) != 0)
        return false;
    const size_t length = all - before - after;
    if (length >= DEVICE_NAME || memchr(name + before, '.', length))
        return false;
    memcpy(device, name + before, length);
    device[length] = 0;
    return true;
}

/* The text between the first and the last dot of a name, or "<device>". */
static void device_part(const char *name, char out[DEVICE_NAME])
{
    const char *first = strchr(name, '.'), *last = strrchr(name, '.');
    int         length = first && last > first ? (int)(last - first - 1) : 0;
    snprintf(out, DEVICE_NAME, "%.*s", length > 0 && length < DEVICE_NAME ? length : (int)strlen(DEVICE),
             length > 0 && length < DEVICE_NAME ? first + 1 : DEVICE);
}

enum { NEAR = 3 };

typedef struct candidate {
    const statistic *of;
    int              distance;
} candidate;

/* The statistics whose names are spelt like `name`, the nearest first, without those that are much farther than that;
 * returns how many there are, at most NEAR. */
static int find_near(const char *name, const char *device, candidate out[NEAR])
{
    const int most = 1 + (int)strlen(name) / 6;
    int       count = 0;
    for (const statistic *s = table; s < table + COUNT; s++) {
        char      text[NAME];
        const int distance = haul__spelling_distance(name, name_for(s, device, text));
        if (distance > most || (count == NEAR && distance >= out[NEAR - 1].distance))
            continue;
        int at = count < NEAR ? count++ : NEAR - 1;
        for (; at > 0 && out[at - 1].distance > distance; at--)
            out[at] = out[at - 1];
        out[at] = (candidate){s, distance};
    }
    while (count > 1 && out[count - 1].distance > out[0].distance + 1)
        count--;
    HAUL__ASSERT(0 <= count && count <= NEAR);
    return count;
}

/* The beginnings of names, "memory.<device>., sync.": up to the last dot. */
static void list_groups(char *out, size_t size)
{
    size_t length = 0;
    for (const statistic *s = table; s < table + COUNT; s++) {
        const size_t next = (size_t)(strrchr(s->name, '.') - s->name) + 1;
        if (s > table && next == length && strncmp(s->name, s[-1].name, length) == 0)
            continue;
        length = next;
        haul__list_add(out, size, "%.*s", (int)length, s->name);
    }
}

static haul_status fail_unknown(const char *name)
{
    char      device[DEVICE_NAME], text[NAME], list[3 * NAME] = "";
    candidate near[NEAR];
    device_part(name, device);
    const int count = find_near(name, device, near);
    for (int i = 0; i < count; i++) {
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", haul__list_separator(i, count, " or "),
                 name_for(near[i].of, device, text));
    }
    if (!count)
        list_groups(list, sizeof list);
    return haul__fail(HAUL_INVALID_ARGUMENT, "haul_stat_get", "name",
                      "unknown statistic \"%.60s\"; %s%s%s haul_stat_describe gives all names", name,
                      count ? "did you mean " : "names begin with ", list, count ? "?" : ";");
}

haul_status haul_stat_get(const char *name, int64_t *out)
{
    static const char operation[] = "haul_stat_get";
    char              text[DEVICE_NAME];
    if (!name)
        return haul__fail_null(operation, "name");
    if (!out)
        return haul__fail_null(operation, "out");
    for (const statistic *s = table; s < table + COUNT; s++) {
        if (!matches(s, name, text))
            continue;
        const haul_device *device = *text ? haul_device_get(text) : NULL;
        if (*text && haul__device_check(device, operation, "name"))
            return haul_error_status();
        HAUL__ASSERT(is_per_device(s) == (device != NULL));
        return s->read(device, s->member, out);
    }
    return fail_unknown(name);
}

/* ---- JSON ---- */

static haul_status put(haul__json_text *t, const statistic *s, const haul_device *device)
{
    HAUL__ASSERT(is_per_device(s) == (device != NULL));
    char        name[NAME];
    int64_t     value;
    haul_status status = s->read(device, s->member, &value);
    if (!status)
        haul__json_integer(t, name_for(s, device ? device->name : "", name), value);
    return status;
}

int64_t haul_stats_json(char *out, size_t size)
{
    haul__json_text t = {.out = out, .size = size};
    haul_status     status = HAUL_OK;
    if (!out && size) {
        haul__fail_null("haul_stats_json", "out");
        return -1;
    }
    haul__json_begin(&t, NULL, '{');
    for (int slot = 0; slot < HAUL__MAX_DEVICES; slot++) {
        const haul_device *device = haul__device_in_use(slot);
        for (const statistic *s = table; device && s < table + COUNT && !status; s++)
            if (is_per_device(s))
                status = put(&t, s, device);
    }
    for (const statistic *s = table; s < table + COUNT && !status; s++)
        if (!is_per_device(s))
            status = put(&t, s, NULL);
    haul__json_end(&t, '}');
    const int64_t length = haul__json_finish(&t);
    return status ? -1 : length;
}
