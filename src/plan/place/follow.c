/* Puts a placement into force: the network's tensors move, and operations run where it says. */
#include <haul/device.h>
#include <haul/placement.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "core/error.h"
#include "engine/placement/placing.h"
#include "nn/distribute.h"
#include "plan/place/plan.h"

typedef struct following {
    const haul_plan       *plan;
    const haul__placement *placement;
    haul_device           *devices[HAUL__PLACE_DEVICES];
} following;

static haul_device *device_of(const following *f, const haul__place_operation *o)
{
    return f->devices[f->placement->device[o->group]];
}

/* Updates are made where the parameters are. */
static bool is_placed(const haul__place_operation *o)
{
    return o->call >= 0 && strcmp(o->section, "optimizer step") != 0;
}

static haul__placing *placing_of(const following *f, const char *operation)
{
    const haul__place_graph *g = &f->plan->graph;
    haul__placing           *p = haul__placing_new(g->operation_count, operation);
    size_t                   count = 0;
    for (size_t i = 0; p && i < g->operation_count; i++) {
        const haul__place_operation *o = &g->operations[i];
        const char                  *why = f->plan->reasons ? f->plan->reasons[i] : NULL;
        if (!is_placed(o))
            continue;
        haul__placed *item = &p->items[count++];
        memcpy(item->name, o->name, sizeof item->name);
        snprintf(item->module, sizeof item->module, "%s", o->outside ? "" : o->module);
        item->device = device_of(f, o);
        item->why = why ? haul__strdup(why) : NULL; /* without memory it has none */
    }
    HAUL__ASSERT(!p || count <= g->operation_count);
    if (p)
        p->count = count;
    return p;
}

/* Where the memory of a module's parameters and buffers is; NULL: the step uses none. */
static haul_device *device_of_tensor(const char *name, const void *context)
{
    const following         *f = context;
    const haul__place_graph *g = &f->plan->graph;
    const char              *dot = strrchr(name, '.');
    char                     module[sizeof g->operations->module];
    snprintf(module, sizeof module, "%.*s", dot ? (int)(dot - name) : 0, name);
    for (size_t i = 0; i < g->operation_count; i++) {
        const haul__place_operation *o = &g->operations[i];
        if (o->call < 0 && !haul__place_is_data(o) && !strcmp(o->module, module))
            return device_of(f, o);
    }
    return NULL;
}

static haul_status find_devices(following *f, const char *operation)
{
    haul_status status = HAUL_OK;
    for (int d = 0; d < haul__plan_device_count(f->plan) && !status; d++) {
        haul_device_properties p;
        f->devices[d] = haul_device_get(f->plan->request.names[d]);
        status = haul_device_describe(f->devices[d], &p);
    }
    return status ? haul__fail_within(operation) : HAUL_OK;
}

haul_status haul__plan_follow(const haul_plan *p, const haul__placement *placement, haul_module *net,
                              const char *operation)
{
    following      f = {.plan = p, .placement = placement};
    haul__placing *before = haul__placing_now();
    if (find_devices(&f, operation))
        return haul_error_status();
    haul__placing *placing = placing_of(&f, operation);
    haul_status    status = placing ? haul__placing_begin(placing, operation) : haul_error_status();
    if (!status && net)
        status = haul__module_distribute(net, device_of_tensor, &f, operation);
    if (!status)
        status = haul_set_placement_policy(HAUL_PLACE_AUTO);
    else if (placing)
        haul__placing_begin(before, operation);
    haul__object_release(placing);
    return status;
}
