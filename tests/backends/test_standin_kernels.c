/* Kernels on the stand-in for NVIDIA's libraries (tests/standin): compiled and run rightly, also by several threads.
 *
 * ctest: labels=once */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <dirent.h>
#include <pthread.h>

#include "support/devices/gpu.h"

static void test_standin__a_grid_stride_loop_covers_all_items(void **unused)
{
    float       host[1000], result[1000];
    gpu_params  p = {1000, 2, 0};
    CUdeviceptr x, y;
    void       *arguments[] = {&y, &x, &p};
    (void)unused;
    gpu_start(1);
    x = gpu_device_memory(sizeof host);
    y = gpu_device_memory(sizeof host);
    for (int i = 0; i < 1000; i++)
        host[i] = (float)i;
    gpu_fill(x, host, 1000);
    gpu_fill(y, host, 1000);
    assert_int_equal(gpu_launch(gpu_kernel("axpy"), 2, 96, gpu_streams[0], arguments), CUDA_SUCCESS);
    p.scale = 1e9f; /* the launch has its own copy */
    gpu_fetch(result, y, sizeof result);
    for (int i = 0; i < 1000; i++)
        assert_true(result[i] == 3 * (float)i);
}

static void test_standin__barriers_shuffles_and_shared_memory_work_together(void **unused)
{
    enum { ROWS = 3, LENGTH = 700 };
    static float host[ROWS * LENGTH];
    float        result[ROWS];
    gpu_params   p = {LENGTH, 0, 0};
    CUdeviceptr  x, out;
    void        *arguments[] = {&out, &x, &p};
    (void)unused;
    gpu_start(1);
    x = gpu_device_memory(sizeof host);
    out = gpu_device_memory(sizeof result);
    for (int i = 0; i < ROWS * LENGTH; i++)
        host[i] = (float)(i % 10);
    gpu_fill(x, host, ROWS * LENGTH);
    for (unsigned block = 32; block <= 1024; block *= 2) {
        assert_int_equal(gpu_launch(gpu_kernel("sum"), ROWS, block, gpu_streams[0], arguments), CUDA_SUCCESS);
        gpu_fetch(result, out, sizeof result);
        for (int r = 0; r < ROWS; r++)
            assert_true(result[r] == LENGTH / 10 * 45);
    }
}

static void test_standin__a_missing_barrier_shows(void **unused)
{
    float       host[256], result;
    CUdeviceptr x, out;
    void       *arguments[] = {&out, &x};
    (void)unused;
    gpu_start(1);
    x = gpu_device_memory(sizeof host);
    out = gpu_device_memory(sizeof result);
    for (int i = 0; i < 256; i++)
        host[i] = 1;
    gpu_fill(x, host, 256);
    assert_int_equal(gpu_launch(gpu_kernel("sum_unsafe"), 1, 256, gpu_streams[0], arguments), CUDA_SUCCESS);
    gpu_fetch(&result, out, sizeof result);
    assert_true(result != 256);
}

static void test_standin__the_words_of_warps(void **unused)
{
    unsigned    result[64];
    gpu_params  p = {64, 0, 0};
    CUdeviceptr out;
    void       *arguments[] = {&out, &p};
    (void)unused;
    gpu_start(1);
    out = gpu_device_memory(sizeof result);
    assert_int_equal(gpu_launch(gpu_kernel("words"), 1, 64, gpu_streams[0], arguments), CUDA_SUCCESS);
    gpu_fetch(result, out, sizeof result);
    for (int i = 0; i < 64; i++)
        assert_int_equal(result[i], 7);
}

static void test_standin__atomics(void **unused)
{
    unsigned    result[3] = {0, 0, 0xFFFFFFFFu};
    gpu_params  p = {300, 0, 0};
    CUdeviceptr out;
    void       *arguments[] = {&out, &p};
    (void)unused;
    gpu_start(1);
    out = gpu_device_memory(sizeof result);
    assert_int_equal(cu.MemcpyHtoDAsync(out, result, sizeof result, gpu_streams[0]), CUDA_SUCCESS);
    assert_int_equal(gpu_launch(gpu_kernel("count"), 4, 128, gpu_streams[0], arguments), CUDA_SUCCESS);
    gpu_fetch(result, out, sizeof result);
    assert_int_equal(result[0], 300);
    assert_int_equal(result[1], 299);
    assert_int_equal(result[2], 7);
}

