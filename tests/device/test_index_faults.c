/* Indices out of range: an error of the call on the CPU, of the next function that waits on other devices, which then
 * go on.
 *
 * ctest: cuda; sim; labels=threads */
#include <pthread.h>

#include "support/devices/null.h"
#include "support/failure.h"
#include "support/linalg.h"

static bool at_once(haul_device *device)
{
    return device == haul_cpu();
}

static haul_tensor *counting(haul_device *device, haul_shape shape, int count)
{
    return haul_reshape(haul_to(haul_arange(HAUL_F32, 0, count, 1), device), shape);
}

static haul_tensor *indices(haul_device *device, haul_dtype dtype, int count, const int64_t *values)
{
    return haul_to(haul_cast(haul_from_host(HAUL_I64, HAUL_SHAPE(count), values), dtype), device);
}

static void assert_reported(haul_status status, const char *operation, const char *message)
{
    assert_int_equal(status, HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_error_status(), HAUL_INVALID_ARGUMENT);
    assert_string_equal(haul_error_message(), message);
    assert_string_equal(haul_error_operation(), operation);
    haul_error_clear();
}

/* Of the call that gave `result` or, where that is not done yet, of the wait for it. */
static void assert_fault(haul_device *device, haul_tensor *result, const char *operation, const char *message)
{
    if (at_once(device)) {
        assert_failed(result);
        assert_reported(haul_error_status(), operation, message);
    } else {
        assert_valid(result);
        assert_reported(haul_device_sync(device), operation, message);
    }
    assert_int_equal(haul_device_sync(device), HAUL_OK); /* only once */
}

/* ---- reports ---- */

static void selecting(haul_device *device)
{
    static const haul_dtype dtypes[] = {HAUL_I64, HAUL_I32, HAUL_U8};
    haul_tensor            *x = counting(device, HAUL_SHAPE(2, 4, 3), 24);
    for (int i = 0; i < 3; i++) {
        haul_tensor *high = indices(device, dtypes[i], 3, (int64_t[]){0, 4, 1});
        assert_fault(device, haul_index_select(x, 1, high), "haul_index_select",
                     "haul_index_select: index[1] is 4, but axis 1 has 4 elements");
        assert_fault(device, haul_index_select(x, -1, haul_slice(high, 0, 1, 2, 1)), "haul_index_select",
                     "haul_index_select: index[0] is 4, but axis 2 has 3 elements");
        haul_tensor *right = indices(device, dtypes[i], 2, (int64_t[]){3, 0});
        assert_close(haul_index_select(x, 1, right), (double[]){9, 10, 11, 0, 1, 2, 21, 22, 23, 12, 13, 14}, 12, 0,
                     "a right call after a wrong one");
    }
    haul_tensor *low = indices(device, HAUL_I32, 8, (int64_t[]){0, 0, 0, 0, 0, 0, 0, -1});
    assert_fault(device, haul_index_select(x, 0, low), "haul_index_select",
                 "haul_index_select: index[7] is -1, but axis 0 has 2 elements");
    low = indices(device, HAUL_I64, 1, (int64_t[]){INT64_MIN});
    assert_fault(device, haul_index_select(haul_slice(x, 0, 0, 1, 1), 0, low), "haul_index_select",
                 "haul_index_select: index[0] is -9223372036854775808, but axis 0 has 1 element");
}

static void losses(haul_device *device)
{
    haul_tensor *x = haul_to(haul_ones(HAUL_F32, HAUL_SHAPE(3, 4)), device);
    haul_tensor *high = indices(device, HAUL_I64, 3, (int64_t[]){0, 1, 4});
    haul_tensor *low = indices(device, HAUL_I32, 3, (int64_t[]){-100, 1, 2});
    haul_tensor *right = indices(device, HAUL_U8, 3, (int64_t[]){3, 1, 2});
    assert_fault(device, haul_cross_entropy(x, high), "haul_cross_entropy",
                 "haul_cross_entropy: y[2] is 4, but there are 4 classes");
    assert_close(haul_cross_entropy(x, right), (double[]){log(4)}, 1, 1e-6, "cross_entropy afterwards");
    assert_fault(device, haul_nll_loss(x, low), "haul_nll_loss",
                 "haul_nll_loss: y[0] is -100, but there are 4 classes");
    assert_close(haul_nll_loss(x, right), (double[]){-1}, 1, 1e-6, "nll_loss afterwards");
    assert_fault(device, haul_cross_entropy(haul_slice(x, 1, 0, 1, 1), right), "haul_cross_entropy",
                 "haul_cross_entropy: y[0] is 3, but there is 1 class");
}

