/* Opening cuDNN. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cuda/cudnn.h"

#define LEAST_VERSION 90000

haul__cudnn_functions haul__cudnn;

static struct {
    pthread_once_t once;
    bool           usable;
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
#include "backends/cuda/cudnn.def"
#undef X
#undef FIND
    return true;
}

static void load_cudnn(void)
{
    void *library;

    if (haul__cuda_switched_off("cudnn")) {
        snprintf(cudnn.why, sizeof cudnn.why, "no cuDNN (switched off)");
        return;
    }
    library = haul__cuda_open_library((const char *const[]){"libcudnn.so.9", NULL});
    if (!library) {
        snprintf(cudnn.why, sizeof cudnn.why, "no cuDNN 9");
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

bool haul__cudnn_wants(const char *word)
{
    const char *list = getenv("HAUL_CUDNN");
    size_t      size = strlen(word);

    while (list && *list) {
        size_t length = strcspn(list, ", ");

        if (length == size && strncmp(list, word, size) == 0)
            return true;
        list += length + strspn(list + length, ", ");
    }
    return false;
}
