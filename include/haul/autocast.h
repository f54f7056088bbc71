/* Mixed precision: computing in f16 or bf16 while parameters stay f32.
 *
 *     haul_autocast_state before = haul_autocast_begin("all", HAUL_BF16);
 *     haul_tensor *loss = haul_cross_entropy(haul_call(net, x), y);
 *     haul_autocast_end(before);
 *     haul_backward(loss);
 *
 * Within autocast each operation computes in the dtype that suits it. Operations with an f64 operand are not affected.
 * Others with floating operands compute
 *
 * - in the lower dtype: haul_matmul, haul_linear and haul_conv2d cast all operands to the dtype of autocast
 * - in f32: haul_softmax, haul_log_softmax, all losses, haul_exp, haul_expm1, haul_log, haul_log1p, haul_pow,
 *   haul_reciprocal, haul_rsqrt and haul_softplus cast f16 and bf16 operands to f32; haul_sum and haul_mean read f16
 *   and bf16 directly and give f32
 * - in the widest dtype: haul_add and other operations with several tensors, haul_where, haul_cat and haul_stack
 *   promote as they do without autocast, f16 and bf16 with f32 to f32
 * - in the dtype of the operand: all others. haul_batch_norm takes f16 and bf16 with statistics and parameters of f32
 *
 * Forms named `_into` are not affected. Casts are operations: gradients arrive in the dtype of the tensor that was
 * cast, and each step of backward computes in the dtype of its forward operation, whether autocast is on then or not.
 * f16 needs a haul_grad_scaler, so that small gradients are not lost; bf16 does not.
 *
 * A parameter (a leaf of f32 that requires a gradient) is cast once. The cast is kept until the parameter changes and,
 * where gradients are recorded, at most until the outermost autocast ends. haul_memory_stats counts kept casts as
 * `derived_bytes`; they are freed if memory runs short. */
#ifndef HAUL_AUTOCAST_H
#define HAUL_AUTOCAST_H

#include <haul/base.h>
#include <haul/device.h>
#include <haul/dtype.h>
#include <haul/error.h>

HAUL_BEGIN

/* The former setting of a thread, only to be passed to haul_autocast_end. */
typedef struct haul_autocast_state {
    uint32_t bits; /* private */
} haul_autocast_state;

/* Set autocast for the calling thread, until haul_autocast_end gets the value that haul_autocast_begin returned, or
 * until the scope is popped. Calls may be nested. On failure nothing changes, and the returned value can still be
 * passed to haul_autocast_end.
 *
 * - devices: "all", or the backend whose devices are meant: "cpu", "cuda", "opencl" or "meta"
 * - dtype: HAUL_F16 or HAUL_BF16; HAUL_DTYPE_NONE switches autocast off */
HAUL_API haul_autocast_state haul_autocast_begin(const char *devices, haul_dtype dtype);
HAUL_API haul_status         haul_autocast_end(haul_autocast_state before);

/* The dtype that autocast gives operations on `device` on the calling thread; HAUL_DTYPE_NONE if autocast is off. */
HAUL_API haul_dtype haul_autocast_dtype(const haul_device *device);

HAUL_END

#endif
