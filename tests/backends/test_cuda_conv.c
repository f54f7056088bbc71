/* Convolutions of the cuda backend by cuDNN, on the stand-ins for the driver and the library: all passes, layouts and
 * fused epilogues against the CPU, which engines may be chosen, plans made once, little memory, threads. */
#include "support/choice.h"
#include "support/devices/cudnn.h"
#include "support/failure.h"

#include <pthread.h>

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
    return haul_conv2d(x, w, .bias = bias, .stride = PAIR(s->stride), .padding = PAIR(s->padding),
                       .dilation = PAIR(s->dilation), .groups = s->groups, .relu = relu);
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
    if (b != HAUL_NONE)
        haul_set_requires_grad(b, true);
    haul_tensor *y = convolve(x, w, b, s, relu), *gy = convolve(gx, gw, gb, s, relu);
    assert_int_equal(runs() - before, 1);
    assert_same(gy, y, error, "y");
    haul_tensor *dy = haul_cast(haul_cast(haul_cos(haul_detach(y)), dtype), HAUL_F64);
    assert_int_equal(haul_backward(y, .seed = dy), HAUL_OK);
    assert_int_equal(haul_backward(gy, .seed = haul_to(haul_cast(dy, dtype), gpu())), HAUL_OK);
    assert_int_equal(runs() - before, 3);
    assert_same(haul_tensor_grad(gx), haul_tensor_grad(x), error, "dx");
    assert_same(haul_tensor_grad(gw), haul_tensor_grad(w), 4 * error, "dw");
    if (b != HAUL_NONE)
        assert_same(haul_tensor_grad(gb), haul_tensor_grad(b), 4 * error, "db");
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
    double exact = haul_item(haul_max(haul_conv2d(x, w)));
    assert_true(exact == 4 + 0x1p-10);
    haul_scope *scope = haul_scope_push();
    assert_int_equal(haul_set_matmul_precision(HAUL_PRECISION_HIGH), HAUL_OK);
    assert_true(haul_item(haul_max(haul_conv2d(x, w))) == 4);
    assert_int_equal(engine_runs(TENSOR_CORE), 1);
    haul_scope_pop(scope);
    assert_true(haul_item(haul_max(haul_conv2d(x, w))) == exact);
}

/* Halves are computed channels-last, whatever they come as, and the weight is laid so once. */
static void test_conv__halves_become_channels_last(void **state)
{
    haul_tensor *x = haul_ones(HAUL_F16, HAUL_SHAPE(2, 4, 5, 5)), *w = haul_ones(HAUL_F16, HAUL_SHAPE(3, 4, 3, 3));
    (void)state;
    haul_tensor *y = haul_conv2d(x, w);
    assert_true(haul_tensor_is_channels_last(y));
    assert_true(haul_item(haul_max(y)) == 36);
    y = haul_conv2d(haul_cast(x, HAUL_F32), haul_cast(w, HAUL_F32));
    assert_true(haul_tensor_is_contiguous(y));
}

/* ---- views ---- */

/* A buffer may begin at any element; cuDNN gets those that begin at multiples of 16 bytes. */
static void test_conv__odd_offsets(void **state)
{
    haul_tensor *rows = sample_tensor(gpu(), HAUL_F32, HAUL_SHAPE(3, 1, 5, 7), 1, NULL);
    haul_tensor *w = sample_tensor(gpu(), HAUL_F32, HAUL_SHAPE(1, 1, 3, 3), 2, NULL);
    (void)state;
    for (int64_t first = 0; first < 3; first++) {
        haul_tensor *x = haul_slice(rows, 0, first, 3, 1);
        haul_tensor *want = haul_conv2d(haul_to(x, haul_cpu()), haul_to(w, haul_cpu()));
        long         before = runs();
        choice       c;
        listen_for_choices(&c);
        assert_same(haul_conv2d(x, w), want, 1e-4, "a slice");
        haul_events_unsubscribe(c.id);
        assert_int_equal(runs() - before, first == 0);
        assert_true(first == 0 || strstr(c.refused, "a multiple of 16"));
    }
}

/* ---- NaN ---- */

static void test_conv__relu_keeps_nan(void **state)
{
    haul_tensor *x = haul_full(HAUL_F32, HAUL_SHAPE(1, 1, 3, 3), NAN), *w = haul_ones(HAUL_F32, HAUL_SHAPE(1, 1, 1, 1));
    (void)state;
    assert_true(isnan(haul_item(haul_max(haul_conv2d(x, w, .relu = true)))));
    assert_int_equal(runs() > 0, 1);
}

/* ---- calls made once, and calls made each time ---- */

