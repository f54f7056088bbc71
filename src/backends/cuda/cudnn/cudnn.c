/* Opening cuDNN. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cuda/cudnn/cudnn.h"

#define LEAST_VERSION 90000

haul__cudnn_functions haul__cudnn;

static haul__cuda_library cudnn = {.once = PTHREAD_ONCE_INIT};
static bool               autotunes, any_order; /* by HAUL_CUDNN */
static size_t             version;

#define X(name, symbol, arguments)       HAUL__CUDA_SYMBOL(haul__cudnn, name, symbol)
#define Y(type, name, symbol, arguments) HAUL__CUDA_SYMBOL(haul__cudnn, name, symbol)
static const haul__cuda_symbol functions[] = {
#include "backends/cuda/cudnn/cudnn.def"
};
#undef X

/* The library that is there instead of version 9. */
static void say_what_is_missing(void)
{
    void *old = haul__cuda_open_library((const char *const[]){"libcudnn.so.8", NULL});
    snprintf(cudnn.text, sizeof cudnn.text, old ? "no cuDNN 9 (version 8 is too old)" : "no cuDNN 9");
    if (old)
        dlclose(old);
}

static void load_cudnn(void)
{
    void       *library;
    const char *missing;
    autotunes = haul__cuda_names("HAUL_CUDNN", "autotune");
    any_order = haul__cuda_names("HAUL_CUDNN", "nondeterministic");
    if (haul__implementation_left_out(HAUL__BY_cudnn)) {
        snprintf(cudnn.text, sizeof cudnn.text, "no cuDNN (HAUL_WITHOUT names it)");
        return;
    }
    library = haul__cuda_open_library((const char *const[]){"libcudnn.so.9", NULL});
    if (!library) {
        say_what_is_missing();
        return;
    }
    missing = HAUL__CUDA_FIND(library, functions);
    if (missing) {
        snprintf(cudnn.text, sizeof cudnn.text, "no cuDNN (the one found is too old: it has no %s)", missing);
        return;
    }
    version = haul__cudnn.GetVersion();
    if (version < LEAST_VERSION) {
        snprintf(cudnn.text, sizeof cudnn.text, "no cuDNN (version %zu is too old)", version);
        return;
    }
    cudnn.usable = true;
}

bool haul__cuda_load_cudnn(char *why, size_t why_size)
{
    return haul__cuda_load(&cudnn, load_cudnn, why, why_size);
}

size_t haul__cudnn_version(void)
{
    return version;
}

bool haul__cudnn_autotunes(void)
{
    haul__cuda_load_cudnn(NULL, 0);
    return autotunes;
}

bool haul__cudnn_any_order(void)
{
    haul__cuda_load_cudnn(NULL, 0);
    return any_order;
}
