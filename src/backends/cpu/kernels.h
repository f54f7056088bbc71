/* The table of CPU kernels. */
#ifndef HAUL_BACKENDS_CPU_KERNELS_H
#define HAUL_BACKENDS_CPU_KERNELS_H

#include <haul/dtype.h>
#include <stdint.h>

#include "backends/cpu/level.h"

/* Runs work items [first, last) of a launch. */
typedef void haul__cpu_fn(void *const *buffers, const void *params, int64_t first, int64_t last);

typedef struct haul__cpu_kernel {
    const char   *name;
    haul__cpu_fn *fns[HAUL__CPU_TABLE_LEVELS][HAUL_DTYPE_END]; /* NULL: the dtype or level is missing */
} haul__cpu_kernel;

extern const haul__cpu_kernel haul__cpu_kernels[]; /* by kernel id */

#endif
