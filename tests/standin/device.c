/* Devices, their primary contexts, which context is current in a thread, and the lock around it all. */
#include "driver.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

standin_settings standin_set;

static pthread_mutex_t         lock = PTHREAD_MUTEX_INITIALIZER;
static bool                    initialised;
static struct CUctx_st         contexts[STANDIN_MAX_DEVICES];
static _Thread_local CUcontext current;

/* ---- settings ---- */

static unsigned long long number(const char *name, unsigned long long usual)
{
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 0) : usual;
}

static __attribute__((constructor)) void read_environment(void)
{
    const char *order = getenv("STANDIN_ORDER"), *capability = getenv("STANDIN_CAPABILITY");
    unsigned    major = 9, minor = 0;
    standin_set.order = !order || strcmp(order, "late") == 0 ? LATE : strcmp(order, "early") == 0 ? EARLY : RANDOM;
    standin_set.devices = (int)number("STANDIN_DEVICES", 1);
    if (standin_set.devices > STANDIN_MAX_DEVICES)
        standin_set.devices = STANDIN_MAX_DEVICES;
    standin_set.memory = number("STANDIN_MEMORY", 1ull << 30);
    standin_set.seed = number("STANDIN_SEED", 1);
    standin_set.latency = number("STANDIN_LATENCY", 0);
    standin_set.bandwidth = number("STANDIN_BANDWIDTH", 0);
    standin_set.foreign = number("STANDIN_FOREIGN", 0);
    standin_set.context = number("STANDIN_CONTEXT", 0);
    standin_set.module = number("STANDIN_MODULE", 0);
    standin_set.driver = (int)number("STANDIN_DRIVER", STANDIN_VERSION);
    standin_set.peer = number("STANDIN_PEER", 1) != 0;
    standin_set.compute_mode = (int)number("STANDIN_COMPUTE_MODE", 0);
    standin_set.keep = number("STANDIN_KEEP", 0) != 0;
    standin_set.init = (int)number("STANDIN_INIT", CUDA_SUCCESS);
    if (standin_set.devices < 1 || number("STANDIN_NO_DEVICE", 0) != 0)
        standin_set.init = CUDA_ERROR_NO_DEVICE;
    if (capability && sscanf(capability, "%u.%u", &major, &minor) != 2)
        fprintf(stderr, "standin: STANDIN_CAPABILITY=%s is not like 9.0\n", capability);
    standin_set.capability = (int)(major * 10 + minor);
    for (int i = 0; i < STANDIN_MAX_DEVICES; i++)
        contexts[i].device = i;
}

/* ---- entering and leaving ---- */

/* Faults after which a context is of no use. */
static bool is_fatal(CUresult code)
{
    return code == CUDA_ERROR_ILLEGAL_ADDRESS || code == CUDA_ERROR_LAUNCH_FAILED || code == 214 || code == 702 ||
           (code >= 714 && code <= 718);
}

CUresult standin_enter(enum standin_function function, enum standin_need need)
{
    CUresult code;
    pthread_mutex_lock(&lock);
    if (function == CALLS) /* not a function of CUDA's */
        return CUDA_SUCCESS;
    code = (CUresult)standin_call(function);
    if (need != NOTHING && !initialised)
        return CUDA_ERROR_NOT_INITIALIZED;
    standin_drain_some();
    if (need == IN_CONTEXT && !current)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (need == IN_CONTEXT && is_fatal(code))
        standin_lose(current, code);
    return need == IN_CONTEXT && current->lost ? current->lost : code;
}

CUresult standin_leave(CUresult code)
{
    pthread_mutex_unlock(&lock);
    return code;
}

CUcontext standin_context(void)
{
    return current;
}

void standin_lose(CUcontext context, CUresult code)
{
    if (context->lost == CUDA_SUCCESS)
        context->lost = code;
}

/* ---- the driver ---- */

CUresult cuInit(unsigned flags)
{
    CUresult code = standin_enter(CALL_cuInit, NOTHING);
    if (code == CUDA_SUCCESS)
        code = flags ? CUDA_ERROR_INVALID_VALUE : (CUresult)standin_set.init;
    if (code == CUDA_SUCCESS)
        initialised = true;
    return standin_leave(code);
}

CUresult cuDriverGetVersion(int *version)
{
    CUresult code = standin_enter(CALL_cuDriverGetVersion, NOTHING);
    if (code == CUDA_SUCCESS)
        *version = standin_set.driver;
    return standin_leave(code);
}

