/* The funnel: what every operation goes through.
 *
 * A structured operation is written as
 *
 *     haul_tensor *haul_thing(haul_tensor *x, haul_tensor *w)
 *     {
 *         haul_tensor *in[] = {x, w};
 *         haul_device *device = haul__place("haul_thing", in, (const char *const[]){"x", "w"}, 2);   check, place
 *         if (!device) return NULL;
 *         ... check shapes and dtypes, haul__fail(...) ...                                         infer
 *         haul_tensor *y = haul__result("haul_thing", device, dtype, &shape);                       allocate
 *         if (!y || haul__run("haul_thing", device, HAUL__K_thing, dtype, &y, 1, in, 2, &p, sizeof p, p.items, 1024))
 *             return NULL;                                                                         emit commands
 *         return haul__finish(y, &(haul__record){...});                                            graph
 *     }
 *
 * and where it needs temporaries (contiguous copies, casts) it opens a scope first and ends with haul_scope_return, so
 * that they go with it. Shape rules never touch data; on the meta device haul__run does nothing. */
#ifndef HAUL_ENGINE_DISPATCH_H
#define HAUL_ENGINE_DISPATCH_H

#include <haul/haul.h>

#include "core/alloc.h"
#include "core/error.h"
#include "core/shape.h"
#include "core/tensor.h"
#include "core/thread.h"
#include "device/device.h"
#include "engine/copy.h"
#include "engine/graph.h"
#include "engine/operation.h"
#include "kernels/kernels.h"
#include "memory/allocator.h"
#include "transfer/transfer.h"

/* Check that no operand is NULL (HAUL_NONE is skipped) and bring them to one device by the thread's policy, replacing
 * entries of `in` by moved tensors under MOVE, and to the dtype that autocast wants for the operation (autocast.def),
 * replacing entries by casts. Returns the device; NULL on failure. */
haul_device *haul__place(const char *operation, haul_tensor **in, const char *const *names, int count);

/* A fresh row-major tensor of the innermost scope; its elements are not set. NULL on failure. Refuses dtypes the device
 * cannot compute with. */
haul_tensor *haul__result(const char *operation, haul_device *device, haul_dtype dtype, const haul_shape *shape);

/* As above with these strides, which leave no gaps; NULL: row-major. */
haul_tensor *haul__result_strided(const char *operation, haul_device *device, haul_dtype dtype, const haul_shape *shape,
                                  const int64_t *strides);

/* As above with its dimensions in memory in the order in which `like`, which has as many, has them. */
haul_tensor *haul__result_like(const char *operation, haul_device *device, haul_dtype dtype, const haul_shape *shape,
                               const haul_tensor *like);

/* The same for what will be copied from or to `source`: on the CPU in memory pinned for it, where it has such. like ==
 * NULL: row-major. */
haul_tensor *haul__result_from(const char *operation, haul_device *device, haul_device *source, haul_dtype dtype,
                               const haul_shape *shape, const haul_tensor *like);

/* x without gaps, [N, C, ...] with its channels innermost or row-major; or with its dimensions in memory in the order
 * in which `like`, of the same shape, has them. Itself or a copy, as a fresh handle; differentiable. */
haul_tensor *haul__in_format(const char *operation, haul_tensor *x, bool channels_last);
haul_tensor *haul__in_order_of(const char *operation, haul_tensor *x, const haul_tensor *like);

/* A fresh tensor [N, C, ...] in that format. */
haul_tensor *haul__result_in_format(const char *operation, haul_device *device, haul_dtype dtype,
                                    const haul_shape *shape, bool channels_last);

/* A view of x's storage, of the innermost scope, without graph. */
haul_tensor *haul__view_of(haul_tensor *x, const haul_shape *shape, const int64_t *strides, int64_t offset);

/* Launch kernel `id` for `dtype` with the outputs' and then the inputs' buffers. The params carry the element offsets
 * (haul_tensor.offset) of each. Nothing happens on meta, or for items == 0. */
haul_status haul__run(const char *operation, haul_device *device, int id, haul_dtype dtype, haul_tensor *const *outs,
                      int out_count, haul_tensor *const *ins, int in_count, const void *params, size_t params_size,
                      int64_t items, int64_t grain);

/* As above; `slots` are the params that change from step to step. */
haul_status haul__run_with_slots(const char *operation, haul_device *device, int id, haul_dtype dtype,
                                 haul_tensor *const *outs, int out_count, haul_tensor *const *ins, int in_count,
                                 const void *params, size_t params_size, const haul__slot_use *slots, int slot_count,
                                 int64_t items, int64_t grain);

/* May `out` be written in place? Checks NULL, shape, dtype, device, overlap of its own elements, and that no gradient
 * is being recorded through it; then counts its version up once the write was submitted (haul__written). */
haul_status haul__check_out(const char *operation, const haul_tensor *out, const haul_shape *shape, haul_dtype dtype,
                            const haul_device *device);
void        haul__written(haul_tensor *out);

/* x itself if it is row-major, else a row-major copy; always a handle of the innermost scope; differentiable. */
haul_tensor *haul__dense(haul_tensor *x);

/* Errors with the usual wording. */
haul_status haul__fail_shape(const char *operation, const char *argument, const haul_tensor *t, const char *wanted);
haul_status haul__fail_dtype(const char *operation, const char *argument, const haul_tensor *t, const char *wanted);

#endif
