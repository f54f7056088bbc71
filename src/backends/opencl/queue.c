/* Streams of an OpenCL device: in-order command queues, the commands on them, and events between them. */
#include "backends/opencl/opencl.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "base/system/clock.h"
#include "core/error.h"
#include "events/events.h"

/* Runs per processor: enough that a slow one does not hold up the others, few enough that each is worth starting. */
#define CHUNKS_PER_UNIT 4
/* Groups per compute unit of a GPU: enough to keep it busy while some wait for memory; more would only cost their
 * start. */
#define GROUPS_PER_UNIT 32
#define SMALL_LOCAL     64
#define LARGE_LOCAL     256

static cl_command_queue queue_of(const haul__stream *s)
{
    return ((const haul__cl_queue *)s->queue)->queue;
}

/* The newest command has this event, or NULL. Takes the event over. */
static void set_last(haul__stream *s, cl_event event)
{
    haul__cl_queue *q = s->queue;
    if (q->last)
        haul__cl.ReleaseEvent(q->last);
    q->last = event;
}

static cl_mem memory_of(const haul__buffer *buffer)
{
    return buffer->handle;
}

/* The event of the command being submitted, if it is timed: this thread holds the stream's lock. */
static _Thread_local cl_event *timed;

/* Queues without timing work all the same. */
haul_status haul__cl_stream_open(haul_device *device, void **queue)
{
    haul__cl_device *d = haul__cl_of(device);
    haul__cl_queue  *q = haul__calloc(1, sizeof *q);
    cl_int           code;
    HAUL__ASSERT(d->context && d->service);
    if (!q)
        return haul__fail_memory(device->name, sizeof *q);
    q->queue = haul__cl.CreateCommandQueue(d->context, d->id, CL_QUEUE_PROFILING_ENABLE, &code);
    if (code == CL_INVALID_VALUE || code == CL_INVALID_QUEUE_PROPERTIES)
        q->queue = haul__cl.CreateCommandQueue(d->context, d->id, 0, &code);
    if (code == CL_SUCCESS)
        *queue = q;
    else
        haul__free(q);
    return haul__cl_check(device, "clCreateCommandQueue", code);
}

void haul__cl_stream_close(haul_device *device, void *queue)
{
    haul__cl_queue *q = queue;
    (void)device;
    haul__cl.Finish(q->queue);
    if (q->last)
        haul__cl.ReleaseEvent(q->last);
    haul__cl.ReleaseCommandQueue(q->queue);
    haul__free(q);
}

/* Copies across the link start at once, so that they overlap with the host's next work; other commands may accumulate
 * until a thread waits for them. */
static haul_status started(haul__stream *s, const char *call, cl_int code)
{
    if (code != CL_SUCCESS)
        return haul__cl_check(s->device, call, code);
    return haul__cl_check(s->device, "clFlush", haul__cl.Flush(queue_of(s)));
}

/* A copy across the link was enqueued with this event. */
static haul_status copied(haul__stream *s, const char *call, cl_int code, cl_event event)
{
    set_last(s, code == CL_SUCCESS ? event : NULL);
    if (code == CL_SUCCESS && timed && haul__cl.RetainEvent(event) == CL_SUCCESS)
        *timed = event;
    return started(s, call, code);
}

/* ---- launches ---- */

/* Processors: a run of elements for each work item, in groups of one, which on PoCL is 20 times faster than adjacent
 * elements for adjacent items. The local size is always given and always the same, and the grid is small and has no
 * offset: PoCL compiles a kernel again if these differ, so it does so only once. GPUs: enough groups to keep all units
 * busy, and smaller groups for little work. */
