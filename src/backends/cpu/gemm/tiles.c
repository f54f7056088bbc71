/* Chooses the innermost loops for this processor, and provides scratch memory for parallel tasks. */
#include "backends/cpu/gemm/tiles.h"

#include <sched.h>
#include <string.h>

#include "backends/cpu/conv2d/plane_copies.h"
#include "backends/cpu/conv2d/winograd.h"
#include "backends/cpu/gemm/halves.h"
#include "backends/cpu/gemm/panels.h"
#include "backends/cpu/level.h"
#include "base/assert.h"
#include "base/half.h"
#include "base/workspace.h"
#include "core/pool.h"
#include "haul_config.h"

/* Those of a level. */
typedef struct tiles_level {
    const haul__cpu_tiles        *f32;
    const haul__cpu_panels       *panels_f32;
    const haul__winograd_kernels *winograd;
#ifndef HAUL_SMALL
    const haul__cpu_tiles  *f64;
    const haul__cpu_panels *panels_f64;
    const haul__cpu_halves *f16, *bf16;
    const haul__cpu_pixels *pixels;
    const haul__cpu_planes *planes;
#endif
} tiles_level;

#ifndef HAUL_SMALL
#define OTHERS(name)                                                                                                   \
    , &haul__cpu_tiles_f64_##name, &haul__cpu_panels_f64_##name, &haul__cpu_halves_f16_##name,                         \
        &haul__cpu_halves_bf16_##name, &haul__cpu_pixels_f32_##name, &haul__cpu_planes_f32_##name
#else
#define OTHERS(name)
#endif
#define LEVEL(id, name)                                                                                                \
    [id] = {&haul__cpu_tiles_f32_##name, &haul__cpu_panels_f32_##name, &haul__cpu_winograd_f32_##name OTHERS(name)}

static const tiles_level levels[HAUL__CPU_LEVELS] = {
#ifdef HAUL_HAVE_LEVEL_v4
    LEVEL(HAUL__CPU_V4, v4),
#endif
#ifdef HAUL_HAVE_LEVEL_v3
    LEVEL(HAUL__CPU_V3, v3),
#endif
#ifdef HAUL_HAVE_LEVEL_base
    LEVEL(HAUL__CPU_BASE, base),
#endif
};

static const tiles_level *level(void)
{
    return &levels[haul__cpu_chosen_level()];
}

const haul__cpu_tiles *haul__cpu_tiles_for(haul_dtype dtype)
{
    if (dtype == HAUL_F32)
        return level()->f32;
#ifndef HAUL_SMALL
    if (dtype == HAUL_F64)
        return level()->f64;
#endif
    return NULL;
}

const haul__cpu_panels *haul__cpu_panels_for(haul_dtype dtype)
{
    if (dtype == HAUL_F32)
        return level()->panels_f32;
#ifndef HAUL_SMALL
    if (dtype == HAUL_F64)
        return level()->panels_f64;
#ifdef HAUL_HAVE_LEVEL_v4
    if (dtype == HAUL_BF16 && haul__cpu_has_bf16_tiles())
        return &haul__cpu_panels_amx_v4;
    if (dtype == HAUL_BF16 && haul__cpu_has_bf16_pairs())
        return &haul__cpu_panels_bf16_v4;
#endif
#endif
    return NULL;
}

const haul__winograd_kernels *haul__winograd_kernels_for_f32(void)
{
    return level()->winograd;
}

const haul__cpu_pixels *haul__cpu_pixels_for_f32(void)
{
#ifndef HAUL_SMALL
    return level()->pixels;
#else
    return NULL;
#endif
}

const haul__cpu_planes *haul__cpu_planes_for_f32(void)
{
#ifndef HAUL_SMALL
    return level()->planes;
#else
    return NULL;
#endif
}

const haul__cpu_halves *haul__cpu_halves_for(haul_dtype dtype)
{
#ifndef HAUL_SMALL
    if (haul__is_half(dtype))
        return dtype == HAUL_F16 ? level()->f16 : level()->bf16;
#endif
    (void)dtype;
    return NULL;
}

/* ---- scratch ---- */

void haul__cpu_scratch_lend(haul__cpu_scratch *scratch, void *memory, size_t bytes, size_t slots)
{
    HAUL__ASSERT(memory && slots > 0);
    scratch->memory = memory;
    scratch->bytes = bytes;
    atomic_init(&scratch->free, slots >= HAUL__CPU_MOST_SLOTS ? ~UINT64_C(0) : (UINT64_C(1) << slots) - 1);
}

bool haul__cpu_scratch_open(haul__cpu_scratch *scratch, size_t bytes, int64_t tasks)
{
    int threads = haul__pool_threads();
    int slots = threads < HAUL__CPU_MOST_SLOTS ? threads : HAUL__CPU_MOST_SLOTS;
    if (tasks < slots)
        slots = tasks > 0 ? (int)tasks : 1;
    HAUL__ASSERT(0 < slots && slots <= HAUL__CPU_MOST_SLOTS);
    bytes = (bytes + 63) & ~(size_t)63;
    scratch->block = bytes < (SIZE_MAX - 64) / 64 ? haul__work_alloc(bytes * (size_t)slots + 64) : NULL;
    if (!scratch->block)
        return false;
    haul__cpu_scratch_lend(scratch, (char *)(((uintptr_t)scratch->block + 63) & ~(uintptr_t)63), bytes, (size_t)slots);
    return true;
}

void haul__cpu_scratch_close(haul__cpu_scratch *scratch)
{
    haul__work_free(scratch->block);
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
        sched_yield(); /* there are more threads than when this began */
    }
}

void haul__cpu_scratch_give(haul__cpu_scratch *scratch, int slot)
{
    const uint64_t before = atomic_fetch_or(&scratch->free, UINT64_C(1) << slot);
    HAUL__ASSERT(!(before >> slot & 1)); /* it was taken */
}
