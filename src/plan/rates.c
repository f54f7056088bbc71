#include "plan/rates.h"

#include <haul/autograd.h>
#include <haul/conv.h>
#include <haul/estimate.h>
#include <haul/indexing.h>
#include <haul/layers.h>
#include <haul/ops.h>
#include <haul/optim.h>
#include <haul/random.h>
#include <haul/scope.h>
#include <haul/transfer.h>
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/numbers.h"
#include "core/error.h"
#include "core/scope.h"
#include "plan/probe.h"

/* ---- operations to time ---- */

typedef struct operands {
    haul_tensor    *x, *y, *out, *seed; /* seed: the gradient of out, for a backward pass */
    haul_optimizer *optimizer;
} operands;

/* Makes operands of the n-th size; an operation on them. */
typedef haul_status make_function(operands *o, haul_dtype dtype, int64_t size);
typedef haul_status run_function(operands *o);

enum { SIZES = HAUL__MACHINE_POINTS, ROW = 64 };

typedef struct trial_kind {
    haul__work_class work_class;
    bool             all_floats; /* each floating dtype is measured; else f32, for all dtypes */
    make_function   *make;
    run_function    *run;
    int64_t          sizes[SIZES]; /* the smallest first; 0 after the last */
    bool             backward;     /* the time is that of the backward pass: `run` gives a result in out */
} trial_kind;

static haul_tensor *ones(haul_dtype dtype, haul_shape shape)
{
    return haul_full(dtype, shape, 1);
}

static haul_status check(const operands *o)
{
    haul_status status = haul_tensor_check(o->x);
    if (!status && o->y)
        status = haul_tensor_check(o->y);
    return status || !o->out ? status : haul_tensor_check(o->out);
}

/* Squares of `size` rows. */
static haul_status make_matmul(operands *o, haul_dtype dtype, int64_t size)
{
    *o = (operands){ones(dtype, HAUL_SHAPE(size, size)), ones(dtype, HAUL_SHAPE(size, size)),
                    ones(dtype, HAUL_SHAPE(size, size)), NULL, NULL};
    return check(o);
}

static haul_status run_matmul(operands *o)
{
    return haul_matmul_into(o->out, o->x, o->y);
}

static haul_status run_linear(operands *o)
{
    o->out = haul_linear(o->x, o->y);
    return haul_tensor_check(o->out);
}

/* Products of 64 x 32 and 32 x 64 elements, as attention has them: up to four heads are side by side in a row. */
static haul_status make_batched_matmul(operands *o, haul_dtype dtype, int64_t size)
{
    const int64_t heads = smaller(size, 4), sequences = size / heads;
    haul_tensor  *x = ones(dtype, HAUL_SHAPE(sequences, 64, heads, 32)),
                *y = ones(dtype, HAUL_SHAPE(sequences, 64, heads, 32));
    *o = (operands){.x = haul_permute(x, (const int[]){0, 2, 1, 3}, 4),
                    .y = haul_permute(y, (const int[]){0, 2, 3, 1}, 4),
                    .out = ones(dtype, HAUL_SHAPE(sequences, heads, 64, 64))};
    return check(o);
}

/* 3 x 3 over images of 16 x 16 pixels: `size` is the product of images and channels, a power of two. */
static haul_status make_conv(operands *o, haul_dtype dtype, int64_t size)
{
    int64_t channels = 8;
    while (channels < 128 && channels * channels / 4 < size)
        channels *= 2;
    const int64_t images = size / channels < 1 ? 1 : size / channels;
    *o = (operands){.x = ones(dtype, HAUL_SHAPE(images, channels, 16, 16)),
                    .y = ones(dtype, HAUL_SHAPE(channels, channels, 3, 3))};
    return check(o);
}

/* From 4 channels to 8, over images of 32 x 32 pixels. */
static haul_status make_narrow_conv(operands *o, haul_dtype dtype, int64_t size)
{
    *o = (operands){.x = ones(dtype, HAUL_SHAPE(size, 4, 32, 32)), .y = ones(dtype, HAUL_SHAPE(8, 4, 3, 3))};
    return check(o);
}