static void choose_grid(const haul_device *device, const haul__cl_kernel *kernel, const haul__command *launch,
                        size_t *global, size_t *local)
{
    const haul__cl_device *d = haul__cl_of(device);
    size_t items = (size_t)launch->items, grain = launch->grain > 0 ? (size_t)launch->grain : 1, groups, most;
    HAUL__ASSERT(launch->items > 0 && d->units > 0);
    if (!device->strided) {
        *local = 1;
        groups = (items - 1) / grain + 1;
        most = d->units * CHUNKS_PER_UNIT;
    } else {
        *local = items < d->units * LARGE_LOCAL ? SMALL_LOCAL : LARGE_LOCAL;
        while (*local > kernel->max_local)
            *local /= 2;
        groups = (items - 1) / *local + 1;
        most = d->units * GROUPS_PER_UNIT;
    }
    HAUL__ASSERT(*local > 0);
    *global = *local * (groups < most ? groups : most);
}

/* Mesa 22's rusticl leaves the padding at the end of a struct out of its size, and accepts only the rest. */
static cl_int set_params(cl_kernel kernel, cl_uint index, const haul__command *launch)
{
    HAUL__ASSERT(launch->params_size >= sizeof(int64_t)); /* the number of work items comes first */
    cl_int code = haul__cl.SetKernelArg(kernel, index, launch->params_size, launch->params);
    for (size_t padding = 1; padding < 8 && padding < launch->params_size && code == CL_INVALID_ARG_SIZE; padding++)
        code = haul__cl.SetKernelArg(kernel, index, launch->params_size - padding, launch->params);
    return code;
}

/* Buffers in order, with `host` in the place of one in host memory, the record of a kernel that checks indices, then
 * the params. */
static cl_int set_arguments(cl_kernel kernel, const haul__command *launch, cl_mem host, const char **call)
{
    cl_int code = CL_SUCCESS;
    int    count = launch->buffer_count;
    HAUL__ASSERT(0 <= count && count <= HAUL__MAX_BUFFERS && (!launch->checks || launch->record));
    *call = "clSetKernelArg";
    for (int i = 0; i < count && code == CL_SUCCESS; i++) {
        const haul__buffer *buffer = &launch->buffers[i].storage->buffer;
        HAUL__ASSERT(!buffer->host || host);
        cl_mem memory = buffer->host ? host : memory_of(buffer);

        code = haul__cl.SetKernelArg(kernel, (cl_uint)i, sizeof memory, &memory);
    }
    if (launch->checks && code == CL_SUCCESS) {
        cl_mem memory = memory_of(launch->record);

        code = haul__cl.SetKernelArg(kernel, (cl_uint)count++, sizeof memory, &memory);
    }
    if (code == CL_SUCCESS)
        code = set_params(kernel, (cl_uint)count, launch);
    return code;
}

/* PoCL compiles a kernel in a thread of its own when the kernel first runs, and that thread crashes if the process ends
 * meanwhile. So the first launch waits. */
static cl_int await_compiler(haul__stream *s, const haul__command *launch, int64_t start)
{
    haul__cl_kernel *kernel = launch->kernel->handle;
    if (kernel->compiled || !haul__cl_of(s->device)->platform->is_pocl)
        return CL_SUCCESS;
    kernel->compiled = true;
    const cl_int  code = haul__cl.Finish(queue_of(s));
    const int64_t now = haul__now_ns();
    haul__emit_counted(&(haul_event){.kind = HAUL_EVENT_DRIVER_CALLED,
                                     .operation = launch->kernel->name,
                                     .text = "was compiled for its first run",
                                     .device = s->device,
                                     .time = now,
                                     .duration = now - start});
    return code;
}

static haul_status launch_on(haul__stream *s, const haul__command *launch, cl_mem host)
{
    haul__cl_kernel *kernel = launch->kernel->handle;
    const char      *call;
    size_t           global, local;
    int64_t          start;
    cl_int           code;
    choose_grid(s->device, kernel, launch, &global, &local);
    HAUL__ASSERT(local <= kernel->max_local && global % local == 0);
    pthread_mutex_lock(&kernel->lock);
    start = kernel->compiled ? 0 : haul__now_ns();
    code = set_arguments(kernel->kernel, launch, host, &call);
    if (code == CL_SUCCESS) {
        call = "clEnqueueNDRangeKernel";
        code = haul__cl.EnqueueNDRangeKernel(queue_of(s), kernel->kernel, 1, NULL, &global, &local, 0, NULL, timed);
    }
    if (code == CL_SUCCESS) {
        call = "clFinish";
        code = await_compiler(s, launch, start);
    }
    pthread_mutex_unlock(&kernel->lock);
    return haul__cl_check(s->device, call, code);
}

