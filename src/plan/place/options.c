#include "plan/place/options.h"

#include <stdio.h>
#include <string.h>

#include "backends/sim/sim.h"
#include "base/alloc.h"
#include "core/error.h"
#include "device/speeds.h"
#include "plan/here.h"

/* ---- devices ---- */

typedef char device_name[64];

/* "cpu,cuda:0" as two names; "" where there is none. */
static haul_status split(const char *list, device_name names[HAUL__PLACE_DEVICES], const char *operation)
{
    int count = 0;
    names[0][0] = names[1][0] = '\0';
    for (const char *at = list; at && *at; count++) {
        const size_t length = strcspn(at, ",");
        if (count < HAUL__PLACE_DEVICES)
            snprintf(names[count], sizeof *names, "%.*s", (int)length, at);
        at += length + (at[length] == ',');
    }
    if (count <= HAUL__PLACE_DEVICES && !(count == 2 && !strcmp(names[0], names[1])))
        return HAUL_OK;
    return haul__fail(HAUL_INVALID_ARGUMENT, operation, "devices",
                      "'%s' names %s; name the host and one other device, for example cpu,cuda:0", list,
                      count > HAUL__PLACE_DEVICES ? "more than two devices" : "one device twice");
}

static const char *names_of(const haul__machine *m, char *out, size_t size)
{
    size_t used = 0;
    for (int d = 0; d < m->device_count && used < size; d++)
        used += (size_t)snprintf(out + used, size - used, "%s%s", d ? ", " : "", m->devices[d].name);
    return out;
}

static haul_status find_device(const haul__machine *m, const char *name, const char *argument, const char *operation,
                               int *out)
{
    char names[400];
    *out = haul__machine_find(m, name);
    return *out >= 0 ? HAUL_OK
                     : haul__fail(HAUL_INVALID_ARGUMENT, operation, argument, "%s has no device '%s'; it has %s",
                                  m->name, name, names_of(m, names, sizeof names));
}

/* ---- the machine ---- */

static haul_status take_copy(const haul__machine *m, const char *operation, haul__machine **out)
{
    *out = haul__malloc(sizeof **out);
    if (!*out)
        return haul__fail_memory(operation, sizeof **out);
    memcpy(*out, m, sizeof **out);
    return HAUL_OK;
}

/* Of the device, which can be used: that of a simulated one, or this computer. */
static haul_status machine_of(haul_device *device, bool measures, const char *operation, haul__plan_request *out)
{
    haul__speeds speeds = haul__speeds_of(device);
    if (device->backend == &haul__backend_sim) {
        out->device = speeds.number;
        return take_copy(speeds.machine, operation, &out->machine);
    }
    out->device = 1;
    return haul__machine_here(operation, &device, 1, measures ? HAUL__HERE_MISSING : HAUL__HERE_CACHED, &out->machine);
}

/* The first device of this computer but the CPU; the CPU if there is none. */
static haul_device *first_other(void)
{
    haul_device *all[2];
    const int    count = haul__here_devices(all, 2);
    return count > 1 && all[0] == haul_cpu() ? all[1] : all[0];
}

static haul_status choose_usable(device_name names[HAUL__PLACE_DEVICES], bool measures, const char *operation,
                                 haul__plan_request *out)
{
    const char            *other = *names[1] ? names[1] : *names[0] && strcmp(names[0], "cpu") ? names[0] : NULL;
    haul_device           *device = other ? haul_device_get(other) : first_other();
    haul_device_properties p;
    if (*names[1] && haul_device_get(names[0]) != haul_cpu())
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "devices",
                          "the first device is %s; name the host and one other device, for example cpu,%s", names[0],
                          names[1]);
    if (haul_device_describe(device, &p))
        return haul__fail_within(operation);
    if (device == haul_cpu() || p.kind == HAUL_KIND_META)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "devices",
                          "there is no device but cpu, so there is nothing to place; name another one, for example "
                          "sim:h200, or a machine");
    snprintf(out->names[0], sizeof out->names[0], "cpu");
    snprintf(out->names[1], sizeof out->names[1], "%s", p.name);
    return machine_of(device, measures, operation, out);
}

