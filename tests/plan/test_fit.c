/* haul_fit: a step of a program within a memory limit, refusals, and options that cannot be. */
#include <haul/haul.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/system/clock.h"

enum { WIDTH = 64, BATCH = 512 };

static haul_device *gpu;
static haul_scope  *scope;

typedef struct training {
    haul_module    *net;
    haul_optimizer *sgd;
    int             steps;
} training;

static haul_module *block(void)
{
    return HAUL_SEQUENTIAL(haul_nn_linear(WIDTH, WIDTH), haul_nn_gelu(), haul_nn_linear(WIDTH, WIDTH), haul_nn_relu());
}

static int setup(void **state)
{
    static training t;
    haul_error_clear();
    scope = haul_scope_push();
    gpu = haul_device_get("sim:laptop-4g");
    if (haul_set_device(gpu))
        return -1;
    t = (training){.net = HAUL_SEQUENTIAL(block(), block(), block(), block(), haul_nn_linear(WIDTH, 1))};
    t.sgd = haul_sgd(t.net, 0.01, .momentum = 0.9);
    *state = &t;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    haul_scope_pop(scope);
    return 0;
}

static haul_status step(void *context, int64_t batch)
{
    training    *t = context;
    haul_scope  *inner = haul_scope_push();
    haul_tensor *x = haul_ones(HAUL_F32, HAUL_SHAPE(batch, WIDTH)), *y = haul_zeros(HAUL_F32, HAUL_SHAPE(batch, 1));
    t->steps++;
    haul_optimizer_zero_grad(t->sgd);
    haul_status status = haul_backward(haul_bce_with_logits(haul_call(t->net, x), y));
    if (!status)
        status = haul_optimizer_step(t->sgd);
    haul_scope_pop(inner);
    return status;
}

/* The peak and the time of the second step that computes. */
static void run(training *t, int64_t *peak, int64_t *ps)
{
    haul_memory_stats stats;
    assert_int_equal(step(t, BATCH), HAUL_OK);
    haul_memory_reset_peak(gpu);
    haul_device_sync(gpu);
    *ps = haul__clock_ps();
    assert_int_equal(step(t, BATCH), HAUL_OK);
    haul_device_sync(gpu);
    *ps = haul__clock_ps() - *ps;
    assert_int_equal(haul_memory_stats_get(gpu, &stats), HAUL_OK);
    *peak = stats.peak_allocated;
}

static int64_t picoseconds(double ms)
{
    return (int64_t)(ms * 1e9 + 0.5);
}

static void test_fit__a_step_takes_what_was_predicted(void **state)
{
    training       *t = *state;
    haul_fit_result r;
    int64_t         peak, ps;
    assert_int_equal(haul_fit(step, t, &r, .module = t->net, .batch = BATCH), HAUL_OK);
    assert_true(!r.used && !r.recomputed_count && r.batch == BATCH && r.peak_bytes == r.unlimited_peak_bytes);
    const int64_t limit = r.unlimited_peak_bytes / 10 * 7;
    assert_int_equal(haul_fit(step, t, &r, .module = t->net, .batch = BATCH, .memory_limit = limit,
                              .allow = HAUL_FIT_RECOMPUTE, .apply = true),
                     HAUL_OK);
    assert_int_equal(r.used, HAUL_FIT_RECOMPUTE);
    assert_true(r.recomputed_count > 0 && *r.recomputed && *r.words);
    assert_true(r.peak_bytes <= limit && r.bound_ms <= r.step_ms && r.step_ms > r.unlimited_step_ms);
    run(t, &peak, &ps);
    assert_int_equal(peak, r.peak_bytes);
    assert_int_equal(ps, picoseconds(r.step_ms));
}

static void test_fit__changes_nothing_without_apply(void **state)
{
    training         *t = *state;
    haul_fit_result   r, again;
    haul_memory_stats before, after;
    haul_memory_stats_get(gpu, &before);
    assert_int_equal(haul_fit(step, t, &r, .module = t->net, .batch = BATCH), HAUL_OK);
    assert_int_equal(haul_fit(step, t, &again, .module = t->net, .batch = BATCH, .allow = HAUL_FIT_RECOMPUTE,
                              .memory_limit = r.peak_bytes / 10 * 7),
                     HAUL_OK);
    assert_true(again.recomputed_count > 0);
    haul_memory_stats_get(gpu, &after);
    assert_int_equal(after.allocated, before.allocated);
    assert_int_equal(haul_fit(step, t, &again, .module = t->net, .batch = BATCH), HAUL_OK);
    assert_int_equal(again.peak_bytes, r.peak_bytes);
    assert_true(again.step_ms == r.step_ms);
}

static void test_fit__finds_the_batch(void **state)
{
    training       *t = *state;
    haul_fit_result one, r, more;
    assert_int_equal(haul_fit(step, t, &one, .module = t->net, .batch = BATCH), HAUL_OK);
    assert_int_equal(haul_fit(step, t, &r, .memory_limit = one.peak_bytes, .most_batch = 4 * BATCH), HAUL_OK);
    assert_in_range(r.batch, BATCH - BATCH / 8, BATCH);
    assert_int_equal(haul_fit(step, t, &more, .module = t->net, .memory_limit = one.peak_bytes, .allow = HAUL_FIT_SPILL,
                              .most_batch = 4 * BATCH),
                     HAUL_OK);
    assert_true(more.batch > r.batch && more.used == HAUL_FIT_SPILL && more.spilled_bytes > 0);
    assert_true(more.step_ms <= more.unlimited_step_ms + more.spill_most_ms && r.spill_most_ms == 0);
}

