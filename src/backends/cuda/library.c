/* Opening NVIDIA's libraries at run time, so that one binary runs where there are none. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cuda/cuda.h"
#include "base/text/word_list.h"

haul__cuda_driver haul__cu;
haul__cuda_nvrtc  haul__nvrtc;
haul__cuda_nvml   haul__nvml;

bool haul__cuda_names(const char *variable, const char *word)
{
    return haul__word_list_has(getenv(variable), word);
}

/* The toolkit brings libraries to link with that only return errors; they are in folders called "stubs". */
static bool is_stub(void *function)
{
    Dl_info info;
    return function && dladdr(function, &info) && info.dli_fname && strstr(info.dli_fname, "/stubs/");
}

static void *open_in(const char *folder, const char *name)
{
    char path[4096];
    if (!folder)
        return dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path)
        return NULL;
    return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

/* Toolkits, and the driver of Windows' subsystem for Linux, are often where the loader does not look. */
static void *open_in_usual_folders(const char *name)
{
    static const char *const folders[] = {"/usr/local/cuda/lib64", "/usr/lib/wsl/lib"};
    const char              *home = getenv("CUDA_HOME");
    char                     folder[4000];
    void                    *library = NULL;
    if (home && snprintf(folder, sizeof folder, "%s/lib64", home) < (int)sizeof folder)
        library = open_in(folder, name);
    for (size_t i = 0; i < sizeof folders / sizeof folders[0] && !library; i++)
        library = open_in(folders[i], name);
    return library;
}

void *haul__cuda_open_library(const char *const *names)
{
    const char *folder = getenv("HAUL_CUDA_LIBRARIES");
    for (; *names; names++) {
        void *library = open_in(folder, *names);

        if (!library && !folder)
            library = open_in_usual_folders(*names);
        if (library)
            return library;
    }
    return NULL;
}

const char *haul__cuda_find(void *opened, const haul__cuda_symbol *symbols, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        void *function = dlsym(opened, symbols[i].name);
        if (!function)
            return symbols[i].name;
        memcpy(symbols[i].at, &function, sizeof function);
    }
    return NULL;
}

bool haul__cuda_load(haul__cuda_library *library, void (*load)(void), char *why, size_t why_size)
{
    pthread_once(&library->once, load);
    if (why_size > 0)
        snprintf(why, why_size, "%s", library->text);
    return library->usable;
}

/* ---- the driver ---- */

static haul__cuda_library driver = {.once = PTHREAD_ONCE_INIT};
static int                driver_version;

#define X(name, symbol, arguments) HAUL__CUDA_SYMBOL(haul__cu, name, symbol)
static const haul__cuda_symbol driver_functions[] = {
#include "backends/cuda/driver.def"
};
#undef X

/* What to do if the driver does not start. */
static const struct {
    CUresult    code;
    const char *advice;
} start_errors[] = {
    {CUDA_ERROR_NOT_INITIALIZED, "a child of fork() cannot use the GPU that its parent used; start a new process"},
    {CUDA_ERROR_STUB_LIBRARY, "this is the toolkit's stub, not a driver; install NVIDIA's driver"},
    {CUDA_ERROR_DEVICE_UNAVAILABLE,
     "other processes use all GPUs exclusively; nvidia-smi lists the processes and the compute mode"},
    {CUDA_ERROR_NO_DEVICE, "the NVIDIA driver finds no GPU (is CUDA_VISIBLE_DEVICES set?)"},
    {CUDA_ERROR_SYSTEM_NOT_READY,
     "this machine's GPUs need NVIDIA's fabric manager; run systemctl start nvidia-fabricmanager"},
    {CUDA_ERROR_SYSTEM_DRIVER_MISMATCH,
     "the driver's library and its kernel module differ in version; restart the machine after the update"},
    {CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE,
     "cuda-compat supports only data centre GPUs; take its folder \"compat\" out of LD_LIBRARY_PATH"},
    {CUDA_ERROR_UNKNOWN,
     "the kernel module nvidia_uvm is missing or stopped working, as after a suspend; load it again with modprobe"},
};

static void explain_init(CUresult code)
{
    const char *advice = NULL;
    for (size_t i = 0; i < sizeof start_errors / sizeof start_errors[0]; i++)
        if (start_errors[i].code == code)
            advice = start_errors[i].advice;
    snprintf(driver.text, sizeof driver.text, "cuInit failed: %s (error %d)%s%s", haul__cuda_error_name(code),
             (int)code, advice ? ": " : "", advice ? advice : "");
}

