/* Followed steps with functions of custom operations, and with gradients of chosen tensors: the bits of steps that run
 * as they are, and whatever a function reads apart from what it gets is seen.
 *
 * ctest: cuda */
#include <haul/haul.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/bits.h"
#include "support/conformance/conformance.h"

/* behind the library's headers: its words are macros */
#include "support/custom_ops.h"

enum { WIDTH = 5, BATCH = 4 };

/* ---- custom operations ---- */

/* State that functions read although they should not. */
static int hidden, calls_of_compose;

static haul_status composed(const haul_custom_call *c, haul_tensor *const *x, haul_tensor **y)
{
    const double *beta = c->attributes;
    calls_of_compose++;
    y[0] = haul_mul(x[0], haul_sigmoid(haul_mul_scalar(x[0], *beta)));
    if (hidden == 1)
        y[0] = haul_relu(y[0]);
    if (hidden == 2)
        return haul_error_set(HAUL_IO, c->name, "x", "the function fails");
    return HAUL_OK;
}

static haul_custom_operation composition = {
    .name = "test_composition",
    .operands = {{"x"}},
    .results = {{"y"}},
    .attributes_size = sizeof(double),
    .autocast = HAUL_CUSTOM_WIDE,
    .compose = composed,
};

/* Returns its operand, and a composition of it. */
static haul_status nested(const haul_custom_call *c, haul_tensor *const *x, haul_tensor **y)
{
    y[0] = x[0];
    y[1] = haul_add(haul_apply(&composition, c->attributes, x[0]), x[1]);
    return HAUL_OK;
}

static void nested_gradient(haul_custom_gradient *g)
{
    haul_tensor *sum = g->results[1] == HAUL_NONE ? g->results[0] : g->results[1];
    g->operands[0] = test_swish(haul_mul(sum, g->saved[0]), hidden == 3 ? 0.5 : 0.25);
    g->operands[1] = sum;
}

static haul_custom_operation nest = {
    .name = "test_nest",
    .operands = {{"x", .saved = true}, {"z"}},
    .results = {{"same"}, {"y"}},
    .attributes_size = sizeof(double),
    .compose = nested,
    .gradient = nested_gradient,
};

/* ---- steps ---- */

typedef struct training training;
struct training {
    haul_device *device;
    haul_tensor *w, *scale, *x, *loss, *out;
    haul_status (*forward)(training *t, haul_tensor **loss);
    haul_dtype autocast;
    double     beta;
    bool       second;
};

static haul_status with_composition(training *t, haul_tensor **loss)
{
    haul_tensor *h = haul_apply(&composition, (&t->beta), haul_matmul(t->x, t->w));
    *loss = haul_sum(haul_square(h));
    return HAUL_OK;
}

static haul_status with_nest(training *t, haul_tensor **loss)
{
    haul_tensor *y[2], *h = haul_matmul(t->x, t->w);
    haul_status  status = haul_apply_all(&nest, &t->beta, (haul_tensor *[]){h, t->scale}, 2, y);
    *loss = haul_sum(haul_mul(y[0], y[1]));
    return status;
}

static haul_status with_gradients(training *t, haul_tensor **loss)
{
    haul_tensor *h = test_rms(haul_matmul(t->x, t->w), t->scale, 1e-5);
    *loss = haul_mean(haul_square(test_swish(h, t->beta)));
    return HAUL_OK;
}

static haul_status into(training *t, haul_tensor **loss)
{
    *loss = haul_mean(haul_square(haul_matmul(t->x, t->w)));
    return haul_apply_into(t->out, &composition, &t->beta, haul_matmul(t->x, haul_detach(t->w)));
}

/* The norm of the gradient of the input is a part of the loss. */
static haul_status with_penalty(training *t, haul_tensor **loss)
{
    haul_tensor *g[2], *x = haul_set_requires_grad(haul_clone(t->x), true);
    haul_tensor *y = haul_sum(haul_tanh(haul_matmul(x, t->w)));
    haul_status  status = haul_grad(y, ((haul_tensor *[]){x, t->scale}), t->second ? 2 : 1, g, .create_graph = true);
    *loss = haul_add(y, haul_sum(haul_square(haul_sub_scalar(haul_norm(g[0]), 1))));
    return status;
}

