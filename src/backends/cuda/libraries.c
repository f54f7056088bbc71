/* Which of NVIDIA's libraries serve, in words. */
#include <stdio.h>

#include "backends/cuda/cublaslt.h"

void haul__cuda_libraries(haul_device *device, char *out, size_t size)
{
    char products[64];
    bool blas = haul__cublaslt_load(products, sizeof products), broken;

    pthread_mutex_lock(&haul__cuda_of(device)->blas_lock);
    broken = blas && haul__cuda_of(device)->blas && !haul__cuda_of(device)->blas->handle;
    pthread_mutex_unlock(&haul__cuda_of(device)->blas_lock);
    snprintf(out, size, "%s%s%s", products, broken ? " does not start" : "",
             blas && !broken ? "" : ": own kernels serve");
}