/* 3 x 3 over one image of 4 x 4 pixels, with `size` channels. */
static haul_status make_deep_conv(operands *o, haul_dtype dtype, int64_t size)
{
    *o = (operands){.x = ones(dtype, HAUL_SHAPE(1, size, 4, 4)), .y = ones(dtype, HAUL_SHAPE(size, size, 3, 3))};
    return check(o);
}

static haul_status run_conv(operands *o)
{
    o->out = haul_conv2d(o->x, o->y, .padding = {1, 1});
    return haul_tensor_check(o->out);
}

static haul_status make_rows(operands *o, haul_dtype dtype, int64_t size)
{
    const haul_shape shape = HAUL_SHAPE(haul__ceil_div(size, ROW), smaller(size, ROW));
    *o = (operands){ones(dtype, shape), ones(dtype, shape), ones(dtype, shape), NULL, NULL};
    return check(o);
}

static haul_status run_add(operands *o)
{
    return haul_add_into(o->out, o->x, o->y);
}

static haul_status run_sum(operands *o)
{
    return haul_tensor_check(haul_sum(o->x, HAUL_AXES(1)));
}

static haul_status run_softmax(operands *o)
{
    return haul_tensor_check(haul_softmax(o->x, 1));
}

static haul_status run_copy(operands *o)
{
    return haul_copy_into(o->out, o->x);
}

static haul_status run_gelu(operands *o)
{
    return haul_gelu_into(o->out, o->x);
}

/* Sequences of 64 vectors whose 4 heads of 16 numbers are brought together, as attention does. */
static haul_status make_heads(operands *o, haul_dtype dtype, int64_t size)
{
    const int64_t sequences = haul__ceil_div(size, 4096);
    *o = (operands){.x = haul_permute(ones(dtype, HAUL_SHAPE(sequences, 64, 4, 16)), (const int[]){0, 2, 1, 3}, 4),
                    .out = ones(dtype, HAUL_SHAPE(sequences, 4, 64, 16))};
    return check(o);
}

static haul_status run_dropout(operands *o)
{
    return haul_dropout_into(o->out, o->x, 0.5, true);
}

/* Images of 8 x 8 pixels with 16 channels. */
static haul_status make_images(operands *o, haul_dtype dtype, int64_t size)
{
    *o = (operands){.x = ones(dtype, HAUL_SHAPE(haul__ceil_div(size, 1024), 16, 8, 8)),
                    .y = ones(dtype, HAUL_SHAPE(16))};
    return check(o);
}

static haul_status run_pool(operands *o)
{
    o->out = haul_max_pool2d(o->x, 2);
    return haul_tensor_check(o->out);
}

static haul_status run_batch_norm(operands *o)
{
    o->out = haul_batch_norm(o->x, .weight = o->y, .bias = o->y, .training = true);
    return haul_tensor_check(o->out);
}

static haul_status make_index(operands *o, haul_dtype dtype, int64_t size)
{
    const int64_t rows = haul__ceil_div(size, ROW);
    *o = (operands){.x = ones(dtype, HAUL_SHAPE(rows, ROW)), .y = haul_arange_i64(0, rows, 1)};
    return check(o);
}

static haul_status run_index(operands *o)
{
    return haul_tensor_check(haul_index_select(o->x, 0, o->y));
}

static haul_status make_optimizer(operands *o, haul_dtype dtype, int64_t size)
{
    haul_module *net = haul_nn_linear(ROW, haul__ceil_div(size, ROW));
    *o = (operands){.x = ones(dtype, HAUL_SHAPE(1, ROW)), .optimizer = haul_adam(net, 0.001)};
    haul_set_grad_enabled(true);
    haul_status status = haul_backward(haul_sum(haul_call(net, o->x)));
    haul_set_grad_enabled(false);
    return status ? status : haul_optimizer_step(o->optimizer);
}

static haul_status run_optimizer(operands *o)
{
    return haul_optimizer_step(o->optimizer);
}

