/* Operands on several devices: fails with the fix, or moves them to the device that holds most of their bytes. */
#include "engine/placement/placement.h"

#include <haul/placement.h>

#include "base/assert.h"
#include "core/error.h"
#include "engine/copy.h"
#include "engine/driver.h"
#include "engine/placement/mixed.h"
#include "events/events.h"

/* ---- the policy ---- */

haul_status haul_set_placement_policy(haul_policy policy)
{
    if ((unsigned)policy > HAUL_PLACE_AUTO)
        return haul__fail(HAUL_INVALID_ARGUMENT, "haul_set_placement_policy", "policy",
                          "%d is not a policy; use HAUL_PLACE_STRICT, HAUL_PLACE_MOVE, HAUL_PLACE_CURRENT or "
                          "HAUL_PLACE_AUTO",
                          (int)policy);
    haul__thread()->words[HAUL__PLACEMENT] = policy;
    return HAUL_OK;
}

haul_policy haul_placement_policy(void)
{
    return (haul_policy)haul__thread()->words[HAUL__PLACEMENT];
}

/* ---- placing ---- */

static haul_status refuse_if_mixed(const haul__call *c, int first)
{
    for (int i = first + 1; i < c->count; i++)
        if (!haul__is_loose(c->operands[i]) && c->operands[i]->storage->device != c->operands[first]->storage->device)
            return haul__refuse_mixed(c, first, i);
    return HAUL_OK;
}

int haul__heaviest(const haul__call *c)
{
    size_t bytes[HAUL__MAX_DEVICES] = {0}, most = 0;
    int    which = -1;
    for (int i = 0; i < c->count; i++) {
        if (haul__is_none(c->operands[i]))
            continue;
        const int slot = c->operands[i]->storage->device->slot;
        HAUL__ASSERT(0 <= slot && slot < HAUL__MAX_DEVICES);
        bytes[slot] += haul_tensor_bytes(c->operands[i]);
    }
    for (int i = 0; i < c->count; i++) {
        if (haul__is_none(c->operands[i]))
            continue;
        size_t here = bytes[c->operands[i]->storage->device->slot];
        if (which < 0 || here > most) {
            most = here;
            which = i;
        }
    }
    return which;
}

void haul__emit_placement(const char *operation, const haul_device *device, const haul_device *from, const char *name,
                          const haul_tensor *operand)
{
    if (haul__watched(HAUL_EVENT_PLACEMENT))
        haul__emit(&(haul_event){.kind = HAUL_EVENT_PLACEMENT,
                                 .operation = operation,
                                 .device = device,
                                 .other = from,
                                 .text = name,
                                 .bytes = (int64_t)haul_tensor_bytes(operand)});
}

haul_status haul__place_on(haul__call *c, haul_device *device, bool keeps)
{
    for (int i = 0; i < c->count; i++) {
        haul_tensor *t = c->operands[i];
        if (haul__is_none(t) || t->storage->device == device)
            continue;
        if (haul__operand_spec(c, i)->written)
            return haul__refuse_written(c, i, device);
        const char *name = haul__operand_name(c, i);
        if (!keeps || !haul__keeps_move(t, device))
            haul__emit_placement(c->operation->name, device, t->storage->device, name, t);
        c->operands[i] = keeps ? haul__to_kept(t, device, name) : haul__to_named(t, device, name);
        if (haul__failed(c->operands[i]))
            return haul_error_status();
        HAUL__ASSERT(c->operands[i]->storage->device == device && c->operands[i]->dtype == t->dtype);
    }
    return HAUL_OK;
}

int haul__first_written(const haul__call *c)
{
    for (int i = 0; i < c->count; i++)
        if (haul__operand_spec(c, i)->written && !haul__is_none(c->operands[i]))
            return i;
    return -1;
}

static haul_status place_at_current(haul__call *c)
{
    const int written = haul__first_written(c);
    c->device = written >= 0 ? c->operands[written]->storage->device
                : c->target  ? c->target
                             : haul__device_current(c->operation->name);
    return c->device ? haul__place_on(c, c->device, false) : haul_error_status();
}

haul_status haul__place_each(haul__call *c)
{
    const bool automatic = haul__thread()->words[HAUL__PLACEMENT] == HAUL_PLACE_AUTO;
    return automatic ? haul__place_automatically(c) : place_at_current(c);
}

haul_status haul__place_operands(haul__call *c)
{
    HAUL__ASSERT(c->count > 1); /* they are on several devices */
    int first = 0;
    while (first < c->count - 1 && haul__is_loose(c->operands[first]))
        first++;
    c->device = c->operands[first]->storage->device;
    if (haul__thread()->words[HAUL__PLACEMENT] == HAUL_PLACE_STRICT) {
        if (refuse_if_mixed(c, first))
            return haul_error_status();
    } else {
        int which = haul__heaviest(c);
        c->device = c->operands[which]->storage->device;
        haul__emit_placement(c->operation->name, c->device, NULL, haul__operand_name(c, which), c->operands[which]);
    }
    return haul__place_on(c, c->device, false);
}
