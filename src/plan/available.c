#include "plan/available.h"

#include <haul/device.h>
#include <math.h>

#include "base/assert.h"
#include "base/numbers.h"
#include "base/system/free_memory.h"

int64_t haul__available_on_host(void)
{
    const int64_t bytes = haul__free_memory("");
    return bytes < 0 ? 0 : bytes ? bytes : 1;
}

int64_t haul__missing_on_host(int64_t bytes)
{
    const int64_t available = haul__available_on_host();
    return available ? larger(0, bytes - available / 10 * 9) : 0;
}

int64_t haul__device_memory(const haul_device *device)
{
    haul_device_properties p = {.memory_bytes = 0};
    return haul_device_describe(device, &p) ? 0 : p.memory_bytes;
}

int64_t haul__available_to_training(haul_device *device, int64_t start)
{
    haul_device_properties p = {.memory_bytes = 0};
    if (haul_device_describe(device, &p))
        return 0;
    HAUL__ASSERT(start >= 0);
    int64_t available = device == haul_cpu() || p.shares_host_memory ? haul__available_on_host() : p.memory_bytes;
    if (!available || (p.memory_bytes && p.memory_bytes < available))
        available = p.memory_bytes;
    return available ? start + available / 10 * 9 : 0;
}

int64_t haul__training_limit_bytes(const haul__training_limit *limit, int64_t peak)
{
    if (limit->percent == 0)
        return limit->bytes && limit->bytes <= limit->overhead ? 1 : limit->bytes - limit->overhead;
    const double bytes = floor(limit->percent / 100 * (double)peak);
    return bytes < 1 ? 1 : bytes >= 0x1p63 ? INT64_MAX : (int64_t)bytes;
}
