/* Steps with gradient accumulation: the parts of steps, gradients of parts against one large batch and against a plain
 * loop, clipping, loss scaling, and refused calls.
 *
 * ctest: cuda */
#include <haul/haul.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "support/devices/auto.h"

enum { EXAMPLES = 22, FEATURES = 3, BATCH = 4, GROUP = 2, MOST_TENSORS = 8, MOST_VALUES = 256 };

/* ---- parts ---- */

static const haul_accumulation plan = {.examples = EXAMPLES, .batch = BATCH, .accumulate = GROUP};

/* 22 examples in mini-batches of 4 are 4 4 | 4 4 | 4 2. */
static void test_train_step__parts_of_an_epoch(void **state)
{
    (void)state;
    static const haul_step_part wanted[] = {{true, false, 0.5}, {false, true, 0.5},     {true, false, 0.5},
                                            {false, true, 0.5}, {true, false, 4.0 / 6}, {false, true, 2.0 / 6}};
    for (int64_t i = 0; i < (int64_t)(sizeof wanted / sizeof *wanted); i++) {
        haul_step_part part;
        assert_int_equal(haul_accumulation_part(&plan, i, &part), HAUL_OK);
        assert_true(part.first == wanted[i].first && part.last == wanted[i].last && part.weight == wanted[i].weight);
    }
    assert_int_equal(haul_accumulation_steps(&plan), 3);
}

/* 9 examples in mini-batches of 2, three in each step, are 2 2 2 | 2 1. */
static void test_train_step__a_last_step_with_fewer_mini_batches(void **state)
{
    (void)state;
    const haul_accumulation a = {.examples = 9, .batch = 2, .accumulate = 3};
    const double            weights[] = {2.0 / 6, 2.0 / 6, 2.0 / 6, 2.0 / 3, 1.0 / 3};
    for (int64_t i = 0; i < 5; i++) {
        haul_step_part part;
        assert_int_equal(haul_accumulation_part(&a, i, &part), HAUL_OK);
        assert_true(part.weight == weights[i] && part.first == (i % 3 == 0) && part.last == (i == 2 || i == 4));
    }
    assert_int_equal(haul_accumulation_steps(&a), 2);
}

static void test_train_step__sizes_up_to_the_largest(void **state)
{
    (void)state;
    haul_step_part    part;
    haul_accumulation a = {.examples = INT64_MAX, .batch = INT64_MAX, .accumulate = INT64_MAX};
    assert_int_equal(haul_accumulation_part(&a, 0, &part), HAUL_OK);
    assert_true(part.first && part.last && part.weight == 1);
    assert_int_equal(haul_accumulation_steps(&a), 1);
    a = (haul_accumulation){.examples = INT64_MAX, .batch = 1, .accumulate = 1};
    assert_int_equal(haul_accumulation_part(&a, INT64_MAX - 1, &part), HAUL_OK);
    assert_true(part.first && part.last && part.weight == 1);
    assert_int_equal(haul_accumulation_steps(&a), INT64_MAX);
    a = (haul_accumulation){.examples = 5, .batch = 2, .accumulate = INT64_MAX};
    assert_int_equal(haul_accumulation_part(&a, 2, &part), HAUL_OK);
    assert_true(!part.first && part.last && part.weight == 1.0 / 5);
}

static void test_train_step__parts_that_are_refused(void **state)
{
    (void)state;
    haul_step_part    part = {true, true, 1};
    haul_accumulation a = plan;
    assert_says(haul_accumulation_part(&a, 6, &part), HAUL_INVALID_ARGUMENT, "the epoch has 6 mini-batches; 0 to 5");
    assert_true(!part.first && !part.last && part.weight == 0);
    assert_says(haul_accumulation_part(&a, -1, &part), HAUL_INVALID_ARGUMENT, "index is -1");
    assert_says(haul_accumulation_part(NULL, 0, &part), HAUL_INVALID_ARGUMENT, "accumulation is NULL");
    assert_says(haul_accumulation_part(&a, 0, NULL), HAUL_INVALID_ARGUMENT, "out is NULL");
    a.accumulate = 0;
    assert_says(haul_accumulation_part(&a, 0, &part), HAUL_INVALID_ARGUMENT, "accumulation.accumulate is 0");
    assert_int_equal(haul_accumulation_steps(&a), -1);
    a = (haul_accumulation){.examples = 0, .batch = 1, .accumulate = 1};
    assert_says(haul_accumulation_part(&a, 0, &part), HAUL_INVALID_ARGUMENT, "accumulation.examples is 0");
    a = (haul_accumulation){.examples = 1, .batch = -4, .accumulate = 1};
    assert_says(haul_accumulation_part(&a, 0, &part), HAUL_INVALID_ARGUMENT, "accumulation.batch is -4");
}

