/* Modules that run again in the backward pass: the same bits as without, less memory, side effects once.
 *
 * ctest: cuda; labels=threads; cuda-labels=threads,once */
#include <haul/haul.h>

#include "support/bits.h"

enum { MOST = 64 };

static void assert_same_tensors(haul_module *a, haul_module *b, bool gradients)
{
    haul_named_tensor x[MOST], y[MOST];
    int               count = haul_module_tensors(a, x, MOST);
    assert_in_range(count, 1, MOST);
    assert_int_equal(haul_module_tensors(b, y, MOST), count);
    for (int i = 0; i < count; i++) {
        assert_same_bits(x[i].tensor, y[i].tensor, x[i].name);
        if (gradients && !x[i].is_buffer)
            assert_same_bits(haul_tensor_grad(x[i].tensor), haul_tensor_grad(y[i].tensor), x[i].name);
    }
}

/* ---- modules ---- */

static haul_tensor *residual(haul_module *self, haul_args *args)
{
    return haul_relu(haul_add(haul_call_child(self, "body", args->x[0]), args->x[0]));
}

static haul_module *block(int64_t channels)
{
    haul_module *m = haul_module_new("residual", residual);
    haul_module_add(m, "body",
                    HAUL_SEQUENTIAL(haul_nn_conv2d(channels, channels, 3, .padding = {1, 1}),
                                    haul_nn_batch_norm(channels), haul_nn_relu(), haul_nn_dropout(0.25),
                                    haul_nn_conv2d(channels, channels, 3, .padding = {1, 1})));
    return m;
}

static haul_module *network(void)
{
    haul_manual_seed(7);
    return HAUL_SEQUENTIAL(haul_nn_conv2d(3, 8, 3, .padding = {1, 1}), block(8), block(8), block(8), block(8),
                           haul_nn_max_pool2d(2), haul_nn_flatten(1), haul_nn_linear(8 * 4 * 4, 5));
}

/* Children `from` to `to` run again. */
static void recompute_children(haul_module *net, int from, int to)
{
    haul_named_module children[MOST];
    int               count = haul_module_children(net, children, MOST);
    for (int i = from; i <= to && i < count; i++)
        assert_int_equal(haul_module_recompute(children[i].module, true), HAUL_OK);
}

typedef struct training {
    haul_module    *net;
    haul_optimizer *sgd;
    haul_tensor    *x, *y;
    haul_dtype      lower;
} training;

static training training_on(haul_device *device, int64_t batch)
{
    training t = {.net = network()};
    int64_t  labels[MOST];
    for (int64_t i = 0; i < batch; i++)
        labels[i] = i % 5;
    t.sgd = haul_sgd(t.net, 0.05, .momentum = 0.9);
    t.x = sample_tensor(device, HAUL_F32, HAUL_SHAPE(batch, 3, 8, 8), 3, NULL);
    t.y = haul_to(haul_from_host(HAUL_I64, HAUL_SHAPE(batch), labels), device);
    assert_non_null(t.sgd);
    return t;
}

static haul_status step(void *context)
{
    training           *t = context;
    haul_scope         *scope = haul_scope_push();
    haul_autocast_state before = haul_autocast_begin("all", t->lower);
    haul_tensor        *loss = haul_cross_entropy(haul_call(t->net, t->x), t->y);
    haul_status         status = haul_autocast_end(before);
    if (!status)
        status = haul_optimizer_zero_grad(t->sgd);
    if (!status)
        status = haul_backward(loss);
    if (!status)
        status = haul_optimizer_step(t->sgd);
    haul_scope_pop(scope);
    return status;
}

static haul_module *trained(haul_device *device, int from, int to, haul_dtype lower)
{
    training t = training_on(device, 6);
    t.lower = lower;
    recompute_children(t.net, from, to);
    haul_manual_seed(11);
    for (int i = 0; i < 3; i++)
        assert_int_equal(step(&t), HAUL_OK);
    return t.net;
}

/* Dropout, batch normalisation and its statistics, residual connections, updates. */
static void check_training(haul_device *device)
{
    haul_set_device(device);
    haul_module      *plain = trained(device, 1, 0, HAUL_DTYPE_NONE);
    haul_random_state state = haul_random_state_get();
    static const int  parts[][2] = {{0, 0}, {1, 1}, {1, 4}, {0, 7}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        haul_module *again = trained(device, parts[i][0], parts[i][1], HAUL_DTYPE_NONE);
        assert_same_tensors(plain, again, true);
        assert_int_equal(haul_random_state_get().offset, state.offset);
    }
}

static void check_autocast(haul_device *device)
{
    haul_set_device(device);
    haul_module *plain = trained(device, 1, 0, HAUL_BF16);
    assert_same_tensors(plain, trained(device, 1, 4, HAUL_BF16), true);
}

