/* Parts of a network that run again in the backward pass: the same bits as without, less memory, side effects once,
 * and what is refused.
 *
 * ctest: cuda */
#include <haul/haul.h>

#include "core/alloc.h"
#include "support/linalg.h"

enum { MOST = 64 };

/* ---- comparing bits ---- */

static void assert_same_bits(haul_tensor *a, haul_tensor *b, const char *what)
{
    if (!haul_tensor_is_valid(a) || !haul_tensor_is_valid(b))
        fail_msg("%s: %s", what, haul_error_message());
    size_t bytes = haul_tensor_bytes(a);
    char  *x = malloc(2 * bytes + 1), *y = x + bytes;
    assert_non_null(x);
    assert_int_equal(haul_tensor_bytes(b), bytes);
    assert_int_equal(haul_read(a, x, bytes), HAUL_OK);
    assert_int_equal(haul_read(b, y, bytes), HAUL_OK);
    if (memcmp(x, y, bytes) != 0)
        fail_msg("%s: the bits differ", what);
    free(x);
}

/* The same up to rounding. */
static void assert_near(haul_tensor *a, haul_tensor *b, const char *what)
{
    int64_t count = haul_tensor_count(a);
    double *x = calloc((size_t)count, sizeof *x), *y = calloc((size_t)count, sizeof *y);
    assert_true(x && y);
    assert_int_equal(read_values(a, x, count), HAUL_OK);
    assert_int_equal(read_values(b, y, count), HAUL_OK);
    for (int64_t i = 0; i < count; i++)
        if (!(fabs(x[i] - y[i]) <= 1e-9 * (1 + fabs(x[i]))))
            fail_msg("%s: element %lld is %.9g, and %.9g without recomputation", what, (long long)i, y[i], x[i]);
    free(x);
    free(y);
}

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
        status = haul_backward(loss, HAUL_NONE);
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

static void check_memory(haul_device *device)
{
    haul_set_device(device);
    training plain = training_on(device, 64), again = training_on(device, 64);
    recompute_children(again.net, 1, 4);
    int64_t most = measured_peak(&plain, device), less = measured_peak(&again, device);
    if (less > most * 2 / 3)
        fail_msg("the peak is %lld bytes, and %lld without recomputation", (long long)less, (long long)most);
    int64_t estimate = estimated_peak(&again, device);
    if (estimate != less)
        fail_msg("the estimate is %lld bytes, the peak %lld", (long long)estimate, (long long)less);
}

static void test_recompute__peak_is_lower(void **state)
{
    (void)state;
    on_devices(check_memory);
}

/* ---- functions ---- */

typedef struct shared {
    haul_tensor *w, *v; /* leaves */
    haul_tensor *made;  /* from leaves; may be NULL */
    int          calls, released, fails_at, ends_at;
} shared;

/* Uses w twice, each input once or twice, and v. */
static haul_tensor *compute(haul_tensor *const *inputs, int count, void *context)
{
    shared *s = context;
    s->calls++;
    if (s->calls == s->fails_at) {
        haul_error_set(HAUL_STATE, "compute", NULL, "the function fails now");
        return NULL;
    }
    haul_tensor *y = haul_mul(haul_tanh(haul_matmul(inputs[0], s->w)), s->v);
    for (int i = 1; i < count; i++)
        if (inputs[i] != HAUL_NONE)
            y = haul_add(y, haul_mul(inputs[i], haul_sigmoid(inputs[i])));
    if (s->made)
        y = haul_mul(y, s->made);
    y = haul_dropout(haul_matmul(haul_mul(y, y), s->w), 0.5, true);
    return s->calls == s->ends_at ? haul_sum(y) : y;
}

static void count_release(void *context)
{
    ((shared *)context)->released++;
}

static haul_tensor *leaf(haul_device *device, haul_dtype dtype, haul_shape shape, unsigned seed)
{
    return haul_set_requires_grad(sample_tensor(device, dtype, shape, seed, NULL), true);
}

/* The leaves and x are used inside and outside of the function, so the order of sums matters. */
static haul_tensor *around(shared *s, haul_tensor *x, haul_tensor *z, bool again)
{
    haul_tensor *before = haul_mul(haul_exp(haul_mul_scalar(x, 0.1)), s->v), *inputs[] = {before, z, HAUL_NONE};
    s->made = haul_cos(s->v);
    haul_tensor *y = again ? haul_recompute(compute, inputs, 3, s, .release = count_release) : compute(inputs, 3, s);
    y = haul_add(haul_matmul(y, s->w), haul_mul(before, z));
    return haul_sum(haul_mul(y, haul_mul_scalar(s->v, 0.37)));
}

