/* Averages of parameters: their values on every device, exchanges, copies, state, and refused calls.
 *
 * ctest: cuda */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "support/conformance/conformance.h"
#include "support/scope.h"

enum { SIZE = 4, UPDATES = 6 };

static void assert_says(const char *what)
{
    if (!strstr(haul_error_message(), what))
        fail_msg("\"%s\" does not say \"%s\"", haul_error_message(), what);
    haul_error_clear();
}

static double value_at(int step, int i)
{
    return (double)((i * 5 + step * 3) % 11 - 5) / 4;
}

static void set_values(haul_tensor *p, int step)
{
    float values[SIZE];
    for (int i = 0; i < SIZE; i++)
        values[i] = (float)value_at(step, i);
    haul_tensor *t = haul_from_host(HAUL_F32, HAUL_SHAPE(SIZE), values);
    assert_int_equal(haul_copy_into(haul_detach(p), haul_to(t, haul_tensor_device(p), .dtype = haul_tensor_dtype(p))),
                     HAUL_OK);
}

static haul_tensor *new_parameter(haul_dtype dtype)
{
    haul_tensor *p = haul_set_requires_grad(haul_zeros(dtype, HAUL_SHAPE(SIZE)), true);
    set_values(p, 0);
    return p;
}

static void assert_values(haul_tensor *t, const double *want, double tolerance)
{
    double got[SIZE];
    assert_int_equal(haul_read(haul_to(haul_detach(t), haul_cpu(), .dtype = HAUL_F64), got, sizeof got), HAUL_OK);
    for (int i = 0; i < SIZE; i++)
        if (fabs(got[i] - want[i]) > tolerance)
            fail_msg("element %d is %.9g, %.9g is expected", i, got[i], want[i]);
}

static haul_average *make(int kind, const haul_named_tensor *list, int count)
{
    if (kind == 0)
        return haul_average_new(NULL, .decay = 0.75, .parameters = list, .count = count);
    if (kind == 1)
        return haul_average_new(NULL, .decay = 0.75, .bias_corrected = true, .parameters = list, .count = count);
    return haul_average_new(NULL, .equal = true, .parameters = list, .count = count);
}

/* By the definition: sums of all values with their weights. */
static double expected(int kind, int i)
{
    double sum = 0, weights = 0;
    for (int step = 1; step <= UPDATES; step++) {
        double w = kind == 2 ? 1 : pow(0.75, UPDATES - step) * (kind == 0 && step == 1 ? 1 : 0.25);
        sum += w * value_at(step, i);
        weights += w;
    }
    return sum / weights;
}

static void check_values(haul_dtype dtype, int kind, double tolerance)
{
    enum { PARAMETERS = 10 }; /* two operations */
    haul_tensor      *p[PARAMETERS];
    haul_named_tensor list[PARAMETERS], averages[PARAMETERS];
    double            want[SIZE];
    for (int k = 0; k < PARAMETERS; k++)
        list[k] = (haul_named_tensor){NULL, p[k] = new_parameter(dtype), false};
    haul_average *a = make(kind, list, PARAMETERS);
    assert_non_null(a);
    for (int step = 1; step <= UPDATES; step++) {
        for (int k = 0; k < PARAMETERS; k++)
            set_values(p[k], step);
        assert_int_equal(haul_average_update(a), HAUL_OK);
    }
    assert_int_equal(haul_average_updates(a), UPDATES);
    for (int i = 0; i < SIZE; i++)
        want[i] = expected(kind, i);
    assert_int_equal(haul_average_tensors(a, averages, PARAMETERS), PARAMETERS);
    assert_string_equal(averages[9].name, "9");
    assert_values(averages[0].tensor, want, tolerance);
    assert_values(averages[9].tensor, want, tolerance);

    uint64_t version = haul_tensor_version(p[9]);
    assert_int_equal(haul_average_swap(a), HAUL_OK);
    assert_values(p[9], want, tolerance);
    assert_true(haul_tensor_version(p[9]) > version);
    assert_int_equal(haul_average_swap(a), HAUL_OK);
    for (int i = 0; i < SIZE; i++)
        want[i] = value_at(UPDATES, i);
    assert_values(p[9], want, 0);
}

