/* The OpenCL backend: its table, opening devices, and their memory. */
#include <stdio.h>
#include <string.h>

#include "backends/opencl/opencl.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "core/error.h"

/* ---- devices ---- */

/* A property of a plain type; zero if the driver does not know it. */
#define PROPERTY(type, id, what) *(type *)read_property((id), (what), &(union property){0}, sizeof(type))

union property {
    cl_bool             boolean;
    cl_uint             number;
    cl_ulong            bytes;
    size_t              size;
    cl_device_type      type;
    cl_device_fp_config config;
};

static void *read_property(cl_device_id id, cl_device_info what, union property *out, size_t size)
{
    if (haul__cl.GetDeviceInfo(id, what, size, out, NULL) != CL_SUCCESS)
        memset(out, 0, sizeof *out);
    return out;
}

static haul_device_kind kind_of(cl_device_type type)
{
    return type & CL_DEVICE_TYPE_GPU   ? HAUL_KIND_GPU
           : type & CL_DEVICE_TYPE_CPU ? HAUL_KIND_CPU
                                       : HAUL_KIND_ACCELERATOR;
}

/* True if a sub-buffer can begin wherever a part of a block does. */
static bool divides(cl_device_id id)
{
    const size_t bits = PROPERTY(cl_uint, id, CL_DEVICE_MEM_BASE_ADDR_ALIGN); /* 0: the driver does not know it */
    return bits > 0 && HAUL__SUB_BUFFER_ALIGNMENT * 8 % bits == 0;
}

static void describe(haul_device *device, haul__cl_device *d)
{
    haul_device_properties *p = &device->properties;
    char                    driver[64];
    haul__cl_device_text(d->id, CL_DEVICE_NAME, device->model, sizeof device->model);
    haul__cl_device_text(d->id, CL_DRIVER_VERSION, driver, sizeof driver);
    snprintf(device->driver, sizeof device->driver, "%.60s %s", d->platform->name, driver);
    p->model = device->model;
    p->driver = device->driver;
    p->kind = kind_of(PROPERTY(cl_device_type, d->id, CL_DEVICE_TYPE));
    p->compute_units = (int)PROPERTY(cl_uint, d->id, CL_DEVICE_MAX_COMPUTE_UNITS);
    p->memory_bytes = (int64_t)PROPERTY(cl_ulong, d->id, CL_DEVICE_GLOBAL_MEM_SIZE);
    p->shares_host_memory = PROPERTY(cl_bool, d->id, CL_DEVICE_HOST_UNIFIED_MEMORY);
    p->has_f64 = PROPERTY(cl_device_fp_config, d->id, CL_DEVICE_DOUBLE_FP_CONFIG) != 0;
    device->sub_buffers = divides(d->id);
}

/* No option may change results: no fast mathematics, and divisions as exact as on the host if the device can. -w,
 * because drivers print the number of warnings on standard error. */
static haul_status prepare(haul_device *device, haul__cl_device *d)
{
    const haul_device_properties *p = &device->properties;
    cl_device_fp_config           f32 = PROPERTY(cl_device_fp_config, d->id, CL_DEVICE_SINGLE_FP_CONFIG);
    /* llvmpipe computes neighbouring work items in the lanes of a vector, as a GPU does. */
    d->llvmpipe = strstr(device->model, "llvmpipe") != NULL;
    device->strided = p->kind == HAUL_KIND_GPU || d->llvmpipe;
    d->units = p->compute_units > 0 ? (size_t)p->compute_units : 1;
    /* PoCL has its own cache. From binaries it compiles every kernel of a program for all work-group sizes: 150 ms per
     * kernel more on the first run, to save 22 ms per program on later ones. */
    d->late = d->platform->is_pocl;
    snprintf(d->options, sizeof d->options, "-cl-std=CL1.2 -w%s",
             f32 & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT ? " -cl-fp32-correctly-rounded-divide-sqrt" : "");
    if (!d->identity) /* otherwise opened again, after memory was exhausted */
        d->identity = haul__format("%s\n%s\n%s\n%s\n", d->platform->version, device->driver, device->model, d->options);
    return d->identity ? HAUL_OK : haul__fail_memory(device->name, 256);
}

