/* Plans of the library, on a simulated device: a step runs as its plan predicts. */
#include <haul/haul.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/system/clock.h"
#include "support/datasets.h"

static const char   devices[] = "cpu,sim:laptop-4g";
static haul_device *gpu;
static haul_scope  *scope;

typedef struct training {
    haul_module    *net;
    haul_optimizer *sgd;
    haul_tensor    *x, *y;
    double          loss;
} training;

static int setup(void **state)
{
    (void)state;
    haul_error_clear();
    scope = haul_scope_push();
    return !scope;
}

static int teardown(void **state)
{
    (void)state;
    haul_placement_log_to(NULL, NULL);
    return haul_scope_pop(scope) != HAUL_OK;
}

/* ---- the CIFAR-10 network ---- */

static haul_tensor *forward(haul_module *m, haul_args *args)
{
    haul_tensor *x = args->x[0];
    x = haul_max_pool2d(haul_relu(haul_call_child(m, "conv1", x)), 2);
    x = haul_max_pool2d(haul_relu(haul_call_child(m, "conv2", x)), 2);
    x = haul_relu(haul_call_child(m, "fc1", haul_flatten(x, 1)));
    return haul_call_child(m, "fc3", haul_relu(haul_call_child(m, "fc2", x)));
}

static void take_batch(training *t, int64_t batch)
{
    haul_drop(t->x);
    haul_drop(t->y);
    t->x = haul_normal(HAUL_F32, HAUL_SHAPE(batch, 3, 32, 32), 0, 1);
    t->y = haul_zeros(HAUL_I64, HAUL_SHAPE(batch));
}

static training cifar10(int64_t batch)
{
    training t = {.net = haul_module_new("simplecnn", forward)};
    haul_manual_seed(1);
    haul_module_add(t.net, "conv1", haul_nn_conv2d(3, 6, 5));
    haul_module_add(t.net, "conv2", haul_nn_conv2d(6, 16, 5));
    haul_module_add(t.net, "fc1", haul_nn_linear(400, 120));
    haul_module_add(t.net, "fc2", haul_nn_linear(120, 84));
    haul_module_add(t.net, "fc3", haul_nn_linear(84, 10));
    t.sgd = haul_sgd(t.net, 0.01, .momentum = 0.9);
    take_batch(&t, batch);
    return t;
}

static haul_status step(void *context)
{
    training   *t = context;
    haul_scope *inner = haul_scope_push();
    haul_optimizer_zero_grad(t->sgd);
    haul_tensor *loss = haul_cross_entropy(haul_call(t->net, t->x), t->y);
    haul_status  status = haul_backward(loss);
    if (!status)
        status = haul_optimizer_step(t->sgd);
    haul_scope_pop(inner);
    return status;
}

static haul_plan *plan_of(training *t, int64_t limit)
{
    const haul_plan_limit limits[] = {{NULL, limit, 0}};
    haul_plan            *plan =
        haul_plan_new(step, t, .module = t->net, .devices = devices, .limits = limits, .limit_count = limit > 0);
    if (!plan)
        fail_msg("%s", haul_error_message());
    return plan;
}

static haul_plan_candidate candidate_of(haul_plan *plan, const char *name)
{
    haul_plan_candidate all[3], found = {.name = NULL};
    assert_int_equal(haul_plan_candidates(plan, all, 3), 3);
    for (int i = 0; i < 3; i++)
        if (!strcmp(all[i].name, name))
            found = all[i];
    assert_non_null(found.name);
    return found;
}

/* ---- predictions ---- */

