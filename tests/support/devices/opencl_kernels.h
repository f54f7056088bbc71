/* Kernels for the tests of the OpenCL backend, compiled by its table. For a test program's one source file. */
#ifndef HAUL_TESTS_DEVICES_OPENCL_KERNELS_H
#define HAUL_TESTS_DEVICES_OPENCL_KERNELS_H

#include <haul/haul.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "backends/opencl/opencl.h"
#include "base/alloc.h"
#include "support/table.h"

static const haul__backend *const table = &haul__backend_opencl;

static inline haul_device *device_at(int index)
{
    char         name[32];
    haul_device *device;
    snprintf(name, sizeof name, "opencl:%d", index);
    device = haul_device_get(name);
    if (!haul_device_is_valid(device))
        skip();
    return device;
}

#define OK(call) succeeded(call, #call, __LINE__)

static inline void succeeded(haul_status status, const char *call, int line)
{
    if (status)
        fail_msg("line %d: %s: %s", line, call, haul_error_message());
}

/* ---- kernels for these tests ---- */

/* On ints, so that results are exact: z = x * scale + y, and z[offset ...] = scale, scale + 1 ... */
typedef struct axpy_params {
    int64_t items;
    int32_t scale, offset;
} axpy_params;

static const char axpy_text[] = "typedef struct axpy_params { I64 items; I32 scale, offset; } axpy_params;\n"
                                "KERNEL3(axpy, axpy_params, T, z, const T, x, const T, y)\n"
                                "{\n"
                                "    FOR_ITEMS(i) STORE(z, i, LOAD(x, i) * p.scale + LOAD(y, i));\n"
                                "}\n"
                                "KERNEL1(count_up, axpy_params, T, z)\n"
                                "{\n"
                                "    FOR_ITEMS(i) STORE(z, i + p.offset, (A)i + p.scale);\n"
                                "}\n";

static inline haul__kernel kernel_of(haul_device *device, const char *name)
{
    haul__unit   unit = {.name = "test_axpy", .text = axpy_text, .kernel = name, .dtype = HAUL_I32};
    haul__kernel kernel = {0};
    OK(table->compile(device, &unit, &kernel));
    return kernel;
}

static inline void kernel_free(haul__kernel *kernel)
{
    haul__cl_kernel *k = kernel->handle;
    haul__cl.ReleaseKernel(k->kernel);
    pthread_mutex_destroy(&k->lock);
    haul__free(k);
}

#endif