/* A tensor that the step makes is a leaf in some steps. */
static haul_status with_leaf(training *t, haul_tensor **loss)
{
    haul_tensor *x = haul_clone(t->x);
    haul_set_requires_grad(x, t->second);
    *loss = haul_sum(haul_tanh(haul_matmul(x, t->w)));
    return HAUL_OK;
}

/* Gradients of a parameter and a result, without a graph. */
static haul_status with_chosen(training *t, haul_tensor **loss)
{
    haul_tensor *g[2], *h = haul_matmul(t->x, t->w);
    haul_tensor *y = test_rms(h, t->scale, 1e-5);
    haul_status  status = haul_grad(haul_sum(haul_square(y)), ((haul_tensor *[]){h, t->w}), 2, g, .keep = true);
    if (!status)
        status = haul_add_into(t->out, t->out, g[0]);
    *loss = haul_sum(haul_mul(y, haul_detach(haul_matmul(t->x, g[1]))));
    return status;
}

static haul_status step(void *context)
{
    training           *t = context;
    haul_tensor        *loss = NULL;
    haul_status         status = haul_set_device(t->device);
    haul_autocast_state before = haul_autocast_begin("all", t->autocast);
    status = status ? status : t->forward(t, &loss);
    haul_autocast_end(before);
    haul_set_grad(t->w, HAUL_NONE);
    if (!status)
        status = haul_copy_into(t->loss, haul_detach(loss));
    if (!status)
        status = haul_backward(loss);
    if (status)
        return status;
    haul_tensor *change = haul_mul_scalar(haul_tensor_grad(t->w), 0.1);
    return haul_sub_into(haul_detach(t->w), haul_detach(t->w), change);
}

static training make(haul_device *device, haul_status (*forward)(training *, haul_tensor **))
{
    haul_manual_seed(3);
    haul_set_device(device);
    training t = {.device = device, .forward = forward, .beta = 0.5};
    t.w = haul_set_requires_grad(haul_normal(HAUL_F32, HAUL_SHAPE(WIDTH, WIDTH), 0, 1), true);
    t.scale = haul_set_requires_grad(haul_normal(HAUL_F32, HAUL_SHAPE(WIDTH), 0, 1), true);
    t.loss = haul_zeros(HAUL_F32, HAUL_SCALAR_SHAPE);
    t.out = haul_zeros(HAUL_F32, HAUL_SHAPE(BATCH, WIDTH));
    return t;
}

typedef struct pair {
    haul_scope     *scope;
    training        eager, recorded;
    haul_recording *r;
} pair;

static void begin(pair *p, haul_device *device, haul_status (*forward)(training *, haul_tensor **))
{
    hidden = 0;
    p->scope = haul_scope_push();
    p->eager = make(device, forward);
    p->recorded = make(device, forward);
    p->r = haul_recording_new(step, &p->recorded);
}

static void run_both(pair *p, int64_t batch)
{
    haul_scope *scope = haul_scope_push();
    p->eager.x = p->recorded.x = haul_normal(HAUL_F32, HAUL_SHAPE(batch, WIDTH), 0, 1);
    if (step(&p->eager))
        fail_msg("as it is: %s", haul_error_message());
    if (haul_recording_run(p->r))
        fail_msg("recorded: %s", haul_error_message());
    assert_same_bits(p->eager.w, p->recorded.w, "w");
    assert_same_bits(p->eager.loss, p->recorded.loss, "the loss");
    assert_same_bits(p->eager.out, p->recorded.out, "out");
    haul_scope_pop(scope);
}

static haul_recording_report report_of(const pair *p)
{
    haul_recording_report report;
    assert_int_equal(haul_recording_report_get(p->r, &report), HAUL_OK);
    return report;
}

static void expect(const pair *p, int64_t followed, int64_t eager, const char *reason)
{
    const haul_recording_report report = report_of(p);
    if (report.followed != followed || report.eager != eager || !strstr(report.reason, reason))
        fail_msg("%lld steps followed and %lld not, %lld and %lld expected: %s", (long long)report.followed,
                 (long long)report.eager, (long long)followed, (long long)eager, report.reason);
}

