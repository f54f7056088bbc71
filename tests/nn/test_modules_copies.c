/* Clones, copies and casts of modules, also of those with a state of their own.
 *
 * ctest: cuda */
#include <stdlib.h>

#include "support/conformance/conformance.h"
#include "support/modules.h"

static int destroyed, cloned;

typedef struct owner {
    int  *numbers;
    float factor;
} owner;

static void free_owner(void *state)
{
    owner *o = state;
    free(o->numbers);
    destroyed++;
}

static haul_status copy_owner(void *to, const void *from)
{
    owner       *o = to;
    const owner *old = from;
    o->numbers = malloc(sizeof *o->numbers);
    if (!o->numbers)
        return haul_error_set(HAUL_OUT_OF_MEMORY, NULL, NULL, "no memory");
    *o->numbers = *old->numbers;
    cloned++;
    return HAUL_OK;
}

static haul_tensor *owner_forward(haul_module *self, haul_args *args)
{
    const owner *o = haul_module_state(self);
    return haul_mul_scalar(args->x[0], o->factor * (float)*o->numbers);
}

static void test_modules__state_has_a_destructor(void **state)
{
    (void)state;
    destroyed = cloned = 0;
    haul_scope  *inner = haul_scope_push();
    haul_module *m = haul_module_new("owner", owner_forward, .state_bytes = sizeof(owner), .destroy = free_owner,
                                     .clone = copy_owner);
    owner       *o = haul_module_state(m);
    *o = (owner){.numbers = malloc(sizeof(int)), .factor = 2};
    assert_non_null(o->numbers);
    *o->numbers = 3;
    haul_module *copy = haul_module_clone(HAUL_SEQUENTIAL(m));
    assert_int_equal(cloned, 1);
    *o->numbers = 5;
    assert_vector(haul_call(copy, vector(1, 2)), 6, 12);
    haul_scope_pop(inner);
    assert_int_equal(destroyed, 2);
    m = haul_module_new("owner", owner_forward, .state_bytes = sizeof(owner), .destroy = free_owner);
    assert_null(haul_module_clone(m));
    assert_error(HAUL_INVALID_ARGUMENT, "haul_module_clone", "the state of the owner has a destructor");
}

/* ---- clones, copies, casts ---- */

static void test_modules__clones_have_values_of_their_own(void **state)
{
    haul_device *devices[8];
    int          n = test_devices(devices, 8);
    (void)state;
    for (int i = 0; i < n; i++) {
        haul_module *net = HAUL_SEQUENTIAL(haul_nn_linear(2, 2), haul_nn_batch_norm(2), haul_nn_dropout(0.5));
        assert_int_equal(haul_module_place(net, devices[i]), HAUL_OK);
        haul_module_train(net, false);
        haul_module *copy = haul_module_clone(net);
        assert_non_null(copy);
        assert_false(haul_module_is_training(copy));
        haul_tensor *x = haul_ones(HAUL_F32, HAUL_SHAPE(3, 2)), *a = haul_call(net, x), *b = haul_call(copy, x);
        assert_ptr_equal(haul_tensor_device(b), devices[i]);
        assert_true(haul_item(haul_sum(haul_abs(haul_sub(a, b)))) == 0);
        assert_true(haul_requires_grad(haul_module_parameter(copy, "0.weight")));
        assert_int_equal(haul_init_uniform(haul_module_parameter(net, "0.weight"), 5, 6), HAUL_OK);
        assert_int_equal(haul_fill_into(haul_module_buffer(net, "1.running_mean"), 7), HAUL_OK);
        haul_tensor *c = haul_call(copy, x);
        assert_true(haul_item(haul_sum(haul_abs(haul_sub(c, b)))) == 0);
        /* And back again. */
        assert_int_equal(haul_module_copy(net, copy), HAUL_OK);
        assert_true(haul_item(haul_sum(haul_abs(haul_sub(haul_call(net, x), b)))) == 0);
    }
}

static void test_modules__copies_need_the_same_structure(void **state)
{
    haul_module *a = HAUL_SEQUENTIAL(haul_nn_linear(2, 2)), *b = HAUL_SEQUENTIAL(haul_nn_linear(2, 3));
    haul_module *c = HAUL_SEQUENTIAL(haul_nn_linear(2, 2), haul_nn_linear(2, 2));
    (void)state;
    double before = haul_item(haul_sum(haul_module_parameter(a, "0.weight")));
    assert_int_equal(haul_module_copy(a, b), HAUL_SHAPE);
    assert_error(HAUL_SHAPE, "haul_module_copy: '0.weight' is f32[3,2]", "f32[2,2]");
    assert_int_equal(haul_module_copy(a, c), HAUL_INVALID_ARGUMENT);
    assert_error(HAUL_INVALID_ARGUMENT, "it has 4 parameters and buffers, where 2 are expected");
    assert_int_equal(haul_module_copy(a, HAUL_SEQUENTIAL(haul_nn_batch_norm(2))), HAUL_SHAPE);
    haul_error_clear();
    assert_true(haul_item(haul_sum(haul_module_parameter(a, "0.weight"))) == before);
    assert_int_equal(haul_module_cast(c, HAUL_F64), HAUL_OK);
    haul_module *wide = haul_module_clone(a);
    assert_int_equal(haul_module_cast(wide, HAUL_F64), HAUL_OK);
    assert_int_equal(haul_init_uniform(haul_module_parameter(a, "0.weight"), 0, 1), HAUL_OK);
    assert_int_equal(haul_module_copy(a, wide), HAUL_OK); /* dtypes may differ */
    assert_true(haul_item(haul_sum(haul_module_parameter(a, "0.weight"))) == before);
}

