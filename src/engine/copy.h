/* Copies and fills of elements as commands, for the driver and for `compute` of operations; and copies in the order of
 * another tensor, as operations. */
#ifndef HAUL_ENGINE_COPY_H
#define HAUL_ENGINE_COPY_H

#include "core/tensor.h"

typedef struct haul__copy_note haul__copy_note;

/* Copies all elements of `from`, which may broadcast, to `to`; any layouts, any dtypes. They are on one device, or one
 * of them is in host memory that the other one's device reaches (haul__device_reaches_host). note: for the event of a
 * copy between the two (transfer/copy.h); NULL: nothing is known. */
haul_status haul__copy_across(haul_tensor *to, haul_tensor *from, const haul__copy_note *note, const char *origin);

/* The same on one device. */
static inline haul_status haul__copy_elements(haul_tensor *to, haul_tensor *from, const char *origin)
{
    return haul__copy_across(to, from, NULL, origin);
}

/* Sets all elements of `to`, of any layout, to a value that the dtype holds: haul__dtype_holds. */
haul_status haul__fill_elements(haul_tensor *to, double value, const char *origin);

/* True if two indices of `t` may address one element. Exact for the views that Haul can make (expand). */
bool haul__overlaps_itself(const haul_tensor *t);

/* haul_to, haul_identity and haul_copy_into, with the tensor's name for the event of a copy over a link. The name is
 * read during the call; NULL: none is known. */
haul_tensor *haul__to_named(haul_tensor *x, haul_device *device, const char *name);
haul_tensor *haul__identity_named(haul_tensor *x, haul_device *device, const char *name);
haul_status  haul__copy_into_named(haul_tensor *out, haul_tensor *x, const char *name);

/* haul_to for HAUL_PLACE_AUTO: of a gradient, and with the copy kept with x's memory until x's elements change, so that
 * it must not be written to. */
haul_tensor *haul__to_placed(haul_tensor *x, haul_device *device);
haul_tensor *haul__to_kept(haul_tensor *x, haul_device *device, const char *name);

/* True if x has a kept copy there. */
bool haul__keeps_move(const haul_tensor *x, const haul_device *device);

/* haul_cast(x, dtype), with the copy kept with x's memory until x's elements change. It must not be written to. */
haul_tensor *haul__cast_kept(haul_tensor *x, haul_dtype dtype);

/* x, or what x holds as f32 if it is f16 or bf16: an operation. Passes HAUL_NONE and failures on. */
haul_tensor *haul__widened(haul_tensor *x);

/* x without gaps, with its dimensions in memory in the order of `like`, which has the same shape: x itself or a copy,
 * as a fresh handle; or always a copy. These are operations, so they are differentiable. */
haul_tensor *haul__to_order_of(haul_tensor *x, const haul_tensor *like);
haul_tensor *haul__copy_to_order_of(haul_tensor *x, const haul_tensor *like);

/* A copy of x with these dense strides, by an operation. */
haul_tensor *haul__copy_to_strides(haul_tensor *x, const int64_t *strides);

#endif