/* A mini-batch of a step. */
static haul_status part_of_step(void *context, int64_t batch, const haul_step_part *part)
{
    training    *t = context;
    haul_scope  *inner = haul_scope_push();
    haul_tensor *x = haul_ones(HAUL_F32, HAUL_SHAPE(batch, WIDTH)), *y = haul_zeros(HAUL_F32, HAUL_SHAPE(batch, 1));
    haul_status  status = haul_train_begin(t->sgd, part);
    if (!status)
        status = haul_train_step(t->sgd, haul_bce_with_logits(haul_call(t->net, x), y), .part = part);
    haul_scope_pop(inner);
    return status;
}

/* The peak and the time of the second step. */
static void run_parts(training *t, const haul_fit_result *r, int64_t *peak, int64_t *ps)
{
    haul_memory_stats stats;
    for (int i = 0; i < 2; i++) {
        haul_device_sync(gpu);
        haul_memory_reset_peak(gpu);
        *ps = haul__clock_ps();
        for (int64_t k = 0; k < r->accumulate; k++)
            assert_int_equal(part_of_step(t, r->batch / r->accumulate,
                                          &(haul_step_part){k == 0, k == r->accumulate - 1, 1 / (double)r->accumulate}),
                             HAUL_OK);
        haul_device_sync(gpu);
    }
    *ps = haul__clock_ps() - *ps;
    assert_int_equal(haul_memory_stats_get(gpu, &stats), HAUL_OK);
    *peak = stats.peak_allocated;
}

static void test_fit__accumulates(void **state)
{
    training       *t = *state;
    haul_fit_result r;
    int64_t         peak, ps;
    assert_int_equal(haul_fit(NULL, t, &r, .module = t->net, .batch = BATCH, .part = part_of_step), HAUL_OK);
    assert_true(!r.used && r.accumulate == 1 && r.batch == BATCH);
    const int64_t limit = r.unlimited_peak_bytes / 10 * 4;
    assert_int_equal(haul_fit(NULL, t, &r, .module = t->net, .batch = BATCH, .part = part_of_step,
                              .memory_limit = limit, .allow = HAUL_FIT_ACCUMULATE),
                     HAUL_OK);
    assert_true(r.used == HAUL_FIT_ACCUMULATE && r.accumulate > 1 && r.batch == BATCH && r.peak_bytes <= limit);
    run_parts(t, &r, &peak, &ps);
    assert_int_equal(peak, r.peak_bytes);
    assert_in_range(ps, picoseconds(0.95 * r.step_ms), picoseconds(r.step_ms));
}

static void test_fit__refuses_what_nothing_fits(void **state)
{
    training       *t = *state;
    haul_fit_result r;
    assert_int_equal(haul_fit(step, t, &r, .module = t->net, .batch = BATCH, .memory_limit = 500000,
                              .allow = HAUL_FIT_RECOMPUTE | HAUL_FIT_SPILL),
                     HAUL_OUT_OF_MEMORY);
    assert_non_null(strstr(haul_error_message(), "nothing that is allowed fits in 500000 bytes on sim:laptop-4g"));
    assert_non_null(strstr(haul_error_message(), "the largest batch that fits is "));
    assert_true(r.peak_bytes > 500000);
    haul_error_clear();
    assert_int_equal(step(t, 4), HAUL_OK);
}

static haul_status fail_step(void *context, int64_t batch)
{
    (void)context;
    return haul_error_set(HAUL_UNSUPPORTED, "test", NULL, "not with %d", (int)batch);
}

static void test_fit__errors(void **state)
{
    training       *t = *state;
    haul_fit_result r;
    assert_int_equal(haul_fit(NULL, t, &r, .batch = 1), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_fit(step, t, NULL, .batch = 1), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_fit_with(step, t, &r, NULL), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_fit(step, t, &r, .batch = -1), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_fit(step, t, &r, .memory_limit = -1, .batch = 1), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_fit(step, t, &r, .allow = 1, .batch = 1), HAUL_INVALID_ARGUMENT);
    assert_non_null(strstr(haul_error_message(), "haul_plan_new divides a step among devices"));
    assert_int_equal(haul_fit(step, t, &r, .allow = HAUL_FIT_ACCUMULATE, .batch = 4), HAUL_INVALID_ARGUMENT);
    assert_non_null(strstr(haul_error_message(), "HAUL_FIT_ACCUMULATE needs .part"));
    assert_int_equal(haul_fit(fail_step, t, &r, .module = t->net, .batch = 3), HAUL_UNSUPPORTED);
    assert_non_null(strstr(haul_error_message(), "not with 3"));
    assert_true(!r.batch && !t->steps);
    haul_error_clear();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_fit__a_step_takes_what_was_predicted, setup, teardown),
        cmocka_unit_test_setup_teardown(test_fit__changes_nothing_without_apply, setup, teardown),
        cmocka_unit_test_setup_teardown(test_fit__finds_the_batch, setup, teardown),
        cmocka_unit_test_setup_teardown(test_fit__accumulates, setup, teardown),
        cmocka_unit_test_setup_teardown(test_fit__refuses_what_nothing_fits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_fit__errors, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
