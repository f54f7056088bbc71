/* Jacobians and products with them, against closed forms and each other, on every device.
 *
 * ctest: cuda; sim */
#include <haul/haul.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/conformance/conformance.h"

static void assert_same(haul_tensor *have, haul_tensor *want)
{
    if (!haul_tensor_is_valid(have) || !haul_tensor_is_valid(want))
        fail_msg("%s", haul_error_message());
    haul_shape a = haul_tensor_shape(have), b = haul_tensor_shape(want);
    assert_int_equal(a.ndim, b.ndim);
    for (int i = 0; i < a.ndim; i++)
        assert_int_equal(a.dims[i], b.dims[i]);
    assert_true(haul_item(haul_max(haul_abs(haul_sub(have, want)))) < 1e-12);
    assert_false(haul_requires_grad(have));
}

static haul_tensor *leaf(haul_shape shape)
{
    return haul_set_requires_grad(haul_normal(HAUL_F64, shape, 0, 1), true);
}

/* Calls `play` on every device, each in a scope of its own. */
static void on_each_device(void (*play)(void))
{
    haul_device *devices[8];
    haul_scope  *all = haul_scope_push();
    int          n = test_devices(devices, 8);
    for (int d = 0; d < n; d++) {
        haul_scope *scope = haul_scope_push();
        haul_set_device(devices[d]);
        haul_manual_seed(5);
        play();
        haul_scope_pop(scope);
    }
    haul_scope_pop(all);
}

/* y = tanh(W x): dy/dx = (1 - y^2) W, dy/dW[i, j, k] = (1 - y_i^2) x_k where i = j. */
static void play_jacobian(void)
{
    haul_tensor *w = leaf(HAUL_SHAPE(3, 4)), *x = leaf(HAUL_SHAPE(4)), *other = leaf(HAUL_SHAPE(2));
    haul_tensor *y = haul_tanh(haul_matmul(w, x)), *inputs[] = {x, w, other}, *j[3];
    assert_int_equal(haul_jacobian(y, inputs, 3, j), HAUL_OK);
    haul_set_grad_enabled(false);
    haul_tensor *slope = haul_rsub(haul_mul(y, y), 1);
    assert_same(j[0], haul_mul(haul_unsqueeze(slope, 1), w));
    haul_tensor *eye = haul_mul(haul_eye(HAUL_F64, 3, 3), slope);
    assert_same(j[1], haul_mul(haul_unsqueeze(eye, 2), haul_reshape(x, HAUL_SHAPE(1, 1, 4))));
    assert_same(j[2], haul_zeros(HAUL_F64, HAUL_SHAPE(3, 2)));
}

static void test_products__jacobian(void **state)
{
    (void)state;
    on_each_device(play_jacobian);
}

/* y = sum(exp(x) z): the Hessian is [diag(exp(x) z), diag(exp(x)); diag(exp(x)), 0]. */
static void play_hessian(void)
{
    haul_tensor *x = leaf(HAUL_SHAPE(5)), *z = leaf(HAUL_SHAPE(5)), *e = haul_exp(x), *y = haul_sum(haul_mul(e, z));
    haul_tensor *inputs[] = {x, z},
                *v[] = {haul_normal(HAUL_F64, HAUL_SHAPE(5), 0, 1), haul_ones(HAUL_F64, HAUL_SHAPE(5))};
    haul_tensor *hv[2];
    assert_int_equal(haul_hvp(y, inputs, v, 2, hv), HAUL_OK);
    haul_tensor *linear = haul_sum(haul_mul_scalar(x, 3)), *none[1];
    assert_int_equal(haul_hvp(linear, &x, v, 1, none), HAUL_OK);
    assert_int_equal(haul_backward(y), HAUL_OK); /* the graph is still there */
    haul_set_grad_enabled(false);
    assert_same(hv[0], haul_mul(e, haul_add(haul_mul(z, v[0]), v[1])));
    assert_same(hv[1], haul_mul(e, v[0]));
    assert_same(none[0], haul_zeros(HAUL_F64, HAUL_SHAPE(5)));
}

static void test_products__hessian(void **state)
{
    (void)state;
    on_each_device(play_hessian);
}

