/* Convolutions of the cuda backend by cuDNN, on the stand-ins for the driver and the library: all passes, layouts and
 * fused epilogues against the CPU, which engines may be chosen, what is planned once, little memory, faults, choices
 * that are kept, and that the kernels serve where the library does not.
 *
 * ctest: labels=no-tsan; timeout=300 */
#include "support/linalg.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/alloc.h"

#define STANDIN HAUL_BUILD "/tests/standin"

/* The stand-in's engines (tests/standin/cudnn.h), by number. */
enum { PLAIN, TILED, TENSOR_CORE, ATOMIC, HUGE_WORKSPACE, WINOGRAD, REFUSING, HALF_SUMS };

static long (*dnn_count)(const char *);
static int (*dnn_fail)(const char *);
static long (*engine_runs)(int);
static void (*reset_runs)(void);

static void *symbol_of(const char *library, const char *name)
{
    char  path[1024];
    void *opened, *symbol;
    snprintf(path, sizeof path, "%s/%s", STANDIN, library);
    opened = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    symbol = opened ? dlsym(opened, name) : NULL;
    if (!symbol) {
        printf("%s\n", dlerror());
        _exit(1);
    }
    return symbol;
}

static void find_standin(void)
{
    *(void **)&dnn_count = symbol_of("libcudnn.so.9", "standin_count");
    *(void **)&dnn_fail = symbol_of("libcudnn.so.9", "standin_fail");
    *(void **)&engine_runs = symbol_of("libcudnn.so.9", "standin_engine_runs");
    *(void **)&reset_runs = symbol_of("libcudnn.so.9", "standin_reset_runs");
}

static long runs(void)
{
    return dnn_count("cudnnBackendExecute");
}

static haul_device *gpu(void)
{
    return haul_device_get("cuda:0");
}

static int open_scope(void **state)
{
    *state = haul_scope_push();
    haul_error_clear();
    reset_runs();
    return *state == NULL || haul_set_device(gpu()) != HAUL_OK;
}

static int close_scope(void **state)
{
    haul_error_clear();
    return (int)haul_scope_pop(*state);
}

/* ---- one problem on the CPU and on the GPU ---- */

typedef struct settings {
    int64_t n, c_in, h, w, c_out, kh, kw, stride[2], padding[2], dilation[2], groups;
} settings;

static const settings all[] = {
    {2, 3, 8, 9, 4, 3, 3, {1, 1}, {0, 0}, {1, 1}, 1}, {3, 4, 9, 7, 6, 3, 3, {2, 3}, {1, 1}, {1, 1}, 2},
    {2, 2, 9, 9, 3, 3, 2, {1, 1}, {2, 2}, {2, 3}, 1}, {2, 4, 6, 6, 4, 3, 3, {1, 2}, {1, 0}, {1, 1}, 4},
    {1, 6, 5, 5, 2, 1, 1, {1, 1}, {0, 0}, {1, 1}, 1}, {1, 2, 3, 3, 2, 3, 3, {1, 1}, {0, 0}, {1, 1}, 1},
    {2, 2, 2, 2, 2, 1, 1, {3, 3}, {4, 4}, {1, 1}, 2},
};
enum { PROBLEMS = sizeof all / sizeof all[0] };

typedef enum epilogue { PLAIN_RESULT, WITH_BIAS, WITH_RELU, WITH_BOTH } epilogue;

static haul_tensor *convolve(haul_tensor *x, haul_tensor *w, haul_tensor *bias, const settings *s, bool relu)
{
    return haul_conv2d(x, w, bias, .stride = {s->stride[0], s->stride[1]}, .padding = {s->padding[0], s->padding[1]},
                       .dilation = {s->dilation[0], s->dilation[1]}, .groups = s->groups, .relu = relu);
}

/* Values that the dtype holds exactly, as f64 on the CPU; halves have few bits. */
static haul_tensor *operand(haul_dtype dtype, haul_shape shape, unsigned seed)
{
    haul_tensor *t = sample_tensor(haul_cpu(), HAUL_F64, shape, seed, NULL);
    return haul_cast(haul_cast(t, dtype), HAUL_F64);
}

