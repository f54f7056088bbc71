/* A GPU's streams, the commands on them, and events between them. */
#include <string.h>

#include "backends/cuda/cuda.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "core/error.h"

/* Threads in a block; fewer if the items would not fill the multiprocessors otherwise. */
#define LARGE_BLOCK 256u
#define SMALL_BLOCK 64u
/* The most blocks per multiprocessor: enough to keep it busy while some wait for memory. Kernels stride over the
 * remaining items. */
#define BLOCKS_PER_UNIT 32u
#define WARP            32u

/* Streams that do not wait for the default stream, which other libraries may use. */
haul_status haul__cuda_stream_open(haul_device *device, void **queue)
{
    CUstream                  stream = NULL;
    CUresult                  code;
    const haul__cuda_spending spent = haul__cuda_spend_begin(device);
    HAUL__CU_CALL(code, haul__cuda_of(device), StreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    haul__cuda_spend_end(device, &spent);
    *queue = stream;
    return haul__cuda_check(device, "cuStreamCreate", code);
}

void haul__cuda_stream_close(haul_device *device, void *queue)
{
    CUresult code;
    HAUL__CU_CALL(code, haul__cuda_of(device), StreamSynchronize(queue));
    HAUL__CU_CALL(code, haul__cuda_of(device), StreamDestroy(queue));
    (void)code;
}

/* ---- copies ---- */

static CUdeviceptr address_of(const haul__region *r)
{
    return haul__cuda_address(&r->storage->buffer) + r->offset;
}

static haul_status write(haul__stream *s, const haul__command *c)
{
    CUresult code;
    HAUL__CU_CALL(code, haul__cuda_of(s->device),
                  MemcpyHtoDAsync(address_of(&c->buffers[0]), haul__command_source(c), c->bytes, haul__cuda_stream(s)));
    return haul__cuda_check(s->device, "cuMemcpyHtoDAsync", code);
}

static haul_status read(haul__stream *s, const haul__command *c)
{
    CUresult code;
    HAUL__CU_CALL(code, haul__cuda_of(s->device),
                  MemcpyDtoHAsync(haul__command_target(c), address_of(&c->buffers[c->buffer_count - 1]), c->bytes,
                                  haul__cuda_stream(s)));
    return haul__cuda_check(s->device, "cuMemcpyDtoHAsync", code);
}

static haul_status copy(haul__stream *s, const haul__command *c)
{
    CUresult code;
    HAUL__CU_CALL(
        code, haul__cuda_of(s->device),
        MemcpyDtoDAsync(address_of(&c->buffers[0]), address_of(&c->buffers[1]), c->bytes, haul__cuda_stream(s)));
    return haul__cuda_check(s->device, "cuMemcpyDtoDAsync", code);
}

/* If the GPUs are not linked, the layer above copies by way of the host. */
static haul_status peer_copy(haul__stream *s, const haul__command *c)
{
    const haul_device       *from = c->buffers[1].storage->device;
    const haul__cuda_device *here = haul__cuda_of(s->device), *there = haul__cuda_of(from);
    HAUL__ASSERT(from != s->device && 0 <= from->index && from->index < HAUL__MAX_DEVICES);
    CUresult code;
    if (!atomic_load(&here->peers[from->index]))
        return HAUL_UNSUPPORTED;
    HAUL__CU_CALL(code, here,
                  MemcpyPeerAsync(address_of(&c->buffers[0]), here->context, address_of(&c->buffers[1]), there->context,
                                  c->bytes, haul__cuda_stream(s)));
    return haul__cuda_check(s->device, "cuMemcpyPeerAsync", code);
}

/* Words of 8 bytes are filled as two columns of 4 bytes. A kernel fills many of them, if it can (.fills_words). */
static CUresult fill_pairs(const haul__cuda_device *d, CUdeviceptr to, size_t count, const void *pattern,
                           CUstream stream)
{
    unsigned halves[2];
    CUresult code;
    HAUL__ASSERT(count > 0 && to % 4 == 0);
    memcpy(halves, pattern, sizeof halves);
    if (halves[0] == halves[1]) {
        HAUL__CU_CALL(code, d, MemsetD32Async(to, halves[0], 2 * count, stream));
        return code;
    }
    for (int i = 0; i < 2; i++, to += 4) {
        if (count == 1)
            HAUL__CU_CALL(code, d, MemsetD32Async(to, halves[i], 1, stream));
        else
            HAUL__CU_CALL(code, d, MemsetD2D32Async(to, 8, halves[i], 1, count, stream));
        if (code != CUDA_SUCCESS)
            break;
    }
    return code;
}

static haul_status fill(haul__stream *s, const haul__command *c)
{
    const haul__cuda_device *d = haul__cuda_of(s->device);
    CUdeviceptr              at = address_of(&c->buffers[0]);
    CUstream                 stream = haul__cuda_stream(s);
    const void              *pattern = &c->pattern;
    size_t                   count = c->bytes / c->pattern_size;
    HAUL__ASSERT(c->bytes % c->pattern_size == 0 && at % c->pattern_size == 0);
    unsigned char  byte;
    unsigned short half;
    unsigned       word;
    CUresult       code;
    if (c->pattern_size == 1) {
        memcpy(&byte, pattern, sizeof byte);
        HAUL__CU_CALL(code, d, MemsetD8Async(at, byte, count, stream));
    } else if (c->pattern_size == 2) {
        memcpy(&half, pattern, sizeof half);
        HAUL__CU_CALL(code, d, MemsetD16Async(at, half, count, stream));
    } else if (c->pattern_size == 4) {
        memcpy(&word, pattern, sizeof word);
        HAUL__CU_CALL(code, d, MemsetD32Async(at, word, count, stream));
    } else {
        code = fill_pairs(d, at, count, pattern, stream);
    }
    return haul__cuda_check(s->device, "cuMemsetAsync", code);
}

/* ---- launches ---- */

static void choose_grid(const haul__cuda_device *d, const haul__cuda_kernel *kernel, const haul__command *launch,
                        unsigned *grid, unsigned *block)
{
    HAUL__ASSERT(launch->items > 0 && d->units > 0);
    uint64_t threads = (uint64_t)launch->items * (launch->lanes ? WARP : 1), blocks;
    *block = threads < (uint64_t)d->units * LARGE_BLOCK ? SMALL_BLOCK : LARGE_BLOCK;
    while (*block > kernel->max_block && *block > WARP)
        *block /= 2;
    blocks = (threads - 1) / *block + 1;
    HAUL__ASSERT(*block >= WARP && blocks > 0);
    *grid = blocks < (uint64_t)d->units * BLOCKS_PER_UNIT ? (unsigned)blocks : d->units * BLOCKS_PER_UNIT;
}

static haul_status launch_kernel(haul__stream *s, const haul__command *launch)
{
    const haul__cuda_device *d = haul__cuda_of(s->device);
    const haul__cuda_kernel *kernel = launch->kernel->handle;
    CUdeviceptr              addresses[HAUL__MAX_BUFFERS + 1];
    void                    *arguments[HAUL__MAX_BUFFERS + 2], *params;
    unsigned                 grid, block;
    CUresult                 code;
    int                      count = launch->buffer_count;
    HAUL__ASSERT(0 <= count && count <= HAUL__MAX_BUFFERS && (!launch->checks || launch->record));
    HAUL__ASSERT(launch->params_size >= sizeof(int64_t)); /* the number of work items comes first */
    for (int i = 0; i < count; i++)
        addresses[i] = haul__cuda_address(&launch->buffers[i].storage->buffer);
    if (launch->checks) /* the kernel has one more buffer */
        addresses[count++] = haul__cuda_address(launch->record);
    for (int i = 0; i < count; i++)
        arguments[i] = &addresses[i];
    memcpy(&params, &launch->params, sizeof params); /* the driver only reads it */
    arguments[count] = params;
    choose_grid(d, kernel, launch, &grid, &block);
    HAUL__CU_CALL(code, d,
                  LaunchKernel(kernel->function, grid, 1, 1, block, 1, 1, 0, haul__cuda_stream(s), arguments, NULL));
    return haul__cuda_check(s->device, "cuLaunchKernel", code);
}

/* ---- all kinds ---- */

haul_status haul__cuda_submit(haul__stream *s, const haul__command *c)
{
    static haul__command_fn *const functions[HAUL__COMMAND_CALLBACK] = {
        [HAUL__COMMAND_LAUNCH] = launch_kernel, [HAUL__COMMAND_COPY] = copy,
        [HAUL__COMMAND_WRITE] = write,          [HAUL__COMMAND_READ] = read,
        [HAUL__COMMAND_PEER] = peer_copy,       [HAUL__COMMAND_FILL] = fill,
    };
    return haul__command_run(functions, s, c);
}

/* ---- waiting ---- */

haul_status haul__cuda_sync(haul__stream *s, void *event)
{
    const haul__cuda_event *waited = event;
    CUresult                code;
    HAUL__ASSERT(!waited || waited->event);
    if (waited) {
        HAUL__CU_CALL(code, haul__cuda_of(s->device), EventSynchronize(waited->event));
        return haul__cuda_check(s->device, "cuEventSynchronize", code);
    }
    HAUL__CU_CALL(code, haul__cuda_of(s->device), StreamSynchronize(haul__cuda_stream(s)));
    return haul__cuda_check(s->device, "cuStreamSynchronize", code);
}

haul_status haul__cuda_finish(haul_device *device)
{
    CUresult code;
    HAUL__CU_CALL(code, haul__cuda_of(device), CtxSynchronize());
    return haul__cuda_check(device, "cuCtxSynchronize", code);
}

/* Creating an event costs more than recording one, so finished events are reused. */
static haul_status take_event(haul_device *device, haul__cuda_event **out)
{
    haul__cuda_device *d = haul__cuda_of(device);
    haul__cuda_event  *event;
    CUresult           code;
    pthread_mutex_lock(&d->events_lock);
    event = d->idle;
    if (event)
        d->idle = event->next;
    pthread_mutex_unlock(&d->events_lock);
    if (!event) {
        event = haul__calloc(1, sizeof *event);
        if (!event)
            return haul__fail_memory(device->name, sizeof *event);
        HAUL__CU_CALL(code, d, EventCreate(&event->event, CU_EVENT_DISABLE_TIMING));
        if (code != CUDA_SUCCESS) {
            haul__free(event);
            return haul__cuda_check(device, "cuEventCreate", code);
        }
    }
    HAUL__ASSERT(event->event);
    *out = event;
    return HAUL_OK;
}

void haul__cuda_event_free(haul_device *device, void *event)
{
    haul__cuda_device *d = haul__cuda_of(device);
    haul__cuda_event  *done = event;
    HAUL__ASSERT(done->event);
    pthread_mutex_lock(&d->events_lock);
    done->next = d->idle;
    d->idle = done;
    pthread_mutex_unlock(&d->events_lock);
}

haul_status haul__cuda_event_record(haul__stream *s, void **event)
{
    haul__cuda_event *made = NULL;
    haul_status       status = take_event(s->device, &made);
    CUresult          code;
    if (status)
        return status;
    HAUL__CU_CALL(code, haul__cuda_of(s->device), EventRecord(made->event, haul__cuda_stream(s)));
    if (code != CUDA_SUCCESS) {
        haul__cuda_event_free(s->device, made);
        return haul__cuda_check(s->device, "cuEventRecord", code);
    }
    *event = made;
    return HAUL_OK;
}

haul_status haul__cuda_event_wait(haul__stream *s, void *event)
{
    const haul__cuda_event *waited = event;
    CUresult                code;
    HAUL__CU_CALL(code, haul__cuda_of(s->device), StreamWaitEvent(haul__cuda_stream(s), waited->event, 0));
    return haul__cuda_check(s->device, "cuStreamWaitEvent", code);
}

haul_status haul__cuda_event_query(haul_device *device, void *event, bool *reached)
{
    const haul__cuda_event *asked = event;
    CUresult                code;
    HAUL__CU_CALL(code, haul__cuda_of(device), EventQuery(asked->event));
    *reached = code == CUDA_SUCCESS;
    return code == CUDA_ERROR_NOT_READY ? HAUL_OK : haul__cuda_check(device, "cuEventQuery", code);
}