#define ELEMENTS                                                                                                       \
    {                                                                                                                  \
        1, 1 << 6, 1 << 10, 1 << 14, 1 << 18, 1 << 20, 1 << 22                                                         \
    }
#define IMAGES                                                                                                         \
    {                                                                                                                  \
        1, 1 << 2, 1 << 5, 1 << 8, 1 << 10                                                                             \
    }
#define DEEP                                                                                                           \
    {                                                                                                                  \
        32, 128, 256, 512, 1024                                                                                        \
    }
#define SQUARES                                                                                                        \
    {                                                                                                                  \
        8, 32, 128, 512, 1024, 2048, 4096, 8192                                                                        \
    }
#define CHANNELS                                                                                                       \
    {                                                                                                                  \
        1 << 3, 1 << 7, 1 << 10, 1 << 13, 1 << 16                                                                      \
    }

static const trial_kind kinds[] = {
    {HAUL__WORK_MATMUL, true, make_matmul, run_matmul, SQUARES, false},
    {HAUL__WORK_MATMUL_BACKWARD, true, make_matmul, run_linear, SQUARES, true},
    {HAUL__WORK_BATCHED_MATMUL, true, make_batched_matmul, run_matmul, IMAGES, false},
    {HAUL__WORK_CONV, true, make_conv, run_conv, CHANNELS, false},
    {HAUL__WORK_CONV_BACKWARD, true, make_conv, run_conv, CHANNELS, true},
    {HAUL__WORK_NARROW_CONV, true, make_narrow_conv, run_conv, IMAGES, false},
    {HAUL__WORK_NARROW_CONV_BACKWARD, true, make_narrow_conv, run_conv, IMAGES, true},
    {HAUL__WORK_DEEP_CONV, true, make_deep_conv, run_conv, DEEP, false},
    {HAUL__WORK_DEEP_CONV_BACKWARD, true, make_deep_conv, run_conv, DEEP, true},
    {HAUL__WORK_ELEMENTWISE, false, make_rows, run_add, ELEMENTS, false},
    {HAUL__WORK_REDUCTION, false, make_rows, run_sum, ELEMENTS, false},
    {HAUL__WORK_NORMALISATION, false, make_images, run_batch_norm, ELEMENTS, false},
    {HAUL__WORK_NORMALISATION_BACKWARD, false, make_images, run_batch_norm, ELEMENTS, true},
    {HAUL__WORK_SOFTMAX, false, make_rows, run_softmax, ELEMENTS, false},
    {HAUL__WORK_POOL, false, make_images, run_pool, ELEMENTS, false},
    {HAUL__WORK_POOL_BACKWARD, false, make_images, run_pool, ELEMENTS, true},
    {HAUL__WORK_INDEX, false, make_index, run_index, ELEMENTS, false},
    {HAUL__WORK_MOVE, false, make_rows, run_copy, ELEMENTS, false},
    {HAUL__WORK_RANDOM, false, make_rows, run_dropout, ELEMENTS, false},
    {HAUL__WORK_OPTIMIZER, false, make_optimizer, run_optimizer, ELEMENTS, false},
    {HAUL__WORK_FUNCTION, false, make_rows, run_gelu, ELEMENTS, false},
    {HAUL__WORK_SCATTERED_MOVE, false, make_heads, run_copy, ELEMENTS, false},
};

enum { FLOATS = 4 }; /* dtypes */
_Static_assert(sizeof kinds / sizeof *kinds * FLOATS <= HAUL__MACHINE_RATES, "a device has room for all rates");

/* ---- timing them ---- */

/* A training finds most operands in memory, not in caches: runs take turns with several sets of operands. */
enum { SETS = 8, SETS_BYTES = 64 << 20 };

typedef struct trial {
    const trial_kind *kind;
    haul_device      *device;
    haul_dtype        dtype;
    bool              passes_back; /* run and pass back; else only run */
    operands          sets[SETS];
    int               count, next;
} trial;

static haul_status pass_back(operands *o)
{
    haul_status status = haul_backward(o->out, .seed = o->seed);
    if (!status)
        status = haul_set_grad(o->x, HAUL_NONE);
    return status ? status : haul_set_grad(o->y, HAUL_NONE);
}

