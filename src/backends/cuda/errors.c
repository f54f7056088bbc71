/* The meaning of the driver's error codes. */
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

/* Errors that destroy the context: every later call returns them again. */
static bool is_final(CUresult code)
{
    static const int final[] = {
        CUDA_ERROR_ECC_UNCORRECTABLE,
        CUDA_ERROR_NVLINK_UNCORRECTABLE,
        CUDA_ERROR_ILLEGAL_ADDRESS,
        CUDA_ERROR_LAUNCH_TIMEOUT,
        CUDA_ERROR_CONTEXT_IS_DESTROYED,
        CUDA_ERROR_ASSERT,
        CUDA_ERROR_HARDWARE_STACK_ERROR,
        CUDA_ERROR_ILLEGAL_INSTRUCTION,
        CUDA_ERROR_MISALIGNED_ADDRESS,
        CUDA_ERROR_INVALID_ADDRESS_SPACE,
        CUDA_ERROR_INVALID_PC,
        CUDA_ERROR_LAUNCH_FAILED,
        CUDA_ERROR_MPS_CLIENT_TERMINATED,
        CUDA_ERROR_EXTERNAL_DEVICE,
        226 /* CUDA_ERROR_CONTAINED */,
        721 /* CUDA_ERROR_TENSOR_MEMORY_LEAK; both are newer than the first headers of CUDA 12 */,
    };
    for (size_t i = 0; i < sizeof final / sizeof final[0]; i++)
        if ((int)code == final[i])
            return true;
    return false;
}

/* What the user can do; "" if the name is enough. */
static const char *advice(CUresult code)
{
    if (is_final(code))
        return ": earlier work failed on the GPU, which this process cannot use any more; resume from a checkpoint in "
               "a new one";
    if (code == CUDA_ERROR_DEVICE_UNAVAILABLE)
        return ": another process uses the GPU exclusively, or it was lost";
    return "";
}

haul_status haul__cuda_check(haul_device *device, const char *call, CUresult code)
{
    haul_status status = code == CUDA_ERROR_OUT_OF_MEMORY ? HAUL_OUT_OF_MEMORY : HAUL_BACKEND;
    if (code == CUDA_SUCCESS)
        return HAUL_OK;
    haul__fail(status, device->name, NULL, "%s failed: %s (error %d)%s", call, haul__cuda_error_name(code), (int)code,
               advice(code));
    if (is_final(code))
        haul__device_lose(device, status);
    return status;
}
