/* The kernels as data: their ids (two for each pointwise row that takes a scalar, and those that tools/embed.c found
 * in kernel text), what each id stands for, and the text that run-time compilers get. */
#ifndef HAUL_KERNELS_KERNELS_H
#define HAUL_KERNELS_KERNELS_H

#include <stdbool.h>

enum haul__kernel_id {
#define HAUL_UNARY(name, ...)         HAUL__K_##name,
#define HAUL_UNARY_TO_BOOL(name, ...) HAUL__K_##name,
#define HAUL_UNARY2(name, ...)        HAUL__K_##name,
#define HAUL_BINARY(name, ...)        HAUL__K_##name, HAUL__K_##name##_scalar,
#define HAUL_COMPARE(name, ...)       HAUL__K_##name, HAUL__K_##name##_scalar,
#include <haul/pointwise.def>
#undef HAUL_UNARY
#undef HAUL_UNARY_TO_BOOL
#undef HAUL_UNARY2
#undef HAUL_BINARY
#undef HAUL_COMPARE
#define KERNEL(dtypes, lanes, unit, name) HAUL__K_##name,
#include "kernels/kernels.def"
    HAUL__KERNEL_COUNT
};

typedef struct haul__kernel_info {
    const char *unit, *kernel; /* "pool2d", "max_pool2d" */
    bool        lanes;         /* of the lanes form (backends/cpu/prelude.h) */
} haul__kernel_info;

extern const haul__kernel_info haul__kernel_infos[]; /* by id */
extern const int               haul__kernel_count;

/* The text of a kernel's unit, without preludes. NULL if memory is exhausted. The result is freed with haul__free. */
char *haul__kernel_unit_text(int id);

/* The text of a header that all kernels need, by name: "prelude_opencl", "common", "pointwise". NULL if none has it. */
const char *haul__kernel_header(const char *name);

#endif
