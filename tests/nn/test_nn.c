/* Modules: names, scopes, placement, training and evaluation, memory, layers.
 *
 * ctest: cuda; labels=threads; ptx */
#include <haul/haul.h>
#include <math.h>
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

static haul_scope *scope;

static int setup(void **state)
{
    (void)state;
    haul_error_clear();
    haul_manual_seed(1);
    scope = haul_scope_push();
    return !scope;
}

static int teardown(void **state)
{
    (void)state;
    haul_watch_calls(NULL, NULL);
    haul_scope_pop(scope);
    return 0;
}

static haul_tensor *identity(haul_module *m, haul_args *args)
{
    (void)m;
    return args->x[0];
}

/* ---- names ---- */

static void test_nn__names_are_those_of_pytorch(void **state)
{
    static const char *const names[] = {"conv1.weight", "conv1.bias", "conv2.weight", "conv2.bias", "fc1.weight",
                                        "fc1.bias",     "fc2.weight", "fc2.bias",     "fc3.weight", "fc3.bias"};
    haul_named_tensor        found[16];
    haul_module             *net = haul_model_new("simplecnn");
    (void)state;
    assert_int_equal(haul_module_tensors(net, found, 16), 10);
    for (int i = 0; i < 10; i++) {
        assert_string_equal(found[i].name, names[i]);
        assert_true(haul_requires_grad(found[i].tensor));
        assert_false(found[i].is_buffer);
        assert_ptr_equal(haul_module_parameter(net, names[i]), found[i].tensor);
    }
    assert_int_equal(haul_module_parameter_count(net), 62006);
    assert_int_equal(haul_module_parameter_count(haul_model_new("dense")), 193);
}

static void test_nn__parameters_come_before_buffers(void **state)
{
    haul_named_tensor found[16];
    haul_module      *m = HAUL_SEQUENTIAL(haul_nn_batch_norm(3), haul_nn_linear(3, 2));
    (void)state;
    assert_int_equal(haul_module_tensors(m, found, 2), 7); /* returns how many there are beyond the capacity */
    assert_int_equal(haul_module_tensors(m, found, 16), 7);
    assert_string_equal(found[0].name, "0.weight");
    assert_string_equal(found[3].name, "1.bias");
    assert_string_equal(found[4].name, "0.running_mean");
    assert_string_equal(found[6].name, "0.num_batches_tracked");
    assert_true(found[4].is_buffer && !found[3].is_buffer);
    assert_ptr_equal(haul_module_buffer(m, "0.running_mean"), found[4].tensor);
}

static void test_nn__names_stay_when_modules_are_added(void **state)
{
    haul_named_tensor before[4], after[8];
    haul_module      *outer = haul_module_new("outer", identity), *inner = haul_module_new("inner", identity);
    (void)state;
    haul_module_add(outer, "inner", inner);
    haul_module_add(inner, "a", haul_nn_linear(2, 2));
    assert_int_equal(haul_module_tensors(outer, before, 4), 2);
    haul_module_add(inner, "b", haul_nn_linear(2, 2));
    assert_int_equal(haul_module_tensors(outer, after, 8), 4);
    assert_ptr_equal(before[0].name, after[0].name);
    assert_string_equal(before[1].name, "inner.a.bias");
    assert_string_equal(after[3].name, "inner.b.bias");
    assert_ptr_equal(haul_module_child(outer, "inner.b"), haul_module_child(inner, "b"));
    assert_ptr_equal(haul_module_child(outer, ""), outer);
}

static void test_nn__bad_names_are_refused(void **state)
{
    haul_module *m = haul_module_new("outer", identity), *child = haul_nn_relu();
    (void)state;
    assert_int_equal(haul_module_add(m, "a.b", child), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_module_add(m, "", child), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_module_add(m, "caf\xe9", child), HAUL_INVALID_ARGUMENT);
    assert_non_null(strstr(haul_error_message(), "not UTF-8"));
    assert_int_equal(haul_module_add(m, "a\xed\xa0\xbd", child), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_module_add(m, "a", child), HAUL_OK);
    assert_int_equal(haul_module_add(m, "a", child), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_module_add_buffer(m, "a", haul_ones(HAUL_F32, HAUL_SHAPE(1))), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_module_add(child, "up", m), HAUL_INVALID_ARGUMENT);
    assert_non_null(strstr(haul_error_message(), "contain itself"));
    haul_error_clear();
    assert_int_not_equal(haul_module_add(m, "b", NULL), HAUL_OK);
}