/* Devices of a machine that is named. */
static haul_status choose_of_machine(device_name names[HAUL__PLACE_DEVICES], const char *operation,
                                     haul__plan_request *out)
{
    const haul__machine *m = out->machine;
    int                  number = 0;
    out->device = 1;
    if (m->device_count < 2)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "machine",
                          "%s has no device but %s, so there is nothing to place; name another machine", m->name,
                          m->devices[0].name);
    for (int i = 0; i < HAUL__PLACE_DEVICES && *names[i]; i++) {
        if (find_device(m, names[i], "devices", operation, &number))
            return haul_error_status();
        out->device = number ? number : out->device;
        if ((i == 0 && number && *names[1]) || (i == 1 && !number))
            return haul__fail(HAUL_INVALID_ARGUMENT, operation, "devices",
                              "name the host and one other device, for example %s,%s", m->devices[0].name,
                              m->devices[1].name);
    }
    snprintf(out->names[0], sizeof out->names[0], "%s", m->devices[0].name);
    snprintf(out->names[1], sizeof out->names[1], "%s", m->devices[out->device].name);
    return HAUL_OK;
}

static haul_status choose_devices(const haul_plan_options *o, bool measures, const char *operation,
                                  haul__plan_request *out)
{
    device_name names[HAUL__PLACE_DEVICES];
    if (split(o->devices, names, operation))
        return haul_error_status();
    if (!o->machine)
        return choose_usable(names, measures, operation, out);
    haul_status status = haul__machine_load(operation, o->machine, &out->machine);
    return status ? status : choose_of_machine(names, operation, out);
}

/* ---- limits and pins ---- */

/* 0 or 1: the plan's device of that name, which may be another spelling. */
static haul_status side_of(const haul__plan_request *r, const char *name, const char *argument, const char *operation,
                           int *out)
{
    for (*out = 0; *out < HAUL__PLACE_DEVICES; ++*out) {
        const char *own = r->names[*out];
        if (name && (!strcmp(name, own) || (strcmp(own, "cpu") && haul_device_get(name) == haul_device_get(own) &&
                                            haul_device_is_valid(haul_device_get(name)))))
            return HAUL_OK;
    }
    if (name && find_device(r->machine, name, argument, operation, out))
        return haul_error_status();
    return haul__fail(HAUL_INVALID_ARGUMENT, operation, argument,
                      "%s is not one of the two devices of the plan, %s and %s", name ? name : "NULL", r->names[0],
                      r->names[1]);
}

static haul_status take_limit(const haul_plan_limit *l, const char *operation, haul__plan_request *out)
{
    int side = 1;
    if (l->device && side_of(out, l->device, "limits", operation, &side))
        return haul_error_status();
    if (l->bytes < 0 || !(l->percent >= 0) || l->percent > 1e6 || (!l->bytes && l->percent == 0))
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "limits",
                          "the limit of %s is %lld bytes or %g %%; expected is one of them above 0", out->names[side],
                          (long long)l->bytes, l->percent);
    out->limit[side] = l->bytes;
    out->percent[side] = l->bytes ? 0 : l->percent;
    return HAUL_OK;
}

static haul_status take_pin(const haul_plan_pin *p, const char *operation, haul__place_pin *out,
                            const haul__plan_request *r)
{
    if (!p->pattern || !*p->pattern)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "pins",
                          "a pin has no pattern; give the path of a module, for example \"conv*\"");
    out->pattern = p->pattern;
    return side_of(r, p->device, "pins", operation, &out->device);
}

static haul_status check_lists(const haul_plan_options *o, const char *operation)
{
    if (o->limit_count >= 0 && o->pin_count >= 0 && (o->limits || !o->limit_count) && (o->pins || !o->pin_count))
        return HAUL_OK;
    return haul__fail(HAUL_INVALID_ARGUMENT, operation, "options",
                      "%d limits and %d pins are given without an array of so many", o->limit_count, o->pin_count);
}

haul_status haul__plan_choose(const haul_plan_options *o, bool measures, haul__place_pin *room, const char *operation,
                              haul__plan_request *out)
{
    *out = (haul__plan_request){.pins = room};
    haul_status status = check_lists(o, operation);
    if (!status)
        status = choose_devices(o, measures, operation, out);
    for (int i = 0; i < o->limit_count && !status; i++)
        status = take_limit(&o->limits[i], operation, out);
    for (int i = 0; i < o->pin_count && !status; i++)
        status = take_pin(&o->pins[i], operation, &room[out->pin_count++], out);
    if (status) {
        haul__free(out->machine);
        *out = (haul__plan_request){.device = 0};
    }
    return status;
}