/* Through a network, J v of haul_jvp is that of haul_jacobian. */
static void play_direction(void)
{
    haul_tensor *w = leaf(HAUL_SHAPE(3, 4)), *x = leaf(HAUL_SHAPE(2, 4)), *gain = leaf(HAUL_SHAPE(3));
    haul_tensor *h = haul_softmax(haul_linear(x, w), 1),
                *y = haul_layer_norm(haul_mul(haul_sigmoid(h), h), .weight = gain);
    haul_tensor *inputs[] = {w, x, gain}, *v[3], *j[3], *want = HAUL_NONE;
    for (int i = 0; i < 3; i++)
        v[i] = haul_normal(HAUL_F64, haul_tensor_shape(inputs[i]), 0, 1);
    haul_tensor *have = haul_jvp(y, inputs, v, 3);
    assert_int_equal(haul_jacobian(y, inputs, 3, j), HAUL_OK);
    haul_set_grad_enabled(false);
    for (int i = 0; i < 3; i++) {
        haul_tensor *part = haul_matmul(haul_reshape(j[i], HAUL_SHAPE(6, -1)), haul_reshape(v[i], HAUL_SHAPE(-1)));
        want = i ? haul_add(want, part) : part;
    }
    assert_same(have, haul_reshape(want, HAUL_SHAPE(2, 3)));
}

static void test_products__direction(void **state)
{
    (void)state;
    on_each_device(play_direction);
}

static bool says(const char *text)
{
    const char *message = haul_error_message();
    bool        found = message && strstr(message, text);
    if (!found)
        print_error("'%s' is expected in: %s\n", text, message ? message : "no error");
    haul_error_clear();
    return found;
}

static void test_products__wrong_calls_are_named(void **state)
{
    haul_scope  *scope = haul_scope_push();
    haul_tensor *x = haul_set_requires_grad(haul_ones(HAUL_F32, HAUL_SHAPE(3)), true), *y = haul_square(x);
    haul_tensor *plain = haul_ones(HAUL_F32, HAUL_SHAPE(2)), *out[1];
    (void)state;
    assert_false(haul_tensor_is_valid(haul_jvp(y, &x, &plain, 1)));
    assert_true(says("haul_jvp: directions[0] is [2]; the shape of its input, [3], is expected"));
    assert_int_equal(haul_jacobian(y, &x, 0, out), HAUL_INVALID_ARGUMENT);
    assert_true(says("haul_jacobian: count is 0"));
    assert_int_equal(haul_jacobian(plain, &x, 1, out), HAUL_GRAPH);
    assert_false(haul_tensor_is_valid(out[0]));
    assert_true(says("haul_jacobian"));
    assert_int_equal(haul_jacobian(y, &x, 1, NULL), HAUL_INVALID_ARGUMENT);
    assert_true(says("haul_jacobian: results is NULL"));
    assert_int_not_equal(haul_hvp(y, &x, &x, 1, out), HAUL_OK); /* y has three elements */
    assert_true(says("haul_hvp"));
    assert_int_not_equal(haul_hvp(NULL, &x, &x, 1, out), HAUL_OK);
    assert_int_not_equal(haul_hvp(y, NULL, &x, 1, out), HAUL_OK);
    assert_false(haul_tensor_is_valid(haul_jvp(y, &x, NULL, 1)));
    haul_error_clear();
    haul_tensor *deep = haul_set_requires_grad(haul_ones(HAUL_F32, HAUL_SHAPE(1, 1, 1, 1, 1)), true);
    assert_int_equal(haul_jacobian(haul_square(deep), &deep, 1, out), HAUL_SHAPE);
    assert_true(says("y has 5 dimensions and an input 5"));
    haul_tensor *none = haul_slice(y, 0, 0, 0, 1);
    assert_int_equal(haul_jacobian(none, &x, 1, out), HAUL_OK);
    assert_int_equal(haul_tensor_shape(out[0]).dims[0], 0);
    assert_int_equal(haul_tensor_shape(out[0]).dims[1], 3);
    haul_scope_pop(scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products__jacobian),
        cmocka_unit_test(test_products__hessian),
        cmocka_unit_test(test_products__direction),
        cmocka_unit_test(test_products__wrong_calls_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
