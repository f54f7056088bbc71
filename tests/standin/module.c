/* Modules: shared objects made by the stand-in's NVRTC, opened with dlopen, or PTX; and launches of their kernels. */
#include "driver.h"
#include "ptx/image.h"
#include "ptx/ptx.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MODULE = 0x4D4F4455, GONE = 0x474F4E45 };

struct CUfunc_st {
    const struct standin_kernel *kernel;
    CUmodule                     module;
    CUfunction                   next;
};

struct CUmod_st {
    unsigned                     magic;
    CUcontext                    context;
    void                        *library; /* NULL for one that is run from PTX */
    struct ptx_module           *ptx;
    const struct standin_kernel *kernels;
    char                        *shared;
    size_t                       shared_bytes;
    CUfunction                   functions;
    CUmodule                     next;
};

static CUmodule modules; /* all there ever were: functions of unloaded ones are recognised */

/* ---- modules ---- */

static bool is_ptx(const struct standin_image *image)
{
    return memcmp(image->magic, STANDIN_MAGIC_PTX, sizeof image->magic) == 0;
}

/* What a device of this generation, with this driver, would say to the image. */
static CUresult check_image(const struct standin_image *image)
{
    if (!is_ptx(image) && strncmp(image->stamp, STANDIN_STAMP, sizeof image->stamp) != 0)
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    if (image->ptx && image->version > standin_set.driver)
        return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
    if (image->capability > standin_set.capability ||
        (!image->ptx && image->capability / 10 != standin_set.capability / 10))
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    return CUDA_SUCCESS;
}

static bool write_all(int file, const char *bytes, size_t size)
{
    while (size > 0) {
        ssize_t n = write(file, bytes, size);
        if (n <= 0)
            return false;
        bytes += n;
        size -= (size_t)n;
    }
    return true;
}

static void *open_library(const struct standin_image *image)
{
    const char *folder = getenv("TMPDIR");
    char        path[512];
    void       *library = NULL;
    int         file, length;
    length = snprintf(path, sizeof path, "%s/standin-module-XXXXXX", folder && *folder ? folder : "/tmp");
    if (length < 0 || (size_t)length >= sizeof path || (file = mkstemp(path)) < 0)
        return NULL;
    if (write_all(file, (const char *)(image + 1), image->size))
        library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        fprintf(stderr, "standin: a module cannot be opened: %s\n", dlerror());
    close(file);
    if (!standin_set.keep)
        unlink(path);
    return library;
}

static bool bind_library(CUmodule m, const struct standin_image *image)
{
    void (*bind)(const struct standin_api *, char **, size_t *) = NULL;
    m->library = open_library(image);
    if (m->library) {
        *(void **)&bind = dlsym(m->library, "standin_bind");
        m->kernels = dlsym(m->library, "standin_kernels");
    }
    if (!bind || !m->kernels) {
        if (m->library)
            dlclose(m->library);
        return false;
    }
    bind(&standin_api, &m->shared, &m->shared_bytes);
    return true;
}

static bool read_ptx(CUmodule m, const struct standin_image *image)
{
    char why[256];
    m->ptx = ptx_module_new((const char *)(image + 1), image->size, why);
    if (!m->ptx) {
        fprintf(stderr, "standin: PTX cannot be read: %s\n", why);
        return false;
    }
    m->kernels = m->ptx->kernels;
    return true;
}

static CUresult load(const struct standin_image *image, CUmodule *out)
{
    CUmodule m = calloc(1, sizeof *m);
    if (!m)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (is_ptx(image) ? !read_ptx(m, image) : !bind_library(m, image)) {
        free(m);
        return CUDA_ERROR_INVALID_IMAGE;
    }
    m->magic = MODULE;
    m->context = standin_context();
    m->context->spent += standin_set.module;
    m->next = modules;
    modules = m;
    *out = m;
    return CUDA_SUCCESS;
}

