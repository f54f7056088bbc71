/* The CPU as a device: the host's own memory, and kernels that were compiled with the library. */
#include "backends/cpu/cpu.h"

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/system/cores.h"
#include "core/pool.h"
#include "haul_config.h"

static int cpu_count(char *why, size_t why_size)
{
    (void)why;
    (void)why_size;
    return 1;
}

/* The first "model name" of /proc/cpuinfo; where there is none, the machine's architecture. */
static void find_model(char *out, size_t size)
{
    struct utsname system;
    char           line[256];
    FILE          *file = fopen("/proc/cpuinfo", "re");
    snprintf(out, size, "%s", uname(&system) == 0 ? system.machine : "CPU");
    while (file && fgets(line, sizeof line, file)) {
        char *value = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !value)
            continue;
        value += 1 + strspn(value + 1, " \t");
        value[strcspn(value, "\n")] = '\0';
        snprintf(out, size, "%s", value);
        break;
    }
    if (file)
        fclose(file);
}

static haul_status cpu_open(haul_device *device, int index)
{
    struct utsname system;
    long           pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    haul_status    status = haul__cpu_check_level();
    (void)index;
    if (!status)
        status = haul__pool_check_environment("haul_device_get");
    if (status)
        return status;
    device->properties.kind = HAUL_KIND_CPU;
    device->properties.compute_units = haul__core_count();
    device->properties.memory_bytes = pages > 0 && page > 0 ? (int64_t)pages * page : 0;
    device->properties.shares_host_memory = true;
    device->properties.has_f64 = true;
    find_model(device->model, sizeof device->model);
    bool known = uname(&system) == 0;
    snprintf(device->driver, sizeof device->driver, "%.40s %.40s, %s instructions", known ? system.sysname : "unknown",
             known ? system.release : "system", haul__cpu_level());
    return HAUL_OK;
}

bool haul__cpu_is_host(const haul_device *device)
{
    return device->backend == &haul__backend_cpu;
}

/* The fastest first; for some shapes conv2d/choice.c finds that the next one is faster. */
const haul__implementation haul__cpu_implementations[] = {
    {HAUL__PROBLEM_GEMM, HAUL__BY_tiles, .refuses = haul__cpu_gemm_refuses, .scratch = haul__cpu_gemm_scratch,
     .run = haul__cpu_gemm, .takes_inner = true},
    {HAUL__PROBLEM_CONV2D, HAUL__BY_winograd, .refuses = haul__cpu_winograd_refuses,
     .scratch = haul__cpu_winograd_scratch, .run = haul__cpu_winograd},
    {HAUL__PROBLEM_CONV2D, HAUL__BY_products, .refuses = haul__cpu_conv2d_products_refuse,
     .run = haul__cpu_conv2d_products},
#ifndef HAUL_SMALL
    {HAUL__PROBLEM_CONV2D, HAUL__BY_depthwise, .refuses = haul__cpu_conv2d_depthwise_refuses,
     .run = haul__cpu_conv2d_depthwise},
    {HAUL__PROBLEM_CONV2D, HAUL__BY_onednn, .refuses = haul__cpu_onednn_refuses,
     .is_slower = haul__cpu_conv2d_onednn_is_slower, .run = haul__cpu_onednn},
    {HAUL__PROBLEM_CONV2D, HAUL__BY_panels, .refuses = haul__cpu_conv2d_panels_refuse,
     .is_slower = haul__cpu_conv2d_panels_are_slower, .run = haul__cpu_conv2d_panels},
    {HAUL__PROBLEM_CONV2D, HAUL__BY_pixels, .refuses = haul__cpu_conv2d_pixels_refuse, .run = haul__cpu_conv2d_pixels},
    {HAUL__PROBLEM_SPECTRUM, HAUL__BY_lapack, .refuses = haul__cpu_lapack_refuses, .run = haul__cpu_lapack},
#endif
    {HAUL__PROBLEM_CONV2D, HAUL__BY_direct, .refuses = haul__cpu_conv2d_direct_refuses, .run = haul__cpu_conv2d_direct},
    {.refuses = NULL},
};

const haul__backend haul__backend_cpu = {
    .size = sizeof(haul__backend),
    .name = "cpu",
    .count = cpu_count,
    .open = cpu_open,
    .alloc = haul__cpu_alloc,
    .free = haul__cpu_free,
    .submit = haul__cpu_submit,
    .compile = haul__cpu_compile,
    .describe = haul__cpu_describe,
    .implementations = haul__cpu_implementations,
    .synchronous = true,
    .dlpack = 1,
    .host_memory = true,
    .only_one = true,
    .precompiled = true,
};
