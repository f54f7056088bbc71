/* A stand-in for NVRTC: its functions. Kernel text is compiled as C for the host, behind prelude.h, which defines
 * CUDA's words; headers and sources are the very ones the backend hands over. */
#include "nvrtc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "module.h"

struct _nvrtcProgram {
    char  *source;
    int    header_count;
    char **headers, **names; /* their texts, and what they are included by */
    char  *log, *image;
    size_t image_size;
    bool   real;
};

/* ---- programs ---- */

nvrtcResult nvrtcVersion(int *major, int *minor)
{
    nvrtcResult code = (nvrtcResult)standin_call(CALL_nvrtcVersion);
    *major = STANDIN_VERSION / 1000;
    *minor = STANDIN_VERSION % 1000 / 10;
    return code;
}

nvrtcResult nvrtcGetNumSupportedArchs(int *count)
{
    nvrtcResult code = (nvrtcResult)standin_call(CALL_nvrtcGetNumSupportedArchs);
    *count = standin_capability_count;
    return code;
}

nvrtcResult nvrtcGetSupportedArchs(int *archs)
{
    nvrtcResult code = (nvrtcResult)standin_call(CALL_nvrtcGetSupportedArchs);
    memcpy(archs, standin_capabilities, (size_t)standin_capability_count * sizeof *archs);
    return code;
}

static void destroy(nvrtcProgram p)
{
    for (int i = 0; i < p->header_count; i++) {
        free(p->headers[i]);
        free(p->names[i]);
    }
    free(p->headers);
    free(p->names);
    free(p->source);
    free(p->log);
    free(p->image);
    free(p);
}

static bool take_headers(nvrtcProgram p, int count, const char *const *texts, const char *const *names)
{
    p->headers = calloc((size_t)count + 1, sizeof *p->headers);
    p->names = calloc((size_t)count + 1, sizeof *p->names);
    if (!p->headers || !p->names)
        return false;
    p->header_count = count;
    for (int i = 0; i < count; i++) {
        p->headers[i] = standin_without_linkage(texts[i]);
        p->names[i] = strdup(names[i]);
        if (!p->headers[i] || !p->names[i])
            return false;
    }
    return true;
}