static void test_nn__unknown_names_list_what_there_is(void **state)
{
    haul_module *net = haul_model_new("simplecnn");
    (void)state;
    assert_failed(haul_module_parameter(net, "conv9.weight"));
    assert_non_null(strstr(haul_error_message(), "conv1, "));
    assert_failed(haul_module_parameter(net, "conv1.weights"));
    assert_non_null(strstr(haul_error_message(), "weight, bias"));
    assert_failed(haul_module_buffer(net, "conv1.weight"));
    assert_null(haul_module_child(net, "conv1.x"));
    assert_null(haul_model_new("simplecn"));
    assert_non_null(strstr(haul_error_message(), "simplecnn, dense, mlp"));
}

static void test_nn__parameters_must_be_floating_leaves(void **state)
{
    haul_module *m = haul_module_new("m", identity);
    haul_tensor *a = haul_set_requires_grad(haul_ones(HAUL_F32, HAUL_SHAPE(2)), true);
    (void)state;
    assert_int_equal(haul_module_add_parameter(m, "i", haul_ones(HAUL_I32, HAUL_SHAPE(2))), HAUL_DTYPE);
    assert_int_equal(haul_module_add_parameter(m, "r", haul_mul(a, a)), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_module_add_parameter(m, "n", HAUL_NONE), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_module_add_buffer(m, "b", a), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_module_tensors(m, NULL, 0), 0);
}

/* ---- calling ---- */

typedef struct scale {
    double factor;
} scale;

static haul_tensor *scale_forward(haul_module *m, haul_args *args)
{
    haul_tensor *hidden = haul_mul(haul_call_child(m, "inner", args->x[0]), haul_module_parameter(m, "gain"));
    return haul_mul_scalar(hidden, ((scale *)haul_module_state(m))->factor);
}

static void test_nn__user_written_module(void **state)
{
    haul_module *m = haul_module_new("scale", scale_forward, .state_bytes = sizeof(scale));
    haul_tensor *gain = haul_full(HAUL_F32, HAUL_SHAPE(2), 3);
    (void)state;
    ((scale *)haul_module_state(m))->factor = 2;
    assert_int_equal(haul_module_add(m, "inner", haul_nn_relu()), HAUL_OK);
    assert_int_equal(haul_module_add_parameter(m, "gain", gain), HAUL_OK);
    haul_tensor *y = haul_call(m, haul_from_host(HAUL_F32, HAUL_SHAPE(2), (float[]){-1, 5}));
    float        got[2];
    assert_int_equal(haul_read(y, got, sizeof got), HAUL_OK);
    assert_true(got[0] == 0 && got[1] == 30);
    assert_int_equal(haul_backward(haul_sum(y)), HAUL_OK);
    assert_int_equal(haul_read(haul_tensor_grad(gain), got, sizeof got), HAUL_OK);
    assert_true(got[0] == 0 && got[1] == 10);
    assert_string_equal(haul_module_kind(m), "scale");
}

static void test_nn__passing_the_input_through_gives_a_fresh_handle(void **state)
{
    haul_module *m = haul_module_new("identity", identity);
    haul_tensor *x = haul_set_requires_grad(haul_ones(HAUL_F32, HAUL_SHAPE(3)), true);
    haul_tensor *y = haul_call(m, x);
    (void)state;
    assert_ptr_not_equal(x, y);
    assert_int_equal(haul_drop(y), HAUL_OK);
    y = haul_call(haul_nn_sequential(NULL, 0), x);
    assert_int_equal(haul_backward(haul_sum(y)), HAUL_OK);
    assert_true(haul_item(haul_sum(haul_tensor_grad(x))) == 3);
}

static haul_tensor *fails_silently(haul_module *m, haul_args *args)
{
    (void)m;
    (void)args;
    return NULL;
}

