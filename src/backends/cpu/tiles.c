/* Which register tiles this processor runs, and scratch memory for those who use them in parallel. */
#include "backends/cpu/tiles.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cpu/halves.h"
#include "core/alloc.h"
#include "core/pool.h"

static pthread_once_t         once = PTHREAD_ONCE_INIT;
static const haul__cpu_tiles *f32 = &haul__cpu_tiles_f32_base, *f64 = &haul__cpu_tiles_f64_base;

static const haul__cpu_halves *f16 = &haul__cpu_halves_f16_base, *bf16 = &haul__cpu_halves_bf16_base;

static bool has_v3(void)
{
#ifdef HAUL_HAVE_LEVEL_v3
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
           __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt");
#else
    return false;
#endif
}

static bool has_v4(void)
{
#ifdef HAUL_HAVE_LEVEL_v4
    return has_v3() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
#else
    return false;
#endif
}

/* HAUL_CPU_LEVEL, base or v3, keeps to instructions of that level. */
static void choose(void)
{
    const char *most = getenv("HAUL_CPU_LEVEL");
    if (!most)
        most = "";
#ifdef HAUL_HAVE_LEVEL_v3
    if (has_v3() && strcmp(most, "base") != 0) {
        f32 = &haul__cpu_tiles_f32_v3;
        f64 = &haul__cpu_tiles_f64_v3;
        f16 = &haul__cpu_halves_f16_v3;
        bf16 = &haul__cpu_halves_bf16_v3;
    }
#endif
#ifdef HAUL_HAVE_LEVEL_v4
    if (has_v4() && strcmp(most, "base") != 0 && strcmp(most, "v3") != 0) {
        f32 = &haul__cpu_tiles_f32_v4;
        f64 = &haul__cpu_tiles_f64_v4;
        f16 = &haul__cpu_halves_f16_v4;
        bf16 = &haul__cpu_halves_bf16_v4;
    }
#endif
    (void)has_v3;
    (void)has_v4;
}

const haul__cpu_tiles *haul__cpu_tiles_for(haul_dtype dtype)
{
    pthread_once(&once, choose);
    return dtype == HAUL_F32 ? f32 : dtype == HAUL_F64 ? f64 : NULL;
}

const haul__cpu_halves *haul__cpu_halves_for(haul_dtype dtype)
{
    pthread_once(&once, choose);
    return dtype == HAUL_F16 ? f16 : dtype == HAUL_BF16 ? bf16 : NULL;
}

/* ---- scratch ---- */

bool haul__cpu_scratch_open(haul__cpu_scratch *scratch, size_t bytes, int64_t tasks)
{
    int threads = haul__pool_threads();
    int slots = threads < 64 ? threads : 64;
    if (tasks < slots)
        slots = tasks > 0 ? (int)tasks : 1;
    scratch->bytes = (bytes + 63) & ~(size_t)63;
    scratch->block = scratch->bytes < (SIZE_MAX - 64) / 64 ? haul__malloc(scratch->bytes * (size_t)slots + 64) : NULL;
    if (!scratch->block)
        return false;
    scratch->memory = (char *)(((uintptr_t)scratch->block + 63) & ~(uintptr_t)63);
    atomic_init(&scratch->free, slots == 64 ? ~UINT64_C(0) : (UINT64_C(1) << slots) - 1);
    return true;
}

void haul__cpu_scratch_close(haul__cpu_scratch *scratch)
{
    haul__free(scratch->block);
}

void *haul__cpu_scratch_take(haul__cpu_scratch *scratch, int *slot)
{
    for (;;) {
        uint64_t free = atomic_load(&scratch->free);
        while (free) {
            *slot = __builtin_ctzll(free);
            if (atomic_compare_exchange_weak(&scratch->free, &free, free & (free - 1)))
                return scratch->memory + (size_t)*slot * scratch->bytes;
        }
        sched_yield(); /* more threads than there were when this began */
    }
}

void haul__cpu_scratch_give(haul__cpu_scratch *scratch, int slot)
{
    atomic_fetch_or(&scratch->free, UINT64_C(1) << slot);
}
