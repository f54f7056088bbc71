/* A stand-in for NVIDIA's driver, for tests of the cuda backend on machines without a GPU: libcuda.so.1, libnvrtc.so.13
 * and libnvidia-ml.so.1 in build/tests/standin. HAUL_CUDA_LIBRARIES=build/tests/standin makes the backend load them.
 *
 * NVRTC's part compiles kernel text with the host's C compiler; the driver's part runs it, one user-level context a
 * CUDA thread, so that __syncthreads, shuffles, shared memory and atomics work. In build/tests/standin/ptx it is
 * another NVRTC, which has NVIDIA's make PTX; the driver's part executes that (ptx/ptx.h). What the stand-in is strict
 * about:
 *
 * - Memory. Device memory is apart from host memory: following a device address on the host faults. Copies in the wrong
 *   direction, outside an allocation or of freed memory are CUDA_ERROR_INVALID_VALUE. New memory holds NaN.
 *   A pointer that a kernel's device must not follow is CUDA_ERROR_ILLEGAL_ADDRESS; so is having written past the end
 * of an allocation, seen when it is freed (in builds with ASan the kernel's line is reported).
 * - Order. Work runs as late as the rules allow: whoever forgets to wait, sees it. Copies from pageable memory take its
 *   bytes before they return, copies to it are complete when they return; pinned memory is read and written late. The
 *   NULL stream is refused.
 * - Contexts. A function that needs a current context refuses to work without; kernels and events are not mixed across
 *   contexts. After a fault in a kernel its context is lost: every later call returns the fault.
 *
 * The environment, read when the libraries are loaded and by standin_restart:
 *
 *   STANDIN_ORDER=late|early|random  when work runs: when waited for; at once; a random part of it at every call
 *   STANDIN_SEED=n                   for random
 *   STANDIN_DEVICES=n                default 1
 *   STANDIN_LATENCY=ns               that a copy from or to the host takes, and
 *   STANDIN_BANDWIDTH=bytes          a second that it carries then; default 0: none, and as fast as memory
 *   STANDIN_MEMORY=bytes             of each device, default 1 GiB
 *   STANDIN_FOREIGN=bytes            of them held by another process, 4242
 *   STANDIN_CONTAINER=bytes          NVML lists this process under another number, with so many bytes
 *   STANDIN_SENSORS=1                devices have the memory of larger GPUs that others use, for haul top
 *   STANDIN_CONTEXT=bytes            that a context takes of a device, and
 *   STANDIN_MODULE=bytes             that a loaded module takes; default 0
 *   STANDIN_CAPABILITY=9.0           compute capability
 *   STANDIN_DRIVER=13000             the CUDA version of the driver
 *   STANDIN_COMPUTE_MODE=0|2|3       who may use the devices: all, none, one process at a time; default 0
 *   STANDIN_PEER=0|1                 whether devices can access each other, default 1
 *   STANDIN_NO_DEVICE=1              cuInit finds none
 *   STANDIN_INIT=code                the result of cuInit
 *   STANDIN_FAIL=function:n[:code],  the n-th call of the function fails (0: every one); by default with the code that
 *                                    fits it best. CUDA_ERROR_ILLEGAL_ADDRESS (700) and its like lose the context
 *                                    1005 from cusolverDn*syevd or *gesvd: the matrix gets info 5
 *   STANDIN_NCCL_BREAK=rank:n        an asynchronous error of NCCL (nccl.c)
 *   STANDIN_PLANT=1:k_relu:2:5       the second launch on device 1 of a kernel whose name begins so gets one bit wrong,
 * in element 5 of its first buffer, of 4 bytes each STANDIN_CC, STANDIN_CFLAGS       the compiler of kernels, and its
 * optimisation flags (-O1) STANDIN_KEEP=1                   modules' files stay in TMPDIR, for debuggers
 *
 * Tests find what follows by dlsym; those of the first group are in each of the libraries, for its own functions. */
#ifndef HAUL_TESTS_STANDIN_H
#define HAUL_TESTS_STANDIN_H

#include <stddef.h>
#include <stdint.h>

#define STANDIN_EXPORT __attribute__((visibility("default")))

/* Calls of a function since the start or the last reset; -1 for one that is not known. */
STANDIN_EXPORT long standin_count(const char *function);
STANDIN_EXPORT void standin_reset_counts(void);
/* A new plan in place of STANDIN_FAIL's, counted from here; NULL: nothing fails. False for a plan that is not one. */
STANDIN_EXPORT int standin_fail(const char *plan);

/* libcuda.so.1: as if the library were loaded anew: the environment is read again, and whatever there was is gone. */
STANDIN_EXPORT void standin_restart(void);
/* Bytes allocated on a device, and pinned on the host. */
STANDIN_EXPORT int64_t standin_live(int device);
STANDIN_EXPORT int64_t standin_live_pinned(void);
/* Commands that have not run. */
STANDIN_EXPORT int64_t standin_pending(void);
/* How often memory was freed, or a stream destroyed, that commands still needed: CUDA waits for them there. */
STANDIN_EXPORT long standin_implicit_waits(void);

/* libcuda.so.1, for the stand-ins of libraries that are linked with it. The host address of `bytes` at a device
 * address; NULL unless they are in one allocation of the stream's device. */
struct CUstream_st;
STANDIN_EXPORT void *standin_place(struct CUstream_st *stream, unsigned long long at, size_t bytes);
/* run(data) in its turn on the stream, on a copy of `size` bytes of data; `places` are those it uses. Both give a
 * CUresult; that of run, if it is an error, loses the context. The context must be the current one. */
enum { STANDIN_MAX_PLACES = 8 };
STANDIN_EXPORT int standin_submit(struct CUstream_st *stream, int (*run)(void *), const void *data, size_t size,
                                  void *const *places, int count);

#endif
