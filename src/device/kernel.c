/* A device's kernels, compiled on first use and kept for the life of the process. */
#include <stdio.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/hostile.h"
#include "base/system/clock.h"
#include "device/device.h"
#include "events/events.h"
#include "kernels/kernels.h"

static void compiled(const haul_device *device, const char *kernel, haul_dtype dtype, haul_status status, int64_t start)
{
    haul__driver_called(device, kernel, "was compiled", 0, start);
    if (!status && haul__watched(HAUL_EVENT_KERNEL_COMPILED))
        haul__emit(&(haul_event){.kind = HAUL_EVENT_KERNEL_COMPILED,
                                 .operation = kernel,
                                 .device = device,
                                 .text = haul_dtype_name(dtype),
                                 .duration = haul__now_ns() - start});
}

/* In a hostile build the compiler refuses every third kernel, so that all callers meet its failure. */
static haul_status hostile_compiler(const haul_device *device, const char *kernel)
{
    if (!haul__is_hostile(HAUL__HOSTILE_COMPILER) || !haul__hostile_turn(3))
        return HAUL_OK;
    return haul__fail(HAUL_BACKEND, kernel, NULL, "%s refused to compile (" HAUL__HOSTILE_REFUSAL ")", device->name);
}

haul_status haul__kernel_compile(haul_device *device, const haul__unit *unit, const char *shown, haul__kernel *kernel)
{
    if (haul__fault_point(HAUL__FAULT_COMPILE))
        return haul__fail(HAUL_BACKEND, shown, NULL, "%s refused to compile (a fault injected by a test)",
                          device->name);
    if (hostile_compiler(device, shown))
        return haul_error_status();
    HAUL__ASSERT(unit->kernel && (unit->text || device->backend->precompiled));
    const int64_t     start = haul__now_ns();
    const haul_status status = device->backend->compile(device, unit, kernel);
    if (!device->backend->precompiled)
        compiled(device, shown, unit->dtype, status, start);
    return status;
}

/* Compiles a kernel. The caller holds the device's kernels_lock. */
static haul__kernel *compile(haul_device *device, int id, haul_dtype dtype)
{
    const haul__kernel_info *info = haul__kernel_info_of(id);
    haul__unit               unit = {
                      .name = info->unit, .kernel = info->kernel, .dtype = dtype, .functions = haul__kernel_functions(id)};
    char         *text = NULL;
    haul__kernel *kernel = haul__calloc(1, sizeof *kernel);
    haul_status   status = HAUL_OK;
    if (!kernel) {
        haul__fail_memory(info->kernel, sizeof *kernel);
        return NULL;
    }
    if (!device->backend->precompiled) {
        unit.text = text = haul__kernel_unit_text(id);
        if (!text)
            status = haul__fail_memory(info->kernel, 0);
    }
    if (!status)
        status = haul__kernel_compile(device, &unit, info->kernel, kernel);
    haul__free(text);
    if (status) {
        haul__free(kernel);
        return NULL;
    }
    bool named =
        info->dtypes == HAUL__KERNEL_NUMBER || info->dtypes == HAUL__KERNEL_FLOAT || info->dtypes == HAUL__KERNEL_WHOLE;
    snprintf(kernel->name, sizeof kernel->name, "%s%s%s", info->kernel, named ? "_" : "",
             named ? haul_dtype_name(dtype) : "");
    return kernel;
}

static _Atomic(haul__kernel *) *slot_of(const haul_device *device, int id, haul_dtype dtype)
{
    HAUL__ASSERT(0 <= id && id < haul__kernel_count + HAUL__KERNELS_ADDED && dtype < HAUL_DTYPE_END);
    return &device->kernels[(size_t)id * HAUL_DTYPE_END + dtype];
}

/* Publishes a kernel. Dtypes that use the kernel of another one share it. The caller holds the device's kernels_lock.
 */
static haul__kernel *publish(haul_device *device, int id, haul_dtype dtype)
{
    const haul_dtype         compiled_for = haul__kernel_dtype(haul__kernel_info_of(id), dtype);
    _Atomic(haul__kernel *) *shared = slot_of(device, id, compiled_for);
    haul__kernel            *kernel = atomic_load_explicit(shared, memory_order_acquire);
    HAUL__ASSERT(!atomic_load(slot_of(device, id, dtype))); /* under the lock each is published once */
    if (!kernel)
        kernel = compile(device, id, compiled_for);
    atomic_store_explicit(shared, kernel, memory_order_release);
    atomic_store_explicit(slot_of(device, id, dtype), kernel, memory_order_release);
    return kernel;
}

const haul__kernel *haul__kernel_get(haul_device *device, int id, haul_dtype dtype)
{
    _Atomic(haul__kernel *) *slot = slot_of(device, id, dtype);
    haul__kernel            *kernel = atomic_load_explicit(slot, memory_order_acquire);
    if (kernel)
        return kernel;
    haul__events_hold();
    pthread_mutex_lock(&device->kernels_lock);
    kernel = atomic_load_explicit(slot, memory_order_acquire);
    if (!kernel)
        kernel = publish(device, id, dtype);
    pthread_mutex_unlock(&device->kernels_lock);
    haul__events_release();
    return kernel;
}

size_t haul__kernel_slots(void)
{
    return (size_t)(haul__kernel_count + HAUL__KERNELS_ADDED) * HAUL_DTYPE_END;
}

void haul__kernel_foresee(haul_device *device, int id, haul_dtype dtype)
{
    const haul_dtype compiled_for = haul__kernel_dtype(haul__kernel_info_of(id), dtype);
    HAUL__ASSERT(0 <= id && (size_t)id * HAUL_DTYPE_END + compiled_for < haul__kernel_slots());
    atomic_store_explicit(&device->foreseen[(size_t)id * HAUL_DTYPE_END + compiled_for], 1, memory_order_relaxed);
}

int64_t haul__kernels_awaited(const haul_device *device)
{
    int64_t awaited = 0;
    for (size_t i = 0; i < haul__kernel_slots() && !device->backend->precompiled; i++)
        awaited += atomic_load_explicit(&device->foreseen[i], memory_order_relaxed) &&
                   !atomic_load_explicit(&device->kernels[i], memory_order_relaxed);
    return awaited;
}

int64_t haul__kernels_ready(const haul_device *device)
{
    int64_t ready = 0;
    for (size_t i = 0; i < haul__kernel_slots(); i++)
        ready += atomic_load_explicit(&device->kernels[i], memory_order_relaxed) != NULL;
    return ready;
}
