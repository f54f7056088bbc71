#include "plan/here.h"

#include <haul/haul.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/system/clock.h"
#include "base/system/cores.h"
#include "core/device.h"
#include "core/error.h"
#include "device/speeds.h"
#include "plan/available.h"
#include "plan/link_rates.h"
#include "plan/rates.h"

/* ---- measuring ---- */

static haul_status measure_device(haul_device *device, haul__machine_device *out)
{
    haul_device_properties p;
    haul_status            status = haul_device_describe(device, &p);
    if (status)
        return status;
    snprintf(out->name, sizeof out->name, "%s", p.name);
    snprintf(out->model, sizeof out->model, "%s", p.model);
    out->shares_host_memory = p.shares_host_memory;
    out->memory_bytes = p.memory_bytes > 0 ? p.memory_bytes : haul__available_on_host();
    if (out->memory_bytes <= 0)
        out->memory_bytes = 1;
    return haul__rates_measure(device, out);
}

/* The device becomes the first one of the machine if it is the host, else the second: its host is filled in later. */
static haul_status measure(haul_device *device, haul__machine *m)
{
    const bool is_host = device == haul_cpu();
    snprintf(m->name, sizeof m->name, "here");
    snprintf(m->source, sizeof m->source, "measured by haul calibrate, Haul %s", haul_version());
    m->device_count = is_host ? 1 : 2;
    m->link_count = is_host ? 0 : 2;
    haul_status status = measure_device(device, &m->devices[is_host ? 0 : 1]);
    if (status || is_host)
        return status;
    m->devices[0] = (haul__machine_device){.name = "cpu", .memory_bytes = 1, .bytes_per_second = 1};
    m->links[0] = (haul__machine_link){.from = 0, .to = 1};
    m->links[1] = (haul__machine_link){.from = 1, .to = 0};
    return haul__links_measure(device, &m->links[0], &m->links[1]);
}

static haul_status measure_and_store(const char *operation, haul_device *device, haul__machine **out)
{
    haul__machine *m = haul__calloc(1, sizeof *m);
    haul_status    status = m ? measure(device, m) : haul__fail_memory(operation, sizeof *m);
    if (status) {
        haul__free(m);
        return m ? haul__fail_within(operation) : status;
    }
    haul__speeds_store(device, m);
    haul__speeds_add_learnt(device, m);
    *out = m;
    return HAUL_OK;
}

static haul_status check(const char *operation, const haul_device *device)
{
    haul_device_properties p;
    if (haul_device_describe(device, &p))
        return haul__fail_within(operation);
    if (p.kind == HAUL_KIND_META)
        return haul__fail(HAUL_DEVICE, operation, "device", "%s computes nothing, so it has no speed; name another",
                          p.name);
    if (haul__clock_is_virtual())
        return haul__fail(HAUL_STATE, operation, "device",
                          "%s has no speed that could be measured while a simulated device is in use; use another "
                          "process, or the machine of the simulated device",
                          p.name);
    return HAUL_OK;
}

/* The device's own machine: the host alone, or the host and the device. */
static haul_status find(const char *operation, haul_device *device, haul__here_mode mode, haul__machine **out)
{
    haul_status status = check(operation, device);
    *out = NULL;
    if (status)
        return status;
    if (mode != HAUL__HERE_ANEW)
        *out = haul__speeds_load(device);
    if (!*out && mode == HAUL__HERE_CACHED)
        status = haul__fail(HAUL_STATE, operation, "device",
                            "%s was not measured with its present driver, libraries and number of threads; run haul "
                            "calibrate",
                            haul_device_name(device));
    else if (!*out)
        status = measure_and_store(operation, device, out);
    if (*out && device == haul_cpu()) {
        (*out)->devices[0].threads = haul_num_threads();
        (*out)->devices[0].cores = haul__core_count();
    }
    return status;
}

/* ---- all devices ---- */

/* Adds the device of `part`, which has only the host or only one more. */
static haul_status add(const char *operation, haul__machine *m, const haul__machine *part)
{
    const haul__machine_device *d = &part->devices[part->device_count - 1];
    if (haul__machine_find(m, d->name) >= 0)
        return HAUL_OK;
    if (m->device_count == HAUL__MACHINE_DEVICES)
        return haul__fail(HAUL_UNSUPPORTED, operation, "devices", "a machine has at most %d devices; name fewer",
                          HAUL__MACHINE_DEVICES);
    const int number = m->device_count++;
    m->devices[number] = *d;
    for (int i = 0; i < part->link_count; i++) {
        HAUL__ASSERT(m->link_count < HAUL__MACHINE_LINKS);
        haul__machine_link *link = &m->links[m->link_count++];
        *link = part->links[i];
        link->from = link->from ? number : 0;
        link->to = link->to ? number : 0;
    }
    return HAUL_OK;
}

static haul_status find_and_add(const char *operation, haul_device *device, haul__here_mode mode, haul__machine *m)
{
    haul__machine *part = NULL;
    haul_status    status = find(operation, device, mode, &part);
    if (!status)
        status = add(operation, m, part);
    haul__free(part);
    return status;
}

haul_status haul__machine_here(const char *operation, haul_device *const *devices, int count, haul__here_mode mode,
                               haul__machine **out)
{
    haul__machine *m = NULL;
    haul_status    status = find(operation, haul_cpu(), mode, &m);
    for (int i = 0; i < count && !status; i++)
        if (devices[i] != haul_cpu())
            status = find_and_add(operation, devices[i], mode, m);
    *out = status ? NULL : m;
    if (status)
        haul__free(m);
    return status;
}

int haul__here_devices(haul_device **out, int room)
{
    haul_device_report all[HAUL__MAX_DEVICES];
    int                listed = haul_device_list(all, HAUL__MAX_DEVICES), count = 0;
    for (int i = 0; i < listed && i < HAUL__MAX_DEVICES && count < room; i++) {
        haul_device           *device = all[i].usable ? haul_device_get(all[i].name) : NULL;
        haul_device_properties p;
        if (device && !haul_device_describe(device, &p) && p.kind != HAUL_KIND_META)
            out[count++] = device;
    }
    haul_error_clear();
    HAUL__ASSERT(count <= room);
    return count;
}

haul_status haul__machine_of_all(const char *operation, haul__here_mode mode, haul__left_out *left_out,
                                 haul__machine **out)
{
    haul_device   *devices[HAUL__MACHINE_DEVICES];
    const int      count = haul__here_devices(devices, HAUL__MACHINE_DEVICES);
    haul__machine *m = NULL;
    haul_status    status = find(operation, haul_cpu(), mode, &m);
    for (int i = 0; i < count && !status; i++) {
        haul__error_record before;
        if (devices[i] == haul_cpu())
            continue;
        haul__error_save(&before);
        if (!find_and_add(operation, devices[i], mode, m))
            continue;
        if (left_out)
            left_out(haul_device_name(devices[i]), haul_error_message());
        haul__error_restore(&before);
    }
    *out = status ? NULL : m;
    return status;
}

haul_status haul__machine_choose(const char *operation, const char *name, haul__machine **out)
{
    return name ? haul__machine_load(operation, name, out)
                : haul__machine_of_all(operation, HAUL__HERE_MISSING, NULL, out);
}
