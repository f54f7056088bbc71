/* Failed tensors: what calls return in place of a tensor, and that an error which was dealt with stays dealt with. */
#include <haul/haul.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "support/failure.h"

static int open_scope(void **state)
{
    *state = haul_scope_push();
    return *state == NULL;
}

static int close_scope(void **state)
{
    haul_error_clear();
    return (int)haul_scope_pop(*state);
}

static haul_tensor *ones(int64_t n)
{
    return haul_ones(HAUL_F32, HAUL_SHAPE(n));
}

/* ---- errors that were dealt with ---- */

static void test_failed_tensor__old_errors_fail_no_options(void **state)
{
    (void)state;
    haul_tensor *x = haul_ones(HAUL_F32, HAUL_SHAPE(4, 3));
    assert_failed(haul_load_npy("missing.npy"));
    assert_int_equal(haul_error_status(), HAUL_IO);
    assert_valid(haul_batch_norm(x, .weight = ones(3), .training = true));
    assert_valid(haul_layer_norm(x, .weight = ones(3)));
    assert_valid(haul_linear(x, haul_ones(HAUL_F32, HAUL_SHAPE(2, 3)), .relu = true));
    haul_tensor *w = haul_set_requires_grad(ones(1), true), *g;
    assert_int_equal(haul_grad(haul_square(w), &w, 1, &g), HAUL_OK);
    assert_true(haul_item(g) == 2);
}

static void test_failed_tensor__old_errors_are_not_the_loops(void **state)
{
    (void)state;
    assert_failed(haul_load_npy("missing.npy"));
    assert_non_null(strstr(haul_error_message(), "missing.npy"));
    haul_loader *loader = haul_loader_new(haul_blobs(6), .batch = 4);
    assert_int_equal(haul_loader_start(loader, 0), HAUL_OK);
    assert_int_equal(haul_loader_status(loader), HAUL_OK);
    int batches = 0;
    for (const haul_batch *b; (b = haul_loader_next(loader)); batches++)
        assert_valid(haul_mean(b->x));
    assert_int_equal(batches, 2);
    assert_int_equal(haul_error_status(), HAUL_OK);
    assert_string_equal(haul_error_message(), "");
    assert_int_equal(haul_loader_status(loader), HAUL_END_OF_DATA);
}

static void test_failed_tensor__a_null_module_tells_why_it_is_null(void **state)
{
    (void)state;
    haul_module *net = haul_nn_linear(0, 3);
    assert_null(net);
    assert_non_null(strstr(haul_error_message(), "haul_nn_linear"));
    haul_loader *loader = haul_loader_new(haul_blobs(6), .batch = 4);
    assert_int_equal(haul_loader_start(loader, 0), HAUL_OK);
    assert_int_equal(haul_error_status(), HAUL_OK);
    assert_failed(haul_call(net, haul_loader_next(loader)->x));
    assert_non_null(strstr(haul_error_message(), "haul_nn_linear"));
}

static haul_status refuse_the_last(void *context, haul_example *e)
{
    (void)context;
    *(float *)e->fields[0].data = *(float *)e->fields[1].data = 1;
    return e->index == 3 ? haul_error_set(HAUL_IO, "reading", NULL, "example %d is damaged", (int)e->index) : HAUL_OK;
}

static void test_failed_tensor__loops_that_fail_say_so(void **state)
{
    (void)state;
    haul_dataset_source source = {.fields = {{.name = "x", .dtype = HAUL_F32}, {.name = "y", .dtype = HAUL_F32}},
                                  .count = 4,
                                  .name = "damaged",
                                  .read = refuse_the_last};
    haul_loader        *loader = haul_loader_new(haul_dataset_new(&source), .batch = 2);
    assert_int_equal(haul_loader_status(loader), HAUL_OK);
    assert_null(haul_loader_next(loader));
    assert_int_equal(haul_loader_status(loader), HAUL_STATE);
    assert_int_equal(haul_loader_start_at(loader, 0, 3), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_loader_status(loader), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_loader_start(loader, 0), HAUL_OK);
    assert_non_null(haul_loader_next(loader));
    assert_null(haul_loader_next(loader));
    assert_int_equal(haul_loader_status(loader), HAUL_IO);
    assert_int_equal(haul_error_status(), HAUL_IO);
    assert_int_equal(haul_loader_status(NULL), HAUL_IO); /* NULL: the error that stands */
}

