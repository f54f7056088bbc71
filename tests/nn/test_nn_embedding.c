/* The embedding layer: its table, the row for padding, training. */
#include "support/failure.h"
#include "support/linalg.h"

static void table(haul_device *device)
{
    assert_int_equal(haul_set_device(device), HAUL_OK);
    haul_module *m = haul_nn_embedding(1000, 50);
    assert_non_null(m);
    haul_tensor *weight = haul_module_parameter(m, "weight");
    assert_int_equal(haul_tensor_dim(weight, 0), 1000);
    assert_int_equal(haul_tensor_dim(weight, 1), 50);
    assert_float_equal(haul_item(haul_mean(haul_detach(weight))), 0, 0.02);
    assert_float_equal(haul_item(haul_mean(haul_square(haul_detach(weight)))), 1, 0.02);
    haul_tensor *index = haul_to(haul_from_host(HAUL_U8, HAUL_SHAPE(2, 3), (uint8_t[]){0, 3, 0, 255, 7, 7}), device);
    haul_tensor *y = haul_call(m, index);
    assert_int_equal(haul_tensor_ndim(y), 3);
    assert_float_equal(
        haul_item(haul_sum(haul_sub(haul_select(haul_select(y, 0, 1), 0, 0), haul_select(weight, 0, 255)))), 0, 0);
}

static void test_nn_embedding__table(void **state)
{
    (void)state;
    on_devices(table);
}

/* The row for padding is zeros, and stays so in training. */
static void padding(haul_device *device)
{
    static const int64_t given[] = {HAUL_ZERO, 2, -1}, rows[] = {0, 2, 3};
    assert_int_equal(haul_set_device(device), HAUL_OK);
    for (int i = 0; i < 3; i++) {
        haul_module    *m = haul_nn_embedding(4, 3, .padding_idx = given[i]);
        haul_optimizer *sgd = haul_sgd(m, 1);
        assert_true(m && sgd);
        haul_tensor *weight = haul_module_parameter(m, "weight"), *before = haul_detach(haul_clone(weight));
        haul_tensor *index = haul_to(haul_arange(HAUL_I64, 0, 4, 1), device);
        assert_int_equal(haul_backward(haul_sum(haul_call(m, index))), HAUL_OK);
        assert_int_equal(haul_optimizer_step(sgd), HAUL_OK);
        haul_tensor *moved = haul_sub(before, haul_detach(weight));
        for (int64_t r = 0; r < 4; r++) {
            haul_tensor *row = haul_select(moved, 0, r);
            assert_float_equal(haul_item(haul_max(row)), r == rows[i] ? 0 : 1, 1e-6);
            assert_true(r != rows[i] || haul_item(haul_max(haul_abs(haul_select(before, 0, r)))) == 0);
        }
    }
}

static void test_nn_embedding__padding(void **state)
{
    (void)state;
    on_devices(padding);
}

static void test_nn_embedding__errors(void **state)
{
    (void)state;
    haul_scope *scope = haul_scope_push();
    assert_refused(haul_nn_embedding(0, 3), HAUL_INVALID_ARGUMENT, "count");
    haul_error_clear();
    assert_refused(haul_nn_embedding(3, 0), HAUL_INVALID_ARGUMENT, "size");
    haul_error_clear();
    assert_refused(haul_nn_embedding(3, 2, .padding_idx = -4), HAUL_INVALID_ARGUMENT,
                   "padding_idx is -4, but there are 3 rows");
    haul_error_clear();
    assert_refused(haul_nn_embedding_with(3, NULL), HAUL_INVALID_ARGUMENT, "options");
    haul_error_clear();
    haul_scope_pop(scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nn_embedding__table),
        cmocka_unit_test(test_nn_embedding__padding),
        cmocka_unit_test(test_nn_embedding__errors),
    };
    return cmocka_run_group_tests_name("nn_embedding", tests, NULL, NULL);
}