static void test_optim_average__has_its_weights(void **state)
{
    haul_device *devices[8];
    int          count = test_devices(devices, 8);
    (void)state;
    assert_true(count >= 1);
    for (int d = 0; d < count; d++)
        for (int kind = 0; kind < 3; kind++) {
            assert_int_equal(haul_set_device(devices[d]), HAUL_OK);
            check_values(HAUL_F32, kind, 1e-6);
            check_values(HAUL_F64, kind, 1e-12);
            check_values(HAUL_BF16, kind, 0.05);
        }
}

static haul_module *network(uint64_t seed)
{
    haul_manual_seed(seed);
    return HAUL_SEQUENTIAL(haul_nn_linear(3, 4), haul_nn_batch_norm(4));
}

static void test_optim_average__is_copied_to_a_clone(void **state)
{
    (void)state;
    haul_module  *net = network(1), *other = network(2);
    haul_tensor  *w = haul_module_parameter(net, "0.weight");
    haul_average *a = haul_average_new(net, .equal = true);
    assert_int_equal(haul_average_update(a), HAUL_OK);
    assert_int_equal(haul_mul_into(haul_detach(w), haul_detach(w), haul_scalar(3)), HAUL_OK);
    assert_int_equal(haul_average_update(a), HAUL_OK);
    assert_int_equal(haul_average_copy_to(a, other), HAUL_OK);
    haul_tensor *copied = haul_detach(haul_module_parameter(other, "0.weight"));
    haul_tensor *wanted = haul_mul_scalar(haul_detach(w), 2.0 / 3);
    assert_true(haul_item(haul_max(haul_abs(haul_sub(copied, wanted)))) < 1e-6);
    assert_int_equal(haul_average_copy_to(a, HAUL_SEQUENTIAL(haul_nn_linear(3, 4))), HAUL_INVALID_ARGUMENT);
    assert_says("the module has no parameter '1.weight'");
    assert_int_equal(haul_average_copy_to(a, HAUL_SEQUENTIAL(haul_nn_linear(2, 4), haul_nn_batch_norm(4))), HAUL_SHAPE);
    assert_says("the parameter '0.weight' is");
}

static void test_optim_average__state_is_loaded_or_nothing_changes(void **state)
{
    (void)state;
    haul_module      *net = network(1);
    haul_average     *a = haul_average_new(net, .decay = 0.5), *b = haul_average_new(network(2), .decay = 0.5);
    haul_named_tensor mine[4], its[4];
    assert_int_equal(haul_average_update(a), HAUL_OK);
    assert_int_equal(haul_average_tensors(a, mine, 4), 4);
    assert_string_equal(mine[0].name, "0.weight");
    assert_int_equal(haul_average_load_state(b, mine, 4, 7), HAUL_OK);
    assert_int_equal(haul_average_updates(b), 7);
    assert_int_equal(haul_average_tensors(b, its, 4), 4);
    assert_true(haul_item(haul_max(haul_abs(haul_sub(mine[0].tensor, its[0].tensor)))) == 0);
    assert_ptr_not_equal(mine[0].tensor, its[0].tensor);
    haul_tensor *before = its[0].tensor;
    assert_int_equal(haul_average_load_state(b, mine, 3, 8), HAUL_INVALID_ARGUMENT);
    assert_says("count is 3, but there are 4 averages");
    haul_named_tensor twice[] = {mine[0], mine[0], mine[1], mine[2]};
    assert_int_equal(haul_average_load_state(b, twice, 4, 8), HAUL_INVALID_ARGUMENT);
    assert_says("'0.weight' is given twice");
    haul_named_tensor wrong[] = {mine[0], mine[1], mine[2], {"1.bias", haul_zeros(HAUL_F32, HAUL_SHAPE(5)), false}};
    assert_int_equal(haul_average_load_state(b, wrong, 4, 8), HAUL_SHAPE);
    assert_says("'1.bias' is");
    wrong[3].name = "2.bias";
    assert_int_equal(haul_average_load_state(b, wrong, 4, 8), HAUL_INVALID_ARGUMENT);
    assert_says("'2.bias' is not one of the averages");
    assert_int_equal(haul_average_load_state(b, mine, 4, -1), HAUL_INVALID_ARGUMENT);
    assert_says("updates is -1; 0 to 9000000000000000 is expected");
    assert_int_equal(haul_average_load_state(b, mine, 4, INT64_MAX), HAUL_INVALID_ARGUMENT);
    assert_says("updates is 9223372036854775807; 0 to 9000000000000000 is expected");
    assert_int_equal(haul_average_tensors(b, its, 4), 4);
    assert_ptr_equal(its[0].tensor, before);
    assert_int_equal(haul_average_updates(b), 7);
}

