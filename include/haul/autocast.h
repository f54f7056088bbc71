/* Mixed precision: within autocast, operations compute in the dtype that suits them, while parameters, and their
 * gradients, stay f32.
 *
 *     haul_autocast_state before = haul_autocast_begin("all", HAUL_BF16);
 *     haul_tensor *loss = haul_cross_entropy(haul_call(net, x), y);
 *     haul_autocast_end(before);
 *     haul_backward(loss, HAUL_NONE);
 *
 * What operations do with floating operands, f64 excepted (an operation with one is left as it is):
 *
 *   the lower dtype   haul_matmul, haul_linear, haul_conv2d: all operands are cast to the dtype of autocast
 *   f32               haul_softmax, haul_log_softmax, all losses, haul_exp, haul_expm1, haul_log, haul_log1p, haul_pow,
 *                     haul_reciprocal, haul_rsqrt, haul_softplus: f16 and bf16 operands are cast to f32;
 *                     haul_sum and haul_mean: they read f16 and bf16 as they are, and their result is f32
 *   the widest        haul_add and other operations of several tensors, haul_where, haul_cat, haul_stack: dtypes
 *                     promote as without autocast, f16 and bf16 with f32 to f32
 *   as they come      all others: the dtype of the operand. haul_batch_norm takes f16 and bf16 with statistics and
 *                     parameters of f32.
 *
 * The forms that write into a tensor are left as they are. Casts are operations: gradients arrive in the dtype of what
 * was cast, and a step of backward computes in the dtype of its forward operation, whether autocast is on then or not.
 * f16 needs a haul_grad_scaler, so that small gradients are not lost; bf16 does not.
 *
 * A parameter (a leaf of f32 that requires a gradient) is cast once: the cast is kept until the parameter changes, and
 * at most, where gradients are recorded, until the outermost autocast ends. Casts that are kept are counted
 * (haul_memory_stats.derived_bytes), and given back when memory runs short. */
#ifndef HAUL_AUTOCAST_H
#define HAUL_AUTOCAST_H

#include <haul/base.h>
#include <haul/device.h>
#include <haul/dtype.h>
#include <haul/error.h>

HAUL_BEGIN

/* What the thread has set; only to be handed to haul_autocast_end. */
typedef struct haul_autocast_state {
    uint32_t bits;
} haul_autocast_state;

/* Set autocast for operations on devices of a backend ("cpu", "cuda", "opencl", "meta") or on "all", on this thread, to
 * HAUL_F16 or HAUL_BF16, or off with HAUL_DTYPE_NONE, until haul_autocast_end gets what this returns, or the scope is
 * popped. May be nested. On failure nothing changes, and what is returned can still be handed to haul_autocast_end. */
HAUL_API haul_autocast_state haul_autocast_begin(const char *devices, haul_dtype dtype);
HAUL_API haul_status         haul_autocast_end(haul_autocast_state before);

/* What operations on `device` are cast to on this thread; HAUL_DTYPE_NONE where autocast is off. */
HAUL_API haul_dtype haul_autocast_dtype(const haul_device *device);

HAUL_END

#endif
