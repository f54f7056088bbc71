/* Whose bits a placed step has (docs/decisions/019-bit-identical-results.md). */
#include <string.h>

#include "base/assert.h"
#include "plan/place/plan.h"
#include "record/work.h"

/* True if the operation may differ in bits on another kind of device: products, which libraries compute, functions of
 * the device's own library, f64, and functions of the program. */
static bool differs(const haul_plan *p, const haul__place_operation *o)
{
    static const char *const names[] = {"pow", "expm1", "log1p"};
    if (!haul__place_takes_time(o))
        return false;
    if (!p->program.operation_count) /* of a plan from a file the dtypes are not known */
        return true;
    HAUL__ASSERT(0 <= o->call && o->call < p->program.operation_count);
    const haul__machine_work w = haul__program_work_of(&p->program, &p->program.operations[o->call]);
    bool found = haul__work_by_flops(w.work_class) || w.dtype == HAUL_F64 || strncmp(o->name, "haul_", 5) != 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        found = found || strstr(o->name, names[i]) != NULL;
    return found;
}

/* Simulated devices compute the CPU's values. */
static const char *computes_as(const haul_plan *p, int device)
{
    HAUL__ASSERT(0 <= device && device < haul__plan_device_count(p));
    return strncmp(p->request.names[device], "sim:", 4) ? p->request.names[device] : p->request.names[0];
}

const char *haul__plan_bits(const haul_plan *p, const haul__placement *placement)
{
    const haul__place_graph *g = &p->graph;
    const char              *bits = NULL;
    for (size_t i = 0; i < g->operation_count; i++) {
        if (!differs(p, &g->operations[i]))
            continue;
        const char *here = computes_as(p, placement->device[g->operations[i].group]);
        if (bits && strcmp(bits, here) != 0)
            return "";
        bits = here;
    }
    return bits ? bits : p->request.names[0];
}