static void test_nn__errors_name_the_layer(void **state)
{
    haul_module *net = haul_model_new("simplecnn");
    int          depth = haul_scope_depth();
    (void)state;
    assert_failed(haul_call(net, haul_zeros(HAUL_F32, HAUL_SHAPE(1, 4, 32, 32))));
    assert_non_null(strstr(haul_error_message(), "in layer 'conv1' (conv2d)"));
    assert_int_equal(haul_scope_depth(), depth);
    haul_error_clear();
    assert_failed(haul_call(haul_module_new("silent", fails_silently), haul_scalar(1)));
    assert_non_null(strstr(haul_error_message(), "recorded no error"));
    haul_error_clear();
    assert_failed(haul_call(net, NULL));
    assert_int_not_equal(haul_error_status(), HAUL_OK);
}

typedef struct watched {
    char text[400];
    int  depth;
} watched;

static void watch(const haul_call_event *event, void *context)
{
    watched *w = context;
    size_t   used = strlen(w->text);
    snprintf(w->text + used, sizeof w->text - used, "%s%s%s ", event->done ? "-" : "+", event->path,
             event->done && !event->y->count ? "!" : "");
    w->depth = event->depth > w->depth ? event->depth : w->depth;
}

static void test_nn__calls_can_be_watched(void **state)
{
    watched      w = {.depth = 0};
    haul_module *m = HAUL_SEQUENTIAL(haul_nn_relu(), HAUL_SEQUENTIAL(haul_nn_tanh(), haul_nn_sigmoid()));
    (void)state;
    haul_watch_calls(watch, &w);
    assert_valid(haul_call(m, haul_scalar(1)));
    assert_string_equal(w.text, "+ +0 -0 +1 +1.0 -1.0 +1.1 -1.1 -1 - ");
    assert_int_equal(w.depth, 2);
    w.text[0] = 0;
    assert_failed(haul_call(HAUL_SEQUENTIAL(haul_nn_linear(3, 1)), haul_zeros(HAUL_F32, HAUL_SHAPE(1, 2))));
    assert_string_equal(w.text, "+ +0 -0! -! ");
    w.text[0] = 0;
    haul_watch_calls(NULL, NULL);
    haul_error_clear();
    assert_valid(haul_call(m, haul_scalar(1)));
    assert_string_equal(w.text, "");
}

/* ---- memory ---- */

static void test_nn__sequential_drops_what_is_used_up(void **state)
{
    enum { LAYERS = 50, SIZE = 1 << 16 };
    haul_module      *layers[LAYERS];
    haul_memory_stats before, after;
    (void)state;
    for (int i = 0; i < LAYERS; i++)
        layers[i] = haul_nn_relu();
    haul_module *m = haul_nn_sequential(layers, LAYERS);
    haul_tensor *x = haul_ones(HAUL_F32, HAUL_SHAPE(SIZE));
    haul_set_grad_enabled(false);
    assert_int_equal(haul_memory_reset_peak(haul_cpu()), HAUL_OK);
    assert_int_equal(haul_memory_stats_get(haul_cpu(), &before), HAUL_OK);
    assert_valid(haul_call(m, x));
    assert_int_equal(haul_memory_stats_get(haul_cpu(), &after), HAUL_OK);
    assert_true(after.peak_allocated - before.allocated <= 2 * SIZE * 4 + 4096);
    assert_int_equal(after.live_blocks - before.live_blocks, 1);
}

static void test_nn__nothing_is_left_of_a_module(void **state)
{
    haul_memory_stats before, after;
    (void)state;
    haul_scope_pop(haul_scope_push());
    haul_memory_stats_get(haul_cpu(), &before);
    int64_t blocks = 0;
    for (int i = 0; i < 3; i++) {
        haul_scope  *inner = haul_scope_push();
        haul_module *net = haul_model_new("simplecnn");
        haul_tensor *loss = haul_sum(haul_call(net, haul_ones(HAUL_F32, HAUL_SHAPE(2, 3, 32, 32))));
        assert_int_equal(haul_backward(loss), HAUL_OK);
        assert_int_equal(haul_scope_pop(inner), HAUL_OK);
        if (i == 1)
            blocks = haul__host_blocks();
    }
    haul_memory_stats_get(haul_cpu(), &after);
    assert_int_equal(after.live_blocks, before.live_blocks);
    assert_int_equal(haul__host_blocks(), blocks);
}

