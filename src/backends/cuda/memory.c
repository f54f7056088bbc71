/* Memory of a GPU, and host memory that it copies from and to at the speed of the link. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "backends/cuda/cuda.h"
#include "base/assert.h"
#include "base/text/plain.h"
#include "core/error.h"

/* Bytes that other processes hold, and the one that holds most; 0 where NVML does not know. In a container NVML lists
 * processes by the numbers that they have outside of it, so this process is not found. Then no process is named, and
 * what this one holds is taken off the sum. */
static unsigned long long held_by_others(const haul_device *device, unsigned *pid)
{
    const haul__cuda_device *d = haul__cuda_of(device);
    nvmlProcessInfo_t        list[64];
    nvmlDevice_t             handle;
    unsigned                 count = sizeof list / sizeof list[0];
    unsigned long long       total = 0, most = 0;
    bool                     listed = false;
    if (!d->bus[0] || !haul__cuda_load_nvml() || haul__nvml.DeviceGetHandleByPciBusId(d->bus, &handle) != 0 ||
        haul__nvml.DeviceGetComputeRunningProcesses(handle, &count, list) != 0)
        return 0;
    for (unsigned i = 0; i < count; i++) {
        listed = listed || list[i].pid == (unsigned)getpid();
        if (list[i].pid == (unsigned)getpid() || list[i].usedGpuMemory > 1ull << 62) /* all ones: not known */
            continue;
        total += list[i].usedGpuMemory;
        if (list[i].usedGpuMemory >= most) {
            most = list[i].usedGpuMemory;
            *pid = list[i].pid;
        }
    }
    if (listed)
        return total;
    const long long own = atomic_load(&device->obtained) + atomic_load(&device->overhead);
    HAUL__ASSERT(own >= 0);
    *pid = 0;
    return total > (unsigned long long)own ? total - (unsigned long long)own : 0;
}

#define GIB(bytes) ((double)(bytes) / 1073741824.0)

void haul__cuda_memory_left(haul_device *device, char *out, size_t size)
{
    const haul__cuda_device *d = haul__cuda_of(device);
    size_t                   left = 0, all = 0, at;
    unsigned                 pid = 0;
    CUresult                 code;
    HAUL__ASSERT(size > 0);
    out[0] = '\0';
    HAUL__CU_CALL(code, d, MemGetInfo(&left, &all));
    if (code != CUDA_SUCCESS)
        return;
    haul__snprintf(out, size, "%.2f GiB of %.2f GiB are free", GIB(left), GIB(all));
    unsigned long long others = held_by_others(device, &pid);
    at = strlen(out);
    if (others > 0)
        haul__snprintf(out + at, size - at, ", other processes hold %.2f GiB", GIB(others));
    at = strlen(out);
    if (others > 0 && pid)
        snprintf(out + at, size - at, " (process %u most)", pid);
}

void haul__cuda_free_bytes(haul_device *device, char *out, size_t size)
{
    size_t   left = 0, all = 0;
    CUresult code;
    out[0] = '\0';
    HAUL__CU_CALL(code, haul__cuda_of(device), MemGetInfo(&left, &all));
    if (code == CUDA_SUCCESS)
        snprintf(out, size, "%zu", left);
}

/* ---- what the driver takes for itself ---- */

static bool memory_info(const haul_device *device, size_t *left, size_t *all)
{
    CUresult code;
    HAUL__CU_CALL(code, haul__cuda_of(device), MemGetInfo(left, all));
    return code == CUDA_SUCCESS;
}

haul__cuda_spending haul__cuda_spend_begin(const haul_device *device)
{
    haul__cuda_spending s = {0};
    size_t              all;
    pthread_mutex_lock(&haul__cuda_of(device)->memory_lock);
    if (!memory_info(device, &s.left, &all))
        s.left = 0;
    return s;
}

/* Only NVML knows the memory of a GPU without a context. For a part of a GPU (MIG) it knows that of the whole GPU,
 * which does not help. */
haul__cuda_spending haul__cuda_spend_begin_context(const haul_device *device)
{
    haul__cuda_device  *d = haul__cuda_of(device);
    haul__cuda_spending s = {0};
    nvmlMemory_t        memory = {0};
    nvmlDevice_t        handle;
    pthread_mutex_lock(&d->memory_lock);
    if (!d->bus[0] || !haul__cuda_load_nvml() || haul__nvml.DeviceGetHandleByPciBusId(d->bus, &handle) != 0 ||
        haul__nvml.DeviceGetMemoryInfo(handle, &memory) != 0)
        return s;
    if ((double)device->properties.memory_bytes >= 0.9 * (double)memory.total)
        s.left = (size_t)memory.free;
    return s;
}

