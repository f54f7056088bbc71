#include "support/devices/machine.h"

#include <ctype.h>
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <haul/haul.h>

#include "backends/implementation.h"
#include "haul_config.h"

static void append(char *out, size_t size, const char *format, ...) HAUL_PRINTF(3, 4);

static void append(char *out, size_t size, const char *format, ...)
{
    size_t  used = strlen(out);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(out + used, size - used, format, arguments);
    va_end(arguments);
}

/* The matrix tiles and oneDNN use AVX-512 where the processor has it; the library's level is that of its kernels. */
static const char *wide_vectors(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512cd"))
        return "-avx512";
#endif
    return "";
}

/* The properties' driver ends with "..., LEVEL instructions". */
static void append_level(char *out, size_t size)
{
    haul_device_properties p;
    const char            *bound = getenv("HAUL_CPU_LEVEL");
    if (haul_device_describe(haul_cpu(), &p))
        return;
    const char *level = strrchr(p.driver, ',');
    level = level ? level + 2 : p.driver;
    append(out, size, "%.*s%s%s%s", (int)strcspn(level, " "), level, wide_vectors(), bound ? "-at-most-" : "",
           bound ? bound : "");
}

static void append_onednn(char *out, size_t size)
{
#if defined(HAUL_HAVE_ONEDNN)
    typedef struct version {
        int major, minor, patch;
    } version; /* the beginning of dnnl_version's struct */
    bool  left_out = haul__implementation_left_out(HAUL__BY_onednn);
    void *library = left_out ? NULL : dlopen(HAUL_ONEDNN_SONAME, RTLD_NOW);
    void *address = library ? dlsym(library, "dnnl_version") : NULL;
    if (address) {
        const version *(*get)(void);
        memcpy(&get, &address, sizeof get);
        const version *v = get();
        append(out, size, "-onednn%d.%d.%d", v->major, v->minor, v->patch);
    }
    if (library)
        dlclose(library);
#else
    (void)out;
    (void)size;
#endif
}

/* Another implementation may round differently. */
static void append_exclusions(char *out, size_t size)
{
    for (int i = 0; i < HAUL__IMPLEMENTATIONS; i++)
        if (i != HAUL__BY_onednn && haul__implementation_left_out((haul__implementation_id)i))
            append(out, size, "-without-%s", haul__implementation_name((haul__implementation_id)i));
}

static bool is_other(const haul_device_report *found)
{
    return found->usable && strcmp(found->name, "cpu") != 0 && strncmp(found->name, "meta", 4) != 0;
}

/* Drivers of all usable devices, each once. */
static void append_drivers(char *out, size_t size)
{
    haul_device_report found[32];
    const char        *drivers[32];
    int                n = haul_device_list(found, 32), count = 0;
    for (int i = 0; i < n && i < 32; i++) {
        haul_device_properties p;
        bool                   known = false;
        if (!is_other(&found[i]) || haul_device_describe(haul_device_get(found[i].name), &p))
            continue;
        for (int k = 0; k < count; k++)
            known = known || strcmp(drivers[k], p.driver) == 0;
        if (known)
            continue;
        drivers[count++] = p.driver;
        append(out, size, "-%.60s", p.driver);
    }
}

void machine_key(char *out, size_t size)
{
    out[0] = '\0';
    append_level(out, size);
    append_onednn(out, size);
    append_exclusions(out, size);
    append_drivers(out, size);
    for (char *c = out; *c; c++)
        *c = isalnum((unsigned char)*c) || *c == '.' ? (char)tolower((unsigned char)*c) : '-';
}

static const char *c_library(char *out, size_t size)
{
    snprintf(out, size, "unknown");
#if defined(_CS_GNU_LIBC_VERSION)
    confstr(_CS_GNU_LIBC_VERSION, out, size);
#endif
    return out;
}

void machine_origin(char *out, size_t size)
{
    char                   library[64];
    haul_device_properties p = {.model = "unknown processor"};
    haul_device_describe(haul_cpu(), &p);
    const char *parts = strstr(HAUL_BUILD_OPTIONS, ", with:"); /* the rest says nothing about arithmetic */
    snprintf(out, size, "%s; %.*s; C library: %s", p.model,
             (int)(parts ? (size_t)(parts - HAUL_BUILD_OPTIONS) : strlen(HAUL_BUILD_OPTIONS)), HAUL_BUILD_OPTIONS,
             c_library(library, sizeof library));
}
