/* Copies of elements from one device to another, of any layouts and dtypes. */
#ifndef HAUL_ENGINE_CROSS_H
#define HAUL_ENGINE_CROSS_H

#include "engine/operation.h"
#include "transfer/copy.h"

/* A dense temporary of the call on any device, with its dimensions in the order of `like`, for a copy to or from
 * `partner`. A failed tensor on failure. */
haul_tensor *haul__dense_temporary(const haul__call *c, haul_device *device, haul_device *partner, haul_dtype dtype,
                                   const haul_tensor *like);

/* Copies the elements of x, which may broadcast, to y on another device. The copy that crosses the link is dense, in
 * any order of dimensions. On failure a fresh y may be half written. */
haul_status haul__cross(const haul__call *c, haul_tensor *y, haul_tensor *x, bool fresh, const haul__copy_note *note);

#endif
