/* Copies that a plan asks for: the ledger, budgets and the audit know its price, on a simulated device. */
#include <haul/haul.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { BATCH = 256, LIMIT = 12000000, STEPS = 4, MANY = 1 << 20 };

static haul_device *gpu;
static haul_scope  *scope;

typedef struct training {
    haul_module    *net;
    haul_optimizer *sgd;
    haul_tensor    *x, *y;
} training;

/* Convolutions whose activations do not fit the limit, so that the plan splits the network. */
static haul_tensor *forward(haul_module *m, haul_args *args)
{
    haul_tensor *x = args->x[0];
    x = haul_max_pool2d(haul_relu(haul_call_child(m, "conv1", x)), 2);
    x = haul_max_pool2d(haul_relu(haul_call_child(m, "conv2", x)), 2);
    return haul_call_child(m, "fc", haul_flatten(x, 1));
}

static haul_status step(void *context)
{
    training   *t = context;
    haul_scope *inner = haul_scope_push();
    haul_optimizer_zero_grad(t->sgd);
    haul_status status = haul_backward(haul_cross_entropy(haul_call(t->net, t->x), t->y));
    if (!status)
        status = haul_optimizer_step(t->sgd);
    haul_status closed = haul_scope_pop(inner);
    return status ? status : closed;
}

static void take_batch(training *t)
{
    haul_drop(t->x);
    haul_drop(t->y);
    t->x = haul_normal(HAUL_F32, HAUL_SHAPE(BATCH, 3, 32, 32), 0, 1);
    t->y = haul_zeros(HAUL_I64, HAUL_SHAPE(BATCH));
}

/* The batch is new in each step, so that it crosses in each. */
static void run(training *t)
{
    take_batch(t);
    assert_int_equal(step(t), HAUL_OK);
}

static training   training_of;
static haul_plan *plan;

static int setup(void **state)
{
    (void)state;
    training *t = &training_of;
    haul_error_clear();
    scope = haul_scope_push();
    *t = (training){.net = haul_module_new("net", forward)};
    haul_module_add(t->net, "conv1", haul_nn_conv2d(3, 6, 5));
    haul_module_add(t->net, "conv2", haul_nn_conv2d(6, 16, 5));
    haul_module_add(t->net, "fc", haul_nn_linear(400, 10));
    t->sgd = haul_sgd(t->net, 0.01);
    take_batch(t);
    plan = haul_plan_new(step, t, .module = t->net, .devices = "cpu,sim:laptop-4g",
                         .limits = &(haul_plan_limit){NULL, LIMIT, 0}, .limit_count = 1);
    if (!plan || haul_plan_apply(plan, t->net))
        fail_msg("%s", haul_error_message());
    run(t);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    return haul_scope_pop(scope) != HAUL_OK;
}

/* ---- the ledger ---- */

static haul_ledger_row sum_of(haul_ledger *ledger)
{
    haul_ledger_row rows[64], sum = {.count = 0};
    const int       count = haul_ledger_rows(ledger, rows, 64);
    assert_in_range(count, 1, 64);
    for (int i = 0; i < count; i++) {
        sum.bytes += rows[i].bytes;
        sum.planned_bytes += rows[i].planned_bytes;
        sum.planned_ms += rows[i].planned_ms;
        sum.device_ms += rows[i].device_ms;
    }
    return sum;
}

/* All copies of a step are the plan's, in both directions and in both passes, and take on the simulated link what it
 * counted. */
static void test_planned_copies__have_their_price_in_the_ledger(void **state)
{
    (void)state;
    haul_plan_candidate all[3];
    haul_ledger        *ledger = haul_ledger_begin(.device_times = true);
    run(&training_of);
    haul_device_sync(gpu);
    haul_ledger_end(ledger);
    haul_ledger_row pairs[4];
    assert_int_equal(haul_ledger_rows(ledger, pairs, 4, .by = HAUL_LEDGER_FROM | HAUL_LEDGER_TO), 2);
    const haul_ledger_row sum = sum_of(ledger);
    assert_true(sum.planned_bytes > 0);
    assert_int_equal(sum.planned_bytes, sum.bytes);
    assert_true(sum.planned_ms >= sum.device_ms * 0.9999 && sum.planned_ms <= sum.device_ms * 1.0001);
    assert_int_equal(haul_plan_candidates(plan, all, 3), 3);
    for (int i = 0; i < 3; i++)
        if (!strcmp(all[i].name, "plan"))
            assert_int_equal(sum.planned_bytes, all[i].copied_bytes);
}

/* What the program copies has no plan. */
static void test_planned_copies__are_not_those_of_the_program(void **state)
{
    (void)state;
    haul_ledger *ledger = haul_ledger_begin(.everywhere = false);
    haul_to(haul_to(training_of.x, gpu), haul_cpu());
    haul_ledger_end(ledger);
    const haul_ledger_row sum = sum_of(ledger);
    assert_int_equal(sum.bytes, 2 * BATCH * 3 * 32 * 32 * 4);
    assert_int_equal(sum.planned_bytes, 0);
    assert_true(sum.planned_ms == 0);
}

/* ---- budgets ---- */

/* A step with a budget; the scope ends with this status. */
static void run_with(const haul_budget_options *budget, bool copies, haul_status status)
{
    haul_scope *inner = haul_scope_push();
    assert_int_equal(haul_budget_with(budget), HAUL_OK);
    run(&training_of);
    if (copies)
        haul_to(training_of.y, gpu);
    training_of.x = training_of.y = NULL;
    assert_int_equal(haul_scope_pop(inner), status);
}

static void test_planned_copies__are_free_in_a_budget_for_plans(void **state)
{
    (void)state;
    run_with(&(haul_budget_options){.planned = true, .waits = MANY}, false, HAUL_OK);
    run_with(&(haul_budget_options){.waits = MANY}, false, HAUL_BUDGET);
    run_with(&(haul_budget_options){.planned = true, .waits = MANY}, true, HAUL_BUDGET);
    assert_non_null(strstr(haul_error_message(), "exceeded: 2048 bytes to devices (0 allowed)"));
    haul_error_clear();
}

/* ---- the audit ---- */

static void test_planned_copies__have_their_price_in_findings(void **state)
{
    (void)state;
    haul_finding  found[32];
    int           planned = 0;
    haul_profile *profile = haul_profile_begin(.everywhere = false);
    for (int i = 0; i < STEPS; i++) {
        run(&training_of);
        assert_int_equal(haul_profile_step(profile), HAUL_OK);
    }
    assert_int_equal(haul_profile_end(profile), HAUL_OK);
    const int count = haul_profile_audit(profile, found, 32);
    assert_in_range(count, 1, 32);
    for (int i = 0; i < count; i++) {
        assert_int_equal(found[i].planned_ms_per_step > 0, strstr(found[i].what, "HAUL_PLACE_AUTO") != NULL);
        planned += found[i].planned_ms_per_step > 0 && strstr(found[i].fix, "haul_plan_apply") != NULL;
    }
    assert_true(planned > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_planned_copies__have_their_price_in_the_ledger, setup, teardown),
        cmocka_unit_test_setup_teardown(test_planned_copies__are_not_those_of_the_program, setup, teardown),
        cmocka_unit_test_setup_teardown(test_planned_copies__are_free_in_a_budget_for_plans, setup, teardown),
        cmocka_unit_test_setup_teardown(test_planned_copies__have_their_price_in_findings, setup, teardown),
    };
    gpu = haul_device_get("sim:laptop-4g");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
