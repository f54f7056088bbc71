/* Operations of a program's own: host functions and compositions, gradients, and that the rest of the library knows
 * them. Kernels: test_custom_kernels.c. Descriptors that cannot work: test_custom_errors.c.
 *
 * ctest: cuda */
#include "support/failure.h"
#include "support/into.h"

#include <pthread.h>

/* behind the library's headers: its words are macros */
#include "support/custom_ops.h"

/* ---- host functions ---- */

/* Running sums and the largest, over all elements. */
static haul_status running_infer(haul_custom_call *c)
{
    c->results[0].dtype = c->results[1].dtype = c->operands[0].dtype;
    c->results[0].shape = c->operands[0].shape;
    return HAUL_OK;
}

static haul_status running(const haul_custom_call *c)
{
    const double *x = c->operands[0].data;
    double       *y = c->results[0].data, *most = c->results[1].data, sum = *(const double *)c->attributes;
    *most = x[0];
    for (int64_t i = 0; i < c->operands[0].count; i++) {
        y[i] = sum += x[i];
        *most = x[i] > *most ? x[i] : *most;
    }
    return sum > 1e6 ? haul_error_set(HAUL_STATE, c->name, "x", "the sum is too large") : HAUL_OK;
}

static void running_gradient(haul_custom_gradient *g)
{
    haul_tensor *dy = g->results[0];
    if (dy == HAUL_NONE)
        return;
    haul_tensor *lower = haul_from_host(HAUL_F64, HAUL_SHAPE(3, 3), (double[]){1, 1, 1, 0, 1, 1, 0, 0, 1});
    g->operands[0] = haul_reshape(haul_matmul(lower, haul_reshape(dy, HAUL_SHAPE(3, 1))), HAUL_SHAPE(3));
}

static haul_custom_operation sums = {
    .name = "test_running",
    .operands = {{"x"}},
    .results = {{"y"}, {"most"}},
    .attributes_size = sizeof(double),
    .dtypes = HAUL_DTYPE_BIT(HAUL_F64),
    .infer = running_infer,
    .host = running,
    .gradient = running_gradient,
};

static haul_tensor *running_sum(haul_tensor *const *in, int count, void *context)
{
    (void)count;
    return haul_apply(&sums, context, in[0]);
}

static void test_custom__a_host_function_computes_on_the_cpu(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *x = haul_from_host(HAUL_F64, HAUL_SHAPE(3, 2), (double[]){1, 10, 2, 20, 3, 30}), *y[2];
    double       start = 100;
    x = haul_select(x, 1, 0); /* every second element */
    assert_int_equal(haul_apply_all(&sums, &start, &x, 1, y), HAUL_OK);
    assert_close(y[0], (double[]){101, 103, 106}, 3, 0, "running sums");
    assert_close(y[1], (double[]){3}, 1, 0, "the largest");
    x = haul_set_requires_grad(haul_contiguous(x), true);
    assert_int_equal(haul_grad_check(running_sum, &x, 1, &start), HAUL_OK);
    assert_int_equal(haul_apply_all(&sums, &start, &x, 1, y), HAUL_OK);
    assert_int_equal(haul_backward(y[1]), HAUL_OK); /* no gradient arrives at the other */
    assert_ptr_equal(haul_tensor_grad(x), HAUL_NONE);
    start = 1e7;
    assert_refused(haul_apply(&sums, &start, x), HAUL_STATE, "test_running: the sum is too large");
    assert_refused(haul_apply(&sums, &start, haul_ones(HAUL_F32, HAUL_SHAPE(3))), HAUL_DTYPE,
                   "test_running: x is f32, but f64 is expected");
    assert_int_equal(haul_tensor_ndim(haul_apply(&sums, &start, haul_to(x, haul_device_get("meta")))), 1);
    haul_device *other = test_second_device();
    if (other)
        assert_refused(haul_apply(&sums, &start, haul_to(x, other)), HAUL_UNSUPPORTED,
                       "test_running: it has a host function only");
    haul_error_clear();
    haul_scope_pop(scope);
}

static haul_status times(const haul_custom_call *c)
{
    const float *x = c->operands[0].data;
    float       *y = c->results[0].data;
    for (int64_t i = 0; i < c->operands[0].count; i++)
        y[i] = x[i] * (float)*(const double *)c->attributes;
    return HAUL_OK;
}

