/* Our graphs of convolutions put to the real cuDNN, on machines where it is installed: it checks them, and proposes and
 * makes plans for GPUs that are only described, so no GPU is needed. Nothing is run. Version 9.8 is the first that can.
 * Leaks are looked for on the stand-in instead (test_cuda_conv.c): without a GPU the library opens and closes others of
 * its own again and again, and each leaves something behind. With a GPU this use of the library crashes in 9.19;
 * test_ops_conv2d and others run its plans there.
 *
 * ctest: env=LSAN_OPTIONS=detect_leaks=0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include <haul/haul.h>

#include "backends/cuda/cudnn/cudnn.h"
#include "core/tensor.h"

enum { MOST = 3 };

static const haul_dtype dtypes[] = {HAUL_F32, HAUL_F64, HAUL_F16, HAUL_BF16};
static const char      *gpu_names[] = {"750 (Turing)", "800 (Ampere)", "900 (Hopper)", "1000 (Blackwell)"};
static const int        gpus[][2] = {{750, 40}, {800, 108}, {900, 132}, {1000, 148}}; /* capability, multiprocessors */

static const haul__cudnn_problem problems[] = {
    {.n = 32, .c_in = 64, .h = 56, .w = 56, .c_out = 64, .kh = 3, .kw = 3, .padding = {1, 1}, .groups = 1},
    {.n = 64, .c_in = 3, .h = 32, .w = 32, .c_out = 6, .kh = 5, .kw = 5, .groups = 1},
    {.n = 8, .c_in = 64, .h = 20, .w = 20, .c_out = 128, .kh = 1, .kw = 1, .stride = {2, 2}, .groups = 1},
    {.n = 4, .c_in = 32, .h = 14, .w = 17, .c_out = 32, .kh = 3, .kw = 3, .padding = {1, 1}, .groups = 32},
    {.n = 3,
     .c_in = 12,
     .h = 15,
     .w = 13,
     .c_out = 8,
     .kh = 3,
     .kw = 2,
     .padding = {2, 1},
     .dilation = {2, 3},
     .groups = 4},
    {.n = 1, .c_in = 1, .h = 7, .w = 5, .c_out = 1, .kh = 7, .kw = 5, .groups = 1},
};

static int64_t size_of(int64_t size, int64_t taps, int64_t stride, int64_t padding, int64_t dilation)
{
    return (size + 2 * padding - dilation * (taps - 1) - 1) / stride + 1;
}

static haul__cudnn_problem fill_in(haul__cudnn_problem p)
{
    for (int i = 0; i < 2; i++) {
        p.stride[i] = p.stride[i] ? p.stride[i] : 1;
        p.dilation[i] = p.dilation[i] ? p.dilation[i] : 1;
    }
    p.out_h = size_of(p.h, p.kh, p.stride[0], p.padding[0], p.dilation[0]);
    p.out_w = size_of(p.w, p.kw, p.stride[1], p.padding[1], p.dilation[1]);
    return p;
}