static haul_status run_trial(void *context)
{
    trial *t = context;
    HAUL__ASSERT(0 <= t->next && t->next < t->count && t->count <= SETS);
    operands    o = t->sets[t->next];
    haul_status status = t->kind->run(&o);
    t->next = (t->next + 1) % t->count;
    return status || !t->passes_back ? status : pass_back(&o);
}

/* The work of one run, as a program of it would list it. */
static haul_status find_work(trial *t, int64_t *work)
{
    haul_estimate_result r;
    haul_status          status = haul_estimate(run_trial, t, &r);
    if (status)
        return status;
    *work = 0;
    for (int64_t i = 0; i < r.operation_count; i++) {
        const haul_estimate_operation *o = &r.operations[i];
        const bool                     counts = !t->passes_back || strstr(o->name, "_backward");
        if (counts)
            *work += haul__work_by_flops(t->kind->work_class) ? (int64_t)o->flops : o->bytes;
    }
    haul_estimate_free(&r);
    return HAUL_OK;
}

static int64_t bytes_of(const operands *o)
{
    haul_tensor *const all[] = {o->x, o->y, o->out};
    int64_t            bytes = 1;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        bytes += all[i] ? haul_tensor_bytes(all[i]) : 0;
    return bytes;
}

static haul_status prepare_backward(const trial_kind *kind, operands *o)
{
    operands    before = *o;
    haul_status status = kind->run(&before);
    o->seed = status ? NULL : haul_full_like(before.out, 1);
    for (int i = 0; i < 2 && !status; i++)
        status = haul_tensor_check(haul_set_requires_grad(i ? o->y : o->x, true));
    return status ? status : haul_tensor_check(o->seed);
}

static haul_status make_sets(trial *t, int64_t size)
{
    haul_status status = HAUL_OK;
    int         wanted = 1;
    for (t->count = 0; t->count < wanted && !status; t->count++) {
        HAUL__ASSERT(t->count < SETS);
        operands *o = &t->sets[t->count];
        status = t->kind->make(o, t->dtype, size);
        if (!status && t->count == 0)
            wanted = (int)larger(1, smaller(SETS, SETS_BYTES / bytes_of(o)));
        if (!status && t->kind->backward)
            status = prepare_backward(t->kind, o);
    }
    t->next = 0;
    return status;
}

/* Of `run` alone, and then with its backward pass. */
static double time_backward(trial *t, double budget, int64_t *work)
{
    const haul__probe probe = {t->device, run_trial, t};
    haul_set_grad_enabled(true);
    const double forward = haul__probe_seconds(&probe, budget);
    t->passes_back = true;
    const double both = isnan(forward) || find_work(t, work) ? NAN : haul__probe_seconds(&probe, budget);
    haul_set_grad_enabled(false);
    return fmax(both - forward, both / 10);
}

/* Operands are made in a scope of their own. NaN: it failed, and the thread's error is the cause. */
static double time_trial(trial *t, int64_t size, int64_t *work)
{
    const double budget = 0.006;
    double       seconds = NAN;
    haul_scope  *scope = haul__scope_push(NULL);
    if (scope && !make_sets(t, size)) {
        if (t->kind->backward)
            seconds = time_backward(t, budget, work);
        else if (!find_work(t, work))
            seconds = haul__probe_seconds(&(haul__probe){t->device, run_trial, t}, budget);
    }
    haul_scope_pop(scope);
    return seconds;
}

