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
 * The memory is that of the CPU, which includes pinned memory, or of a CUDA device. Tensors of other devices are copied
 * first, by haul_to(x, haul_cpu()): a buffer of OpenCL belongs to the context in which it was made.
 *
 * On a CUDA device no stream has to be passed on, because the host waits: haul_to_dlpack for the elements of x,
 * haul_from_dlpack and the deleters of Haul for everything on the device, whoever submitted it. In between, work of
 * Haul and of the other library on the same memory has no order: call haul_device_sync(device) before the other library
 * uses what Haul wrote, and synchronise the other library before Haul uses what that wrote. */
#ifndef HAUL_DLPACK_H
#define HAUL_DLPACK_H

#include <haul/base.h>
#include <haul/tensor.h>

HAUL_BEGIN

struct DLManagedTensor;          /* of DLPack before 1.0 */
struct DLManagedTensorVersioned; /* of DLPack 1.0 and later */

/* x for another library, without a copy: a view keeps its strides. Waits until the elements are computed. The caller,
 * or the library that gets the result, calls its `deleter`, once and on any thread; until then the memory stays valid
 * and in its place, also after x is gone: it is not spilled. The deleter may be called while work of the other library
 * is under way. In the child of a fork it frees only what the host has. NULL on failure.
 *
 * A tensor whose elements share memory, because it was expanded, is marked read-only. Writes of the other library have
 * the rules of haul_wrap_host: haul_backward does not notice them.
 *
 * Fails with HAUL_DEVICE if x is neither on the CPU nor on a CUDA device, with HAUL_STATE if x requires a gradient or
 * was computed from a tensor that does (haul_detach), and in dry runs and recorded steps. */
HAUL_API struct DLManagedTensorVersioned *haul_to_dlpack(haul_tensor *x);

/* The same for libraries that only know DLPack before 1.0, which has no read-only mark: fails with HAUL_STATE if x was
 * expanded (haul_contiguous). */
HAUL_API struct DLManagedTensor *haul_to_dlpack_legacy(haul_tensor *x);

/* A tensor over memory of another library, without a copy: strides stay. It is on the CPU, or on the CUDA device with
 * the number that `tensor` has. It takes `tensor` over: calls its deleter when nothing uses the memory any more, on any
 * thread, and also if this call fails. The work that writes the elements must have been submitted when it is called,
 * and on the CPU be done. Writes of the other library have the rules of haul_wrap_host.
 *
 * Memory that is marked read-only is copied, and the deleter is called at once. Bools other than 0 and 1 become 1, as
 * with haul_wrap_host. Memory of a CUDA device is not Haul's: limits, statistics and plans do not count it, and it is
 * not spilled.
 *
 * Fails with HAUL_UNSUPPORTED for another major version than 1, for other memory than that of the CPU, pinned memory
 * and that of CUDA, for dtypes that Haul does not have, vectors of more than one lane, more than HAUL_MAX_DIMS
 * dimensions, and negative strides; with HAUL_DEVICE for a device that Haul does not find; with HAUL_INVALID_ARGUMENT
 * for sizes and addresses that cannot be, and for memory that is not the device's by what its driver says. */
HAUL_API haul_tensor *haul_from_dlpack(struct DLManagedTensorVersioned *tensor);

/* The same for a tensor of DLPack before 1.0, which is never read-only. */
HAUL_API haul_tensor *haul_from_dlpack_legacy(struct DLManagedTensor *tensor);

HAUL_END

#endif
