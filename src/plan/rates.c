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

#include "core/error.h"
#include "core/scope.h"
#include "plan/probe.h"

/* ---- operations to time ---- */

typedef struct trial trial;

/* Makes operands for the n-th size; an operation on them. */
typedef haul_status make_function(trial *t, int64_t size);
typedef haul_status run_function(trial *t);

enum { SIZES = HAUL__MACHINE_POINTS };

typedef struct trial_kind {
    haul__work_class work_class;
    uint32_t         dtypes; /* a bit for each that is measured; 0: f32, for all dtypes */
    make_function   *make;
    run_function    *run;
    int64_t          sizes[SIZES]; /* the smallest first; 0 after the last */
} trial_kind;

struct trial {
    const trial_kind *kind;
    haul_device      *device;
    haul_dtype        dtype;
    haul_tensor      *x, *y, *out;
    haul_optimizer   *optimizer;
};

static haul_tensor *ones(const trial *t, haul_shape shape)
{
    return haul_full(t->dtype, shape, 1);
}

static haul_status check(const trial *t)
{
    haul_status status = haul_tensor_check(t->x);
    if (!status && t->y)
        status = haul_tensor_check(t->y);
    return status || !t->out ? status : haul_tensor_check(t->out);
}

/* Squares of `size` rows. */
static haul_status make_matmul(trial *t, int64_t size)
{
    t->x = ones(t, HAUL_SHAPE(size, size));
    t->y = ones(t, HAUL_SHAPE(size, size));
    t->out = ones(t, HAUL_SHAPE(size, size));
    return check(t);
}

static haul_status run_matmul(trial *t)
{
    return haul_matmul_into(t->out, t->x, t->y);
}

/* 3 x 3 over images of 16 x 16 pixels: `size` is the product of images and channels, a power of two. */
static haul_status make_conv(trial *t, int64_t size)
{
    int64_t channels = 8;
    while (channels < 128 && channels * channels / 4 < size)
        channels *= 2;
    const int64_t images = size / channels < 1 ? 1 : size / channels;
    t->x = ones(t, HAUL_SHAPE(images, channels, 16, 16));
    t->y = ones(t, HAUL_SHAPE(channels, channels, 3, 3));
    return check(t);
}

static haul_status run_conv(trial *t)
{
    return haul_tensor_check(haul_conv2d(t->x, t->y, HAUL_NONE, .padding = {1, 1}));
}

enum { ROW = 64 };

static haul_status make_rows(trial *t, int64_t size)
{
    t->x = ones(t, HAUL_SHAPE((size + ROW - 1) / ROW, ROW));
    t->y = ones(t, HAUL_SHAPE((size + ROW - 1) / ROW, ROW));
    t->out = ones(t, HAUL_SHAPE((size + ROW - 1) / ROW, ROW));
    return check(t);
}

static haul_status run_add(trial *t)
{
    return haul_add_into(t->out, t->x, t->y);
}

static haul_status run_sum(trial *t)
{
    return haul_tensor_check(haul_sum(t->x, HAUL_AXES(1)));
}

static haul_status run_softmax(trial *t)
{
    return haul_softmax_into(t->out, t->x, 1);
}

static haul_status run_copy(trial *t)
{
    return haul_copy_into(t->out, t->x);
}

static haul_status run_dropout(trial *t)
{
    return haul_dropout_into(t->out, t->x, 0.5, true);
}

static haul_status make_pool(trial *t, int64_t size)
{
    t->x = ones(t, HAUL_SHAPE((size + 255) / 256, 1, 16, 16));
    return check(t);
}

static haul_status run_pool(trial *t)
{
    return haul_tensor_check(haul_max_pool2d(t->x, 2));
}

static haul_status make_index(trial *t, int64_t size)
{
    const int64_t rows = (size + ROW - 1) / ROW;
    t->x = ones(t, HAUL_SHAPE(rows, ROW));
    t->y = haul_arange_i64(0, rows, 1);
    return check(t);
}

static haul_status run_index(trial *t)
{
    return haul_tensor_check(haul_index_select(t->x, 0, t->y));
}

static haul_status make_optimizer(trial *t, int64_t size)
{
    haul_module *net = haul_nn_linear(ROW, (size + ROW - 1) / ROW);
    t->x = ones(t, HAUL_SHAPE(1, ROW));
    t->optimizer = haul_adam(net, 0.001);
    haul_set_grad_enabled(true);
    haul_status status = haul_backward(haul_sum(haul_call(net, t->x)), HAUL_NONE);
    haul_set_grad_enabled(false);
    return status ? status : haul_optimizer_step(t->optimizer);
}

static haul_status run_optimizer(trial *t)
{
    return haul_optimizer_step(t->optimizer);
}