/* Sizes grow until one takes long enough. The launch's time is not part of a rate. */
static void measure_rate(const trial_kind *kind, haul_device *device, haul_dtype dtype, haul__machine_device *out)
{
    const double long_enough = 10e-3;
    HAUL__ASSERT(out->rate_count < HAUL__MACHINE_RATES);
    haul__machine_rate *r = &out->rates[out->rate_count];
    *r = (haul__machine_rate){.work_class = kind->work_class, .dtype = kind->all_floats ? dtype : HAUL_DTYPE_NONE};
    for (int i = 0; i < SIZES && kind->sizes[i]; i++) {
        trial        t = {.kind = kind, .device = device, .dtype = dtype};
        int64_t      work = 0;
        const double seconds = time_trial(&t, kind->sizes[i], &work);
        if (isnan(seconds))
            break;
        const double body = fmax(seconds - 1e-9 * (double)out->launch_ns, seconds / 10);
        if (work > (r->count ? r->points[r->count - 1].work : 0))
            r->points[r->count++] = (haul__machine_point){work, (int64_t)fmax(1, fmin((double)work / body, 1e18))};
        if (seconds > long_enough)
            break;
    }
    haul_error_clear();
    out->rate_count += r->count > 0;
}

/* ---- the launch and the memory ---- */

/* A chain of small operations and its backward pass, as training has them. */
static haul_status run_chain(operands *o)
{
    haul_tensor *y = o->x;
    for (int i = 0; i < 8; i++)
        y = haul_mul(y, o->x);
    o->out = y;
    return haul_tensor_check(y);
}

static haul_status count_operations(trial *t, int64_t *count)
{
    haul_estimate_result r;
    haul_status          status = haul_estimate(run_trial, t, &r);
    *count = status ? 0 : r.operation_count;
    if (!status)
        haul_estimate_free(&r);
    return status;
}

static haul_status measure_launch(haul_device *device, haul__machine_device *out)
{
    static const trial_kind chain = {HAUL__WORK_ELEMENTWISE, false, make_rows, run_chain, {0}, true};
    trial                   t = {.kind = &chain, .device = device, .dtype = HAUL_F32, .passes_back = true};
    int64_t                 count = 0;
    double                  seconds = NAN;
    haul_scope             *scope = haul__scope_push(NULL);
    haul_status             status = scope ? make_sets(&t, 1) : haul_error_status();
    haul_set_grad_enabled(true);
    if (!status)
        status = count_operations(&t, &count);
    if (!status)
        seconds = haul__probe_seconds(&(haul__probe){device, run_trial, &t}, 0.02);
    if (!status && isnan(seconds))
        status = haul_error_status();
    haul_scope_pop(scope);
    out->launch_ns = (int64_t)fmin(fmax(1, seconds * 1e9 / (double)count), 1e9);
    return status;
}

/* By adding many elements. */
static haul_status measure_memory(haul_device *device, haul__machine_device *out)
{
    static const trial_kind add = {HAUL__WORK_ELEMENTWISE, false, make_rows, run_add, {0}, false};
    for (int64_t size = 1 << 24; size >= 1 << 12; size /= 4) {
        trial        t = {.kind = &add, .device = device, .dtype = HAUL_F32};
        int64_t      work = 0;
        const double seconds = time_trial(&t, size, &work);
        out->bytes_per_second = isnan(seconds) ? 0 : (int64_t)fmax(1, fmin((double)work / seconds, 1e18));
        if (!isnan(seconds))
            return HAUL_OK;
        if (haul_error_status() != HAUL_OUT_OF_MEMORY)
            break;
    }
    return haul_error_status();
}

static bool is_measured(const trial_kind *kind, haul_dtype dtype)
{
    return dtype == HAUL_F32 || (kind->all_floats && haul_dtype_is_float(dtype));
}

haul_status haul__rates_measure(haul_device *device, haul__machine_device *out)
{
    haul_scope *scope = haul__scope_push(NULL);
    haul_status status = scope ? haul_set_device(device) : haul_error_status();
    out->rate_count = 0;
    if (!status) {
        haul_set_grad_enabled(false);
        haul_set_generator(haul_generator_new(1));
        status = measure_launch(device, out);
    }
    if (!status) {
        haul_set_grad_enabled(false);
        status = measure_memory(device, out);
    }
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds && !status; i++)
        for (haul_dtype dtype = 0; dtype < HAUL_DTYPE_END; dtype++)
            if (is_measured(&kinds[i], dtype))
                measure_rate(&kinds[i], device, dtype, out);
    haul_scope_pop(scope);
    return status;
}
