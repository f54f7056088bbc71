/* Device memory and pinned memory: blocks of the host's, each by itself, so that ASan guards its ends; in other builds
 * bytes behind it are looked at when it is freed. */
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 256, GUARD = 64, GUARD_BYTE = 0xB5, PAGE = 2 << 20 };

#if defined(__SANITIZE_ADDRESS__)
enum { GUARDED = 0 };
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
enum { GUARDED = 0 };
#else
enum { GUARDED = GUARD };
#endif
#else
enum { GUARDED = GUARD };
#endif

/* Sorted by address. */
static standin_allocation *table;
static size_t              count, capacity;
static size_t              pinned_bytes;

/* The last entry that is not behind `at`, or the table's length. */
static size_t position(const char *at)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if ((uintptr_t)table[middle].at <= (uintptr_t)at)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 ? low - 1 : count;
}

static const standin_allocation *find(const char *at, size_t size)
{
    size_t i = position(at), offset;
    if (i == count)
        return NULL;
    offset = (size_t)((uintptr_t)at - (uintptr_t)table[i].at);
    return offset <= table[i].size && size <= table[i].size - offset ? &table[i] : NULL;
}

const standin_allocation *standin_find(CUdeviceptr at, size_t size)
{
    const standin_allocation *a = (at & STANDIN_TAG_MASK) == STANDIN_TAG ? find(STANDIN_UNTAG(at), size) : NULL;
    return a && !a->pinned ? a : NULL;
}

const standin_allocation *standin_find_pinned(const void *at, size_t size)
{
    const standin_allocation *a = find(at, size);
    return a && a->pinned ? a : NULL;
}

void *standin_shadow(const standin_allocation *a, size_t size)
{
    standin_allocation *entry = &table[a - table];
    if (!entry->shadow)
        entry->shadow = calloc(entry->size, size);
    return entry->shadow;
}

static void drop(const standin_allocation *a)
{
    free(a->at);
    free(a->shadow);
}

static bool make_room(void)
{
    size_t              larger = capacity ? 2 * capacity : 64;
    standin_allocation *more;
    if (count < capacity)
        return true;
    more = realloc(table, larger * sizeof *more);
    if (!more)
        return false;
    table = more;
    capacity = larger;
    return true;
}

