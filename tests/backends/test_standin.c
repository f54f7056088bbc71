/* The stand-in for NVIDIA's libraries (tests/standin), used as the backend uses it: its order, memory and devices must
 * show the mistakes they are there to show. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/devices/gpu.h"

/* ---- order ---- */

static void test_standin__pinned_memory_is_read_late(void **unused)
{
    CUdeviceptr x;
    float      *pinned, pageable, result;
    (void)unused;
    gpu_start(1);
    x = gpu_device_memory(4);
    pinned = gpu_pinned_memory(4);
    *pinned = 1;
    assert_int_equal(cu.MemcpyHtoDAsync(x, pinned, 4, gpu_streams[0]), CUDA_SUCCESS);
    *pinned = 2; /* too early */
    gpu_fetch(&result, x, 4);
    assert_true(result == 2);
    pageable = 3;
    assert_int_equal(cu.MemcpyHtoDAsync(x, &pageable, 4, gpu_streams[0]), CUDA_SUCCESS);
    pageable = 4; /* the driver has taken it */
    assert_int_equal(cu.MemcpyDtoHAsync(&result, x, 4, gpu_streams[0]), CUDA_SUCCESS);
    assert_true(result == 3); /* into pageable memory: complete when it returns */
    assert_int_equal(cu.MemcpyDtoHAsync(pinned, x, 4, gpu_streams[0]), CUDA_SUCCESS);
    assert_true(*pinned == 2); /* into pinned memory: late */
    assert_int_equal(cu.StreamSynchronize(gpu_streams[0]), CUDA_SUCCESS);
    assert_true(*pinned == 3);
}

static void test_standin__early_order_runs_at_once(void **unused)
{
    CUdeviceptr x;
    float      *pinned;
    (void)unused;
    gpu_set("STANDIN_ORDER", "early");
    gpu_start(1);
    x = gpu_device_memory(4);
    pinned = gpu_pinned_memory(4);
    *pinned = 1;
    assert_int_equal(cu.MemcpyHtoDAsync(x, pinned, 4, gpu_streams[0]), CUDA_SUCCESS);
    assert_int_equal(gpu_pending(), 0);
    *pinned = 2;
    assert_int_equal(cu.MemcpyDtoHAsync(pinned, x, 4, gpu_streams[0]), CUDA_SUCCESS);
    assert_true(*pinned == 1);
}

