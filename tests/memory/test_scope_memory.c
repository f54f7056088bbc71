/* Memory limits of scopes: what counts, for how long, and the message when it is too much.
 *
 * ctest: cuda; labels=concurrency,threads; processors=2 */
#include <pthread.h>

#include "base/alloc.h"
#include "support/linalg.h"

enum { KIB = 1024, MIB = 1024 * 1024 };

static haul_scope_memory_stats stats_of(const haul_scope *scope, const haul_device *device)
{
    haul_scope_memory_stats stats = {-1, -1, -1};
    assert_int_equal(haul_scope_memory_stats_get(scope, device, &stats), HAUL_OK);
    return stats;
}

static int64_t allocated_by(const haul_scope *scope)
{
    return stats_of(scope, haul_current_device()).allocated;
}

static haul_scope *push_with_limit(const char *name, int64_t bytes)
{
    haul_scope *scope = haul_scope_push_named(name);
    assert_int_equal(haul_scope_set_memory_limit(scope, haul_current_device(), bytes), HAUL_OK);
    return scope;
}

/* A tensor in a block of this size, a power of two. */
static haul_tensor *block_of(int64_t bytes)
{
    return haul_empty(HAUL_F32, HAUL_SHAPE(bytes / 4));
}

static void assert_over(haul_tensor *t, const char *scope)
{
    assert_failed(t);
    assert_int_equal(haul_error_status(), HAUL_OUT_OF_MEMORY);
    if (!strstr(haul_error_message(), scope))
        fail_msg("%s is not in: %s", scope, haul_error_message());
    haul_error_clear();
}

/* ---- what counts ---- */

static void limit_holds(haul_device *device)
{
    haul_set_device(device);
    haul_scope *scope = push_with_limit("request 7", MIB);
    assert_valid(haul_exp(block_of(256 * KIB)));
    assert_valid(block_of(256 * KIB));
    assert_int_equal(allocated_by(scope), 768 * KIB);
    haul_tensor *t = haul_empty(HAUL_F32, HAUL_SHAPE(128 * KIB));
    assert_failed(t);
    char want[400];
    snprintf(want, sizeof want,
             "haul_empty: out of memory in scope \"request 7\": requested 512.0 KiB on %s, 768.0 KiB of the scope's "
             "limit of 1.0 MiB in use (by haul_empty 512.0 KiB, haul_exp 256.0 KiB); ask for less, free tensors, or "
             "raise the limit with haul_scope_set_memory_limit",
             haul_device_name(device));
    assert_string_equal(haul_error_message(), want);
    assert_int_equal(haul_error_status(), HAUL_OUT_OF_MEMORY);
    assert_string_equal(haul_error_operation(), "haul_empty");
    haul_error_clear();
    assert_valid(block_of(256 * KIB)); /* up to the limit */
    haul_scope_pop(scope);
    assert_valid(block_of(2 * MIB)); /* which is over with the scope */
}

static void test_scope_memory__a_limit_holds(void **state)
{
    (void)state;
    on_devices(limit_holds);
}

static void test_scope_memory__freed_and_cached_memory(void **state)
{
    (void)state;
    haul_scope *scope = push_with_limit("loop", MIB);
    for (int i = 0; i < 5; i++) { /* blocks of the cache count like new ones */
        haul_scope *step = haul_scope_push();
        assert_valid(block_of(512 * KIB));
        assert_int_equal(allocated_by(scope), 512 * KIB);
        haul_scope_pop(step);
        assert_int_equal(allocated_by(scope), 0);
    }
    haul_tensor *t = block_of(MIB);
    assert_over(block_of(64), "\"loop\"");
    haul_drop(t);
    assert_valid(block_of(64));
    haul_scope_memory_stats stats = stats_of(scope, haul_cpu());
    assert_int_equal(stats.allocated, 64);
    assert_int_equal(stats.peak_allocated, MIB);
    assert_int_equal(stats.limit, MIB);
    haul_scope_pop(scope);
}