static haul_tensor *on_gpu(haul_tensor *t, haul_dtype dtype, bool channels_last)
{
    haul_tensor *moved = haul_to(haul_cast(haul_detach(t), dtype), gpu());
    return haul_set_requires_grad(channels_last ? haul_to_memory_format(moved, HAUL_CHANNELS_LAST) : moved, true);
}

static void assert_same(haul_tensor *got, haul_tensor *want, double error, const char *what)
{
    int64_t count = haul_tensor_count(want);
    double *values = calloc((size_t)count, sizeof *values);
    assert_non_null(values);
    assert_int_equal(read_values(want, values, count), HAUL_OK);
    assert_close(got, values, count, error, what);
    free(values);
}

/* Forward and both gradients; the reference is computed in f64 by the CPU. */
static void check(const settings *s, haul_dtype dtype, bool channels_last, epilogue e, double error)
{
    haul_scope  *scope = haul_scope_push();
    bool         relu = e == WITH_RELU || e == WITH_BOTH;
    haul_tensor *x = operand(dtype, HAUL_SHAPE(s->n, s->c_in, s->h, s->w), 1);
    haul_tensor *w = operand(dtype, HAUL_SHAPE(s->c_out, s->c_in / s->groups, s->kh, s->kw), 2);
    haul_tensor *b = e == WITH_BIAS || e == WITH_BOTH ? operand(dtype, HAUL_SHAPE(s->c_out), 3) : HAUL_NONE;
    haul_tensor *gx = on_gpu(x, dtype, channels_last), *gw = on_gpu(w, dtype, channels_last);
    haul_tensor *gb = b == HAUL_NONE ? HAUL_NONE : on_gpu(b, dtype, false);
    long         before = runs();
    haul_set_requires_grad(x, true);
    haul_set_requires_grad(w, true);
    haul_tensor *y = convolve(x, w, b, s, relu), *gy = convolve(gx, gw, gb, s, relu);
    assert_int_equal(runs() - before, 1);
    assert_same(gy, y, error, "y");
    haul_tensor *dy = haul_cast(haul_cast(haul_cos(haul_detach(y)), dtype), HAUL_F64);
    assert_int_equal(haul_backward(y, dy), HAUL_OK);
    assert_int_equal(haul_backward(gy, haul_to(haul_cast(dy, dtype), gpu())), HAUL_OK);
    assert_int_equal(runs() - before, 3);
    assert_same(haul_tensor_grad(gx), haul_tensor_grad(x), error, "dx");
    assert_same(haul_tensor_grad(gw), haul_tensor_grad(w), 4 * error, "dw");
    assert_int_equal(haul_error_status(), HAUL_OK);
    haul_scope_pop(scope);
}

static void check_all(haul_dtype dtype, double error)
{
    for (int i = 0; i < PROBLEMS; i++)
        for (int last = 0; last < 2; last++)
            for (int e = PLAIN_RESULT; e <= WITH_BOTH; e++)
                check(&all[i], dtype, last, (epilogue)e, error);
    assert_int_equal(engine_runs(ATOMIC) + engine_runs(HUGE_WORKSPACE) + engine_runs(WINOGRAD) + engine_runs(REFUSING) +
                         engine_runs(HALF_SUMS),
                     0);
}

static void test_conv__all_passes_in_f32(void **state)
{
    (void)state;
    check_all(HAUL_F32, 2e-4);
    assert_true(engine_runs(TILED) > 0);
    assert_int_equal(engine_runs(TENSOR_CORE), 0);
}

static void test_conv__all_passes_in_f64(void **state)
{
    (void)state;
    check_all(HAUL_F64, 1e-11);
}

/* Tensor cores are exact enough for halves: the sums are f32. */
static void test_conv__all_passes_in_halves(void **state)
{
    (void)state;
    check_all(HAUL_F16, 6e-2);
    check_all(HAUL_BF16, 5e-1);
    assert_true(engine_runs(TENSOR_CORE) > 0);
    assert_int_equal(engine_runs(TILED), 0);
}

/* ---- precision ---- */

