/* Which instruction levels there are: those that the build compiled (HAUL_CPU_LEVELS), as far as the processor runs
 * them. The environment variable HAUL_CPU_LEVEL=base, v3 or v4 leaves those above it out. */
#include "backends/cpu/level.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "backends/cpu/processor.h"
#include "base/assert.h"
#include "core/error.h"

#define IN_BUILD_base 0
#define IN_BUILD_v3   0
#define IN_BUILD_v4   0
#ifdef HAUL_HAVE_LEVEL_base
#undef IN_BUILD_base
#define IN_BUILD_base 1
#endif
#ifdef HAUL_HAVE_LEVEL_v3
#undef IN_BUILD_v3
#define IN_BUILD_v3 1
#endif
#ifdef HAUL_HAVE_LEVEL_v4
#undef IN_BUILD_v4
#define IN_BUILD_v4 1
#endif

static bool any(void)
{
    return true;
}

#if !defined(__x86_64__)
#define has_v3 any
#define has_v4 any
#endif

static const struct {
    const char *name;
    bool        in_build;
    bool (*processor_runs)(void);
} levels[HAUL__CPU_LEVELS] = {
    [HAUL__CPU_BASE] = {"base", IN_BUILD_base, any},
    [HAUL__CPU_V3] = {"v3", IN_BUILD_v3, has_v3},
    [HAUL__CPU_V4] = {"v4", IN_BUILD_v4, has_v4},
};

/* The level of $HAUL_CPU_LEVEL; the highest without it, HAUL__CPU_LEVELS if it is none. */
static int bound(const char *wanted)
{
    if (!wanted || !*wanted)
        return HAUL__CPU_LEVELS - 1;
    for (int i = 0; i < HAUL__CPU_LEVELS; i++)
        if (strcmp(levels[i].name, wanted) == 0)
            return i;
    return HAUL__CPU_LEVELS;
}

haul__cpu_level_id haul__cpu_allowed_level(void)
{
    return (haul__cpu_level_id)bound(getenv("HAUL_CPU_LEVEL"));
}

bool haul__cpu_runs(haul__cpu_level_id level)
{
    HAUL__ASSERT(level < HAUL__CPU_LEVELS);
    return levels[level].in_build && level <= haul__cpu_allowed_level() && levels[level].processor_runs();
}

/* HAUL__CPU_LEVELS if there is none. */
static haul__cpu_level_id best_level(void)
{
    for (int i = HAUL__CPU_LEVELS - 1; i >= 0; i--)
        if (haul__cpu_runs((haul__cpu_level_id)i))
            return (haul__cpu_level_id)i;
    return HAUL__CPU_LEVELS;
}

static pthread_once_t     once = PTHREAD_ONCE_INIT;
static haul__cpu_level_id chosen;

static void choose(void)
{
    const haul__cpu_level_id best = best_level();
    chosen = best == HAUL__CPU_LEVELS ? HAUL__CPU_BASE : best;
}

haul__cpu_level_id haul__cpu_chosen_level(void)
{
    pthread_once(&once, choose);
    return chosen;
}

bool haul__cpu_has_bf16_pairs(void)
{
#if defined(__x86_64__)
    return haul__cpu_chosen_level() == HAUL__CPU_V4 && __builtin_cpu_supports("avx512bf16");
#else
    return false;
#endif
}

#if defined(__x86_64__) && defined(__linux__)
/* Threads have no memory for the contents of tiles before their process asks for it: Linux, Documentation/arch/x86/
 * xstate.rst. */
#define REQUEST_PERMISSION 0x1023 /* ARCH_REQ_XCOMP_PERM */
#define TILE_DATA          18     /* XFEATURE_XTILEDATA */

/* Bits of cpuid's leaf 7, EDX: Intel 64 and IA-32 Architectures Software Developer's Manual, CPUID. */
#define AMX_BF16 (1u << 22)
#define AMX_TILE (1u << 24)

static pthread_once_t tiles_once = PTHREAD_ONCE_INIT;
static bool           has_tiles;

static void ask_for_tiles(void)
{
    unsigned eax, ebx, ecx, edx;
    has_tiles = haul__cpu_has_bf16_pairs() && __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) && (edx & AMX_BF16) &&
                (edx & AMX_TILE) && !syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA);
}

bool haul__cpu_has_bf16_tiles(void)
{
    pthread_once(&tiles_once, ask_for_tiles);
    return has_tiles;
}
#else
bool haul__cpu_has_bf16_tiles(void)
{
    return false;
}
#endif

haul_status haul__cpu_check_level(void)
{
    const char *wanted = getenv("HAUL_CPU_LEVEL");
    if (bound(wanted) == HAUL__CPU_LEVELS)
        return haul__fail(HAUL_INVALID_ARGUMENT, "haul_device_get", "name",
                          "the environment variable HAUL_CPU_LEVEL is \"%.40s\"; base, v3 or v4 is expected", wanted);
    if (best_level() != HAUL__CPU_LEVELS)
        return HAUL_OK;
    return haul__fail(HAUL_UNSUPPORTED, "haul_device_get", "name",
                      "this build has kernels for x86-64-%s and above only, which %s; configure it with "
                      "-DHAUL_CPU_LEVELS=\"base;v3;v4\"",
                      IN_BUILD_v3 ? "v3" : "v4",
                      wanted && *wanted ? "HAUL_CPU_LEVEL excludes" : "this processor cannot run");
}
