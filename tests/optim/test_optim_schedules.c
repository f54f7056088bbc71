/* Schedules of learning rates: against PyTorch's, their groups and state, and refused calls. */
#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "optim/schedule.h"
#include "support/conformance/golden.h"
#include "support/scope.h"

enum { STEPS = 100 };

static cJSON *golden;

static int load_golden(void **state)
{
    (void)state;
    golden = read_golden_json("schedules.json");
    return !golden;
}

static int free_golden(void **state)
{
    (void)state;
    cJSON_Delete(golden);
    return 0;
}

static double number(const cJSON *list, int i)
{
    return cJSON_GetArrayItem(list, i)->valuedouble;
}

static double metric(int step)
{
    return number(cJSON_GetObjectItem(golden, "metric"), step);
}

/* Two groups with the rates 0.1 and 0.02. */
static haul_optimizer *two_groups(void)
{
    haul_module    *net = HAUL_SEQUENTIAL(haul_nn_linear(2, 2));
    haul_optimizer *o = haul_sgd(net, 0.1, .momentum = 0.9);
    assert_int_equal(haul_optimizer_add_group(o, .names = "*.bias", .lr = 0.02), 1);
    return o;
}

static haul_schedule *chain(haul_optimizer *o)
{
    haul_schedule *parts[] = {haul_schedule_warm_up(o, 20, .from = 0.1), haul_schedule_cosine(o, 50),
                              haul_schedule_staircase(o, 4, .factor = 0.5)};
    return haul_schedule_chain(parts, (const int64_t[]){20, 70}, 3);
}

static haul_schedule *make(const char *name, haul_optimizer *o)
{
    if (!strcmp(name, "staircase"))
        return haul_schedule_staircase(o, 7, .factor = 0.5);
    if (!strcmp(name, "exponential"))
        return haul_schedule_staircase(o, 1, .factor = 0.95);
    if (!strcmp(name, "cosine"))
        return haul_schedule_cosine(o, 80, .minimum = 0.001);
    if (!strcmp(name, "warm_up"))
        return haul_schedule_warm_up(o, 30, .from = 0.25);
    if (!strcmp(name, "one_cycle"))
        return haul_schedule_one_cycle(o, 0.5, 101);
    if (!strcmp(name, "one_cycle linear"))
        return haul_schedule_one_cycle(o, 0.5, 101, .rise = 0.4, .linear = true, .divisor = 10, .final_divisor = 100,
                                       .momentum = {0.5, 0.75});
    if (!strcmp(name, "one_cycle three"))
        return haul_schedule_one_cycle(o, 0.5, 101, .three_phases = true, .fixed_momentum = true);
    if (!strcmp(name, "plateau"))
        return haul_schedule_plateau(o, .patience = 4, .factor = 0.5, .cooldown = 3);
    if (!strcmp(name, "plateau absolute"))
        return haul_schedule_plateau(o, .patience = 2, .threshold = 0.05, .absolute = true, .rising = true,
                                     .minimum = 0.001);
    return strcmp(name, "chain") ? NULL : chain(o);
}

static void assert_rates(haul_optimizer *o, const cJSON *row, const char *name, int step)
{
    const double have[] = {haul_optimizer_get(o, 0, "lr"), haul_optimizer_get(o, 1, "lr"),
                           haul_optimizer_get(o, 0, "momentum")};
    for (int i = 0; i < 3; i++)
        if (fabs(have[i] - number(row, i)) > 1e-14)
            fail_msg("%s, step %d, number %d: %.17g, PyTorch has %.17g", name, step, i, have[i], number(row, i));
}