static void test_conv__planned_once_and_no_waits(void **state)
{
    haul_tensor      *x = sample_tensor(gpu(), HAUL_F32, HAUL_SHAPE(2, 3, 11, 13), 1, NULL);
    haul_tensor      *w = sample_tensor(gpu(), HAUL_F32, HAUL_SHAPE(4, 3, 3, 3), 2, NULL), *y[10];
    haul_memory_stats before, after;
    haul_sync_stats   waited, waits;
    (void)state;
    for (int i = 0; i < 2; i++) { /* the second finds scratch memory in the cache */
        haul_scope *scope = haul_scope_push();
        assert_valid(haul_conv2d(x, w));
        haul_scope_pop(scope);
    }
    assert_int_equal(haul_device_sync(gpu()), HAUL_OK);
    assert_int_equal(haul_sync_stats_get(&waited), HAUL_OK);
    long finalized = dnn_count("cudnnBackendFinalize"), made = dnn_count("cudnnBackendCreateDescriptor");
    long run = runs();
    for (int i = 0; i < 10; i++)
        assert_valid(y[i] = haul_conv2d(x, w));
    assert_int_equal(dnn_count("cudnnBackendFinalize") - finalized, 10); /* which buffers */
    assert_int_equal(dnn_count("cudnnBackendCreateDescriptor") - made, 10);
    assert_int_equal(runs() - run, 10);
    assert_int_equal(haul_sync_stats_get(&waits), HAUL_OK);
    assert_int_equal(waits.waits, waited.waits);
    for (int i = 0; i < 10; i++)
        assert_same(y[i], haul_conv2d(haul_to(x, haul_cpu()), haul_to(w, haul_cpu())), 1e-4, "y");
    assert_int_equal(dnn_count("cudnnSetStream"), 1);

    /* Scratch memory is the allocator's: it comes from the cache. */
    haul_scope *scope = haul_scope_push();
    assert_valid(haul_conv2d(x, w));
    haul_scope_pop(scope);
    assert_int_equal(haul_memory_stats_get(gpu(), &before), HAUL_OK);
    scope = haul_scope_push();
    assert_valid(haul_conv2d(x, w));
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
        assert_valid(haul_conv2d(haul_ones(HAUL_F32, HAUL_SHAPE(1, 1, 1 + n / 80, 1 + n % 80)), w));
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
    choice            made;
    (void)state;
    listen_for_choices(&made);
    assert_int_equal(haul_memory_release_cached(gpu()), HAUL_OK);
    assert_int_equal(haul_memory_stats_get(gpu(), &stats), HAUL_OK);
    assert_int_equal(haul_memory_set_limit(gpu(), stats.reserved), HAUL_OK);
    assert_int_equal(haul_drop(room), HAUL_OK);
    for (int i = 0; i < 2; i++) {
        haul_scope *scope = haul_scope_push();
        y = haul_conv2d(x, w);
        if (!haul_tensor_is_valid(y))
            fail_msg("%s", haul_error_message());
        assert_int_equal(engine_runs(PLAIN), i + 1);
        assert_computed_with_less(&made, "cudnn");
        assert_true(haul_item(haul_slice(haul_view(y, HAUL_SHAPE(4 * 8 * 64 * 64)), 0, 0, 1, 1)) == 8);
        haul_scope_pop(scope);
    }
    assert_int_equal(haul_error_status(), HAUL_OK);
    assert_int_equal(engine_runs(TILED), 0);
    assert_int_equal(haul_memory_set_limit(gpu(), 0), HAUL_OK);
    assert_valid(haul_conv2d(x, w));
    assert_int_equal(engine_runs(TILED), 1);
    assert_string_equal(made.by, "cudnn");
    assert_string_equal(made.refused, "");
    haul_events_unsubscribe(made.id);
}

/* ---- spilling ---- */

enum { KIB = 1024, IMAGES = 512 * KIB, WORKSPACE = 640 * KIB }; /* blocks of x, y and scratch memory */

static haul_tensor *tensor_of(int64_t bytes)
{
    haul_tensor *t = haul_full(HAUL_F32, HAUL_SHAPE(bytes / 4), 1);
    assert_valid(t);
    return t;
}

/* In a block of their own, not in a part of a cached one. */
static haul_tensor *ones_of_images(void)
{
    assert_int_equal(haul_memory_release_cached(gpu()), HAUL_OK);
    return haul_view(tensor_of(IMAGES), HAUL_SHAPE(4, 8, 64, 64));
}

static haul_memory_stats stats_of_gpu(void)
{
    haul_memory_stats stats;
    assert_int_equal(haul_memory_stats_get(gpu(), &stats), HAUL_OK);
    return stats;
}

/* For `bytes` more than is in use. */
static void begin_spilling(int64_t bytes)
{
    assert_int_equal(haul_memory_release_cached(gpu()), HAUL_OK);
    assert_int_equal(haul_memory_set_spill(gpu(), true), HAUL_OK);
    assert_int_equal(haul_memory_set_tensor_limit(gpu(), stats_of_gpu().reserved + bytes), HAUL_OK);
}

