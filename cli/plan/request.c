#include "cli/plan/request.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/options/memory_limit.h"
#include "cli/shared/cli.h"
#include "plan/here.h"

/* ---- the machine and its devices ---- */

static bool load_machine(const char *name, study_request *out)
{
    if (!haul__machine_choose("haul plan", name, &out->machine))
        return true;
    complain_error();
    return false;
}

/* The devices of the machine as "cpu, cuda:0". */
static const char *device_names(const haul__machine *m)
{
    static char text[HAUL__MACHINE_DEVICES * (HAUL__MACHINE_NAME + 2)];
    size_t      used = 0;
    for (int d = 0; d < m->device_count; d++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", d ? ", " : "", m->devices[d].name);
    return text;
}

static bool find_device(const haul__machine *m, const char *name, const char *spelling, int *out)
{
    *out = haul__machine_find(m, name);
    if (*out < 0)
        complain("%s: %s has no device '%s'; it has %s", spelling, m->name, name, device_names(m));
    return *out >= 0;
}

/* Splits the next part of a list off, at a comma. NULL at the end. */
static char *next_part(char **rest)
{
    char *part = *rest, *comma = part ? strchr(part, ',') : NULL;
    if (comma)
        *comma = '\0';
    *rest = comma ? comma + 1 : NULL;
    return part;
}

static bool choose_devices(char *list, study_request *out)
{
    const haul__machine *m = out->machine;
    int                  count = 0, device;
    out->device = 1;
    if (m->device_count < 2) {
        complain("%s has no device but %s, so there is nothing to place; --machine NAME plans for another machine",
                 m->name, m->devices[0].name);
        return false;
    }
    for (char *name = next_part(&list); name; name = next_part(&list), count++) {
        if (!find_device(m, name, "--devices", &device))
            return false;
        out->device = device ? device : out->device;
        if (count >= HAUL__PLACE_DEVICES || (count == 0 && device) || (count == 1 && !device)) {
            complain("--devices names the host and one other device, for example %s,%s", m->devices[0].name,
                     m->devices[1].name);
            return false;
        }
    }
    return true;
}

/* ---- limits and pins ---- */

/* 0 or 1, as plans count devices; -1 after a complaint. */
static int side_of(const study_request *r, const char *name, const char *spelling)
{
    int device;
    if (!find_device(r->machine, name, spelling, &device))
        return -1;
    if (device == 0 || device == r->device)
        return device != 0;
    complain("%s: %s is not one of the two devices of the plan, %s and %s", spelling, name, r->machine->devices[0].name,
             r->machine->devices[r->device].name);
    return -1;
}

/* A size without a device is for the second one. */
static bool read_limits(char *list, study_request *out)
{
    for (char *part = next_part(&list); part; part = next_part(&list)) {
        haul__room_limit limit;
        char            *equals = strchr(part, '=');
        const char      *size = equals ? equals + 1 : part;
        if (equals)
            *equals = '\0';
        const int side = equals ? side_of(out, part, "--memory-limit") : 1;
        if (side < 0 || !memory_limit_parse(size, &limit))
            return false;
        out->limit[side] = limit.bytes;
        out->percent[side] = limit.percent;
    }
    return true;
}

static bool read_places(char *list, study_request *out)
{
    for (char *part = next_part(&list); part; part = next_part(&list)) {
        char *equals = strrchr(part, '=');
        if (!equals || equals == part) {
            complain("--place %s is not PATTERN=DEVICE, for example 'conv*=%s'", part, out->machine->devices[1].name);
            return false;
        }
        *equals = '\0';
        const int side = side_of(out, equals + 1, "--place");
        if (side < 0)
            return false;
        if (out->pin_count == MOST_PINS) {
            complain("--place has more than %d patterns", MOST_PINS);
            return false;
        }
        out->pins[out->pin_count++] = (haul__place_pin){part, side};
    }
    return true;
}

/* ---- the whole ---- */

/* A copy of the text, one of three, for as long as the request lives. */
static char *copy_of(study_request *r, int index, const char *text)
{
    r->texts[index] = text ? haul__strdup(text) : NULL;
    return r->texts[index];
}

bool request_read(const request_texts *texts, study_request *out)
{
    const char *const given[] = {texts->devices, texts->limits, texts->places};
    for (int i = 0; i < 3; i++)
        if (given[i] && !copy_of(out, i, given[i])) {
            complain("memory is exhausted");
            return false;
        }
    return load_machine(texts->machine, out) && choose_devices(out->texts[0], out) && read_limits(out->texts[1], out) &&
           read_places(out->texts[2], out);
}

void request_free(study_request *r)
{
    for (int i = 0; i < 3; i++)
        haul__free(r->texts[i]);
    haul__free(r->machine);
}
