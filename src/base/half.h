/* f16 (IEEE 754 binary16) and bf16 (the upper half of an f32) on the host, one value at a time: for scalars, printing
 * and single elements. Kernels have their own conversions for whole tensors (kernels/common.h). */
#ifndef HAUL_BASE_HALF_H
#define HAUL_BASE_HALF_H

#include <haul/dtype.h>
#include <stdint.h>

/* f16 and bf16: elements of 16 bits that must be converted before use. */
bool haul__is_half(haul_dtype dtype);

/* The nearest element, rounded once, ties to even; values out of range become infinite. */
uint16_t haul__half_encode(haul_dtype dtype, double value);
double   haul__half_decode(haul_dtype dtype, uint16_t bits);

#endif
