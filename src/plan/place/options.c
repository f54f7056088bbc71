#include "plan/place/options.h"

#include <stdio.h>
#include <string.h>

#include "backends/sim/sim.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/list.h"
#include "core/error.h"
#include "device/speeds.h"
#include "plan/here.h"

/* ---- devices ---- */

typedef char device_name[64];

typedef struct device_list {
    device_name names[HAUL__PLACE_DEVICES];
    int         count; /* 0: none is named */
} device_list;

static bool has_name(const device_list *l, const char *name)
{
    bool found = false;
    for (int i = 0; i < l->count; i++)
        found = found || !strcmp(l->names[i], name);
    return found;
}

/* "cpu,cuda:0" as names. */
static haul_status split(const char *list, device_list *out, const char *operation)
{
    *out = (device_list){.count = 0};
    for (const char *at = list; at && *at;) {
        device_name  name;
        const size_t length = strcspn(at, ",");
        snprintf(name, sizeof name, "%.*s", (int)length, at);
        if (out->count == HAUL__PLACE_DEVICES || has_name(out, name))
            return haul__fail(HAUL_INVALID_ARGUMENT, operation, "devices",
                              "'%s' names %s; name the host and up to eight other devices, for example cpu,cuda:0",
                              list, has_name(out, name) ? "one device twice" : "more than nine devices");
        HAUL__ASSERT(out->count < HAUL__PLACE_DEVICES);
        memcpy(out->names[out->count++], name, sizeof name);
        at += length + (at[length] == ',');
    }
    return HAUL_OK;
}

static const char *names_of(const haul__machine *m, char *out, size_t size)
{
    *out = '\0';
    for (int d = 0; d < m->device_count; d++)
        haul__list_add(out, size, "%s", m->devices[d].name);
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

static void take_device(haul__plan_request *out, int number, const char *name)
{
    HAUL__ASSERT(out->device_count < HAUL__PLACE_DEVICES && number >= 0);
    out->devices[out->device_count] = number;
    snprintf(out->names[out->device_count++], sizeof *out->names, "%s", name);
}

/* The first device of this computer but the CPU; the CPU if there is none. */
static haul_device *first_other(void)
{
    haul_device *all[2];
    const int    count = haul__here_devices(all, 2);
    HAUL__ASSERT(count > 0); /* the CPU */
    return count > 1 && all[0] == haul_cpu() ? all[1] : all[0];
}

/* A device of another machine gets a place on this one, and its link to the host. */
static haul_status add_device(haul__machine *m, const haul__speeds *speeds, const char *operation, int *number)
{
    const haul__machine      *from = speeds->machine;
    const haul__machine_link *up = haul__machine_link_of(from, 0, speeds->number);
    const haul__machine_link *down = haul__machine_link_of(from, speeds->number, 0);
    if (m->device_count == HAUL__MACHINE_DEVICES || m->link_count + 2 > HAUL__MACHINE_LINKS || !up || !down)
        return haul__fail(HAUL_UNSUPPORTED, operation, "devices", "%s and %s together have more than %d devices",
                          m->name, from->name, HAUL__MACHINE_DEVICES);
    *number = m->device_count++;
    m->devices[*number] = from->devices[speeds->number];
    m->links[m->link_count] = *up;
    m->links[m->link_count++].to = *number;
    m->links[m->link_count] = *down;
    m->links[m->link_count++].from = *number;
    HAUL__ASSERT(m->device_count <= HAUL__MACHINE_DEVICES && m->link_count <= HAUL__MACHINE_LINKS);
    return HAUL_OK;
}

/* Simulated devices: of one machine, or of several, whose first one has the host. */
static haul_status take_simulated(haul_device *const *devices, int count, const char *operation,
                                  haul__plan_request *out)
{
    const haul__machine *first = haul__speeds_of(devices[0]).machine;
    HAUL__ASSERT(count > 0 && out->device_count == 1 && !out->machine); /* the host */
    haul_status status = take_copy(first, operation, &out->machine);
    for (int i = 0; i < count && !status; i++) {
        const haul__speeds speeds = haul__speeds_of(devices[i]);
        int                number = speeds.number;
        if (speeds.machine != first)
            status = add_device(out->machine, &speeds, operation, &number);
        if (!status)
            take_device(out, number, haul_device_name(devices[i]));
    }
    return status;
}

/* Of devices that can be used: those of a simulated machine, or of this computer. */
static haul_status take_usable(haul_device *const *devices, int count, bool measures, const char *operation,
                               haul__plan_request *out)
{
    int simulated = 0;
    HAUL__ASSERT(0 < count && count < HAUL__PLACE_DEVICES && out->device_count == 0);
    for (int i = 0; i < count; i++)
        simulated += devices[i]->backend == &haul__backend_sim;
    if (simulated && simulated < count)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "devices",
                          "simulated devices have virtual times and others do not; name only one kind of them");
    take_device(out, 0, "cpu");
    if (simulated)
        return take_simulated(devices, count, operation, out);
    for (int i = 0; i < count; i++)
        take_device(out, i + 1, haul_device_name(devices[i]));
    return haul__machine_here(operation, devices, count, measures ? HAUL__HERE_MISSING : HAUL__HERE_CACHED,
                              &out->machine);
}

