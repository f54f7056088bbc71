/* Compiles kernels: the text of preludes and a unit, built by the driver or taken from the disk cache. */
#include <stdio.h>
#include <string.h>

#include "backends/compiler_log.h"
#include "backends/opencl/opencl.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "core/error.h"
#include "files/disk_cache.h"
#include "kernels/kernels.h"

/* ---- text ---- */

/* "#undef NAME" for each kernel of the unit. Drivers define built-in functions as macros (exp becomes _cl_exp), and a
 * kernel of that name would be renamed. The prelude wraps the built-in functions that kernels need. */
static char *undefinitions(const haul__unit *unit)
{
    char *text = haul__strdup("");
    for (int i = 0; i < haul__kernel_count && text; i++) {
        char *longer;

        if (strcmp(haul__kernel_infos[i].unit, unit->name) != 0)
            continue;
        longer = haul__format("%s#undef %s\n", text, haul__kernel_infos[i].kernel);
        haul__free(text);
        text = longer;
    }
    return text;
}

/* What the prelude needs to know of the driver: whether it compiles all kernels of a program at once, so that only one
 * may be in it, and whether its compiler must be spared. */
static char *definitions(const haul_device *device, const haul__unit *unit)
{
    const haul__cl_device *d = haul__cl_of(device);
    if (d->late)
        return haul__strdup("");
    return haul__format("#define HAUL_WANTS_ONE 1\n"
                        "#define HAUL_WANTED_%s HAUL_IS_WANTED(%s)\n"
                        "%s",
                        unit->kernel, unit->kernel, d->llvmpipe ? "#define HAUL_LLVMPIPE 1\n" : "");
}

char *haul__cl_program_text(const haul_device *device, const haul__unit *unit)
{
    const char *dtype = haul_dtype_name(unit->dtype);
    char       *undefs = undefinitions(unit), *text = NULL;
    char       *wanted = definitions(device, unit);
    HAUL__ASSERT(unit->text); /* nothing is compiled beforehand */
    if (undefs && wanted)
        text = haul__format("#define HAUL_KERNEL 1\n"
                            "#define HAUL_KERNEL_DTYPE_%s 1\n"
                            "#define HAUL_KERNEL_SUFFIX %s\n"
                            "#define CHUNKED %d\n"
                            "%s%s%s\n%s\n%s%s\n%s\n",
                            dtype, dtype, !device->strided, wanted,
                            device->properties.has_f64 ? "#define HAS_F64 1\n" : "", haul__kernel_header("constants"),
                            haul__kernel_header("prelude_opencl"), undefs, haul__kernel_header("common"), unit->text);
    haul__free(undefs);
    haul__free(wanted);
    return text;
}

/* ---- building ---- */

static haul_status fail_build(const haul_device *device, const char *name, cl_program program, cl_int code)
{
    haul__cl_device *d = haul__cl_of(device);
    size_t           size = 0;
    char            *log = NULL, line[300] = "";
    if (haul__cl.GetProgramBuildInfo(program, d->id, CL_PROGRAM_BUILD_LOG, 0, NULL, &size) == CL_SUCCESS)
        log = haul__calloc(size + 1, 1);
    if (log && haul__cl.GetProgramBuildInfo(program, d->id, CL_PROGRAM_BUILD_LOG, size, log, NULL) == CL_SUCCESS)
        haul__compiler_line(log, line, sizeof line);
    haul__free(log);
    return haul__fail(HAUL_BACKEND, device->name, NULL, "kernel %s does not compile: %s%s%s", name,
                      haul__cl_error_name(code), line[0] ? ": " : "", line);
}

