/* The CUDA backend: its table, finding and opening GPUs, and contexts. */
#include <stdio.h>
#include <string.h>

#include "backends/cuda/cuda.h"
#include "backends/cuda/cudnn/cudnn.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "core/error.h"

static haul__cuda_device gpus[HAUL__MAX_DEVICES];
static int               gpu_count;
static char              reason[256]; /* the reason why there is no device */
static pthread_once_t    once = PTHREAD_ONCE_INIT;

/* ---- contexts ---- */

/* Querying the current context costs a few nanoseconds, changing it about fifty. */
CUresult haul__cuda_enter(const haul__cuda_device *d, haul__cuda_scope *scope)
{
    HAUL__ASSERT(d->context); /* devices are started before they are used */
    CUresult code = haul__cu.CtxGetCurrent(&scope->before);
    scope->ours = d->context;
    if (code == CUDA_SUCCESS && scope->before != d->context)
        code = haul__cu.CtxSetCurrent(d->context);
    return code;
}

void haul__cuda_leave(const haul__cuda_scope *scope)
{
    if (scope->before != scope->ours)
        haul__cu.CtxSetCurrent(scope->before);
}

/* ---- finding ---- */

static void find_gpus(void)
{
    int      count = 0;
    CUresult code;
    if (!haul__cuda_load_driver(reason, sizeof reason))
        return;
    code = haul__cu.DeviceGetCount(&count);
    if (code != CUDA_SUCCESS || count == 0) {
        snprintf(reason, sizeof reason, "the NVIDIA driver finds no GPU%s%s", code ? ": " : "",
                 code ? haul__cuda_error_name(code) : "");
        return;
    }
    gpu_count = count < HAUL__MAX_DEVICES ? count : HAUL__MAX_DEVICES;
    for (int i = 0; i < gpu_count; i++) {
        pthread_mutex_init(&gpus[i].events_lock, NULL);
        pthread_mutex_init(&gpus[i].memory_lock, NULL);
        pthread_mutex_init(&gpus[i].blas_lock, NULL);
        pthread_mutex_init(&gpus[i].solver_lock, NULL);
    }
}

static int count_gpus(char *why, size_t why_size)
{
    pthread_once(&once, find_gpus);
    if (gpu_count == 0 && why_size > 0)
        snprintf(why, why_size, "%s", reason);
    return gpu_count;
}

/* ---- opening ---- */

/* 0 if the driver does not know it. */
static int attribute(const haul__cuda_device *d, CUdevice_attribute what)
{
    int value = 0;
    return haul__cu.DeviceGetAttribute(&value, what, d->id) == CUDA_SUCCESS ? value : 0;
}

