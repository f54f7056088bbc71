#include "engine/price.h"

#include "backends/sim/sim.h"
#include "base/system/clock.h"

/* The dtype by which a machine lists rates: that of the first result or, where there is none, of the first operand. */
static haul_dtype dtype_of(const haul__call *c)
{
    if (c->result_count > 0 && c->results[0])
        return c->results[0]->dtype;
    return c->count > 0 && haul__is_tensor(c->operands[0]) ? c->operands[0]->dtype : HAUL_DTYPE_NONE;
}

bool haul__price_begin(const haul__call *c)
{
    int                  number;
    const haul__machine *m = haul__sim_machine(c->device, &number);
    if (!m || haul__is_dry() || c->operation->any_device || haul__sim_within_operation())
        return false;
    const haul__cost         cost = haul__cost_of(c);
    const haul__machine_work work = {.work_class = haul__work_class_of(c->operation->name),
                                     .dtype = dtype_of(c),
                                     .flops = cost.flops,
                                     .bytes = cost.bytes};
    haul__sim_operation_begin(haul__machine_time(m, number, &work));
    return true;
}

void haul__price_end(void)
{
    haul__sim_operation_end();
}