static haul_status build_source(const haul_device *device, const char *name, const char *source, cl_program *out)
{
    haul__cl_device *d = haul__cl_of(device);
    haul_status      status;
    cl_int           code;
    cl_program       program = haul__cl.CreateProgramWithSource(d->context, 1, &source, NULL, &code);
    if (code != CL_SUCCESS)
        return haul__cl_check(device, "clCreateProgramWithSource", code);
    code = haul__cl.BuildProgram(program, 1, &d->id, d->options, NULL, NULL);
    if (code != CL_SUCCESS) {
        status = fail_build(device, name, program, code);
        haul__cl.ReleaseProgram(program);
        return status;
    }
    *out = program;
    return HAUL_OK;
}

/* ---- the cache on disk ---- */

/* NULL if there is no binary, or if the driver refuses it: it may be damaged, or made by another version. */
static cl_program build_binary(const haul__cl_device *d, const char *key)
{
    size_t               size = 0;
    unsigned char       *binary = haul__cache_load(key, &size);
    const unsigned char *binaries[] = {binary};
    cl_program           program = NULL;
    cl_int               code, state;
    if (!binary)
        return NULL;
    program = haul__cl.CreateProgramWithBinary(d->context, 1, &d->id, &size, binaries, &state, &code);
    if (code == CL_SUCCESS && haul__cl.BuildProgram(program, 1, &d->id, d->options, NULL, NULL) != CL_SUCCESS) {
        haul__cl.ReleaseProgram(program);
        program = NULL;
    }
    haul__free(binary);
    return code == CL_SUCCESS ? program : NULL;
}

/* A program belongs to all devices of its context: finds the index of d among them. */
static int position_of(const haul__cl_device *d, cl_program program, size_t *count)
{
    cl_device_id ids[HAUL__MAX_DEVICES];
    size_t       bytes = 0;
    if (haul__cl.GetProgramInfo(program, CL_PROGRAM_DEVICES, sizeof ids, ids, &bytes) != CL_SUCCESS)
        return -1;
    *count = bytes / sizeof ids[0];
    HAUL__ASSERT(*count <= HAUL__MAX_DEVICES);
    for (size_t i = 0; i < *count; i++)
        if (ids[i] == d->id)
            return (int)i;
    return -1;
}

/* Best effort: without it the next process compiles again. */
static void store_binary(const haul__cl_device *d, const char *key, cl_program program)
{
    size_t         sizes[HAUL__MAX_DEVICES] = {0}, count = 0;
    unsigned char *binaries[HAUL__MAX_DEVICES] = {0};
    int            at = position_of(d, program, &count);
    HAUL__ASSERT(at < 0 || (size_t)at < count);
    if (at < 0 || haul__cl.GetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof sizes, sizes, NULL) != CL_SUCCESS ||
        sizes[at] == 0)
        return;
    binaries[at] = haul__malloc(sizes[at]); /* the others stay NULL: they are not wanted */
    if (!binaries[at])
        return;
    if (haul__cl.GetProgramInfo(program, CL_PROGRAM_BINARIES, count * sizeof binaries[0], binaries, NULL) == CL_SUCCESS)
        haul__cache_store(key, binaries[at], sizes[at]);
    haul__free(binaries[at]);
}

char *haul__cl_cache_key(const haul_device *device, const char *source)
{
    return haul__format("opencl\n%s%s", haul__cl_of(device)->identity, source);
}

haul_status haul__cl_build(haul_device *device, const char *name, const char *source, bool *cached, cl_program *out)
{
    const haul__cl_device *d = haul__cl_of(device);
    char                  *key = *cached ? haul__cl_cache_key(device, source) : NULL;
    haul_status            status = HAUL_OK;
    *out = key ? build_binary(d, key) : NULL;
    *cached = *out != NULL;
    if (!*out) {
        status = build_source(device, name, source, out);
        if (status == HAUL_OK && key)
            store_binary(d, key, *out);
    }
    haul__free(key);
    HAUL__ASSERT(status || *out);
    return status;
}

/* ---- kernels ---- */