static int64_t device_allocations(haul_device *device)
{
    haul_memory_stats stats = {0};
    assert_int_equal(haul_memory_stats_get(device, &stats), HAUL_OK);
    return stats.device_allocations;
}

/* After three steps a training lives from the cache. */
static void check_steady(haul_device *device)
{
    haul_scope *outer = haul_scope_push();
    assert_int_equal(haul_set_device(device), HAUL_OK);
    haul_module    *net = haul_model_new("simplecnn");
    haul_optimizer *sgd = haul_sgd(net, 0.01, .momentum = 0.9);
    haul_tensor    *x = haul_ones(HAUL_F32, HAUL_SHAPE(4, 3, 32, 32)), *y = haul_zeros(HAUL_I64, HAUL_SHAPE(4));
    int64_t         after_three = 0;
    for (int i = 0; i < 10; i++) {
        haul_scope *step = haul_scope_push();
        haul_optimizer_zero_grad(sgd);
        assert_int_equal(haul_backward(haul_cross_entropy(haul_call(net, x), y)), HAUL_OK);
        assert_int_equal(haul_optimizer_step(sgd), HAUL_OK);
        haul_scope_pop(step);
        if (i == 2)
            after_three = device_allocations(device);
    }
    assert_int_equal(device_allocations(device), after_three);
    haul_scope_pop(outer);
}

static void test_nn__training_stops_allocating_device_memory(void **state)
{
    haul_device *second = test_second_device();
    (void)state;
    check_steady(haul_cpu());
    if (second)
        check_steady(second);
}

/* Every allocation while a network is built is made to fail in turn. */
static void test_nn__building_that_fails_leaves_nothing(void **state)
{
    int     failures = 0;
    int64_t blocks = -1;
    (void)state;
    for (int64_t nth = 1;; nth++) {
        haul_scope *inner = haul_scope_push();
        haul__fault_plan(HAUL__FAULT_HOST | HAUL__FAULT_DEVICE, nth);
        haul_module *net = haul_model_new("simplecnn");
        haul__fault_plan(0, 0);
        haul_scope_pop(inner);
        haul_memory_release_cached(haul_cpu());
        if (net)
            break;
        failures++;
        assert_int_equal(haul_error_status(), HAUL_OUT_OF_MEMORY);
        haul_error_clear();
        if (nth > 20) {
            assert_true(blocks < 0 || haul__host_blocks() <= blocks);
            blocks = haul__host_blocks();
        }
    }
    assert_true(failures > 50);
}

/* ---- training and evaluation ---- */

static void test_nn__evaluation_reaches_children(void **state)
{
    haul_module *dropout = haul_nn_dropout(0.5), *norm = haul_nn_batch_norm(4);
    haul_module *m = HAUL_SEQUENTIAL(norm, dropout);
    haul_tensor *x = haul_normal(HAUL_F32, HAUL_SHAPE(8, 4), 0, 1);
    (void)state;
    assert_true(haul_module_is_training(m));
    assert_valid(haul_call(m, x));
    assert_int_equal(haul_item_i64(haul_module_buffer(m, "0.num_batches_tracked")), 1);
    assert_int_equal(haul_module_train(m, false), HAUL_OK);
    assert_false(haul_module_is_training(dropout));
    double       mean = haul_item(haul_sum(haul_module_buffer(m, "0.running_mean")));
    haul_tensor *a = haul_call(m, x), *b = haul_call(m, x);
    assert_true(haul_item(haul_max(haul_abs(haul_sub(a, b)))) == 0);
    assert_int_equal(haul_item_i64(haul_module_buffer(m, "0.num_batches_tracked")), 1);
    assert_true(haul_item(haul_sum(haul_module_buffer(m, "0.running_mean"))) == mean);
    haul_module_train(m, true);
    a = haul_call(m, x);
    b = haul_call(m, x);
    assert_true(haul_item(haul_max(haul_abs(haul_sub(a, b)))) > 0);
}

/* ---- placement ---- */