static haul_custom_operation timed = {.name = "test_times",
                                      .operands = {{"x"}},
                                      .results = {{"y"}},
                                      .attributes_size = sizeof(double),
                                      .dtypes = HAUL_DTYPE_BIT(HAUL_F32),
                                      .host = times};

typedef struct timed_step {
    haul_tensor *x, *y;
    double       factor;
} timed_step;

static haul_status make_timed_step(void *context)
{
    const timed_step *s = context;
    return haul_apply_into(s->y, &timed, &s->factor, s->x);
}

/* A followed step calls it with the attributes and the elements of the step. */
static void test_custom__a_host_function_can_be_followed(void **state)
{
    (void)state;
    enum { STEPS = 4 };
    haul_recording_report report;
    haul_scope           *scope = haul_scope_push();
    timed_step            s = {haul_zeros(HAUL_F32, HAUL_SHAPE(3)), haul_zeros(HAUL_F32, HAUL_SHAPE(3)), 3};
    haul_recording       *r = haul_recording_new(make_timed_step, &s);
    for (int i = 0; i < STEPS; i++) {
        assert_int_equal(haul_copy_into(s.x, haul_arange(HAUL_F32, i, i + 3, 1)), HAUL_OK);
        assert_int_equal(haul_recording_run(r), HAUL_OK);
        assert_close(s.y, (double[]){3 * i, 3 * i + 3, 3 * i + 6}, 3, 0, "three times x");
    }
    s.factor = 5;
    assert_int_equal(haul_recording_run(r), HAUL_OK);
    assert_close(s.y, (double[]){5 * STEPS - 5, 5 * STEPS, 5 * STEPS + 5}, 3, 0, "five times x");
    assert_int_equal(haul_recording_report_get(r, &report), HAUL_OK);
    assert_true(report.followed >= STEPS - 1);
    haul_scope_pop(scope);
}

/* ---- compositions ---- */

static haul_status compose_power(const haul_custom_call *c, haul_tensor *const *x, haul_tensor **y)
{
    y[0] = haul_pow_scalar(haul_abs(x[0]), *(const double *)c->attributes);
    return haul_tensor_check(y[0]);
}

static haul_custom_operation power = {
    .name = "test_power",
    .operands = {{"x"}},
    .results = {{"y"}},
    .attributes_size = sizeof(double),
    .compose = compose_power,
};

static haul_tensor *powered(haul_tensor *const *in, int count, void *context)
{
    (void)count;
    return haul_apply(&power, context, in[0]);
}

static void composes(haul_device *device)
{
    double       exponent = 3;
    haul_tensor *x = haul_to(haul_from_host(HAUL_F64, HAUL_SHAPE(3), (double[]){1, -2, 3}), device);
    assert_close(haul_apply(&power, &exponent, x), (double[]){1, 8, 27}, 3, 1e-12, "a composed power");
    x = haul_set_requires_grad(x, true);
    assert_int_equal(haul_grad_check(powered, &x, 1, &exponent), HAUL_OK);
}

static void test_custom__a_composition_is_differentiated_through_its_operations(void **state)
{
    (void)state;
    on_devices(composes);
}

/* It gives back its operand: the caller gets a handle of its own. */
static haul_status compose_same(const haul_custom_call *c, haul_tensor *const *x, haul_tensor **y)
{
    (void)c;
    y[0] = x[0];
    return HAUL_OK;
}

static haul_custom_operation same = {.name = "test_same",
                                     .operands = {{"x"}},
                                     .results = {{"y"}},
                                     .rule = HAUL_CUSTOM_AS_GIVEN,
                                     .compose = compose_same};

static void test_custom__a_composition_may_give_its_operand(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *x = haul_arange(HAUL_I64, 0, 3, 1), *y = haul_apply(&same, NULL, x);
    assert_ptr_not_equal(x, y);
    haul_drop(x);
    assert_close(y, (double[]){0, 1, 2}, 3, 0, "the operand");
    haul_scope_pop(scope);
}

/* ---- gradients ---- */

static haul_tensor *swished(haul_tensor *const *in, int count, void *context)
{
    (void)count;
    (void)context;
    return test_swish(in[0], 1.3);
}

static haul_tensor *normalised(haul_tensor *const *in, int count, void *context)
{
    (void)context;
    return test_rms(in[0], count > 1 ? in[1] : HAUL_NONE, 0.1);
}