static void test_optim_schedules__follow_pytorch(void **state)
{
    const cJSON *want;
    int          cases = 0;
    (void)state;
    cJSON_ArrayForEach(want, cJSON_GetObjectItem(golden, "rates"))
    {
        haul_optimizer *o = two_groups();
        haul_schedule  *s = make(want->string, o);
        assert_non_null(s);
        for (int step = 0; step <= STEPS; step++) {
            assert_rates(o, cJSON_GetArrayItem(want, step), want->string, step);
            if (step < STEPS)
                assert_int_equal(haul_schedule_step_metric(s, metric(step)), HAUL_OK);
        }
        assert_int_equal(haul_schedule_steps(s), STEPS);
        cases++;
    }
    assert_int_equal(cases, 10);
}

/* A schedule made anew goes on from saved numbers with bit-identical results, whatever the rate was when it was made.
 */
static void test_optim_schedules__continue_from_saved_state(void **state)
{
    const cJSON *each;
    (void)state;
    cJSON_ArrayForEach(each, cJSON_GetObjectItem(golden, "rates"))
    {
        double          saved[32];
        haul_optimizer *a = two_groups(), *b = two_groups();
        haul_schedule  *whole = make(each->string, a);
        for (int step = 0; step < 45; step++)
            assert_int_equal(haul_schedule_step_metric(whole, metric(step)), HAUL_OK);
        int count = haul_schedule_state(whole, saved, 32);
        assert_in_range(count, 6, 32);
        assert_int_equal(haul_optimizer_set(b, HAUL_ALL_GROUPS, "lr", 77), HAUL_OK);
        haul_schedule *rest = make(each->string, b);
        assert_int_equal(haul_schedule_load_state(rest, saved, count), HAUL_OK);
        assert_int_equal(haul_schedule_steps(rest), 45);
        for (int g = 0; g < 2; g++) {
            assert_int_equal(haul_optimizer_set(b, g, "lr", haul_optimizer_get(a, g, "lr")), HAUL_OK);
            assert_int_equal(haul_optimizer_set(b, g, "momentum", haul_optimizer_get(a, g, "momentum")), HAUL_OK);
        }
        for (int step = 45; step < STEPS; step++) {
            assert_int_equal(haul_schedule_step_metric(whole, metric(step)), HAUL_OK);
            assert_int_equal(haul_schedule_step_metric(rest, metric(step)), HAUL_OK);
            for (int g = 0; g < 2; g++)
                assert_true(haul_optimizer_get(a, g, "lr") == haul_optimizer_get(b, g, "lr") &&
                            haul_optimizer_get(a, g, "momentum") == haul_optimizer_get(b, g, "momentum"));
        }
    }
}

/* Moving a schedule leaves what stepping would leave, in the rates, the momentum and all numbers of its state. */
static void test_optim_schedules__move_to_any_step_at_once(void **state)
{
    const cJSON *each;
    int          cases = 0;
    (void)state;
    cJSON_ArrayForEach(each, cJSON_GetObjectItem(golden, "rates"))
    {
        if (!strncmp(each->string, "plateau", 7))
            continue;
        haul_optimizer *a = two_groups(), *b = two_groups();
        haul_schedule  *stepped = make(each->string, a), *moved = make(each->string, b);
        for (int step = 0; step <= STEPS; step++) {
            double states[2][32] = {{0}};
            assert_int_equal(haul__schedule_move(moved, step), HAUL_OK);
            for (int g = 0; g < 2; g++)
                assert_true(haul_optimizer_get(a, g, "lr") == haul_optimizer_get(b, g, "lr") &&
                            haul_optimizer_get(a, g, "momentum") == haul_optimizer_get(b, g, "momentum"));
            assert_int_equal(haul_schedule_state(stepped, states[0], 32), haul_schedule_state(moved, states[1], 32));
            for (int i = 0; i < 32; i++)
                assert_true(states[0][i] == states[1][i] || (isnan(states[0][i]) && isnan(states[1][i])));
            assert_int_equal(haul_schedule_step(stepped), HAUL_OK);
        }
        cases++;
    }
    assert_int_equal(cases, 8);
    haul_schedule *far = haul_schedule_cosine(two_groups(), 80, .minimum = 0.001);
    assert_int_equal(haul__schedule_move(far, (int64_t)1 << 52), HAUL_OK);
    assert_int_equal(haul_schedule_steps(far), (int64_t)1 << 52);
    haul_schedule *plateau = haul_schedule_plateau(two_groups());
    assert_int_equal(haul__schedule_move(plateau, 0), HAUL_OK);
    assert_int_equal(haul__schedule_move(plateau, 1), HAUL_INVALID_ARGUMENT);
    assert_non_null(strstr(haul_error_message(), "the steps of a plateau need metrics"));
}