/* A part of a part: the inner ones run a third time. */
static void check_nested(haul_device *device)
{
    haul_set_device(device);
    training plain = training_on(device, 6), nested = training_on(device, 6);
    recompute_children(nested.net, 1, 4);
    for (int i = 1; i <= 4; i++) {
        char path[32];
        snprintf(path, sizeof path, "%d.body", i);
        assert_int_equal(haul_module_recompute(haul_module_child(nested.net, path), true), HAUL_OK);
    }
    assert_int_equal(haul_module_recompute(nested.net, true), HAUL_OK);
    for (int i = 0; i < 3; i++) {
        haul_manual_seed((uint64_t)i);
        assert_int_equal(step(&plain), HAUL_OK);
        haul_manual_seed((uint64_t)i);
        assert_int_equal(step(&nested), HAUL_OK);
    }
    assert_same_tensors(plain.net, nested.net, true);
}

/* Runs of children as parts; overlapping ones. */
static void check_children(haul_device *device)
{
    haul_set_device(device);
    training plain = training_on(device, 6), parts = training_on(device, 6);
    assert_int_equal(haul_module_recompute_children(parts.net, "0", "0", true), HAUL_OK);
    assert_int_equal(haul_module_recompute_children(parts.net, "0", "2", true), HAUL_OK);
    assert_int_equal(haul_module_recompute_children(parts.net, "3", "5", true), HAUL_OK);
    assert_int_equal(haul_module_recompute_children(parts.net, "5", "7", true), HAUL_OK);
    parts.net = haul_module_clone(parts.net);
    parts.sgd = haul_sgd(parts.net, 0.05, .momentum = 0.9);
    for (int i = 0; i < 3; i++) {
        haul_manual_seed((uint64_t)i);
        assert_int_equal(step(&plain), HAUL_OK);
        haul_manual_seed((uint64_t)i);
        assert_int_equal(step(&parts), HAUL_OK);
    }
    assert_same_tensors(plain.net, parts.net, true);
}

static void test_recompute__training_has_the_same_bits(void **state)
{
    (void)state;
    on_devices(check_children);
    on_devices(check_training);
    on_devices(check_autocast);
    on_devices(check_nested);
}

/* ---- memory ---- */

static int64_t measured_peak(training *t, haul_device *device)
{
    haul_memory_stats stats;
    for (int i = 0; i < 2; i++)
        assert_int_equal(step(t), HAUL_OK);
    assert_int_equal(haul_device_sync(device), HAUL_OK);
    assert_int_equal(haul_memory_reset_peak(device), HAUL_OK);
    assert_int_equal(haul_memory_stats_get(device, &stats), HAUL_OK);
    int64_t before = stats.allocated;
    assert_int_equal(step(t), HAUL_OK);
    assert_int_equal(haul_memory_stats_get(device, &stats), HAUL_OK);
    return stats.peak_allocated - before;
}

static int64_t estimated_peak(training *t, haul_device *device)
{
    haul_estimate_result r;
    int64_t              peak = 0;
    assert_int_equal(haul_estimate(step, t, &r), HAUL_OK);
    for (int i = 0; i < r.device_count; i++)
        if (r.devices[i].device == device)
            peak = r.devices[i].peak_bytes - r.devices[i].start_bytes;
    haul_estimate_free(&r);
    return peak;
}

static void check_memory_of(haul_device *device, haul_dtype lower)
{
    haul_set_device(device);
    training plain = training_on(device, 64), again = training_on(device, 64);
    plain.lower = again.lower = lower;
    recompute_children(again.net, 1, 4);
    int64_t most = measured_peak(&plain, device), less = measured_peak(&again, device);
    if (less > most * 2 / 3)
        fail_msg("the peak is %lld bytes, and %lld without recomputation", (long long)less, (long long)most);
    int64_t estimate = estimated_peak(&again, device);
    if (estimate != less)
        fail_msg("the estimate is %lld bytes, the peak %lld", (long long)estimate, (long long)less);
}

static void check_memory(haul_device *device)
{
    check_memory_of(device, HAUL_DTYPE_NONE);
    check_memory_of(device, HAUL_BF16);
}

static void test_recompute__peak_is_lower(void **state)
{
    (void)state;
    on_devices(check_memory);
}

/* ---- modules: modes, several results, side effects ---- */

static haul_tensor *leaf(haul_device *device, haul_dtype dtype, haul_shape shape, unsigned seed)
{
    return haul_set_requires_grad(sample_tensor(device, dtype, shape, seed, NULL), true);
}

static haul_tensor *count_runs(haul_module *self, haul_args *args)
{
    int *runs = haul_module_state(self);
    runs[haul_recomputing()]++;
    args->y[1] = haul_exp(haul_dropout(args->x[0], 0.5, args->training));
    args->y[2] = haul_argmax(args->x[0], 0, false);
    return haul_mul(args->x[0], args->x[0]);
}