/* The gradient of f, which is checked itself: the second order. */
static haul_tensor *gradient_of(haul_tensor *const *in, int count, void *f)
{
    haul_tensor *g[2];
    haul_tensor *y = (*(haul_function **)f)(in, count, NULL);
    if (haul_grad(haul_sum(haul_sin(y)), in, count, g, .create_graph = true))
        return haul_tensor_fail(HAUL_GRAPH, NULL, NULL, "no gradient");
    return count > 1 ? haul_add(haul_sum(haul_sin(g[0])), haul_sum(haul_sin(g[1]))) : haul_sin(g[0]);
}

static void check_gradients(haul_device *device)
{
    haul_function *functions[] = {swished, normalised, normalised};
    for (int i = 0; i < 3; i++) {
        haul_tensor *in[] = {sample_tensor(device, HAUL_F64, HAUL_SHAPE(3, 4), 1, NULL),
                             sample_tensor(device, HAUL_F64, HAUL_SHAPE(4), 2, NULL)};
        int          count = i == 2 ? 2 : 1;
        for (int k = 0; k < count; k++)
            in[k] = haul_set_requires_grad(in[k], true);
        if (haul_grad_check(functions[i], in, count, NULL) || haul_grad_check(gradient_of, in, count, &functions[i]))
            fail_msg("gradient %d: %s", i, haul_error_message());
    }
}

static void test_custom__gradients_are_right_to_second_order(void **state)
{
    (void)state;
    on_devices(check_gradients);
}

/* One that broadcasts: the gradient of its second operand is summed to its shape. */
static haul_status scale_infer(haul_custom_call *c)
{
    c->results[0].dtype = c->operands[0].dtype;
    c->results[0].shape = c->operands[0].shape;
    return c->operands[1].count == 1 ? HAUL_OK : haul_error_set(HAUL_SHAPE, c->name, "s", "s has one element");
}

// clang-format off
HAUL_KERNEL3(scale_kernel, T, y, const T, x, const T, s, { FOR_ITEMS(i) STORE(y, i, LOAD(x, i) * LOAD(s, 0)); });
// clang-format on

static int differentiated, wanted[2];

static void scale_gradient(haul_custom_gradient *g)
{
    differentiated = g->differentiated;
    wanted[0] = g->wanted[0];
    wanted[1] = g->wanted[1];
    if (g->wanted[0])
        g->operands[0] = haul_mul(g->results[0], g->saved[1]);
    g->operands[1] = haul_mul(g->results[0], g->saved[0]); /* of x's shape: Haul sums it up */
    assert_int_equal(g->shapes[1].ndim, 1);
}

static haul_custom_operation scale = {.name = "test_scale",
                                      .operands = {{"x", .saved = true}, {"s", .saved = true}},
                                      .results = {{"y"}},
                                      .infer = scale_infer,
                                      .kernel = &scale_kernel,
                                      .gradient = scale_gradient};

static void test_custom__gradients_are_summed_to_what_was_broadcast(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *x = haul_arange(HAUL_F32, 0, 4, 1), *s = haul_full(HAUL_F32, HAUL_SHAPE(1), 3), *g;
    s = haul_set_requires_grad(s, true);
    haul_tensor *y = haul_apply(&scale, NULL, x, s);
    assert_close(y, (double[]){0, 3, 6, 9}, 4, 0, "a scaled tensor");
    assert_int_equal(haul_grad(haul_sum(y), &s, 1, &g, .keep = true), HAUL_OK);
    assert_close(g, (double[]){6}, 1, 0, "the gradient of the scale");
    assert_true(!wanted[0] && wanted[1] && !differentiated);
    assert_int_equal(haul_grad(haul_sum(y), &s, 1, &g, .create_graph = true), HAUL_OK);
    assert_true(differentiated);
    haul_scope_pop(scope);
}

/* One that reads its result. */
// clang-format off
HAUL_KERNEL2(exp_kernel, T, y, const T, x, { FOR_ITEMS(i) STORE(y, i, M_EXP(LOAD(x, i))); });
// clang-format on

static void exp_gradient(haul_custom_gradient *g)
{
    assert_ptr_equal(g->saved[0], HAUL_NONE);
    g->operands[0] = haul_mul(g->results[0], g->saved_results[0]);
}

static haul_custom_operation exponential = {.name = "test_exp",
                                            .operands = {{"x"}},
                                            .results = {{"y", .saved = true}},
                                            .kernel = &exp_kernel,
                                            .gradient = exp_gradient};