/* What a step with a fresh batch takes. */
static haul_plan_candidate measure(training *t, int64_t batch)
{
    haul_transfer_stats moved;
    haul_memory_stats   host, device;
    take_batch(t, batch);
    assert_int_equal(haul_memory_reset_peak(haul_cpu()), HAUL_OK);
    assert_int_equal(haul_memory_reset_peak(gpu), HAUL_OK);
    haul_transfer_stats_reset();
    const int64_t began = haul__clock_ps();
    assert_int_equal(step(t), HAUL_OK);
    assert_int_equal(haul_device_sync(gpu), HAUL_OK);
    const int64_t ended = haul__clock_ps();
    haul_transfer_stats_get(&moved);
    haul_memory_stats_get(haul_cpu(), &host);
    haul_memory_stats_get(gpu, &device);
    return (haul_plan_candidate){.step_ms = (double)(ended - began) * 1e-9,
                                 .copied_bytes = moved.h2d_bytes + moved.d2h_bytes,
                                 .peak_bytes = {host.peak_allocated, device.peak_allocated}};
}

static void expect_as_planned(int64_t batch, int64_t limit, double tolerance)
{
    training                  t = cifar10(batch);
    haul_plan                *plan = plan_of(&t, limit);
    const haul_plan_candidate want = candidate_of(plan, "plan");
    haul_scope               *inner = haul_scope_push();
    assert_int_equal(haul_plan_apply(plan, t.net), HAUL_OK);
    assert_int_equal(haul_placement_policy(), HAUL_PLACE_AUTO);
    measure(&t, batch); /* makes the optimizer's state */
    for (int i = 0; i < 2; i++) {
        const haul_plan_candidate is = measure(&t, batch);
        assert_int_equal(is.copied_bytes, want.copied_bytes);
        assert_int_equal(is.peak_bytes[0], want.peak_bytes[0]);
        assert_int_equal(is.peak_bytes[1], want.peak_bytes[1]);
        print_message("%g ms, %g as predicted\n", is.step_ms, want.step_ms);
        assert_true(is.step_ms <= want.step_ms * (1 + tolerance) && is.step_ms >= want.step_ms * (1 - tolerance));
    }
    assert_true(want.fits && (!limit || want.peak_bytes[1] <= limit));
    haul_scope_pop(inner);
    assert_int_equal(haul_placement_policy(), HAUL_PLACE_STRICT);
}

static void test_plans__predict_steps(void **state)
{
    (void)state;
    expect_as_planned(16, 0, 1e-6);
    expect_as_planned(256, 0, 1e-6);
}

/* Also where saved tensors return to the host while the device computes: a copy waits for what the device has been
 * given until then. */
static void test_plans__keep_limits(void **state)
{
    (void)state;
    expect_as_planned(256, 12000000, 0.01);
    expect_as_planned(64, 3000000, 0.01);
    expect_as_planned(700, 30000000, 0.01);
}

/* A gradient crosses the link to where it is used, and not to where its operand came from and back. */
static void test_plans__move_gradients_once(void **state)
{
    (void)state;
    training t = cifar10(700);
    assert_in_range(candidate_of(plan_of(&t, 30000000), "plan").copied_bytes, 1, 15000000);
}

/* Everything on one device is a candidate, and takes what a step takes whose network is there. */
static void test_plans__know_single_devices(void **state)
{
    (void)state;
    training                  t = cifar10(64);
    haul_plan                *plan = plan_of(&t, 0);
    const haul_plan_candidate want = candidate_of(plan, "all on cpu");
    measure(&t, 64);
    const haul_plan_candidate is = measure(&t, 64);
    assert_int_equal(is.peak_bytes[0], want.peak_bytes[0]);
    assert_int_equal(is.copied_bytes, want.copied_bytes);
    assert_true(is.step_ms <= want.step_ms * 1.000001 && is.step_ms >= want.step_ms * 0.999999);
    assert_true(candidate_of(plan, "plan").step_ms < want.step_ms);
    assert_true(want.wait_ms == 0 && candidate_of(plan, "all on sim:laptop-4g:0").wait_ms > 0);
    assert_string_equal(candidate_of(plan, "plan").bits_of, "cpu"); /* a simulated device computes the CPU's values */
}