/* ---- what they carry ---- */

static void test_failed_tensor__carries_its_error(void **state)
{
    (void)state;
    haul_tensor *failed = haul_add(ones(2), ones(3));
    assert_failed(failed);
    haul_error_clear();
    assert_int_equal(haul_tensor_check(ones(2)), HAUL_OK);
    assert_int_equal(haul_tensor_check(HAUL_NONE), HAUL_OK);
    assert_int_equal(haul_tensor_check(failed), HAUL_SHAPE);
    assert_int_equal(haul_error_status(), HAUL_SHAPE);
    assert_string_equal(haul_error_operation(), "haul_add");
}

/* Every call that is given one fails with its error, however often errors were cleared. */
static void test_failed_tensor__goes_through_expressions(void **state)
{
    (void)state;
    haul_tensor *failed = haul_add(ones(2), ones(3)), *w = haul_ones(HAUL_F32, HAUL_SHAPE(2, 2));
    haul_tensor *values, *indices;
    haul_error_clear();
    haul_tensor *results[] = {
        haul_relu(failed),
        haul_mul(w, failed),
        haul_sum(failed),
        haul_reshape(failed, HAUL_SHAPE(2)),
        haul_cat((haul_tensor *[]){w, failed}, 2, 0),
        haul_to(failed, haul_cpu()),
        haul_linear(w, w, .bias = failed),
        haul_batch_norm(w, .weight = failed, .training = true),
        haul_batch_norm(w, .bias = failed, .training = true),
        haul_call(haul_nn_relu(), failed),
        haul_tensor_grad(failed),
        haul_set_requires_grad(failed, true),
    };
    for (size_t i = 0; i < sizeof results / sizeof *results; i++) {
        assert_failed(results[i]);
        haul_error_clear();
        assert_int_equal(haul_tensor_check(results[i]), HAUL_SHAPE);
        assert_string_equal(haul_error_operation(), "haul_add");
        haul_error_clear();
    }
    assert_int_equal(haul_topk(failed, 1, 0, true, &values, &indices), HAUL_SHAPE);
    assert_failed(values);
    assert_failed(indices);
    values = w;
    haul_error_clear();
    assert_int_equal(haul_topk(w, 1, 0, true, &values, NULL), HAUL_INVALID_ARGUMENT);
    assert_failed(values);
    haul_error_clear();
    assert_int_equal(haul_relu_into(w, failed), HAUL_SHAPE);
    assert_int_equal(haul_relu_into(failed, w), HAUL_SHAPE);
    assert_int_equal(haul_backward(failed), HAUL_SHAPE);
    assert_int_equal(haul_set_grad(w, failed), HAUL_SHAPE);
    assert_int_equal(haul_save_npy("x.npy", failed), HAUL_SHAPE);
    assert_int_equal(haul_module_add_buffer(haul_nn_relu(), "b", failed), HAUL_SHAPE);
    assert_null(haul_dataset_from_tensors(failed, w));
    assert_int_equal(haul_error_status(), HAUL_SHAPE);
}

/* Also where the inputs are refused, before anything is computed. */
static void test_failed_tensor__is_each_result_of_a_grad_that_fails(void **state)
{
    (void)state;
    haul_tensor *w = haul_set_requires_grad(ones(1), true), *y = haul_square(w);
    haul_tensor *inputs[] = {w, ones(1)}, *results[] = {NULL, NULL};
    assert_int_equal(haul_grad(y, inputs, 2, results), HAUL_GRAPH);
    for (int i = 0; i < 2; i++) {
        assert_failed(results[i]);
        haul_error_clear();
        assert_int_equal(haul_tensor_check(results[i]), HAUL_GRAPH);
        results[i] = NULL;
    }
    assert_int_equal(haul_grad(ones(1), inputs, 1, results), HAUL_GRAPH);
    assert_failed(results[0]);
    assert_null(results[1]);
}

