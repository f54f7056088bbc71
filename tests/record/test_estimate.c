/* Dry runs: floating point operations as counted by hand, nothing allocated or changed, errors instead of values. */
#include <haul/haul.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "core/thread.h"
#include "support/conformance/conformance.h"
#include "support/failure.h"

static haul_estimate_result estimated(haul_estimate_function *function, void *context)
{
    haul_estimate_result r;
    haul_status          status = haul_estimate(function, context, &r);
    if (status)
        print_message("%s\n", haul_error_message());
    assert_int_equal(status, HAUL_OK);
    return r;
}

static double flops_of(const haul_estimate_result *r, const char *name)
{
    double sum = 0;
    for (int64_t i = 0; i < r->operation_count; i++)
        sum += strcmp(r->operations[i].name, name) ? 0 : r->operations[i].flops;
    return sum;
}

static int calls_of(const haul_estimate_result *r, const char *name)
{
    int count = 0;
    for (int64_t i = 0; i < r->operation_count; i++)
        count += !strcmp(r->operations[i].name, name);
    return count;
}

static const haul_estimate_device *device_in(const haul_estimate_result *r, const haul_device *device)
{
    for (int i = 0; i < r->device_count; i++)
        if (r->devices[i].device == device)
            return &r->devices[i];
    fail_msg("%s is not in the result", haul_device_name(device));
    return NULL;
}

/* ---- floating point operations ---- */

static haul_status products(void *context)
{
    (void)context;
    haul_tensor *x = haul_empty(HAUL_F32, HAUL_SHAPE(64, 100)), *w = haul_empty(HAUL_F32, HAUL_SHAPE(10, 100));
    haul_tensor *a = haul_empty(HAUL_F32, HAUL_SHAPE(3, 1, 7, 5)), *b = haul_empty(HAUL_F32, HAUL_SHAPE(4, 5, 9));
    return haul_linear(x, w, .bias = haul_empty(HAUL_F32, HAUL_SHAPE(10))) && haul_matmul(a, b) ? HAUL_OK
                                                                                                : haul_error_status();
}

static void test_flops__products(void **state)
{
    (void)state;
    haul_estimate_result r = estimated(products, NULL);
    assert_true(flops_of(&r, "haul_linear") == 2.0 * 64 * 100 * 10);
    assert_true(flops_of(&r, "haul_matmul") == 2.0 * 3 * 4 * 7 * 5 * 9);
    assert_true(r.flops == 2.0 * 64 * 100 * 10 + 2.0 * 3 * 4 * 7 * 5 * 9);
    assert_int_equal(r.bytes_touched, 4 * (64 * 100 + 10 * 100 + 10 + 64 * 10) + 4 * (3 * 35 + 4 * 45 + 3 * 4 * 63));
    assert_int_equal(calls_of(&r, "haul_empty"), 5);
    haul_estimate_free(&r);
}

/* 16 channels from 8 in 2 groups, a 3 x 5 window, stride 2: of 20 x 30 pixels, padded by 1 and 2, 10 x 15 are left. */
static haul_status convolution(void *context)
{
    haul_set_device(context);
    haul_tensor *x = haul_empty(HAUL_F32, HAUL_SHAPE(6, 8, 20, 30)), *w = haul_empty(HAUL_F32, HAUL_SHAPE(16, 4, 3, 5));
    haul_set_requires_grad(x, true);
    haul_set_requires_grad(w, true);
    haul_tensor *y = haul_conv2d(x, w, .stride = {2, 2}, .padding = {1, 2}, .groups = 2);
    return haul_backward(haul_sum(y));
}

static void test_flops__convolution(void **state)
{
    (void)state;
    haul_device *devices[8];
    int          count = test_devices(devices, 8);
    const double each = 2.0 * 6 * 16 * 10 * 15 * 4 * 3 * 5;
    for (int i = 0; i < count; i++) {
        haul_estimate_result r = estimated(convolution, devices[i]);
        assert_true(flops_of(&r, "haul_conv2d") == each);
        assert_true(flops_of(&r, "haul_conv2d_backward_data") == each);
        assert_true(flops_of(&r, "haul_conv2d_backward_weight") == each);
        haul_estimate_free(&r);
    }
}