/* Dry runs leave everything as it was. */
static void test_plans__change_nothing(void **state)
{
    (void)state;
    training     t = cifar10(8);
    haul_tensor *weight = haul_module_parameter(t.net, "fc1.weight");
    assert_int_equal(step(&t), HAUL_OK);
    const double      grad = haul_item(haul_sum(haul_square(haul_tensor_grad(weight))));
    haul_memory_stats before, after;
    const double      sum = haul_item(haul_sum(haul_detach(weight)));
    haul_memory_stats_get(gpu, &before);
    assert_non_null(plan_of(&t, 0));
    haul_memory_stats_get(gpu, &after);
    assert_int_equal(before.allocated, after.allocated);
    assert_ptr_equal(haul_tensor_device(weight), haul_cpu());
    assert_true(haul_item(haul_sum(haul_detach(weight))) == sum);
    assert_true(grad > 0 && haul_item(haul_sum(haul_square(haul_tensor_grad(weight)))) == grad);
    assert_int_equal(haul_optimizer_steps(t.sgd), 1);
    assert_int_equal(haul_placement_policy(), HAUL_PLACE_STRICT);
    assert_int_equal(step(&t), HAUL_OK);
}

/* ---- rows and files ---- */

static void test_plans__explain_rows(void **state)
{
    (void)state;
    training       t = cifar10(256);
    haul_plan     *plan = plan_of(&t, 0);
    const int      count = haul_plan_rows(plan, NULL, 0);
    haul_plan_row *rows = calloc((size_t)count, sizeof *rows);
    assert_true(count > 20);
    assert_int_equal(haul_plan_rows(plan, rows, count), count);
    assert_string_equal(rows[0].operation, "haul_conv2d");
    assert_string_equal(rows[0].module, "conv1");
    assert_string_equal(rows[0].device, "sim:laptop-4g:0");
    assert_non_null(strstr(rows[0].why, "s here, "));
    assert_true(rows[0].ms > 0);
    free(rows);
}

/* Also where the plan was made again with lower limits: a reason names the other device. */
static void test_plans__explain_what_keeps_limits(void **state)
{
    (void)state;
    training      t = cifar10(256);
    haul_plan    *plan = plan_of(&t, 12000000);
    haul_plan_row rows[200];
    const int     count = haul_plan_rows(plan, rows, 200);
    assert_in_range(count, 20, 200);
    for (int i = 0; i < count; i++) {
        char here[64];
        snprintf(here, sizeof here, " on %s", rows[i].device);
        if (strstr(rows[i].why, here))
            fail_msg("%s is on %s: %s", rows[i].operation, rows[i].device, rows[i].why);
    }
}

static char *contents(const char *path)
{
    char *text = calloc(1, 1 << 20);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_true(fread(text, 1, (1 << 20) - 1, file) > 0);
    fclose(file);
    return text;
}

static void test_plans__are_saved_and_loaded(void **state)
{
    (void)state;
    training   t = cifar10(256);
    haul_plan *plan = plan_of(&t, 12000000), *loaded;
    assert_int_equal(haul_plan_save(plan, "plan.json"), HAUL_OK);
    loaded = haul_plan_load("plan.json");
    assert_non_null(loaded);
    assert_int_equal(haul_plan_save(loaded, "again.json"), HAUL_OK);
    char *one = contents("plan.json"), *two = contents("again.json");
    assert_string_equal(one, two);
    haul_plan_row a[200], b[200];
    const int     count = haul_plan_rows(plan, a, 200);
    assert_int_equal(haul_plan_rows(loaded, b, 200), count);
    for (int i = 0; i < count; i++) {
        assert_string_equal(a[i].device, b[i].device);
        assert_string_equal(a[i].module, b[i].module);
    }
    assert_int_equal(haul_plan_apply(loaded, t.net), HAUL_OK);
    assert_int_equal(step(&t), HAUL_OK);

    /* a false cost, and files of other kinds */
    char *cost = strstr(one, "\"cost_ps\":");
    assert_non_null(cost);
    cost[strlen("\"cost_ps\":")] ^= 1;
    write_text("false.json", one);
    assert_null(haul_plan_load("false.json"));
    assert_int_equal(haul_error_status(), HAUL_FORMAT);
    assert_non_null(strstr(haul_error_message(), "\"cost_ps\""));
    write_text("false.json", "{}");
    assert_null(haul_plan_load("false.json"));
    assert_non_null(strstr(haul_error_message(), "\"program\" is missing"));
    write_text("false.json", "{");
    assert_null(haul_plan_load("false.json"));
    assert_non_null(strstr(haul_error_message(), "is not JSON"));
    write_text("false.json", strcat(two, "}"));
    assert_null(haul_plan_load("false.json"));
    assert_non_null(strstr(haul_error_message(), "is not JSON"));
    assert_null(haul_plan_load("nowhere.json"));
    assert_int_equal(haul_plan_save(plan, "nowhere/plan.json"), HAUL_IO);
    haul_error_clear();
    free(one);
    free(two);
}