static haul_status launch_kernel(haul__stream *s, const haul__command *launch)
{
    return launch_on(s, launch, NULL);
}

/* ---- copies ---- */

/* The host sees what a kernel wrote once it has mapped the memory. The newest command then has an event, so no marker
 * is needed. Mesa 22 knows a mapping only after it is made, so the host waits for it there. */
static haul_status show_host(haul__stream *s, cl_mem memory, size_t bytes)
{
    const char *call = "clEnqueueMapBuffer";
    cl_event    event = NULL;
    cl_int      code;
    HAUL__ASSERT(bytes > 0);
    void *at = haul__cl.EnqueueMapBuffer(queue_of(s), memory, CL_FALSE, CL_MAP_READ, 0, bytes, 0, NULL, NULL, &code);
    if (code == CL_SUCCESS) {
        call = "clEnqueueUnmapMemObject";
        code = haul__cl.EnqueueUnmapMemObject(queue_of(s), memory, at, 0, NULL, &event);
        if (code == CL_INVALID_VALUE && haul__cl.Finish(queue_of(s)) == CL_SUCCESS)
            code = haul__cl.EnqueueUnmapMemObject(queue_of(s), memory, at, 0, NULL, &event);
    }
    if (code == CL_SUCCESS)
        set_last(s, event);
    else
        haul__cl.Finish(queue_of(s)); /* no thread will wait for the kernel */
    return started(s, call, code);
}

/* The kernel reads or writes the host's memory, so the elements are read and written once. */
static haul_status copy_by_kernel(haul__stream *s, const haul__command *c)
{
    const bool           down = c->kind == HAUL__COMMAND_READ;
    const haul__storage *host = c->buffers[down ? 0 : 1].storage;
    HAUL__ASSERT(c->buffer_count == 2 && host->buffer.host);
    const cl_mem_flags flags = CL_MEM_USE_HOST_PTR | (down ? CL_MEM_READ_WRITE : CL_MEM_READ_ONLY);
    cl_int             code;
    cl_mem             memory =
        haul__cl.CreateBuffer(haul__cl_of(s->device)->context, flags, host->bytes, host->buffer.host, &code);
    if (code != CL_SUCCESS) /* it is larger than a buffer may be, for example */
        return HAUL_UNSUPPORTED;
    haul_status status = launch_on(s, c, memory);
    if (!status)
        status = down ? show_host(s, memory, host->bytes) : started(s, "", CL_SUCCESS);
    haul__cl.ReleaseMemObject(memory);
    return status;
}

static haul_status write(haul__stream *s, const haul__command *c)
{
    if (c->kernel)
        return copy_by_kernel(s, c);
    const haul__region *to = &c->buffers[0];
    cl_event            event = NULL;
    cl_int code = haul__cl.EnqueueWriteBuffer(queue_of(s), memory_of(&to->storage->buffer), CL_FALSE, to->offset,
                                              c->bytes, haul__command_source(c), 0, NULL, &event);

    return copied(s, "clEnqueueWriteBuffer", code, event);
}

static haul_status read(haul__stream *s, const haul__command *c)
{
    if (c->kernel)
        return copy_by_kernel(s, c);
    const haul__region *from = &c->buffers[c->buffer_count - 1];
    cl_event            event = NULL;
    cl_int code = haul__cl.EnqueueReadBuffer(queue_of(s), memory_of(&from->storage->buffer), CL_FALSE, from->offset,
                                             c->bytes, haul__command_target(c), 0, NULL, &event);

    return copied(s, "clEnqueueReadBuffer", code, event);
}

