/* A stand-in for the part of NVML that says who uses a device: this process, and another if STANDIN_FOREIGN says so. */
#include "calls.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { INVALID_ARGUMENT = 2, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, MAX_DEVICES = 8, FOREIGN_PID = 4242 };

struct nvmlDevice_st {
    int number;
};

static struct nvmlDevice_st devices[MAX_DEVICES];

nvmlReturn_t nvmlInit_v2(void)
{
    return standin_call(CALL_nvmlInit_v2);
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned size)
{
    nvmlReturn_t code = standin_call(CALL_nvmlSystemGetDriverVersion);
    if (code == 0 && (size_t)snprintf(version, size, "580.0 (stand-in)") >= size)
        code = INSUFFICIENT_SIZE;
    return code;
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *id, nvmlDevice_t *out)
{
    nvmlReturn_t code = standin_call(CALL_nvmlDeviceGetHandleByPciBusId_v2);
    unsigned     domain, bus;
    if (code != 0)
        return code;
    if (sscanf(id, "%x:%x:00.0", &domain, &bus) != 2)
        return INVALID_ARGUMENT;
    if (domain != 0 || bus < 1 || bus > MAX_DEVICES)
        return NOT_FOUND;
    devices[bus - 1].number = (int)bus - 1;
    *out = &devices[bus - 1];
    return 0;
}

static unsigned long long bytes_in(const char *variable, unsigned long long otherwise)
{
    const char *text = getenv(variable);
    return text ? strtoull(text, NULL, 0) : otherwise;
}

/* Before this process allocated anything. STANDIN_SENSORS=1: of GPUs that others use (nvml_sensors.c). */
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *out)
{
    nvmlReturn_t             code = standin_call(CALL_nvmlDeviceGetMemoryInfo);
    const bool               shared = getenv("STANDIN_SENSORS") && device;
    const unsigned long long all = shared ? 24ull << 30 : bytes_in("STANDIN_MEMORY", 1ull << 30);
    const unsigned long long used =
        shared ? (device->number % 2 ? 23ull << 30 : 6ull << 30) : bytes_in("STANDIN_FOREIGN", 0);
    if (code == 0 && !device)
        code = INVALID_ARGUMENT;
    if (code == 0)
        *out = (nvmlMemory_t){.total = all, .free = used < all ? all - used : 0, .used = used < all ? used : all};
    return code;
}

/* STANDIN_CONTAINER=n: as in a container, this process is listed under the number that it has outside, with n bytes.
 * Otherwise its memory is unknown. */
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned *count, nvmlProcessInfo_t *out)
{
    nvmlReturn_t             code = standin_call(CALL_nvmlDeviceGetComputeRunningProcesses_v3);
    const unsigned long long foreign = bytes_in("STANDIN_FOREIGN", 0);
    const unsigned           room = *count, there = foreign ? 2 : 1;
    if (code != 0)
        return code;
    if (!device)
        return INVALID_ARGUMENT;
    *count = there;
    if (room < there)
        return INSUFFICIENT_SIZE;
    out[0] = (nvmlProcessInfo_t){.pid = (unsigned)getpid(), .usedGpuMemory = ~0ull};
    if (getenv("STANDIN_CONTAINER"))
        out[0] = (nvmlProcessInfo_t){.pid = FOREIGN_PID + 1, .usedGpuMemory = bytes_in("STANDIN_CONTAINER", 0)};
    if (foreign)
        out[1] = (nvmlProcessInfo_t){.pid = FOREIGN_PID, .usedGpuMemory = foreign};
    return 0;
}