static haul_tensor *exponentiated(haul_tensor *const *in, int count, void *context)
{
    (void)count;
    (void)context;
    return haul_apply(&exponential, NULL, in[0]);
}

static void reads_its_result(haul_device *device)
{
    haul_function *f = exponentiated;
    haul_tensor   *x = haul_set_requires_grad(sample_tensor(device, HAUL_F64, HAUL_SHAPE(3), 1, NULL), true);
    if (haul_grad_check(exponentiated, &x, 1, NULL) || haul_grad_check(gradient_of, &x, 1, &f))
        fail_msg("%s", haul_error_message());
}

static void test_custom__a_gradient_may_read_the_result(void **state)
{
    (void)state;
    on_devices(reads_its_result);
}

/* ---- what the rest of the library knows ---- */

static void test_custom__the_list_has_it(void **state)
{
    (void)state;
    const char         *names[4];
    haul_operation_info info;
    assert_int_equal(haul_custom_register(&rms), HAUL_OK);
    int count = haul_operation_count(), index = haul_operation_find("test_rms");
    assert_int_equal(haul_custom_register(&rms), HAUL_OK);
    assert_int_equal(haul_operation_count(), count);
    assert_true(index > haul_operation_find("haul_where") && index < count);
    assert_int_equal(haul_operation_describe(index, &info), HAUL_OK);
    assert_string_equal(info.name, "test_rms");
    assert_int_equal(info.operand_count, 2);
    assert_string_equal(info.operands[1].name, "weight");
    assert_true(!info.operands[0].optional && info.operands[1].optional && info.differentiable && info.has_into);
    assert_int_equal(info.dtype_count, HAUL_DTYPE_END - 1); /* integers are cast to f32 */
    assert_int_equal(haul_operation_implementations(index, haul_cpu(), names, 4), 1);
    assert_string_equal(names[0], "kernel");
    assert_int_equal(haul_custom_register(&sums), HAUL_OK);
    index = haul_operation_find("test_running");
    assert_int_equal(haul_operation_implementations(index, haul_cpu(), names, 4), 1);
    assert_string_equal(names[0], "host");
    assert_int_equal(haul_operation_implementations(index, haul_device_get("meta"), names, 4), 0);
    assert_int_equal(haul_custom_register(&power), HAUL_OK);
    index = haul_operation_find("test_power");
    assert_int_equal(haul_operation_implementations(index, haul_cpu(), names, 4), 1);
    assert_string_equal(names[0], "operations");
    for (int i = 0; i < haul_operation_count(); i++) {
        assert_int_equal(haul_operation_describe(i, &info), HAUL_OK);
        assert_int_equal(haul_operation_find(info.name), i);
    }
    assert_int_equal(haul_operation_describe(haul_operation_count(), &info), HAUL_INVALID_ARGUMENT);
    haul_error_clear();
}

typedef struct heard {
    int operations, commands;
} heard;

static void listen(const haul_event *e, void *context)
{
    heard *h = context;
    h->operations += e->kind == HAUL_EVENT_OPERATION_END && strcmp(e->operation, "test_swish") == 0;
    h->commands += e->kind == HAUL_EVENT_COMMAND_SUBMITTED && strcmp(e->operation, "test_swish") == 0;
}

static void events(haul_device *device)
{
    heard        h = {0};
    haul_tensor *x = haul_to(haul_ones(HAUL_F32, HAUL_SHAPE(3)), device);
    int64_t      id = haul_events_subscribe(listen, .kinds = HAUL_EVENT_OPERATION | HAUL_EVENT_COMMAND, .context = &h);
    assert_valid(test_swish(x, 1));
    assert_int_equal(haul_events_unsubscribe(id), HAUL_OK);
    assert_int_equal(h.operations, 1);
    assert_int_equal(h.commands, 1);
}

static void test_custom__events_name_it(void **state)
{
    (void)state;
    on_devices(events);
}

static haul_custom_cost rms_cost(const haul_custom_call *c)
{
    return (haul_custom_cost){.flops = 1000 * (double)c->operands[0].count, .bytes = 77};
}

static haul_status estimated(void *context)
{
    haul_tensor           *x = haul_empty(HAUL_F32, HAUL_SHAPE(10, 20));
    haul_custom_operation *costs = context;
    haul_tensor           *y = test_swish(x, 2);
    return haul_tensor_check(haul_apply(costs, &(rms_attributes){1}, y));
}