/* One other device than the CPU. */
static haul_status find_other(const device_list *l, int i, const char *operation, haul_device **out)
{
    haul_device_properties p;
    *out = i < l->count ? haul_device_get(l->names[i]) : first_other();
    if (haul_device_describe(*out, &p))
        return haul__fail_within(operation);
    if (*out != haul_cpu() && p.kind != HAUL_KIND_META)
        return HAUL_OK;
    return haul__fail(HAUL_INVALID_ARGUMENT, operation, "devices",
                      "cpu is the only device, so nothing can be placed; name another one, for example "
                      "sim:h200, or a machine");
}

static haul_status choose_usable(const device_list *l, bool measures, const char *operation, haul__plan_request *out)
{
    haul_device *devices[HAUL__PLACE_DEVICES];
    int          count = 0;
    const bool   host_first = l->count && haul_device_get(l->names[0]) == haul_cpu();
    haul_status  status = HAUL_OK;
    if (l->count > 1 && !host_first)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "devices",
                          "the first device is %s; name the host and one other device or more, for example cpu,%s",
                          l->names[0], l->names[1]);
    for (int i = host_first; !status && (i < l->count || !count); i++) {
        HAUL__ASSERT(count < HAUL__PLACE_DEVICES);
        status = find_other(l, i, operation, &devices[count]);
        for (int j = 0; j < count && !status; j++)
            if (devices[j] == devices[count])
                status = haul__fail(HAUL_INVALID_ARGUMENT, operation, "devices", "%s and %s are one device",
                                    l->names[i - 1], l->names[i]);
        count++;
    }
    return status ? status : take_usable(devices, count, measures, operation, out);
}

/* Devices of a machine that is named. */
static haul_status choose_of_machine(const device_list *l, const char *operation, haul__plan_request *out)
{
    const haul__machine *m = out->machine;
    int                  number = 0;
    if (m->device_count < 2)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "machine",
                          "%s has no device but %s, so nothing can be placed; name another machine", m->name,
                          m->devices[0].name);
    take_device(out, 0, m->devices[0].name);
    for (int i = 0; i < l->count; i++) {
        if (find_device(m, l->names[i], "devices", operation, &number))
            return haul_error_status();
        if ((i == 0 && number && l->count > 1) || (i && !number))
            return haul__fail(HAUL_INVALID_ARGUMENT, operation, "devices",
                              "name the host and one other device or more, for example %s,%s", m->devices[0].name,
                              m->devices[1].name);
        if (number)
            take_device(out, number, m->devices[number].name);
    }
    if (out->device_count < 2)
        take_device(out, 1, m->devices[1].name);
    return HAUL_OK;
}

static haul_status choose_devices(const haul_plan_options *o, bool measures, const char *operation,
                                  haul__plan_request *out)
{
    device_list list;
    if (split(o->devices, &list, operation))
        return haul_error_status();
    if (!o->machine)
        return choose_usable(&list, measures, operation, out);
    haul_status status = haul__machine_load(operation, o->machine, &out->machine);
    return status ? status : choose_of_machine(&list, operation, out);
}

/* ---- limits and pins ---- */

/* "cpu, cuda:0 and cuda:1" */
static const char *plan_names(const haul__plan_request *r, char *out, size_t size)
{
    size_t used = 0;
    for (int d = 0; d < r->device_count && used < size; d++)
        used += (size_t)snprintf(out + used, size - used, "%s%s", haul__list_separator(d, r->device_count, " and "),
                                 r->names[d]);
    return out;
}

/* The number of the plan's device of that name, which may be another spelling. */
static haul_status side_of(const haul__plan_request *r, const char *name, const char *argument, const char *operation,
                           int *out)
{
    char names[HAUL__PLACE_DEVICES * (sizeof *r->names + 6)];
    for (*out = 0; *out < r->device_count; ++*out) {
        const char *own = r->names[*out];
        if (name && (!strcmp(name, own) || (strcmp(own, "cpu") && haul_device_get(name) == haul_device_get(own) &&
                                            haul_device_is_valid(haul_device_get(name)))))
            return HAUL_OK;
    }
    if (name && find_device(r->machine, name, argument, operation, out))
        return haul_error_status();
    return haul__fail(HAUL_INVALID_ARGUMENT, operation, argument, "%s is not one of the devices of the plan, %s",
                      name ? name : "NULL", plan_names(r, names, sizeof names));
}

/* Without a device: of each one but the host. */
static haul_status take_limit(const haul_plan_limit *l, const char *operation, haul__plan_request *out)
{
    int first = 1, last = out->device_count - 1;
    if (l->device && side_of(out, l->device, "limits", operation, &first))
        return haul_error_status();
    if (l->device)
        last = first;
    if (l->bytes < 0 || !(l->percent >= 0) || l->percent > 1e6 || (!l->bytes && l->percent == 0))
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "limits",
                          "the limit of %s is %lld bytes or %g %%; expected is one of them above 0", out->names[first],
                          (long long)l->bytes, l->percent);
    HAUL__ASSERT(0 <= first && last < out->device_count);
    for (int d = first; d <= last; d++) {
        out->limit[d] = l->bytes;
        out->percent[d] = l->bytes ? 0 : l->percent;
    }
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
    *out = (haul__plan_request){.pins = room, .stages = o->stages};
    haul_status status = check_lists(o, operation);
    if (!status)
        status = choose_devices(o, measures, operation, out);
    for (int i = 0; i < o->limit_count && !status; i++)
        status = take_limit(&o->limits[i], operation, out);
    for (int i = 0; i < o->pin_count && !status; i++)
        status = take_pin(&o->pins[i], operation, &room[out->pin_count++], out);
    if (status) {
        haul__free(out->machine);
        *out = (haul__plan_request){.machine = NULL};
    }
    return status;
}