static void test_scope_memory__each_of_nested_limits_holds(void **state)
{
    (void)state;
    haul_scope  *outer = push_with_limit("outer", MIB);
    haul_tensor *t = block_of(256 * KIB);
    haul_scope  *inner = push_with_limit("inner", 256 * KIB);
    assert_over(block_of(512 * KIB), "\"inner\"");
    assert_valid(block_of(256 * KIB));
    assert_int_equal(allocated_by(inner), 256 * KIB);
    assert_int_equal(allocated_by(outer), 512 * KIB);
    assert_int_equal(haul_scope_set_memory_limit(inner, haul_cpu(), 4 * MIB), HAUL_OK); /* more than outside */
    haul_scope *within = haul_scope_push();                                             /* without one of its own */
    assert_over(block_of(MIB), "\"outer\"");
    assert_valid(block_of(512 * KIB));
    assert_int_equal(allocated_by(inner), 768 * KIB);
    haul_scope_pop(within);
    haul_drop(t); /* older than the inner scope */
    assert_int_equal(allocated_by(inner), 256 * KIB);
    assert_int_equal(allocated_by(outer), 256 * KIB);
    haul_scope_pop(inner);
    assert_int_equal(allocated_by(outer), 0);
    haul_scope_pop(outer);
}

static void test_scope_memory__what_leaves_its_scope(void **state)
{
    (void)state;
    haul_scope  *outer = push_with_limit(NULL, MIB);
    haul_scope  *inner = push_with_limit("inner", MIB);
    haul_tensor *kept = haul_keep(block_of(256 * KIB)), *view = haul_slice(kept, 0, 0, 4, 1);
    view = haul_scope_return(inner, view);
    assert_int_equal(allocated_by(outer), 256 * KIB);
    assert_over(block_of(MIB), "a scope without a name");
    haul_scope *other = push_with_limit("other", 64 * KIB); /* does not count older memory */
    assert_int_equal(allocated_by(other), 0);
    haul_drop(view);
    haul_release(kept);
    assert_int_equal(allocated_by(outer), 0);
    haul_scope_pop(outer);
}

static void test_scope_memory__counting_without_a_limit(void **state)
{
    (void)state;
    haul_scope             *scope = haul_scope_push();
    haul_scope_memory_stats stats;
    assert_int_equal(haul_scope_memory_stats_get(scope, haul_cpu(), &stats), HAUL_STATE);
    assert_non_null(strstr(haul_error_message(), "haul_scope_set_memory_limit"));
    haul_error_clear();
    assert_int_equal(haul_scope_set_memory_limit(scope, haul_cpu(), 0), HAUL_OK);
    block_of(MIB);
    assert_int_equal(allocated_by(scope), MIB);
    assert_int_equal(haul_scope_set_memory_limit(scope, haul_cpu(), KIB), HAUL_OK); /* less than is in use */
    assert_over(block_of(64), "requested 64 bytes on cpu, 1.0 MiB of the scope's limit of 1.0 KiB in use");
    assert_int_equal(haul_scope_set_memory_limit(scope, haul_cpu(), 0), HAUL_OK);
    assert_valid(block_of(64));
    haul_scope_pop(scope);
}

static void test_scope_memory__a_limit_for_each_device(void **state)
{
    (void)state;
    haul_device *second = test_second_device();
    if (!second)
        skip();
    haul_scope *scope = push_with_limit("both", MIB);
    assert_int_equal(haul_scope_set_memory_limit(scope, second, 64 * KIB), HAUL_OK);
    assert_int_equal(haul_scope_set_memory_limit(scope, haul_cpu(), 512 * KIB), HAUL_OK);
    haul_tensor *t = block_of(512 * KIB);
    assert_over(haul_to(t, second), "\"both\"");
    haul_set_device(second);
    assert_valid(block_of(64 * KIB));
    assert_int_equal(stats_of(scope, haul_cpu()).allocated, 512 * KIB);
    assert_int_equal(stats_of(scope, second).allocated, 64 * KIB);
    haul_scope_pop(scope);
}

/* Saved tensors, temporaries and gradients. */
static void backward_counts(haul_device *device)
{
    haul_set_device(device);
    haul_tensor *x = haul_set_requires_grad(haul_ones(HAUL_F32, HAUL_SHAPE(256, 256)), true); /* 256 KiB */
    for (int64_t limit = 8 * MIB;; limit -= 256 * KIB) {
        haul_scope  *scope = push_with_limit("step", limit);
        haul_tensor *y = haul_sum(haul_exp(haul_sin(haul_matmul(x, x))));
        haul_status  status = haul_backward(y);
        assert_true(stats_of(scope, device).peak_allocated <= limit);
        if (!status)
            assert_true(stats_of(scope, device).peak_allocated >= 5 * 256 * KIB);
        haul_scope_pop(scope);
        haul_error_clear();
        haul_set_grad(x, HAUL_NONE);
        if (!status)
            continue;
        assert_int_equal(status, HAUL_OUT_OF_MEMORY);
        assert_true(limit >= 3 * 256 * KIB && limit < 8 * MIB);
        break;
    }
    assert_int_equal(haul_backward(haul_sum(haul_sin(haul_matmul(x, x)))), HAUL_OK);
}