static void test_custom__estimates_count_it(void **state)
{
    (void)state;
    static haul_custom_operation costs;
    haul_estimate_result         r;
    costs = rms;
    costs.name = "test_costs";
    costs.cost = rms_cost;
    assert_int_equal(haul_estimate(estimated, &costs, &r), HAUL_OK);
    assert_true(r.flops == 6 * 200 + 1000 * 200);
    assert_true(r.bytes_touched == 2 * 800 + 77);
    assert_int_equal(r.operation_count, 3);
    assert_string_equal(r.operations[2].name, "test_costs");
    haul_estimate_free(&r);
}

static void test_custom__meta_has_its_shapes(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_device *meta = haul_device_get("meta");
    haul_tensor *x = haul_to(haul_ones(HAUL_F16, HAUL_SHAPE(2, 3)), meta);
    haul_tensor *y = test_rms(x, HAUL_NONE, 1);
    assert_ptr_equal(haul_tensor_device(y), meta);
    assert_int_equal(haul_tensor_dim(y, 1), 3);
    assert_refused(test_rms(x, haul_to(haul_ones(HAUL_F16, HAUL_SHAPE(2)), meta), 1), HAUL_SHAPE,
                   "test_rms: weight has not the size");
    haul_error_clear();
    haul_scope_pop(scope);
}

static void test_custom__dtypes_and_autocast_follow_the_descriptor(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *x = haul_ones(HAUL_F16, HAUL_SHAPE(2, 3)), *whole = haul_ones(HAUL_I32, HAUL_SHAPE(2, 3));
    assert_int_equal(haul_tensor_dtype(test_swish(whole, 1)), HAUL_F32);
    assert_int_equal(haul_tensor_dtype(test_rms(x, haul_ones(HAUL_F64, HAUL_SHAPE(3)), 1)), HAUL_F64);
    assert_int_equal(haul_tensor_dtype(test_rms(x, HAUL_NONE, 1)), HAUL_F16);
    haul_autocast_state before = haul_autocast_begin("cpu", HAUL_F16);
    assert_int_equal(haul_tensor_dtype(test_rms(x, HAUL_NONE, 1)), HAUL_F32);
    assert_int_equal(haul_tensor_dtype(test_swish(x, 1)), HAUL_F16);
    static haul_custom_operation lower;
    lower = swish;
    lower.name = "test_lower";
    lower.autocast = HAUL_CUSTOM_LOWER;
    haul_tensor *y = haul_apply(&lower, (&(swish_attributes){1}), haul_ones(HAUL_F32, HAUL_SHAPE(2)));
    assert_int_equal(haul_tensor_dtype(y), HAUL_F16);
    haul_autocast_end(before);
    haul_scope_pop(scope);
}

static void test_custom__operands_on_two_devices_are_moved_or_refused(void **state)
{
    (void)state;
    haul_device *other = test_second_device();
    if (!other)
        skip();
    haul_scope  *scope = haul_scope_push();
    haul_tensor *x = haul_ones(HAUL_F32, HAUL_SHAPE(2, 3)), *w = haul_to(haul_ones(HAUL_F32, HAUL_SHAPE(3)), other);
    assert_refused(test_rms(x, w, 1), HAUL_PLACEMENT, "test_rms: ");
    haul_set_placement_policy(HAUL_PLACE_MOVE);
    assert_valid(test_rms(x, w, 1));
    haul_error_clear();
    haul_scope_pop(scope);
}

static haul_status into_rms(haul_tensor *out, haul_tensor *const *in)
{
    return haul_apply_into(out, &rms, (&(rms_attributes){0.1}), in[0], in[1]);
}

static void into(haul_device *device)
{
    haul_tensor *in[] = {sample_tensor(device, HAUL_F32, HAUL_SHAPE(3, 5), 1, NULL),
                         sample_tensor(device, HAUL_F32, HAUL_SHAPE(5), 2, NULL)};
    assert_into("rms", into_rms, test_rms(in[0], in[1], 0.1), in, 2, 0);
}

static void test_custom__it_writes_into_a_given_tensor(void **state)
{
    (void)state;
    on_devices(into);
}

static void test_custom__a_change_in_place_is_seen(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *x = haul_set_requires_grad(haul_ones(HAUL_F32, HAUL_SHAPE(3)), true);
    haul_tensor *t = haul_mul_scalar(x, 2), *y = test_swish(t, 1);
    haul_set_grad_enabled(false);
    assert_int_equal(haul_copy_into(t, haul_zeros(HAUL_F32, HAUL_SHAPE(3))), HAUL_OK);
    haul_set_grad_enabled(true);
    assert_int_equal(haul_backward(haul_sum(y)), HAUL_GRAPH);
    assert_non_null(strstr(haul_error_message(), "test_swish: a tensor that the gradient needs was changed"));
    haul_error_clear();
    haul_scope_pop(scope);
}

