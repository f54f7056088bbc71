/* The public functions that read an allocator's statistics, set its limits and empty its cache. */
#include "memory/allocator_state.h"
#include "memory/derived.h"
#include "memory/report/origins.h"
#include "memory/settings.h"
#include "memory/spill/spill.h"
#include "memory/trim.h"

static struct haul__allocator *checked(const haul_device *device, bool pinned, const char *operation)
{
    /* The allocator is part of the device's state, which `const` does not protect. */
    return haul__device_check(device, operation, "device") ? NULL : haul__allocator_of((haul_device *)device, pinned);
}

struct haul__allocator *haul__allocator_checked(const haul_device *device, const char *operation)
{
    return checked(device, false, operation);
}

static haul_status get_stats(struct haul__allocator *a, haul_memory_stats *out, const char *operation)
{
    if (!a)
        return haul_error_status();
    if (!out)
        return haul__fail_null(operation, "out");
    haul__spin_lock(&a->lock);
    *out = a->stats;
    haul__spin_unlock(&a->lock);
    out->overhead = a->pinned ? 0 : (int64_t)atomic_load(&a->device->overhead);
    out->derived_bytes = a->pinned ? 0 : haul__derived_bytes(a->device);
    return HAUL_OK;
}

haul_status haul_memory_stats_get(const haul_device *device, haul_memory_stats *out)
{
    return get_stats(checked(device, false, "haul_memory_stats_get"), out, "haul_memory_stats_get");
}

haul_status haul_pinned_stats_get(const haul_device *device, haul_memory_stats *out)
{
    return get_stats(checked(device, true, "haul_pinned_stats_get"), out, "haul_pinned_stats_get");
}

haul_status haul_memory_reset_peak(haul_device *device)
{
    for (int pinned = 0; pinned < 2; pinned++) {
        struct haul__allocator *a = checked(device, pinned, "haul_memory_reset_peak");
        if (!a)
            return haul_error_status();
        haul__spin_lock(&a->lock);
        a->stats.peak_allocated = a->stats.allocated;
        a->stats.peak_reserved = a->stats.reserved;
        haul__spin_unlock(&a->lock);
    }
    return HAUL_OK;
}

static haul_status set_limit(struct haul__allocator *a, int64_t bytes, bool only_tensors, const char *operation)
{
    if (!a)
        return haul_error_status();
    if (bytes < 0)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "bytes",
                          "bytes is %lld; expected a size, or 0 for no limit", (long long)bytes);
    haul__spin_lock(&a->lock);
    a->stats.limit = bytes;
    a->only_tensors = only_tensors;
    const int64_t over = a->stats.reserved + haul__limited_overhead(a) - bytes;
    haul__block  *taken = bytes > 0 ? haul__allocator_take(a, over) : NULL;
    haul__spin_unlock(&a->lock);
    haul__blocks_free(taken, operation);
    return HAUL_OK;
}

haul_status haul_memory_set_limit(haul_device *device, int64_t bytes)
{
    return set_limit(checked(device, false, "haul_memory_set_limit"), bytes, false, "haul_memory_set_limit");
}

haul_status haul_memory_set_tensor_limit(haul_device *device, int64_t bytes)
{
    return set_limit(checked(device, false, "haul_memory_set_tensor_limit"), bytes, true,
                     "haul_memory_set_tensor_limit");
}

haul_status haul__memory_settings_get(haul_device *device, haul__memory_settings *out)
{
    struct haul__allocator *a = checked(device, false, "haul__memory_settings_get");
    if (!a)
        return haul_error_status();
    haul__spin_lock(&a->lock);
    *out = (haul__memory_settings){
        .limit = a->stats.limit, .of_tensors = a->only_tensors, .spills = atomic_load(&a->spills)};
    haul__spin_unlock(&a->lock);
    return HAUL_OK;
}

haul_status haul__memory_settings_set(haul_device *device, const haul__memory_settings *s)
{
    static const char       operation[] = "haul__memory_settings_set";
    struct haul__allocator *a = checked(device, false, operation);
    haul_status             status = set_limit(a, s->limit, s->of_tensors, operation);
    if (status || atomic_load(&a->spills) == s->spills)
        return status;
    return haul_memory_set_spill(device, s->spills);
}

haul_status haul_pinned_set_limit(haul_device *device, int64_t bytes)
{
    return set_limit(checked(device, true, "haul_pinned_set_limit"), bytes, false, "haul_pinned_set_limit");
}

haul_status haul_memory_release_cached(haul_device *device)
{
    static const char operation[] = "haul_memory_release_cached";
    if (haul__device_check(device, operation, "device"))
        return haul_error_status();
    haul__derived_give_back(device);
    for (int pinned = 0; pinned < 2; pinned++) {
        struct haul__allocator *a = checked(device, pinned, operation);
        if (!a)
            return haul_error_status();
        if (!pinned)
            haul__spill_drop_copies(a);
        haul__spin_lock(&a->lock);
        haul__block *taken = haul__allocator_take(a, INT64_MAX);
        haul__spin_unlock(&a->lock);
        haul__blocks_free(taken, operation);
    }
    return HAUL_OK;
}

bool haul__retry_without_cache(haul_device *device, haul_status status, const haul__error_record *before)
{
    if (status != HAUL_OUT_OF_MEMORY || haul__is_dry() || haul_memory_release_cached(device))
        return false;
    haul__error_restore(before);
    return true;
}

static int sum(const haul_device *device, haul__origin_of *of, haul_memory_origin *out, int capacity,
               const char *operation)
{
    struct haul__allocator *a = checked(device, false, operation);
    if (!a)
        return -1;
    if (!out && capacity > 0) {
        haul__fail_null(operation, "out");
        return -1;
    }
    haul__spin_lock(&a->lock);
    int count = haul__sum_origins(&a->live, NULL, of, out, capacity > 0 ? capacity : 0);
    haul__spin_unlock(&a->lock);
    return count;
}

int haul_memory_by_origin(const haul_device *device, haul_memory_origin *out, int capacity)
{
    return sum(device, haul__origin_operation, out, capacity, "haul_memory_by_origin");
}

int haul_memory_by_role(const haul_device *device, haul_memory_origin *out, int capacity)
{
    return sum(device, haul__origin_role, out, capacity, "haul_memory_by_role");
}

int haul_memory_by_module(const haul_device *device, haul_memory_origin *out, int capacity)
{
    return sum(device, haul__origin_module, out, capacity, "haul_memory_by_module");
}