static void test_index_faults__are_reported(void **state)
{
    (void)state;
    on_devices(selecting);
    on_devices(losses);
}

/* ---- backward ---- */

static void assert_backward_fault(haul_device *device, haul_tensor *y, haul_tensor *x, const char *operation,
                                  const char *message, const double *gradient)
{
    haul_tensor *g = NULL;
    haul_status  status = haul_grad(haul_sum(y), &x, 1, &g);
    if (at_once(device)) {
        assert_reported(status, operation, message);
        return;
    }
    assert_int_equal(status, HAUL_OK);
    assert_reported(haul_device_sync(device), operation, message);
    assert_close(g, gradient, haul_tensor_count(x), 1e-6, "what comes from indices in range");
}

/* The memory of the indices changes behind the library's back, on the CPU, or forward reported its own fault. */
static void backward(haul_device *device)
{
    int64_t      at[] = {1, 0, 1};
    haul_tensor *x = haul_set_requires_grad(counting(device, HAUL_SHAPE(2, 2), 4), true), *ys[3];
    haul_tensor *rows = haul_set_requires_grad(counting(device, HAUL_SHAPE(3, 2), 6), true);
    haul_tensor *index = haul_wrap_host(HAUL_I64, HAUL_SHAPE(3), at, NULL, NULL);
    at[2] = at_once(device) ? 1 : 2;
    index = haul_to(index, device);
    assert_int_equal(haul_device_sync(device), HAUL_OK);
    ys[0] = haul_index_select(x, 0, index);
    ys[1] = haul_nll_loss(rows, index);
    ys[2] = haul_cross_entropy(rows, index);
    if (at_once(device))
        at[2] = 2;
    else
        assert_reported(haul_device_sync(device), "haul_index_select",
                        "haul_index_select: index[2] is 2, but axis 0 has 2 elements");
    const double s = 1 / (1 + exp(-1)) / 3; /* softmax of 0 and 1 */
    assert_backward_fault(device, ys[0], x, "haul_index_select_backward",
                          "haul_index_select_backward: index[2] is 2, but axis 0 has 2 elements",
                          (double[]){1, 1, 1, 1});
    assert_backward_fault(device, ys[1], rows, "haul_nll_loss_backward",
                          "haul_nll_loss_backward: y[2] is 2, but there are 2 classes",
                          (double[]){0, -1. / 3, -1. / 3, 0, 0, 0});
    assert_backward_fault(device, ys[2], rows, "haul_cross_entropy_backward",
                          "haul_cross_entropy_backward: y[2] is 2, but there are 2 classes",
                          (double[]){1. / 3 - s, s - 1. / 3, -s, s, 1. / 3 - s, s});
}

static void test_index_faults__are_reported_of_gradients(void **state)
{
    (void)state;
    on_devices(backward);
}

/* ---- when ---- */

static void several(haul_device *device)
{
    haul_tensor *x = counting(device, HAUL_SHAPE(10, 3), 30);
    haul_tensor *a = indices(device, HAUL_I64, 1, (int64_t[]){10}), *b = indices(device, HAUL_I64, 1, (int64_t[]){-7});
    haul_tensor *right = indices(device, HAUL_I64, 1, (int64_t[]){9});
    if (at_once(device))
        return;
    for (int i = 0; i < 40; i++) {
        haul_scope *scope = haul_scope_push();
        assert_valid(haul_index_select(x, 0, i % 2 ? a : right));
        assert_valid(haul_index_select(x, 0, i % 2 ? b : a));
        assert_valid(haul_cross_entropy(x, haul_expand(b, HAUL_SHAPE(10))));
        assert_reported(haul_device_sync(device), "haul_index_select",
                        "haul_index_select: index[0] is 10, but axis 0 has 10 elements");
        haul_tensor *y = haul_index_select(x, 0, right);
        assert_close(y, (double[]){27, 28, 29}, 3, 0, "the next call");
        assert_int_equal(haul_device_sync(device), HAUL_OK);
        haul_scope_pop(scope);
    }
}