static haul_status open_device(haul_device *device, int index)
{
    char             why[256] = "there are fewer devices";
    haul__cl_device *d = haul__cl_count(why, sizeof why) > index ? haul__cl_enumerated(index) : NULL;
    const char      *unusable;
    haul_status      status;
    cl_int           code;
    if (!d)
        return haul__fail(HAUL_DEVICE, device->name, NULL, "%s", why);
    describe(device, d);
    unusable = haul__cl_unusable(d->id);
    if (unusable)
        return haul__fail(HAUL_DEVICE, device->name, NULL, "%s cannot be used: %s", device->model, unusable);
    status = haul__cl_check(device, "clCreateContext", haul__cl_context(d->platform, &d->context));
    if (status)
        return status;
    status = prepare(device, d);
    if (status)
        return status;
    HAUL__ASSERT(d->context && d->identity && d->units > 0);
    device->impl = d;
    if (d->service)
        return HAUL_OK;
    d->service = haul__cl.CreateCommandQueue(d->context, d->id, 0, &code);
    return haul__cl_check(device, "clCreateCommandQueue", code);
}

/* ---- memory ---- */

static haul_status check_alloc(const haul_device *device, const char *call, cl_int code, size_t bytes)
{
    if (code == CL_SUCCESS)
        return HAUL_OK;
    /* Some drivers report a full device as "out of resources". */
    if (code == CL_OUT_OF_RESOURCES || code == CL_OUT_OF_HOST_MEMORY || code == CL_INVALID_BUFFER_SIZE ||
        code == CL_MEM_OBJECT_ALLOCATION_FAILURE)
        return haul__fail(HAUL_OUT_OF_MEMORY, device->name, NULL, "%s of %zu bytes failed: %s", call, bytes,
                          haul__cl_error_name(code));
    return haul__cl_check(device, call, code);
}

/* Drivers allocate at the first use of a buffer, which is too late to report that memory is exhausted, so that use is
 * made now. Migrating a buffer with undefined contents also places it on one of the context's devices. */
static cl_int place(haul__cl_device *d, cl_mem memory)
{
    cl_event event;
    cl_int code = haul__cl.EnqueueMigrateMemObjects(d->service, 1, &memory, CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED, 0,
                                                    NULL, &event);
    if (code != CL_SUCCESS)
        return code;
    code = haul__cl.WaitForEvents(1, &event);
    haul__cl.ReleaseEvent(event);
    return code;
}

/* Drivers of processors keep buffers on the heap. What fails here changes nothing. Placing the buffer waits for it. */
static void prefer_huge_pages(haul__cl_device *d, cl_mem memory, size_t bytes)
{
    cl_int code;
    void *at = haul__cl.EnqueueMapBuffer(d->service, memory, CL_TRUE, CL_MAP_WRITE_INVALIDATE_REGION, 0, bytes, 0, NULL,
                                         NULL, &code);
    if (code != CL_SUCCESS)
        return;
    haul__prefer_huge_pages(at, bytes);
    haul__cl.EnqueueUnmapMemObject(d->service, memory, at, 0, NULL, NULL);
}

/* A part is in the memory of the whole, which was placed. */
static haul_status alloc_part(haul_device *device, size_t bytes, const haul__buffer_address *of, haul__buffer *out)
{
    HAUL__ASSERT(device->sub_buffers && of->offset % HAUL__SUB_BUFFER_ALIGNMENT == 0);
    const cl_buffer_region region = {of->offset, bytes};
    cl_int                 code;
    cl_mem memory = haul__cl.CreateSubBuffer(of->handle, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &code);
    if (code == CL_SUCCESS)
        *out = (haul__buffer){.handle = memory};
    return check_alloc(device, "clCreateSubBuffer", code, bytes);
}