/* ---- following ---- */

static double loss_after(bool planned)
{
    haul_scope *inner = haul_scope_push();
    training    t = cifar10(64);
    haul_plan  *plan = planned ? plan_of(&t, 4000000) : NULL;
    haul_manual_seed(9);
    if (planned)
        assert_int_equal(haul_plan_apply(plan, t.net), HAUL_OK);
    for (int i = 0; i < 3; i++) {
        take_batch(&t, 64);
        assert_int_equal(step(&t), HAUL_OK);
    }
    haul_set_grad_enabled(false);
    const double loss = haul_item(haul_cross_entropy(haul_call(t.net, t.x), t.y));
    haul_scope_pop(inner);
    return loss;
}

static void test_plans__train_with_the_same_bits(void **state)
{
    (void)state;
    assert_true(loss_after(false) == loss_after(true));
}

typedef struct decisions {
    struct {
        char operation[64], device[32];
    } items[400];
    int count;
} decisions;

static void note_decision(const haul_event *e, void *context)
{
    decisions *d = context;
    if (d->count == 400 || e->other)
        return;
    snprintf(d->items[d->count].operation, sizeof d->items[0].operation, "%s", e->operation);
    snprintf(d->items[d->count++].device, sizeof d->items[0].device, "%s", haul_device_name(e->device));
}

/* Backward passes, too, run where the plan says, and not only where the forward pass was. */
static void test_plans__are_followed_by_each_operation(void **state)
{
    (void)state;
    static decisions d;
    training         t = cifar10(64);
    haul_plan       *plan = plan_of(&t, 4000000);
    haul_plan_row    rows[200];
    const int        count = haul_plan_rows(plan, rows, 200);
    const char      *forward = NULL;
    int              next = 0, elsewhere = 0;
    assert_int_equal(haul_plan_save(plan, "followed.json"), HAUL_OK);
    assert_int_equal(haul_plan_apply(haul_plan_load("followed.json"), t.net), HAUL_OK);
    const int64_t id = haul_events_subscribe(note_decision, .context = &d, .kinds = HAUL_EVENT_PLACEMENT);
    assert_int_equal(step(&t), HAUL_OK);
    haul_events_unsubscribe(id);
    for (int i = 0; i < count && strcmp(rows[i].operation, "haul_sgd") != 0; i++) {
        while (next < d.count && strcmp(d.items[next].operation, rows[i].operation) != 0)
            next++;
        if (next == d.count)
            fail_msg("%s of %s is missing", rows[i].operation, rows[i].module);
        assert_string_equal(d.items[next++].device, rows[i].device);
        if (!strcmp(rows[i].operation, "haul_conv2d") && !strcmp(rows[i].module, "conv1"))
            forward = rows[i].device;
        if (!strncmp(rows[i].operation, "haul_conv2d_backward", 20) && !strcmp(rows[i].module, "conv1"))
            elsewhere += strcmp(rows[i].device, forward) != 0;
    }
    assert_true(elsewhere > 0);
}