void haul__cuda_spend_end(const haul_device *device, const haul__cuda_spending *s)
{
    size_t left, all;
    HAUL__ASSERT(!s->left || haul__cuda_of(device)->context);
    if (s->left && memory_info(device, &left, &all) && left < s->left) /* a count, which `const` does not protect */
        atomic_fetch_add(&((haul_device *)device)->overhead, (long long)(s->left - left));
    pthread_mutex_unlock(&haul__cuda_of(device)->memory_lock);
}

/* ---- memory for tensors ---- */

haul_status haul__cuda_alloc(haul_device *device, size_t bytes, const haul__buffer_address *of, haul__buffer *out)
{
    haul__cuda_device *d = haul__cuda_of(device);
    CUdeviceptr        address = 0;
    CUresult           code;
    HAUL__ASSERT(!of && bytes > 0); /* parts of buffers have addresses */
    pthread_mutex_lock(&d->memory_lock);
    HAUL__CU_CALL(code, d, MemAlloc(&address, bytes));
    pthread_mutex_unlock(&d->memory_lock);
    if (code == CUDA_ERROR_OUT_OF_MEMORY)
        return haul__fail(HAUL_OUT_OF_MEMORY, device->name, NULL, "the device has no room for another %zu bytes",
                          bytes);
    if (code != CUDA_SUCCESS)
        return haul__cuda_check(device, "cuMemAlloc", code);
    *out = (haul__buffer){.handle = (void *)(uintptr_t)address};
    return HAUL_OK;
}

void haul__cuda_free(haul_device *device, haul__buffer *buffer)
{
    haul__cuda_device *d = haul__cuda_of(device);
    CUresult           code = CUDA_SUCCESS;
    pthread_mutex_lock(&d->memory_lock);
    if (buffer->handle)
        HAUL__CU_CALL(code, d, MemFree(haul__cuda_address(buffer)));
    pthread_mutex_unlock(&d->memory_lock);
    (void)code; /* of a lost device; its memory is gone anyway */
    *buffer = (haul__buffer){0};
}

/* Portable: pinned for all GPUs. */
haul_status haul__cuda_host_alloc(haul_device *device, size_t bytes, void **out, void **handle)
{
    CUresult code;
    *out = NULL;
    *handle = NULL;
    HAUL__CU_CALL(code, haul__cuda_of(device), MemHostAlloc(out, bytes, CU_MEMHOSTALLOC_PORTABLE));
    if (code == CUDA_ERROR_OUT_OF_MEMORY)
        return haul__fail(HAUL_OUT_OF_MEMORY, device->name, NULL,
                          "the system cannot pin another %zu bytes of host memory", bytes);
    return haul__cuda_check(device, "cuMemHostAlloc", code);
}

void haul__cuda_host_free(haul_device *device, void *memory, void *handle)
{
    CUresult code;
    (void)handle;
    HAUL__CU_CALL(code, haul__cuda_of(device), MemFreeHost(memory));
    (void)code;
}

static bool pointer_has(haul_device *device, CUpointer_attribute attribute, const void *at, void *out)
{
    CUresult code;
    HAUL__CU_CALL(code, haul__cuda_of(device), PointerGetAttribute(out, attribute, (CUdeviceptr)(uintptr_t)at));
    return code == CUDA_SUCCESS; /* CUDA_ERROR_INVALID_VALUE of memory that the driver does not know */
}

static const void *last_byte(const void *memory, size_t bytes)
{
    return (const char *)memory + (bytes > 0 ? bytes - 1 : 0);
}

/* The first and the last byte decide: memory in between that is not pinned is copied all the same, more slowly. */
bool haul__cuda_host_is_pinned(haul_device *device, const void *memory, size_t bytes)
{
    const void *const ends[] = {memory, last_byte(memory, bytes)};
    for (int i = 0; i < 2; i++) {
        unsigned type = 0;
        if (!pointer_has(device, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, ends[i], &type) || type != CU_MEMORYTYPE_HOST)
            return false;
    }
    return true;
}

/* The first and the last byte decide. They belong to one allocation; where the driver does not know allocations, as
 * maybe those of its pools, both beginnings stay 0. */
bool haul__cuda_holds(haul_device *device, const void *memory, size_t bytes)
{
    const void *const ends[] = {memory, last_byte(memory, bytes)};
    CUdeviceptr       starts[2] = {0};
    HAUL__ASSERT(0 <= device->index && device->index < HAUL__MAX_DEVICES);
    for (int i = 0; i < 2; i++) {
        unsigned type = 0;
        int      ordinal = -1;
        if (!pointer_has(device, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, ends[i], &type) || type != CU_MEMORYTYPE_DEVICE ||
            !pointer_has(device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, ends[i], &ordinal) || ordinal != device->index)
            return false;
        if (!pointer_has(device, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, ends[i], &starts[i]))
            starts[i] = 0;
    }
    return starts[0] == starts[1];
}