static void test_optim_average__wrong_uses_are_refused(void **state)
{
    (void)state;
    haul_module  *net = network(1);
    haul_average *a = haul_average_new(net);
    assert_int_equal(haul_average_swap(a), HAUL_OK);
    assert_int_equal(haul_average_update(a), HAUL_STATE);
    assert_says("the averages are in the parameters; call haul_average_swap first");
    assert_int_equal(haul_average_copy_to(a, net), HAUL_STATE);
    assert_int_equal(haul_average_tensors(a, NULL, 0), -1);
    haul_error_clear();
    assert_null(haul_average_new(net, .decay = 1));
    assert_says("decay is 1");
    assert_null(haul_average_new(net, .equal = true, .decay = 0.5));
    assert_says("an equal average has no .decay");
    assert_null(haul_average_new(haul_nn_relu()));
    assert_says("found no parameters to average");
    assert_null(haul_average_new(NULL));
    assert_says("module is NULL");
    assert_int_equal(haul_average_update(NULL), HAUL_INVALID_ARGUMENT);
    haul_error_clear();
}

static void test_optim_average__follows_a_module_that_is_moved(void **state)
{
    haul_device *device = test_second_device();
    (void)state;
    if (!device)
        skip();
    haul_module      *net = network(1);
    haul_average     *a = haul_average_new(net);
    haul_named_tensor list[4];
    assert_int_equal(haul_average_update(a), HAUL_OK);
    assert_int_equal(haul_module_to(net, device), HAUL_OK);
    assert_int_equal(haul_average_update(a), HAUL_OK);
    assert_int_equal(haul_average_tensors(a, list, 4), 4);
    assert_ptr_equal(haul_tensor_device(list[0].tensor), device);
}

/* Every allocation of making, of an update and of an exchange fails in turn. */
static void test_optim_average__that_cannot_allocate_changes_nothing(void **state)
{
    int failures = 0;
    (void)state;
    for (int64_t nth = 1;; nth++) {
        haul_scope   *inner = haul_scope_push();
        haul_tensor  *p = new_parameter(HAUL_F32);
        haul_average *a =
            haul_average_new(NULL, .equal = true, .parameters = &(haul_named_tensor){"p", p, false}, .count = 1);
        assert_int_equal(haul_average_update(a), HAUL_OK);
        set_values(p, 1);
        double before[SIZE], after[SIZE];
        for (int i = 0; i < SIZE; i++) {
            before[i] = value_at(1, i);
            after[i] = value_at(0, i);
        }
        haul__fault_plan(HAUL__FAULT_HOST | HAUL__FAULT_DEVICE, nth);
        haul_average *other = haul_average_new(NULL, .parameters = &(haul_named_tensor){"p", p, false}, .count = 1);
        haul_status   status = other ? haul_average_swap(a) : haul_error_status();
        haul__fault_plan(0, 0);
        if (!status) {
            assert_values(p, after, 0);
            haul_scope_pop(inner);
            break;
        }
        failures++;
        haul_error_clear();
        assert_values(p, before, 0);
        haul_scope_pop(inner);
        assert_true(nth < 100);
    }
    assert_true(failures >= 3);
}

static haul_status update_and_swap(void *average)
{
    haul_status status = haul_average_update(average);
    return status ? status : haul_average_swap(average);
}

static void test_optim_average__stays_as_it_is_in_an_estimate(void **state)
{
    (void)state;
    haul_average        *a = haul_average_new(network(1));
    haul_estimate_result cost;
    assert_int_equal(haul_estimate(update_and_swap, a, &cost), HAUL_OK);
    haul_estimate_free(&cost);
    assert_int_equal(haul_average_updates(a), 0);
    assert_int_equal(haul_average_update(a), HAUL_OK); /* not swapped */
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_optim_average__##name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(has_its_weights),
        TEST(is_copied_to_a_clone),
        TEST(state_is_loaded_or_nothing_changes),
        TEST(wrong_uses_are_refused),
        TEST(follows_a_module_that_is_moved),
        TEST(that_cannot_allocate_changes_nothing),
        TEST(stays_as_it_is_in_an_estimate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