/* The code of a program is in the device's memory, as far as OpenCL reports it. */
static void count_code(haul_device *device, cl_program program)
{
    size_t    sizes[HAUL__MAX_DEVICES] = {0}, count = 0;
    const int at = position_of(haul__cl_of(device), program, &count);
    if (!device->properties.shares_host_memory && at >= 0 &&
        haul__cl.GetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof sizes, sizes, NULL) == CL_SUCCESS)
        atomic_fetch_add(&device->overhead, (long long)sizes[at]);
}

/* The caller holds the device's lock, because drivers build one program at a time anyway. */
static haul_status make_program(haul_device *device, const haul__unit *unit, haul__cl_program **out)
{
    haul__cl_device  *d = haul__cl_of(device);
    size_t            size = strlen(unit->name) + 1;
    haul__cl_program *program = haul__calloc(1, sizeof *program + size);
    char             *source = haul__cl_program_text(device, unit);
    bool              cached = !d->late;
    haul_status       status = HAUL_OK;
    if (!program || !source)
        status = haul__fail_memory(device->name, size);
    if (status == HAUL_OK)
        status = haul__cl_build(device, unit->kernel, source, &cached, &program->program);
    haul__free(source);
    if (status) {
        haul__free(program);
        return status;
    }
    HAUL__ASSERT(program->program && !program->next);
    count_code(device, program->program);
    memcpy(program->unit, unit->name, size);
    program->dtype = unit->dtype;
    program->next = d->programs;
    d->programs = program;
    *out = program;
    return HAUL_OK;
}

static haul_status get_program(haul_device *device, const haul__unit *unit, cl_program *out)
{
    haul__cl_device  *d = haul__cl_of(device);
    haul__cl_program *program;
    haul_status       status = HAUL_OK;
    pthread_mutex_lock(&d->lock);
    for (program = d->late ? d->programs : NULL; program; program = program->next)
        if (program->dtype == unit->dtype && strcmp(program->unit, unit->name) == 0)
            break;
    if (!program)
        status = make_program(device, unit, &program);
    HAUL__ASSERT(status || (program->dtype == unit->dtype && strcmp(program->unit, unit->name) == 0));
    if (status == HAUL_OK)
        *out = program->program;
    pthread_mutex_unlock(&d->lock);
    return status;
}

haul_status haul__cl_compile(haul_device *device, const haul__unit *unit, haul__kernel *out)
{
    haul__cl_device *d = haul__cl_of(device);
    haul__cl_kernel *kernel;
    cl_program       program;
    char             entry[128];
    haul_status      status;
    cl_int           code;
    if (!device->properties.has_f64 && (unit->dtype == HAUL_F64 || strcmp(unit->kernel, "cast_f64") == 0))
        return haul__fail(HAUL_DTYPE, device->name, NULL,
                          "%s does not compute in f64; convert to f32 with haul_cast on the CPU", device->model);
    status = get_program(device, unit, &program);
    if (status)
        return status;
    kernel = haul__calloc(1, sizeof *kernel);
    if (!kernel)
        return haul__fail_memory(device->name, sizeof *kernel);
    snprintf(entry, sizeof entry, "k_%s_%s", unit->kernel, haul_dtype_name(unit->dtype));
    kernel->kernel = haul__cl.CreateKernel(program, entry, &code);
    if (code != CL_SUCCESS) {
        haul__free(kernel);
        return haul__fail(HAUL_BACKEND, device->name, NULL, "unit %s has no kernel %s: %s", unit->name, entry,
                          haul__cl_error_name(code));
    }
    if (haul__cl.GetKernelWorkGroupInfo(kernel->kernel, d->id, CL_KERNEL_WORK_GROUP_SIZE, sizeof kernel->max_local,
                                        &kernel->max_local, NULL) != CL_SUCCESS ||
        kernel->max_local == 0)
        kernel->max_local = 1;
    pthread_mutex_init(&kernel->lock, NULL);
    *out = (haul__kernel){.handle = kernel};
    return HAUL_OK;
}
