/* What the backend says in words: which of NVIDIA's libraries serve, and what memory is left. */
#include <stdio.h>

#include "backends/cuda/cublaslt/cublaslt.h"
#include "backends/cuda/cudnn/cudnn.h"

static void name_libraries(haul_device *device, char *out, size_t size)
{
    char products[64], convolutions[128];
    bool blas = haul__cublaslt_load(products, sizeof products), broken;
    pthread_mutex_lock(&haul__cuda_of(device)->blas_lock);
    broken = blas && haul__cuda_of(device)->blas && !haul__cuda_of(device)->blas->handle;
    pthread_mutex_unlock(&haul__cuda_of(device)->blas_lock);
    haul__cudnn_version_text(device, convolutions, sizeof convolutions);
    snprintf(out, size, "%s%s%s, %s", products, broken ? " does not start" : "",
             blas && !broken ? "" : ": own kernels serve", convolutions);
}

void haul__cuda_describe(haul_device *device, haul__description what, char *out, size_t size)
{
    if (what == HAUL__LIBRARIES)
        name_libraries(device, out, size);
    else if (what == HAUL__FREE_BYTES)
        haul__cuda_free_bytes(device, out, size);
    else
        haul__cuda_memory_left(device, out, size);
}