static void test_nn__moving_keeps_handles_and_values(void **state)
{
    haul_device *device = test_second_device();
    haul_module *m = haul_nn_linear(5, 3);
    haul_tensor *weight = haul_module_parameter(m, "weight"), *x = haul_ones(HAUL_F32, HAUL_SHAPE(2, 5));
    double       before = haul_item(haul_sum(haul_call(m, x)));
    (void)state;
    if (!device)
        skip();
    assert_int_equal(haul_backward(haul_sum(haul_call(m, x))), HAUL_OK);
    assert_int_equal(haul_module_to(m, device), HAUL_OK);
    assert_ptr_equal(haul_module_parameter(m, "weight"), weight);
    assert_ptr_equal(haul_tensor_device(weight), device);
    assert_ptr_equal(haul_tensor_device(haul_tensor_grad(weight)), device);
    assert_true(haul_requires_grad(weight));
    assert_failed(haul_call(m, x)); /* moved, not placed: the input stays where it is */
    assert_int_equal(haul_error_status(), HAUL_PLACEMENT);
    haul_error_clear();
    double after = haul_item(haul_sum(haul_call(m, haul_to(x, device))));
    assert_true(fabs(after - before) < 1e-5);
}

static void test_nn__layers_on_different_devices(void **state)
{
    haul_device *device = test_second_device();
    haul_module *m = HAUL_SEQUENTIAL(haul_nn_linear(4, 6), haul_nn_relu(), haul_nn_linear(6, 2));
    haul_tensor *x = haul_set_requires_grad(haul_ones(HAUL_F32, HAUL_SHAPE(3, 4)), true);
    (void)state;
    if (!device)
        skip();
    assert_int_equal(haul_backward(haul_sum(haul_call(m, x))), HAUL_OK);
    double want_x = haul_item(haul_sum(haul_tensor_grad(x)));
    double want_w = haul_item(haul_sum(haul_abs(haul_tensor_grad(haul_module_parameter(m, "0.weight")))));
    haul_set_grad(x, HAUL_NONE);
    haul_optimizer_zero_grad(haul_sgd(m, 1));

    assert_int_equal(haul_module_place(m, haul_cpu()), HAUL_OK);
    assert_int_equal(haul_module_place(haul_module_child(m, "0"), device), HAUL_OK);
    haul_tensor *y = haul_call(m, x);
    assert_ptr_equal(haul_tensor_device(y), haul_cpu());
    assert_int_equal(haul_backward(haul_sum(y)), HAUL_OK);
    assert_ptr_equal(haul_tensor_device(haul_tensor_grad(x)), haul_cpu());
    haul_tensor *w = haul_tensor_grad(haul_module_parameter(m, "0.weight"));
    assert_ptr_equal(haul_tensor_device(w), device);
    assert_true(fabs(haul_item(haul_sum(haul_tensor_grad(x))) - want_x) < 1e-5);
    assert_true(fabs(haul_item(haul_sum(haul_abs(w))) - want_w) < 1e-4);
}

static void test_nn__bad_device_changes_nothing(void **state)
{
    haul_module *m = haul_nn_linear(5, 3);
    (void)state;
    assert_int_equal(haul_module_place(m, haul_device_get("nonsense:3")), HAUL_DEVICE);
    assert_non_null(strstr(haul_error_message(), "nonsense"));
    haul_error_clear();
    assert_ptr_equal(haul_tensor_device(haul_module_parameter(m, "weight")), haul_cpu());
    assert_valid(haul_call(m, haul_ones(HAUL_F32, HAUL_SHAPE(1, 5))));
}

static void test_nn__shapes_on_meta(void **state)
{
    (void)state;
    assert_int_equal(haul_set_device(haul_device_get("meta")), HAUL_OK);
    haul_module *net = haul_model_new("simplecnn", .input = HAUL_SHAPE(3, 64, 48), .outputs = 7);
    haul_tensor *y = haul_call(net, haul_empty(HAUL_F32, HAUL_SHAPE(1000, 3, 64, 48)));
    haul_shape   shape = haul_tensor_shape(y);
    assert_int_equal(shape.ndim, 2);
    assert_int_equal(shape.dims[0], 1000);
    assert_int_equal(shape.dims[1], 7);
    assert_string_equal(haul_device_name(haul_tensor_device(y)), "meta");
    assert_int_equal(haul_backward(haul_sum(y)), HAUL_OK);
}

