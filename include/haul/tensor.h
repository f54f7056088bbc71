/* Tensors: shape, dtype, device, and the memory behind them.
 *
 * A tensor is up to eight dimensions over a storage, with a stride (in elements, never negative) for each. Views share
 * a storage. The shape of a tensor never changes. Its elements are changed by functions named _into, haul_write,
 * haul_map, haul_init_..., optimizers, the running statistics of haul_batch_norm, and loading. haul_module_to,
 * haul_module_place, haul_module_to_memory_format and haul_module_cast change the device, layout and dtype of a
 * module's tensors: handles stay valid, views that were made before keep the old memory. */
#ifndef HAUL_TENSOR_H
#define HAUL_TENSOR_H

#include <haul/base.h>
#include <haul/device.h>
#include <haul/dtype.h>
#include <haul/error.h>

HAUL_BEGIN

/* A shape as an argument: HAUL_SHAPE(64, 3, 32, 32), at most eight sizes. HAUL_SCALAR_SHAPE is the shape of a 0-d
 * tensor. */
typedef struct haul_shape {
    int     ndim;
    int64_t dims[HAUL_MAX_DIMS];
} haul_shape;

#ifdef __cplusplus
#define HAUL_SHAPE(...)   (haul_shape{HAUL__COUNT(int64_t, __VA_ARGS__), {__VA_ARGS__}})
#define HAUL_SCALAR_SHAPE (haul_shape{0, {0}})
#else
#define HAUL_SHAPE(...)   ((haul_shape){HAUL__COUNT(int64_t, __VA_ARGS__), {__VA_ARGS__}})
#define HAUL_SCALAR_SHAPE ((haul_shape){0, {0}})
#endif

/* An operand that is absent on purpose (a bias, an incoming gradient). An option that is not given is HAUL_NONE. */
HAUL_API extern haul_tensor *const haul_none;
#define HAUL_NONE haul_none

/* Functions that return a tensor never return NULL. On failure they return a failed tensor, which carries the error. A
 * call that is given one fails with the same error and returns another. A failed tensor has no shape, dtype or
 * elements. It belongs to the scope, as other tensors do. */
HAUL_API bool haul_tensor_is_valid(const haul_tensor *t); /* false for a failed tensor, HAUL_NONE and NULL */
/* Fail as haul_error_set does (error.h), and return a failed tensor: for your own forward functions. */
HAUL_API haul_tensor *haul_tensor_fail(haul_status status, const char *operation, const char *argument,
                                       const char *format, ...) HAUL_PRINTF(4, 5);
/* HAUL_OK for a valid tensor and HAUL_NONE. For a failed tensor its error, which becomes this thread's error again. */
HAUL_API haul_status haul_tensor_check(const haul_tensor *t);

HAUL_API int          haul_tensor_ndim(const haul_tensor *t);             /* -1 on failure */
HAUL_API int64_t      haul_tensor_dim(const haul_tensor *t, int axis);    /* negative axes count from the end; -1 */
HAUL_API int64_t      haul_tensor_stride(const haul_tensor *t, int axis); /* in elements; -1 on failure */
HAUL_API haul_shape   haul_tensor_shape(const haul_tensor *t);            /* ndim is -1 on failure */
HAUL_API int64_t      haul_tensor_count(const haul_tensor *t);            /* number of elements; -1 on failure */
HAUL_API size_t       haul_tensor_bytes(const haul_tensor *t);            /* count x size of an element; 0 on failure */
HAUL_API haul_dtype   haul_tensor_dtype(const haul_tensor *t);            /* HAUL_DTYPE_NONE on failure */
HAUL_API haul_device *haul_tensor_device(const haul_tensor *t);           /* an invalid device on failure */
HAUL_API bool         haul_tensor_is_contiguous(const haul_tensor *t);    /* row-major, without gaps */
/* Are the elements of a 4-d tensor [N, C, H, W] in memory as [N, H, W, C]? Where C or the plane is 1 a tensor is both
 * this and contiguous. */
HAUL_API bool haul_tensor_is_channels_last(const haul_tensor *t);

/* The elements' memory is changed by in-place operations; each change counts one up. 0 on failure. */
HAUL_API uint64_t haul_tensor_version(const haul_tensor *t);

/* Write the tensor as text to standard output: values (summarised past 1,000 elements), shape, dtype, device.
 * Waits for the device. */
HAUL_API haul_status haul_print(const haul_tensor *t);

/* The same text into a buffer of `size` bytes, always ended by a 0 byte; returns the length the whole text has, as
 * snprintf does, or a negative number on failure. */
HAUL_API int haul_tensor_format(const haul_tensor *t, char *buffer, size_t size);

HAUL_END

#endif