/* ---- steps ---- */

typedef struct training {
    haul_module      *net;
    haul_optimizer   *optimizer;
    haul_grad_scaler *scaler;
    haul_tensor      *x, *y;
    double            clip_norm;
} training;

/* The same network and data each time. */
static training begin(bool scales, double clip_norm)
{
    haul_manual_seed(3);
    training t = {.net = HAUL_SEQUENTIAL(haul_nn_linear(FEATURES, 5), haul_nn_tanh(), haul_nn_linear(5, 1)),
                  .clip_norm = clip_norm};
    t.optimizer = haul_sgd(t.net, 0.1, .momentum = 0.9);
    t.scaler = scales ? haul_grad_scaler_new(t.optimizer, .init_scale = 1024) : NULL;
    t.x = haul_normal(HAUL_F32, HAUL_SHAPE(EXAMPLES, FEATURES), 0, 1);
    t.y = haul_normal(HAUL_F32, HAUL_SHAPE(EXAMPLES, 1), 0, 1);
    assert_int_equal(haul_error_status(), HAUL_OK);
    return t;
}

static haul_tensor *loss_of(const training *t, int64_t from, int64_t count)
{
    const int64_t end = from + count < EXAMPLES ? from + count : EXAMPLES;
    return haul_mse_loss(haul_call(t->net, haul_slice(t->x, 0, from, end, 1)), haul_slice(t->y, 0, from, end, 1));
}

static void train_in_parts(const training *t)
{
    for (int64_t i = 0; i * BATCH < EXAMPLES; i++) {
        haul_step_part part;
        assert_int_equal(haul_accumulation_part(&plan, i, &part), HAUL_OK);
        assert_int_equal(haul_train_begin(t->optimizer, &part), HAUL_OK);
        assert_int_equal(haul_train_step(t->optimizer, loss_of(t, i * BATCH, BATCH), .part = &part, .scaler = t->scaler,
                                         .clip_norm = t->clip_norm),
                         HAUL_OK);
    }
}

static void train_with_large_batches(const training *t)
{
    for (int64_t from = 0; from < EXAMPLES; from += GROUP * BATCH) {
        assert_int_equal(haul_train_begin(t->optimizer, NULL), HAUL_OK);
        assert_int_equal(haul_train_step(t->optimizer, loss_of(t, from, GROUP * BATCH), .scaler = t->scaler,
                                         .clip_norm = t->clip_norm),
                         HAUL_OK);
    }
}

/* The loop that a program would write without these functions. */
static void train_plainly(const training *t)
{
    const double weights[] = {0.5, 0.5, 0.5, 0.5, 4.0 / 6, 2.0 / 6};
    for (int i = 0; i < 6; i++) {
        if (i % 2 == 0)
            haul_optimizer_zero_grad(t->optimizer);
        haul_tensor *loss = haul_mul_scalar(loss_of(t, i * BATCH, BATCH), weights[i]);
        haul_backward(t->scaler ? haul_grad_scaler_scale(t->scaler, loss) : loss);
        if (i % 2 == 0)
            continue;
        if (t->scaler)
            haul_grad_scaler_unscale(t->scaler, t->optimizer);
        if (t->clip_norm > 0)
            haul_clip_grad_norm(t->net, t->clip_norm);
        if (!t->scaler) {
            haul_optimizer_step(t->optimizer);
            continue;
        }
        haul_grad_scaler_step(t->scaler, t->optimizer);
        haul_grad_scaler_update(t->scaler);
    }
    assert_int_equal(haul_error_status(), HAUL_OK);
}

