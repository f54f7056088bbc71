/* What the processor must have for each instruction level. cmake/haul_native_level.c reads this file, too, so it needs
 * nothing of the library. */
#ifndef HAUL_BACKENDS_CPU_PROCESSOR_H
#define HAUL_BACKENDS_CPU_PROCESSOR_H

#include <stdbool.h>

#if defined(__x86_64__)
static bool has_v3(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
           __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt");
}

static bool has_v4(void)
{
    return has_v3() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
}
#endif

#endif