/* Gradients of tensors between operations are where these are, wherever the plan has computed them. */
static void test_plans__leave_gradients_with_their_tensors(void **state)
{
    (void)state;
    training            t = cifar10(16);
    const haul_plan_pin pins[] = {{"conv1", "sim:laptop-4g"}, {"conv2", "cpu"}, {"fc*", "cpu"}};
    haul_plan *plan = haul_plan_new(step, &t, .module = t.net, .devices = devices, .pins = pins, .pin_count = 3);
    assert_int_equal(haul_plan_apply(plan, t.net), HAUL_OK);
    haul_tensor *hidden = haul_call_child(t.net, "conv1", t.x), *gradient;
    haul_tensor *y = haul_call_child(t.net, "conv2", hidden);
    assert_int_equal(haul_grad(haul_sum(y), &hidden, 1, &gradient), HAUL_OK);
    assert_ptr_equal(haul_tensor_device(y), haul_cpu());
    assert_ptr_equal(haul_tensor_device(hidden), gpu);
    assert_ptr_equal(haul_tensor_device(gradient), gpu);
}

static void test_plans__keep_pins(void **state)
{
    (void)state;
    training            t = cifar10(256);
    const haul_plan_pin pins[] = {{"conv1", "cpu"}, {"fc*", "sim:laptop-4g"}};
    haul_plan    *plan = haul_plan_new(step, &t, .module = t.net, .devices = devices, .pins = pins, .pin_count = 2);
    haul_plan_row rows[200];
    const int     count = haul_plan_rows(plan, rows, 200);
    assert_true(count > 0);
    for (int i = 0; i < count; i++) {
        if (!strcmp(rows[i].module, "conv1"))
            assert_string_equal(rows[i].device, "cpu");
        if (!strncmp(rows[i].module, "fc", 2))
            assert_string_equal(rows[i].device, "sim:laptop-4g:0");
    }
    assert_int_equal(haul_plan_apply(plan, t.net), HAUL_OK);
    assert_ptr_equal(haul_tensor_device(haul_module_parameter(t.net, "conv1.weight")), haul_cpu());
    assert_ptr_equal(haul_tensor_device(haul_module_parameter(t.net, "fc1.bias")), gpu);
}

/* Weights that are frozen are not data: they move once, and not in each step. */
static void test_plans__move_frozen_weights(void **state)
{
    (void)state;
    training t = cifar10(256);
    for (int i = 1; i <= 2; i++) {
        haul_module *conv = haul_module_child(t.net, i == 1 ? "conv1" : "conv2");
        haul_set_requires_grad(haul_module_parameter(conv, "weight"), false);
        haul_set_requires_grad(haul_module_parameter(conv, "bias"), false);
    }
    haul_plan                *plan = plan_of(&t, 0);
    const haul_plan_candidate want = candidate_of(plan, "plan");
    assert_int_equal(want.copied_bytes, 256 * (3 * 32 * 32 * 4 + 8));
    assert_int_equal(haul_plan_apply(plan, t.net), HAUL_OK);
    assert_ptr_equal(haul_module_device(t.net), gpu);
    measure(&t, 256);
    const haul_plan_candidate is = measure(&t, 256);
    assert_int_equal(is.copied_bytes, want.copied_bytes);
    assert_int_equal(is.peak_bytes[1], want.peak_bytes[1]);
}

/* ---- bad input ---- */

static haul_status apply_in_dry_run(void *context)
{
    haul_plan *plan = context;
    training   t = cifar10(8);
    return haul_plan_apply(plan, t.net);
}

static haul_status bad_step(void *context)
{
    (void)context;
    return haul_error_set(HAUL_STATE, "bad_step", "context", "this step fails");
}

static void expect_refused(training *t, const haul_plan_options *o, haul_status status, const char *text)
{
    haul_error_clear();
    assert_null(haul_plan_new_with(step, t, o));
    if (haul_error_status() != status || !strstr(haul_error_message(), text))
        fail_msg("%s, '%s': '%s' is expected", haul_status_name(haul_error_status()), haul_error_message(), text);
    haul_error_clear();
}