static void test_standin__a_stream_needs_the_event_of_another(void **unused)
{
    CUdeviceptr x;
    CUstream    other;
    CUevent     event;
    float      *pinned, result;
    (void)unused;
    gpu_start(1);
    x = gpu_device_memory(4);
    pinned = gpu_pinned_memory(4);
    *pinned = 5;
    assert_int_equal(cu.StreamCreate(&other, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    assert_int_equal(cu.EventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
    assert_int_equal(cu.EventQuery(event), CUDA_SUCCESS); /* not recorded: nothing to wait for */
    assert_int_equal(cu.MemcpyHtoDAsync(x, pinned, 4, gpu_streams[0]), CUDA_SUCCESS);
    assert_int_equal(cu.EventRecord(event, gpu_streams[0]), CUDA_SUCCESS);
    assert_int_equal(cu.MemcpyDtoHAsync(&result, x, 4, other), CUDA_SUCCESS);
    assert_true(result != 5); /* without waiting */
    assert_int_equal(cu.StreamWaitEvent(other, event, 0), CUDA_SUCCESS);
    assert_int_equal(cu.MemcpyDtoHAsync(&result, x, 4, other), CUDA_SUCCESS);
    assert_true(result == 5);
    assert_int_equal(cu.EventSynchronize(event), CUDA_SUCCESS);
    assert_int_equal(cu.EventDestroy(event), CUDA_SUCCESS);
    assert_int_equal(cu.EventDestroy(event), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cu.EventQuery(event), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cu.StreamDestroy(other), CUDA_SUCCESS);
    assert_int_equal(cu.StreamSynchronize(other), CUDA_ERROR_INVALID_HANDLE);
}

static void test_standin__a_loop_of_queries_ends(void **unused)
{
    CUdeviceptr x;
    CUevent     event;
    int         questions = 0;
    CUresult    code;
    (void)unused;
    gpu_start(1);
    x = gpu_device_memory(4);
    assert_int_equal(cu.EventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
    for (int i = 0; i < 10; i++)
        assert_int_equal(cu.MemsetD8Async(x, 0, 4, gpu_streams[0]), CUDA_SUCCESS);
    assert_int_equal(cu.EventRecord(event, gpu_streams[0]), CUDA_SUCCESS);
    while ((code = cu.EventQuery(event)) == CUDA_ERROR_NOT_READY && questions < 100)
        questions++;
    assert_int_equal(code, CUDA_SUCCESS);
    assert_in_range(questions, 1, 20);
}

/* What events order must hold under every seed; what they do not order must come out differently under some. */
static void test_standin__random_order_keeps_events_and_breaks_luck(void **unused)
{
    int lucky = 0, unlucky = 0;
    (void)unused;
    for (int seed = 1; seed <= 20; seed++) {
        char        text[16];
        CUdeviceptr x, y;
        CUstream    other;
        CUevent     event;
        float      *pinned, ordered, luck;
        snprintf(text, sizeof text, "%d", seed);
        assert_int_equal(setenv("STANDIN_ORDER", "random", 1), 0);
        gpu_set("STANDIN_SEED", text);
        gpu_start(1);
        x = gpu_device_memory(4);
        y = gpu_device_memory(4);
        pinned = gpu_pinned_memory(4);
        *pinned = 1;
        assert_int_equal(cu.StreamCreate(&other, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
        assert_int_equal(cu.EventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
        assert_int_equal(cu.MemcpyHtoDAsync(x, pinned, 4, gpu_streams[0]), CUDA_SUCCESS);
        assert_int_equal(cu.EventRecord(event, gpu_streams[0]), CUDA_SUCCESS);
        assert_int_equal(cu.MemcpyHtoDAsync(y, pinned, 4, gpu_streams[0]), CUDA_SUCCESS);
        assert_int_equal(cu.StreamWaitEvent(other, event, 0), CUDA_SUCCESS);
        assert_int_equal(cu.MemcpyDtoHAsync(&ordered, x, 4, other), CUDA_SUCCESS);
        assert_int_equal(cu.MemcpyDtoHAsync(&luck, y, 4, other), CUDA_SUCCESS);
        assert_true(ordered == 1);
        lucky += luck == 1;
        unlucky += luck != 1;
    }
    assert_true(lucky > 0 && unlucky > 0);
}

/* ---- memory ---- */

static void test_standin__copies_are_checked(void **unused)
{
    char        host[64];
    CUdeviceptr x, y;
    (void)unused;
    gpu_start(2);
    memset(host, 0, sizeof host);
    x = gpu_device_memory(64);
    assert_int_equal(cu.MemcpyHtoDAsync(x, host, 64, gpu_streams[0]), CUDA_SUCCESS);
    assert_int_equal(cu.MemcpyHtoDAsync(x + 1, host, 64, gpu_streams[0]), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cu.MemcpyDtoHAsync(host, x + 60, 5, gpu_streams[0]), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cu.MemcpyHtoDAsync((CUdeviceptr)(uintptr_t)host, host, 4, gpu_streams[0]),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cu.MemcpyDtoHAsync((void *)(uintptr_t)x, x, 4, gpu_streams[0]), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cu.MemcpyHtoDAsync(x, (void *)(uintptr_t)x, 4, gpu_streams[0]), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cu.MemcpyDtoDAsync(x, (CUdeviceptr)(uintptr_t)host, 4, gpu_streams[0]), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cu.MemcpyHtoDAsync(x, host, 4, NULL), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cu.MemsetD32Async(x + 2, 0, 1, gpu_streams[0]), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cu.MemsetD16Async(x, 0, 33, gpu_streams[0]), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cu.CtxSetCurrent(gpu_contexts[1]), CUDA_SUCCESS);
    y = gpu_device_memory(64);
    assert_int_equal(cu.MemcpyHtoDAsync(x, host, 64, gpu_streams[1]), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cu.MemcpyDtoDAsync(y, x, 64, gpu_streams[1]), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cu.MemFree(x + 4), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cu.MemFree(x), CUDA_SUCCESS);
    assert_int_equal(cu.MemFree(x), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cu.MemcpyDtoHAsync(host, x, 4, gpu_streams[0]), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cu.MemFree(0), CUDA_SUCCESS);
    assert_int_equal(cu.MemFreeHost(host), CUDA_ERROR_INVALID_VALUE);
}

static void test_standin__fills_repeat_their_pattern(void **unused)
{
    unsigned char bytes[12];
    uint16_t      halves[2];
    CUdeviceptr   x;
    (void)unused;
    gpu_start(1);
    x = gpu_device_memory(sizeof bytes);
    gpu_fetch(bytes, x, sizeof bytes);
    assert_int_equal(bytes[11], 0xFF); /* new memory is NaN */
    assert_int_equal(cu.MemsetD8Async(x, 7, 12, gpu_streams[0]), CUDA_SUCCESS);
    assert_int_equal(cu.MemsetD16Async(x + 2, 0x1234, 2, gpu_streams[0]), CUDA_SUCCESS);
    assert_int_equal(cu.MemsetD32Async(x + 8, 0xA1B2C3D4u, 1, gpu_streams[0]), CUDA_SUCCESS);
    gpu_fetch(bytes, x, sizeof bytes);
    memcpy(halves, bytes + 2, sizeof halves);
    assert_int_equal(bytes[1], 7);
    assert_int_equal(halves[1], 0x1234);
    assert_int_equal(bytes[6], 7);
    assert_int_equal(bytes[8], 0xD4);
    assert_int_equal(bytes[11], 0xA1);
}

static void test_standin__a_device_has_a_limit(void **unused)
{
    CUdeviceptr x, y;
    size_t      available, total;
    (void)unused;
    assert_int_equal(setenv("STANDIN_FOREIGN", "100000", 1), 0);
    gpu_set("STANDIN_MEMORY", "1000000");
    gpu_start(2);
    x = gpu_device_memory(600000);
    assert_int_equal(cu.MemAlloc(&y, 300001), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(cu.MemGetInfo(&available, &total), CUDA_SUCCESS);
    assert_int_equal(available, 300000);
    assert_int_equal(total, 1000000);
    assert_int_equal(gpu_live(0), 600000);
    assert_int_equal(cu.CtxSetCurrent(gpu_contexts[1]), CUDA_SUCCESS);
    y = gpu_device_memory(900000); /* each has its own */
    assert_int_equal(cu.MemFree(y), CUDA_SUCCESS);
    assert_int_equal(cu.MemFree(x), CUDA_SUCCESS);
    assert_int_equal(gpu_live(0), 0);
    assert_int_equal(cu.MemAlloc(&y, 0), CUDA_ERROR_INVALID_VALUE);
}

static void test_standin__freeing_memory_in_use_waits_and_is_counted(void **unused)
{
    CUdeviceptr x, y;
    float      *pinned;
    (void)unused;
    gpu_start(1);
    x = gpu_device_memory(4);
    y = gpu_device_memory(4);
    pinned = gpu_pinned_memory(4);
    *pinned = 1;
    assert_int_equal(cu.MemcpyHtoDAsync(x, pinned, 4, gpu_streams[0]), CUDA_SUCCESS);
    assert_int_equal(cu.MemcpyDtoHAsync(pinned, x, 4, gpu_streams[0]), CUDA_SUCCESS);
    *pinned = 2;
    assert_int_equal(gpu_pending(), 2);
    assert_int_equal(cu.MemFree(y), CUDA_SUCCESS);
    assert_int_equal(gpu_implicit_waits(), 0);
    assert_int_equal(gpu_pending(), 2);
    assert_int_equal(cu.MemFree(x), CUDA_SUCCESS);
    assert_int_equal(gpu_implicit_waits(), 1);
    assert_int_equal(gpu_pending(), 0);
    assert_int_equal(cu.MemFreeHost(pinned), CUDA_SUCCESS);
    assert_int_equal(gpu_implicit_waits(), 1);
}

/* The host faults on a device address; seen from a child. */
static void test_standin__the_host_cannot_follow_a_device_address(void **unused)
{
    CUdeviceptr x;
    int         status;
    pid_t       child;
    (void)unused;
    gpu_start(1);
    x = gpu_device_memory(4);
    fflush(NULL);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (!freopen("/dev/null", "w", stderr)) /* sanitizers have much to say */
            _exit(0);
        signal(SIGSEGV, SIG_DFL);
        signal(SIGBUS, SIG_DFL);
        _exit(*(volatile char *)(uintptr_t)x == 1 ? 0 : 0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_false(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* ---- devices ---- */

static void test_standin__calls_need_a_current_context(void **unused)
{
    CUdeviceptr x;
    CUcontext   current;
    CUevent     event;
    int         count;
    (void)unused;
    assert_int_equal(cu.DeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);
    gpu_start(2);
    assert_int_equal(cu.DeviceGetCount(&count), CUDA_SUCCESS);
    assert_int_equal(count, 2);
    assert_int_equal(cu.CtxSetCurrent(NULL), CUDA_SUCCESS);
    assert_int_equal(cu.MemAlloc(&x, 4), CUDA_ERROR_INVALID_CONTEXT);
    assert_int_equal(cu.EventCreate(&event, 0), CUDA_ERROR_INVALID_CONTEXT);
    assert_int_equal(cu.CtxSetCurrent(gpu_contexts[1]), CUDA_SUCCESS);
    assert_int_equal(cu.CtxGetCurrent(&current), CUDA_SUCCESS);
    assert_ptr_equal(current, gpu_contexts[1]);
}

static void test_standin__contexts_are_not_mixed(void **unused)
{
    CUfunction  f;
    CUdeviceptr x, y;
    CUevent     event;
    gpu_params  p = {1, 1, 0};
    void       *arguments[] = {&y, &x, &p};
    (void)unused;
    gpu_start(2);
    x = gpu_device_memory(4);
    y = gpu_device_memory(4);
    f = gpu_kernel("axpy");
    assert_int_equal(cu.EventCreate(&event, 0), CUDA_SUCCESS);
    assert_int_equal(gpu_launch(f, 1, 32, gpu_streams[1], arguments), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cu.EventRecord(event, gpu_streams[1]), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cu.EventRecord(event, gpu_streams[0]), CUDA_SUCCESS);
    assert_int_equal(cu.StreamWaitEvent(gpu_streams[1], event, 0), CUDA_SUCCESS);
    assert_int_equal(cu.CtxSetCurrent(gpu_contexts[1]), CUDA_SUCCESS);
    assert_int_equal(gpu_launch(f, 1, 32, gpu_streams[0], arguments), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cu.EventSynchronize(event), CUDA_SUCCESS);
}

static void test_standin__copies_between_devices_and_peer_access(void **unused)
{
    float       value = 3;
    gpu_params  p = {1, 2, 0};
    int         can = 0;
    CUdeviceptr x, y;
    CUevent     event;
    void       *arguments[] = {&y, &x, &p};
    (void)unused;
    gpu_start(2);
    x = gpu_device_memory(4);
    gpu_fill(x, &value, 1);
    assert_int_equal(cu.EventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
    assert_int_equal(cu.EventRecord(event, gpu_streams[0]), CUDA_SUCCESS);
    assert_int_equal(cu.CtxSetCurrent(gpu_contexts[1]), CUDA_SUCCESS);
    y = gpu_device_memory(4);
    assert_int_equal(cu.StreamWaitEvent(gpu_streams[1], event, 0), CUDA_SUCCESS);
    assert_int_equal(cu.MemcpyPeerAsync(y, gpu_contexts[0], x, gpu_contexts[1], 4, gpu_streams[1]),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cu.MemcpyPeerAsync(y, gpu_contexts[1], x, gpu_contexts[0], 4, gpu_streams[1]), CUDA_SUCCESS);
    assert_int_equal(cu.DeviceCanAccessPeer(&can, 1, 0), CUDA_SUCCESS);
    assert_int_equal(can, 1);
    assert_int_equal(cu.CtxEnablePeerAccess(gpu_contexts[0], 0), CUDA_SUCCESS);
    assert_int_equal(cu.CtxEnablePeerAccess(gpu_contexts[0], 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
    assert_int_equal(gpu_launch(gpu_kernel("axpy"), 1, 32, gpu_streams[1], arguments), CUDA_SUCCESS);
    assert_int_equal(cu.MemcpyDtoHAsync(&value, y, 4, gpu_streams[1]), CUDA_SUCCESS);
    assert_true(value == 9);
    /* Device 0 may not follow addresses of device 1. */
    assert_int_equal(cu.CtxSetCurrent(gpu_contexts[0]), CUDA_SUCCESS);
    assert_int_equal(gpu_launch(gpu_kernel("axpy"), 1, 32, gpu_streams[0], arguments), CUDA_SUCCESS);
    assert_int_equal(cu.StreamSynchronize(gpu_streams[0]), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(cu.EventQuery(event), CUDA_ERROR_ILLEGAL_ADDRESS);
}

static void test_standin__devices_without_peer_access(void **unused)
{
    int can = 1;
    (void)unused;
    gpu_set("STANDIN_PEER", "0");
    gpu_start(2);
    assert_int_equal(cu.DeviceCanAccessPeer(&can, 0, 1), CUDA_SUCCESS);
    assert_int_equal(can, 0);
    assert_int_not_equal(cu.CtxEnablePeerAccess(gpu_contexts[1], 0), CUDA_SUCCESS);
}

static void test_standin__a_kernel_cannot_use_freed_memory(void **unused)
{
    gpu_params  p = {1, 1, 0};
    CUdeviceptr x, y;
    void       *arguments[] = {&y, &x, &p};
    CUfunction  f;
    (void)unused;
    gpu_start(1);
    x = gpu_device_memory(4);
    y = gpu_device_memory(4);
    f = gpu_kernel("axpy");
    assert_int_equal(cu.MemFree(x), CUDA_SUCCESS);
    assert_int_equal(gpu_launch(f, 1, 32, gpu_streams[0], arguments), CUDA_SUCCESS);
    assert_int_equal(cu.StreamSynchronize(gpu_streams[0]), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(cu.MemFree(y), CUDA_ERROR_ILLEGAL_ADDRESS);
}

static void test_standin__what_devices_say(void **unused)
{
    nvmlProcessInfo_t processes[4];
    nvmlDevice_t      handle;
    char              id[32], name[64];
    const char       *error;
    unsigned          count = 1;
    int               major, minor, version, device;
    (void)unused;
    assert_int_equal(setenv("STANDIN_CAPABILITY", "7.5", 1), 0);
    assert_int_equal(setenv("STANDIN_DRIVER", "12040", 1), 0);
    gpu_set("STANDIN_FOREIGN", "4096");
    gpu_start(1);
    assert_int_equal(cu.DriverGetVersion(&version), CUDA_SUCCESS);
    assert_int_equal(version, 12040);
    assert_int_equal(cu.DeviceGet(&device, 0), CUDA_SUCCESS);
    assert_int_equal(cu.DeviceGet(&device, 1), CUDA_ERROR_INVALID_DEVICE);
    assert_int_equal(cu.DeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0), CUDA_SUCCESS);
    assert_int_equal(cu.DeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0), CUDA_SUCCESS);
    assert_int_equal(major * 10 + minor, 75);
    assert_int_equal(cu.DeviceGetName(name, sizeof name, 0), CUDA_SUCCESS);
    assert_int_equal(cu.DeviceGetPCIBusId(id, sizeof id, 0), CUDA_SUCCESS);
    assert_int_equal(cu.GetErrorName(CUDA_ERROR_ILLEGAL_ADDRESS, &error), CUDA_SUCCESS);
    assert_string_equal(error, "CUDA_ERROR_ILLEGAL_ADDRESS");
    assert_int_equal(cu.GetErrorName((CUresult)123456, &error), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(ml.Init(), 0);
    assert_int_equal(ml.DeviceGetHandleByPciBusId(id, &handle), 0);
    assert_int_equal(ml.DeviceGetComputeRunningProcesses(handle, &count, processes), 7);
    assert_int_equal(count, 2);
    assert_int_equal(ml.DeviceGetComputeRunningProcesses(handle, &count, processes), 0);
    assert_int_equal(processes[1].pid, 4242);
    assert_int_equal(processes[1].usedGpuMemory, 4096);
}

static void test_standin__machines_without_a_device(void **unused)
{
    (void)unused;
    gpu_set("STANDIN_NO_DEVICE", "1");
    assert_int_equal(cu.Init(0), CUDA_ERROR_NO_DEVICE);
    unsetenv("STANDIN_NO_DEVICE");
    gpu_set("STANDIN_INIT", "803");
    assert_int_equal(cu.Init(0), CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
}

/* ---- faults ---- */

static void test_standin__threads_that_part_ways_lose_the_context(void **unused)
{
    CUdeviceptr out;
    void       *arguments[] = {&out};
    size_t      a, b;
    (void)unused;
    gpu_start(2);
    out = gpu_device_memory(64 * 4);
    assert_int_equal(gpu_launch(gpu_kernel("divergent"), 1, 64, gpu_streams[0], arguments), CUDA_SUCCESS);
    assert_int_equal(cu.StreamSynchronize(gpu_streams[0]), CUDA_ERROR_LAUNCH_FAILED);
    assert_int_equal(cu.MemGetInfo(&a, &b), CUDA_ERROR_LAUNCH_FAILED);
    assert_int_equal(cu.StreamSynchronize(gpu_streams[0]), CUDA_ERROR_LAUNCH_FAILED);
    assert_int_equal(cu.CtxSetCurrent(gpu_contexts[1]), CUDA_SUCCESS); /* the other device goes on */
    assert_int_equal(cu.MemGetInfo(&a, &b), CUDA_SUCCESS);
    out = gpu_device_memory(64 * 4);
    assert_int_equal(cu.MemsetD32Async(out, 0, 64, gpu_streams[1]), CUDA_SUCCESS);
    assert_int_equal(cu.StreamSynchronize(gpu_streams[1]), CUDA_SUCCESS);
}

static void test_standin__any_call_can_fail(void **unused)
{
    CUdeviceptr  x;
    nvrtcProgram program;
    (void)unused;
    gpu_set("STANDIN_FAIL", "cuMemAlloc_v2:2,cuStreamSynchronize:1:719,nvrtcCreateProgram:1");
    gpu_start(1);
    x = gpu_device_memory(4);
    assert_int_equal(cu.MemAlloc(&x, 4), CUDA_ERROR_OUT_OF_MEMORY);
    x = gpu_device_memory(4);
    assert_int_equal(gpu_count_calls("cuMemAlloc_v2"), 3);
    assert_int_equal(gpu_count_calls("cuNoSuchCall"), -1);
    assert_int_equal(cu.StreamSynchronize(gpu_streams[0]), CUDA_ERROR_LAUNCH_FAILED);
    assert_int_equal(cu.MemFree(x), CUDA_ERROR_LAUNCH_FAILED); /* the context is lost */
    assert_true(gpu_plan_compiler_faults("nvrtcCreateProgram:0"));
    for (int i = 0; i < 2; i++)
        assert_int_equal(rtc.CreateProgram(&program, "", "", 0, NULL, NULL), NVRTC_ERROR_OUT_OF_MEMORY);
    assert_true(gpu_plan_compiler_faults("nvrtcCreateProgram:1:3"));
    assert_int_equal(rtc.CreateProgram(&program, "", "", 0, NULL, NULL), NVRTC_ERROR_INVALID_INPUT);
    assert_false(gpu_plan_faults("cuMemAlloc_v2"));
    assert_false(gpu_plan_faults("cuMemAlloc_v2:x"));
}

#define TEST(name) cmocka_unit_test_setup(test_standin__##name, gpu_clean)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(pinned_memory_is_read_late),
        TEST(early_order_runs_at_once),
        TEST(a_stream_needs_the_event_of_another),
        TEST(a_loop_of_queries_ends),
        TEST(random_order_keeps_events_and_breaks_luck),
        TEST(copies_are_checked),
        TEST(fills_repeat_their_pattern),
        TEST(a_device_has_a_limit),
        TEST(freeing_memory_in_use_waits_and_is_counted),
        TEST(the_host_cannot_follow_a_device_address),
        TEST(calls_need_a_current_context),
        TEST(contexts_are_not_mixed),
        TEST(copies_between_devices_and_peer_access),
        TEST(devices_without_peer_access),
        TEST(a_kernel_cannot_use_freed_memory),
        TEST(what_devices_say),
        TEST(machines_without_a_device),
        TEST(threads_that_part_ways_lose_the_context),
        TEST(any_call_can_fail),
    };
    return cmocka_run_group_tests(tests, gpu_load, gpu_clean);
}
