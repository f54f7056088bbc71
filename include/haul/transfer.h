/* Moving: between devices, between dtypes, between the host's arrays and tensors.
 *
 * Moves between devices are asynchronous where the device allows it and cannot race: each storage remembers its last
 * write and the reads since, and whoever touches it next waits for exactly those. The host sees data only through
 * haul_read, haul_item, haul_print and haul_map, which wait. */
#ifndef HAUL_TRANSFER_H
#define HAUL_TRANSFER_H

#include <haul/base.h>
#include <haul/device.h>
#include <haul/tensor.h>

HAUL_BEGIN

typedef struct HAUL__DESIGNATED haul_to_options {
    haul_device *device; /* where to; positional */
    HAUL__GUARD
    haul_dtype dtype; /* convert as well; the conversion runs on the side where fewer bytes cross the link */
} haul_to_options;

/* haul_to(x, device, .dtype = HAUL_F32): x on `device`; always a fresh handle; it shares x's memory when nothing has to
 * change. Differentiable: the gradient is moved back to x's device. */
#define haul_to(x, ...) haul_to_with(x, HAUL__OPTIONS(haul_to_options, .device = __VA_ARGS__))
HAUL_API haul_tensor *haul_to_with(haul_tensor *x, const haul_to_options *options);

/* A copy of x with memory of its own on `device` (which may be x's own): TensorFlow's tf.identity. It is dense, with
 * its dimensions in memory in x's order (row-major where x repeats elements). Differentiable. */
HAUL_API haul_tensor *haul_identity(haul_tensor *x, haul_device *device);

/* The same on x's device. */
HAUL_API haul_tensor *haul_clone(haul_tensor *x);

/* x, a tensor on the CPU, in pinned memory, from and to which `device` copies at the speed of the link and without
 * making the host wait or copy: worth while for what is moved again and again. It lies as haul_clone(x) would. Shares
 * x's memory if that is pinned already, for whichever device, and where the device gains nothing by it; in ordinary
 * memory when none can be pinned any more (haul_pinned_set_limit). Results of haul_to(x, haul_cpu()) are pinned
 * already. Differentiable. */
HAUL_API haul_tensor *haul_pin(haul_tensor *x, haul_device *device);
HAUL_API bool         haul_tensor_is_pinned(const haul_tensor *t);

/* x with another dtype, on its device. Floats to integers truncate towards zero; values out of range, infinities and
 * NaN give the nearest representable value, NaN gives 0. Any non-zero value is true. */
HAUL_API haul_tensor *haul_cast(haul_tensor *x, haul_dtype dtype);

/* A new tensor on the thread's current device with a copy of `data`: row-major, dense, as many elements as the shape
 * says. The data may be freed or changed as soon as the call returns. */
HAUL_API haul_tensor *haul_from_host(haul_dtype dtype, haul_shape shape, const void *data);

/* A CPU tensor over the caller's own memory, nothing copied. `deleter(context)` is called when nothing uses the memory
 * any more, on whichever thread that is, also when this call fails; it may be NULL. data must be aligned for the dtype.
 * While a tensor uses the memory, change it through haul_write, haul_map and _into functions only: a move may still be
 * reading it (haul_device_sync waits), and haul_backward does not notice other changes. */
HAUL_API haul_tensor *haul_wrap_host(haul_dtype dtype, haul_shape shape, void *data, void (*deleter)(void *context),
                                     void *context);

/* Copy all elements of t, row-major, into `out`, which has `size` bytes (at least haul_tensor_bytes(t)). Waits. When it
 * fails `out` may hold part of them. */
HAUL_API haul_status haul_read(const haul_tensor *t, void *out, size_t size);

/* Overwrite all elements of t from `data`, row-major, `size` bytes (exactly haul_tensor_bytes(t)); data may be freed
 * when the call returns. A change in place, as those of _into functions. */
HAUL_API haul_status haul_write(haul_tensor *t, const void *data, size_t size);

/* The value of a tensor with one element, converted; NaN (and 0) on failure, with the error set. Waits. */
HAUL_API double  haul_item(const haul_tensor *t);
HAUL_API int64_t haul_item_i64(const haul_tensor *t);

/* The elements of t, a contiguous tensor, as host memory until haul_unmap. For the CPU it is the memory itself; for
 * another device a copy, written back by haul_unmap when HAUL_WRITE was asked for; elements that are not written keep
 * their values. NULL on failure. Memory can be mapped once at a time, views of it included; use them in no operation
 * until haul_unmap. When that fails t stays mapped; a copy that was not unmapped is lost with t. */
typedef enum haul_map_mode { HAUL_READ = 1, HAUL_WRITE = 2 } haul_map_mode;
HAUL_API void       *haul_map(haul_tensor *t, int mode);
HAUL_API haul_status haul_unmap(haul_tensor *t);

/* The ledger: what crossed a link between devices since the process started or the last reset. */
typedef struct haul_transfer_stats {
    int64_t h2d_bytes, d2h_bytes, d2d_bytes; /* host to device, device to host, device to device */
    int64_t h2d_count, d2h_count, d2d_count;
} haul_transfer_stats;

HAUL_API haul_status haul_transfer_stats_get(haul_transfer_stats *out);
HAUL_API void        haul_transfer_stats_reset(void);

HAUL_END

#endif