static int values_of(const training *t, float out[MOST_VALUES])
{
    haul_named_tensor tensors[MOST_TENSORS];
    int               count = haul_module_tensors(t->net, tensors, MOST_TENSORS), values = 0;
    for (int i = 0; i < count; i++) {
        haul_tensor *p = haul_to(haul_detach(tensors[i].tensor), haul_cpu());
        assert_int_equal(haul_read(p, out + values, haul_tensor_bytes(p)), HAUL_OK);
        values += (int)haul_tensor_count(p);
    }
    assert_true(values > 0 && values <= MOST_VALUES);
    return values;
}

/* With `tolerance` 0 all bits are the same. */
static void assert_same_weights(const training *a, const training *b, double tolerance)
{
    float     of_a[MOST_VALUES], of_b[MOST_VALUES];
    const int count = values_of(a, of_a);
    assert_int_equal(values_of(b, of_b), count);
    for (int i = 0; i < count; i++)
        if (!(fabs((double)of_a[i] - (double)of_b[i]) <= tolerance))
            fail_msg("value %d is %.9g and %.9g", i, (double)of_a[i], (double)of_b[i]);
}

static void test_train_step__equals_large_batches(void **state)
{
    (void)state;
    const training first = begin(false, 0), parts = begin(false, 0), large = begin(false, 0);
    train_in_parts(&parts);
    train_with_large_batches(&large);
    assert_same_weights(&parts, &large, 1e-6);
    float before[MOST_VALUES], after[MOST_VALUES];
    values_of(&first, before);
    values_of(&parts, after);
    assert_true(fabsf(before[0] - after[0]) > 1e-4f); /* it has learned */
    assert_int_equal(haul_optimizer_steps(parts.optimizer), 3);
}

static void test_train_step__equals_a_plain_loop(void **state)
{
    (void)state;
    for (int scales = 0; scales < 2; scales++)
        for (int clips = 0; clips < 2; clips++) {
            const double   limit = clips ? 0.05 : 0;
            const training parts = begin(scales, limit), plain = begin(scales, limit);
            train_in_parts(&parts);
            train_plainly(&plain);
            assert_same_weights(&parts, &plain, 0);
        }
}

/* The norm of all parts together is limited, not that of each. */
static void test_train_step__clips_the_sum(void **state)
{
    (void)state;
    const training       t = begin(false, 0);
    const haul_step_part parts[] = {{true, false, 0.5}, {false, true, 0.5}};
    const double         limit = 0.01;
    for (int i = 0; i < 2; i++) {
        haul_train_begin(t.optimizer, &parts[i]);
        assert_int_equal(
            haul_train_step(t.optimizer, loss_of(&t, i * BATCH, BATCH), .part = &parts[i], .clip_norm = limit),
            HAUL_OK);
    }
    const double norm = haul_item(haul_clip_grad_norm(t.net, 1));
    if (fabs(norm - limit) > 1e-5)
        fail_msg("the norm is %g", norm);
}

static bool has_gradient(const training *t)
{
    haul_named_tensor first;
    assert_true(haul_module_tensors(t->net, &first, 1) > 0);
    return haul_tensor_grad(first.tensor) != HAUL_NONE;
}

static void test_train_step__only_a_first_part_removes_gradients(void **state)
{
    (void)state;
    const training       t = begin(false, 0);
    const haul_step_part first = {true, false, 0.5}, last = {false, true, 0.5};
    haul_train_begin(t.optimizer, &first);
    assert_int_equal(haul_train_step(t.optimizer, loss_of(&t, 0, BATCH), .part = &first), HAUL_OK);
    assert_int_equal(haul_optimizer_steps(t.optimizer), 0);
    assert_int_equal(haul_train_begin(t.optimizer, &last), HAUL_OK);
    assert_true(has_gradient(&t));
    assert_int_equal(haul_train_step(t.optimizer, loss_of(&t, BATCH, BATCH), .part = &last), HAUL_OK);
    assert_int_equal(haul_optimizer_steps(t.optimizer), 1);
    assert_true(has_gradient(&t));
    assert_int_equal(haul_train_begin(t.optimizer, NULL), HAUL_OK);
    assert_false(has_gradient(&t));
}