static void test_index_faults__the_first_is_reported(void **state)
{
    (void)state;
    on_devices(several);
}

static haul_status by_read(haul_tensor *y)
{
    float values[3];
    return haul_read(y, values, sizeof values);
}

static haul_status by_item(haul_tensor *y)
{
    haul_item(haul_sum(y));
    return haul_error_status();
}

static haul_status by_print(haul_tensor *y)
{
    return haul_print(y);
}

static haul_status by_map(haul_tensor *y)
{
    if (haul_map(y, HAUL_READ))
        haul_unmap(y);
    return haul_error_status();
}

static haul_status by_moving(haul_tensor *y)
{
    return by_read(haul_to(y, haul_cpu()));
}

/* Of a tensor that is there, and computed from a wrong one. */
static haul_status by_computing(haul_tensor *y)
{
    return by_item(haul_add(haul_to(y, haul_cpu()), haul_ones(HAUL_F32, HAUL_SHAPE(1))));
}

static void ways(haul_device *device)
{
    static haul_status (*const ask[])(haul_tensor *) = {by_read, by_item, by_print, by_map, by_moving, by_computing};
    haul_tensor *x = counting(device, HAUL_SHAPE(10, 3), 30);
    if (at_once(device))
        return;
    for (int i = 0; i < 6; i++) {
        haul_tensor *y = haul_index_select(x, 0, indices(device, HAUL_I64, 1, (int64_t[]){12}));
        assert_reported(ask[i](y), "haul_index_select",
                        "haul_index_select: index[0] is 12, but axis 0 has 10 elements");
        assert_int_equal(ask[i](haul_select(x, 0, 1)), HAUL_OK);
        assert_int_equal(ask[i](y), HAUL_OK); /* its contents are zeros */
    }
}

static void test_index_faults__are_reported_by_all_that_read(void **state)
{
    (void)state;
    on_devices(ways);
}

/* More points on the stream, on which other streams wait, than copies are kept; then a fault behind them. */
static void many_points(haul_device *device)
{
    haul_tensor *x = counting(device, HAUL_SHAPE(10, 3), 30);
    haul_tensor *right = indices(device, HAUL_I64, 1, (int64_t[]){9}),
                *a = indices(device, HAUL_I64, 1, (int64_t[]){10});
    if (at_once(device))
        return;
    for (int wrong = 0; wrong < 50; wrong += 7) {
        haul_scope *scope = haul_scope_push();
        for (int i = 0; i < 50; i++)
            assert_valid(haul_to(haul_index_select(x, 0, i == wrong ? a : right), haul_cpu()));
        assert_reported(haul_device_sync(device), "haul_index_select",
                        "haul_index_select: index[0] is 10, but axis 0 has 10 elements");
        assert_int_equal(haul_device_sync(device), HAUL_OK);
        haul_scope_pop(scope);
    }
}

static void test_index_faults__are_reported_behind_many_points(void **state)
{
    (void)state;
    on_devices(many_points);
}

/* ---- what it costs ---- */

static void waits(haul_device *device)
{
    haul_tensor *x = counting(device, HAUL_SHAPE(10, 3), 30), *right = indices(device, HAUL_I64, 1, (int64_t[]){9});
    assert_valid(haul_index_select(x, 0, right));
    assert_int_equal(haul_device_sync(device), HAUL_OK);
    int64_t             before = haul_sync_count();
    haul_transfer_stats copies, now;
    assert_int_equal(haul_transfer_stats_get(&copies), HAUL_OK);
    haul_tensor *y = haul_index_select(x, 0, right);
    assert_int_equal(haul_device_sync(device), HAUL_OK);
    assert_int_equal(haul_sync_count() - before, at_once(device) ? 0 : 1);
    before = haul_sync_count();
    y = haul_index_select(x, 0, right);
    assert_int_equal(haul_transfer_stats_get(&now), HAUL_OK);
    assert_int_equal(now.d2h_count, copies.d2h_count);
    assert_int_equal(haul_item(haul_select(haul_select(y, 0, 0), 0, 1)), 28);
    assert_int_equal(haul_sync_count() - before, at_once(device) ? 0 : 1);
}

