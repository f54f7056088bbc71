/* Moving: between devices, between dtypes, and between the host's arrays and tensors.
 *
 * Moves between devices are asynchronous where the device supports it, and free of data races: each storage remembers
 * its last write and the reads since then, and whatever uses it next waits for exactly those. The host sees elements
 * only through haul_read, haul_item, haul_print and haul_map, which wait. */
#ifndef HAUL_TRANSFER_H
#define HAUL_TRANSFER_H

#include <haul/base.h>
#include <haul/device.h>
#include <haul/tensor.h>

HAUL_BEGIN

typedef struct HAUL__DESIGNATED haul_to_options {
    haul_device *device; /* the device to move to; positional */
    HAUL__GUARD(dtype)
    haul_dtype dtype; /* convert as well, on the side where fewer bytes cross the link; default x's dtype */
} haul_to_options;

/* x on `device`: haul_to(x, device, .dtype = HAUL_F16). Always returns a new handle, which shares x's memory if nothing
 * has to change. Does not wait. The gradient is moved back to x's device. */
#define haul_to(x, ...) haul_to_with(x, HAUL__OPTIONS(haul_to_options, .device = __VA_ARGS__))
HAUL_API haul_tensor *haul_to_with(haul_tensor *x, const haul_to_options *options);

/* A copy of x with memory of its own on `device`, which may be x's device (TensorFlow's tf.identity). The copy is
 * dense, with the dimensions in the same order in memory as x, or row-major if x repeats elements. */
HAUL_API haul_tensor *haul_identity(haul_tensor *x, haul_device *device);

/* A copy of x with memory of its own, on x's device; as haul_identity. */
HAUL_API haul_tensor *haul_clone(haul_tensor *x);

/* x, a tensor on the CPU, in pinned memory, from and to which `device` copies at the speed of the link, without making
 * the host wait or copy. This pays for tensors that are moved again and again. The layout is that of haul_clone(x).
 *
 * The result shares x's memory if that is pinned already, for any device, or if the device gains nothing by it. It is
 * in ordinary memory if no more can be pinned (haul_pinned_set_limit). Results of haul_to(x, haul_cpu()) are pinned
 * already. */
HAUL_API haul_tensor *haul_pin(haul_tensor *x, haul_device *device);

/* True if the tensor is in pinned host memory: memory that Haul pinned, or wrapped memory that another library pinned
 * for a GPU that is in use. Copies of both reach the full speed of the link. False on failure. */
HAUL_API bool haul_tensor_is_pinned(const haul_tensor *t);

/* x converted to another dtype, on its device. Floats become integers by truncation towards zero; values out of range
 * and infinities become the nearest value of the dtype, and NaN becomes 0. Any non-zero value, NaN included, becomes
 * true. Returns a new handle that shares x's memory if the dtype is the same. */
HAUL_API haul_tensor *haul_cast(haul_tensor *x, haul_dtype dtype);

/* A new tensor on the calling thread's current device with a copy of `data`. The data may be freed or changed as soon
 * as the call returns. If dtype is HAUL_BOOL, any byte but 0 is true.
 *
 * - data: as many elements as `shape` has, row-major without gaps */
HAUL_API haul_tensor *haul_from_host(haul_dtype dtype, haul_shape shape, const void *data);

/* A tensor on the CPU over the caller's own memory, without a copy.
 *
 * - data: row-major without gaps, aligned for the dtype; must stay valid until `deleter` is called
 * - deleter: called as deleter(context), on any thread, when nothing uses the memory any more, and also if this call
 *   fails; may be NULL
 *
 * If dtype is HAUL_BOOL, any byte but 0 is true: the call sets bytes other than 0 and 1 to 1, and writes nothing if
 * there are none.
 *
 * While a tensor uses the memory, change it only through haul_write, haul_map and functions named `_into`: a move may
 * still be reading it (haul_device_sync waits for that), and haul_backward does not notice other changes. */
HAUL_API haul_tensor *haul_wrap_host(haul_dtype dtype, haul_shape shape, void *data, void (*deleter)(void *context),
                                     void *context);

/* Copy all elements of t, row-major, to `out`. Waits. If it fails, `out` may hold a part of them.
 *
 * - size: bytes in `out`; at least haul_tensor_bytes(t) */
HAUL_API haul_status haul_read(const haul_tensor *t, void *out, size_t size);

/* Overwrite all elements of t, row-major, from `data`, which may be freed when the call returns. This is a change in
 * place, as by functions named `_into`. If t is bool, any byte but 0 is true.
 *
 * - size: bytes in `data`; exactly haul_tensor_bytes(t) */
HAUL_API haul_status haul_write(haul_tensor *t, const void *data, size_t size);

/* The value of a tensor with one element, converted. Waits. On failure records the error and returns NaN or
 * 0. haul_item_i64 returns the bits of a u64, which (uint64_t) converts back. */
HAUL_API double  haul_item(const haul_tensor *t);
HAUL_API int64_t haul_item_i64(const haul_tensor *t);

/* What haul_map gives access to: one of these, or both joined with `|`.
 *
 * - HAUL_READ: read the elements
 * - HAUL_WRITE: change the elements */
typedef enum haul_map_mode { HAUL_READ = 1, HAUL_WRITE = 2 } haul_map_mode;

/* The elements of a contiguous tensor as host memory, until haul_unmap. NULL on failure. On the CPU this is the
 * tensor's memory itself. For other devices it is a copy, which haul_unmap writes back if HAUL_WRITE is in `mode`;
 * elements that the program does not write keep their values.
 *
 * Memory can be mapped once at a time, including its views; use them in no operation until haul_unmap. If haul_unmap
 * fails, t stays mapped. A copy that was not unmapped is lost with t. Fails with HAUL_STATE if t is not contiguous or
 * already mapped. If t is bool, any byte but 0 that the program writes is true; haul_unmap sets it to 1.
 *
 * - mode: HAUL_READ, HAUL_WRITE, or both */
HAUL_API void       *haul_map(haul_tensor *t, int mode);
HAUL_API haul_status haul_unmap(haul_tensor *t);

/* What crossed links between devices since the process started or the last reset. */
typedef struct haul_transfer_stats {
    /* h2d_bytes: from the host to a device; d2h_bytes: from a device to the host; d2d_bytes: between devices */
    int64_t h2d_bytes, d2h_bytes, d2d_bytes;
    /* h2d_count: copies to devices; d2h_count: copies to the host; d2d_count: copies between devices */
    int64_t h2d_count, d2h_count, d2d_count;
} haul_transfer_stats;

/* Fill *out with the counts of the process, or reset them to 0. */
HAUL_API haul_status haul_transfer_stats_get(haul_transfer_stats *out);
HAUL_API void        haul_transfer_stats_reset(void);

HAUL_END

#endif