static void test_plans__refuse_bad_input(void **state)
{
    (void)state;
    training              t = cifar10(8);
    const haul_plan_limit none = {"cpu", 0, 0}, unknown = {"cuda:7", 1, 0}, tiny[] = {{"cpu", 1, 0}, {NULL, 1, 0}};
    const haul_plan_pin   both[] = {{"fc1", "cpu"}, {"fc*", "sim:laptop-4g"}}, nothing = {"lstm*", "cpu"};
    expect_refused(&t,
                   &(haul_plan_options){.devices = "cpu"
                                                   ",sim:nothing"},
                   HAUL_DEVICE, "sim:nothing");
    expect_refused(&t, &(haul_plan_options){.devices = "cpu,a,b,c,d,e,f,g,h,i"}, HAUL_INVALID_ARGUMENT,
                   "more than nine devices");
    expect_refused(&t, &(haul_plan_options){.devices = "cpu,sim:h200,sim:h200"}, HAUL_INVALID_ARGUMENT,
                   "one device twice");
    expect_refused(&t, &(haul_plan_options){.devices = "cpu,sim:h200,sim:h200:0"}, HAUL_INVALID_ARGUMENT,
                   "sim:h200 and sim:h200:0 are one device");
    expect_refused(&t, &(haul_plan_options){.devices = "sim:h200,cpu"}, HAUL_INVALID_ARGUMENT, "the first device is");
    expect_refused(&t, &(haul_plan_options){.machine = "h200", .devices = "cpu,tpu"}, HAUL_INVALID_ARGUMENT,
                   "h200 has no device 'tpu'; it has cpu, cuda:0, cuda:1");
    expect_refused(&t, &(haul_plan_options){.machine = "nothing"}, HAUL_INVALID_ARGUMENT, "the machine nothing is");
    expect_refused(&t, &(haul_plan_options){.devices = devices, .limits = &none, .limit_count = 1},
                   HAUL_INVALID_ARGUMENT, "expected is one of them above 0");
    expect_refused(&t, &(haul_plan_options){.devices = devices, .limits = &unknown, .limit_count = 1},
                   HAUL_INVALID_ARGUMENT, "cuda:7");
    expect_refused(&t, &(haul_plan_options){.devices = devices, .limit_count = 1}, HAUL_INVALID_ARGUMENT,
                   "without an array");
    expect_refused(&t, &(haul_plan_options){.devices = devices, .limits = tiny, .limit_count = 2}, HAUL_OUT_OF_MEMORY,
                   "fits in 1 byte on cpu and 1 byte on sim:laptop-4g:0");
    expect_refused(&t, &(haul_plan_options){.devices = devices, .pins = both, .pin_count = 2}, HAUL_INVALID_ARGUMENT,
                   "fc1 is pinned to both");
    expect_refused(&t, &(haul_plan_options){.devices = devices, .pins = &nothing, .pin_count = 1},
                   HAUL_INVALID_ARGUMENT, "no module of the step matches 'lstm*'");
    assert_null(haul_plan_new(bad_step, NULL, .devices = devices));
    assert_string_equal(haul_error_message(), "bad_step: this step fails");
    assert_null(haul_plan_new(NULL, NULL, .devices = devices));
    haul_error_clear();

    haul_plan           *plan = plan_of(&t, 0);
    haul_estimate_result r;
    assert_int_equal(haul_estimate(apply_in_dry_run, plan, &r), HAUL_STATE);
    assert_int_not_equal(haul_plan_apply(plan, NULL), HAUL_OK);
    assert_int_not_equal(haul_plan_apply(NULL, t.net), HAUL_OK);
    assert_int_equal(haul_plan_rows(NULL, NULL, 0), -1);
    assert_int_equal(haul_plan_candidates(NULL, NULL, 0), -1);
    haul_error_clear();
}

/* With any allocation failing, nothing is left over, nothing has moved, and the next attempt works. */
static haul_status make_load_and_apply(training *t)
{
    haul_scope *inner = haul_scope_push();
    haul_plan  *plan = inner ? haul_plan_new(step, t, .module = t->net, .devices = devices) : NULL;
    haul_status status = plan ? haul_plan_save(plan, "plan.json") : haul_error_status();
    haul_plan  *loaded = status ? NULL : haul_plan_load("plan.json");
    if (!status)
        status = loaded ? haul_plan_apply(loaded, t->net) : haul_error_status();
    haul_scope_pop(inner);
    return status;
}

