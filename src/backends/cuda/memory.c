/* Memory of a GPU, and host memory that it copies from and to at the speed of the link. */
#include <stdio.h>
#include <unistd.h>

#include "backends/cuda/cuda.h"
#include "core/error.h"

/* ", of which other processes hold 3.2 GiB (process 4242 most)": what NVML knows. "" if nothing. */
static const char *others(const haul__cuda_device *d, char *out, size_t size)
{
    nvmlProcessInfo_t  list[64];
    nvmlDevice_t       handle;
    unsigned           count = sizeof list / sizeof list[0], most = 0;
    unsigned long long total = 0;

    out[0] = '\0';
    if (!d->bus[0] || !haul__cuda_load_nvml() || haul__nvml.DeviceGetHandleByPciBusId(d->bus, &handle) != 0 ||
        haul__nvml.DeviceGetComputeRunningProcesses(handle, &count, list) != 0)
        return out;
    for (unsigned i = 0; i < count; i++) {
        if (list[i].pid == (unsigned)getpid() || list[i].usedGpuMemory > 1ull << 62) /* unknown is all ones */
            continue;
        total += list[i].usedGpuMemory;
        if (list[most].pid == (unsigned)getpid() || list[i].usedGpuMemory > list[most].usedGpuMemory)
            most = i;
    }
    if (total > 0)
        snprintf(out, size, "; other processes hold %llu bytes (process %u most)", total, list[most].pid);
    return out;
}

static haul_status fail_alloc(const haul_device *device, size_t bytes)
{
    const haul__cuda_device *d = haul__cuda_of(device);
    size_t                   left = 0, all = 0;
    char                     more[96];
    CUresult                 code;

    HAUL__CU_CALL(code, d, MemGetInfo(&left, &all));
    if (code != CUDA_SUCCESS)
        return haul__fail(HAUL_OUT_OF_MEMORY, device->name, NULL, "no memory for %zu bytes more", bytes);
    return haul__fail(HAUL_OUT_OF_MEMORY, device->name, NULL,
                      "no memory for %zu bytes more: %zu of %zu bytes are free%s", bytes, left, all,
                      others(d, more, sizeof more));
}

haul_status haul__cuda_alloc(haul_device *device, size_t bytes, haul__buffer *out)
{
    CUdeviceptr address = 0;
    CUresult    code;

    HAUL__CU_CALL(code, haul__cuda_of(device), MemAlloc(&address, bytes));
    if (code == CUDA_ERROR_OUT_OF_MEMORY)
        return fail_alloc(device, bytes);
    if (code != CUDA_SUCCESS)
        return haul__cuda_check(device, "cuMemAlloc", code);
    *out = (haul__buffer){.handle = (void *)(uintptr_t)address};
    return HAUL_OK;
}

void haul__cuda_free(haul_device *device, haul__buffer *buffer)
{
    CUresult code = CUDA_SUCCESS;

    if (buffer->handle)
        HAUL__CU_CALL(code, haul__cuda_of(device), MemFree(haul__cuda_address(buffer)));
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
        return haul__fail(HAUL_OUT_OF_MEMORY, device->name, NULL, "no %zu bytes of pinned host memory more", bytes);
    return haul__cuda_check(device, "cuMemHostAlloc", code);
}

void haul__cuda_host_free(haul_device *device, void *memory, void *handle)
{
    CUresult code;

    (void)handle;
    HAUL__CU_CALL(code, haul__cuda_of(device), MemFreeHost(memory));
    (void)code;
}
