/* The peak of memory of a dry run, against that of the allocator in the same step: random networks with random
 * optimizers, precisions and formats, at two sizes of batches, on every device. A step is compared in which gradients
 * and the optimizer's state exist already: the third one as it runs, and the fourth one of a recording.
 *
 * ctest: cuda; labels=slow */
#include <haul/haul.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/conformance/conformance.h"

enum { NETWORKS = 10, SIDE = 12, CLASSES = 5, MAX_CHILDREN = 24 };

typedef struct setting {
    haul_device *device;
    unsigned     network; /* decides all that is random */
    int64_t      batch;
    bool         followed;
} setting;

typedef struct training {
    setting         of;
    haul_module    *net;
    haul_optimizer *optimizer;
    haul_dtype      lower; /* of autocast */
    bool            keep, once, adds_up;
    haul_tensor    *x, *y;
    haul_recording *recording; /* of a setting that is followed */
} training;

/* ---- random networks ---- */

static unsigned draw(unsigned *state, unsigned below)
{
    *state = *state * 1664525u + 1013904223u;
    return (*state >> 16) % below;
}

static haul_module *activation(unsigned *random)
{
    switch (draw(random, 4)) {
    case 0: return haul_nn_relu();
    case 1: return haul_nn_tanh();
    case 2: return haul_nn_gelu();
    default: return haul_nn_sigmoid();
    }
}

static int add_convolutions(haul_module **children, unsigned *random, int64_t *features)
{
    int     count = 0, blocks = 1 + (int)draw(random, 3);
    int64_t channels = 3, side = SIDE;
    for (int i = 0; i < blocks; i++) {
        int64_t out = 4 + 4 * draw(random, 8), kernel = 1 + 2 * draw(random, 3);
        int64_t groups = i && draw(random, 3) == 0 ? 4 : 1, stride = 1 + draw(random, 2);
        children[count++] =
            haul_nn_conv2d(channels, out, kernel, .stride = {stride, stride}, .padding = {kernel / 2, kernel / 2},
                           .groups = groups, .no_bias = draw(random, 2), .relu = draw(random, 4) == 0);
        side = (side - 1) / stride + 1;
        if (draw(random, 2))
            children[count++] = haul_nn_batch_norm(out);
        children[count++] = activation(random);
        if (side >= 4 && draw(random, 2)) {
            children[count++] = draw(random, 2) ? haul_nn_max_pool2d(2) : haul_nn_avg_pool2d(2);
            side /= 2;
        }
        channels = out;
    }
    *features = channels * side * side;
    return count;
}

static haul_module *make_network(unsigned *random)
{
    haul_module *children[MAX_CHILDREN];
    int64_t      features;
    int          count = add_convolutions(children, random, &features);
    children[count++] = haul_nn_flatten(1);
    if (draw(random, 2))
        children[count++] = haul_nn_dropout(0.3);
    if (draw(random, 2)) {
        int64_t wide = 16 + 16 * draw(random, 16);
        children[count++] = haul_nn_linear(features, wide, .relu = true);
        features = wide;
    }
    children[count++] = haul_nn_linear(features, CLASSES);
    return haul_nn_sequential(children, count);
}

/* ---- a training ---- */

/* Some of the layers, and of the networks, run again in the backward pass. */
static haul_status recompute_some(haul_module *net, unsigned *random)
{
    haul_named_module children[MAX_CHILDREN];
    int               count = haul_module_children(net, children, MAX_CHILDREN), often = 1 + (int)draw(random, 4);
    haul_status       status = haul_module_recompute(net, draw(random, 4) == 0);
    for (int i = 0; i < count && !status; i++)
        status = haul_module_recompute(children[i].module, draw(random, 4) < (unsigned)often - 1);
    return status;
}

static haul_status step(void *context);

/* The first networks have Adam or SGD, and each of the others another optimizer. */
static haul_optimizer *make_optimizer(haul_module *net, unsigned network, unsigned *random)
{
    const unsigned adam = draw(random, 2), momentum = adam ? 0 : draw(random, 2);
    switch (network % NETWORKS) {
    case 4: return haul_adam(net, 0.001, .amsgrad = true);
    case 5: return haul_adagrad(net, 0.01);
    case 6: return haul_adadelta(net, 1);
    case 7: return haul_nadam(net, 0.002);
    case 8: return haul_radam(net, 0.001);
    case 9: return haul_lion(net, 1e-4);
    default: return adam ? haul_adam(net, 0.001) : haul_sgd(net, 0.01, .momentum = 0.9 * momentum);
    }
}

static haul_status prepare(training *t)
{
    unsigned random = 77 * t->of.network + 5;
    haul_manual_seed(1);
    if (haul_set_device(t->of.device))
        return haul_error_status();
    t->net = make_network(&random);
    if (draw(&random, 4) == 0 && haul_module_to_memory_format(t->net, HAUL_CHANNELS_LAST))
        return haul_error_status();
    t->optimizer = make_optimizer(t->net, t->of.network, &random);
    t->lower = draw(&random, 3) == 0 ? HAUL_BF16 : HAUL_DTYPE_NONE;
    if (recompute_some(t->net, &random))
        return haul_error_status();
    const unsigned way = draw(&random, 3);
    t->keep = way == 0;
    t->once = way == 1;
    t->adds_up = draw(&random, 2);
    t->x = haul_normal(HAUL_F32, HAUL_SHAPE(t->of.batch, 3, SIDE, SIDE), 0, 1);
    t->y = haul_zeros(HAUL_I64, HAUL_SHAPE(t->of.batch));
    t->recording = haul_recording_new(step, t);
    return t->optimizer && t->recording && haul_tensor_is_valid(t->x) && haul_tensor_is_valid(t->y)
               ? HAUL_OK
               : haul_error_status();
}