CUresult cuGetErrorName(CUresult error, const char **name)
{
    static const struct {
        int         code;
        const char *name;
    } names[] = {
#define X(constant, value) {value, #constant},
#include "backends/cuda/constants.def"
#undef X
    };
    CUresult code = standin_enter(CALL_cuGetErrorName, NOTHING);

    *name = NULL;
    for (size_t i = 0; i < sizeof names / sizeof names[0] && !*name; i++) /* the CUresults come first */
        if (names[i].code == (int)error && strncmp(names[i].name, "CUDA_", 5) == 0)
            *name = names[i].name;
    return standin_leave(code ? code : *name ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

/* ---- devices ---- */

static CUresult check_device(CUresult code, CUdevice device)
{
    if (code == CUDA_SUCCESS && (device < 0 || device >= standin_set.devices))
        return CUDA_ERROR_INVALID_DEVICE;
    return code;
}

CUresult cuDeviceGetCount(int *count)
{
    CUresult code = standin_enter(CALL_cuDeviceGetCount, INITIALISED);
    if (code == CUDA_SUCCESS)
        *count = standin_set.devices;
    return standin_leave(code);
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    CUresult code = check_device(standin_enter(CALL_cuDeviceGet, INITIALISED), ordinal);
    if (code == CUDA_SUCCESS)
        *device = ordinal;
    return standin_leave(code);
}

CUresult cuDeviceGetName(char *name, int size, CUdevice device)
{
    CUresult code = check_device(standin_enter(CALL_cuDeviceGetName, INITIALISED), device);
    if (code == CUDA_SUCCESS && size <= 0)
        code = CUDA_ERROR_INVALID_VALUE;
    if (code == CUDA_SUCCESS)
        snprintf(name, (size_t)size, "Stand-in GPU %d", device);
    return standin_leave(code);
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    CUresult code = check_device(standin_enter(CALL_cuDeviceTotalMem_v2, INITIALISED), device);
    if (code == CUDA_SUCCESS)
        *bytes = standin_set.memory;
    return standin_leave(code);
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    CUresult code = check_device(standin_enter(CALL_cuDeviceGetAttribute, INITIALISED), device);
    if (code == CUDA_SUCCESS)
        switch ((int)attribute) {
        case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = STANDIN_MAX_THREADS; break;
        case CU_DEVICE_ATTRIBUTE_WARP_SIZE: *value = STANDIN_WARP; break;
        case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = 4; break;
        case CU_DEVICE_ATTRIBUTE_INTEGRATED: *value = 0; break;
        case CU_DEVICE_ATTRIBUTE_COMPUTE_MODE: *value = standin_set.compute_mode; break;
        case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR: *value = 2048; break;
        case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = standin_set.capability / 10; break;
        case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = standin_set.capability % 10; break;
        default: code = CUDA_ERROR_INVALID_VALUE;
        }
    return standin_leave(code);
}

CUresult cuDeviceGetPCIBusId(char *id, int size, CUdevice device)
{
    CUresult code = check_device(standin_enter(CALL_cuDeviceGetPCIBusId, INITIALISED), device);
    if (code == CUDA_SUCCESS && size < 13)
        code = CUDA_ERROR_INVALID_VALUE;
    if (code == CUDA_SUCCESS)
        snprintf(id, (size_t)size, "0000:%02x:00.0", device + 1);
    return standin_leave(code);
}

CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
    CUresult code = check_device(standin_enter(CALL_cuDeviceCanAccessPeer, INITIALISED), device);
    code = check_device(code, peer);
    if (code == CUDA_SUCCESS)
        *can = standin_set.peer && device != peer;
    return standin_leave(code);
}

/* ---- contexts ---- */

CUresult cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice device)
{
    CUresult code = check_device(standin_enter(CALL_cuDevicePrimaryCtxRetain, INITIALISED), device);
    if (code == CUDA_SUCCESS)
        code = contexts[device].lost;
    if (code == CUDA_SUCCESS) {
        contexts[device].spent += contexts[device].retained ? 0 : standin_set.context;
        contexts[device].retained = true;
        *out = &contexts[device];
    }
    return standin_leave(code);
}

static CUresult check_context(CUcontext context)
{
    for (int i = 0; i < standin_set.devices; i++)
        if (context == &contexts[i])
            return contexts[i].retained ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
    return CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuCtxSetCurrent(CUcontext context)
{
    CUresult code = standin_enter(CALL_cuCtxSetCurrent, INITIALISED);
    if (code == CUDA_SUCCESS && context)
        code = check_context(context);
    if (code == CUDA_SUCCESS)
        current = context;
    return standin_leave(code);
}

CUresult cuCtxGetCurrent(CUcontext *context)
{
    CUresult code = standin_enter(CALL_cuCtxGetCurrent, INITIALISED);
    if (code == CUDA_SUCCESS)
        *context = current;
    return standin_leave(code);
}

/* From the current context to the peer's memory. */
CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags)
{
    CUresult code = standin_enter(CALL_cuCtxEnablePeerAccess, IN_CONTEXT);
    if (code == CUDA_SUCCESS && flags)
        code = CUDA_ERROR_INVALID_VALUE;
    if (code == CUDA_SUCCESS)
        code = check_context(peer);
    if (code == CUDA_SUCCESS && (!standin_set.peer || peer == current))
        code = (CUresult)217; /* CUDA_ERROR_PEER_ACCESS_UNSUPPORTED */
    if (code == CUDA_SUCCESS && current->peers & 1u << peer->device)
        code = CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
    if (code == CUDA_SUCCESS)
        current->peers |= 1u << peer->device;
    return standin_leave(code);
}

void standin_restart(void)
{
    (void)standin_enter(CALLS, NOTHING);
    standin_forget_streams();
    standin_forget_memory();
    memset(contexts, 0, sizeof contexts);
    initialised = false;
    current = NULL;
    read_environment();
    standin_fail(getenv("STANDIN_FAIL"));
    standin_reset_counts();
    (void)standin_leave(CUDA_SUCCESS);
}

int64_t standin_live(int device)
{
    int64_t bytes = -1;
    (void)standin_enter(CALLS, NOTHING);
    if (device >= 0 && device < STANDIN_MAX_DEVICES)
        bytes = (int64_t)contexts[device].used;
    (void)standin_leave(CUDA_SUCCESS);
    return bytes;
}