static void test_optim_schedules__have_groups(void **state)
{
    (void)state;
    haul_optimizer *o = two_groups();
    haul_schedule  *s = haul_schedule_staircase(o, 1, .factor = 0.5, .groups = (const int[]){1}, .count = 1);
    assert_int_equal(haul_schedule_step(s), HAUL_OK);
    assert_true(haul_optimizer_get(o, 0, "lr") == 0.1 && haul_optimizer_get(o, 1, "lr") == 0.01);
    assert_null(haul_schedule_staircase(o, 1, .groups = (const int[]){2}, .count = 1));
    assert_non_null(strstr(haul_error_message(), "groups[0] is 2, but the optimizer has the groups 0 to 1"));
    assert_null(haul_schedule_staircase(o, 1, .groups = (const int[]){1, 1}, .count = 2));
    assert_non_null(strstr(haul_error_message(), "group 1 is given twice"));
    assert_null(haul_schedule_staircase(o, 1, .count = 1));
    haul_error_clear();
}

/* A rate that is set is the base of schedules that are made afterwards; one that a schedule set is not. */
static void test_optim_schedules__begin_with_the_rate_that_was_set(void **state)
{
    (void)state;
    haul_optimizer *o = two_groups();
    haul_schedule_staircase(o, 1, .factor = 0.5);
    assert_int_equal(haul_schedule_step(haul_schedule_staircase(o, 1, .factor = 0.5)), HAUL_OK);
    assert_true(haul_optimizer_get(o, 0, "lr") == 0.05);
    haul_schedule_cosine(o, 10);
    assert_true(haul_optimizer_get(o, 0, "lr") == 0.1);
    assert_int_equal(haul_optimizer_set(o, 0, "lr", 0.25), HAUL_OK);
    haul_schedule_warm_up(o, 10, .from = 0.5);
    assert_true(haul_optimizer_get(o, 0, "lr") == 0.125 && haul_optimizer_get(o, 1, "lr") == 0.01);
    assert_int_equal(haul_optimizer_add_group(o, .names = "*", .lr = 0.5), 2);
    haul_schedule_warm_up(o, 10, .from = HAUL_ZERO);
    assert_true(haul_optimizer_get(o, 2, "lr") == 0);
}

static void assert_refused(const void *result, const char *what)
{
    assert_null(result);
    if (!strstr(haul_error_message(), what))
        fail_msg("\"%s\" does not say \"%s\"", haul_error_message(), what);
    haul_error_clear();
}

