/* Copies of a few bytes between the CPU and OpenCL, each waited for, against the driver's own blocking calls on the
 * same device and context. */
#include <string.h>

#include "haul_config.h"
#include "support/bench.h"

#ifdef HAUL_HAVE_OPENCL
#include "backends/opencl/opencl.h"
#include "core/device.h"

static haul_device     *device;
static haul_tensor     *here, *there;
static cl_command_queue queue;
static cl_mem           memory;
static char             bytes[4096];

static bool open_haul(const bench_case *c)
{
    device = haul_device_get("opencl:0");
    here = haul_full(HAUL_U8, HAUL_SHAPE(c->size), 1);
    there = haul_to(here, device);
    return !haul_error_status() && !haul_device_sync(device);
}

static bool run_up(const bench_case *c, int64_t times)
{
    (void)c;
    for (int64_t i = 0; i < times; i++)
        if (haul_copy_into(there, here) || haul_device_sync(device))
            return false;
    return true;
}

static bool run_write(const bench_case *c, int64_t times)
{
    for (int64_t i = 0; i < times; i++)
        if (haul_write(there, bytes, (size_t)c->size) || haul_device_sync(device))
            return false;
    return true;
}

static bool run_read(const bench_case *c, int64_t times)
{
    for (int64_t i = 0; i < times; i++)
        if (haul_read(there, bytes, (size_t)c->size))
            return false;
    return true;
}

static bool open_driver(const bench_case *c)
{
    cl_int code = CL_SUCCESS;
    if (!open_haul(c))
        return false;
    const haul__cl_device *d = haul__cl_of(device);
    queue = haul__cl.CreateCommandQueue(d->context, d->id, 0, &code);
    if (code == CL_SUCCESS)
        memory = haul__cl.CreateBuffer(d->context, CL_MEM_READ_WRITE, (size_t)c->size, NULL, &code);
    return code == CL_SUCCESS || bench_out(haul__cl_error_name(code));
}

static void close_driver(void)
{
    if (memory)
        haul__cl.ReleaseMemObject(memory);
    if (queue)
        haul__cl.ReleaseCommandQueue(queue);
    memory = NULL;
    queue = NULL;
}

static bool run_driver_write(const bench_case *c, int64_t times)
{
    for (int64_t i = 0; i < times; i++)
        if (haul__cl.EnqueueWriteBuffer(queue, memory, CL_TRUE, 0, (size_t)c->size, bytes, 0, NULL, NULL))
            return false;
    return true;
}

static bool run_driver_read(const bench_case *c, int64_t times)
{
    for (int64_t i = 0; i < times; i++)
        if (haul__cl.EnqueueReadBuffer(queue, memory, CL_TRUE, 0, (size_t)c->size, bytes, 0, NULL, NULL))
            return false;
    return true;
}

#else

static bool open_haul(const bench_case *c)
{
    (void)c;
    return bench_out("built without OpenCL");
}
static bool run_nothing(const bench_case *c, int64_t times)
{
    (void)c, (void)times;
    return true;
}
#define open_driver      open_haul
#define close_driver     NULL
#define run_up           run_nothing
#define run_write        run_nothing
#define run_read         run_nothing
#define run_driver_write run_nothing
#define run_driver_read  run_nothing

#endif

#define COPY(label, opened, how, closed, n, who)                                                                       \
    {                                                                                                                  \
        .name = label " " #n " B", .unit = "us", .peers = who, .open = opened, .run = how, .close = closed, .size = n  \
    }
#define SIZE(n)                                                                                                        \
    COPY("copy_into up", open_haul, run_up, NULL, n, "driver write " #n " B"),                                         \
        COPY("haul_write", open_haul, run_write, NULL, n, "driver write " #n " B"),                                    \
        COPY("haul_read", open_haul, run_read, NULL, n, "driver read " #n " B"),                                       \
        COPY("driver write", open_driver, run_driver_write, close_driver, n, ""),                                      \
        COPY("driver read", open_driver, run_driver_read, close_driver, n, "")

static const bench_case cases[] = {SIZE(4), SIZE(64), SIZE(1024), SIZE(4096)};

int main(int argc, char **argv)
{
    return bench_main(argc, argv, cases, (int)(sizeof cases / sizeof cases[0]));
}