/* 1 + 2^-12 has more bits than TF32. */
static void test_conv__tf32_only_where_it_is_asked_for(void **state)
{
    haul_tensor *x = haul_full(HAUL_F32, HAUL_SHAPE(1, 4, 5, 5), 1 + 0x1p-12);
    haul_tensor *w = haul_ones(HAUL_F32, HAUL_SHAPE(2, 4, 1, 1));
    (void)state;
    double exact = haul_item(haul_max(haul_conv2d(x, w, HAUL_NONE)));
    assert_true(exact == 4 + 0x1p-10);
    haul_scope *scope = haul_scope_push();
    assert_int_equal(haul_set_matmul_precision(HAUL_PRECISION_HIGH), HAUL_OK);
    assert_true(haul_item(haul_max(haul_conv2d(x, w, HAUL_NONE))) == 4);
    assert_int_equal(engine_runs(TENSOR_CORE), 1);
    haul_scope_pop(scope);
    assert_true(haul_item(haul_max(haul_conv2d(x, w, HAUL_NONE))) == exact);
}

/* Halves are computed channels-last, whatever they come as, and the weight is laid so once. */
static void test_conv__halves_become_channels_last(void **state)
{
    haul_tensor *x = haul_ones(HAUL_F16, HAUL_SHAPE(2, 4, 5, 5)), *w = haul_ones(HAUL_F16, HAUL_SHAPE(3, 4, 3, 3));
    (void)state;
    haul_tensor *y = haul_conv2d(x, w, HAUL_NONE);
    assert_true(haul_tensor_is_channels_last(y));
    assert_true(haul_item(haul_max(y)) == 36);
    y = haul_conv2d(haul_cast(x, HAUL_F32), haul_cast(w, HAUL_F32), HAUL_NONE);
    assert_true(haul_tensor_is_contiguous(y));
}

/* ---- views ---- */

/* A buffer may begin at any element. */
static void test_conv__odd_offsets(void **state)
{
    haul_tensor *rows = sample_tensor(gpu(), HAUL_F32, HAUL_SHAPE(3, 1, 5, 7), 1, NULL);
    haul_tensor *w = sample_tensor(gpu(), HAUL_F32, HAUL_SHAPE(1, 1, 3, 3), 2, NULL);
    (void)state;
    for (int64_t first = 0; first < 3; first++) {
        haul_tensor *x = haul_slice(rows, 0, first, 3, 1);
        haul_tensor *want = haul_conv2d(haul_to(x, haul_cpu()), haul_to(w, haul_cpu()), HAUL_NONE);
        long         before = runs();
        assert_same(haul_conv2d(x, w, HAUL_NONE), want, 1e-4, "a slice");
        assert_int_equal(runs() - before, 1);
    }
}

/* ---- NaN ---- */

static void test_conv__relu_keeps_nan(void **state)
{
    haul_tensor *x = haul_full(HAUL_F32, HAUL_SHAPE(1, 1, 3, 3), NAN), *w = haul_ones(HAUL_F32, HAUL_SHAPE(1, 1, 1, 1));
    (void)state;
    assert_true(isnan(haul_item(haul_max(haul_conv2d(x, w, HAUL_NONE, .relu = true)))));
    assert_int_equal(runs() > 0, 1);
}

/* ---- what is done once, and what each time ---- */

