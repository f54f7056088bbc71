/* The tables of CPU kernels, one for each dtype and instruction level, filled by kernels/unit.c. */
#ifndef HAUL_BACKENDS_CPU_KERNELS_H
#define HAUL_BACKENDS_CPU_KERNELS_H

#include <haul/dtype.h>
#include <stdint.h>

/* Do work items [first, last) of a launch. */
typedef void haul__cpu_fn(void *const *buffers, const void *params, int64_t first, int64_t last);

typedef struct haul__cpu_kernel {
    const char   *name;
    haul__cpu_fn *fn; /* NULL: not for this dtype */
} haul__cpu_kernel;

/* haul__cpu_kernels_f32_v3[HAUL__KERNEL_COUNT], by kernel id */
#define HAUL__CPU_TABLE(suffix, level)  HAUL__CPU_TABLE_(suffix, level)
#define HAUL__CPU_TABLE_(suffix, level) haul__cpu_kernels_##suffix##_##level
#define HAUL__CPU_DECLARE(NAME, suffix, b, k)                                                                          \
    extern const haul__cpu_kernel haul__cpu_kernels_##suffix##_base[], haul__cpu_kernels_##suffix##_v3[];

HAUL_DTYPE_LIST(HAUL__CPU_DECLARE)

#endif
