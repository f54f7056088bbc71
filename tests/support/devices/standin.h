/* The stand-ins for NVIDIA's driver and libraries (tests/standin), as tests ask them. */
#ifndef HAUL_TESTS_SUPPORT_STANDIN_H
#define HAUL_TESTS_SUPPORT_STANDIN_H

#include <dlfcn.h>
#include <haul/haul.h>
#include <stdio.h>
#include <unistd.h>

#define STANDIN HAUL_BUILD "/tests/standin"

/* A function of one of them, which is the library that the backend opens; ends the process where there is none. */
static inline void *symbol_of(const char *library, const char *name)
{
    char  path[1024];
    void *opened, *symbol;
    snprintf(path, sizeof path, "%s/%s", STANDIN, library);
    opened = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    symbol = opened ? dlsym(opened, name) : NULL;
    if (!symbol) {
        printf("%s\n", dlerror());
        _exit(1);
    }
    return symbol;
}

static inline haul_device *gpu(void)
{
    return haul_device_get("cuda:0");
}

#endif
