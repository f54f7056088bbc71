/* The stand-in's part of NVML that sensors read: two kinds of GPUs. Those with an even number report everything; the
 * others are too hot, nearly full, and report neither their use nor their power, as GPUs that are shared do. */
#include "observe/usage/nvml.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

enum { NO_GPU = 2, INSUFFICIENT_SIZE = 7, NOT_SUPPORTED = 3, MOST = 8 };

struct nvmlDevice_st {
    int number; /* first, as in nvml.c */
};

static struct nvmlDevice_st gpus[MOST];

EXPORT int nvmlShutdown(void);
EXPORT int nvmlDeviceGetCount_v2(unsigned *out);
EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, nvml_device *out);
EXPORT int nvmlDeviceGetName(nvml_device device, char *out, unsigned size);
EXPORT int nvmlDeviceGetPciInfo_v3(nvml_device device, nvml_pci *out);
EXPORT int nvmlDeviceGetUtilizationRates(nvml_device device, nvml_utilisation *out);
EXPORT int nvmlDeviceGetTemperature(nvml_device device, int sensor, unsigned *out);
EXPORT int nvmlDeviceGetTemperatureThreshold(nvml_device device, int which, unsigned *out);
EXPORT int nvmlDeviceGetPowerUsage(nvml_device device, unsigned *out);
EXPORT int nvmlDeviceGetTotalEnergyConsumption(nvml_device device, unsigned long long *out);
EXPORT int nvmlDeviceGetEnforcedPowerLimit(nvml_device device, unsigned *out);
EXPORT int nvmlDeviceGetClockInfo(nvml_device device, int which, unsigned *out);
EXPORT int nvmlDeviceGetPcieThroughput(nvml_device device, int which, unsigned *out);

int nvmlShutdown(void)
{
    return 0;
}

int nvmlDeviceGetCount_v2(unsigned *out)
{
    const char *count = getenv("STANDIN_DEVICES");
    *out = count ? (unsigned)atoi(count) : 1;
    return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, nvml_device *out)
{
    if (index >= MOST)
        return NO_GPU;
    gpus[index].number = (int)index;
    *out = &gpus[index];
    return 0;
}

int nvmlDeviceGetName(nvml_device device, char *out, unsigned size)
{
    return snprintf(out, size, "NVIDIA L4 number %d", device->number) < (int)size ? 0 : INSUFFICIENT_SIZE;
}

int nvmlDeviceGetPciInfo_v3(nvml_device device, nvml_pci *out)
{
    memset(out, 0, sizeof *out);
    snprintf(out->bus_id, sizeof out->bus_id, "00000000:%02X:00.0", (unsigned)device->number + 1);
    return 0;
}

static int told(nvml_device device, unsigned value, unsigned *out)
{
    *out = value;
    return device->number % 2 ? NOT_SUPPORTED : 0;
}

int nvmlDeviceGetUtilizationRates(nvml_device device, nvml_utilisation *out)
{
    return told(device, 93, &out->gpu);
}

int nvmlDeviceGetTemperature(nvml_device device, int sensor, unsigned *out)
{
    *out = device->number % 2 ? 95 : 71;
    return sensor == NVML_SENSOR_GPU ? 0 : NOT_SUPPORTED;
}

int nvmlDeviceGetTemperatureThreshold(nvml_device device, int which, unsigned *out)
{
    (void)device;
    *out = which == NVML_LIMIT_SLOWDOWN ? 92 : 200;
    return 0;
}

int nvmlDeviceGetPowerUsage(nvml_device device, unsigned *out)
{
    return told(device, 68100, out);
}

/* Two and a half joules from one reading to the next. */
int nvmlDeviceGetTotalEnergyConsumption(nvml_device device, unsigned long long *out)
{
    static atomic_ullong millijoules[MOST];
    *out = 1000000 + atomic_fetch_add(&millijoules[device->number], 2500);
    return device->number % 2 ? NOT_SUPPORTED : 0;
}

int nvmlDeviceGetEnforcedPowerLimit(nvml_device device, unsigned *out)
{
    return told(device, 72000, out);
}

int nvmlDeviceGetClockInfo(nvml_device device, int which, unsigned *out)
{
    (void)device;
    *out = which == NVML_CLOCK_GRAPHICS ? 1980 : 0;
    return 0;
}

int nvmlDeviceGetPcieThroughput(nvml_device device, int which, unsigned *out)
{
    (void)device;
    *out = which == NVML_RECEIVED ? 1420000 : 31000;
    return 0;
}
