/* A device's own properties, and how a device becomes unusable. */
#include "core/device.h"

#include <stdio.h>

#include "base/assert.h"
#include "core/object.h"

static haul_device no_device = {
    .mark = HAUL__DEVICE_MARK, .name = "invalid", .why = "no device was found", .why_status = HAUL_DEVICE};

haul_device *haul__device_invalid(void)
{
    return &no_device;
}

const char *haul_device_name(const haul_device *device)
{
    return device && device->mark == HAUL__DEVICE_MARK && device->valid ? device->name : "invalid";
}

bool haul_device_is_valid(const haul_device *device)
{
    return device && device->mark == HAUL__DEVICE_MARK && device->valid &&
           atomic_load_explicit(&device->lost, memory_order_relaxed) == 0;
}

void haul__device_lose(haul_device *device, haul_status status)
{
    int fine = 0;
    if (!atomic_compare_exchange_strong(&device->lost, &fine, 1))
        return;
    HAUL__ASSERT(status != HAUL_OK && haul_error_status()); /* the fault is the last error */
    snprintf(device->why, sizeof device->why, "%s", haul_error_message());
    device->why_status = status;
    atomic_store_explicit(&device->lost, 2, memory_order_release);
}