/* A GPU in the library's own words. */
static cudnnBackendDescriptor_t described(int capability, int units)
{
    char text[1200];
    int  length = snprintf(
         text, sizeof text,
         "{\"maxGridSize\": [2147483647, 65535, 65535], \"maxBlockSize\": [1024, 1024, 64], \"deviceVer\": %d, "
          "\"driverVer\": 13000, \"regsPerBlock\": 65536, \"multiProcessorCount\": %d, \"smClockRateKHz\": 1980000, "
          "\"memClockRateKHz\": 2619000, \"l2CacheSize\": 52428800, \"warpSize\": 32, \"maxSharedMemoryPerBlock\": "
          "49152, "
          "\"maxSharedMemoryPerBlockOptin\": %d, \"reservedSharedMemoryPerBlock\": 1024, \"maxRegistersPerSM\": 65536, "
          "\"pciDeviceId\": 0, \"maxCtasPerSM\": 32, \"maxThreadsPerBlock\": 1024, \"maxThreadsPerSM\": %d, "
          "\"isTccDriver\": "
          "0, \"supportCoopLaunch\": 1, \"deviceName\": \"a GPU\", \"totalGlobalMem\": 16000000000, \"cudaDeviceId\": 0}",
         capability, units,
        capability == 750   ? 65536
         : capability == 800 ? 166912
                             : 232448,
        capability == 750 ? 1024 : 2048);
    cudnnBackendDescriptor_t d = haul__cudnn_make(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
    return haul__cudnn_finish(
        d, haul__cudnn_set(d, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, length, text));
}

static void print_problem(const char *what, const haul__cudnn_problem *p, const char *gpu)
{
    print_message("%s: pass %d, %s, [%d,%d,%d,%d] * [%d,%d,%d,%d], groups %d, %s%s%s%s, on %s\n", what, (int)p->pass,
                  haul_dtype_name((haul_dtype)p->dtype), (int)p->n, (int)p->c_in, (int)p->h, (int)p->w, (int)p->c_out,
                  (int)(p->c_in / p->groups), (int)p->kh, (int)p->kw, (int)p->groups,
                  p->channels_last ? "channels-last" : "row-major", p->bias ? ", bias" : "", p->relu ? ", relu" : "",
                  p->tf32 ? ", TF32" : "", gpu);
}

/* Plans for it, each of which can be described and made again; false if there are none. */
static bool is_planned(const haul__cudnn_target *target, const haul__cudnn_problem *p)
{
    haul__cudnn_plan   plans[MOST] = {{0}}, again;
    haul__cudnn_choice choice, same;
    int                count = haul__cudnn_propose(target, p, (int64_t)1 << 30, plans, MOST);
    for (int i = 0; i < count; i++) {
        assert_true(plans[i].workspace >= 0 && plans[i].workspace <= (int64_t)1 << 30);
        assert_true(haul__cudnn_describe(&plans[i], &choice));
        assert_true(haul__cudnn_rebuild(target, p, &choice, plans[i].workspace, &again));
        assert_int_equal(again.workspace, plans[i].workspace);
        assert_true(haul__cudnn_describe(&again, &same));
        assert_memory_equal(&same, &choice, sizeof same);
        haul__cudnn_plan_drop(&again);
        haul__cudnn_plan_drop(&plans[i]);
    }
    return count > 0;
}

static int passes_without(const haul__cudnn_target *target, haul__cudnn_problem p, const char *gpu)
{
    int missing = 0;
    for (p.pass = 0; p.pass < 3; p.pass++)
        for (p.channels_last = 0; p.channels_last < 2; p.channels_last++)
            for (int fused = 0; fused < (p.pass == 0 ? 3 : 1); fused++) {
                p.bias = fused > 0;
                p.relu = fused > 1;
                if (!is_planned(target, &p)) {
                    print_problem("no plan", &p, gpu);
                    missing++;
                }
            }
    return missing;
}

/* Turing has no bf16. */
static void test_cuda_plans__every_problem_has_one(void **state)
{
    int missing = 0;
    (void)state;
    for (size_t g = 0; g < sizeof gpus / sizeof gpus[0]; g++) {
        haul__cudnn_target target = {.properties = described(gpus[g][0], gpus[g][1])};
        assert_non_null(target.properties);
        for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++)
            for (size_t i = 0; i < sizeof problems / sizeof problems[0]; i++) {
                haul__cudnn_problem p = fill_in(problems[i]);
                p.dtype = (int64_t)dtypes[d];
                if (dtypes[d] != HAUL_BF16 || gpus[g][0] >= 800)
                    missing += passes_without(&target, p, gpu_names[g]);
            }
        haul__cudnn_drop(target.properties);
    }
    assert_int_equal(missing, 0);
}

/* Where memory is short there is a plan that needs none; it is not the first choice. */
static void test_cuda_plans__little_memory(void **state)
{
    haul__cudnn_target  target = {.properties = described(gpus[2][0], gpus[2][1])};
    haul__cudnn_problem p = fill_in(problems[0]);
    haul__cudnn_plan    plan;
    (void)state;
    p.dtype = HAUL_F32;
    p.tf32 = true;
    assert_int_equal(haul__cudnn_propose(&target, &p, (int64_t)1 << 30, &plan, 1), 1);
    assert_true(plan.workspace > 0);
    haul__cudnn_plan_drop(&plan);
    assert_int_equal(haul__cudnn_propose(&target, &p, 0, &plan, 1), 1);
    assert_int_equal(plan.workspace, 0);
    haul__cudnn_plan_drop(&plan);
    haul__cudnn_drop(target.properties);
}

/* Choices of another version of the library, or damaged ones. */
static void test_cuda_plans__foreign_choices_are_refused(void **state)
{
    haul__cudnn_target  target = {.properties = described(gpus[2][0], gpus[2][1])};
    haul__cudnn_problem p = fill_in(problems[0]);
    haul__cudnn_plan    plan;
    (void)state;
    p.dtype = HAUL_F32;
    assert_false(haul__cudnn_rebuild(&target, &p, &(haul__cudnn_choice){.engine = 100000}, 1 << 30, &plan));
    assert_false(haul__cudnn_rebuild(&target, &p, &(haul__cudnn_choice){.engine = -1}, 1 << 30, &plan));
    assert_false(haul__cudnn_rebuild(
        &target, &p, &(haul__cudnn_choice){.engine = 0, .knob_count = HAUL__CUDNN_MAX_KNOBS + 1}, 1 << 30, &plan));
    assert_false(haul__cudnn_rebuild(
        &target, &p, &(haul__cudnn_choice){.engine = 0, .knob_count = 1, .knobs = {{12345, 1}}}, 1 << 30, &plan));
    haul__cudnn_drop(target.properties);
}

static void leave_out(const char *why)
{
    print_message("skipped: %s\n", why);
    exit(77);
}

int main(void)
{
    unsetenv("HAUL_WITHOUT"); /* these tests are about what it leaves out */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cuda_plans__every_problem_has_one),
        cmocka_unit_test(test_cuda_plans__little_memory),
        cmocka_unit_test(test_cuda_plans__foreign_choices_are_refused),
    };
    char why[256] = "";

    unsetenv("HAUL_CUDA_LIBRARIES");
    unsetenv("HAUL_WITHOUT");
    if (!haul__cuda_load_cudnn(why, sizeof why))
        leave_out(why);
    if (haul_device_is_valid(haul_device_get("cuda:0")))
        leave_out("there is a GPU");
    if (haul__cudnn_version() < 90800)
        leave_out("cuDNN is older than 9.8");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