typedef struct dense {
    haul_module    *net;
    haul_optimizer *sgd;
} dense;

/* A dense layer of 100 to 10, batches of 64, whose input wants a gradient as it does inside of a network. */
static haul_status dense_step(void *context)
{
    const dense *d = context;
    haul_tensor *x = haul_set_requires_grad(haul_empty(HAUL_F32, HAUL_SHAPE(64, 100)), true);
    haul_status  status = haul_optimizer_zero_grad(d->sgd);
    if (!status)
        status = haul_backward(haul_sum(haul_call(d->net, x)));
    return status ? status : haul_optimizer_step(d->sgd);
}

static void test_flops__training_step(void **state)
{
    (void)state;
    haul_scope *scope = haul_scope_push();
    dense       d = {.net = haul_nn_linear(100, 10)};
    d.sgd = haul_sgd(d.net, 0.1, .momentum = 0.9);
    haul_estimate_result r = estimated(dense_step, &d);
    const double         forward = 2.0 * 64 * 100 * 10;
    assert_true(flops_of(&r, "haul_linear") == forward);
    assert_true(flops_of(&r, "haul_linear_backward") == 2 * forward + 64 * 10); /* and the sum of the bias's gradient */
    assert_int_equal(calls_of(&r, "haul_sgd"), 1);
    assert_true(flops_of(&r, "haul_sgd") == 6 * (100 * 10 + 10));
    assert_int_equal(calls_of(&r, "haul_linear"), 1);
    haul_estimate_free(&r);
    haul_scope_pop(scope);
}

/* Up to eight parameters of one dtype are one operation. */
static void test_flops__optimizer_groups(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_module *layers[5];
    for (int i = 0; i < 5; i++)
        layers[i] = haul_nn_linear(i ? 10 : 100, 10);
    dense d = {.net = haul_nn_sequential(layers, 5)};
    d.sgd = haul_sgd(d.net, 0.1, .momentum = 0.9);
    haul_estimate_result r = estimated(dense_step, &d);
    assert_int_equal(calls_of(&r, "haul_sgd"), 2);
    assert_true(flops_of(&r, "haul_sgd") == 6 * (100 * 10 + 10 + 4 * (10 * 10 + 10)));
    haul_estimate_free(&r);
    haul_scope_pop(scope);
}

/* ---- nothing happens ---- */

typedef struct heard {
    int commands, memory, copies;
} heard;

static void hear(const haul_event *e, void *context)
{
    heard *h = context;
    h->commands += (e->kind & HAUL_EVENT_COMMAND) != 0;
    h->memory += (e->kind & HAUL_EVENT_MEMORY) != 0;
    h->copies += (e->kind & HAUL_EVENT_COPY) != 0;
}

/* Every kind of work: moves, copies from the program's memory, draws, casts, writes in place, views. */
static haul_status all_kinds(void *context)
{
    static const float values[6] = {1, 2, 3, 4, 5, 6};
    haul_device       *device = context;
    haul_tensor       *x = haul_to(haul_from_host(HAUL_F32, HAUL_SHAPE(2, 3), values), device);
    haul_set_device(device);
    haul_tensor *y = haul_add(haul_uniform(HAUL_F32, HAUL_SHAPE(2, 3), 0, 1), haul_exp(x));
    haul_tensor *z = haul_cast(y, HAUL_F16), *largest, *where;
    if (haul_topk(y, 2, 1, true, &largest, &where))
        return haul_error_status();
    haul_tensor *order = haul_permutation(3);
    haul_tensor *picked = haul_index_select(y, 1, order);
    if (haul_tensor_check(z) || haul_tensor_check(picked) ||
        haul_tensor_check(haul_softmax(haul_transpose(y, 0, 1), 1)) || haul_tensor_check(haul_dropout(y, 0.5, true)))
        return haul_error_status();
    haul_status status = haul_fill_into(haul_transpose(y, 0, 1), 3);
    if (!status)
        status = haul_write(y, values, sizeof values);
    if (!status)
        status = haul_copy_into(y, haul_to(y, haul_cpu()));
    return status ? status : haul_device_sync(device);
}