static void test_conv__planned_once_and_no_waits(void **state)
{
    haul_tensor      *x = sample_tensor(gpu(), HAUL_F32, HAUL_SHAPE(2, 3, 11, 13), 1, NULL);
    haul_tensor      *w = sample_tensor(gpu(), HAUL_F32, HAUL_SHAPE(4, 3, 3, 3), 2, NULL), *y[10];
    haul_memory_stats before, after;
    haul_sync_stats   waited, waits;
    (void)state;
    for (int i = 0; i < 2; i++) { /* the second finds scratch memory in the cache */
        haul_scope *scope = haul_scope_push();
        assert_non_null(haul_conv2d(x, w, HAUL_NONE));
        haul_scope_pop(scope);
    }
    assert_int_equal(haul_device_sync(gpu()), HAUL_OK);
    assert_int_equal(haul_sync_stats_get(&waited), HAUL_OK);
    long finalized = dnn_count("cudnnBackendFinalize"), made = dnn_count("cudnnBackendCreateDescriptor");
    long run = runs();
    for (int i = 0; i < 10; i++)
        assert_non_null(y[i] = haul_conv2d(x, w, HAUL_NONE));
    assert_int_equal(dnn_count("cudnnBackendFinalize") - finalized, 10); /* which buffers */
    assert_int_equal(dnn_count("cudnnBackendCreateDescriptor") - made, 10);
    assert_int_equal(runs() - run, 10);
    assert_int_equal(haul_sync_stats_get(&waits), HAUL_OK);
    assert_int_equal(waits.waits, waited.waits);
    for (int i = 0; i < 10; i++)
        assert_same(y[i], haul_conv2d(haul_to(x, haul_cpu()), haul_to(w, haul_cpu()), HAUL_NONE), 1e-4, "y");
    assert_int_equal(dnn_count("cudnnSetStream"), 1);

    /* Scratch memory is the allocator's: it comes from the cache. */
    haul_scope *scope = haul_scope_push();
    assert_non_null(haul_conv2d(x, w, HAUL_NONE));
    haul_scope_pop(scope);
    assert_int_equal(haul_memory_stats_get(gpu(), &before), HAUL_OK);
    scope = haul_scope_push();
    assert_non_null(haul_conv2d(x, w, HAUL_NONE));
    haul_scope_pop(scope);
    assert_int_equal(haul_memory_stats_get(gpu(), &after), HAUL_OK);
    assert_int_equal(after.device_allocations, before.device_allocations);
    assert_int_equal(after.allocated, before.allocated);
}

/* More shapes than plans are kept for; all have one. */
static void test_conv__ever_new_shapes(void **state)
{
    haul_tensor *w = haul_ones(HAUL_F32, HAUL_SHAPE(1, 1, 1, 1));
    (void)state;
    for (int64_t n = 1; n <= 6000; n++) {
        haul_scope *scope = haul_scope_push();
        assert_non_null(haul_conv2d(haul_ones(HAUL_F32, HAUL_SHAPE(1, 1, 1 + n / 80, 1 + n % 80)), w, HAUL_NONE));
        haul_scope_pop(scope);
    }
    assert_int_equal(engine_runs(TILED), 6000);
}

/* ---- little memory ---- */

/* Without room for scratch memory another plan serves. */
static void test_conv__little_memory(void **state)
{
    haul_tensor *x = haul_ones(HAUL_F32, HAUL_SHAPE(4, 8, 64, 64)), *w = haul_ones(HAUL_F32, HAUL_SHAPE(8, 8, 1, 1));
    haul_tensor *room = haul_empty(HAUL_F32, HAUL_SHAPE(4, 8, 64, 64)), *y;
    haul_memory_stats stats;
    (void)state;
    assert_int_equal(haul_memory_release_cached(gpu()), HAUL_OK);
    assert_int_equal(haul_memory_stats_get(gpu(), &stats), HAUL_OK);
    assert_int_equal(haul_memory_set_limit(gpu(), stats.reserved), HAUL_OK);
    assert_int_equal(haul_drop(room), HAUL_OK);
    for (int i = 0; i < 2; i++) {
        haul_scope *scope = haul_scope_push();
        y = haul_conv2d(x, w, HAUL_NONE);
        if (!y)
            fail_msg("%s", haul_error_message());
        assert_int_equal(engine_runs(PLAIN), i + 1);
        assert_true(haul_item(haul_slice(haul_view(y, HAUL_SHAPE(4 * 8 * 64 * 64)), 0, 0, 1, 1)) == 8);
        haul_scope_pop(scope);
    }
    assert_int_equal(haul_error_status(), HAUL_OK);
    assert_int_equal(engine_runs(TILED), 0);
    assert_int_equal(haul_memory_set_limit(gpu(), 0), HAUL_OK);
    assert_non_null(haul_conv2d(x, w, HAUL_NONE));
    assert_int_equal(engine_runs(TILED), 1);
}

/* ---- threads ---- */

typedef struct work {
    int64_t first;
    bool    good;
} work;

