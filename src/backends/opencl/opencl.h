/* Shared inside the OpenCL backend: the loader's functions, the data of platforms and devices, and checks of calls. */
#ifndef HAUL_BACKENDS_OPENCL_OPENCL_H
#define HAUL_BACKENDS_OPENCL_OPENCL_H

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <pthread.h>

#include "backends/backend.h"
#include "backends/command.h"

/* X(name): the functions taken from the ICD loader, without "cl". All are of OpenCL 1.2. */
#define HAUL__CL_FUNCTIONS(X)                                                                                          \
    X(GetPlatformIDs)                                                                                                  \
    X(GetPlatformInfo)                                                                                                 \
    X(GetDeviceIDs)                                                                                                    \
    X(GetDeviceInfo)                                                                                                   \
    X(CreateContext)                                                                                                   \
    X(CreateCommandQueue)                                                                                              \
    X(ReleaseCommandQueue)                                                                                             \
    X(CreateBuffer)                                                                                                    \
    X(CreateSubBuffer)                                                                                                 \
    X(ReleaseMemObject)                                                                                                \
    X(CreateProgramWithSource)                                                                                         \
    X(CreateProgramWithBinary)                                                                                         \
    X(BuildProgram)                                                                                                    \
    X(GetProgramInfo)                                                                                                  \
    X(GetProgramBuildInfo)                                                                                             \
    X(ReleaseProgram)                                                                                                  \
    X(CreateKernel)                                                                                                    \
    X(ReleaseKernel)                                                                                                   \
    X(SetKernelArg)                                                                                                    \
    X(GetKernelWorkGroupInfo)                                                                                          \
    X(EnqueueNDRangeKernel)                                                                                            \
    X(EnqueueReadBuffer)                                                                                               \
    X(EnqueueWriteBuffer)                                                                                              \
    X(EnqueueCopyBuffer)                                                                                               \
    X(EnqueueFillBuffer)                                                                                               \
    X(EnqueueMapBuffer)                                                                                                \
    X(EnqueueUnmapMemObject)                                                                                           \
    X(EnqueueMigrateMemObjects)                                                                                        \
    X(EnqueueMarkerWithWaitList)                                                                                       \
    X(EnqueueBarrierWithWaitList)                                                                                      \
    X(GetEventInfo)                                                                                                    \
    X(GetEventProfilingInfo)                                                                                           \
    X(WaitForEvents)                                                                                                   \
    X(RetainEvent)                                                                                                     \
    X(ReleaseEvent)                                                                                                    \
    X(Flush)                                                                                                           \
    X(Finish)

typedef struct haul__cl_functions {
#define X(name) __typeof__(&cl##name) name;
    HAUL__CL_FUNCTIONS(X)
#undef X
} haul__cl_functions;

extern haul__cl_functions haul__cl; /* filled by haul__cl_count */

/* All usable devices of a platform share one context, so that events and copies work between them. */
typedef struct haul__cl_platform {
    cl_platform_id id;
    cl_context     context; /* NULL until a device is opened */
    bool           is_pocl, is_oclgrind;
    char           name[96], version[160];
} haul__cl_platform;

/* A program that was built: on a driver that compiles late, the kernels of one unit and dtype share it. */
typedef struct haul__cl_program {
    struct haul__cl_program *next;
    haul_dtype               dtype;
    cl_program               program;
    char                     unit[]; /* its name */
} haul__cl_program;

/* A device as it was enumerated, and what opening adds. */
typedef struct haul__cl_device {
    cl_device_id       id;
    haul__cl_platform *platform;

    cl_context       context;
    cl_command_queue service;  /* placing and mapping of memory */
    bool             llvmpipe; /* Mesa's device that is a processor (program.c) */
    bool late; /* PoCL: compiles a kernel when it first runs, and has a disk cache. For other drivers a program has one
                * kernel, because they compile all of it at once, and Haul keeps it in its own disk cache. */
    size_t            units;
    size_t            max_local;
    char              options[96]; /* of the compiler */
    char             *identity;    /* device, driver and options: part of the cache's key */
    pthread_mutex_t   lock;        /* guards programs and their compilation */
    haul__cl_program *programs;
} haul__cl_device;