static void test_optim_schedules__wrong_calls_are_refused(void **state)
{
    (void)state;
    haul_optimizer *o = two_groups();
    assert_refused(haul_schedule_staircase(o, 0), "every is 0; at least 1 is expected");
    assert_refused(haul_schedule_staircase(o, 1, .factor = 2), "factor is 2");
    assert_refused(haul_schedule_cosine(o, 10, .minimum = -1), "minimum is -1");
    assert_refused(haul_schedule_cosine(NULL, 10), "optimizer is NULL");
    assert_refused(haul_schedule_warm_up(o, 10, .from = 1.5), "from is 1.5");
    assert_refused(haul_schedule_one_cycle(o, NAN, 10), "max_lr is nan");
    assert_refused(haul_schedule_one_cycle(o, 1, 10, .rise = 0.75, .three_phases = true), "rise is 0.75");
    assert_refused(haul_schedule_one_cycle(o, 1, 10, .momentum = {0.5, 1}), "momentum[1] is 1");
    assert_refused(haul_schedule_plateau(o, .factor = 1), "factor is 1");
    assert_refused(haul_schedule_plateau(o, .patience = -1), "patience is -1");
    haul_schedule *parts[] = {haul_schedule_cosine(o, 10), haul_schedule_plateau(o), NULL};
    assert_refused(haul_schedule_chain(parts, (const int64_t[]){5, 6}, 3), "schedules is NULL");
    assert_refused(haul_schedule_chain(parts, (const int64_t[]){0}, 2), "milestones[0] is 0; more than 0");
    assert_refused(haul_schedule_chain(parts, NULL, 2), "milestones is NULL");
    assert_true(haul_optimizer_get(o, 0, "lr") == 0.1);

    haul_schedule *both = haul_schedule_chain(parts, (const int64_t[]){2}, 2);
    assert_int_equal(haul_schedule_step(both), HAUL_OK);
    assert_int_equal(haul_schedule_step(both), HAUL_INVALID_ARGUMENT);
    assert_non_null(strstr(haul_error_message(), "the step of a plateau needs a metric"));
    assert_int_equal(haul_schedule_step_metric(both, 1), HAUL_OK);
    assert_int_equal(haul_schedule_steps(both), 2);

    haul_schedule *cycle = haul_schedule_one_cycle(o, 1, 2);
    assert_int_equal(haul_schedule_step(cycle), HAUL_OK);
    assert_int_equal(haul_schedule_step(cycle), HAUL_OK);
    assert_int_equal(haul_schedule_step(cycle), HAUL_STATE);
    assert_int_equal(haul_schedule_steps(cycle), 2);
    double saved[8] = {0};
    assert_int_equal(haul_schedule_load_state(cycle, saved, 5), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_schedule_load_state(cycle, saved, haul_schedule_state(cycle, saved, 8)), HAUL_OK);
    saved[0] = 0.5;
    assert_int_equal(haul_schedule_load_state(cycle, saved, 6), HAUL_FORMAT);
    assert_int_equal(haul_schedule_steps(cycle), 2);
}

static void test_optim_schedules__that_cannot_allocate_change_nothing(void **state)
{
    (void)state;
    for (int64_t nth = 1;; nth++) {
        haul_optimizer *o = two_groups();
        haul__fault_plan(HAUL__FAULT_HOST, nth);
        haul_schedule *s = haul_schedule_warm_up(o, 10);
        haul__fault_plan(0, 0);
        if (s)
            break;
        assert_true(haul_optimizer_get(o, 0, "lr") == 0.1);
        haul_error_clear();
        assert_true(nth < 100);
    }
}

static haul_status run_step(void *context)
{
    return haul_schedule_step(context);
}

static void test_optim_schedules__do_nothing_in_an_estimate(void **state)
{
    (void)state;
    haul_optimizer      *o = two_groups();
    haul_schedule       *s = haul_schedule_cosine(o, 10);
    haul_estimate_result cost;
    assert_int_equal(haul_estimate(run_step, s, &cost), HAUL_OK);
    haul_estimate_free(&cost);
    assert_int_equal(haul_schedule_steps(s), 0);
    assert_true(haul_optimizer_get(o, 0, "lr") == 0.1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_optim_schedules__##name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(follow_pytorch),
        TEST(continue_from_saved_state),
        TEST(move_to_any_step_at_once),
        TEST(have_groups),
        TEST(begin_with_the_rate_that_was_set),
        TEST(wrong_calls_are_refused),
        TEST(that_cannot_allocate_change_nothing),
        TEST(do_nothing_in_an_estimate),
    };
    return cmocka_run_group_tests(tests, load_golden, free_golden);
}