static void test_index_faults__cost_no_wait(void **state)
{
    (void)state;
    on_devices(waits);
}

static void test_index_faults__are_looked_for_where_a_kernel_checked(void **state)
{
    haul_device *null = null_device();
    haul_tensor *x = haul_to(haul_ones(HAUL_F32, HAUL_SHAPE(4, 3)), null);
    haul_tensor *index = haul_to(haul_zeros(HAUL_I64, HAUL_SHAPE(2)), null);
    (void)state;
    for (int i = 1; i < 4; i++) {
        assert_valid(haul_index_select(x, 0, index));
        assert_valid(haul_index_select(x, 0, index));
        assert_int_equal(haul_device_sync(null), HAUL_OK);
        assert_int_equal(null_index_faults(), i); /* one for the two */
        assert_valid(haul_add(x, x));
        assert_int_equal(haul_device_sync(null), HAUL_OK);
        assert_int_equal(haul_device_sync(null), HAUL_OK);
        assert_int_equal(null_index_faults(), i);
    }
}

/* ---- targets, followed steps, dry runs ---- */

static void targets(haul_device *device)
{
    haul_tensor *x = counting(device, HAUL_SHAPE(10, 3), 30),
                *out = haul_to(haul_ones(HAUL_F32, HAUL_SHAPE(2, 3)), device);
    haul_tensor *wrong = indices(device, HAUL_I64, 2, (int64_t[]){2, 10});
    haul_status  status = haul_index_select_into(out, x, 0, wrong);
    assert_reported(at_once(device) ? status : haul_device_sync(device), "haul_index_select",
                    "haul_index_select: index[1] is 10, but axis 0 has 10 elements");
    if (at_once(device))
        assert_close(out, (double[]){1, 1, 1, 1, 1, 1}, 6, 0, "a function that fails changes nothing");
    else
        assert_close(out, (double[]){6, 7, 8, 0, 0, 0}, 6, 0, "zeros for an index out of range");
    assert_int_equal(haul_index_select_into(out, x, 0, indices(device, HAUL_I64, 2, (int64_t[]){0, 0})), HAUL_OK);
    assert_close(out, (double[]){0, 1, 2, 0, 1, 2}, 6, 0, "the target afterwards");
}

typedef struct selection {
    haul_tensor *x, *index, *out;
} selection;

static haul_status select_step(void *context)
{
    const selection *s = context;
    return haul_index_select_into(s->out, s->x, 0, s->index);
}

/* The first step runs as it is. */
static void followed(haul_device *device)
{
    haul_recording_report report;
    selection             s = {counting(device, HAUL_SHAPE(10, 3), 30), indices(device, HAUL_I64, 2, (int64_t[]){2, 1}),
                               haul_to(haul_ones(HAUL_F32, HAUL_SHAPE(2, 3)), device)};
    haul_tensor          *wrong = indices(device, HAUL_I64, 2, (int64_t[]){2, 10}),
                *right = haul_contiguous(haul_mul(s.index, s.index));
    haul_recording *r = haul_recording_new(select_step, &s);
    assert_int_equal(haul_recording_run(r), HAUL_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(haul_copy_into(s.index, wrong), HAUL_OK);
        haul_status status = haul_recording_run(r);
        assert_reported(at_once(device) ? status : haul_device_sync(device), "haul_index_select",
                        "haul_index_select: index[1] is 10, but axis 0 has 10 elements");
        assert_int_equal(haul_copy_into(s.index, right), HAUL_OK);
        assert_int_equal(haul_recording_run(r), HAUL_OK);
        assert_close(s.out, (double[]){12, 13, 14, 3, 4, 5}, 6, 0, "the next step");
    }
    assert_int_equal(haul_recording_report_get(r, &report), HAUL_OK);
    assert_true(report.followed >= 3);
}

