/* Finds OpenCL: the ICD loader, which is opened at run time so that one binary also runs without it, its platforms and
 * their devices. Enumeration happens once per process. */
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "backends/opencl/opencl.h"
#include "base/assert.h"

#define LIBRARY       "libOpenCL.so.1"
#define MAX_PLATFORMS 16

haul__cl_functions haul__cl;

static pthread_once_t    once = PTHREAD_ONCE_INIT;
static haul__cl_platform platforms[MAX_PLATFORMS];
static haul__cl_device   devices[HAUL__MAX_DEVICES];
static int               device_count;
static char              reason[256]; /* the reason why there is no device */
static pthread_mutex_t   context_lock = PTHREAD_MUTEX_INITIALIZER;

static bool load(void)
{
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        snprintf(reason, sizeof reason, "no OpenCL loader (%s); install ocl-icd-libopencl1", LIBRARY);
        return false;
    }
#define X(name)                                                                                                        \
    *(void **)&haul__cl.name = dlsym(library, "cl" #name);                                                             \
    if (!haul__cl.name) {                                                                                              \
        snprintf(reason, sizeof reason, "%s has no cl%s; OpenCL 1.2 is needed", LIBRARY, #name);                       \
        return false;                                                                                                  \
    }
    HAUL__CL_FUNCTIONS(X)
#undef X
    return true;
}

/* PoCL finds the processors through hwloc, which needs one of these files. PoCL ends the process without them, as in a
 * chroot without /sys. Other drivers are not opened either, because the loader may ask PoCL before it names the
 * drivers. */
static bool processors_are_described(void)
{
    static const char *const files[] = {
        "/sys/devices/system/cpu/cpu0/topology/core_cpus",
        "/sys/devices/system/cpu/cpu0/topology/package_cpus",
        "/sys/devices/system/cpu/cpu0/topology/core_siblings",
        "/sys/devices/system/cpu/cpu0/topology/thread_siblings",
    };
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        if (access(files[i], R_OK) == 0)
            return true;
    snprintf(reason, sizeof reason,
             "PoCL, an OpenCL driver, aborts where /sys/devices/system/cpu/cpu0/topology cannot be read; "
             "mount /sys");
    return false;
}

static void trim(char *text)
{
    size_t blanks = strspn(text, " "), length = strlen(text);
    while (length > blanks && (text[length - 1] == ' ' || text[length - 1] == '\n'))
        text[--length] = '\0';
    memmove(text, text + blanks, length - blanks + 1);
}

/* Properties are returned whole or not at all, so a longer one is first read into a larger buffer. */
static void platform_text(cl_platform_id id, cl_platform_info what, char *out, size_t size)
{
    char text[1024] = "";
    if (haul__cl.GetPlatformInfo(id, what, sizeof text - 1, text, NULL) != CL_SUCCESS)
        text[0] = '\0';
    trim(text);
    snprintf(out, size, "%.*s", (int)size - 1, text);
}

void haul__cl_device_text(cl_device_id id, cl_device_info what, char *out, size_t size)
{
    char text[1024] = "";
    if (haul__cl.GetDeviceInfo(id, what, sizeof text - 1, text, NULL) != CL_SUCCESS)
        text[0] = '\0';
    trim(text);
    snprintf(out, size, "%.*s", (int)size - 1, text);
}

static void take_platform(haul__cl_platform *platform, cl_platform_id id)
{
    cl_device_id ids[HAUL__MAX_DEVICES];
    cl_uint      count = 0;
    HAUL__ASSERT(device_count <= HAUL__MAX_DEVICES);
    HAUL__ASSERT(platforms <= platform && platform < platforms + MAX_PLATFORMS && !platform->context);
    platform->id = id;
    platform_text(id, CL_PLATFORM_NAME, platform->name, sizeof platform->name);
    platform_text(id, CL_PLATFORM_VERSION, platform->version, sizeof platform->version);
    platform->is_oclgrind = strcmp(platform->name, "Oclgrind") == 0;
    platform->is_pocl = strstr(platform->version, "PoCL") || strstr(platform->version, "pocl");
    if (haul__cl.GetDeviceIDs(id, CL_DEVICE_TYPE_ALL, HAUL__MAX_DEVICES, ids, &count) != CL_SUCCESS)
        return;
    for (cl_uint i = 0; i < count && i < HAUL__MAX_DEVICES && device_count < HAUL__MAX_DEVICES; i++) {
        devices[device_count].id = ids[i];
        devices[device_count].platform = platform;
        pthread_mutex_init(&devices[device_count].lock, NULL);
        device_count++;
    }
}

static void find_devices(void)
{
    cl_platform_id ids[MAX_PLATFORMS];
    cl_uint        count = 0;
    if (haul__cl.GetPlatformIDs(MAX_PLATFORMS, ids, &count) != CL_SUCCESS || count == 0) {
        snprintf(reason, sizeof reason, "the loader found no platform; install a driver, for example pocl-opencl-icd");
        return;
    }
    for (cl_uint i = 0; i < count && i < MAX_PLATFORMS; i++)
        take_platform(&platforms[i], ids[i]);
    if (device_count == 0)
        snprintf(reason, sizeof reason, "OpenCL platform %s offers no device", platforms[0].name);
}

/* PoCL installs a handler for SIGFPE that continues after a division by zero anywhere in the process. A library must
 * not touch the program's signals, and kernels guard their divisions, so the previous handler is restored. */
static void enumerate(void)
{
    struct sigaction before;
    bool             known = sigaction(SIGFPE, NULL, &before) == 0;
    if (processors_are_described() && load())
        find_devices();
    if (known)
        sigaction(SIGFPE, &before, NULL);
}

int haul__cl_count(char *why, size_t why_size)
{
    pthread_once(&once, enumerate);
    if (device_count == 0 && why_size > 0)
        snprintf(why, why_size, "%s", reason);
    return device_count;
}

haul__cl_device *haul__cl_enumerated(int index)
{
    return index >= 0 && index < device_count ? &devices[index] : NULL;
}

static bool flag(cl_device_id id, cl_device_info what)
{
    cl_bool value = CL_FALSE;
    return haul__cl.GetDeviceInfo(id, what, sizeof value, &value, NULL) == CL_SUCCESS && value;
}

const char *haul__cl_unusable(cl_device_id id)
{
    char version[128];
    int  major = 0, minor = 0;
    haul__cl_device_text(id, CL_DEVICE_VERSION, version, sizeof version);
    if (sscanf(version, "OpenCL %d.%d", &major, &minor) != 2 || major < 1 || (major == 1 && minor < 2))
        return "its driver is older than OpenCL 1.2";
    if (!flag(id, CL_DEVICE_AVAILABLE))
        return "its driver says that it is not available";
    if (!flag(id, CL_DEVICE_COMPILER_AVAILABLE))
        return "its driver has no compiler";
    if (!flag(id, CL_DEVICE_ENDIAN_LITTLE))
        return "its byte order is not the host's";
    return NULL;
}

cl_int haul__cl_context(haul__cl_platform *platform, cl_context *out)
{
    const cl_context_properties properties[] = {CL_CONTEXT_PLATFORM, (cl_context_properties)platform->id, 0};
    cl_device_id                ids[HAUL__MAX_DEVICES];
    cl_uint                     count = 0;
    cl_int                      code = CL_SUCCESS;
    HAUL__ASSERT(platforms <= platform && platform < platforms + MAX_PLATFORMS);
    pthread_mutex_lock(&context_lock);
    if (!platform->context) {
        for (int i = 0; i < device_count; i++)
            if (devices[i].platform == platform && !haul__cl_unusable(devices[i].id))
                ids[count++] = devices[i].id;
        platform->context = haul__cl.CreateContext(properties, count, ids, NULL, NULL, &code);
    }
    *out = platform->context;
    pthread_mutex_unlock(&context_lock);
    return code;
}