nvrtcResult nvrtcCreateProgram(nvrtcProgram *out, const char *source, const char *name, int count,
                               const char *const *headers, const char *const *names)
{
    nvrtcResult  code = (nvrtcResult)standin_call(CALL_nvrtcCreateProgram);
    nvrtcProgram p;
    (void)name;
    if (code != NVRTC_SUCCESS)
        return code;
    if (!source || count < 0 || (count > 0 && (!headers || !names)))
        return NVRTC_ERROR_INVALID_INPUT;
    for (int i = 0; i < count; i++)
        if (!headers[i] || !names[i] || !names[i][0] || strchr(names[i], '/')) /* they become files of one folder */
            return NVRTC_ERROR_INVALID_INPUT;
    p = calloc(1, sizeof *p);
    if (!p)
        return NVRTC_ERROR_OUT_OF_MEMORY;
    p->source = standin_without_linkage(source);
    if (!p->source || !take_headers(p, count, headers, names)) {
        destroy(p);
        return NVRTC_ERROR_OUT_OF_MEMORY;
    }
    *out = p;
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcDestroyProgram(nvrtcProgram *program)
{
    nvrtcResult code = (nvrtcResult)standin_call(CALL_nvrtcDestroyProgram);
    if (program && *program) {
        destroy(*program);
        *program = NULL;
    }
    return code;
}

/* ---- compiling ---- */

static bool write_inputs(const standin_folder *folder, const struct _nvrtcProgram *p)
{
    bool written = standin_folder_put(folder, "source.c", p->source);
    for (int i = 0; i < p->header_count && written; i++)
        written = standin_folder_put(folder, p->names[i], p->headers[i]);
    return written;
}

static bool preprocess(const standin_folder *folder, const standin_options *o)
{
    char         arch[48], prelude[] = STANDIN_FOLDER "/prelude.h";
    const char  *fixed[] = {"-std=gnu11", "-E", "-P",       "-w", "-include",  prelude,
                            "-I.",        arch, "source.c", "-o", "expanded.c"};
    const int    fixed_count = sizeof fixed / sizeof fixed[0];
    const char **arguments = calloc((size_t)(fixed_count + o->definition_count), sizeof *arguments);
    bool         done;
    if (!arguments)
        return false;
    snprintf(arch, sizeof arch, "-D__CUDA_ARCH__=%d", o->capability * 10);
    memcpy(arguments, fixed, sizeof fixed);
    for (int i = 0; i < o->definition_count; i++)
        arguments[fixed_count + i] = o->definitions[i];
    done = standin_cc(folder, arguments, fixed_count + o->definition_count);
    free(arguments);
    return done;
}

static bool add_entries(const standin_folder *folder)
{
    size_t size;
    char  *text = standin_folder_get(folder, "expanded.c", &size);
    char  *all = text ? standin_with_entries(text) : NULL;
    bool   done = all && standin_folder_put(folder, "kernels.i", all);
    free(text);
    free(all);
    return done;
}

static bool compile(const standin_folder *folder, const standin_options *o)
{
    const char *arguments[] = {
        "-std=gnu11",

        "-fPIC",
        "-shared",
        "-fvisibility=hidden",
        "-fwrapv",
        "-fno-math-errno",
        "-Werror=implicit-function-declaration",
        o->fmad ? "-ffp-contract=fast" : "-ffp-contract=off",
        o->fmad ? "-fexpensive-optimizations" : "-fno-expensive-optimizations", /* where gcc fuses */
#if defined(__x86_64__)
        "-mfma", /* only fused where the text says fma, or --fmad lets it */
#endif
#ifdef STANDIN_KERNEL_FLAGS
        STANDIN_KERNEL_FLAGS,
#endif
        "kernels.i",
        "-o",
        "kernels.so",
        "-lm"
    };

    return standin_cc(folder, arguments, sizeof arguments / sizeof arguments[0]);
}

static nvrtcResult take_image(const standin_folder *folder, const standin_options *o, nvrtcProgram p)
{
    size_t               size = 0;
    char                *object = standin_folder_get(folder, "kernels.so", &size);
    struct standin_image header = {.magic = STANDIN_MAGIC,
                                   .stamp = STANDIN_STAMP,
                                   .ptx = !o->real,
                                   .capability = o->capability,
                                   .version = STANDIN_VERSION,
                                   .size = size};
    p->image = object ? malloc(sizeof header + size) : NULL;
    if (p->image) {
        memcpy(p->image, &header, sizeof header);
        memcpy(p->image + sizeof header, object, size);
        p->image_size = sizeof header + size;
        p->real = o->real;
    }
    free(object);
    return p->image ? NVRTC_SUCCESS : NVRTC_ERROR_OUT_OF_MEMORY;
}

static nvrtcResult compile_in(const standin_folder *folder, const standin_options *o, nvrtcProgram p)
{
    nvrtcResult code = NVRTC_SUCCESS;
    size_t      size;
    if (!write_inputs(folder, p))
        return NVRTC_ERROR_OUT_OF_MEMORY;
    if (!preprocess(folder, o) || !add_entries(folder) || !compile(folder, o))
        code = NVRTC_ERROR_COMPILATION;
    free(p->log);
    p->log = standin_folder_get(folder, "log", &size);
    return code ? code : take_image(folder, o, p);
}

static void say_refused(nvrtcProgram p, const char *option)
{
    size_t size = strlen(option) + 64;
    free(p->log);
    p->log = malloc(size);
    if (p->log)
        snprintf(p->log, size, "nvrtc: error: invalid value or option: %s\n", option);
}

nvrtcResult nvrtcCompileProgram(nvrtcProgram p, int count, const char *const *options)
{
    nvrtcResult     code = (nvrtcResult)standin_call(CALL_nvrtcCompileProgram);
    standin_options o = {0};
    standin_folder  folder;
    const char     *refused;
    if (code != NVRTC_SUCCESS)
        return code;
    if (!p || count < 0 || (count > 0 && !options))
        return NVRTC_ERROR_INVALID_INPUT;
    free(p->image);
    p->image = NULL;
    p->image_size = 0;
    o.definitions = calloc(2 * (size_t)count + 1, sizeof *o.definitions);
    if (!o.definitions)
        return NVRTC_ERROR_OUT_OF_MEMORY;
    if (!standin_parse_options(count, options, &o, &refused)) {
        say_refused(p, refused);
        code = NVRTC_ERROR_INVALID_OPTION;
    } else if (!standin_folder_make(&folder)) {
        code = NVRTC_ERROR_OUT_OF_MEMORY;
    } else {
        code = compile_in(&folder, &o, p);
        standin_folder_remove(&folder);
    }
    free(o.definitions);
    return code;
}

/* ---- results ---- */

nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram p, size_t *size)
{
    nvrtcResult code = (nvrtcResult)standin_call(CALL_nvrtcGetProgramLogSize);
    *size = p->log ? strlen(p->log) + 1 : 1;
    return code;
}

nvrtcResult nvrtcGetProgramLog(nvrtcProgram p, char *log)
{
    nvrtcResult code = (nvrtcResult)standin_call(CALL_nvrtcGetProgramLog);
    strcpy(log, p->log ? p->log : "");
    return code;
}

/* Machine code is there for sm_XX only, PTX always. */
static size_t size_of(const struct _nvrtcProgram *p, bool ptx)
{
    return p->image && (ptx || p->real) ? p->image_size : 0;
}

static nvrtcResult get(const struct _nvrtcProgram *p, bool ptx, char *out)
{
    int mark = ptx;
    if (size_of(p, ptx) == 0)
        return NVRTC_ERROR_INVALID_INPUT;
    memcpy(out, p->image, p->image_size);
    memcpy(out + offsetof(struct standin_image, ptx), &mark, sizeof mark);
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetCUBINSize(nvrtcProgram p, size_t *size)
{
    nvrtcResult code = (nvrtcResult)standin_call(CALL_nvrtcGetCUBINSize);
    *size = size_of(p, false);
    return code;
}

nvrtcResult nvrtcGetCUBIN(nvrtcProgram p, char *out)
{
    nvrtcResult code = (nvrtcResult)standin_call(CALL_nvrtcGetCUBIN);
    return code ? code : get(p, false, out);
}

nvrtcResult nvrtcGetPTXSize(nvrtcProgram p, size_t *size)
{
    nvrtcResult code = (nvrtcResult)standin_call(CALL_nvrtcGetPTXSize);
    *size = size_of(p, true);
    return code;
}

nvrtcResult nvrtcGetPTX(nvrtcProgram p, char *out)
{
    nvrtcResult code = (nvrtcResult)standin_call(CALL_nvrtcGetPTX);
    return code ? code : get(p, true, out);
}