enum { LEAVES = 4, SIDE = 17 };

static void leaves_of(haul_device *device, haul_dtype dtype, shared *s, haul_tensor *leaves[LEAVES])
{
    *s = (shared){.w = leaf(device, dtype, HAUL_SHAPE(SIDE, SIDE), 1), .v = leaf(device, dtype, HAUL_SHAPE(SIDE), 2)};
    leaves[0] = s->w;
    leaves[1] = s->v;
    leaves[2] = leaf(device, dtype, HAUL_SHAPE(SIDE, SIDE), 3);
    leaves[3] = leaf(device, dtype, HAUL_SHAPE(SIDE, SIDE), 4);
}

static void check_gradients(haul_device *device)
{
    shared       s;
    haul_tensor *leaves[LEAVES], *results[2][LEAVES];
    leaves_of(device, HAUL_F32, &s, leaves);
    for (int again = 0; again < 2; again++) {
        haul_scope *scope = haul_scope_push();
        haul_manual_seed(5);
        haul_tensor *y = around(&s, leaves[2], leaves[3], again);
        for (int passes = 0; passes < 2; passes++) /* the graph can be used again */
            assert_int_equal(haul_backward(y, HAUL_NONE), HAUL_OK);
        haul_scope_pop(scope);
        for (int i = 0; i < LEAVES; i++) {
            results[again][i] = haul_clone(haul_tensor_grad(leaves[i]));
            haul_set_grad(leaves[i], HAUL_NONE);
        }
    }
    for (int i = 0; i < LEAVES; i++)
        assert_same_bits(results[0][i], results[1][i], "a gradient");
    assert_int_equal(s.calls, 1 + 1 + 2);
    assert_int_equal(s.released, 1);
}

/* Gradients of gradients: their sums have another order, because the second run's nodes are newer than others. */
static void check_second_order(haul_device *device)
{
    shared       s;
    haul_tensor *leaves[LEAVES], *results[2][LEAVES];
    leaves_of(device, HAUL_F64, &s, leaves);
    for (int again = 0; again < 2; again++) {
        haul_tensor *first[LEAVES], *sum = NULL;
        haul_manual_seed(5);
        haul_tensor *y = around(&s, leaves[2], leaves[3], again);
        assert_int_equal(haul_grad(y, leaves, LEAVES, first, .create_graph = true), HAUL_OK);
        for (int i = 0; i < LEAVES; i++) {
            haul_tensor *part = haul_sum(haul_mul(first[i], first[i]));
            sum = sum ? haul_add(sum, part) : part;
        }
        assert_int_equal(haul_grad(sum, leaves, LEAVES, results[again]), HAUL_OK);
    }
    for (int i = 0; i < LEAVES; i++)
        assert_near(results[0][i], results[1][i], "a second gradient");
}

/* The gradient of an intermediate result that is an input, and of the result itself. */
static void check_intermediate(haul_device *device)
{
    shared       s;
    haul_tensor *leaves[LEAVES], *results[2][2];
    leaves_of(device, HAUL_F32, &s, leaves);
    for (int again = 0; again < 2; again++) {
        haul_manual_seed(5);
        haul_tensor *x = haul_exp(leaves[2]);
        haul_tensor *y = again ? haul_recompute(compute, &x, 1, &s) : compute(&x, 1, &s), *wanted[] = {x, y};
        assert_int_equal(haul_grad(haul_sum(haul_mul(y, y)), wanted, 2, results[again]), HAUL_OK);
    }
    assert_same_bits(results[0][0], results[1][0], "the input's gradient");
    assert_same_bits(results[0][1], results[1][1], "the result's gradient");
}

static void test_recompute__gradients_of_functions(void **state)
{
    (void)state;
    on_devices(check_gradients);
    on_devices(check_second_order);
    on_devices(check_intermediate);
}

/* ---- results that need no second run ---- */

static haul_tensor *first_of(haul_tensor *const *inputs, int count, void *context)
{
    (void)count;
    (void)context;
    return inputs[0];
}

static haul_tensor *detached(haul_tensor *const *inputs, int count, void *context)
{
    (void)count;
    (void)context;
    return haul_exp(haul_detach(inputs[0]));
}

