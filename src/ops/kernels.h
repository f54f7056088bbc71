/* Ids of all kernels: two for each pointwise row that takes a scalar, and the lines of kernels.def. */
#ifndef HAUL_OPS_KERNELS_H
#define HAUL_OPS_KERNELS_H

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
#define KERNEL_ANY(unit, name)    HAUL__K_##name,
#define KERNEL_NUMBER(unit, name) HAUL__K_##name,
#define KERNEL_FLOAT(unit, name)  HAUL__K_##name,
#include "ops/kernels.def"
#undef KERNEL_ANY
#undef KERNEL_NUMBER
#undef KERNEL_FLOAT
    HAUL__KERNEL_COUNT
};

#endif