/* Names and sizes are those of the PyTorch programs in docs/pytorch-programs.md. */
static void test_nn__char_gpt_predicts_each_token(void **state)
{
    (void)state;
    haul_module *net = haul_model_new("char_gpt", .input = HAUL_SHAPE(32));
    assert_int_equal(haul_module_parameter_count(net), 30592);
    assert_ptr_equal(haul_module_parameter(net, "head.weight"), haul_module_parameter(net, "token.weight"));
    assert_valid(haul_module_parameter(net, "blocks.1.attention.in_proj_weight"));
    haul_set_grad_enabled(false);
    haul_tensor *tokens = haul_randint(HAUL_I64, HAUL_SHAPE(2, 32), 0, 128);
    haul_tensor *all = haul_call(net, tokens), *first = haul_call(net, haul_slice(tokens, 1, 0, 20, 1));
    haul_shape   shape = haul_tensor_shape(all);
    assert_int_equal(shape.ndim, 3);
    assert_int_equal(shape.dims[1], 32);
    assert_int_equal(shape.dims[2], 128);
    /* Later tokens change nothing before them. */
    haul_tensor *difference = haul_sub(haul_slice(all, 1, 0, 20, 1), first);
    assert_true(haul_item(haul_max(haul_abs(difference))) < 1e-5);
    assert_false(haul_tensor_is_valid(haul_call(net, haul_zeros(HAUL_I64, HAUL_SHAPE(1, 33)))));
    assert_non_null(strstr(haul_error_message(), "at most 32"));
    haul_error_clear();
}

static void test_nn__unet_keeps_the_size(void **state)
{
    (void)state;
    haul_module *net = haul_model_new("unet", .input = HAUL_SHAPE(1, 32, 32), .outputs = 1);
    haul_module *kinds = haul_model_new("unet", .input = HAUL_SHAPE(1, 32, 32), .outputs = 1, .kinds = 2);
    assert_int_equal(haul_module_parameter_count(kinds) - haul_module_parameter_count(net), 2 * 32);
    haul_tensor *x = haul_ones(HAUL_F32, HAUL_SHAPE(3, 1, 20, 28));
    haul_shape   shape = haul_tensor_shape(haul_call(net, x));
    assert_int_equal(shape.ndim, 4);
    assert_int_equal(shape.dims[1], 1);
    assert_int_equal(shape.dims[2], 20);
    assert_int_equal(shape.dims[3], 28);
    assert_valid(haul_call(kinds, x, haul_zeros(HAUL_I64, HAUL_SHAPE(3))));
    assert_false(haul_tensor_is_valid(haul_call(kinds, x)));
    assert_non_null(strstr(haul_error_message(), "kind"));
    haul_error_clear();
}

/* The parameters of L blocks of F features are L (12 F^2 + 13 F), those around them F (tokens + context + 2). */
static void test_nn__char_gpt_has_any_size(void **state)
{
    (void)state;
    haul_module *net =
        haul_model_new("char_gpt", .input = HAUL_SHAPE(10), .outputs = 7, .layers = 3, .features = 12, .heads = 6);
    assert_int_equal(haul_module_parameter_count(net), 3 * (12 * 12 * 12 + 13 * 12) + 12 * (7 + 10 + 2));
    haul_shape shape = haul_tensor_shape(haul_call(net, haul_zeros(HAUL_I64, HAUL_SHAPE(2, 5))));
    assert_int_equal(shape.dims[0], 2);
    assert_int_equal(shape.dims[1], 5);
    assert_int_equal(shape.dims[2], 7);
    haul_module *usual = haul_model_new("char_gpt"), *same = haul_model_new("char_gpt", .layers = 2, .features = 32);
    assert_int_equal(haul_module_parameter_count(usual), haul_module_parameter_count(same));
}