static haul_status copy(haul__stream *s, const haul__command *c)
{
    const haul__region *to = &c->buffers[0], *from = &c->buffers[1];
    cl_int              code =
        haul__cl.EnqueueCopyBuffer(queue_of(s), memory_of(&from->storage->buffer), memory_of(&to->storage->buffer),
                                   from->offset, to->offset, c->bytes, 0, NULL, timed);
    return haul__cl_check(s->device, "clEnqueueCopyBuffer", code);
}

/* Devices of one platform share a context: the driver moves the data between them. */
static haul_status peer_copy(haul__stream *s, const haul__command *c)
{
    if (haul__cl_of(c->buffers[1].storage->device)->context != haul__cl_of(s->device)->context)
        return HAUL_UNSUPPORTED;
    return copy(s, c);
}

/* Oclgrind reports memory that clEnqueueFillBuffer filled as uninitialised, so it gets a write instead. */
static haul_status fill_by_write(haul__stream *s, const haul__command *c)
{
    const haul__region *to = &c->buffers[0];
    HAUL__ASSERT(c->pattern_size > 0 && c->bytes % c->pattern_size == 0);
    unsigned char *bytes = haul__malloc(c->bytes);
    cl_int         code;
    if (!bytes)
        return haul__fail_memory(s->device->name, c->bytes);
    for (size_t i = 0; i < c->bytes; i++)
        bytes[i] = ((const unsigned char *)&c->pattern)[i % c->pattern_size];
    code = haul__cl.EnqueueWriteBuffer(queue_of(s), memory_of(&to->storage->buffer), CL_TRUE, to->offset, c->bytes,
                                       bytes, 0, NULL, timed);
    haul__free(bytes);
    return haul__cl_check(s->device, "clEnqueueWriteBuffer", code);
}

static haul_status fill(haul__stream *s, const haul__command *c)
{
    if (haul__cl_of(s->device)->platform->is_oclgrind)
        return fill_by_write(s, c);
    HAUL__ASSERT(c->pattern_size > 0 && c->buffers[0].offset % c->pattern_size == 0);
    const haul__region *to = &c->buffers[0];
    cl_int code = haul__cl.EnqueueFillBuffer(queue_of(s), memory_of(&to->storage->buffer), &c->pattern, c->pattern_size,
                                             to->offset, c->bytes, 0, NULL, timed);

    return haul__cl_check(s->device, "clEnqueueFillBuffer", code);
}

/* ---- all kinds ---- */

haul_status haul__cl_submit(haul__stream *s, const haul__command *c)
{
    static haul__command_fn *const functions[HAUL__COMMAND_CALLBACK] = {
        [HAUL__COMMAND_LAUNCH] = launch_kernel, [HAUL__COMMAND_COPY] = copy,
        [HAUL__COMMAND_WRITE] = write,          [HAUL__COMMAND_READ] = read,
        [HAUL__COMMAND_PEER] = peer_copy,       [HAUL__COMMAND_FILL] = fill,
    };
    set_last(s, NULL); /* copies across the link set it */
    return haul__command_run(functions, s, c);
}

/* ---- waiting ---- */

/* The flush lets other queues and the host wait; without it the commands might never start. */
static haul_status mark(haul__stream *s, cl_event *event)
{
    const haul__cl_queue *q = s->queue;
    if (q->last && haul__cl.RetainEvent(q->last) == CL_SUCCESS) {
        *event = q->last;
        return HAUL_OK;
    }
    cl_int      code = haul__cl.EnqueueMarkerWithWaitList(queue_of(s), 0, NULL, event);
    haul_status status = started(s, "clEnqueueMarkerWithWaitList", code);

    if (status && code == CL_SUCCESS)
        haul__cl.ReleaseEvent(*event);
    return status;
}

static haul_status wait_for_event(haul_device *device, cl_event event)
{
    return haul__cl_check(device, "clWaitForEvents", haul__cl.WaitForEvents(1, &event));
}

/* A whole stream is awaited through an event, too, because the event of a failed queue reports the failure, while
 * clFinish only returns. */
