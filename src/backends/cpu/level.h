/* Instruction levels of the CPU's kernels. */
#ifndef HAUL_BACKENDS_CPU_LEVEL_H
#define HAUL_BACKENDS_CPU_LEVEL_H

#include <haul/error.h>
#include <stdbool.h>

typedef enum haul__cpu_level_id { HAUL__CPU_BASE, HAUL__CPU_V3, HAUL__CPU_V4, HAUL__CPU_LEVELS } haul__cpu_level_id;

/* The level of $HAUL_CPU_LEVEL; the highest without it, HAUL__CPU_LEVELS if it is none. It also binds libraries that
 * choose their instructions. */
haul__cpu_level_id haul__cpu_allowed_level(void);

/* True if the level is in this build, the processor can run it, and $HAUL_CPU_LEVEL allows it. */
bool haul__cpu_runs(haul__cpu_level_id level);

/* The level that this process uses: the best one that haul__cpu_runs accepted when this was first called. Without any,
 * the device does not open, and the answer does not matter. */
haul__cpu_level_id haul__cpu_chosen_level(void);

/* True if the processor has instructions for products of pairs of bf16 (AVX512-BF16), which belong to no level: with
 * v4.
 */
bool haul__cpu_has_bf16_pairs(void);

/* True if it has instructions for products of tiles of bf16 (AMX-BF16), and this process may use them: only with v4.
 * The first call asks the system for the permission, which all threads of the process then have. */
bool haul__cpu_has_bf16_tiles(void);

/* Fails if $HAUL_CPU_LEVEL is not a level, or if no level is left. */
haul_status haul__cpu_check_level(void);

/* The levels in tables of kernels. */
#ifdef HAUL_ONLY_LEVEL_base
#define HAUL__CPU_TABLE_LEVELS 1
#else
#define HAUL__CPU_TABLE_LEVELS HAUL__CPU_LEVELS
#endif

#endif
