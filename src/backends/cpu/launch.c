/* Commands of the CPU, and its kernels: looked up in kernel_table.c, run by the thread pool over ranges of work items.
 *
 * They are there for one or more instruction levels; the best that the processor has is chosen once. The environment
 * variable HAUL_CPU_LEVEL=base forces the lowest; =v3 bounds others (tiles.c). */
#include <stdlib.h>
#include <string.h>

#include "backends/cpu/cpu.h"
#include "backends/cpu/kernels.h"
#include "backends/index_check.h"
#include "core/pool.h"
#include "kernels/kernels.h"

static pthread_once_t     once = PTHREAD_ONCE_INIT;
static haul__cpu_level_id chosen = HAUL__CPU_BASE;

static void choose(void)
{
    const char *wanted = getenv("HAUL_CPU_LEVEL");
    if (wanted && strcmp(wanted, "base") == 0)
        return;
#ifdef HAUL_HAVE_LEVEL_v3
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
        __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt"))
        chosen = HAUL__CPU_V3;
#endif
}

haul_status haul__cpu_check_level(void)
{
    const char *wanted = getenv("HAUL_CPU_LEVEL");
    if (!wanted || !*wanted || strcmp(wanted, "base") == 0 || strcmp(wanted, "v3") == 0)
        return HAUL_OK;
    return haul__fail(HAUL_INVALID_ARGUMENT, "haul_device_get", "name",
                      "the environment variable HAUL_CPU_LEVEL is \"%.40s\"; base or v3 is expected", wanted);
}

const char *haul__cpu_level(void)
{
    static const char *const names[] = {[HAUL__CPU_BASE] = "base", [HAUL__CPU_V3] = "x86-64-v3"};
    pthread_once(&once, choose);
    return names[chosen];
}

haul_status haul__cpu_compile(haul_device *device, const haul__unit *unit, haul__kernel *out)
{
    bool known = unit->dtype > 0 && unit->dtype < HAUL_DTYPE_END;
    pthread_once(&once, choose);
    if (unit->functions && known && unit->functions[unit->dtype]) {
        out->handle = (void *)(uintptr_t)&unit->functions[unit->dtype]; /* never written through */
        return HAUL_OK;
    }
    for (int i = 0; known && !unit->functions && i < haul__kernel_count; i++) {
        haul__cpu_fn *const *fn = &haul__cpu_kernels[i].fns[chosen][unit->dtype];
        if (!*fn || strcmp(haul__cpu_kernels[i].name, unit->kernel) != 0)
            continue;
        out->handle = (void *)(uintptr_t)fn; /* never written through */
        return HAUL_OK;
    }
    return haul__fail(HAUL_DTYPE, unit->kernel, NULL, "%s has no kernel for %s", device->name,
                      haul_dtype_name(unit->dtype));
}

typedef struct run {
    haul__cpu_fn *fn;
    const void   *params;
    void         *buffers[HAUL__MAX_BUFFERS];
} run;

static void run_range(void *context, int64_t first, int64_t last)
{
    const run *r = context;
    r->fn(r->buffers, r->params, first, last);
}

static inline void run_kernel(const haul__command *launch, uint32_t *record)
{
    haul__cpu_fn *const *fn = launch->kernel->handle;
    run                  r = {.fn = *fn, .params = launch->params};
    for (int i = 0; i < launch->buffer_count; i++)
        r.buffers[i] = launch->buffers[i].storage->buffer.host;
    if (record)
        r.buffers[launch->buffer_count] = record;
    if (launch->items <= launch->grain)
        r.fn(r.buffers, r.params, 0, launch->items);
    else
        haul__parallel_for(launch->items, launch->grain, run_range, &r);
}

/* Apart, so that other launches need no room for the record. */
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