/* ---- threads ---- */

#define MANY 8
static haul_custom_operation of_thread[MANY], shared;

static void *registers(void *context)
{
    int64_t      i = (haul_custom_operation *)context - of_thread;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *x = haul_full(HAUL_F32, HAUL_SHAPE(4), 2);
    bool         fine = true;
    for (int round = 0; round < 20 && fine; round++) {
        fine = haul_tensor_is_valid(haul_apply(&shared, (&(swish_attributes){1}), x));
        fine = fine && haul_tensor_is_valid(haul_apply(&of_thread[i], (&(swish_attributes){1}), x));
        fine = fine && haul_operation_find(of_thread[i].name) >= 0;
    }
    haul_scope_pop(scope);
    return fine ? context : NULL;
}

static void test_custom__threads_register_at_once(void **state)
{
    (void)state;
    static char names[MANY][32];
    pthread_t   threads[MANY];
    void       *fine;
    int         before = haul_operation_count();
    shared = swish;
    shared.name = "test_shared";
    for (int i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof names[i], "test_thread_%d", i);
        of_thread[i] = swish;
        of_thread[i].name = names[i];
        assert_int_equal(pthread_create(&threads[i], NULL, registers, &of_thread[i]), 0);
    }
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(pthread_join(threads[i], &fine), 0);
        assert_non_null(fine);
    }
    assert_int_equal(haul_operation_count(), before + MANY + 1);
}

/* An operand that is returned as it is has a graph, which ends with the tensor. */
static haul_status return_operand(const haul_custom_call *c, haul_tensor *const *x, haul_tensor **y)
{
    (void)c;
    y[0] = x[0];
    return HAUL_OK;
}

static void pass_on(haul_custom_gradient *g)
{
    g->operands[0] = g->results[0];
}

static haul_custom_operation identity = {
    .name = "test_identity", .operands = {{"x"}}, .results = {{"y"}}, .compose = return_operand, .gradient = pass_on};

static void test_custom__an_operand_that_is_returned_leaves_nothing(void **state)
{
    (void)state;
    haul_memory_stats before, after;
    haul_memory_stats_get(haul_cpu(), &before);
    haul_scope  *scope = haul_scope_push();
    haul_tensor *w = haul_set_requires_grad(haul_ones(HAUL_F32, HAUL_SHAPE(64, 64)), true);
    haul_tensor *y = haul_apply(&identity, NULL, haul_matmul(w, w));
    assert_int_equal(haul_backward(haul_sum(y), .keep = true), HAUL_OK);
    haul_scope_pop(scope);
    haul_memory_stats_get(haul_cpu(), &after);
    assert_int_equal(before.allocated, after.allocated);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_custom__a_host_function_computes_on_the_cpu),
        cmocka_unit_test(test_custom__a_host_function_can_be_followed),
        cmocka_unit_test(test_custom__a_composition_is_differentiated_through_its_operations),
        cmocka_unit_test(test_custom__a_composition_may_give_its_operand),
        cmocka_unit_test(test_custom__gradients_are_right_to_second_order),
        cmocka_unit_test(test_custom__gradients_are_summed_to_what_was_broadcast),
        cmocka_unit_test(test_custom__a_gradient_may_read_the_result),
        cmocka_unit_test(test_custom__the_list_has_it),
        cmocka_unit_test(test_custom__events_name_it),
        cmocka_unit_test(test_custom__estimates_count_it),
        cmocka_unit_test(test_custom__meta_has_its_shapes),
        cmocka_unit_test(test_custom__dtypes_and_autocast_follow_the_descriptor),
        cmocka_unit_test(test_custom__operands_on_two_devices_are_moved_or_refused),
        cmocka_unit_test(test_custom__it_writes_into_a_given_tensor),
        cmocka_unit_test(test_custom__a_change_in_place_is_seen),
        cmocka_unit_test(test_custom__threads_register_at_once),
        cmocka_unit_test(test_custom__an_operand_that_is_returned_leaves_nothing),
    };
    return cmocka_run_group_tests_name("custom", tests, NULL, NULL);
}
