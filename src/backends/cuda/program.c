/* Compiles kernels: the text of the prelude and a unit, compiled by NVRTC or taken from the disk cache. */
#include <stdio.h>
#include <string.h>

#include "backends/compiler_log.h"
#include "backends/cuda/cuda.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "core/error.h"
#include "files/disk_cache.h"
#include "kernels/kernels.h"

/* ---- compiling ---- */

/* NVRTC gets the prelude as a header, so that its lines are numbered separately. */
#define PRELUDE "haul_prelude.h"

/* A unit may have more text in the folder text. */
char *haul__cuda_program_text(const haul__unit *unit)
{
    const char *dtype = haul_dtype_name(unit->dtype);
    char       *name = haul__format("%s_cuda", unit->name), *text = NULL;
    char       *wanted = unit->kernel
                             ? haul__format("#define HAUL_WANTS_ONE 1\n#define HAUL_WANTED_%s HAUL_IS_WANTED\n", unit->kernel)
                             : haul__strdup("");
    const char *own = name ? haul__kernel_header(name) : NULL;
    HAUL__ASSERT(unit->text); /* nothing is compiled beforehand */
    if (name && wanted)
        text = haul__format("#define HAUL_KERNEL 1\n"
                            "#define HAUL_KERNEL_DTYPE_%s 1\n"
                            "#define HAUL_KERNEL_SUFFIX %s\n"
                            "#define CHUNKED 0\n"
                            "%s%s\n#include \"" PRELUDE "\"\n%s\n%s\n%s\n",
                            dtype, dtype, wanted, haul__kernel_header("constants"), haul__kernel_header("common"),
                            unit->text, own ? own : "");
    haul__free(name);
    haul__free(wanted);
    return text;
}

/* The compiler's log, which the caller must haul__free; NULL if it is not available. */
static char *read_log(nvrtcProgram program)
{
    size_t size = 0;
    char  *log = haul__nvrtc.GetProgramLogSize(program, &size) == NVRTC_SUCCESS ? haul__calloc(size + 1, 1) : NULL;
    if (log && haul__nvrtc.GetProgramLog(program, log) == NVRTC_SUCCESS)
        return log;
    haul__free(log);
    return NULL;
}

static haul_status fail_compile(const char *place, const char *name, nvrtcProgram program, nvrtcResult code)
{
    char *log, line[300] = "";
    if (code == NVRTC_ERROR_OUT_OF_MEMORY)
        return haul__fail_memory(place, 0);
    log = read_log(program);
    if (log)
        haul__compiler_line(log, line, sizeof line);
    haul__free(log);
    return haul__fail(HAUL_BACKEND, place, NULL, "kernel %s does not compile: NVRTC error %d%s%s", name, (int)code,
                      line[0] ? ": " : "", line);
}

/* The result: machine code for a GPU, or portable code if the compiler is older than the GPU. */
static nvrtcResult get_image(const char *target, nvrtcProgram program, void **image, size_t *size)
{
    bool        portable = strstr(target, "compute_") != NULL;
    nvrtcResult code = portable ? haul__nvrtc.GetPTXSize(program, size) : haul__nvrtc.GetCUBINSize(program, size);
    if (code != NVRTC_SUCCESS)
        return code;
    HAUL__ASSERT(!*image);
    *image = haul__calloc(*size + 1, 1);
    if (!*image)
        return NVRTC_ERROR_OUT_OF_MEMORY;
    code = portable ? haul__nvrtc.GetPTX(program, *image) : haul__nvrtc.GetCUBIN(program, *image);
    if (code != NVRTC_SUCCESS) {
        haul__free(*image);
        *image = NULL;
    }
    return code;
}

/* --fmad=false: contracted multiply-adds would give different bits than the CPU. --modify-stack-limit=false: otherwise
 * NVRTC changes the stack limit of the whole process while it compiles. */
haul_status haul__cuda_compile_text(const char *place, const char *name, const char *source, const char *target,
                                    const char *report, haul__cuda_code *out)
{
    const char  *header = haul__kernel_header("prelude_cuda"), *header_name = PRELUDE;
    const char  *options[] = {target, "--fmad=false", "--modify-stack-limit=false", report};
    nvrtcProgram program = NULL;
    haul_status  status = HAUL_OK;
    nvrtcResult  code = haul__nvrtc.CreateProgram(&program, source, name, 1, &header, &header_name);
    *out = (haul__cuda_code){.image = NULL};
    if (code != NVRTC_SUCCESS)
        return haul__fail(HAUL_BACKEND, place, NULL, "nvrtcCreateProgram failed: NVRTC error %d", (int)code);
    code = haul__nvrtc.CompileProgram(program, report ? 4 : 3, options);
    if (code == NVRTC_SUCCESS)
        code = get_image(target, program, &out->image, &out->size);
    if (code != NVRTC_SUCCESS)
        status = fail_compile(place, name, program, code);
    else if (report)
        out->log = read_log(program);
    haul__nvrtc.DestroyProgram(&program);
    HAUL__ASSERT((status == HAUL_OK) == (out->image != NULL) && (report || !out->log));
    return status;
}

