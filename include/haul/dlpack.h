/* Tensors from and for other libraries, by DLPack: NumPy, PyTorch and others use each other's arrays without a copy.
 *
 *     static double sum_of(struct DLManagedTensorVersioned *array)
 *     {
 *         return haul_item(haul_sum(haul_from_dlpack(array)));
 *     }
 *
 * The structs are those of DLPack's own header, which this one does not need (DLPack 1.0,
 * https://dmlc.github.io/dlpack/latest/c_api.html).
 *
 * The memory is the CPU's, which includes pinned memory. Tensors of other devices are copied there first, by
 * haul_to(x, haul_cpu()). */
#ifndef HAUL_DLPACK_H
#define HAUL_DLPACK_H

#include <haul/base.h>
#include <haul/tensor.h>

HAUL_BEGIN

struct DLManagedTensor;          /* of DLPack before 1.0 */
struct DLManagedTensorVersioned; /* of DLPack 1.0 and later */

/* x for another library, without a copy: a view keeps its strides. Waits until the elements are computed. The caller,
 * or the library that gets the result, calls its `deleter`, once and on any thread; until then the memory stays valid,
 * also after x is gone. NULL on failure.
 *
 * A tensor whose elements share memory, because it was expanded, is marked read-only. Writes of the other library have
 * the rules of haul_wrap_host: haul_backward does not notice them.
 *
 * Fails with HAUL_DEVICE if x is not on the CPU, with HAUL_STATE if x requires a gradient or was computed from a tensor
 * that does (haul_detach), and in dry runs and recorded steps. */
HAUL_API struct DLManagedTensorVersioned *haul_to_dlpack(haul_tensor *x);

/* The same for libraries that only know DLPack before 1.0, which has no read-only mark: fails with HAUL_STATE if x was
 * expanded (haul_contiguous). */
HAUL_API struct DLManagedTensor *haul_to_dlpack_legacy(haul_tensor *x);

/* A tensor on the CPU over memory of another library, without a copy: strides stay. It takes `tensor` over: calls its
 * deleter when nothing uses the memory any more, on any thread, and also if this call fails. The elements must have
 * been written when it is called. Writes of the other library have the rules of haul_wrap_host.
 *
 * Memory that is marked read-only is copied, and the deleter is called at once. Bools other than 0 and 1 become 1, as
 * with haul_wrap_host.
 *
 * Fails with HAUL_UNSUPPORTED for another major version than 1, for other memory than the CPU's and pinned memory, for
 * dtypes that Haul does not have, vectors of more than one lane, more than HAUL_MAX_DIMS dimensions, and negative
 * strides; with HAUL_INVALID_ARGUMENT for sizes and addresses that cannot be. */
HAUL_API haul_tensor *haul_from_dlpack(struct DLManagedTensorVersioned *tensor);

/* The same for a tensor of DLPack before 1.0, which is never read-only. */
HAUL_API haul_tensor *haul_from_dlpack_legacy(struct DLManagedTensor *tensor);

HAUL_END

#endif