static void end_spilling(void)
{
    assert_int_equal(haul_memory_set_limit(gpu(), 0), HAUL_OK);
    assert_int_equal(haul_memory_set_spill(gpu(), false), HAUL_OK);
}

/* A convolution in a scope of its own. */
static void convolve_images(haul_tensor *x, haul_tensor *w, void *out)
{
    haul_scope  *scope = haul_scope_push();
    haul_tensor *y = haul_conv2d(x, w);
    assert_int_equal(haul_read(y, out, IMAGES), HAUL_OK);
    haul_scope_pop(scope);
}

/* A limit decides neither the plan nor the bits: memory that is not in use makes room for scratch memory. */
static void test_conv__tensors_make_room_for_scratch_memory(void **state)
{
    static char  want[IMAGES], got[IMAGES];
    haul_tensor *x = sample_tensor(gpu(), HAUL_F32, HAUL_SHAPE(4, 8, 64, 64), 1, NULL), *idle[3];
    haul_tensor *w = sample_tensor(gpu(), HAUL_F32, HAUL_SHAPE(8, 8, 1, 1), 2, NULL);
    choice       made;
    (void)state;
    convolve_images(x, w, want);
    assert_int_equal(engine_runs(TILED), 1);
    for (int i = 0; i < 3; i++)
        idle[i] = tensor_of(IMAGES);
    begin_spilling(0);
    const int64_t spilled = stats_of_gpu().spilled_total;
    listen_for_choices(&made);
    convolve_images(x, w, got);
    haul_events_unsubscribe(made.id);
    assert_int_equal(engine_runs(TILED), 2);
    assert_int_equal(engine_runs(PLAIN), 0);
    assert_string_equal(made.refused, "");
    assert_memory_equal(got, want, IMAGES);
    assert_true(stats_of_gpu().spilled_total > spilled);
    for (int i = 0; i < 3; i++)
        assert_true(haul_item(haul_min(idle[i])) == 1);
    end_spilling();
}

/* x, y and scratch memory do not fit at once: x stays, and a plan without scratch memory computes. */
static void test_conv__operands_do_not_make_room(void **state)
{
    static char  out[IMAGES];
    haul_tensor *x = ones_of_images(), *w = haul_ones(HAUL_F32, HAUL_SHAPE(8, 8, 1, 1));
    choice       made;
    (void)state;
    begin_spilling(IMAGES + WORKSPACE - 64 * KIB);
    const int64_t spilled = stats_of_gpu().spilled_total;
    listen_for_choices(&made);
    convolve_images(x, w, out);
    haul_events_unsubscribe(made.id);
    assert_int_equal(engine_runs(PLAIN), 1);
    assert_int_equal(engine_runs(TILED), 0);
    assert_computed_with_less(&made, "cudnn");
    assert_int_equal(stats_of_gpu().spilled_total, spilled);
    assert_true(*(float *)(void *)out == 8);
    end_spilling();
}

/* The same, but there is free memory for the scratch memory, and x must come back. */
static void test_conv__scratch_memory_makes_room_for_operands(void **state)
{
    static char  out[IMAGES];
    haul_tensor *x = ones_of_images(), *w = haul_ones(HAUL_F32, HAUL_SHAPE(8, 8, 1, 1));
    choice       made;
    (void)state;
    begin_spilling(IMAGES + WORKSPACE - 64 * KIB);
    haul_scope *part = haul_scope_push();
    tensor_of(IMAGES);
    tensor_of(WORKSPACE);
    haul_scope_pop(part);
    assert_int_equal(stats_of_gpu().spilled, IMAGES);
    listen_for_choices(&made);
    convolve_images(x, w, out);
    haul_events_unsubscribe(made.id);
    assert_int_equal(engine_runs(PLAIN), 1);
    assert_int_equal(engine_runs(TILED), 0);
    assert_computed_with_less(&made, "cudnn");
    assert_int_equal(stats_of_gpu().spilled, 0);
    assert_true(*(float *)(void *)out == 8);
    end_spilling();
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
        haul_tensor *y = haul_conv2d(x, haul_ones(HAUL_F32, HAUL_SHAPE(2, 3, 3, 3)));
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

int main(void)
{
    unsetenv("HAUL_WITHOUT"); /* these tests are about what it leaves out */
#define T(name) cmocka_unit_test_setup_teardown(name, open_scope, close_scope)
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
        T(test_conv__tensors_make_room_for_scratch_memory),
        T(test_conv__operands_do_not_make_room),
        T(test_conv__scratch_memory_makes_room_for_operands),
        T(test_conv__threads_share_the_library),
    };
    setenv("HAUL_CUDA_LIBRARIES", STANDIN, 1);
    find_standin();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
