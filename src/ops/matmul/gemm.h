/* Matrix products for the operations that need one: batched, strided, with bias and accumulation. */
#ifndef HAUL_OPS_MATMUL_GEMM_H
#define HAUL_OPS_MATMUL_GEMM_H

#include "engine/implementation.h"

/* C [batch, m, n] = A [batch, m, k] B [batch, k, n], plus bias [n], plus C, then relu, as `g` says. It holds sizes and
 * strides; no size of C is 0. Buffers, dtype and offsets are filled in here from the tensors, in place: a copy right
 * after the caller's narrow stores would wait for them. bias NULL: no bias. For operations whose descriptor has
 * haul__gemm_implementations. */
haul_status haul__gemm_run(const haul__call *call, haul__gemm *g, haul_tensor *c, haul_tensor *a, haul_tensor *b,
                           haul_tensor *bias);

extern const haul__implementations haul__gemm_implementations;

/* The vector lanes for which kernels are compiled on a device, LANES in kernel text. */
int64_t haul__kernel_lanes(const haul_device *device, haul_dtype dtype);

#endif