static void check_plain(haul_device *device)
{
    shared       s;
    haul_tensor *leaves[LEAVES], *x, *plain = sample_tensor(device, HAUL_F32, HAUL_SHAPE(SIDE, SIDE), 9, NULL);
    leaves_of(device, HAUL_F32, &s, leaves);
    x = haul_recompute(first_of, &leaves[2], 1, NULL); /* the function returns its input, a leaf */
    assert_int_equal(haul_backward(haul_sum(x), HAUL_NONE), HAUL_OK);
    assert_true(haul_item(haul_sum(haul_tensor_grad(leaves[2]))) == SIDE * SIDE);
    assert_true(haul_recompute(first_of, &plain, 1, NULL) == plain);
    assert_false(haul_requires_grad(haul_recompute(detached, leaves, 1, &s, .release = count_release)));
    assert_int_equal(s.released, 1);
    haul_scope *scope = haul_scope_push();
    haul_set_grad_enabled(false);
    assert_false(haul_requires_grad(haul_recompute(compute, &plain, 1, &s, .release = count_release)));
    assert_int_equal(s.released, 2);
    haul_scope_pop(scope);
    x = haul_recompute(compute, &plain, 1, &s); /* only leaves that are not inputs require gradients */
    assert_int_equal(haul_backward(haul_sum(x), HAUL_NONE), HAUL_OK);
    assert_true(haul_tensor_grad(s.v) != HAUL_NONE);
}

static void test_recompute__results_without_a_second_run(void **state)
{
    (void)state;
    on_devices(check_plain);
}

/* ---- failures ---- */

static void check_failures(haul_device *device)
{
    shared       s;
    haul_tensor *leaves[LEAVES];
    leaves_of(device, HAUL_F32, &s, leaves);
    s.fails_at = 1;
    assert_refused(haul_recompute(compute, &leaves[2], 1, &s, .release = count_release), HAUL_STATE, "fails now");
    assert_int_equal(s.released, 1);

    haul_random_state random = haul_random_state_get();
    s.fails_at = 3;
    haul_tensor *y = haul_recompute(compute, &leaves[2], 1, &s);
    assert_true(haul_random_state_get().offset > random.offset);
    random = haul_random_state_get();
    assert_int_equal(haul_backward(haul_sum(y), HAUL_NONE), HAUL_STATE);
    assert_non_null(strstr(haul_error_message(), "fails now"));
    haul_error_clear();
    for (int i = 0; i < LEAVES; i++)
        assert_true(haul_tensor_grad(leaves[i]) == HAUL_NONE);
    assert_int_equal(haul_random_state_get().offset, random.offset);
    assert_int_equal(haul_backward(haul_sum(y), HAUL_NONE), HAUL_OK); /* it succeeds the next time */

    s.ends_at = s.calls + 2;
    y = haul_recompute(compute, &leaves[2], 1, &s);
    assert_refused(haul_backward(haul_sum(y), HAUL_NONE) ? NULL : &s, HAUL_GRAPH, "the same both times");
}

static haul_tensor *differentiating(haul_tensor *const *inputs, int count, void *context)
{
    haul_tensor *result;
    (void)count;
    (void)context;
    haul_grad(haul_sum(haul_exp(inputs[0])), inputs, 1, &result);
    return result;
}

static void check_changes(haul_device *device)
{
    shared       s;
    haul_tensor *leaves[LEAVES], *x = sample_tensor(device, HAUL_F32, HAUL_SHAPE(SIDE, SIDE), 9, NULL), *y, *late;
    leaves_of(device, HAUL_F32, &s, leaves);
    y = haul_recompute(compute, &x, 1, &s);
    haul_add_scalar_into(x, x, 1);
    assert_refused(haul_backward(haul_sum(y), HAUL_NONE) ? NULL : &s, HAUL_GRAPH, "an input of the function");

    y = haul_recompute(compute, &x, 1, &s);
    haul_set_grad_enabled(false);
    haul_add_scalar_into(s.v, s.v, 1);
    haul_set_grad_enabled(true);
    assert_refused(haul_backward(haul_sum(y), HAUL_NONE) ? NULL : &s, HAUL_GRAPH, "a parameter of the function");

    assert_refused(haul_recompute(differentiating, &leaves[2], 1, NULL), HAUL_GRAPH, "haul_recompute");

    y = haul_recompute(compute, &x, 1, &s);
    s.made = late = haul_exp(s.v); /* not what the first run used, and visited before it */
    assert_refused(haul_backward(haul_add(haul_sum(y), haul_sum(late)), HAUL_NONE) ? NULL : &s, HAUL_GRAPH,
                   "computed after its first run");
}

static void test_recompute__failures(void **state)
{
    (void)state;
    on_devices(check_failures);
    on_devices(check_changes);
}

