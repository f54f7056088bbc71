/* Copies and fills. Memory must be in one allocation of the stream's device; host memory is pinned or pageable, which
 * decides when its bytes are taken or given. */
#include "driver.h"

#include <string.h>
#include <time.h>

static CUresult run_copy(standin_command *c)
{
    memmove(c->to, c->from, c->bytes);
    return CUDA_SUCCESS;
}

/* Over the link. */
static CUresult run_crossing(standin_command *c)
{
    uint64_t ns = standin_set.latency;
    if (standin_set.bandwidth)
        ns += (uint64_t)((double)c->bytes * 1e9 / (double)standin_set.bandwidth);
    if (ns)
        nanosleep(&(struct timespec){.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)}, NULL);
    return run_copy(c);
}

/* One element of each `stride` bytes; the first bytes of the pattern are its lowest, as in the machines this runs on.
 */
static CUresult run_fill(standin_command *c)
{
    for (size_t i = 0; i < c->bytes; i += c->stride)
        memcpy(c->to + i, &c->pattern, c->width);
    return CUDA_SUCCESS;
}

/* Device memory of that context, as the host sees it; NULL if it is not. */
static char *place(CUcontext context, CUdeviceptr at, size_t bytes)
{
    const standin_allocation *a = standin_find(at, bytes);
    return a && a->context == context ? STANDIN_UNTAG(at) : NULL;
}

static bool is_device_address(const void *at)
{
    return ((uintptr_t)at & STANDIN_TAG_MASK) == STANDIN_TAG;
}

static CUresult enqueue_copy(CUstream s, CUresult (*run)(standin_command *), char *to, const char *from, size_t bytes)
{
    standin_command *c = standin_command_new(run, 0);
    if (!c)
        return CUDA_ERROR_OUT_OF_MEMORY;
    c->to = to;
    c->from = from;
    c->bytes = bytes;
    return standin_enqueue(s, c);
}

/* Pageable bytes are the driver's before the call returns. */
static CUresult enqueue_staged(CUstream s, char *to, const void *from, size_t bytes)
{
    standin_command *c = standin_command_new(run_crossing, bytes);
    if (!c)
        return CUDA_ERROR_OUT_OF_MEMORY;
    c->to = to;
    c->from = memcpy(c->data, from, bytes);
    c->bytes = bytes;
    return standin_enqueue(s, c);
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream s)
{
    CUresult code = standin_enter(CALL_cuMemcpyHtoDAsync_v2, IN_CONTEXT);
    char    *target = NULL;
    if (code == CUDA_SUCCESS)
        code = standin_check_stream(s);
    if (code == CUDA_SUCCESS) {
        target = place(s->context, to, bytes);
        if (!target || !from || is_device_address(from))
            code = CUDA_ERROR_INVALID_VALUE;
    }
    if (code == CUDA_SUCCESS)
        code = standin_find_pinned(from, bytes) ? enqueue_copy(s, run_crossing, target, from, bytes)
                                                : enqueue_staged(s, target, from, bytes);
    return standin_leave(code);
}

CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream s)
{
    CUresult    code = standin_enter(CALL_cuMemcpyDtoHAsync_v2, IN_CONTEXT);
    const char *source = NULL;
    if (code == CUDA_SUCCESS)
        code = standin_check_stream(s);
    if (code == CUDA_SUCCESS) {
        source = place(s->context, from, bytes);
        if (!source || !to || is_device_address(to))
            code = CUDA_ERROR_INVALID_VALUE;
    }
    if (code == CUDA_SUCCESS)
        code = enqueue_copy(s, run_crossing, to, source, bytes);
    if (code == CUDA_SUCCESS && !standin_find_pinned(to, bytes)) { /* pageable: complete when it returns */
        standin_drain(s, UINT64_MAX);
        code = s->context->lost;
    }
    return standin_leave(code);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream s)
{
    CUresult    code = standin_enter(CALL_cuMemcpyDtoDAsync_v2, IN_CONTEXT);
    char       *target = NULL;
    const char *source = NULL;
    if (code == CUDA_SUCCESS)
        code = standin_check_stream(s);
    if (code == CUDA_SUCCESS) {
        target = place(s->context, to, bytes);
        source = place(s->context, from, bytes);
        if (!target || !source)
            code = CUDA_ERROR_INVALID_VALUE;
    }
    if (code == CUDA_SUCCESS)
        code = enqueue_copy(s, run_copy, target, source, bytes);
    return standin_leave(code);
}

/* Works without peer access too: the driver goes through the host then. */
CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes,
                           CUstream s)
{
    CUresult    code = standin_enter(CALL_cuMemcpyPeerAsync, IN_CONTEXT);
    char       *target = NULL;
    const char *source = NULL;
    if (code == CUDA_SUCCESS)
        code = standin_check_stream(s);
    if (code == CUDA_SUCCESS && s->context != to_context && s->context != from_context)
        code = CUDA_ERROR_INVALID_HANDLE;
    if (code == CUDA_SUCCESS) {
        target = place(to_context, to, bytes);
        source = place(from_context, from, bytes);
        if (!target || !source)
            code = CUDA_ERROR_INVALID_VALUE;
    }
    if (code == CUDA_SUCCESS)
        code = enqueue_copy(s, run_copy, target, source, bytes);
    return standin_leave(code);
}

/* ---- fills ---- */

/* `count` elements of `width` bytes, `stride` bytes apart. */
static CUresult fill(CUresult code, CUdeviceptr to, unsigned pattern, size_t width, size_t stride, size_t count,
                     CUstream s)
{
    standin_command *c;
    char            *target;
    if (code == CUDA_SUCCESS)
        code = standin_check_stream(s);
    if (code != CUDA_SUCCESS || count == 0)
        return code;
    if (count > SIZE_MAX / stride || to % width != 0)
        return CUDA_ERROR_INVALID_VALUE;
    target = place(s->context, to, (count - 1) * stride + width);
    if (!target)
        return CUDA_ERROR_INVALID_VALUE;
    c = standin_command_new(run_fill, 0);
    if (!c)
        return CUDA_ERROR_OUT_OF_MEMORY;
    c->to = target;
    c->bytes = (count - 1) * stride + width;
    c->width = width;
    c->stride = stride;
    c->pattern = pattern;
    return standin_enqueue(s, c);
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream s)
{
    CUresult code = standin_enter(CALL_cuMemsetD8Async, IN_CONTEXT);
    return standin_leave(fill(code, to, value, 1, 1, count, s));
}

CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count, CUstream s)
{
    CUresult code = standin_enter(CALL_cuMemsetD16Async, IN_CONTEXT);
    return standin_leave(fill(code, to, value, 2, 2, count, s));
}

CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream s)
{
    CUresult code = standin_enter(CALL_cuMemsetD32Async, IN_CONTEXT);
    return standin_leave(fill(code, to, value, 4, 4, count, s));
}

/* Rows of `width` elements, `pitch` bytes apart. Only columns of single elements are needed, and offered. */
CUresult cuMemsetD2D32Async(CUdeviceptr to, size_t pitch, unsigned value, size_t width, size_t height, CUstream s)
{
    CUresult code = standin_enter(CALL_cuMemsetD2D32Async, IN_CONTEXT);
    if (code == CUDA_SUCCESS && (width != 1 || pitch % 4 != 0 || pitch == 0))
        code = CUDA_ERROR_INVALID_VALUE;
    return standin_leave(fill(code, to, value, 4, pitch, height, s));
}