static void test_run__allocates_and_computes_nothing(void **state)
{
    (void)state;
    haul_device *devices[8];
    int          count = test_devices(devices, 8);
    for (int i = 0; i < count; i++) {
        haul_memory_stats   before = {0}, after = {0};
        heard               h = {0};
        haul_random_state   random = haul_random_state_get();
        haul_transfer_stats moved, moved_after;
        haul_memory_stats_get(devices[i], &before);
        haul_transfer_stats_get(&moved);
        int64_t              id = haul_events_subscribe(hear, .kinds = HAUL_EVENT_ALL, .context = &h);
        haul_estimate_result r = estimated(all_kinds, devices[i]);
        haul_events_unsubscribe(id);
        haul_memory_stats_get(devices[i], &after);
        haul_transfer_stats_get(&moved_after);
        assert_int_equal(h.commands, 0);
        assert_int_equal(h.memory, 0);
        assert_int_equal(h.copies, 0);
        assert_memory_equal(&before, &after, sizeof before);
        assert_memory_equal(&moved, &moved_after, sizeof moved);
        assert_true(haul_random_state_get().offset == random.offset);
        bool cpu = devices[i] == haul_cpu();
        assert_int_equal(r.moved.h2d_bytes, cpu ? 0 : 24 + 24 + 24 + 24);
        assert_int_equal(r.moved.d2h_bytes, cpu ? 0 : 24);
        assert_true(device_in(&r, devices[i])->peak_bytes > device_in(&r, devices[i])->start_bytes);
        haul_estimate_free(&r);
    }
}

static haul_status on_meta(void *context)
{
    (void)context;
    haul_set_device(haul_device_get("meta"));
    haul_tensor *x = haul_empty(HAUL_F32, HAUL_SHAPE(1 << 20, 1 << 20));
    return haul_tensor_check(haul_matmul(x, x));
}

static void test_run__on_meta(void **state)
{
    (void)state;
    haul_estimate_result r = estimated(on_meta, NULL);
    assert_true(r.flops == 2.0 * (1 << 20) * (1 << 20) * (1 << 20));
    assert_true(device_in(&r, haul_device_get("meta"))->peak_bytes == INT64_C(8) << 40);
    haul_estimate_free(&r);
}

/* ---- what existed before ---- */

typedef struct training {
    haul_module      *net;
    haul_optimizer   *adam;
    haul_grad_scaler *scaler;
    haul_tensor      *x;
} training;

static haul_status scaled_step(void *context)
{
    const training *t = context;
    haul_status     status = haul_optimizer_zero_grad(t->adam);
    if (!status)
        status = haul_backward(haul_grad_scaler_scale(t->scaler, haul_sum(haul_square(haul_call(t->net, t->x)))));
    if (!status)
        status = haul_grad_scaler_step(t->scaler, t->adam);
    return status ? status : haul_grad_scaler_update(t->scaler);
}

static void make_training(training *t)
{
    haul_manual_seed(3);
    t->net = haul_nn_linear(4, 3);
    t->adam = haul_adam(t->net, 0.1);
    t->scaler = haul_grad_scaler_new(t->adam);
    t->x = haul_uniform(HAUL_F32, HAUL_SHAPE(5, 4), -1, 1);
}

static void estimate_step(training *t)
{
    haul_estimate_result r = estimated(scaled_step, t);
    assert_int_equal(calls_of(&r, "haul_adam"), 1);
    haul_estimate_free(&r);
}

/* Steps with a dry one before and within each, or not. */
static void train(bool with_estimates, float *weights)
{
    haul_scope *scope = haul_scope_push();
    training    t;
    make_training(&t);
    for (int i = 0; i < 3; i++) {
        if (with_estimates)
            estimate_step(&t);
        assert_int_equal(haul_optimizer_zero_grad(t.adam), HAUL_OK);
        haul_tensor *loss = haul_sum(haul_square(haul_call(t.net, t.x)));
        if (with_estimates) /* it would write the parameters of this graph */
            estimate_step(&t);
        assert_int_equal(haul_backward(haul_grad_scaler_scale(t.scaler, loss)), HAUL_OK);
        if (with_estimates)
            estimate_step(&t);
        assert_int_equal(haul_grad_scaler_step(t.scaler, t.adam), HAUL_OK);
        assert_int_equal(haul_grad_scaler_update(t.scaler), HAUL_OK);
    }
    assert_int_equal(haul_optimizer_steps(t.adam), 3);
    assert_int_equal(haul_read(haul_module_parameter(t.net, "weight"), weights, 12 * sizeof *weights), HAUL_OK);
    haul_scope_pop(scope);
}