#define BIT(dtype) (1u << (dtype))
#define FLOATS     (BIT(HAUL_F32) | BIT(HAUL_F16) | BIT(HAUL_BF16) | BIT(HAUL_F64))
#define ELEMENTS                                                                                                       \
    {                                                                                                                  \
        1 << 10, 1 << 14, 1 << 18, 1 << 21, 1 << 23                                                                    \
    }

static const trial_kind kinds[] = {
    {HAUL__WORK_MATMUL, FLOATS, make_matmul, run_matmul, {8, 32, 128, 512, 1024, 2048, 4096, 8192}},
    {HAUL__WORK_CONV, FLOATS, make_conv, run_conv, {1 << 3, 1 << 7, 1 << 10, 1 << 13, 1 << 16}},
    {HAUL__WORK_ELEMENTWISE, 0, make_rows, run_add, ELEMENTS},
    {HAUL__WORK_REDUCTION, 0, make_rows, run_sum, ELEMENTS},
    {HAUL__WORK_NORMALISATION, 0, make_rows, run_softmax, ELEMENTS},
    {HAUL__WORK_POOL, 0, make_pool, run_pool, ELEMENTS},
    {HAUL__WORK_INDEX, 0, make_index, run_index, ELEMENTS},
    {HAUL__WORK_MOVE, 0, make_rows, run_copy, ELEMENTS},
    {HAUL__WORK_RANDOM, 0, make_rows, run_dropout, ELEMENTS},
    {HAUL__WORK_OPTIMIZER, 0, make_optimizer, run_optimizer, ELEMENTS},
};

/* ---- timing them ---- */

static haul_status run_trial(void *context)
{
    trial *t = context;
    return t->kind->run(t);
}

/* The work of one run, as a program of it would list it. */
static haul_status find_work(trial *t, int64_t *work)
{
    haul_estimate_result r;
    haul_status          status = haul_estimate(run_trial, t, &r);
    if (status)
        return status;
    *work = haul__work_by_flops(t->kind->work_class) ? (int64_t)r.flops : r.bytes_touched;
    haul_estimate_free(&r);
    return HAUL_OK;
}

/* Operands are made in a scope of their own. NaN: it failed, and the thread's error is the cause. */
static double time_trial(trial *t, int64_t size, int64_t *work)
{
    const double budget = 0.008;
    double       seconds = NAN;
    haul_scope  *scope = haul__scope_push(NULL);
    t->x = t->y = t->out = NULL;
    t->optimizer = NULL;
    if (scope && !t->kind->make(t, size) && !find_work(t, work))
        seconds = haul__probe_seconds(&(haul__probe){t->device, run_trial, t}, budget);
    haul_scope_pop(scope);
    return seconds;
}

/* Sizes grow until one takes long enough. The launch's time is not part of a rate. */
static void measure_rate(const trial_kind *kind, haul_device *device, haul_dtype dtype, haul__machine_device *out)
{
    const double        long_enough = 10e-3;
    haul__machine_rate *r = &out->rates[out->rate_count];
    *r = (haul__machine_rate){.work_class = kind->work_class, .dtype = kind->dtypes ? dtype : HAUL_DTYPE_NONE};
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

/* The launch and the bandwidth, by adding one element and many. */
static haul_status measure_basics(haul_device *device, haul__machine_device *out)
{
    static const trial_kind add = {HAUL__WORK_ELEMENTWISE, 0, make_rows, run_add, {0}};
    trial                   t = {.kind = &add, .device = device, .dtype = HAUL_F32};
    int64_t                 work = 0;
    double                  seconds = time_trial(&t, 1, &work);
    if (isnan(seconds))
        return haul_error_status();
    out->launch_ns = (int64_t)fmin(seconds * 1e9, 1e9);
    for (int64_t size = 1 << 24; size >= 1 << 12; size /= 4) {
        seconds = time_trial(&t, size, &work);
        if (isnan(seconds) && haul_error_status() == HAUL_OUT_OF_MEMORY)
            continue;
        if (isnan(seconds))
            break;
        out->bytes_per_second = (int64_t)fmax(1, (double)work / seconds);
        return HAUL_OK;
    }
    return haul_error_status();
}

haul_status haul__rates_measure(haul_device *device, haul__machine_device *out)
{
    haul_scope *scope = haul__scope_push(NULL);
    haul_status status = scope ? haul_set_device(device) : haul_error_status();
    out->rate_count = 0;
    if (!status) {
        haul_set_grad_enabled(false);
        haul_set_generator(haul_generator_new(1));
        status = measure_basics(device, out);
    }
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds && !status; i++)
        for (haul_dtype dtype = 0; dtype < HAUL_DTYPE_END; dtype++)
            if (dtype == HAUL_F32 || (kinds[i].dtypes & BIT(dtype)))
                measure_rate(&kinds[i], device, dtype, out);
    haul_scope_pop(scope);
    return status;
}
