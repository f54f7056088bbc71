/* A libnvrtc.so.13 that hands everything to NVIDIA's, which is found in the folder $HAUL_TEST_NVRTC or where CUDA is
 * installed by default. It asks for PTX where machine code is wanted, and puts it into images that the stand-in's
 * driver runs. */
#include "calls.h"
#include "ptx/image.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct _nvrtcProgram {
    nvrtcProgram real;
    char        *image;
    size_t       size;
    bool         machine; /* machine code was wanted */
    int          capability;
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct {
#define X(name, symbol, arguments) nvrtcResult(*name) arguments;
#include STANDIN_LIST
#undef X
} real;
static bool loaded;

/* NVRTC opens its second library by name only; see src/backends/cuda/library.c. */
static void open_builtins(const char *nvrtc)
{
    int  major, minor;
    char path[600];
    if (real.Version(&major, &minor) == NVRTC_SUCCESS) {
        snprintf(path, sizeof path, "%.*s/libnvrtc-builtins.so.%d.%d", (int)(strrchr(nvrtc, '/') - nvrtc), nvrtc, major,
                 minor);
        dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }
}

static void load_real(void)
{
    static const char *const versions[] = {"13", "12"};
    const char              *folder = getenv("HAUL_TEST_NVRTC");
    void                    *library = NULL;
    char                     path[512];
    for (int i = 0; i < 2 && !library; i++) {
        snprintf(path, sizeof path, "%s/libnvrtc.so.%s", folder && *folder ? folder : "/usr/local/cuda/lib64",
                 versions[i]);
        library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }
    if (!library) {
        fprintf(stderr, "standin: %s\n", dlerror());
        return;
    }
    loaded = true;
#define X(name, symbol, arguments) loaded = (*(void **)&real.name = dlsym(library, #symbol)) != NULL && loaded;
#include STANDIN_LIST
#undef X
    if (loaded)
        open_builtins(path);
}

/* Counts the call; the code with which it must fail. */
static nvrtcResult enter(enum standin_function function)
{
    nvrtcResult code = (nvrtcResult)standin_call(function);
    pthread_once(&once, load_real);
    return code ? code : loaded ? NVRTC_SUCCESS : NVRTC_ERROR_INVALID_INPUT;
}

nvrtcResult nvrtcVersion(int *major, int *minor)
{
    nvrtcResult code = enter(CALL_nvrtcVersion);
    return code ? code : real.Version(major, minor);
}

nvrtcResult nvrtcGetNumSupportedArchs(int *count)
{
    nvrtcResult code = enter(CALL_nvrtcGetNumSupportedArchs);
    return code ? code : real.GetNumSupportedArchs(count);
}

nvrtcResult nvrtcGetSupportedArchs(int *archs)
{
    nvrtcResult code = enter(CALL_nvrtcGetSupportedArchs);
    return code ? code : real.GetSupportedArchs(archs);
}

nvrtcResult nvrtcCreateProgram(nvrtcProgram *out, const char *source, const char *name, int count,
                               const char *const *headers, const char *const *names)
{
    nvrtcResult  code = enter(CALL_nvrtcCreateProgram);
    nvrtcProgram p = code ? NULL : calloc(1, sizeof *p);
    if (code)
        return code;
    if (!p)
        return NVRTC_ERROR_OUT_OF_MEMORY;
    code = real.CreateProgram(&p->real, source, name, count, headers, names);
    if (code)
        free(p);
    else
        *out = p;
    return code;
}

nvrtcResult nvrtcDestroyProgram(nvrtcProgram *program)
{
    nvrtcResult code = enter(CALL_nvrtcDestroyProgram);
    if (program && *program) {
        real.DestroyProgram(&(*program)->real);
        free((*program)->image);
        free(*program);
        *program = NULL;
    }
    return code;
}

/* ---- compiling ---- */

/* "--gpu-architecture=sm_90" becomes compute_90: another string, in `changed`. */
static const char *changed_option(nvrtcProgram p, const char *option, char changed[64])
{
    static const char machine[] = "--gpu-architecture=sm_", virtual[] = "--gpu-architecture=compute_";
    if (strncmp(option, machine, sizeof machine - 1) == 0) {
        p->machine = true;
        p->capability = atoi(option + sizeof machine - 1);
        snprintf(changed, 64, "%s%.20s", virtual, option + sizeof machine - 1);
        return changed;
    }
    if (strncmp(option, virtual, sizeof virtual - 1) == 0)
        p->capability = atoi(option + sizeof virtual - 1);
    return option;
}

static nvrtcResult take_image(nvrtcProgram p)
{
    struct standin_image header = {.capability = p->capability};
    size_t               size = 0;
    int                  major, minor;
    nvrtcResult          code = real.GetPTXSize(p->real, &size);
    if (!code)
        code = real.Version(&major, &minor);
    if (code)
        return code;
    memcpy(header.magic, STANDIN_MAGIC_PTX, sizeof header.magic);
    header.version = major * 1000 + minor * 10;
    header.size = size;
    p->size = sizeof header + size;
    p->image = malloc(p->size);
    if (!p->image)
        return NVRTC_ERROR_OUT_OF_MEMORY;
    memcpy(p->image, &header, sizeof header);
    return real.GetPTX(p->real, p->image + sizeof header);
}

nvrtcResult nvrtcCompileProgram(nvrtcProgram p, int count, const char *const *options)
{
    nvrtcResult  code = enter(CALL_nvrtcCompileProgram);
    const char **passed = code ? NULL : calloc((size_t)count + 1, sizeof *passed);
    char         changed[64];
    if (code)
        return code;
    if (!passed)
        return NVRTC_ERROR_OUT_OF_MEMORY;
    for (int i = 0; i < count; i++)
        passed[i] = changed_option(p, options[i], changed);
    code = real.CompileProgram(p->real, count, passed);
    free(passed);
    free(p->image);
    p->image = NULL;
    return code ? code : take_image(p);
}

/* ---- results ---- */

nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram p, size_t *size)
{
    nvrtcResult code = enter(CALL_nvrtcGetProgramLogSize);
    return code ? code : real.GetProgramLogSize(p->real, size);
}

nvrtcResult nvrtcGetProgramLog(nvrtcProgram p, char *log)
{
    nvrtcResult code = enter(CALL_nvrtcGetProgramLog);
    return code ? code : real.GetProgramLog(p->real, log);
}

static nvrtcResult get(nvrtcProgram p, bool ptx, char *out)
{
    const int mark = ptx;
    if (!p->image || (!ptx && !p->machine))
        return NVRTC_ERROR_INVALID_INPUT;
    memcpy(out, p->image, p->size);
    memcpy(out + offsetof(struct standin_image, ptx), &mark, sizeof mark);
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetCUBINSize(nvrtcProgram p, size_t *size)
{
    nvrtcResult code = enter(CALL_nvrtcGetCUBINSize);
    *size = p->image && p->machine ? p->size : 0;
    return code;
}

nvrtcResult nvrtcGetCUBIN(nvrtcProgram p, char *out)
{
    nvrtcResult code = enter(CALL_nvrtcGetCUBIN);
    return code ? code : get(p, false, out);
}

nvrtcResult nvrtcGetPTXSize(nvrtcProgram p, size_t *size)
{
    nvrtcResult code = enter(CALL_nvrtcGetPTXSize);
    *size = p->image ? p->size : 0;
    return code;
}

nvrtcResult nvrtcGetPTX(nvrtcProgram p, char *out)
{
    nvrtcResult code = enter(CALL_nvrtcGetPTX);
    return code ? code : get(p, true, out);
}
