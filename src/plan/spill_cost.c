#include "plan/spill_cost.h"

#include "plan/calibrate.h"

void haul__spill_cost_of(const haul__fit_spill *spill, haul_device *device, haul__spill_cost *out)
{
    *out = (haul__spill_cost){.spill = *spill,
                              .seconds = (double)(spill->bytes + spill->back_bytes) / haul__measure_link(device)};
}

bool haul__spill_cost_find(const haul__training *t, const haul__fit_request *r, haul__spill_cost *out)
{
    haul__fit_result fit;
    haul_status      status = haul__fit_spilling(t, r, &fit);
    haul_error_clear();
    if (status)
        return false;
    haul__spill_cost_of(&fit.spill, t->device, out);
    haul__fit_free(&fit);
    return true;
}