static void test_scope_memory__backward_passes_count(void **state)
{
    (void)state;
    on_devices(backward_counts);
}

/* Casts of parameters are kept for the next request, so no request has to pay for them. */
static void derived_copies(haul_device *device)
{
    haul_set_device(device);
    haul_module *net = haul_nn_linear(256, 256);
    int64_t      peaks[2];
    for (int i = 0; i < 2; i++) {
        haul_scope *scope = push_with_limit("request", 0);
        haul_set_grad_enabled(false);
        haul_autocast_begin("all", HAUL_BF16);
        assert_valid(haul_call(net, haul_ones(HAUL_F32, HAUL_SHAPE(1, 256))));
        peaks[i] = stats_of(scope, device).peak_allocated;
        haul_scope_pop(scope);
    }
    assert_int_equal(peaks[0], peaks[1]);
}

static void test_scope_memory__derived_copies_do_not_count(void **state)
{
    (void)state;
    on_devices(derived_copies);
}

/* ---- errors ---- */

static void test_scope_memory__wrong_calls(void **state)
{
    (void)state;
    haul_scope_memory_stats stats;
    haul_scope             *over = haul_scope_push(), *scope;
    haul_scope_pop(over);
    scope = haul_scope_push();
    haul_scope *other = haul_scope_push();
    assert_int_equal(haul_scope_set_memory_limit(NULL, haul_cpu(), 1), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_scope_set_memory_limit((haul_scope *)&stats, haul_cpu(), 1), HAUL_STATE);
    assert_int_equal(haul_scope_set_memory_limit(other, haul_device_get("nowhere"), 1), HAUL_DEVICE);
    assert_int_equal(haul_scope_set_memory_limit(other, haul_cpu(), -1), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_scope_set_memory_limit(scope, haul_cpu(), 1), HAUL_STATE);
    assert_non_null(strstr(haul_error_message(), "a scope inside this one is open"));
    haul_error_clear();
    assert_int_equal(haul_scope_memory_stats_get(scope, haul_cpu(), NULL), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_scope_memory_stats_get(scope, haul_cpu(), &stats), HAUL_STATE);
    haul_error_clear();
    haul_scope_pop(scope);
}

/* Failures on the way leave nothing counted. */
static void test_scope_memory__failures_count_nothing(void **state)
{
    (void)state;
    haul_scope *outside = haul_scope_push();
    int64_t     before = haul__host_blocks();
    int         failures = 0;
    for (int64_t nth = 1;; nth++) {
        haul_scope *scope = haul_scope_push();
        haul_memory_release_cached(haul_cpu());
        haul__fault_plan(HAUL__FAULT_HOST | HAUL__FAULT_DEVICE, nth);
        haul_status  status = haul_scope_set_memory_limit(scope, haul_cpu(), MIB);
        haul_tensor *y = haul_exp(haul_ones(HAUL_F32, HAUL_SHAPE(5, 7)));
        bool         reached = haul__fault_count() >= nth;
        haul__fault_plan(0, 0);
        if (!status && is_failed(y)) {
            failures++;
            assert_true(allocated_by(scope) <= 192); /* ones at most */
        }
        haul_error_clear();
        haul_scope_pop(scope);
        if (!reached)
            break;
    }
    assert_true(failures > 1);
    haul_memory_release_cached(haul_cpu());
    assert_true(haul__host_blocks() <= before);
    haul_scope_pop(outside);
}

/* ---- dry runs ---- */

static haul_status limited_in_dry_run(void *context)
{
    haul_scope  *scope = haul_scope_push_named("planned");
    haul_status  status = haul_scope_set_memory_limit(scope, haul_cpu(), MIB);
    haul_tensor *t = haul_empty(HAUL_F32, HAUL_SHAPE(*(const int64_t *)context / 4));
    if (!status)
        status = haul_tensor_check(haul_exp(t));
    assert_true(stats_of(scope, haul_cpu()).peak_allocated <= MIB);
    haul_scope_pop(scope);
    return status;
}