static void test_modules__are_cast_with_buffers_and_gradients(void **state)
{
    static const haul_dtype dtypes[] = {HAUL_F16, HAUL_BF16, HAUL_F64, HAUL_F32};
    haul_device            *devices[8];
    int                     n = test_devices(devices, 8);
    (void)state;
    for (int i = 0; i < n; i++) {
        haul_module *net = HAUL_SEQUENTIAL(haul_nn_linear(2, 3), haul_nn_batch_norm(3));
        haul_tensor *weight = haul_module_parameter(net, "0.weight");
        assert_int_equal(haul_module_place(net, devices[i]), HAUL_OK);
        haul_tensor *x = haul_normal(HAUL_F32, HAUL_SHAPE(4, 2), 0, 1);
        double       norm = haul_item(haul_sum(haul_square(haul_detach(weight))));
        assert_int_equal(haul_backward(haul_sum(haul_square(haul_call(net, x)))), HAUL_OK);
        for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
            assert_int_equal(haul_module_cast(net, dtypes[d]), HAUL_OK);
            assert_ptr_equal(haul_module_parameter(net, "0.weight"), weight);
            assert_int_equal(haul_tensor_dtype(weight), dtypes[d]);
            assert_int_equal(haul_tensor_dtype(haul_tensor_grad(weight)), dtypes[d]);
            assert_int_equal(haul_tensor_dtype(haul_module_buffer(net, "1.running_mean")), dtypes[d]);
            assert_int_equal(haul_tensor_dtype(haul_module_buffer(net, "1.num_batches_tracked")), HAUL_I64);
            assert_true(haul_requires_grad(weight));
            assert_float_equal(haul_item(haul_sum(haul_square(haul_cast(haul_detach(weight), HAUL_F64)))), norm,
                               0.02 * norm);
            haul_tensor *y = haul_call(net, haul_cast(x, dtypes[d]));
            assert_int_equal(haul_tensor_dtype(y), dtypes[d]);
            assert_int_equal(haul_backward(haul_sum(haul_square(y))), HAUL_OK);
        }
    }
    assert_int_equal(haul_module_cast(haul_nn_relu(), HAUL_I64), HAUL_DTYPE);
    assert_error(HAUL_DTYPE, "i64 cannot be trained; cast to f16, bf16, f32 or f64");
}

static void test_modules__a_graph_from_before_a_cast_still_gives_gradients(void **state)
{
    haul_module *net = haul_nn_linear(2, 1, .no_bias = true);
    (void)state;
    haul_tensor *y = haul_sum(haul_call(net, vector(1, 2)));
    assert_int_equal(haul_module_cast(net, HAUL_F64), HAUL_OK);
    assert_int_equal(haul_backward(y), HAUL_OK);
    haul_tensor *g = haul_tensor_grad(haul_module_parameter(net, "weight"));
    assert_int_equal(haul_tensor_dtype(g), HAUL_F64);
    assert_vector(haul_reshape(g, HAUL_SHAPE(2)), 1, 2);
}

static void test_modules__an_optimizer_goes_on_after_a_cast(void **state)
{
    haul_module    *net = haul_nn_linear(2, 1);
    haul_optimizer *adam = haul_adam(net, 0.1);
    (void)state;
    assert_int_equal(haul_backward(haul_sum(haul_call(net, vector(1, 2)))), HAUL_OK);
    assert_int_equal(haul_optimizer_step(adam), HAUL_OK);
    assert_int_equal(haul_module_cast(net, HAUL_F64), HAUL_OK);
    haul_tensor *weight = haul_module_parameter(net, "weight");
    double       before = haul_item(haul_select(haul_select(weight, 0, 0), 0, 0));
    assert_int_equal(haul_optimizer_step(adam), HAUL_OK);
    /* With the same gradient again Adam's step is the learning rate. */
    assert_float_equal(before - haul_item(haul_select(haul_select(weight, 0, 0), 0, 0)), 0.1, 1e-6);
    haul_named_tensor kept[8];
    assert_int_equal(haul_optimizer_state(adam, kept, 8), 6);
    assert_int_equal(haul_tensor_dtype(kept[0].tensor), HAUL_F64);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(state_has_a_destructor),
        TEST(clones_have_values_of_their_own),
        TEST(copies_need_the_same_structure),
        TEST(are_cast_with_buffers_and_gradients),
        TEST(a_graph_from_before_a_cast_still_gives_gradients),
        TEST(an_optimizer_goes_on_after_a_cast),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