static haul_status describe(haul_device *device, haul__cuda_device *d)
{
    haul_device_properties *p = &device->properties;
    char                    version[48] = "";
    int                     driver = haul__cuda_driver_version(), major = 0, minor = 0;
    size_t                  bytes = 0;
    HAUL__ASSERT(d == &gpus[device->index]);
    CUresult code = haul__cu.DeviceGet(&d->id, device->index);
    if (code != CUDA_SUCCESS)
        return haul__cuda_check(device, "cuDeviceGet", code);
    if (haul__cu.DeviceGetName(device->model, (int)sizeof device->model, d->id) != CUDA_SUCCESS)
        snprintf(device->model, sizeof device->model, "a GPU without a name");
    device->model[sizeof device->model - 1] = '\0';
    if (haul__cu.DeviceTotalMem(&bytes, d->id) != CUDA_SUCCESS)
        bytes = 0;
    if (haul__cu.DeviceGetPCIBusId(d->bus, (int)sizeof d->bus, d->id) != CUDA_SUCCESS)
        d->bus[0] = '\0';
    d->capability = 10 * attribute(d, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) +
                    attribute(d, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    d->units = (unsigned)attribute(d, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    if (d->units == 0)
        d->units = 1;
    if (!haul__cuda_load_nvml() || haul__nvml.SystemGetDriverVersion(version, sizeof version) != 0)
        version[0] = '\0';
    if (haul__nvrtc.Version)
        haul__nvrtc.Version(&major, &minor);
    snprintf(device->driver, sizeof device->driver,
             "NVIDIA driver %s%sCUDA %d.%d, NVRTC %d.%d, compute capability %d.%d", version, version[0] ? ", " : "of ",
             driver / 1000, driver % 1000 / 10, major, minor, d->capability / 10, d->capability % 10);
    p->model = device->model;
    p->driver = device->driver;
    p->bus = d->bus;
    p->kind = HAUL_KIND_GPU;
    device->strided = true;
    p->compute_units = (int)d->units;
    p->memory_bytes = (int64_t)bytes;
    p->shares_host_memory = attribute(d, CU_DEVICE_ATTRIBUTE_INTEGRATED) != 0;
    p->has_f64 = true;
    return HAUL_OK;
}

/* Machine code for this GPU or, if the GPU is newer than the compiler, portable code that the driver translates. */
static haul_status choose_target(const haul_device *device, haul__cuda_device *d)
{
    int  known[64], count = 0, best = 0;
    bool exact = false;
    HAUL__ASSERT(d->capability >= HAUL__CUDA_LEAST_CAPABILITY);
    if (haul__nvrtc.GetNumSupportedArchs(&count) != NVRTC_SUCCESS || count < 1 || count > 64 ||
        haul__nvrtc.GetSupportedArchs(known) != NVRTC_SUCCESS)
        return haul__fail(HAUL_BACKEND, device->name, NULL, "NVRTC does not report which GPUs it supports");
    for (int i = 0; i < count; i++) {
        exact = exact || known[i] == d->capability;
        if (known[i] <= d->capability && known[i] > best)
            best = known[i];
    }
    if (!best)
        return haul__fail(HAUL_DEVICE, device->name, NULL,
                          "%s has compute capability %d.%d, which this NVRTC no longer supports; install an older CUDA "
                          "toolkit as well",
                          device->model, d->capability / 10, d->capability % 10);
    HAUL__ASSERT(best <= d->capability && exact == (best == d->capability));
    snprintf(d->target, sizeof d->target, "--gpu-architecture=%s_%d", exact ? "sm" : "compute", best);
    return HAUL_OK;
}

/* Enables direct copies between GPUs that are linked, in both directions, with those that are already open. */
static void enable_peers(haul__cuda_device *d)
{
    HAUL__ASSERT(gpus <= d && d < gpus + gpu_count);
    for (int i = 0; i < gpu_count; i++) {
        haul__cuda_device *other = &gpus[i];
        haul__cuda_scope   scope;
        int                to = 0, from = 0;
        CUresult           code;

        if (other == d || !other->context || haul__cu.DeviceCanAccessPeer(&to, d->id, other->id) != CUDA_SUCCESS ||
            !to || haul__cu.DeviceCanAccessPeer(&from, other->id, d->id) != CUDA_SUCCESS || !from)
            continue;
        if (haul__cuda_enter(d, &scope) != CUDA_SUCCESS)
            continue;
        code = haul__cu.CtxEnablePeerAccess(other->context, 0);
        atomic_store(&d->peers[i], code == CUDA_SUCCESS || code == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
        haul__cuda_leave(&scope);
        if (haul__cuda_enter(other, &scope) != CUDA_SUCCESS)
            continue;
        code = haul__cu.CtxEnablePeerAccess(d->context, 0);
        atomic_store(&other->peers[d - gpus], code == CUDA_SUCCESS || code == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
        haul__cuda_leave(&scope);
    }
}

/* A context takes some hundred MiB of the GPU, so only GPUs that are used get one. */
static haul_status start_gpu(haul_device *device)
{
    haul__cuda_device *d = haul__cuda_of(device);
    CUresult           code;
    if (d->context) /* retried after memory was exhausted */
        return HAUL_OK;
    HAUL__ASSERT(d->identity && d->target[0]); /* it was opened */
    haul__cuda_spending spent = haul__cuda_spend_begin_context(device);
    code = haul__cu.DevicePrimaryCtxRetain(&d->context, d->id);
    if (code != CUDA_SUCCESS) {
        d->context = NULL;
        spent.left = 0;
    }
    haul__cuda_spend_end(device, &spent);
    if (code != CUDA_SUCCESS)
        return haul__cuda_check(device, "cuDevicePrimaryCtxRetain", code);
    enable_peers(d);
    return HAUL_OK;
}

static haul_status open_gpu(haul_device *device, int index)
{
    HAUL__ASSERT(0 <= index && index < HAUL__MAX_DEVICES);
    char               why[256] = "there are fewer GPUs";
    haul__cuda_device *d = &gpus[index];
    haul_status        status;
    if (count_gpus(why, sizeof why) <= index || !haul__cuda_load_nvrtc(why, sizeof why))
        return haul__fail(HAUL_DEVICE, device->name, NULL, "%s", why);
    status = describe(device, d);
    if (status)
        return status;
    if (attribute(d, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE) == CU_COMPUTEMODE_PROHIBITED)
        return haul__fail(HAUL_DEVICE, device->name, NULL,
                          "%s is in compute mode \"prohibited\"; nvidia-smi -c DEFAULT allows programs to use it",
                          device->model);
    if (d->capability < HAUL__CUDA_LEAST_CAPABILITY)
        return haul__fail(HAUL_DEVICE, device->name, NULL,
                          "%s has compute capability %d.%d, but Haul needs at least 7.5 (Turing, 2018)", device->model,
                          d->capability / 10, d->capability % 10);
    status = choose_target(device, d);
    if (status)
        return status;
    if (!d->identity) /* otherwise opened again, after memory was exhausted */
        d->identity = haul__format("%s\n%s\n", device->driver, d->target);
    if (!d->identity)
        return haul__fail_memory(device->name, 256);
    device->impl = d;
    return HAUL_OK;
}

static const haul__implementation implementations[] = {
    {HAUL__PROBLEM_GEMM, HAUL__BY_cublaslt, .refuses = haul__cublaslt_refuses, .scratch = haul__cublaslt_scratch,
     .run = haul__cublaslt_run},
    {HAUL__PROBLEM_CONV2D, HAUL__BY_cudnn, .refuses = haul__cudnn_refuses, .scratch = haul__cudnn_scratch,
     .run = haul__cudnn_compute, .wants_channels_last = haul__cudnn_wants_channels_last},
    {HAUL__PROBLEM_SPECTRUM, HAUL__BY_cusolver, .refuses = haul__cusolver_refuses, .scratch = haul__cusolver_scratch,
     .run = haul__cusolver_run},
    {.refuses = NULL},
};

const haul__backend haul__backend_cuda = {
    .size = sizeof(haul__backend),
    .name = "cuda",
    .count = count_gpus,
    .open = open_gpu,
    .start = start_gpu,
    .alloc = haul__cuda_alloc,
    .free = haul__cuda_free,
    .host_alloc = haul__cuda_host_alloc,
    .host_free = haul__cuda_host_free,
    .host_is_pinned = haul__cuda_host_is_pinned,
    .holds = haul__cuda_holds,
    .sync_device = haul__cuda_finish,
    .stream_open = haul__cuda_stream_open,
    .stream_close = haul__cuda_stream_close,
    .submit = haul__cuda_submit,
    .compile = haul__cuda_compile,
    .sync = haul__cuda_sync,
    .event_record = haul__cuda_event_record,
    .event_wait = haul__cuda_event_wait,
    .event_query = haul__cuda_event_query,
    .event_free = haul__cuda_event_free,
    .timing_begin = haul__cuda_timing_begin,
    .timing_end = haul__cuda_timing_end,
    .timing_read = haul__cuda_timing_read,
    .timing_free = haul__cuda_timing_free,
    .describe = haul__cuda_describe,
    .implementations = implementations,
    .page = HAUL__CUDA_PAGE,
    .dlpack = 2,
    .addresses = true,
    .fills_words = true,
    .shared_tiles = true,
    .peers = true,
};
