/* Estimates: what a part of a program costs, before anything is allocated or computed.
 *
 * haul_estimate calls a function in a dry run. Every operation checks its operands and describes its results as always,
 * but tensors get no memory, no command reaches a device, and nothing is copied. All of that is counted instead. A dry
 * run takes the same path through the library as a real one, so the figures include temporaries, casts, workspaces and
 * the sizes of the allocator's blocks.
 *
 *     static haul_status step(void *context)
 *     {
 *         haul_set_device(haul_device_get("cuda:0"));
 *         haul_module    *net = haul_model_new("resnet18");
 *         haul_optimizer *adam = haul_adam(net, 0.001);
 *         haul_tensor    *x = haul_empty(HAUL_F32, HAUL_SHAPE(128, 3, 32, 32));
 *         haul_tensor    *y = haul_empty(HAUL_I64, HAUL_SHAPE(128));
 *         haul_status     status = haul_backward(haul_cross_entropy(haul_call(net, x), y));
 *         return status ? status : haul_optimizer_step(adam);
 *     }
 *
 *     haul_estimate_result r;
 *     if (!haul_estimate(step, NULL, &r))
 *         printf("%.3g flops, %lld bytes at the peak\n", r.flops, (long long)r.devices[0].peak_bytes);
 *     haul_estimate_free(&r); */
#ifndef HAUL_ESTIMATE_H
#define HAUL_ESTIMATE_H

#include <haul/base.h>
#include <haul/dtype.h>
#include <haul/error.h>
#include <haul/tensor.h>
#include <haul/transfer.h>

HAUL_BEGIN

/* One call of an operation. Views cost nothing and are listed, too. An operation that is composed of others, for
 * example haul_bce_with_logits, appears as these. */
typedef struct haul_estimate_operation {
    const char *name;    /* "haul_conv2d"; lives as long as the process */
    char module[80];     /* path of the module being called, "layer1.0.conv1"; "" outside of modules and in gradients */
    haul_device *device; /* the device */
    haul_dtype   dtype;  /* the dtype of the first result, or of the first operand if operands are only written */
    haul_shape   shape;  /* the shape of the same tensor */
    double       flops;  /* floating point operations; a multiplication and an addition count as two */
    int64_t      bytes;  /* bytes read and written, each operand and result once */
} haul_estimate_operation;

/* What one operation allocated in one module for one purpose. */
typedef struct haul_estimate_origin {
    char        name[48];   /* the operation, "haul_conv2d" */
    char        module[80]; /* path of the module being called; "" outside of modules and in gradients */
    const char *role;       /* what it is used for, as in haul_memory_by_role; lives as long as the process */
    int64_t     bytes;      /* bytes in its blocks */
} haul_estimate_origin;

/* Memory of a device that the function used, in bytes of allocated blocks, as haul_memory_stats.allocated counts. */
typedef struct haul_estimate_device {
    haul_device *device;            /* the device */
    int64_t      start_bytes;       /* memory in use when the function began */
    int64_t      peak_bytes;        /* highest use, start_bytes included */
    int64_t      pinned_peak_bytes; /* highest use of host memory pinned for the device; not part of peak_bytes */
    /* If the device spills (haul_memory_set_spill) and has a limit: bytes that would leave the device, and come back.
     * peak_bytes is what would be needed without that. Steps of a recording that is made in the function are followed,
     * and spill as followed steps do. What the process held before the outermost haul_estimate began is taken to stay
     * on the device. Where returns ahead of time depend on when copies end, a run may move somewhat more or less. */
    int64_t spilled_bytes, returned_bytes;
    /* by the tiers of haul_memory_set_spill_tiers: bytes of spilled_bytes that would go to the file; the most that
     * would be in host memory and in the file; and the most for which neither has room, nor the disk now */
    int64_t spilled_to_file_bytes, spill_host_peak_bytes, spill_file_peak_bytes, spill_missing_bytes;
    /* If the limit does not suffice although all that can leave the device does: the operation that needs most, and the
     * path of its module as in haul_estimate_operation; else "" */
    char    over_operation[48], over_module[80];
    int64_t over_bytes;   /* bytes in use at that moment; else 0 */
    bool    fits;         /* there is a limit and spilling, and they and the tiers suffice */
    int     origin_count; /* the number of `origins` */
    /* memory in use at the peak, largest first, without memory from before the outermost haul_estimate */
    haul_estimate_origin *origins;
} haul_estimate_device;

/* The result of haul_estimate. The caller must free it with haul_estimate_free. */
typedef struct haul_estimate_result {
    double                   flops;           /* floating point operations of all operations */
    int64_t                  bytes_touched;   /* bytes read and written by all operations */
    haul_transfer_stats      moved;           /* bytes and copies over links between devices */
    int                      device_count;    /* the number of `devices` */
    haul_estimate_device    *devices;         /* the devices, in the order in which the process first used them */
    int64_t                  operation_count; /* the number of `operations` */
    haul_estimate_operation *operations;      /* the operations, in the order of the calls */
} haul_estimate_result;

/* The function that haul_estimate calls. Returns HAUL_OK or its error. */
typedef haul_status haul_estimate_function(void *context);

/* Call function(context) in a dry run and report what it would cost. Returns what the function returns; if that is not
 * HAUL_OK, *out is empty.
 *
 * - The function runs in a scope of its own, on the calling thread. What other threads do is real, and is not counted.
 * - Values do not exist: haul_item, haul_read, haul_print, haul_map and the functions that save or load files fail with
 *   HAUL_STATE. A program that decides by values cannot be estimated beyond that point.
 * - Tensors that exist can be used. Their elements stay as they are; so do gradients, the state of optimizers and loss
 *   scalers, and the random numbers to come. Modules that exist cannot be moved.
 * - A loader must be made in the function. It gives batches of the right shapes and reads no examples.
 * - A tensor made in the function has no data. An operation that uses it outside of dry runs fails with HAUL_STATE.
 * - The function can call haul_estimate itself: that counts a part, which the whole includes. So a program can make
 *   some steps before the one that it measures. */
HAUL_API haul_status haul_estimate(haul_estimate_function *function, void *context, haul_estimate_result *out);

/* Free what the result holds; it is empty afterwards. NULL and empty results are ignored. */
HAUL_API void haul_estimate_free(haul_estimate_result *result);

HAUL_END

#endif