CUresult cuModuleLoadData(CUmodule *out, const void *bytes)
{
    CUresult             code = standin_enter(CALL_cuModuleLoadData, IN_CONTEXT);
    struct standin_image image;
    if (code == CUDA_SUCCESS && !bytes)
        code = CUDA_ERROR_INVALID_VALUE;
    if (code == CUDA_SUCCESS) {
        memcpy(&image, bytes, sizeof image.magic); /* other images may be short */
        if (memcmp(image.magic, STANDIN_MAGIC, sizeof image.magic) != 0 && !is_ptx(&image))
            code = CUDA_ERROR_INVALID_IMAGE;
    }
    if (code == CUDA_SUCCESS)
        code = check_image(bytes);
    if (code == CUDA_SUCCESS)
        code = load(bytes, out);
    return standin_leave(code);
}

static CUresult check_module(CUmodule m)
{
    return m && m->magic == MODULE ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuModuleUnload(CUmodule m)
{
    CUresult code = standin_enter(CALL_cuModuleUnload, IN_CONTEXT);
    if (code == CUDA_SUCCESS)
        code = check_module(m);
    if (code == CUDA_SUCCESS) {
        standin_drain_all();
        m->magic = GONE;
        m->kernels = NULL;
        if (m->library)
            dlclose(m->library);
        ptx_module_free(m->ptx);
        m->library = NULL;
        m->ptx = NULL;
    }
    return standin_leave(code);
}

CUresult cuModuleGetFunction(CUfunction *out, CUmodule m, const char *name)
{
    CUresult   code = standin_enter(CALL_cuModuleGetFunction, IN_CONTEXT);
    CUfunction f = NULL;
    if (code == CUDA_SUCCESS)
        code = check_module(m);
    if (code == CUDA_SUCCESS) {
        const struct standin_kernel *kernel = m->kernels;
        while (kernel->name && strcmp(kernel->name, name) != 0)
            kernel++;
        if (!kernel->name)
            code = CUDA_ERROR_NOT_FOUND;
        else if (!(f = calloc(1, sizeof *f)))
            code = CUDA_ERROR_OUT_OF_MEMORY;
        else
            *f = (struct CUfunc_st){kernel, m, m->functions};
    }
    if (f)
        *out = m->functions = f;
    return standin_leave(code);
}

static CUresult check_function(CUfunction f)
{
    return f ? check_module(f->module) : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuFuncGetAttribute(int *out, CUfunction_attribute attribute, CUfunction f)
{
    CUresult code = standin_enter(CALL_cuFuncGetAttribute, IN_CONTEXT);
    if (code == CUDA_SUCCESS)
        code = check_function(f);
    if (code == CUDA_SUCCESS)
        switch ((int)attribute) {
        case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *out = STANDIN_MAX_THREADS; break;
        case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: *out = 0; break;
        case CU_FUNC_ATTRIBUTE_NUM_REGS: *out = 32; break;
        default: code = CUDA_ERROR_INVALID_VALUE;
        }
    return standin_leave(code);
}

/* ---- launches ---- */

/* Every pointer must be one that the device may follow; NULL stands for "none" in kernels that ask. */
static CUresult check_pointers(const standin_command *c)
{
    const struct standin_kernel *kernel = c->launch.kernel;
    for (int i = 0; i < kernel->count; i++) {
        const standin_allocation *a;
        CUdeviceptr               at;
        if (!kernel->pointers[i])
            continue;
        memcpy(&at, c->launch.arguments[i], sizeof at);
        if (!at)
            continue;
        a = standin_find(at, 0);
        if (a && (a->context == c->context || c->context->peers & 1u << a->context->device))
            continue;
        fprintf(stderr, "standin: %s: argument %d is %#llx, %s\n", kernel->name, i, at,
                a ? "memory of a device to which access is not enabled" : "which is in no allocation of device memory");
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    return CUDA_SUCCESS;
}

/* STANDIN_PLANT: the least significant bit of an element of the first buffer, which kernels write, is wrong. */
static void plant(const standin_command *c)
{
    static long launches;
    const char *text = getenv("STANDIN_PLANT");
    char        name[64];
    int         device;
    long        nth, element;
    CUdeviceptr at;
    unsigned    bits;
    if (!text || sscanf(text, "%d:%63[^:]:%ld:%ld", &device, name, &nth, &element) != 4 ||
        c->context->device != device || strncmp(c->launch.kernel->name, name, strlen(name)) != 0 || ++launches != nth)
        return;
    memcpy(&at, c->launch.arguments[0], sizeof at);
    at += (CUdeviceptr)element * sizeof bits;
    if (!standin_find(at, sizeof bits))
        return;
    memcpy(&bits, STANDIN_UNTAG(at), sizeof bits);
    bits ^= 1;
    memcpy(STANDIN_UNTAG(at), &bits, sizeof bits);
}

static CUresult run_launch(standin_command *c)
{
    CUresult code = check_pointers(c);
    if (code)
        return code;
    code = c->launch.ptx ? ptx_launch(&c->launch, c->context) : standin_run(&c->launch);
    if (!code)
        plant(c);
    return code;
}

static bool is_launchable(struct standin_dim grid, struct standin_dim block)
{
    return grid.x > 0 && grid.x <= 0x7FFFFFFF && grid.y > 0 && grid.y <= 65535 && grid.z > 0 && grid.z <= 65535 &&
           block.x > 0 && block.y > 0 && block.z > 0 && block.x <= STANDIN_MAX_THREADS &&
           block.y <= STANDIN_MAX_THREADS && block.z <= 64 && block.x * block.y * block.z <= STANDIN_MAX_THREADS;
}

static size_t rounded(size_t size)
{
    return (size + 15) & ~(size_t)15;
}

/* The command keeps copies of the arguments: the caller's are its own again when the launch returns. */
static standin_command *launch_command(CUfunction f, void **arguments)
{
    const struct standin_kernel *kernel = f->kernel;
    const size_t                 pointers = rounded(sizeof(void *) * (size_t)kernel->count);
    size_t                       bytes = pointers;
    standin_command             *c;
    char                        *at;
    for (int i = 0; i < kernel->count; i++)
        bytes += rounded(kernel->sizes[i]);
    c = standin_command_new(run_launch, bytes);
    if (!c)
        return NULL;
    c->launch.kernel = kernel;
    c->launch.ptx = f->module->ptx;
    c->launch.arguments = (void **)c->data;
    c->launch.shared = f->module->shared;
    c->launch.shared_bytes = f->module->shared_bytes;
    at = c->data + pointers;
    for (int i = 0; i < kernel->count; i++) {
        c->launch.arguments[i] = memcpy(at, arguments[i], kernel->sizes[i]);
        at += rounded(kernel->sizes[i]);
    }
    return c;
}

CUresult cuLaunchKernel(CUfunction f, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                        unsigned block_y, unsigned block_z, unsigned shared, CUstream s, void **arguments, void **extra)
{
    CUresult                 code = standin_enter(CALL_cuLaunchKernel, IN_CONTEXT);
    const struct standin_dim grid = {grid_x, grid_y, grid_z}, block = {block_x, block_y, block_z};
    standin_command         *c;
    if (code == CUDA_SUCCESS)
        code = check_function(f);
    if (code == CUDA_SUCCESS)
        code = standin_check_stream(s);
    if (code == CUDA_SUCCESS && (f->module->context != s->context || s->context != standin_context()))
        code = CUDA_ERROR_INVALID_HANDLE;
    if (code == CUDA_SUCCESS && (shared || extra || !arguments || !is_launchable(grid, block)))
        code = CUDA_ERROR_INVALID_VALUE; /* dynamic shared memory is not offered */
    if (code == CUDA_SUCCESS) {
        c = launch_command(f, arguments);
        if (c) {
            c->launch.grid = grid;
            c->launch.block = block;
        }
        code = c ? standin_enqueue(s, c) : CUDA_ERROR_OUT_OF_MEMORY;
    }
    return standin_leave(code);
}

/* NVIDIA's NVRTC asks for a table of functions, and goes on without. */
STANDIN_EXPORT int cuGetExportTable(const void **table, const void *id);

int cuGetExportTable(const void **table, const void *id)
{
    (void)id;
    *table = NULL;
    return CUDA_ERROR_NOT_FOUND;
}