static haul_status alloc(haul_device *device, size_t bytes, const haul__buffer_address *of, haul__buffer *out)
{
    haul__cl_device *d = haul__cl_of(device);
    cl_int           code;
    cl_mem           memory;
    HAUL__ASSERT(bytes > 0 && d->service);
    if (of)
        return alloc_part(device, bytes, of, out);
    memory = haul__cl.CreateBuffer(d->context, CL_MEM_READ_WRITE, bytes, NULL, &code);
    if (code != CL_SUCCESS)
        return check_alloc(device, "clCreateBuffer", code, bytes);
    if (bytes >= HAUL__HUGE_PAGES_FROM && device->properties.kind == HAUL_KIND_CPU)
        prefer_huge_pages(d, memory, bytes);
    code = place(d, memory);
    if (code != CL_SUCCESS) {
        haul__cl.ReleaseMemObject(memory);
        return check_alloc(device, "clEnqueueMigrateMemObjects", code, bytes);
    }
    *out = (haul__buffer){.handle = memory};
    return HAUL_OK;
}

/* The driver keeps memory, and the whole of a part, until commands that use it have ended. */
static void free_buffer(haul_device *device, haul__buffer *buffer)
{
    (void)device;
    if (buffer->handle)
        haul__cl.ReleaseMemObject(buffer->handle);
    *buffer = (haul__buffer){0};
}

/* A device with its own memory copies at full speed from memory that its driver allocated; a device that works in host
 * memory copies from any address. */
static haul_status host_alloc(haul_device *device, size_t bytes, void **out, void **handle)
{
    haul__cl_device *d = haul__cl_of(device);
    cl_int           code;
    cl_mem           memory;
    HAUL__ASSERT(bytes > 0);
    *handle = NULL;
    if (device->properties.shares_host_memory) {
        *out = haul__malloc(bytes);
        return *out ? HAUL_OK : haul__fail_memory(device->name, bytes);
    }
    memory = haul__cl.CreateBuffer(d->context, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, bytes, NULL, &code);
    if (code != CL_SUCCESS)
        return check_alloc(device, "clCreateBuffer", code, bytes);
    *out = haul__cl.EnqueueMapBuffer(d->service, memory, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0, bytes, 0, NULL, NULL,
                                     &code);
    if (code != CL_SUCCESS) {
        haul__cl.ReleaseMemObject(memory);
        return check_alloc(device, "clEnqueueMapBuffer", code, bytes);
    }
    *handle = memory;
    return HAUL_OK;
}

static void host_free(haul_device *device, void *memory, void *handle)
{
    haul__cl_device *d = haul__cl_of(device);
    HAUL__ASSERT(!handle == !!device->properties.shares_host_memory);
    if (!handle) {
        haul__free(memory);
        return;
    }
    haul__cl.EnqueueUnmapMemObject(d->service, handle, memory, 0, NULL, NULL);
    haul__cl.Finish(d->service);
    haul__cl.ReleaseMemObject(handle);
}

const haul__backend haul__backend_opencl = {
    .size = sizeof(haul__backend),
    .name = "opencl",
    .count = haul__cl_count,
    .open = open_device,
    .alloc = alloc,
    .free = free_buffer,
    .host_alloc = host_alloc,
    .host_free = host_free,
    .stream_open = haul__cl_stream_open,
    .stream_close = haul__cl_stream_close,
    .submit = haul__cl_submit,
    .compile = haul__cl_compile,
    .sync = haul__cl_sync,
    .event_record = haul__cl_event_record,
    .event_wait = haul__cl_event_wait,
    .event_query = haul__cl_event_query,
    .event_free = haul__cl_event_free,
    .timing_begin = haul__cl_timing_begin,
    .timing_end = haul__cl_timing_end,
    .timing_read = haul__cl_timing_read,
    .timing_free = haul__cl_timing_free,
    .peers = true,
    .reaches_host = true,
};