/* ---- compiling ---- */

static int files_in(const char *folder)
{
    DIR *entries = opendir(folder);
    int  count = 0;
    assert_non_null(entries);
    while (readdir(entries))
        count++;
    closedir(entries);
    return count;
}

static void test_standin__compile_errors_are_told(void **unused)
{
    static const char text[] = "#include \"haul_prelude.h\"\nKERNEL broken(float *x) { x[0] = no_such_function(1); }\n";
    const char       *texts[] = {gpu_header}, *names[] = {"haul_prelude.h"}, *options[] = {"--gpu-architecture=sm_90"};
    nvrtcProgram      program;
    char              log[8192];
    size_t            size;
    int               before = files_in(".");
    (void)unused;
    assert_int_equal(rtc.CreateProgram(&program, text, "broken", 1, texts, names), NVRTC_SUCCESS);
    assert_int_equal(rtc.CompileProgram(program, 1, options), NVRTC_ERROR_COMPILATION);
    assert_int_equal(rtc.GetProgramLogSize(program, &size), NVRTC_SUCCESS);
    assert_in_range(size, 2, sizeof log);
    assert_int_equal(rtc.GetProgramLog(program, log), NVRTC_SUCCESS);
    assert_non_null(strstr(log, "no_such_function"));
    assert_int_equal(rtc.GetCUBINSize(program, &size), NVRTC_SUCCESS);
    assert_int_equal(size, 0);
    options[0] = "--no-such-option";
    assert_int_equal(rtc.CompileProgram(program, 1, options), NVRTC_ERROR_INVALID_OPTION);
    options[0] = "--gpu-architecture=sm_70";
    assert_int_equal(rtc.CompileProgram(program, 1, options), NVRTC_ERROR_INVALID_OPTION);
    assert_int_equal(rtc.DestroyProgram(&program), NVRTC_SUCCESS);
    assert_int_equal(files_in("."), before);
}

static void test_standin__options_have_their_effect(void **unused)
{
    float       host[] = {1 + 0x1p-13f, 1 - 0x1p-13f, -1}, result[2];
    char       *images[2] = {gpu_compile(gpu_kernels, "--gpu-architecture=compute_80", "--fmad=true"),
                             gpu_compile(gpu_kernels, "-arch=sm_90", "-DUNUSED=1 + 1")};
    CUdeviceptr x, out;
    void       *arguments[] = {&out, &x};
    CUmodule    module;
    CUfunction  f;
    (void)unused;
    gpu_start(1);
    x = gpu_device_memory(sizeof host);
    out = gpu_device_memory(4);
    gpu_fill(x, host, 3);
    assert_int_equal(gpu_launch(gpu_kernel("fused"), 1, 1, gpu_streams[0], arguments), CUDA_SUCCESS);
    gpu_fetch(&result[0], out, 4);
    for (int i = 0; i < 2; i++) { /* NVRTC fuses by default */
        assert_non_null(images[i]);
        assert_int_equal(cu.ModuleLoadData(&module, images[i]), CUDA_SUCCESS);
        assert_int_equal(cu.ModuleGetFunction(&f, module, "fused"), CUDA_SUCCESS);
        assert_int_equal(gpu_launch(f, 1, 1, gpu_streams[0], arguments), CUDA_SUCCESS);
        gpu_fetch(&result[1], out, 4);
#if defined(__x86_64__)
        assert_true(result[1] != result[0]);
#endif
        assert_int_equal(cu.ModuleUnload(module), CUDA_SUCCESS);
        assert_int_equal(cu.ModuleGetFunction(&f, module, "fused"), CUDA_ERROR_INVALID_HANDLE);
        free(images[i]);
    }
}