static void test_plans__survive_a_lack_of_memory(void **state)
{
    (void)state;
    training          t = cifar10(64);
    haul_status       status = HAUL_OUT_OF_MEMORY;
    haul_memory_stats before, after;
    assert_int_equal(step(&t), HAUL_OK);
    haul_memory_stats_get(gpu, &before);
    for (int nth = 1; status; nth += 1 + nth / 20) {
        haul__fault_plan(HAUL__FAULT_HOST, nth);
        status = make_load_and_apply(&t);
        haul__fault_plan(0, 0);
        if (status && (status != HAUL_OUT_OF_MEMORY || haul_module_device(t.net) != haul_cpu()))
            fail_msg("%d: %s", nth, haul_error_message());
        haul_memory_stats_get(gpu, &after);
        assert_true(!status || after.allocated == before.allocated);
        haul_error_clear();
        assert_int_equal(haul_placement_policy(), HAUL_PLACE_STRICT);
    }
    assert_int_equal(make_load_and_apply(&t), HAUL_OK);
}

/* A plan of a machine that is not here predicts, and cannot be followed. */
static void test_plans__predict_for_other_machines(void **state)
{
    (void)state;
    training   t = cifar10(64);
    haul_plan *plan = haul_plan_new(step, &t, .module = t.net, .machine = "h200", .devices = "cpu,cuda:1");
    assert_non_null(plan);
    assert_true(candidate_of(plan, "all on cuda:1").step_ms > 0);
    assert_string_equal(candidate_of(plan, "all on cuda:1").bits_of, "cuda:1");
    assert_string_equal(candidate_of(plan, "all on cpu").bits_of, "cpu");
    const haul_plan_pin pins[] = {{"conv*", "cpu"}, {"fc*", "cuda:1"}}, products[] = {{"conv*", "cpu"}, {"fc*", "cpu"}};
    haul_plan *both = haul_plan_new(step, &t, .module = t.net, .machine = "h200", .devices = "cpu,cuda:1", .pins = pins,
                                    .pin_count = 2);
    assert_string_equal(candidate_of(both, "plan").bits_of, "");
    assert_true(candidate_of(both, "plan").wait_ms > 0);
    both = haul_plan_new(step, &t, .module = t.net, .machine = "h200", .devices = "cpu,cuda:1", .pins = products,
                         .pin_count = 2);
    assert_string_equal(candidate_of(both, "plan").bits_of, "cpu");
    if (!haul_device_is_valid(haul_device_get("cuda:1"))) {
        assert_int_equal(haul_plan_apply(plan, t.net), HAUL_DEVICE);
        assert_int_equal(haul_placement_policy(), HAUL_PLACE_STRICT);
        haul_error_clear();
    }
}

/* ---- programs that name no device ---- */

static int64_t bytes_of_steps(haul_estimate_function *one, training *t, bool planned)
{
    haul_scope         *inner = haul_scope_push();
    haul_transfer_stats moved;
    haul_plan          *plan = planned ? haul_plan_new(one, t, .module = t->net, .devices = devices) : NULL;
    haul_placement_log_to(NULL, NULL);
    if (planned)
        assert_int_equal(haul_plan_apply(plan, t->net), HAUL_OK);
    else if (haul_set_device(gpu) || haul_set_placement_policy(HAUL_PLACE_CURRENT))
        fail();
    haul_transfer_stats_reset();
    for (int i = 0; i < 3; i++)
        if (one(t))
            fail_msg("%s", haul_error_message());
    haul_transfer_stats_get(&moved);
    haul_scope_pop(inner);
    return moved.h2d_bytes + moved.d2h_bytes;
}

/* The CIFAR-10 network, placed by a plan, against HAUL_PLACE_CURRENT on the device. */
static void test_plans__place_the_cifar10_network(void **state)
{
    (void)state;
    training      one = cifar10(256), two = cifar10(256);
    const int64_t moved = bytes_of_steps(step, &two, false), planned = bytes_of_steps(step, &one, true);
    assert_ptr_equal(haul_module_device(one.net), gpu);
    assert_true(planned > 0 && planned < moved);
}

