/* Opening cuDNN. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cuda/cudnn/cudnn.h"

#define LEAST_VERSION 90000

haul__cudnn_functions haul__cudnn;

static struct {
    pthread_once_t once;
    bool           usable, autotunes, any_order;
    size_t         version;
    char           why[256];
} cudnn = {.once = PTHREAD_ONCE_INIT};

static bool find_functions(void *library)
{
#define FIND(name, symbol)                                                                                             \
    if (!(*(void **)&haul__cudnn.name = dlsym(library, #symbol))) {                                                    \
        snprintf(cudnn.why, sizeof cudnn.why, "no cuDNN (the one found is too old: it has no %s)", #symbol);           \
        return false;                                                                                                  \
    }
#define X(name, symbol, arguments)       FIND(name, symbol)
#define Y(type, name, symbol, arguments) FIND(name, symbol)
#include "backends/cuda/cudnn/cudnn.def"
#undef X
#undef FIND
    return true;
}

/* The library that is there instead of version 9. */
static void say_what_is_missing(void)
{
    void *old = haul__cuda_open_library((const char *const[]){"libcudnn.so.8", NULL});
    snprintf(cudnn.why, sizeof cudnn.why, old ? "no cuDNN 9 (version 8 is too old)" : "no cuDNN 9");
    if (old)
        dlclose(old);
}

static void load_cudnn(void)
{
    void *library;
    cudnn.autotunes = haul__cuda_names("HAUL_CUDNN", "autotune");
    cudnn.any_order = haul__cuda_names("HAUL_CUDNN", "nondeterministic");
    if (haul__implementation_left_out(HAUL__BY_cudnn)) {
        snprintf(cudnn.why, sizeof cudnn.why, "no cuDNN (HAUL_WITHOUT names it)");
        return;
    }
    library = haul__cuda_open_library((const char *const[]){"libcudnn.so.9", NULL});
    if (!library) {
        say_what_is_missing();
        return;
    }
    if (!find_functions(library))
        return;
    cudnn.version = haul__cudnn.GetVersion();
    if (cudnn.version < LEAST_VERSION) {
        snprintf(cudnn.why, sizeof cudnn.why, "no cuDNN (version %zu is too old)", cudnn.version);
        return;
    }
    cudnn.usable = true;
}

bool haul__cuda_load_cudnn(char *why, size_t why_size)
{
    pthread_once(&cudnn.once, load_cudnn);
    if (!cudnn.usable)
        snprintf(why, why_size, "%s", cudnn.why);
    return cudnn.usable;
}

size_t haul__cudnn_version(void)
{
    return cudnn.version;
}

bool haul__cudnn_autotunes(void)
{
    pthread_once(&cudnn.once, load_cudnn);
    return cudnn.autotunes;
}

bool haul__cudnn_any_order(void)
{
    pthread_once(&cudnn.once, load_cudnn);
    return cudnn.any_order;
}
