/* Opens cuBLASLt and explains its error codes. */
#include "backends/cuda/cublaslt/cublaslt.h"

#include <stdio.h>

#include "core/error.h"

haul__cublaslt_functions haul__lt;

/* Its text is "cuBLASLt 13.1.0", or the reason why it is not used. */
static haul__cuda_library lt = {.once = PTHREAD_ONCE_INIT};

#define X(name, symbol, arguments) HAUL__CUDA_SYMBOL(haul__lt, name, symbol)
static const haul__cuda_symbol functions[] = {
#include "backends/cuda/cublaslt/cublaslt.def"
    X(GetVersion, cublasLtGetVersion, (void)) X(GetStatusName, cublasLtGetStatusName, (cublasStatus_t))};
#undef X

/* The libraries of a major version need a driver of at least that version. */
static void load(void)
{
    static const char *const of_13[] = {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so", NULL};
    static const char *const of_12[] = {"libcublasLt.so.12", "libcublasLt.so", NULL};
    void                    *library;
    size_t                   version;
    snprintf(lt.text, sizeof lt.text, "no cuBLASLt");
    if (haul__implementation_left_out(HAUL__BY_cublaslt)) {
        snprintf(lt.text, sizeof lt.text, "no cuBLASLt (HAUL_WITHOUT names it)");
        return;
    }
    library = haul__cuda_open_library(haul__cuda_driver_version() >= 13000 ? of_13 : of_12);
    if (!library)
        return;
    if (HAUL__CUDA_FIND(library, functions)) {
        snprintf(lt.text, sizeof lt.text, "no cuBLASLt (the one found is too old)");
        return;
    }
    version = haul__lt.GetVersion();
    lt.usable = version >= 120000;
    snprintf(lt.text, sizeof lt.text,
             lt.usable ? "cuBLASLt %zu.%zu.%zu" : "no cuBLASLt (version %zu.%zu.%zu is too old)", version / 10000,
             version / 100 % 100, version % 100);
}

bool haul__cublaslt_load(char *why, size_t why_size)
{
    return haul__cuda_load(&lt, load, why, why_size);
}

haul_status haul__cublaslt_check(const haul_device *device, const char *call, cublasStatus_t code)
{
    const char *name = code == CUBLAS_STATUS_SUCCESS ? NULL : haul__lt.GetStatusName(code);
    if (code == CUBLAS_STATUS_SUCCESS)
        return HAUL_OK;
    return haul__fail(code == CUBLAS_STATUS_ALLOC_FAILED ? HAUL_OUT_OF_MEMORY : HAUL_BACKEND, device->name, NULL,
                      "%s failed: %s (status %d); with HAUL_WITHOUT=cublaslt Haul uses kernels of its own", call,
                      name ? name : "an unknown status", (int)code);
}
