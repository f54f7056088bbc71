/* CPU commands and kernels. Kernels are looked up in kernel_table.c and run by the thread pool over ranges of work
 * items.
 *
 * There is one set of kernels for each instruction level; the best one (level.c) is chosen once. */
#include <string.h>

#include "backends/cpu/cpu.h"
#include "backends/cpu/kernels.h"
#include "backends/function.h"
#include "backends/index_check.h"
#include "base/assert.h"
#include "haul_config.h"
#include "kernels/kernels.h"

const char *haul__cpu_level(void)
{
    static const char *const names[] = {
        [HAUL__CPU_BASE] = "base", [HAUL__CPU_V3] = "x86-64-v3", [HAUL__CPU_V4] = "x86-64-v4"};
    return names[haul__cpu_chosen_level()];
}

bool haul__cpu_has(haul_dtype dtype)
{
#if defined(HAUL_SMALL)
    return dtype != HAUL_F16 && dtype != HAUL_BF16 && dtype != HAUL_F64;
#else
    (void)dtype;
    return true;
#endif
}

haul_status haul__cpu_compile(haul_device *device, const haul__unit *unit, haul__kernel *out)
{
    bool known = unit->dtype > 0 && unit->dtype < HAUL_DTYPE_END;
    if (unit->functions && known && unit->functions[unit->dtype]) {
        out->function = unit->functions[unit->dtype];
        return HAUL_OK;
    }
    for (int i = 0; known && !unit->functions && i < haul__kernel_count; i++) {
        haul__cpu_fn *function = haul__cpu_kernels[i].fns[haul__cpu_chosen_level()][unit->dtype];
        if (!function || strcmp(haul__cpu_kernels[i].name, unit->kernel) != 0)
            continue;
        out->function = function;
        return HAUL_OK;
    }
    if (!haul__cpu_has(unit->dtype))
        return haul__fail(HAUL_UNSUPPORTED, unit->kernel, NULL,
                          "%s is not in this build (HAUL_SMALL=ON); use f32, or a build without HAUL_SMALL",
                          haul_dtype_name(unit->dtype));
    return haul__fail(HAUL_DTYPE, unit->kernel, NULL, "%s has no kernel for %s", device->name,
                      haul_dtype_name(unit->dtype));
}

static inline void run_kernel(const haul__command *launch, uint32_t *record)
{
    HAUL__ASSERT(launch->buffer_count + (record != NULL) <= HAUL__MAX_BUFFERS && launch->kernel->function);
    void *buffers[HAUL__MAX_BUFFERS];
    for (int i = 0; i < launch->buffer_count; i++)
        buffers[i] = launch->buffers[i].storage->buffer.host;
    if (record)
        buffers[launch->buffer_count] = record;
    haul__function_run(launch->kernel->function, buffers, launch->params, launch->items, launch->grain);
}

/* A separate function, so that other launches need no stack for the record. */
__attribute__((noinline)) static haul_status check_indices(const haul__command *launch)
{
    uint32_t record[FAULT_WORDS] = {0};
    run_kernel(launch, record);
    return haul__index_noted(record) ? haul__index_fail(record) : HAUL_OK;
}

static haul_status launch_kernel(haul__stream *s, const haul__command *launch)
{
    (void)s;
    if (launch->checks)
        return check_indices(launch);
    run_kernel(launch, NULL);
    return HAUL_OK;
}

haul_status haul__cpu_submit(haul__stream *s, const haul__command *c)
{
    static haul__command_fn *const functions[HAUL__COMMAND_CALLBACK] = {
        [HAUL__COMMAND_LAUNCH] = launch_kernel,  [HAUL__COMMAND_COPY] = haul__cpu_copy,
        [HAUL__COMMAND_WRITE] = haul__cpu_write, [HAUL__COMMAND_READ] = haul__cpu_read,
        [HAUL__COMMAND_FILL] = haul__cpu_fill,
    };
    return c->kind == HAUL__COMMAND_LAUNCH ? launch_kernel(s, c) : haul__command_run(functions, s, c);
}
