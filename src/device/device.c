/* Queries on devices, and the device that a thread works on. */
#include "device/device.h"

#include <haul/device.h>
#include <stdlib.h>

#include "base/assert.h"
#include "core/object.h"
#include "core/thread.h"

haul_status haul__device_check(const haul_device *device, const char *operation, const char *argument)
{
    if (!device || device == haul__device_invalid()) /* the operand is what haul_tensor_device(NULL) returned: keep
                                                      * the error that explains it */
        return haul__fail_null(operation, argument);
    if (device->mark != HAUL__DEVICE_MARK)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, argument,
                          "%s is not a device; haul_device_get and haul_cpu return devices", argument);
    if (!device->valid)
        return haul__fail(device->why_status, operation, argument, "%s", device->why);
    if (atomic_load_explicit(&device->lost, memory_order_acquire) == 2)
        return haul__fail(device->why_status, operation, argument,
                          "%s failed before and cannot be used again in this process: %s", device->name, device->why);
    HAUL__ASSERT(device->backend && device->properties.name == device->name);
    return HAUL_OK;
}

haul_device *haul__device_current(const char *operation)
{
    haul_device *device = haul_current_device();
    return haul__device_check(device, operation, NULL) ? NULL : device;
}

/* Looks for the device's libraries on the first query, because opening libraries can take a while. */
static void name_libraries(haul_device *device)
{
    if (!device->backend->describe)
        return;
    pthread_mutex_lock(&device->kernels_lock);
    if (!device->libraries[0])
        device->backend->describe(device, HAUL__LIBRARIES, device->libraries, sizeof device->libraries);
    pthread_mutex_unlock(&device->kernels_lock);
}

haul_status haul_device_describe(const haul_device *device, haul_device_properties *out)
{
    haul_status status = haul__device_check(device, "haul_device_describe", "device");
    if (!status && !out)
        status = haul__fail_null("haul_device_describe", "out");
    if (!status) {
        name_libraries((haul_device *)device); /* what `const` promises does not change */
        *out = device->properties;
    }
    return status;
}

bool haul__device_holds(haul_device *device, const void *memory, size_t bytes)
{
    return !device->backend->holds || device->backend->holds(device, memory, bytes);
}

void haul__device_memory_left(haul_device *device, char *out, size_t size)
{
    *out = '\0';
    if (device->backend->describe)
        device->backend->describe(device, HAUL__MEMORY_LEFT, out, size);
}

int64_t haul__device_free_bytes(haul_device *device)
{
    char digits[24] = "";
    if (device->backend->describe)
        device->backend->describe(device, HAUL__FREE_BYTES, digits, sizeof digits);
    return *digits ? (int64_t)strtoll(digits, NULL, 10) : -1;
}

bool haul__device_pins(const haul_device *device)
{
    return device->backend->host_alloc && !device->properties.shares_host_memory;
}

/* GPUs that share the host's memory are left out: their drivers may copy it first. */
bool haul__device_reaches_host(const haul_device *device)
{
    return device->backend->reaches_host && device->properties.kind == HAUL_KIND_CPU &&
           device->properties.shares_host_memory;
}

bool haul__device_moves_by_kernel(const haul_device *device, size_t bytes)
{
    enum { FROM = 4 << 20 };
    return bytes >= FROM && haul__device_reaches_host(device);
}

haul_status haul_set_device(haul_device *device)
{
    haul_status status = haul__device_check(device, "haul_set_device", "device");
    if (!status)
        haul__thread()->device = device;
    return status;
}

haul_device *haul_current_device(void)
{
    haul_device *device = haul__thread()->device;
    return device ? device : haul_cpu();
}

haul_status haul__check_dtype(haul_dtype dtype, const haul_device *device, const char *operation)
{
    if (haul__dtype_size(dtype) == 0)
        return haul__fail(HAUL_DTYPE, operation, "dtype",
                          "tensors cannot have the dtype %s; use one of bool, u8, u16, u32, u64, i8, i16, i32, i64, "
                          "f16, bf16, f32, f64",
                          haul_dtype_name(dtype));
    HAUL__ASSERT(haul_dtype_bits(dtype) == 8 * (int)haul__dtype_size(dtype)); /* tensors have elements of whole bytes */
    if (dtype == HAUL_F64 && !device->properties.has_f64)
        return haul__fail(HAUL_DTYPE, operation, "dtype", "%s does not support f64; use f32 there", device->name);
    return HAUL_OK;
}