haul_status haul__cl_sync(haul__stream *s, void *event)
{
    cl_event    last;
    haul_status status;
    if (event)
        return wait_for_event(s->device, event);
    status = mark(s, &last);
    if (status)
        return status;
    status = wait_for_event(s->device, last);
    haul__cl_event_free(s->device, last);
    return status;
}

haul_status haul__cl_event_record(haul__stream *s, void **event)
{
    cl_event    made;
    haul_status status = mark(s, &made);
    if (status == HAUL_OK)
        *event = made;
    return status;
}

haul_status haul__cl_event_wait(haul__stream *s, void *event)
{
    cl_event   waited = event;
    cl_context context;
    cl_int     code = haul__cl.GetEventInfo(waited, CL_EVENT_CONTEXT, sizeof context, &context, NULL);
    if (code != CL_SUCCESS)
        return haul__cl_check(s->device, "clGetEventInfo", code);
    /* A queue cannot wait for another platform's event, but the host can. */
    if (context != haul__cl_of(s->device)->context)
        return HAUL_UNSUPPORTED;
    set_last(s, NULL);
    code = haul__cl.EnqueueBarrierWithWaitList(queue_of(s), 1, &waited, NULL);
    return haul__cl_check(s->device, "clEnqueueBarrierWithWaitList", code);
}

haul_status haul__cl_event_query(haul_device *device, void *event, bool *reached)
{
    cl_int state = CL_COMPLETE;
    cl_int code = haul__cl.GetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL);
    *reached = code == CL_SUCCESS && state == CL_COMPLETE;
    return haul__cl_check(device, "clGetEventInfo", code);
}

void haul__cl_event_free(haul_device *device, void *event)
{
    (void)device;
    haul__cl.ReleaseEvent(event);
}

/* ---- times ---- */

typedef struct cl_timing {
    cl_event event; /* NULL: nothing was enqueued */
} cl_timing;

haul_status haul__cl_timing_begin(haul__stream *s, void **timing)
{
    HAUL__ASSERT(!timed); /* one command at a time is submitted by a thread */
    cl_timing *t = haul__calloc(1, sizeof *t);
    if (!t)
        return haul__fail_memory(s->device->name, sizeof *t);
    timed = &t->event;
    *timing = t;
    return HAUL_OK;
}

haul_status haul__cl_timing_end(haul__stream *s, void *timing)
{
    (void)s;
    HAUL__ASSERT(timed == &((cl_timing *)timing)->event);
    timed = NULL;
    return HAUL_OK;
}

/* When it began and ended on the device's clock, in ns. */
static cl_int span_of(const cl_timing *t, cl_ulong *began, cl_ulong *ended)
{
    cl_int code = t->event ? CL_SUCCESS : CL_PROFILING_INFO_NOT_AVAILABLE;
    if (code == CL_SUCCESS)
        code = haul__cl.GetEventProfilingInfo(t->event, CL_PROFILING_COMMAND_START, sizeof *began, began, NULL);
    if (code == CL_SUCCESS)
        code = haul__cl.GetEventProfilingInfo(t->event, CL_PROFILING_COMMAND_END, sizeof *ended, ended, NULL);
    return code;
}

haul_status haul__cl_timing_read(haul_device *device, void *timing, void *origin, int64_t *after, int64_t *duration)
{
    cl_ulong began = 0, ended = 0, zero = 0, unused = 0;
    cl_int   code = span_of(timing, &began, &ended);
    if (code == CL_SUCCESS)
        code = span_of(origin, &zero, &unused);
    *after = (int64_t)(began - zero);
    *duration = ended > began ? (int64_t)(ended - began) : 0;
    return haul__cl_check(device, "clGetEventProfilingInfo", code);
}

void haul__cl_timing_free(haul_device *device, void *timing)
{
    cl_timing *t = timing;
    (void)device;
    if (timed == &t->event) /* the command was refused */
        timed = NULL;
    if (t->event)
        haul__cl.ReleaseEvent(t->event);
    haul__free(t);
}