static CUresult allocate(CUcontext context, size_t size, bool pinned, char **out)
{
    void  *at = NULL;
    size_t i;
    if (size == 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (size > SIZE_MAX - GUARDED || !make_room() || posix_memalign(&at, ALIGNMENT, size + GUARDED) != 0)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memset(at, 0xFF, size); /* NaN in every floating-point format */
    if (GUARDED)
        memset((char *)at + size, GUARD_BYTE, GUARDED);
    i = position(at);
    i = i == count && (count == 0 || (uintptr_t)table[0].at > (uintptr_t)at) ? 0 : i + 1;
    memmove(table + i + 1, table + i, (count - i) * sizeof *table);
    table[i] = (standin_allocation){at, size, context, pinned, NULL};
    count++;
    *out = at;
    return CUDA_SUCCESS;
}

/* True if nothing was written behind it. */
static bool intact(const standin_allocation *a)
{
    for (const char *at = a->at + a->size, *end = at + GUARDED; at < end; at++)
        if ((unsigned char)*at != GUARD_BYTE) {
            fprintf(stderr, "standin: something wrote behind an allocation of %zu bytes, at byte %zu\n", a->size,
                    (size_t)(at - a->at));
            return false;
        }
    return true;
}

/* What a driver takes for a request: whole pages, of which small requests share one. */
static size_t taken_for(size_t size)
{
    return size > PAGE / 2 ? (size + PAGE - 1) / PAGE * PAGE : size;
}

/* `a` points into the table. */
static CUresult release(const standin_allocation *a)
{
    size_t             i = (size_t)(a - table);
    standin_allocation gone = *a;
    CUresult           code = CUDA_SUCCESS;
    standin_drain_users(gone.at, gone.size);
    if (!intact(&gone)) {
        standin_lose(gone.context, CUDA_ERROR_ILLEGAL_ADDRESS);
        code = CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    memmove(table + i, table + i + 1, (count - i - 1) * sizeof *table);
    count--;
    if (gone.pinned)
        pinned_bytes -= gone.size;
    else
        gone.context->used -= taken_for(gone.size);
    drop(&gone);
    return code;
}

void standin_forget_memory(void)
{
    for (size_t i = 0; i < count; i++)
        drop(&table[i]);
    count = 0;
    pinned_bytes = 0;
}

static size_t room(CUcontext context)
{
    size_t taken = context->used + context->spent + standin_set.foreign;
    return taken < standin_set.memory ? standin_set.memory - taken : 0;
}

/* ---- the driver's functions ---- */

CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
    CUresult code = standin_enter(CALL_cuMemGetInfo_v2, IN_CONTEXT);
    if (code == CUDA_SUCCESS) {
        *free_bytes = room(standin_context());
        *total = standin_set.memory;
    }
    return standin_leave(code);
}

CUresult cuMemAlloc_v2(CUdeviceptr *out, size_t size)
{
    CUresult  code = standin_enter(CALL_cuMemAlloc_v2, IN_CONTEXT);
    CUcontext context = standin_context();
    char     *at = NULL;
    if (code == CUDA_SUCCESS && (size > SIZE_MAX - PAGE || taken_for(size) > room(context)))
        code = CUDA_ERROR_OUT_OF_MEMORY;
    if (code == CUDA_SUCCESS)
        code = allocate(context, size, false, &at);
    if (code == CUDA_SUCCESS) {
        context->used += taken_for(size);
        *out = STANDIN_TAG | (CUdeviceptr)context->device << 48 | (CUdeviceptr)(uintptr_t)at;
    }
    return standin_leave(code);
}

CUresult cuMemFree_v2(CUdeviceptr at)
{
    CUresult                  code = standin_enter(CALL_cuMemFree_v2, IN_CONTEXT);
    const standin_allocation *a = code == CUDA_SUCCESS ? standin_find(at, 0) : NULL;
    if (code == CUDA_SUCCESS && at != 0)
        code = a && a->at == STANDIN_UNTAG(at) ? release(a) : CUDA_ERROR_INVALID_VALUE;
    return standin_leave(code);
}

CUresult cuMemHostAlloc(void **out, size_t size, unsigned flags)
{
    CUresult code = standin_enter(CALL_cuMemHostAlloc, IN_CONTEXT);
    char    *at = NULL;
    if (code == CUDA_SUCCESS && flags & ~(unsigned)CU_MEMHOSTALLOC_PORTABLE)
        code = CUDA_ERROR_INVALID_VALUE;
    if (code == CUDA_SUCCESS)
        code = allocate(standin_context(), size, true, &at);
    if (code == CUDA_SUCCESS) {
        pinned_bytes += size;
        *out = at;
    }
    return standin_leave(code);
}

CUresult cuMemFreeHost(void *at)
{
    CUresult                  code = standin_enter(CALL_cuMemFreeHost, IN_CONTEXT);
    const standin_allocation *a = code == CUDA_SUCCESS ? standin_find_pinned(at, 0) : NULL;
    if (code == CUDA_SUCCESS)
        code = a && a->at == at ? release(a) : CUDA_ERROR_INVALID_VALUE;
    return standin_leave(code);
}

CUresult cuPointerGetAttribute(void *out, CUpointer_attribute attribute, CUdeviceptr at)
{
    CUresult code = standin_enter(CALL_cuPointerGetAttribute, IN_CONTEXT);
    void    *host = NULL;
    memcpy(&host, &at, sizeof host);
    const standin_allocation *device = code == CUDA_SUCCESS ? standin_find(at, 1) : NULL;
    const standin_allocation *pinned = code == CUDA_SUCCESS && !device ? standin_find_pinned(host, 1) : NULL;
    if (device && attribute == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR)
        *(CUdeviceptr *)out = at - (CUdeviceptr)((char *)STANDIN_UNTAG(at) - device->at);
    else if (device && attribute == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
        *(int *)out = device->context->device;
    else if ((device || pinned) && attribute == CU_POINTER_ATTRIBUTE_MEMORY_TYPE)
        *(unsigned *)out = device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
    else if (code == CUDA_SUCCESS)
        code = CUDA_ERROR_INVALID_VALUE;
    return standin_leave(code);
}

int64_t standin_live_pinned(void)
{
    int64_t bytes;
    (void)standin_enter(CALLS, NOTHING);
    bytes = (int64_t)pinned_bytes;
    (void)standin_leave(CUDA_SUCCESS);
    return bytes;
}
