/* Errors for what a dry run cannot do, and for tensors that one made. */
#include "core/trial.h"
#include "device/device.h"

haul_status haul__refuse_dry(const char *operation)
{
    if (!haul__is_dry())
        return haul__refuse_followed(operation, "reads");
    return haul__fail(HAUL_STATE, operation, NULL,
                      "a dry run (haul_estimate) computes no values to read; read it outside the "
                      "estimated function");
}

haul_status haul__refuse_planned(const haul__storage *storage, const char *operation)
{
    if (!storage->planned)
        return HAUL_OK;
    return haul__fail(
        HAUL_STATE, operation, NULL,
        "a tensor was made in a dry run (haul_estimate) and has no data; make it again outside the estimated function");
}