static void test_run__leaves_a_training_as_it_was(void **state)
{
    (void)state;
    float plain[12], with[12];
    train(false, plain);
    train(true, with);
    assert_memory_equal(plain, with, sizeof plain);
}

static haul_status step_with_a_scaler(void *context)
{
    training t = *(const training *)context;
    t.scaler = haul_grad_scaler_new(t.adam);
    return scaled_step(&t);
}

static void test_run__leaves_an_optimizer_without_the_scaler_that_it_made(void **state)
{
    (void)state;
    haul_scope *scope = haul_scope_push();
    training    t = {.net = haul_nn_linear(4, 3), .x = haul_ones(HAUL_F32, HAUL_SHAPE(5, 4))};
    t.adam = haul_adam(t.net, 0.1);
    haul_estimate_result r = estimated(step_with_a_scaler, &t);
    haul_estimate_free(&r);
    assert_int_equal(haul_optimizer_steps(t.adam), 0);
    assert_int_equal(haul_optimizer_state(t.adam, NULL, 0), 0);
    haul_scope_pop(scope);
}

/* ---- errors ---- */

static void expect_error(haul_status got, const char *text)
{
    assert_int_equal(got, HAUL_STATE);
    if (!strstr(haul_error_message(), text))
        fail_msg("'%s' does not say '%s'", haul_error_message(), text);
    haul_error_clear();
}

static haul_status read_item(void *context)
{
    haul_device *device = context;
    haul_set_device(device);
    haul_tensor *x = haul_ones(HAUL_F32, HAUL_SHAPE(1));
    float        value;
    haul_item(x);
    expect_error(haul_error_status(), "dry run");
    haul_item_i64(x);
    expect_error(haul_error_status(), "dry run");
    expect_error(haul_read(x, &value, sizeof value), "dry run");
    expect_error(haul_print(x), "dry run");
    expect_error(haul_save_npy("x.npy", x), "dry run");
    assert_null(haul_map(x, HAUL_READ | HAUL_WRITE));
    expect_error(haul_error_status(), "dry run");
    return HAUL_OK;
}

static void test_errors__values(void **state)
{
    (void)state;
    haul_device *devices[8];
    int          count = test_devices(devices, 8);
    for (int i = 0; i < count; i++) {
        haul_estimate_result r = estimated(read_item, devices[i]);
        haul_estimate_free(&r);
    }
}

static haul_status leave_tensors(void *context)
{
    haul_tensor **left = context;
    left[0] = haul_keep(haul_ones(HAUL_F32, HAUL_SHAPE(1)));
    left[1] = haul_keep(haul_zeros(HAUL_I64, HAUL_SHAPE(1)));
    return HAUL_OK;
}

static void test_errors__tensors_that_were_kept(void **state)
{
    (void)state;
    haul_scope          *scope = haul_scope_push();
    haul_tensor         *left[2] = {NULL};
    haul_estimate_result r = estimated(leave_tensors, left);
    haul_tensor         *x = haul_ones(HAUL_F32, HAUL_SHAPE(1)), *table = haul_ones(HAUL_F32, HAUL_SHAPE(1, 2));
    haul_estimate_free(&r);
    assert_failed(haul_add(x, left[0]));
    expect_error(haul_error_status(), "haul_add: a tensor was made in a dry run");
    assert_failed(haul_sum(left[0]));
    expect_error(haul_error_status(), "made in a dry run");
    expect_error(haul_add_into(left[0], x, x), "made in a dry run");
    assert_failed(haul_index_select(table, 0, left[1]));
    expect_error(haul_error_status(), "made in a dry run");
    haul_item(left[0]);
    expect_error(haul_error_status(), "haul_item: a tensor was made in a dry run");
    assert_null(haul_map(left[0], HAUL_READ));
    expect_error(haul_error_status(), "made in a dry run");
    expect_error(haul_write(left[0], &(float){1}, sizeof(float)), "made in a dry run");
    haul_release(left[0]);
    haul_release(left[1]);
    haul_scope_pop(scope);
}