static haul_status step(void *context)
{
    training   *t = context;
    haul_scope *scope = haul_scope_push();
    if (!scope)
        return haul_error_status();
    haul_autocast_state before = haul_autocast_begin("all", t->lower);
    haul_tensor        *loss = haul_cross_entropy(haul_call(t->net, t->x), t->y);
    haul_status         status = haul_autocast_end(before);
    if (!status && !t->adds_up)
        status = haul_optimizer_zero_grad(t->optimizer);
    if (!status)
        status = haul_backward(loss, .keep = t->keep, .once = t->once);
    if (!status)
        status = haul_optimizer_step(t->optimizer);
    if (!status && t->of.followed && !t->adds_up)
        status = haul_optimizer_zero_grad(t->optimizer);
    haul_scope_pop(scope);
    return status;
}

static haul_status make_step(void *context)
{
    training *t = context;
    return t->of.followed ? haul_recording_run(t->recording) : step(t);
}

/* All steps before the one that is compared. */
static haul_status first_steps(training *t)
{
    haul_status status = prepare(t);
    for (int i = 0; i < (t->of.followed ? 3 : 2) && !status; i++)
        status = make_step(t);
    return status;
}

/* -1: it is not known. */
static int64_t followed_steps(const training *t)
{
    haul_recording_report r;
    return haul_recording_report_get(t->recording, &r) ? -1 : r.followed;
}

/* ---- estimate and measurement ---- */

typedef struct estimate {
    training             training;
    haul_estimate_result last;
    int64_t              followed;
} estimate;

static haul_status estimate_last(void *context)
{
    estimate   *e = context;
    haul_status status = first_steps(&e->training);
    if (!status)
        status = haul_estimate(make_step, &e->training, &e->last);
    e->followed = followed_steps(&e->training);
    return status;
}

static int64_t peak_of(const haul_estimate_result *r, const haul_device *device)
{
    for (int i = 0; i < r->device_count; i++)
        if (r->devices[i].device == device)
            return r->devices[i].peak_bytes;
    return 0;
}

static int64_t estimated_peak(const setting *s, int64_t *followed)
{
    estimate             e = {.training = {.of = *s}};
    haul_estimate_result all;
    if (haul_estimate(estimate_last, &e, &all))
        return -1;
    const int64_t peak = peak_of(&e.last, s->device);
    haul_estimate_free(&all);
    haul_estimate_free(&e.last);
    *followed = e.followed;
    return peak;
}

/* Of a step of a training that exists. A recording from before only calls its function. */
static int64_t estimated_from_outside(training *t)
{
    haul_estimate_result r;
    if (haul_estimate(step, t, &r))
        return -1;
    const int64_t peak = peak_of(&r, t->of.device);
    haul_estimate_free(&r);
    return peak;
}

static int64_t measured_peak(const setting *s, int64_t *followed, int64_t *outside)
{
    haul_scope       *scope = haul_scope_push();
    training          t = {.of = *s};
    haul_memory_stats memory = {0};
    haul_status       status = first_steps(&t);
    *outside = status || s->followed ? 0 : estimated_from_outside(&t);
    if (!status)
        status = haul_memory_reset_peak(s->device);
    if (!status)
        status = make_step(&t);
    if (!status)
        status = haul_memory_stats_get(s->device, &memory);
    *followed = status ? -1 : followed_steps(&t);
    haul_scope_pop(scope);
    return status ? -1 : memory.peak_allocated;
}

/* Libraries for NVIDIA GPUs decide during a step how much of their workspace they use. */
static bool agree(const setting *s, int64_t estimated, int64_t measured)
{
    const int64_t difference = llabs(estimated - measured);
    return difference == 0 || (!strncmp(haul_device_name(s->device), "cuda", 4) && difference * 20 <= measured);
}

static void compare(const setting *s)
{
    int64_t expected = 0, followed = 0, outside = 0;
    if (!begin_case("network%u/batch%lld/%s%s", s->network, (long long)s->batch, haul_device_name(s->device),
                    s->followed ? "/followed" : ""))
        return;
    int64_t estimated = estimated_peak(s, &expected),
            measured = estimated < 0 ? -1 : measured_peak(s, &followed, &outside);
    printf("%-8s network %u, batch %2lld%s: estimated %8lld, measured %8lld bytes\n", haul_device_name(s->device),
           s->network, (long long)s->batch, s->followed ? ", followed" : "", (long long)estimated, (long long)measured);
    if (estimated < 0 || measured < 0)
        fail_case("%s", haul_error_message());
    else if (!agree(s, estimated, measured))
        fail_case("estimated %lld bytes, measured %lld", (long long)estimated, (long long)measured);
    else if (!s->followed && !agree(s, outside, measured))
        fail_case("estimated %lld bytes from outside, measured %lld", (long long)outside, (long long)measured);
    else if (expected != followed)
        fail_case("estimated to follow %lld steps, followed %lld", (long long)expected, (long long)followed);
    haul_error_clear();
}

int main(void)
{
    haul_device *devices[8];
    int          count = test_devices(devices, 8);
    haul_scope  *scope = haul_scope_push();
    for (int d = 0; d < count; d++)
        for (unsigned network = 0; network < NETWORKS; network++)
            for (int64_t batch = 4; batch <= 16; batch *= 4)
                for (int followed = 0; followed < 2; followed++)
                    compare(&(setting){devices[d], network, batch, followed});
    haul_scope_pop(scope);
    return finish_cases("estimates of memory");
}