static void assert_no_model(haul_module *m, const char *argument, const char *message)
{
    assert_null(m);
    assert_string_equal(haul_error_argument(), argument);
    if (!strstr(haul_error_message(), message))
        fail_msg("%s: %s is expected", haul_error_message(), message);
    haul_error_clear();
}

static void test_nn__models_refuse_sizes(void **state)
{
    (void)state;
    assert_no_model(haul_model_new("char_gpt", .layers = -1), "layers", "at least 1");
    assert_no_model(haul_model_new("char_gpt", .layers = 1025), "layers", "at most 1024");
    assert_no_model(haul_model_new("char_gpt", .heads = 5), "heads", "multiple of heads");
    assert_no_model(haul_model_new("char_gpt", .features = INT64_MAX, .heads = 1), "features", "at most");
    assert_no_model(haul_model_new("simplecnn", .features = 8), "features", "leave it out");
}

static void test_nn__models_refuse_other_examples(void **state)
{
    (void)state;
    assert_null(haul_model_new("char_gpt", .input = HAUL_SHAPE(3, 32, 32)));
    assert_string_equal(haul_error_argument(), "input");
    haul_error_clear();
    assert_null(haul_model_new("unet", .input = HAUL_SHAPE(3, 30, 32)));
    assert_non_null(strstr(haul_error_message(), "multiples of 4"));
    haul_error_clear();
    assert_null(haul_model_new("unet", .kinds = -1));
    assert_string_equal(haul_error_argument(), "kinds");
    haul_error_clear();
    assert_null(haul_model_new("dense", .kinds = 2));
    assert_non_null(strstr(haul_error_message(), "dense has one input"));
    haul_error_clear();
}

/* ---- layers and initialisation ---- */

static void test_nn__default_initialisation_is_pytorchs(void **state)
{
    haul_tensor *weight = haul_module_parameter(haul_nn_conv2d(3, 64, 5), "weight");
    haul_tensor *bias = haul_module_parameter(haul_nn_linear(400, 10000), "bias");
    double       bound = 1 / sqrt(3 * 5 * 5);
    (void)state;
    haul_set_grad_enabled(false);
    double high = haul_item(haul_max(weight)), low = haul_item(haul_min(weight));
    assert_true(high <= bound && high > 0.98 * bound);
    assert_true(low >= -bound && low < -0.98 * bound);
    assert_true(fabs(haul_item(haul_mean(weight))) < 0.05 * bound);
    assert_true(haul_item(haul_max(bias)) <= 0.05 && haul_item(haul_max(bias)) > 0.0499);
}

static void test_nn__init_in_place(void **state)
{
    haul_module *m = haul_nn_linear(300, 200);
    haul_tensor *w = haul_module_parameter(m, "weight");
    (void)state;
    assert_int_equal(haul_init_xavier_uniform(w, 2), HAUL_OK);
    haul_set_grad_enabled(false);
    double bound = 2 * sqrt(6.0 / 500);
    assert_true(haul_item(haul_max(w)) <= bound && haul_item(haul_max(w)) > 0.99 * bound);
    assert_int_equal(haul_init_kaiming_uniform(w, 0), HAUL_OK);
    bound = sqrt(6.0 / 300);
    assert_true(haul_item(haul_max(w)) <= bound && haul_item(haul_max(w)) > 0.99 * bound);
    assert_int_equal(haul_init_normal(w, 5, 0.1), HAUL_OK);
    assert_true(fabs(haul_item(haul_mean(w)) - 5) < 0.01);
    assert_int_equal(haul_init_uniform(w, 2, 3), HAUL_OK);
    assert_true(haul_item(haul_min(w)) >= 2);
    assert_int_equal(haul_init_kaiming_uniform(haul_module_parameter(m, "bias"), 0), HAUL_SHAPE);
    assert_int_equal(haul_init_uniform(haul_zeros(HAUL_I32, HAUL_SHAPE(2)), 0, 1), HAUL_DTYPE);
    assert_int_not_equal(haul_init_uniform(NULL, 0, 1), HAUL_OK);
}