/* ---- modules ---- */

/* The prelude is part of the key, because it is not part of the source. */
char *haul__cuda_cache_key(const haul_device *device, const char *source)
{
    return haul__format("cuda\n%s%s\n%s", haul__cuda_of(device)->identity, haul__kernel_header("prelude_cuda"), source);
}

static CUresult load(const haul_device *device, const void *image, CUmodule *out)
{
    CUresult                  code;
    const haul__cuda_spending spent = haul__cuda_spend_begin(device);
    HAUL__CU_CALL(code, haul__cuda_of(device), ModuleLoadData(out, image));
    haul__cuda_spend_end(device, &spent);
    return code;
}

/* Returns false if there is no entry, or if the driver refuses it: it may be damaged, or made by another version. */
static bool load_cached(const haul_device *device, const char *key, CUmodule *out)
{
    size_t size = 0;
    void  *image = haul__cache_load(key, &size);
    bool   loaded = image && load(device, image, out) == CUDA_SUCCESS;
    haul__free(image);
    return loaded;
}

static haul_status build(haul_device *device, const char *name, const char *source, CUmodule *out)
{
    char           *key = haul__cuda_cache_key(device, source);
    haul__cuda_code code = {.image = NULL};
    haul_status     status = key ? HAUL_OK : haul__fail_memory(device->name, strlen(source));
    HAUL__ASSERT(!*out && haul__cuda_of(device)->target[0]);
    if (key && load_cached(device, key, out)) {
        haul__free(key);
        return HAUL_OK;
    }
    if (status == HAUL_OK)
        status = haul__cuda_compile_text(device->name, name, source, haul__cuda_of(device)->target, NULL, &code);
    if (status == HAUL_OK)
        status = haul__cuda_check(device, "cuModuleLoadData", load(device, code.image, out));
    if (status == HAUL_OK)
        haul__cache_store(key, code.image, code.size);
    haul__free(code.image);
    haul__free(key);
    return status;
}

/* Each kernel has a module of its own, so that compiling takes no longer than this kernel needs. Modules are kept for
 * the life of the process, as kernels are. */
static haul_status make_module(haul_device *device, const haul__unit *unit, CUmodule *out)
{
    char       *source = haul__cuda_program_text(unit);
    haul_status status =
        source ? build(device, unit->kernel, source, out) : haul__fail_memory(device->name, strlen(unit->text));
    haul__free(source);
    return status;
}

static void unload(const haul__cuda_device *d, CUmodule module)
{
    CUresult code;
    HAUL__CU_CALL(code, d, ModuleUnload(module));
    (void)code; /* an error is recorded already */
}

static haul_status find_kernel(haul_device *device, const haul__unit *unit, CUmodule module, haul__cuda_kernel *out)
{
    const haul__cuda_device *d = haul__cuda_of(device);
    char                     entry[128];
    int                      most = 0;
    CUresult                 code;
    snprintf(entry, sizeof entry, "k_%s_%s", unit->kernel, haul_dtype_name(unit->dtype));
    const haul__cuda_spending spent = haul__cuda_spend_begin(device); /* drivers may load a function only now */
    HAUL__CU_CALL(code, d, ModuleGetFunction(&out->function, module, entry));
    if (code == CUDA_SUCCESS)
        HAUL__CU_CALL(code, d, FuncGetAttribute(&most, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, out->function));
    haul__cuda_spend_end(device, &spent);
    if (code != CUDA_SUCCESS)
        return haul__fail(HAUL_BACKEND, device->name, NULL, "unit %s has no kernel %s: %s", unit->name, entry,
                          haul__cuda_error_name(code));
    out->max_block = most > 0 ? (unsigned)most : 32u;
    return HAUL_OK;
}

haul_status haul__cuda_compile(haul_device *device, const haul__unit *unit, haul__kernel *out)
{
    CUmodule           module = NULL;
    haul__cuda_kernel *kernel = haul__calloc(1, sizeof *kernel);
    haul_status        status = kernel ? HAUL_OK : haul__fail_memory(device->name, sizeof *kernel);
    if (status == HAUL_OK)
        status = make_module(device, unit, &module);
    if (status == HAUL_OK)
        status = find_kernel(device, unit, module, kernel);
    if (status == HAUL_OK) {
        *out = (haul__kernel){.handle = kernel};
        return HAUL_OK;
    }
    if (module)
        unload(haul__cuda_of(device), module);
    haul__free(kernel);
    return status;
}