static void *convolve_many(void *data)
{
    work       *w = data;
    haul_scope *scope = haul_scope_push();
    w->good = haul_set_device(gpu()) == HAUL_OK;
    for (int64_t i = 0; i < 40 && w->good; i++) {
        haul_scope  *step = haul_scope_push();
        int64_t      size = 3 + (i + w->first) % 9;
        haul_tensor *x = haul_full(HAUL_F32, HAUL_SHAPE(2, 3, size, size), (double)w->first);
        haul_tensor *y = haul_conv2d(x, haul_ones(HAUL_F32, HAUL_SHAPE(2, 3, 3, 3)), HAUL_NONE);
        w->good =
            haul_item(haul_min(y)) == (double)(27 * w->first) && haul_item(haul_max(y)) == (double)(27 * w->first);
        haul_scope_pop(step);
    }
    haul_scope_pop(scope);
    return NULL;
}

static void test_conv__threads_share_the_library(void **state)
{
    pthread_t threads[4];
    work      works[4];
    (void)state;
    for (int i = 0; i < 4; i++) {
        works[i].first = i + 1;
        assert_int_equal(pthread_create(&threads[i], NULL, convolve_many, &works[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_true(works[i].good);
    }
}

/* ---- faults ---- */

/* A convolution of ones with a size that was not met before. */
static haul_tensor *fresh_convolution(int64_t *size)
{
    ++*size;
    return haul_conv2d(haul_ones(HAUL_F32, HAUL_SHAPE(1, 2, *size, 1)), haul_ones(HAUL_F32, HAUL_SHAPE(1, 2, 1, 1)),
                       HAUL_NONE, .relu = true);
}

static bool is_two(haul_tensor *y)
{
    return y && haul_item(haul_min(y)) == 2 && haul_item(haul_max(y)) == 2;
}

static void test_conv__faults_are_told(void **state)
{
    int64_t size = 200;
    (void)state;
    assert_true(dnn_fail("cudnnBackendExecute:1:5000"));
    assert_refused(fresh_convolution(&size), HAUL_BACKEND, "CUDNN_STATUS_EXECUTION_FAILED (error 5000): asked to fail");
    assert_true(is_two(fresh_convolution(&size)));
    assert_true(dnn_fail("cudnnBackendExecute:1:4000"));
    assert_refused(fresh_convolution(&size), HAUL_BACKEND, "HAUL_CUDA_WITHOUT=cudnn");
    assert_true(dnn_fail(NULL));
}

/* An engine that refuses after all, and each step of planning that fails: the kernels serve, and nothing is recorded.
 */
static void test_conv__what_cannot_be_planned_goes_to_the_kernels(void **state)
{
    static const char *const functions[] = {"cudnnBackendCreateDescriptor", "cudnnBackendSetAttribute",
                                            "cudnnBackendGetAttribute", "cudnnBackendFinalize"};
    int64_t                  size = 300;
    (void)state;
    assert_true(dnn_fail("cudnnBackendExecute:0:3000"));
    assert_true(is_two(fresh_convolution(&size)));
    assert_true(dnn_fail(NULL));
    for (int f = 0; f < 4; f++) {
        char plan[64];
        snprintf(plan, sizeof plan, "%s:0:4000", functions[f]);
        assert_true(dnn_fail(plan));
        long         run = runs();
        haul_tensor *y = fresh_convolution(&size);
        assert_int_equal(runs(), run);
        assert_true(dnn_fail(NULL));
        assert_true(is_two(y));
    }
    assert_int_equal(haul_error_status(), HAUL_OK);
}

/* One step that fails: whatever serves then, the result is right, or an error says why there is none. */
static void test_conv__each_step_may_fail(void **state)
{
    static const char *const functions[] = {"cudnnBackendCreateDescriptor", "cudnnBackendSetAttribute",
                                            "cudnnBackendGetAttribute", "cudnnBackendFinalize"};
    int64_t                  size = 400;
    (void)state;
    for (int f = 0; f < 4; f++) {
        for (long n = 1, used = 1; used; n++) {
            char plan[64];
            snprintf(plan, sizeof plan, "%s:%ld:4000", functions[f], n);
            long before = dnn_count(functions[f]);
            assert_true(dnn_fail(plan));
            haul_tensor *y = fresh_convolution(&size);
            used = dnn_count(functions[f]) - before >= n;
            assert_true(dnn_fail(NULL));
            if (y)
                assert_true(is_two(y));
            else
                assert_int_equal(haul_error_status(), HAUL_BACKEND);
            haul_error_clear();
            assert_true(n < 400);
        }
    }
}

static void test_conv__each_host_allocation_may_fail(void **state)
{
    int64_t size = 2000;
    (void)state;
    assert_true(is_two(fresh_convolution(&size)));
    for (int64_t n = 1, failed = 1; failed; n++) {
        haul__fault_plan(HAUL__FAULT_HOST, n);
        haul_tensor *y = fresh_convolution(&size);
        failed = haul__fault_count() >= n;
        haul__fault_plan(0, 0);
        if (y)
            assert_true(is_two(y));
        else
            assert_int_equal(haul_error_status(), HAUL_OUT_OF_MEMORY);
        haul_error_clear();
        assert_true(n < 200);
    }
}

/* ---- other libraries and settings: a process opens them once, so each case is a child ---- */

static const char *expected;

static void in_child(bool (*run)(void), const char *name, const char *value, const char *name2, const char *value2)
{
    int   status = 0;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        setenv(name, value, 1);
        if (name2)
            setenv(name2, value2, 1);
        find_standin();
        haul_scope *scope = haul_scope_push();
        bool        good = scope && haul_set_device(gpu()) == HAUL_OK && run();
        if (!good)
            printf("with %s=%s: the last error: %s\n", name, value, haul_error_message());
        fflush(stdout);
        _exit(good ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* With bias and relu: 2 + 1. */
static bool convolves(void)
{
    haul_tensor *y =
        haul_conv2d(haul_ones(HAUL_F32, HAUL_SHAPE(1, 2, 3, 3)), haul_ones(HAUL_F32, HAUL_SHAPE(1, 2, 1, 1)),
                    haul_ones(HAUL_F32, HAUL_SHAPE(1)), .relu = true);
    return y && haul_item(haul_min(y)) == 3 && haul_item(haul_max(y)) == 3 && haul_error_status() == HAUL_OK;
}

static bool says_what_there_is(void)
{
    haul_device_properties p;
    if (haul_device_describe(gpu(), &p) != HAUL_OK)
        return false;
    printf("%s\n", p.libraries);
    return strstr(p.libraries, expected);
}

static bool kernels_serve(void)
{
    return convolves() && says_what_there_is() && runs() == 0;
}

static bool library_serves(void)
{
    return convolves() && says_what_there_is() && runs() == 1 && engine_runs(TILED) == 1;
}

static bool serves_one_by_one(void)
{
    return convolves() && runs() == 1 && engine_runs(TILED) == 1;
}

static void test_conv__other_libraries(void **state)
{
    (void)state;
    expected = "cuDNN 9.19.0";
    in_child(library_serves, "STANDIN_CUDNN", "", NULL, NULL);
    expected = "no cuDNN (switched off): own kernels serve";
    in_child(kernels_serve, "HAUL_CUDA_WITHOUT", "nvml,cudnn", NULL, NULL);
    expected = "no cuDNN (version 8907 is too old): own kernels serve";
    in_child(kernels_serve, "STANDIN_CUDNN", "old", NULL, NULL);
    expected = "cuDNN 9.19.0 does not start (CUDNN_STATUS_NOT_INITIALIZED): own kernels serve";
    in_child(kernels_serve, "STANDIN_FAIL", "cudnnCreate:0:1001", NULL, NULL);
    expected = "cuDNN 9.19.0";
    in_child(kernels_serve, "STANDIN_CUDNN", "none", NULL, NULL);
    in_child(serves_one_by_one, "STANDIN_CUDNN", "unfused", NULL, NULL);
}

static bool adds_in_any_order(void)
{
    haul_tensor *x = haul_set_requires_grad(haul_ones(HAUL_F32, HAUL_SHAPE(1, 2, 3, 3)), true);
    haul_tensor *w = haul_set_requires_grad(haul_ones(HAUL_F32, HAUL_SHAPE(2, 2, 1, 1)), true);
    return haul_backward(haul_sum(haul_conv2d(x, w, HAUL_NONE)), HAUL_NONE) == HAUL_OK &&
           haul_item(haul_max(haul_tensor_grad(x))) == 2 && haul_item(haul_max(haul_tensor_grad(w))) == 9 &&
           engine_runs(ATOMIC) == 2;
}

static void test_conv__any_order_where_it_is_allowed(void **state)
{
    (void)state;
    in_child(adds_in_any_order, "HAUL_CUDNN", "nondeterministic", NULL, NULL);
}

/* ---- timing ---- */

static bool times_and_keeps(void)
{
    long first;
    if (!convolves())
        return false;
    first = runs();
    return first > 10 && engine_runs(TILED) > 5 && engine_runs(PLAIN) > 5 && convolves() && runs() == first + 1 &&
           engine_runs(TILED) < engine_runs(PLAIN);
}

static bool takes_what_was_kept(void)
{
    return convolves() && runs() == 1 && engine_runs(PLAIN) == 1;
}

static bool takes_what_is_expected_best(void)
{
    return convolves() && runs() == 1 && engine_runs(TILED) == 1;
}

/* The engine that is expected to be best is slow in the first process, which finds that out; the second one is not
 * slow, and takes the same choice all the same. Without autotune heuristics decide. */
static void test_conv__timed_choices_are_kept(void **state)
{
    char folder[] = "conv-cache-XXXXXX";
    (void)state;
    assert_non_null(mkdtemp(folder));
    setenv("HAUL_CUDNN", "autotune", 1);
    in_child(times_and_keeps, "STANDIN_CUDNN", "slow", "HAUL_CACHE_DIR", folder);
    in_child(takes_what_was_kept, "STANDIN_CUDNN", "", "HAUL_CACHE_DIR", folder);
    unsetenv("HAUL_CUDNN");
    in_child(takes_what_is_expected_best, "STANDIN_CUDNN", "", "HAUL_CACHE_DIR", folder);
}

/* What fails while timing is an error, and the next call times again. */
static bool timing_may_fail(void)
{
    bool told = dnn_fail("cudnnBackendExecute:3:5000") && !convolves() && haul_error_status() == HAUL_BACKEND;
    haul_error_clear();
    return told && dnn_fail(NULL) && times_and_keeps();
}

static void test_conv__faults_while_timing(void **state)
{
    char folder[] = "conv-fault-XXXXXX";
    (void)state;
    assert_non_null(mkdtemp(folder));
    setenv("STANDIN_CUDNN", "slow", 1);
    in_child(timing_may_fail, "HAUL_CUDNN", "autotune", "HAUL_CACHE_DIR", folder);
    unsetenv("STANDIN_CUDNN");
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, open_scope, close_scope)
    const struct CMUnitTest children[] = {
        cmocka_unit_test(test_conv__other_libraries),
        cmocka_unit_test(test_conv__any_order_where_it_is_allowed),
        cmocka_unit_test(test_conv__timed_choices_are_kept),
        cmocka_unit_test(test_conv__faults_while_timing),
    };
    const struct CMUnitTest tests[] = {
        T(test_conv__all_passes_in_f32),
        T(test_conv__all_passes_in_f64),
        T(test_conv__all_passes_in_halves),
        T(test_conv__tf32_only_where_it_is_asked_for),
        T(test_conv__halves_become_channels_last),
        T(test_conv__odd_offsets),
        T(test_conv__relu_keeps_nan),
        T(test_conv__planned_once_and_no_waits),
        T(test_conv__ever_new_shapes),
        T(test_conv__little_memory),
        T(test_conv__threads_share_the_library),
        T(test_conv__faults_are_told),
        T(test_conv__what_cannot_be_planned_goes_to_the_kernels),
        T(test_conv__each_step_may_fail),
        T(test_conv__each_host_allocation_may_fail),
    };
    int failed;
    setenv("HAUL_CUDA_LIBRARIES", STANDIN, 1);
    failed = cmocka_run_group_tests(children, NULL, NULL);
    find_standin();
    return failed + cmocka_run_group_tests(tests, NULL, NULL);
}