static void test_recompute__wrong_arguments(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *x = haul_ones(HAUL_F32, HAUL_SHAPE(2)), *none[] = {NULL};
    shared       s = {NULL};
    assert_refused(haul_recompute(NULL, &x, 1, &s, .release = count_release), HAUL_INVALID_ARGUMENT, "f is NULL");
    assert_int_equal(s.released, 1);
    assert_refused(haul_recompute(compute, NULL, 1, NULL), HAUL_INVALID_ARGUMENT, "inputs is NULL");
    assert_refused(haul_recompute(compute, &x, -1, NULL), HAUL_INVALID_ARGUMENT, "count is -1");
    assert_refused(haul_recompute(compute, none, 1, NULL), HAUL_INVALID_ARGUMENT, "inputs is NULL");
    assert_refused(haul_recompute_with(compute, &x, 1, NULL), HAUL_INVALID_ARGUMENT, "options is NULL");
    assert_int_equal(haul_module_recompute(NULL, true), HAUL_INVALID_ARGUMENT);
    haul_error_clear();
    haul_module *net = network(), *custom = block(2);
    assert_refused(haul_module_recompute_children(net, "9", "0", true) ? NULL : &s, HAUL_INVALID_ARGUMENT, "'9'");
    assert_refused(haul_module_recompute_children(net, "2", "1", true) ? NULL : &s, HAUL_INVALID_ARGUMENT,
                   "'1' comes before '2'");
    assert_refused(haul_module_recompute_children(net, "1.body", "2", true) ? NULL : &s, HAUL_INVALID_ARGUMENT,
                   "not a child");
    assert_refused(haul_module_recompute_children(net, "2", NULL, true) ? NULL : &s, HAUL_INVALID_ARGUMENT,
                   "last is NULL");
    assert_refused(haul_module_recompute_children(custom, "body", "body", true) ? NULL : &s, HAUL_INVALID_ARGUMENT,
                   "in order");
    assert_false(haul_recomputing());
    haul_scope_pop(scope);
    assert_refused(haul_recompute(compute, NULL, 0, &s), HAUL_STATE, "no scope is open");
}

/* ---- modules: modes, several results, side effects ---- */

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
        assert_int_equal(haul_backward(haul_add(haul_sum(y), haul_sum(e)), HAUL_NONE), HAUL_OK);
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

/* ---- memory that runs out ---- */

/* Did a step fail when the nth allocation did? */
static bool fails_at(shared *s, haul_tensor **leaves, int64_t nth)
{
    haul_scope *scope = haul_scope_push();
    haul__fault_plan(HAUL__FAULT_HOST, nth);
    haul_status status = haul_backward(around(s, leaves[2], leaves[3], true), HAUL_NONE);
    bool        reached = haul__fault_count() >= nth;
    haul__fault_plan(0, 0);
    haul_scope_pop(scope);
    for (int i = 0; i < LEAVES && status; i++)
        assert_true(haul_tensor_grad(leaves[i]) == HAUL_NONE);
    for (int i = 0; i < LEAVES; i++)
        haul_set_grad(leaves[i], HAUL_NONE);
    return reached;
}

static void test_recompute__allocations_that_fail(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    shared       s;
    haul_tensor *leaves[LEAVES];
    leaves_of(haul_cpu(), HAUL_F32, &s, leaves);
    int64_t nth = 1;
    for (bool reached = true; reached; nth++) {
        haul_scope *attempts = haul_scope_push();
        for (int i = 0; i < 2; i++) /* caches may grow */
            fails_at(&s, leaves, nth);
        int64_t before = haul__host_blocks();
        reached = fails_at(&s, leaves, nth);
        if (haul__host_blocks() > before)
            fail_msg("after allocation %lld failed, %lld blocks more are alive", (long long)nth,
                     (long long)(haul__host_blocks() - before));
        haul_scope_pop(attempts);
        haul_error_clear();
    }
    assert_in_range(nth, 100, 5000);
    haul_scope_pop(scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recompute__training_has_the_same_bits),
        cmocka_unit_test(test_recompute__peak_is_lower),
        cmocka_unit_test(test_recompute__gradients_of_functions),
        cmocka_unit_test(test_recompute__results_without_a_second_run),
        cmocka_unit_test(test_recompute__failures),
        cmocka_unit_test(test_recompute__wrong_arguments),
        cmocka_unit_test(test_recompute__modules),
        cmocka_unit_test(test_recompute__runs_of_children),
        cmocka_unit_test(test_recompute__names_of_layers),
        cmocka_unit_test(test_recompute__allocations_that_fail),
    };
    return cmocka_run_group_tests_name("recompute", tests, NULL, NULL);
}
