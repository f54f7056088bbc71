#include "cli/plan/prospect.h"

#include <stdio.h>

#include "base/numbers.h"
#include "base/text/list.h"
#include "plan/graph/place.h"
#include "plan/place/step.h"
#include "record/work.h"

/* The waits for launches of all operations. */
static int64_t launches_of(const haul_program *p, const haul__machine_device *d)
{
    int64_t commands = 0;
    for (int64_t i = 0; i < p->operation_count; i++)
        commands += p->operations[i].command_count;
    return 1000 * d->launch_ns * commands;
}

/* Lists the classes of operations that have no rate, in the order of the classes. */
static void find_unmeasured(prospect *out, const haul_program *p, int device)
{
    bool lacks[HAUL__WORK_OTHER + 1] = {false};
    for (int64_t i = 0; i < p->operation_count; i++) {
        const haul__machine_work w = haul__program_work_of(p, &p->operations[i]);
        const haul__work_class   c = haul__machine_class_of(&w);
        const bool               timed = w.commands && !haul__machine_learnt_of(out->machine, device, &w);
        lacks[c] = lacks[c] || (timed && !haul__machine_measures(out->machine, device, c, w.dtype));
    }
    for (haul__work_class c = 0; c <= HAUL__WORK_OTHER; c++)
        if (lacks[c])
            haul__list_add(out->unmeasured, sizeof out->unmeasured, "%s", haul__work_class_name(c));
}

/* The cost with everything on one side, if the copies of the data are a part of the step. */
static haul_status find_waiting(haul__place_step step, int side, int64_t *cost)
{
    haul__place_graph graph = {0};
    haul__placement   p = {0};
    step.ahead = false;
    haul_status status = haul__place_graph_of(&step, &graph);
    if (!status)
        status = haul__place_single(&graph, side, &p);
    *cost = p.cost;
    haul__placement_free(&p);
    haul__place_free(&graph);
    return status;
}

haul_status prospect_find(prospect *out, const haul_program *program, const haul__machine *machine, int device)
{
    const int              side = device != 0;
    const haul__place_step step = {.program = program,
                                   .machine = machine,
                                   .device_count = 2,
                                   .devices = {0, device ? device : machine->device_count > 1},
                                   .ahead = true};
    haul__place_graph      graph = {0};
    haul__placement        p = {0};
    *out = (prospect){.machine = machine, .device = &machine->devices[device]};
    int64_t     waiting = 0;
    haul_status status = haul__place_graph_of(&step, &graph);
    if (!status)
        status = haul__place_single(&graph, side, &p);
    if (!status)
        status = find_waiting(step, side, &waiting);
    if (!status) {
        const int64_t operations = haul__place_computing(&graph, p.device),
                      launches = launches_of(program, out->device);
        out->step_ps = larger(p.cost, waiting - p.cost); /* of the step and of the copies during it, the longer one */
        out->launch_ps = smaller(launches, operations);
        out->compute_ps = operations - out->launch_ps;
        out->copy_ps = out->step_ps - operations;
        out->copied_bytes = haul__place_copied_bytes(&graph, p.device, NULL);
        out->peak_bytes = p.peaks[side].bytes;
        out->memory_bytes = out->device->memory_bytes;
        out->learnt = haul__place_learnt(program, machine, device);
        find_unmeasured(out, program, device);
    }
    haul__placement_free(&p);
    haul__place_free(&graph);
    return status;
}