static void test_standin__images_fit_devices_and_drivers(void **unused)
{
    char      *portable = gpu_compile(gpu_kernels, "--gpu-architecture=compute_80", "--fmad=false");
    CUmodule   module;
    CUfunction f;
    (void)unused;
    assert_non_null(portable);
    gpu_set("STANDIN_CAPABILITY", "8.6");
    gpu_start(1);
    assert_int_equal(cu.ModuleLoadData(&module, gpu_image()), CUDA_ERROR_NO_BINARY_FOR_GPU);
    assert_int_equal(cu.ModuleLoadData(&module, portable), CUDA_SUCCESS);
    assert_int_equal(cu.ModuleGetFunction(&f, module, "no_such_kernel"), CUDA_ERROR_NOT_FOUND);
    assert_int_equal(cu.ModuleLoadData(&module, "no image"), CUDA_ERROR_INVALID_IMAGE);
    gpu_set("STANDIN_DRIVER", "12000");
    gpu_start(1);
    assert_int_equal(cu.ModuleLoadData(&module, portable), CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
    free(portable);
}

static void test_standin__what_the_compiler_supports(void **unused)
{
    int archs[16], count, major, minor;
    (void)unused;
    assert_int_equal(rtc.Version(&major, &minor), NVRTC_SUCCESS);
    assert_int_equal(major, 13);
    assert_int_equal(rtc.GetNumSupportedArchs(&count), NVRTC_SUCCESS);
    assert_in_range(count, 1, 16);
    assert_int_equal(rtc.GetSupportedArchs(archs), NVRTC_SUCCESS);
    assert_int_equal(archs[0], 75);
}

/* ---- threads ---- */

typedef struct worker {
    pthread_t thread;
    int       device;
    bool      right;
} worker;

static void *work(void *argument)
{
    worker     *w = argument;
    float       host[512], result = 0;
    gpu_params  p = {512, 0, 0};
    CUdeviceptr x = 0, out = 0;
    CUmodule    module;
    CUfunction  f;
    CUstream    s;
    void       *arguments[] = {&out, &x, &p};
    for (int i = 0; i < 512; i++)
        host[i] = 1;
    if (cu.CtxSetCurrent(gpu_contexts[w->device]) || cu.StreamCreate(&s, CU_STREAM_NON_BLOCKING) ||
        cu.ModuleLoadData(&module, gpu_image()) || cu.ModuleGetFunction(&f, module, "sum") ||
        cu.MemAlloc(&x, sizeof host) || cu.MemAlloc(&out, 4))
        return NULL;
    for (int i = 0; i < 20; i++) {
        if (cu.MemcpyHtoDAsync(x, host, sizeof host, s) || gpu_launch(f, 1, 128, s, arguments) ||
            cu.MemcpyDtoHAsync(&result, out, 4, s) || result != 512)
            return NULL;
    }
    w->right = cu.MemFree(x) == CUDA_SUCCESS && cu.MemFree(out) == CUDA_SUCCESS && cu.StreamDestroy(s) == CUDA_SUCCESS;
    return NULL;
}

static void test_standin__threads_have_their_own_context(void **unused)
{
    worker workers[4] = {{0}};
    (void)unused;
    gpu_start(2);
    (void)gpu_image();
    for (int i = 0; i < 4; i++) {
        workers[i].device = i % 2;
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
        assert_true(workers[i].right);
    }
}

#define TEST(name) cmocka_unit_test_setup(test_standin__##name, gpu_clean)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_grid_stride_loop_covers_all_items),
        TEST(barriers_shuffles_and_shared_memory_work_together),
        TEST(a_missing_barrier_shows),
        TEST(the_words_of_warps),
        TEST(atomics),
        TEST(compile_errors_are_told),
        TEST(options_have_their_effect),
        TEST(images_fit_devices_and_drivers),
        TEST(what_the_compiler_supports),
        TEST(threads_have_their_own_context),
    };
    return cmocka_run_group_tests(tests, gpu_load, gpu_clean);
}