static void test_nn__same_seed_same_network(void **state)
{
    haul_module *a, *b;
    (void)state;
    haul_manual_seed(7);
    a = haul_model_new("simplecnn");
    haul_manual_seed(7);
    b = haul_model_new("simplecnn");
    haul_set_grad_enabled(false);
    haul_tensor *difference = haul_sub(haul_module_parameter(a, "fc1.weight"), haul_module_parameter(b, "fc1.weight"));
    assert_true(haul_item(haul_max(haul_abs(difference))) == 0);
}

static void test_nn__layer_shapes(void **state)
{
    haul_tensor *x = haul_ones(HAUL_F32, HAUL_SHAPE(2, 4, 9, 8));
    haul_module *conv = haul_nn_conv2d(4, 6, 3, .kernel_w = 2, .stride = {2, 1}, .padding = {1, HAUL_ZERO}, .groups = 2,
                                       .no_bias = true);
    haul_shape   shape = haul_tensor_shape(haul_call(conv, x));
    (void)state;
    assert_int_equal(shape.dims[1], 6);
    assert_int_equal(shape.dims[2], 5);
    assert_int_equal(shape.dims[3], 7);
    assert_int_equal(haul_module_parameter_count(conv), 6 * 2 * 3 * 2);
    shape = haul_tensor_shape(haul_call(haul_nn_avg_pool2d(2), x));
    assert_int_equal(shape.dims[2], 4);
    shape = haul_tensor_shape(haul_call(haul_nn_max_pool2d(3, .stride = {2, 1}, .padding = {1, 1}), x));
    assert_int_equal(shape.dims[2], 5);
    assert_int_equal(shape.dims[3], 8);
    shape = haul_tensor_shape(haul_call(haul_nn_flatten(1), x));
    assert_int_equal(shape.ndim, 2);
    assert_int_equal(shape.dims[1], 4 * 9 * 8);
    assert_int_equal(haul_module_parameter_count(haul_nn_linear(3, 4, .no_bias = true)), 12);
}

static void test_nn__bad_sizes_are_refused(void **state)
{
    (void)state;
    assert_null(haul_nn_linear(0, 3));
    assert_string_equal(haul_error_argument(), "in_features");
    assert_null(haul_nn_linear(3, -1));
    assert_null(haul_nn_conv2d(3, 4, 0));
    assert_null(haul_nn_conv2d(3, 4, 3, .groups = 2));
    assert_string_equal(haul_error_argument(), "groups");
    assert_null(haul_nn_conv2d(INT64_MAX, 4, INT64_MAX));
    assert_null(haul_nn_dropout(1.5));
    assert_null(haul_nn_dropout(NAN));
    assert_null(haul_nn_max_pool2d(0));
    assert_null(haul_nn_batch_norm(0));
    assert_null(haul_model_new("simplecnn", .input = HAUL_SHAPE(10)));
    assert_non_null(strstr(haul_error_message(), "16x16"));
    haul_error_clear();
    haul_module *list[] = {haul_nn_relu(), NULL};
    assert_null(haul_nn_sequential(list, 2));
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_nn__##name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(names_are_those_of_pytorch),
        TEST(parameters_come_before_buffers),
        TEST(names_stay_when_modules_are_added),
        TEST(bad_names_are_refused),
        TEST(unknown_names_list_what_there_is),
        TEST(parameters_must_be_floating_leaves),
        TEST(user_written_module),
        TEST(passing_the_input_through_gives_a_fresh_handle),
        TEST(errors_name_the_layer),
        TEST(calls_can_be_watched),
        TEST(sequential_drops_what_is_used_up),
        TEST(nothing_is_left_of_a_module),
        TEST(training_stops_allocating_device_memory),
        TEST(building_that_fails_leaves_nothing),
        TEST(evaluation_reaches_children),
        TEST(moving_keeps_handles_and_values),
        TEST(layers_on_different_devices),
        TEST(bad_device_changes_nothing),
        TEST(shapes_on_meta),
        TEST(char_gpt_predicts_each_token),
        TEST(unet_keeps_the_size),
        TEST(char_gpt_has_any_size),
        TEST(models_refuse_sizes),
        TEST(models_refuse_other_examples),
        TEST(default_initialisation_is_pytorchs),
        TEST(init_in_place),
        TEST(same_seed_same_network),
        TEST(layer_shapes),
        TEST(bad_sizes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
