/* haul_device_usage: the sensors of the hardware that a device is. */
#include <haul/usage.h>
#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/system/clock.h"
#include "base/system/fork.h"
#include "core/device.h"
#include "core/error.h"
#include "observe/usage/sensors.h"

static const char operation[] = "haul_device_usage";

/* What the readers keep between readings. */
static pthread_mutex_t   lock = PTHREAD_MUTEX_INITIALIZER;
static haul__cpu_sensors cpu;
static haul__gpu_sensors gpus;

HAUL__MUTEX_AT_FORK(HAUL__FORK_SENSORS, lock);

static double seconds_now(void)
{
    return 1e-9 * (double)haul__system_ns();
}

/* ---- GPUs ---- */

static haul_status refuse_gpu(const haul_device *device, const char *why)
{
    return haul__fail(HAUL_UNSUPPORTED, operation, "device", "the sensors of %s (%s) cannot be read: %s", device->name,
                      device->properties.bus, *why ? why : "no driver of this machine lists a GPU at this address");
}

static haul_status read_gpu(const haul_device *device, haul_usage *out)
{
    haul__hardware *all = haul__calloc(HAUL__GPUS, sizeof *all), *found = NULL;
    if (!all)
        return haul__fail_memory(operation, HAUL__GPUS * sizeof *all);
    const int count = haul__gpus_read(&gpus, all, HAUL__GPUS, seconds_now());
    HAUL__ASSERT(0 <= count && count <= HAUL__GPUS);
    for (int i = 0; i < count && !found; i++)
        found = haul__same_bus(all[i].bus, device->properties.bus) ? &all[i] : NULL;
    /* A first row without an address says why NVIDIA's library cannot be used. */
    const char       *why = found ? found->why : *all[0].bus ? "" : all[0].why;
    const haul_status status = found && !*why ? HAUL_OK : refuse_gpu(device, why);
    if (!status)
        *out = found->now;
    haul__free(all);
    return status;
}

/* ---- all ---- */

static haul_status read_cpu(haul_usage *out)
{
    haul__hardware found;
    haul__cpu_sensors_read(&cpu, &found, seconds_now());
    *out = found.now;
    return HAUL_OK;
}

static haul_status refuse(const haul_device *device)
{
    const bool is_meta = device->properties.kind == HAUL_KIND_META;
    return haul__fail(HAUL_UNSUPPORTED, operation, "device",
                      is_meta || !strncmp(device->name, "sim:", 4)
                          ? "%s has no hardware; pass a device of this machine, as `haul devices` lists them"
                          : "the PCI address of %s is unknown, so its sensors cannot be found",
                      device->name);
}

haul_status haul_device_usage(haul_device *device, haul_usage *out)
{
    haul_device_properties p;
    if (!out)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "out", "out is NULL; pass the address of a struct");
    if (haul_device_describe(device, &p))
        return haul_error_status();
    if (p.kind != HAUL_KIND_CPU && !*p.bus)
        return refuse(device);
    pthread_mutex_lock(&lock);
    const haul_status status = p.kind == HAUL_KIND_CPU ? read_cpu(out) : read_gpu(device, out);
    pthread_mutex_unlock(&lock);
    return status;
}

/* ---- meters ---- */

/* NVIDIA's library is opened by the first reading. */
static double read_nvidia(haul__meter *m)
{
    pthread_mutex_lock(&lock);
    const double joules = haul__nvidia_energy(m->device->properties.bus, m->energy);
    pthread_mutex_unlock(&lock);
    return joules;
}

double haul__meter_read(haul__meter *m)
{
    if (m->device == haul_cpu())
        return haul__cpu_energy(m->energy);
    return m->sensor >= 0 ? haul__card_energy(m->card, m->sensor, m->energy) : read_nvidia(m);
}

bool haul__meter_find(haul__meter *m, const haul_device *device)
{
    *m = (haul__meter){.device = device, .card = -1, .sensor = -1};
    if (haul__clock_is_virtual() || (device != haul_cpu() && !*device->properties.bus))
        return false;
    if (!isnan(haul__meter_read(m)))
        return true;
    return haul__card_find(device->properties.bus, &m->card, &m->sensor) && !isnan(haul__meter_read(m));
}
