/* Launches without a command, for kernels that are functions of this process.
 *
 * A launch needs no command under these conditions: the device can be used, commands have no subscriber, no test plans
 * a failure, and no stream uses the storages. */
#ifndef HAUL_DEVICE_LAUNCH_NOW_H
#define HAUL_DEVICE_LAUNCH_NOW_H

#include "backends/function.h"
#include "device/device.h"
#include "events/events.h"

/* True if commands of this device and thread are only passed on. */
static inline bool haul__submits_plainly(const haul_device *device)
{
    return device->valid && atomic_load_explicit(&device->lost, memory_order_acquire) == 0 &&
           !haul__watched(HAUL_EVENT_COMMAND) && !haul__fault_planned(HAUL__FAULT_LAUNCH);
}

/* True if a stream has used it, and a wait may be needed. */
static inline bool haul__storage_is_used(const haul__storage *storage)
{
    haul__uses *uses = storage->uses;
    return uses && atomic_load_explicit(&uses->any, memory_order_acquire);
}

/* True if a launch needs no command where no stream uses its storages. Not for kernels that check indices, nor in dry
 * runs.
 */
static inline bool haul__launches_now(const haul_device *device, const haul__kernel *kernel)
{
    return kernel->function && haul__submits_plainly(device);
}

#endif