static haul_status select_wrong(void *context)
{
    haul_device *device = context;
    haul_tensor *x = haul_to(haul_ones(HAUL_F32, HAUL_SHAPE(10, 3)), device);
    haul_tensor *index = haul_to(haul_full(HAUL_I64, HAUL_SHAPE(4), 10), device);
    return haul_tensor_check(haul_index_select(x, 0, index));
}

static void dry_run(haul_device *device)
{
    haul_estimate_result r;
    assert_int_equal(haul_estimate(select_wrong, device, &r), HAUL_OK); /* there are no values */
    haul_estimate_free(&r);
    assert_int_equal(haul_device_sync(device), HAUL_OK);
}

static void test_index_faults__of_targets_and_followed_steps(void **state)
{
    (void)state;
    on_devices(targets);
    on_devices(followed);
    on_devices(dry_run);
}

/* ---- threads ---- */

enum { MANY = 200000, THREADS = 4 };

/* All indices are wrong, and each is its place behind the bound: position and value belong together. */
static void all_wrong(haul_device *device)
{
    haul_tensor *x = counting(device, HAUL_SHAPE(10), 10);
    haul_tensor *index = haul_to(haul_arange(HAUL_I64, 10, 10 + MANY, 1), device);
    haul_tensor *y = haul_index_select(x, 0, index);
    long long    at = -1, value = -1;
    assert_true(at_once(device) == is_failed(y));
    assert_int_equal(at_once(device) ? haul_error_status() : haul_device_sync(device), HAUL_INVALID_ARGUMENT);
    assert_int_equal(sscanf(haul_error_message(), "haul_index_select: index[%lld] is %lld", &at, &value), 2);
    assert_true(at >= 0 && at < MANY);
    assert_int_equal(value, at + 10);
    haul_error_clear();
}

/* Each thread gets its own errors, and no other's. */
static void *select_often(void *context)
{
    const int   *n = context;
    char         message[128];
    haul_scope  *scope = haul_scope_push();
    haul_tensor *x = counting(haul_cpu(), HAUL_SHAPE(10 + *n), 10 + *n);
    haul_tensor *index = haul_full(HAUL_I64, HAUL_SHAPE(1000), 10 + *n);
    bool         right = true;
    snprintf(message, sizeof message, "haul_index_select: index[0] is %d, but axis 0 has %d elements", 10 + *n,
             10 + *n);
    for (int i = 0; i < 200; i++) {
        haul_scope *inner = haul_scope_push();
        right = right && is_failed(haul_index_select(x, 0, index)) && strcmp(haul_error_message(), message) == 0;
        haul_error_clear();
        right =
            right && haul_tensor_is_valid(haul_index_select(x, 0, haul_sub(index, haul_ones(HAUL_I64, HAUL_SHAPE(1)))));
        haul_scope_pop(inner);
    }
    haul_scope_pop(scope);
    return right ? context : NULL;
}

static void test_index_faults__of_many_threads(void **state)
{
    pthread_t threads[THREADS];
    int       numbers[THREADS];
    (void)state;
    on_devices(all_wrong);
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        assert_int_equal(pthread_create(&threads[i], NULL, select_often, &numbers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        void *right;
        assert_int_equal(pthread_join(threads[i], &right), 0);
        assert_non_null(right);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_index_faults__are_reported),
        cmocka_unit_test(test_index_faults__are_reported_of_gradients),
        cmocka_unit_test(test_index_faults__the_first_is_reported),
        cmocka_unit_test(test_index_faults__are_reported_by_all_that_read),
        cmocka_unit_test(test_index_faults__are_reported_behind_many_points),
        cmocka_unit_test(test_index_faults__cost_no_wait),
        cmocka_unit_test(test_index_faults__of_targets_and_followed_steps),
        cmocka_unit_test(test_index_faults__of_many_threads),
        cmocka_unit_test(
            test_index_faults__are_looked_for_where_a_kernel_checked), /* the last: the null device stays */
    };
    haul_scope *program = haul_scope_push();
    int         failed = cmocka_run_group_tests_name("index_faults", tests, NULL, NULL);
    haul_scope_pop(program);
    return failed;
}