/* A step owns nothing in the caller's scope. */
static void test_train_step__leaves_no_tensors(void **state)
{
    (void)state;
    const training       t = begin(true, 0.1);
    const haul_step_part part = {true, true, 0.5};
    haul_memory_stats    before, after;
    train_in_parts(&t); /* makes gradients and the optimizer's state */
    haul_tensor *loss = loss_of(&t, 0, BATCH);
    haul_train_begin(t.optimizer, NULL);
    assert_int_equal(haul_train_step(t.optimizer, loss, .part = &part, .scaler = t.scaler, .clip_norm = 0.1), HAUL_OK);
    haul_memory_stats_get(haul_tensor_device(t.x), &before);
    haul_train_begin(t.optimizer, NULL);
    {
        haul_scope *inner = haul_scope_push();
        assert_int_equal(
            haul_train_step(t.optimizer, loss_of(&t, 0, BATCH), .part = &part, .scaler = t.scaler, .clip_norm = 0.1),
            HAUL_OK);
        haul_scope_pop(inner);
    }
    haul_memory_stats_get(haul_tensor_device(t.x), &after);
    assert_int_equal(after.allocated, before.allocated);
}

static void test_train_step__what_is_refused(void **state)
{
    (void)state;
    const training t = begin(false, 0);
    haul_tensor   *loss = loss_of(&t, 0, BATCH);
    haul_step_part part = {true, true, 0};
    assert_says(haul_train_begin(t.optimizer, &part), HAUL_INVALID_ARGUMENT, "haul_train_begin: part.weight is 0");
    assert_says(haul_train_step(t.optimizer, loss, .part = &part), HAUL_INVALID_ARGUMENT,
                "haul_train_step: part.weight is 0");
    part.weight = NAN;
    assert_says(haul_train_step(t.optimizer, loss, .part = &part), HAUL_INVALID_ARGUMENT, "part.weight is nan");
    part.weight = 1.5;
    assert_says(haul_train_step(t.optimizer, loss, .part = &part), HAUL_INVALID_ARGUMENT, "part.weight is 1.5");
    assert_says(haul_train_step(t.optimizer, loss, .clip_norm = -1), HAUL_INVALID_ARGUMENT, "clip_norm is -1");
    assert_says(haul_train_step(t.optimizer, loss, .clip_norm = NAN), HAUL_INVALID_ARGUMENT, "clip_norm is nan");
    assert_says(haul_train_step(NULL, loss), HAUL_INVALID_ARGUMENT, "optimizer is NULL");
    assert_says(haul_train_begin(NULL, NULL), HAUL_INVALID_ARGUMENT, "optimizer is NULL");
    assert_says(haul_train_step_with(t.optimizer, NULL), HAUL_INVALID_ARGUMENT, "options is NULL");
    assert_says(haul_train_step(t.optimizer, NULL), HAUL_INVALID_ARGUMENT, "loss");
    assert_says(haul_train_step(t.optimizer, haul_scalar(1)), HAUL_GRAPH, "gradient");
    assert_int_equal(haul_optimizer_steps(t.optimizer), 0);
    assert_int_equal(haul_train_step(t.optimizer, loss), HAUL_OK); /* the graph of the loss is still whole */
}

/* The first error of an expression is the one that is reported. */
static void test_train_step__of_a_failed_loss(void **state)
{
    (void)state;
    const training t = begin(false, 0);
    haul_tensor   *wrong = haul_mse_loss(haul_call(t.net, t.x), haul_zeros(HAUL_F32, HAUL_SHAPE(7)));
    haul_error_clear();
    assert_says(haul_train_step(t.optimizer, wrong), HAUL_SHAPE, "haul_mse_loss");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_train_step__parts_of_an_epoch, setup, teardown),
        cmocka_unit_test_setup_teardown(test_train_step__a_last_step_with_fewer_mini_batches, setup, teardown),
        cmocka_unit_test_setup_teardown(test_train_step__sizes_up_to_the_largest, setup, teardown),
        cmocka_unit_test_setup_teardown(test_train_step__parts_that_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_train_step__equals_large_batches, setup, teardown),
        cmocka_unit_test_setup_teardown(test_train_step__equals_a_plain_loop, setup, teardown),
        cmocka_unit_test_setup_teardown(test_train_step__clips_the_sum, setup, teardown),
        cmocka_unit_test_setup_teardown(test_train_step__only_a_first_part_removes_gradients, setup, teardown),
        cmocka_unit_test_setup_teardown(test_train_step__leaves_no_tensors, setup, teardown),
        cmocka_unit_test_setup_teardown(test_train_step__what_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_train_step__of_a_failed_loss, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