static haul_tensor *call_child(haul_module *self, haul_args *args)
{
    haul_tensor *y = haul_call_child(self, "child", args->x[0], .more = {&args->y[1], &args->y[2]});
    return y;
}

static void check_modes(haul_device *device)
{
    haul_tensor *leaves[2] = {leaf(device, HAUL_F32, HAUL_SHAPE(99), 3), leaf(device, HAUL_F32, HAUL_SHAPE(99), 3)};
    haul_module *outer = haul_module_new("outer", call_child, .results = "y, e, i");
    haul_module *inner = haul_module_new("inner", count_runs, .results = "y, e, i", .state_bytes = 2 * sizeof(int));
    haul_module_add(outer, "child", inner);
    for (int again = 0; again < 2; again++) {
        haul_tensor *e, *i;
        haul_module_recompute(outer, again);
        assert_true(haul_module_recomputes(outer) == again);
        haul_module_train(outer, true);
        haul_manual_seed(1);
        haul_tensor *y = haul_call(outer, leaves[again], .more = {&e, &i});
        assert_int_equal(haul_tensor_dtype(i), HAUL_I64);
        haul_module_train(outer, false); /* the second run is in training all the same */
        assert_int_equal(haul_backward(haul_add(haul_sum(y), haul_sum(e))), HAUL_OK);
    }
    assert_same_bits(haul_tensor_grad(leaves[0]), haul_tensor_grad(leaves[1]), "the gradient");
    assert_int_equal(((int *)haul_module_state(inner))[0], 2);
    assert_int_equal(((int *)haul_module_state(inner))[1], 1);
    assert_true(haul_module_recomputes(haul_module_clone(outer)));
}

static void test_recompute__modules(void **state)
{
    (void)state;
    on_devices(check_modes);
}

static void test_recompute__wrong_modules(void **state)
{
    (void)state;
    haul_scope *scope = haul_scope_push();
    assert_int_equal(haul_module_recompute(NULL, true), HAUL_INVALID_ARGUMENT);
    haul_error_clear();
    assert_false(haul_module_recomputes(NULL));
    haul_error_clear();
    haul_module *net = network(), *custom = block(2);
    assert_refused(haul_module_recompute_children(net, "9", "0", true) ? NULL : net, HAUL_INVALID_ARGUMENT, "'9'");
    assert_refused(haul_module_recompute_children(net, "2", "1", true) ? NULL : net, HAUL_INVALID_ARGUMENT,
                   "'1' comes before '2'");
    assert_refused(haul_module_recompute_children(net, "1.body", "2", true) ? NULL : net, HAUL_INVALID_ARGUMENT,
                   "not a child");
    assert_refused(haul_module_recompute_children(net, "2", NULL, true) ? NULL : net, HAUL_INVALID_ARGUMENT,
                   "last is NULL");
    assert_refused(haul_module_recompute_children(custom, "body", "body", true) ? NULL : net, HAUL_INVALID_ARGUMENT,
                   "in order");
    haul_scope_pop(scope);
}

/* Only the input of a part and its result are kept; between parts, nothing is. */
static void test_recompute__runs_of_children(void **state)
{
    (void)state;
    haul_scope *scope = haul_scope_push();
    training    t = training_on(haul_cpu(), 32);
    int64_t     plain = estimated_peak(&t, haul_cpu());
    assert_int_equal(haul_module_recompute_children(t.net, "0", "2", true), HAUL_OK);
    assert_int_equal(haul_module_recompute_children(t.net, "3", "7", true), HAUL_OK);
    int64_t two = estimated_peak(&t, haul_cpu());
    assert_true(two < plain);
    assert_int_equal(haul_module_recompute_children(t.net, "0", "7", false), HAUL_OK);
    assert_int_equal(estimated_peak(&t, haul_cpu()), plain);
    haul_scope_pop(scope);
}

/* The list of an estimate names the layers of the second run as those of the first. */
static void test_recompute__names_of_layers(void **state)
{
    (void)state;
    haul_scope          *scope = haul_scope_push();
    haul_estimate_result r;
    training             t = training_on(haul_cpu(), 4);
    int                  calls = 0;
    recompute_children(t.net, 2, 2);
    assert_int_equal(haul_estimate(step, &t, &r), HAUL_OK);
    for (int64_t i = 0; i < r.operation_count; i++)
        calls += !strcmp(r.operations[i].name, "haul_conv2d") && !strcmp(r.operations[i].module, "2.body.4");
    assert_int_equal(calls, 2);
    haul_estimate_free(&r);
    haul_scope_pop(scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recompute__training_has_the_same_bits),
        cmocka_unit_test(test_recompute__peak_is_lower),
        cmocka_unit_test(test_recompute__modules),
        cmocka_unit_test(test_recompute__wrong_modules),
        cmocka_unit_test(test_recompute__runs_of_children),
        cmocka_unit_test(test_recompute__names_of_layers),
    };
    return cmocka_run_group_tests_name("recompute", tests, NULL, NULL);
}