typedef struct loaders {
    haul_dataset *data;
    haul_loader  *outside, *inside;
} loaders;

static haul_status use_loaders(void *context)
{
    loaders *l = context;
    expect_error(haul_loader_start(l->outside, 1), "outside this dry run");
    l->inside = haul_keep(haul_loader_new(l->data, .batch = 4, .workers = 2));
    if (haul_loader_start(l->inside, 1))
        return haul_error_status();
    int batches = 0;
    for (const haul_batch *b; (b = haul_loader_next(l->inside)); batches++)
        assert_int_equal(haul_tensor_dim(b->x, 0), batches < 2 ? 4 : 2);
    assert_int_equal(batches, 3);
    return haul_error_status();
}

static void test_errors__loaders(void **state)
{
    (void)state;
    haul_scope *scope = haul_scope_push();
    loaders     l = {.data = haul_shapes(10)};
    l.outside = haul_loader_new(l.data, .batch = 4);
    haul_estimate_result r = estimated(use_loaders, &l);
    haul_estimate_free(&r);
    expect_error(haul_loader_start(l.inside, 1), "made in a dry run");
    assert_int_equal(haul_loader_start(l.outside, 1), HAUL_OK);
    assert_non_null(haul_loader_next(l.outside));
    haul_release(l.inside);
    haul_scope_pop(scope);
}

static haul_status move_module(void *context)
{
    return haul_module_to(context, haul_device_get("meta"));
}

static haul_status close_scope(void *context)
{
    return haul_scope_pop(context);
}

static void test_errors__functions(void **state)
{
    (void)state;
    haul_estimate_result r;
    haul_scope          *outer = haul_scope_push(), *scope = haul_scope_push();
    expect_error(haul_estimate(move_module, haul_nn_linear(2, 2), &r), "cannot move or cast a module that exists");
    assert_int_equal(r.operation_count, 0);
    haul_estimate_free(&r);
    expect_error(haul_estimate(close_scope, scope, &r), "must close its own scopes only");
    assert_int_equal(haul_estimate(NULL, NULL, &r), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_estimate(products, NULL, NULL), HAUL_INVALID_ARGUMENT);
    haul_error_clear();
    haul_estimate_free(NULL);
    assert_valid(haul_add(haul_ones(HAUL_F32, HAUL_SHAPE(2)), haul_ones(HAUL_F32, HAUL_SHAPE(2))));
    haul_scope_pop(outer);
}

/* ---- parts ---- */

typedef struct parts {
    haul_estimate_result second;
} parts;

static haul_status allocate_more(void *context)
{
    return haul_tensor_check(haul_ones(HAUL_F32, HAUL_SHAPE(256))) ? haul_error_status() : products(context);
}

static haul_status two_parts(void *context)
{
    parts       *p = context;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *large = haul_ones(HAUL_F32, HAUL_SHAPE(1 << 20));
    if (!haul_tensor_is_valid(large))
        return haul_error_status();
    haul_scope_pop(scope);
    haul_ones(HAUL_F32, HAUL_SHAPE(64));
    return haul_estimate(allocate_more, NULL, &p->second);
}

static void test_parts(void **state)
{
    (void)state;
    parts                p = {{0}};
    haul_estimate_result whole = estimated(two_parts, &p);
    const haul_device   *cpu = haul_cpu();
    int64_t              at_start = device_in(&whole, cpu)->start_bytes;
    assert_int_equal(device_in(&whole, cpu)->peak_bytes - at_start, 4 << 20);
    assert_int_equal(device_in(&p.second, cpu)->start_bytes - at_start, 256);
    assert_true(device_in(&p.second, cpu)->peak_bytes < 1 << 20);
    assert_int_equal(whole.operation_count, p.second.operation_count + 2);
    assert_true(p.second.flops == whole.flops);
    haul_estimate_free(&whole);
    haul_estimate_free(&p.second);
    haul_estimate_free(&whole);
}