/* The target of haul__stream.queue, used under the stream's lock. The event of a copy across the link stands for
 * everything up to that copy, so a wait for it needs no marker, which on PoCL takes as long as the copy. */
typedef struct haul__cl_queue {
    cl_command_queue queue;
    cl_event         last; /* of the newest command, if that was a copy of this kind; else NULL */
} haul__cl_queue;

/* The target of haul__kernel.handle. Arguments are set and the launch is enqueued under the lock: a cl_kernel is the
 * only OpenCL object that threads may not share, and a kernel may be launched on several streams. */
typedef struct haul__cl_kernel {
    cl_kernel       kernel;
    size_t          max_local;
    bool            compiled; /* to machine code, which PoCL does when a kernel first runs */
    pthread_mutex_t lock;
} haul__cl_kernel;

static inline haul__cl_device *haul__cl_of(const haul_device *device)
{
    return device->impl;
}

/* loader.c: the number of devices of all platforms; if it is 0, the reason in `why`. The first call loads the
 * drivers. */
int              haul__cl_count(char *why, size_t why_size);
haul__cl_device *haul__cl_enumerated(int index); /* call it after haul__cl_count; NULL from that number on */
/* The reason why the device cannot be used, or NULL. */
const char *haul__cl_unusable(cl_device_id id);
/* The platform's context for its usable devices, made on first use. */
cl_int haul__cl_context(haul__cl_platform *platform, cl_context *out);
/* Copies a text property into a buffer, trimmed; "" on failure. */
void haul__cl_device_text(cl_device_id id, cl_device_info what, char *out, size_t size);

/* errors.c: HAUL_OK, or the recorded error "opencl:0: clFinish failed: CL_OUT_OF_RESOURCES". */
haul_status haul__cl_check(const haul_device *device, const char *call, cl_int code);
const char *haul__cl_error_name(cl_int code);

/* program.c */
/* The whole text that the driver compiles, which the caller must haul__free. NULL if memory is exhausted. */
char       *haul__cl_program_text(const haul_device *device, const haul__unit *unit);
haul_status haul__cl_compile(haul_device *device, const haul__unit *unit, haul__kernel *out);
/* Builds `source`. *cached: whether the disk cache may be used; on return, whether it was. `name` is for messages. */
haul_status haul__cl_build(haul_device *device, const char *name, const char *source, bool *cached, cl_program *out);
/* The key in that cache, which the caller must haul__free. NULL if memory is exhausted. */
char *haul__cl_cache_key(const haul_device *device, const char *source);

/* queue.c: streams, commands and events, as in backends/backend.h. */
haul_status haul__cl_stream_open(haul_device *device, void **queue);
void        haul__cl_stream_close(haul_device *device, void *queue);
haul_status haul__cl_submit(haul__stream *s, const haul__command *c);
haul_status haul__cl_sync(haul__stream *s, void *event);
haul_status haul__cl_event_record(haul__stream *s, void **event);
haul_status haul__cl_event_wait(haul__stream *s, void *event);
haul_status haul__cl_event_query(haul_device *device, void *event, bool *reached);
void        haul__cl_event_free(haul_device *device, void *event);
/* clGetEventProfilingInfo of the command between begin and end. */
haul_status haul__cl_timing_begin(haul__stream *s, void **timing);
haul_status haul__cl_timing_end(haul__stream *s, void *timing);
haul_status haul__cl_timing_read(haul_device *device, void *timing, void *origin, int64_t *after, int64_t *duration);
void        haul__cl_timing_free(haul_device *device, void *timing);

#endif