static void load_driver(void)
{
    void       *library = haul__cuda_open_library((const char *const[]){"libcuda.so.1", NULL});
    const char *missing;
    CUresult    code;
    if (!library) {
        snprintf(driver.text, sizeof driver.text, "no NVIDIA driver (libcuda.so.1 was not found%s)",
                 getenv("HAUL_CUDA_LIBRARIES") ? " in $HAUL_CUDA_LIBRARIES, the only folder that is searched" : "");
        return;
    }
    missing = HAUL__CUDA_FIND(library, driver_functions);
    if (missing) {
        snprintf(driver.text, sizeof driver.text, "the NVIDIA driver has no %s: it is too old; CUDA 12 is needed",
                 missing);
        return;
    }
    if (is_stub(dlsym(library, "cuInit"))) {
        snprintf(
            driver.text, sizeof driver.text,
            "the libcuda.so.1 that was found is the toolkit's stub, not a driver; take the folder \"stubs\" out of "
            "LD_LIBRARY_PATH");
        return;
    }
    code = haul__cu.Init(0);
    if (code != CUDA_SUCCESS) {
        explain_init(code);
        return;
    }
    if (haul__cu.DriverGetVersion(&driver_version) != CUDA_SUCCESS || driver_version < HAUL__CUDA_LEAST_DRIVER) {
        snprintf(driver.text, sizeof driver.text,
                 "the NVIDIA driver is too old: it is made for CUDA %d.%d, and 12.0 is needed; update the driver",
                 driver_version / 1000, driver_version % 1000 / 10);
        return;
    }
    driver.usable = true;
}

bool haul__cuda_load_driver(char *why, size_t why_size)
{
    return haul__cuda_load(&driver, load_driver, why, why_size);
}

int haul__cuda_driver_version(void)
{
    return driver_version;
}

/* ---- the compiler ---- */

static haul__cuda_library nvrtc = {.once = PTHREAD_ONCE_INIT};

#define X(name, symbol, arguments) HAUL__CUDA_SYMBOL(haul__nvrtc, name, symbol)
static const haul__cuda_symbol nvrtc_functions[] = {
#include "backends/cuda/nvrtc.def"
};
#undef X

/* NVRTC opens its second library by name only. If NVRTC itself was opened by a path where the loader does not look, the
 * second one is not found, unless it was opened beforehand. What fails here shows when a kernel is compiled. */
static void open_builtins(int major, int minor)
{
    char        path[4200];
    const char *slash;
    Dl_info     info;
    void       *function;
    memcpy(&function, &haul__nvrtc.Version, sizeof function);
    if (!dladdr(function, &info) || !info.dli_fname || !(slash = strrchr(info.dli_fname, '/')))
        return;
    if (snprintf(path, sizeof path, "%.*s/libnvrtc-builtins.so.%d.%d", (int)(slash - info.dli_fname), info.dli_fname,
                 major, minor) < (int)sizeof path)
        dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

/* A driver loads machine code of its own major version and older ones. Without one, any compiler will do. */
static void load_nvrtc(void)
{
    static const char *const of_13[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", NULL};
    static const char *const of_12[] = {"libnvrtc.so.12", "libnvrtc.so", NULL};
    int                      newest = driver_version ? driver_version / 1000 : 13, major = 0, minor = 0;
    void                    *library = haul__cuda_open_library(newest >= 13 ? of_13 : of_12);
    const char              *missing;
    if (!library) {
        snprintf(nvrtc.text, sizeof nvrtc.text,
                 "no NVRTC, CUDA's run-time compiler (libnvrtc.so.%d was not found); install the CUDA toolkit, or the "
                 "package cuda-nvrtc, and put its folder in LD_LIBRARY_PATH",
                 newest);
        return;
    }
    missing = HAUL__CUDA_FIND(library, nvrtc_functions);
    if (missing) {
        snprintf(nvrtc.text, sizeof nvrtc.text, "NVRTC has no %s: it is too old; CUDA 12 is needed", missing);
        return;
    }
    if (is_stub(dlsym(library, "nvrtcVersion")) || haul__nvrtc.Version(&major, &minor) != NVRTC_SUCCESS || major < 12) {
        snprintf(nvrtc.text, sizeof nvrtc.text, "NVRTC %d.%d is too old; 12.0 is needed", major, minor);
        return;
    }
    if (driver_version && major > newest) {
        snprintf(
            nvrtc.text, sizeof nvrtc.text,
            "NVRTC %d.%d is newer than the NVIDIA driver, which is made for CUDA %d.%d and does not load its code; "
            "update the driver, or install NVRTC %d",
            major, minor, newest, driver_version % 1000 / 10, newest);
        return;
    }
    open_builtins(major, minor);
    nvrtc.usable = true;
}

bool haul__cuda_load_nvrtc(char *why, size_t why_size)
{
    return haul__cuda_load(&nvrtc, load_nvrtc, why, why_size);
}

/* ---- the management library, for figures that the driver lacks ---- */

static haul__cuda_library nvml = {.once = PTHREAD_ONCE_INIT};

#define X(name, symbol, arguments) HAUL__CUDA_SYMBOL(haul__nvml, name, symbol)
static const haul__cuda_symbol nvml_functions[] = {
#include "backends/cuda/nvml.def"
};
#undef X

static void load_nvml(void)
{
    void *library = haul__cuda_names("HAUL_CUDA_WITHOUT", "nvml")
                        ? NULL
                        : haul__cuda_open_library((const char *const[]){"libnvidia-ml.so.1", NULL});
    nvml.usable = library && !HAUL__CUDA_FIND(library, nvml_functions) && !is_stub(dlsym(library, "nvmlInit_v2")) &&
                  haul__nvml.Init() == 0;
}

bool haul__cuda_load_nvml(void)
{
    return haul__cuda_load(&nvml, load_nvml, NULL, 0);
}