static void test_scope_memory__limits_in_dry_runs(void **state)
{
    (void)state;
    haul_scope          *scope = push_with_limit("outside", 256 * KIB);
    haul_estimate_result r;
    assert_int_equal(haul_estimate(limited_in_dry_run, &(int64_t){512 * KIB}, &r), HAUL_OK);
    assert_true(r.devices[0].peak_bytes - r.devices[0].start_bytes == MIB);
    haul_estimate_free(&r);
    assert_int_equal(haul_estimate(limited_in_dry_run, &(int64_t){MIB}, &r), HAUL_OUT_OF_MEMORY);
    assert_non_null(strstr(haul_error_message(), "\"planned\""));
    haul_error_clear();
    assert_int_equal(stats_of(scope, haul_cpu()).peak_allocated, 0);
    haul_scope_pop(scope);
}

/* ---- several threads ---- */

enum { THREADS = 4, ROUNDS = 200 };

static void run_all(void *(*run)(void *))
{
    pthread_t threads[THREADS];
    for (intptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run, (void *)i), 0);
    for (int i = 0; i < THREADS; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        assert_null(wrong);
    }
}

static haul_tensor *shared;

/* Every thread has a limit of its own, and one of them always asks for too much. */
static void *request(void *context)
{
    const bool greedy = context == NULL;
    intptr_t   wrong = 0;
    for (int i = 0; i < ROUNDS; i++) {
        haul_scope *scope = haul_scope_push_named(greedy ? "greedy" : "modest");
        wrong += haul_scope_set_memory_limit(scope, haul_cpu(), 256 * KIB) != HAUL_OK;
        haul_tensor *y = haul_add(haul_exp(shared), shared); /* 64 KiB each */
        wrong += !haul_tensor_is_valid(y);
        y = greedy ? block_of(256 * KIB) : haul_mul(y, y);
        wrong += haul_tensor_is_valid(y) == greedy;
        wrong += greedy && !strstr(haul_error_message(), "128.0 KiB of the scope's limit of 256.0 KiB");
        haul_error_clear();
        haul_scope_pop(scope);
    }
    return (void *)wrong;
}

static void test_scope_memory__threads_do_not_disturb_each_other(void **state)
{
    (void)state;
    haul_scope *scope = push_with_limit("main", 64 * KIB);
    shared = haul_ones(HAUL_F32, HAUL_SHAPE(128, 128));
    run_all(request);
    assert_int_equal(stats_of(scope, haul_cpu()).peak_allocated, 64 * KIB);
    haul_scope_pop(scope);
}

static haul_tensor *handed[THREADS][ROUNDS];

static void *release_all(void *context)
{
    for (int i = 0; i < ROUNDS; i++)
        haul_release(handed[(intptr_t)context][i]);
    return NULL;
}

/* Memory is counted down by whoever frees it, also when its scope is over. */
static void test_scope_memory__freed_on_other_threads(void **state)
{
    (void)state;
    haul_scope *outer = push_with_limit("outer", 0);
    haul_scope *inner = push_with_limit("inner", 0);
    for (int i = 0; i < THREADS * ROUNDS; i++)
        handed[i / ROUNDS][i % ROUNDS] = haul_take(block_of(64));
    assert_int_equal(allocated_by(inner), THREADS * ROUNDS * 64);
    haul_scope_pop(inner);
    assert_int_equal(allocated_by(outer), THREADS * ROUNDS * 64);
    run_all(release_all);
    assert_int_equal(allocated_by(outer), 0);
    haul_scope_pop(outer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scope_memory__a_limit_holds),
        cmocka_unit_test(test_scope_memory__freed_and_cached_memory),
        cmocka_unit_test(test_scope_memory__each_of_nested_limits_holds),
        cmocka_unit_test(test_scope_memory__what_leaves_its_scope),
        cmocka_unit_test(test_scope_memory__counting_without_a_limit),
        cmocka_unit_test(test_scope_memory__a_limit_for_each_device),
        cmocka_unit_test(test_scope_memory__backward_passes_count),
        cmocka_unit_test(test_scope_memory__derived_copies_do_not_count),
        cmocka_unit_test(test_scope_memory__wrong_calls),
        cmocka_unit_test(test_scope_memory__failures_count_nothing),
        cmocka_unit_test(test_scope_memory__limits_in_dry_runs),
        cmocka_unit_test(test_scope_memory__threads_do_not_disturb_each_other),
        cmocka_unit_test(test_scope_memory__freed_on_other_threads),
    };
    return cmocka_run_group_tests_name("scope_memory", tests, NULL, NULL);
}