/* The origins of the peak: they add up to it, in the whole and in a part, and name operation and module. */
static int64_t sum_of(const haul_estimate_device *d)
{
    int64_t sum = 0;
    for (int i = 0; i < d->origin_count; i++) {
        assert_true(d->origins[i].bytes > 0 && (!i || d->origins[i].bytes <= d->origins[i - 1].bytes));
        sum += d->origins[i].bytes;
    }
    return sum;
}

static haul_status forward_through_layers(void *context)
{
    haul_module *net = HAUL_SEQUENTIAL(haul_nn_linear(100, 5000), haul_nn_relu());
    (void)context;
    return haul_tensor_check(haul_call(net, haul_empty(HAUL_F32, HAUL_SHAPE(1000, 100))));
}

static void test_origins_of_the_peak(void **state)
{
    (void)state;
    parts                p = {{0}};
    haul_estimate_result whole = estimated(two_parts, &p);
    const haul_device   *cpu = haul_cpu();
    int64_t              at_start = device_in(&whole, cpu)->start_bytes;
    assert_int_equal(device_in(&whole, cpu)->origin_count, 1);
    assert_string_equal(device_in(&whole, cpu)->origins[0].name, "haul_ones");
    assert_int_equal(device_in(&whole, cpu)->origins[0].bytes, 4 << 20);
    assert_int_equal(sum_of(device_in(&p.second, cpu)), device_in(&p.second, cpu)->peak_bytes - at_start);
    haul_estimate_free(&whole);
    haul_estimate_free(&p.second);

    haul_estimate_result        r = estimated(forward_through_layers, NULL);
    const haul_estimate_device *d = device_in(&r, cpu);
    assert_int_equal(sum_of(d), d->peak_bytes - d->start_bytes);
    assert_string_equal(d->origins[0].name, "haul_linear");
    assert_string_equal(d->origins[0].module, "0");
    assert_string_equal(d->origins[1].name, "haul_relu");
    assert_string_equal(d->origins[1].module, "1");
    assert_in_range(d->origins[1].bytes, 20000000, 26000000);
    haul_estimate_free(&r);
}

/* ---- failures ---- */

/* Each allocation of host memory fails in turn: an error comes back, and nothing stays alive. */
static void test_failures__host_memory(void **state)
{
    (void)state;
    haul_scope          *scope = haul_scope_push();
    haul_estimate_result r;
    training             t;
    make_training(&t);
    estimate_step(&t);
    int64_t blocks = haul__host_blocks();
    for (int64_t nth = 1;; nth++) {
        haul__fault_plan(HAUL__FAULT_HOST, nth);
        haul_status status = haul_estimate(scaled_step, &t, &r);
        bool        came = haul__fault_count() >= nth;
        haul__fault_plan(0, 0);
        haul_estimate_free(&r);
        if (!came)
            break;
        if (status)
            haul_error_clear();
        assert_int_equal(haul__host_blocks(), blocks);
        assert_ptr_equal(haul_tensor_grad(haul_module_parameter(t.net, "weight")), HAUL_NONE);
    }
    assert_int_equal(scaled_step(&t), HAUL_OK);
    haul_scope_pop(scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flops__products),
        cmocka_unit_test(test_flops__convolution),
        cmocka_unit_test(test_flops__training_step),
        cmocka_unit_test(test_flops__optimizer_groups),
        cmocka_unit_test(test_run__allocates_and_computes_nothing),
        cmocka_unit_test(test_run__on_meta),
        cmocka_unit_test(test_run__leaves_a_training_as_it_was),
        cmocka_unit_test(test_run__leaves_an_optimizer_without_the_scaler_that_it_made),
        cmocka_unit_test(test_errors__values),
        cmocka_unit_test(test_errors__tensors_that_were_kept),
        cmocka_unit_test(test_errors__loaders),
        cmocka_unit_test(test_errors__functions),
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_origins_of_the_peak),
        cmocka_unit_test(test_failures__host_memory),
    };
    haul_scope *scope = haul_scope_push();
    int         failed = cmocka_run_group_tests(tests, NULL, NULL);
    haul_scope_pop(scope);
    return failed;
}
