/* Tensors: shape, dtype, device, and the memory behind them.
 *
 * A tensor has up to eight dimensions over a storage, with a stride in elements, never negative, for each dimension.
 * Views share a storage. The shape of a tensor never changes.
 *
 * These functions change elements: those named `_into`, haul_write, haul_map, haul_init_uniform and its siblings,
 * optimizers, the running statistics of haul_batch_norm, and loading. haul_module_to, haul_module_place,
 * haul_module_to_memory_format and haul_module_cast change the device, layout and dtype of a module's tensors: handles
 * stay valid, but views that were made before keep the old memory.
 *
 * A function that asks for a property returns the value below on failure, and records the error: a failed tensor,
 * HAUL_NONE and NULL have no properties. */
#ifndef HAUL_TENSOR_H
#define HAUL_TENSOR_H

#include <haul/base.h>
#include <haul/device.h>
#include <haul/dtype.h>
#include <haul/error.h>

HAUL_BEGIN

/* A shape: the sizes of up to HAUL_MAX_DIMS dimensions. */
typedef struct haul_shape {
    int     ndim;                /* the number of dimensions; 0 for a tensor with a single element and no dimensions */
    int64_t dims[HAUL_MAX_DIMS]; /* the sizes; those from `ndim` on are ignored */
} haul_shape;

/* A shape as an argument: HAUL_SHAPE(64, 3, 32, 32) has up to eight sizes; HAUL_SCALAR_SHAPE is the shape of a tensor
 * without dimensions. */
#ifdef __cplusplus
#define HAUL_SHAPE(...)   (haul_shape{HAUL__COUNT(int64_t, __VA_ARGS__), {__VA_ARGS__}})
#define HAUL_SCALAR_SHAPE (haul_shape{0, {0}})
#else
#define HAUL_SHAPE(...)   ((haul_shape){HAUL__COUNT(int64_t, __VA_ARGS__), {__VA_ARGS__}})
#define HAUL_SCALAR_SHAPE ((haul_shape){0, {0}})
#endif

/* An operand that is absent on purpose: a bias, or an incoming gradient. An option that is omitted is HAUL_NONE. */
HAUL_API extern haul_tensor *const haul_none;
#define HAUL_NONE haul_none

/* True if `t` is a tensor that can be used. False for a failed tensor, HAUL_NONE, NULL and a tensor that has ended.
 *
 * Functions that return a tensor never return NULL. On failure they return a failed tensor, which carries the error. A
 * call that is given a failed tensor fails with the same error and returns another failed tensor. A failed tensor has
 * no shape, dtype or elements. It belongs to the scope, as other tensors do. */
HAUL_API bool haul_tensor_is_valid(const haul_tensor *t);

/* Record an error as haul_error_set does, and return a failed tensor: for forward functions of your own.
 *
 * - status, operation, argument, format: as for haul_error_set */
HAUL_API haul_tensor *haul_tensor_fail(haul_status status, const char *operation, const char *argument,
                                       const char *format, ...) HAUL_PRINTF(4, 5);

/* Return HAUL_OK for a valid tensor and for HAUL_NONE. For a failed tensor return its error, which becomes the calling
 * thread's error again. */
HAUL_API haul_status haul_tensor_check(const haul_tensor *t);

HAUL_API int haul_tensor_ndim(const haul_tensor *t); /* the number of dimensions; -1 on failure */

/* The size of a dimension; negative axes count from the end; -1 on failure. */
HAUL_API int64_t haul_tensor_dim(const haul_tensor *t, int axis);

/* The stride of a dimension, in elements; -1 on failure. */
HAUL_API int64_t haul_tensor_stride(const haul_tensor *t, int axis);

HAUL_API haul_shape haul_tensor_shape(const haul_tensor *t); /* all sizes; .ndim is -1 on failure */
HAUL_API int64_t    haul_tensor_count(const haul_tensor *t); /* the number of elements; -1 on failure */

/* The number of elements times the size of one; 0 on failure. */
HAUL_API size_t haul_tensor_bytes(const haul_tensor *t);

HAUL_API haul_dtype   haul_tensor_dtype(const haul_tensor *t);  /* the dtype; HAUL_DTYPE_NONE on failure */
HAUL_API haul_device *haul_tensor_device(const haul_tensor *t); /* the device; an invalid device on failure */

/* True if the elements are row-major, without gaps. False on failure. */
HAUL_API bool haul_tensor_is_contiguous(const haul_tensor *t);

/* True if the elements of a 4-d tensor [N, C, H, W] are in memory in the order [N, H, W, C]. Where C or H W is 1, a
 * tensor is both channels-last and contiguous. False on failure. */
HAUL_API bool haul_tensor_is_channels_last(const haul_tensor *t);

/* A counter of the tensor's memory, which each change in place increases by one: a program can check if the elements
 * have changed. Views of the same memory share it. 0 on failure. */
HAUL_API uint64_t haul_tensor_version(const haul_tensor *t);

/* Write the tensor as text to standard output: its values (summarised past 1,000 elements), shape, dtype and device.
 * Waits for the device. */
HAUL_API haul_status haul_print(const haul_tensor *t);

/* Write the text of haul_print into a buffer of `size` bytes, always with a 0 byte at its end. Returns the length of
 * the whole text, as snprintf does, or a negative number on failure. Waits for the device. */
HAUL_API int haul_tensor_format(const haul_tensor *t, char *buffer, size_t size);

HAUL_END

#endif
