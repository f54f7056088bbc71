#include "engine/price.h"

#include "backends/sim/sim.h"
#include "base/assert.h"
#include "base/system/clock.h"

static haul_dtype dtype_of(const haul__call *c)
{
    haul_dtype found = HAUL_DTYPE_NONE;
    for (int i = 0; i < c->count; i++)
        if (!haul__is_none(c->operands[i]))
            found = haul__work_dtype(found, c->operands[i]->dtype);
    for (int i = 0; i < c->result_count; i++)
        if (c->results[i])
            found = haul__work_dtype(found, c->results[i]->dtype);
    return found;
}

static int64_t weights_of(const haul__call *c)
{
    const int at = haul__work_weight(c->operation->name, c->count);
    HAUL__ASSERT(at < c->count + c->result_count);
    const haul_tensor *t = at < 0 ? NULL : at < c->count ? c->operands[at] : c->results[at - c->count];
    return t && !haul__is_none(t) ? (int64_t)haul_tensor_bytes(t) : 0;
}

static bool is_batched(const haul__call *c)
{
    bool all = c->count > 1;
    for (int i = 0; all && i < 2; i++)
        all = !haul__is_none(c->operands[i]) && c->operands[i]->shape.ndim > 2;
    return all;
}

static bool is_scattered(const haul__call *c)
{
    return c->count && !haul__is_none(c->operands[0]) && !c->operands[0]->contiguous;
}

haul__machine_work haul__price_work(const haul__call *c)
{
    const haul__cost cost = haul__cost_of(c);
    return (haul__machine_work){.operation = c->operation->name,
                                .work_class = haul__work_class_of(c->operation->name),
                                .dtype = dtype_of(c),
                                .flops = cost.flops,
                                .bytes = cost.bytes,
                                .weights = weights_of(c),
                                .batched = is_batched(c),
                                .scattered = is_scattered(c)};
}

bool haul__price_begin(const haul__call *c)
{
    int                  number;
    const haul__machine *m = haul__sim_machine(c->device, &number);
    if (!m || haul__is_dry() || c->operation->any_device || haul__sim_within_operation())
        return false;
    const haul__machine_work work = haul__price_work(c);
    haul__sim_operation_begin(haul__machine_time(m, number, &work));
    return true;
}

void haul__price_end(void)
{
    haul__sim_operation_end();
}
