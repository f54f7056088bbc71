/* Kernels of the CPU: looked up in the tables of kernels/unit.c, run by the thread pool over ranges of work items.
 *
 * The tables exist for one or more instruction levels; the best that the processor has is chosen once. The environment
 * variable HAUL_CPU_LEVEL=base forces the lowest. */
#include <stdlib.h>
#include <string.h>

#include "backends/cpu/cpu.h"
#include "backends/cpu/kernels.h"
#include "core/pool.h"
#include "kernels/kernels.h"

/* The kernels of one level, by dtype. */
typedef struct level {
    const char             *name;
    const haul__cpu_kernel *tables[HAUL_DTYPE_END];
} level;

/* The dtypes that CPU kernels are compiled for (cmake/haul_kernels.cmake). */
#define TABLES(level_name)                                                                                             \
    {                                                                                                                  \
        [HAUL_BOOL] = HAUL__CPU_TABLE_(bool, level_name), [HAUL_U8] = HAUL__CPU_TABLE_(u8, level_name),                \
        [HAUL_I8] = HAUL__CPU_TABLE_(i8, level_name), [HAUL_I16] = HAUL__CPU_TABLE_(i16, level_name),                  \
        [HAUL_I32] = HAUL__CPU_TABLE_(i32, level_name), [HAUL_I64] = HAUL__CPU_TABLE_(i64, level_name),                \
        [HAUL_F16] = HAUL__CPU_TABLE_(f16, level_name), [HAUL_BF16] = HAUL__CPU_TABLE_(bf16, level_name),              \
        [HAUL_F32] = HAUL__CPU_TABLE_(f32, level_name), [HAUL_F64] = HAUL__CPU_TABLE_(f64, level_name)                 \
    }

static const level base = {"base", TABLES(base)};
#ifdef HAUL_HAVE_LEVEL_v3
static const level v3 = {"x86-64-v3", TABLES(v3)};
#endif

static pthread_once_t once = PTHREAD_ONCE_INIT;
static const level   *chosen = &base;

static void choose(void)
{
    const char *wanted = getenv("HAUL_CPU_LEVEL");
    if (wanted && strcmp(wanted, "base") == 0)
        return;
#ifdef HAUL_HAVE_LEVEL_v3
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
        __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt"))
        chosen = &v3;
#endif
}

const char *haul__cpu_level(void)
{
    pthread_once(&once, choose);
    return chosen->name;
}

haul_status haul__cpu_compile(haul_device *device, const haul__unit *unit, haul__kernel *out)
{
    pthread_once(&once, choose);
    const haul__cpu_kernel *table =
        unit->dtype > 0 && unit->dtype < HAUL_DTYPE_END ? chosen->tables[unit->dtype] : NULL;
    for (int i = 0; table && i < haul__kernel_count; i++) {
        if (!table[i].fn || strcmp(table[i].name, unit->kernel) != 0)
            continue;
        out->handle = (void *)(uintptr_t)&table[i]; /* never written through */
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

haul_status haul__cpu_launch(haul__stream *s, const haul__command *launch)
{
    const haul__cpu_kernel *kernel = launch->kernel->handle;
    run                     r = {.fn = kernel->fn, .params = launch->params};
    (void)s;
    for (int i = 0; i < launch->buffer_count; i++)
        r.buffers[i] = launch->buffers[i].storage->buffer.host;
    if (launch->items <= launch->grain)
        r.fn(r.buffers, r.params, 0, launch->items);
    else
        haul__parallel_for(launch->items, launch->grain, run_range, &r);
    return HAUL_OK;
}
