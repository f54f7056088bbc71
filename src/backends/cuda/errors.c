/* What the driver's error codes mean. */
#include <stdio.h>

#include "backends/cuda/cuda.h"
#include "core/error.h"

const char *haul__cuda_error_name(CUresult code)
{
    const char *name = NULL;

    if (haul__cu.GetErrorName && haul__cu.GetErrorName(code, &name) == CUDA_SUCCESS && name)
        return name;
    return "an unknown error";
}

/* What to do about it; "" where the name says all. */
static const char *advice(CUresult code)
{
    switch ((int)code) {
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_FAILED:
        return ": a kernel failed, and the GPU cannot be used any more by this process; resume from a checkpoint in a "
               "new one";
    case CUDA_ERROR_DEVICE_UNAVAILABLE: return ": the GPU is busy, in exclusive use by another process, or was lost";
    default: return "";
    }
}

haul_status haul__cuda_check(const haul_device *device, const char *call, CUresult code)
{
    if (code == CUDA_SUCCESS)
        return HAUL_OK;
    return haul__fail(code == CUDA_ERROR_OUT_OF_MEMORY ? HAUL_OUT_OF_MEMORY : HAUL_BACKEND, device->name, NULL,
                      "%s failed: %s (error %d)%s", call, haul__cuda_error_name(code), (int)code, advice(code));
}