static void end(pair *p)
{
    haul_scope_pop(p->scope);
}

/* ---- tests ---- */

static void test_is_followed(void **state)
{
    (void)state;
    static haul_status (*const forwards[])(training *, haul_tensor **) = {
        with_composition, with_nest, with_gradients, into, with_penalty, with_chosen};
    haul_device *devices[8];
    const int    count = test_devices(devices, 8);
    for (int d = 0; d < count; d++)
        for (size_t i = 0; i < 2 * sizeof forwards / sizeof *forwards; i++) {
            pair p;
            if (forwards[i / 2] == into && i % 2)
                continue; /* into f32 only */
            begin(&p, devices[d], forwards[i / 2]);
            p.eager.autocast = p.recorded.autocast = i % 2 ? HAUL_BF16 : HAUL_DTYPE_NONE;
            for (int k = 0; k < 6; k++)
                run_both(&p, BATCH);
            if (report_of(&p).followed != 5)
                fail_msg("form %zu on %s: %s", i, haul_device_name(devices[d]), report_of(&p).reason);
            end(&p);
        }
}

/* Its function runs in each followed step, which computes nothing then. */
static void test_a_function_runs_again(void **state)
{
    (void)state;
    pair p;
    begin(&p, haul_cpu(), with_composition);
    run_both(&p, BATCH);
    run_both(&p, BATCH);
    calls_of_compose = 0;
    run_both(&p, BATCH);
    assert_int_equal(calls_of_compose, 2);
    p.eager.beta = p.recorded.beta = 0.75;
    run_both(&p, BATCH);
    run_both(&p, 2);
    expect(&p, 4, 1, "first step");
    assert_int_equal(report_of(&p).variants, 3);
    end(&p);
}

static void test_state_that_a_function_reads(void **state)
{
    (void)state;
    pair p;
    begin(&p, haul_cpu(), with_composition);
    for (int i = 0; i < 8; i++) {
        hidden = i / 2 % 2;
        run_both(&p, BATCH);
    }
    expect(&p, 7, 1, "first step");
    assert_int_equal(report_of(&p).variants, 2);
    end(&p);
    begin(&p, haul_cpu(), with_nest);
    for (int i = 0; i < 8; i++) {
        hidden = i / 2 % 2 ? 3 : 0;
        run_both(&p, BATCH);
    }
    expect(&p, 7, 1, "first step");
    assert_int_equal(report_of(&p).variants, 2);
    end(&p);
}

static void test_a_function_that_fails(void **state)
{
    (void)state;
    pair p;
    begin(&p, haul_cpu(), with_composition);
    run_both(&p, BATCH);
    run_both(&p, BATCH);
    hidden = 2;
    p.recorded.x = haul_ones(HAUL_F32, HAUL_SHAPE(BATCH, WIDTH));
    assert_int_equal(haul_recording_run(p.r), HAUL_IO);
    assert_non_null(strstr(haul_error_message(), "the function fails"));
    haul_error_clear();
    hidden = 0;
    run_both(&p, BATCH);
    expect(&p, 2, 2, "the function fails");
    end(&p);
}

static void expect_two_variants(haul_status (*forward)(training *, haul_tensor **))
{
    pair p;
    begin(&p, haul_cpu(), forward);
    for (int i = 0; i < 6; i++) {
        p.eager.second = p.recorded.second = i > 3;
        run_both(&p, BATCH);
    }
    expect(&p, 5, 1, "first step");
    assert_int_equal(report_of(&p).variants, 2);
    end(&p);
}

/* haul_grad of other inputs is another step, and so is a step that makes a leaf of a tensor. */
static void test_other_inputs(void **state)
{
    (void)state;
    expect_two_variants(with_penalty);
    expect_two_variants(with_leaf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_is_followed),
        cmocka_unit_test(test_a_function_runs_again),
        cmocka_unit_test(test_state_that_a_function_reads),
        cmocka_unit_test(test_a_function_that_fails),
        cmocka_unit_test(test_other_inputs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