/* Loss and accuracy of the four-stage pipeline are computed on the CPU. */
static haul_status pipeline_step(void *context)
{
    training   *t = context;
    haul_scope *inner = haul_scope_push();
    haul_optimizer_zero_grad(t->sgd);
    haul_tensor *logits = haul_call(t->net, t->x);
    haul_status  status = haul_backward(haul_bce_with_logits(logits, t->y));
    if (!status)
        status = haul_optimizer_step(t->sgd);
    haul_set_grad_enabled(false);
    haul_tensor *home = haul_to(logits, haul_cpu());
    haul_sum(haul_eq(haul_gt_scalar(home, 0), haul_gt_scalar(t->y, 0.5)));
    haul_bce_with_logits(home, t->y);
    haul_scope_pop(inner);
    return status ? status : haul_error_status();
}

static training pipeline(void)
{
    training t = {.net = HAUL_SEQUENTIAL(haul_nn_linear(10, 512), haul_nn_relu(), haul_nn_linear(512, 1))};
    t.sgd = haul_sgd(t.net, 0.1, .momentum = 0.9);
    t.x = haul_normal(HAUL_F32, HAUL_SHAPE(4096, 10), 0, 1);
    t.y = haul_ones(HAUL_F32, HAUL_SHAPE(4096, 1));
    return t;
}

static char lines[40000];

static void note(const char *line, void *context)
{
    (void)context;
    if (strlen(lines) + strlen(line) + 2 < sizeof lines)
        strcat(strcat(lines, line), "\n");
}

static void test_plans__place_the_pipeline(void **state)
{
    (void)state;
    training      one = pipeline(), two = pipeline();
    const int64_t moved = bytes_of_steps(pipeline_step, &two, false);
    const int64_t planned = bytes_of_steps(pipeline_step, &one, true);
    assert_true(planned <= moved);
    haul_plan *plan = haul_plan_new(pipeline_step, &one, .module = one.net, .devices = devices);
    if (haul_plan_apply(plan, one.net))
        fail_msg("%s", haul_error_message());
    *lines = '\0';
    haul_placement_log_to(note, NULL);
    if (pipeline_step(&one))
        fail_msg("%s", haul_error_message());
    haul_placement_log_to(NULL, NULL);
    assert_non_null(strstr(lines, "haul_linear: runs on sim:laptop-4g:0: as planned: "));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_plans__predict_steps, setup, teardown),
        cmocka_unit_test_setup_teardown(test_plans__keep_limits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_plans__move_gradients_once, setup, teardown),
        cmocka_unit_test_setup_teardown(test_plans__know_single_devices, setup, teardown),
        cmocka_unit_test_setup_teardown(test_plans__change_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(test_plans__explain_rows, setup, teardown),
        cmocka_unit_test_setup_teardown(test_plans__explain_what_keeps_limits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_plans__are_saved_and_loaded, setup, teardown),
        cmocka_unit_test_setup_teardown(test_plans__train_with_the_same_bits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_plans__are_followed_by_each_operation, setup, teardown),
        cmocka_unit_test_setup_teardown(test_plans__leave_gradients_with_their_tensors, setup, teardown),
        cmocka_unit_test_setup_teardown(test_plans__keep_pins, setup, teardown),
        cmocka_unit_test_setup_teardown(test_plans__move_frozen_weights, setup, teardown),
        cmocka_unit_test_setup_teardown(test_plans__refuse_bad_input, setup, teardown),
        cmocka_unit_test_setup_teardown(test_plans__survive_a_lack_of_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(test_plans__predict_for_other_machines, setup, teardown),
        cmocka_unit_test_setup_teardown(test_plans__place_the_cifar10_network, setup, teardown),
        cmocka_unit_test_setup_teardown(test_plans__place_the_pipeline, setup, teardown),
    };
    gpu = haul_device_get("sim:laptop-4g");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
