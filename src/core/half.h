/* f16 (IEEE 754 binary16) and bf16 (the upper half of an f32) on the host, a value at a time: for scalars, printing and
 * single elements. Kernels have their own conversions of whole tensors (kernels/common.h). */
#ifndef HAUL_CORE_HALF_H
#define HAUL_CORE_HALF_H

#include <haul/dtype.h>
#include <stdint.h>

/* f16 or bf16, whose elements are 16 bits that only conversions give a meaning. */
bool haul__is_half(haul_dtype dtype);

/* The nearest element, ties to even, rounded once; what is too large becomes infinite. */
uint16_t haul__half_encode(haul_dtype dtype, double value);
double   haul__half_decode(haul_dtype dtype, uint16_t bits);

#endif
