/* Estimates: what a part of a program costs, before anything is allocated or computed.
 *
 * haul_estimate calls a function in a dry run: every operation checks its operands and describes its results as always,
 * but tensors get no memory, no command reaches a device and nothing is copied. Instead all of that is counted. A dry
 * run takes the same way through the library as a real one, so temporaries, casts, scratch memory and the sizes of the
 * allocator's blocks are in the figures.
 *
 *     static haul_status step(void *context)
 *     {
 *         haul_set_device(haul_device_get("cuda:0"));
 *         haul_module    *net = haul_model_new("resnet18");
 *         haul_optimizer *adam = haul_adam(net, 0.001);
 *         haul_tensor    *x = haul_empty(HAUL_F32, HAUL_SHAPE(128, 3, 32, 32));
 *         haul_tensor    *y = haul_empty(HAUL_I64, HAUL_SHAPE(128));
 *         haul_status status = haul_backward(haul_cross_entropy(haul_call(net, x), y), HAUL_NONE);
 *         return status ? status : haul_optimizer_step(adam);
 *     }
 *
 *     haul_estimate_result r;
 *     if (!haul_estimate(step, NULL, &r))
 *         printf("%.3g flops, %lld bytes at the peak\n", r.flops, (long long)r.devices[0].peak_bytes);
 *     haul_estimate_free(&r);
 */
#ifndef HAUL_ESTIMATE_H
#define HAUL_ESTIMATE_H

#include <haul/base.h>
#include <haul/dtype.h>
#include <haul/error.h>
#include <haul/tensor.h>
#include <haul/transfer.h>

HAUL_BEGIN

/* One call of an operation. Views cost nothing and are listed too; an operation that is written in others, such as
 * haul_bce_with_logits, appears as these. */
typedef struct haul_estimate_operation {
    const char *name; /* "haul_conv2d"; lives as long as the process */
    char module[80];  /* the path of the module under way, "layer1.0.conv1"; "" outside of modules and in gradients */
    haul_device *device;
    haul_dtype   dtype; /* of the first result; of the first operand where there are only operands that are written */
    haul_shape   shape; /* its shape */
    double       flops; /* floating point operations; a multiplication and an addition count as two */
    int64_t      bytes; /* read and written, each operand and result once */
} haul_estimate_operation;

/* Memory of a device that the function touched, in bytes of allocated blocks, as haul_memory_stats.allocated counts. */
typedef struct haul_estimate_device {
    haul_device *device;
    int64_t      start_bytes;       /* when the function began: what exists already */
    int64_t      peak_bytes;        /* the most at any time, start_bytes included */
    int64_t      pinned_peak_bytes; /* of host memory pinned for the device, which is not in peak_bytes */
} haul_estimate_device;

/* haul_estimate fills it; haul_estimate_free frees what it holds. */
typedef struct haul_estimate_result {
    double                   flops;         /* of all operations */
    int64_t                  bytes_touched; /* by all operations: the sum of their bytes */
    haul_transfer_stats      moved;         /* over links between devices */
    int                      device_count;
    haul_estimate_device    *devices; /* in the order in which the process first used them */
    int64_t                  operation_count;
    haul_estimate_operation *operations; /* in the order of the calls */
} haul_estimate_result;

/* HAUL_OK, or what went wrong in the function. */
typedef haul_status haul_estimate_function(void *context);

/* Call `function(context)` in a dry run and report what it would cost. Returns what the function returns; where that is
 * not HAUL_OK, *out is empty.
 *
 *   - The function runs in a scope of its own, on this thread. What other threads do is real, and is not counted.
 *   - Values do not exist: haul_item, haul_read, haul_print, haul_map and the functions that save or load files fail
 *     with HAUL_STATE. A program that decides by values cannot be estimated beyond that point.
 *   - Tensors that exist can be used. Their contents stay as they are, and afterwards so do gradients, the state of
 *     optimizers and loss scalers, and the random numbers to come. Modules that exist cannot be moved.
 *   - A loader must be made in the function. It gives batches of the right shapes and reads no examples.
 *   - A tensor made in the function has no data. An operation that uses it outside of dry runs fails with HAUL_STATE.
 *   - Within the function haul_estimate can be called again: that counts a part, which the whole includes. So a program
 *     can make some steps before the one that is measured. */
HAUL_API haul_status haul_estimate(haul_estimate_function *function, void *context, haul_estimate_result *out);

/* Free what the result holds; it is empty afterwards. NULL and empty results are ignored. */
HAUL_API void haul_estimate_free(haul_estimate_result *result);

HAUL_END

#endif