static void test_failed_tensor__has_nothing(void **state)
{
    (void)state;
    haul_tensor *failed = haul_add(ones(2), ones(3));
    float        value;
    assert_false(haul_tensor_is_valid(failed));
    assert_false(haul_tensor_is_valid(HAUL_NONE));
    assert_false(haul_tensor_is_valid(NULL));
    assert_int_equal(haul_tensor_ndim(failed), -1);
    assert_int_equal(haul_tensor_count(failed), -1);
    assert_int_equal(haul_tensor_dtype(failed), HAUL_DTYPE_NONE);
    assert_false(haul_device_is_valid(haul_tensor_device(failed)));
    assert_int_equal(haul_read(failed, &value, sizeof value), HAUL_SHAPE);
    assert_null(haul_map(failed, HAUL_READ));
    assert_int_equal(haul_print(failed), HAUL_SHAPE);
}

static haul_tensor *always_fails(haul_module *self, haul_args *args)
{
    (void)self;
    (void)args;
    return haul_tensor_fail(HAUL_UNSUPPORTED, "always_fails", "x", "number %d", 7);
}

static void test_failed_tensor__of_a_forward_function(void **state)
{
    (void)state;
    haul_module *outer = HAUL_SEQUENTIAL(haul_module_new("failing", always_fails));
    haul_tensor *y = haul_call(outer, ones(2));
    haul_error_clear();
    assert_int_equal(haul_tensor_check(y), HAUL_UNSUPPORTED);
    assert_string_equal(haul_error_message(), "always_fails: number 7, in layer '0' (failing)");
}

/* ---- whose they are ---- */

static void test_failed_tensor__is_owned_as_tensors_are(void **state)
{
    (void)state;
    haul_scope  *inner = haul_scope_push();
    haul_tensor *failed = haul_scope_return(inner, haul_add(ones(2), ones(3)));
    assert_failed(failed);
    haul_error_clear();
    assert_int_equal(haul_tensor_check(failed), HAUL_SHAPE);
    assert_ptr_equal(haul_keep(failed), failed);
    assert_int_equal(haul_drop(failed), HAUL_OK);
    assert_int_equal(haul_tensor_check(failed), HAUL_SHAPE);
    haul_release(failed);
}

static void *without_scope(void *context)
{
    (void)context;
    haul_tensor *failed = ones(2);
    bool         good = is_failed(failed) && haul_error_status() == HAUL_STATE && haul_drop(failed) == HAUL_OK;
    haul_keep(failed);
    haul_release(failed);
    haul_release(failed);
    haul_error_clear();
    good = good && haul_tensor_check(failed) == HAUL_STATE && strstr(haul_error_message(), "haul_scope_push");
    return good ? (void *)failed : NULL;
}

static void test_failed_tensor__without_a_scope(void **state)
{
    (void)state;
    pthread_t thread;
    void     *failed;
    assert_int_equal(pthread_create(&thread, NULL, without_scope, NULL), 0);
    assert_int_equal(pthread_join(thread, &failed), 0);
    assert_failed((haul_tensor *)failed); /* its thread is gone */
    assert_failed(haul_relu(failed));
    assert_int_equal(haul_error_status(), HAUL_STATE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_failed_tensor__old_errors_fail_no_options, open_scope, close_scope),
        cmocka_unit_test_setup_teardown(test_failed_tensor__old_errors_are_not_the_loops, open_scope, close_scope),
        cmocka_unit_test_setup_teardown(test_failed_tensor__a_null_module_tells_why_it_is_null, open_scope,
                                        close_scope),
        cmocka_unit_test_setup_teardown(test_failed_tensor__loops_that_fail_say_so, open_scope, close_scope),
        cmocka_unit_test_setup_teardown(test_failed_tensor__carries_its_error, open_scope, close_scope),
        cmocka_unit_test_setup_teardown(test_failed_tensor__goes_through_expressions, open_scope, close_scope),
        cmocka_unit_test_setup_teardown(test_failed_tensor__is_each_result_of_a_grad_that_fails, open_scope,
                                        close_scope),
        cmocka_unit_test_setup_teardown(test_failed_tensor__has_nothing, open_scope, close_scope),
        cmocka_unit_test_setup_teardown(test_failed_tensor__of_a_forward_function, open_scope, close_scope),
        cmocka_unit_test_setup_teardown(test_failed_tensor__is_owned_as_tensors_are, open_scope, close_scope),
        cmocka_unit_test_setup_teardown(test_failed_tensor__without_a_scope, open_scope, close_scope),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
