/* HAUL_PLACE_AUTO on a simulated device: its choices, its reasons, and the copies. */
#include <haul/haul.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static haul_device *gpu;
static char         log_text[20000];

static void note(const char *line, void *context)
{
    char *text = context;
    if (strlen(text) + strlen(line) + 2 < sizeof log_text)
        strcat(strcat(text, line), "\n");
}

static haul_scope *begin(haul_policy policy)
{
    haul_scope *scope = haul_scope_push();
    *log_text = '\0';
    haul_placement_log_to(note, log_text);
    haul_transfer_stats_reset();
    assert_int_equal(haul_set_placement_policy(policy), HAUL_OK);
    assert_int_equal(haul_placement_policy(), policy);
    return scope;
}

static int64_t end(haul_scope *scope)
{
    haul_transfer_stats moved;
    haul_placement_log_to(NULL, NULL);
    assert_int_equal(haul_transfer_stats_get(&moved), HAUL_OK);
    assert_int_equal(haul_scope_pop(scope), HAUL_OK);
    return moved.h2d_bytes + moved.d2h_bytes;
}

static void expect_device(haul_tensor *t, haul_device *device)
{
    if (haul_tensor_check(t))
        fail_msg("%s", haul_error_message());
    assert_ptr_equal(haul_tensor_device(t), device);
}

/* Little arithmetic on much data stays where the data is; a large product is worth its copies. */
static void test_auto__chooses_by_price(void **state)
{
    (void)state;
    haul_scope  *scope = begin(HAUL_PLACE_AUTO);
    haul_tensor *a = haul_ones(HAUL_F32, HAUL_SHAPE(1024, 1024));
    expect_device(haul_add(a, a), haul_cpu());
    assert_non_null(strstr(log_text, "haul_add: runs on cpu: "));
    assert_non_null(strstr(log_text, " us on sim:laptop-4g:0 and "));
    assert_null(strstr(log_text, "moves from"));
    haul_tensor *y = haul_matmul(a, a);
    expect_device(y, gpu);
    assert_non_null(strstr(log_text, "haul_matmul: runs on sim:laptop-4g:0: "));
    assert_non_null(strstr(log_text, "haul_matmul: a moves from cpu to sim:laptop-4g:0, 4194304 bytes"));
    assert_null(strstr(log_text, "haul_matmul: b moves")); /* it is the same tensor */
    expect_device(haul_relu(y), gpu);                      /* it stays where its operand is */
    assert_true(haul_item(haul_slice(haul_reshape(y, HAUL_SHAPE(1024 * 1024)), 0, 0, 1, 1)) == 1024);
    end(scope);
}

/* The two-tensor example: y = b * a with a on the CPU and b on the device, and both gradients. Repeated, it moves a
 * once under HAUL_PLACE_AUTO, and each time under HAUL_PLACE_MOVE. */
static int64_t two_tensors(haul_policy policy)
{
    enum { N = 1 << 16, TIMES = 3 };
    haul_scope  *scope = begin(policy);
    haul_tensor *a = haul_set_requires_grad(haul_full(HAUL_F32, HAUL_SHAPE(N), 3), true);
    haul_tensor *b = haul_set_requires_grad(haul_to(haul_full(HAUL_F32, HAUL_SHAPE(4, N), 2), gpu), true);
    haul_transfer_stats_reset();
    for (int i = 0; i < TIMES; i++) {
        haul_tensor *y = haul_mul(b, a);
        expect_device(y, gpu);
        assert_int_equal(haul_backward(y, .seed = haul_ones_like(y)), HAUL_OK);
    }
    haul_tensor *grad_a = haul_tensor_grad(a), *grad_b = haul_tensor_grad(b);
    expect_device(grad_a, haul_cpu());
    expect_device(grad_b, gpu);
    assert_true(haul_item(haul_max(grad_a)) == 4 * 2 * TIMES);
    assert_true(haul_item(haul_max(grad_b)) == 3 * TIMES);
    return end(scope);
}

static void test_auto__moves_a_tensor_once(void **state)
{
    (void)state;
    const int64_t automatic = two_tensors(HAUL_PLACE_AUTO), moved = two_tensors(HAUL_PLACE_MOVE);
    assert_true(automatic <= moved - 2 * (1 << 18));
}

/* A copy that is kept is not used after its tensor has changed. */
static void test_auto__copies_anew_after_a_change(void **state)
{
    (void)state;
    haul_scope  *scope = begin(HAUL_PLACE_AUTO);
    haul_tensor *a = haul_full(HAUL_F32, HAUL_SHAPE(4), 1);
    haul_tensor *b = haul_to(haul_full(HAUL_F32, HAUL_SHAPE(1 << 16, 4), 1), gpu);
    assert_true(haul_item(haul_sum(haul_mul(b, a))) == 4 << 16);
    assert_int_equal(haul_fill_into(a, 2), HAUL_OK);
    assert_true(haul_item(haul_sum(haul_mul(b, a))) == 8 << 16);
    end(scope);
}

/* A tensor that is written decides where the operation runs. */
static void test_auto__writes_where_the_target_is(void **state)
{
    (void)state;
    haul_scope  *scope = begin(HAUL_PLACE_AUTO);
    haul_tensor *small = haul_ones(HAUL_F32, HAUL_SHAPE(8)), *out = haul_zeros(HAUL_F32, HAUL_SHAPE(8));
    haul_tensor *there = haul_to(small, gpu);
    assert_int_equal(haul_add_into(out, there, there), HAUL_OK);
    assert_int_equal(haul_add_into(out, out, there), HAUL_OK);
    expect_device(out, haul_cpu());
    assert_non_null(strstr(log_text, "haul_add: runs on cpu: it writes "));
    assert_true(haul_item(haul_sum(out)) == 24);
    end(scope);
}

typedef struct training {
    haul_module    *net;
    haul_optimizer *sgd;
    double          loss;
} training;

/* Nothing but the policy differs. */
static training train(haul_policy policy)
{
    training    t;
    haul_scope *scope = begin(policy);
    haul_manual_seed(3);
    t.net = HAUL_SEQUENTIAL(haul_nn_conv2d(3, 64, 3), haul_nn_relu(), haul_nn_dropout(0.5), haul_nn_flatten(1),
                            haul_nn_linear(64 * 30 * 30, 10));
    t.sgd = haul_sgd(t.net, 0.01, .momentum = 0.9);
    haul_tensor *x = haul_normal(HAUL_F32, HAUL_SHAPE(32, 3, 32, 32), 0, 1);
    haul_tensor *y = haul_zeros(HAUL_I64, HAUL_SHAPE(32));
    for (int i = 0; i < 3; i++) {
        haul_optimizer_zero_grad(t.sgd);
        haul_tensor *loss = haul_cross_entropy(haul_call(t.net, x), y);
        assert_int_equal(haul_backward(loss), HAUL_OK);
        assert_int_equal(haul_optimizer_step(t.sgd), HAUL_OK);
        t.loss = haul_item(loss);
    }
    end(scope);
    return t;
}

/* Simulated devices have the CPU's bits: nothing is computed twice, left out, or drawn from other random numbers. */
static void test_auto__trains_with_the_same_bits(void **state)
{
    (void)state;
    const double strict = train(HAUL_PLACE_STRICT).loss, automatic = train(HAUL_PLACE_AUTO).loss;
    assert_true(strict == automatic);
    assert_non_null(strstr(log_text, "haul_conv2d: runs on sim:laptop-4g:0: "));
}

/* Shapes are computed on meta, wherever that would be faster. */
static void test_auto__leaves_meta_alone(void **state)
{
    (void)state;
    haul_scope  *scope = begin(HAUL_PLACE_AUTO);
    haul_device *meta = haul_device_get("meta");
    haul_tensor *a = haul_to(haul_ones(HAUL_F32, HAUL_SHAPE(4, 4)), meta);
    expect_device(haul_matmul(a, a), meta);
    expect_device(haul_relu(a), meta);
    end(scope);
}

static void test_auto__explains(void **state)
{
    (void)state;
    char          text[400], shorter[10];
    haul_scope   *scope = begin(HAUL_PLACE_AUTO);
    haul_tensor  *a = haul_ones(HAUL_F32, HAUL_SHAPE(1024, 1024)), *y = haul_matmul(a, a);
    const int64_t length = haul_place_explain(y, text, sizeof text);
    assert_int_equal(length, strlen(text));
    assert_ptr_equal(strstr(text, "f32[1024,1024] on sim:laptop-4g:0: haul_matmul runs on sim:laptop-4g:0: "), text);
    assert_non_null(strstr(text, " on cpu"));
    assert_int_equal(haul_place_explain(haul_reshape(y, HAUL_SHAPE(-1)), text, sizeof text), length - 2);
    assert_int_equal(haul_place_explain(y, shorter, sizeof shorter), length);
    assert_int_equal(strlen(shorter), sizeof shorter - 1);
    assert_true(haul_place_explain(a, text, sizeof text) > 0);
    assert_string_equal(text, "f32[1024,1024] on cpu: haul_ones made it there");
    assert_int_equal(haul_place_explain(NULL, text, sizeof text), -1);
    assert_int_not_equal(haul_error_status(), HAUL_OK);
    haul_error_clear();
    end(scope);
}

/* A failed operation says what it says without the policy. */
static void test_auto__keeps_errors(void **state)
{
    (void)state;
    char         strict[400];
    haul_scope  *scope = begin(HAUL_PLACE_STRICT);
    haul_tensor *a = haul_ones(HAUL_F32, HAUL_SHAPE(3, 4));
    assert_false(haul_tensor_is_valid(haul_matmul(a, a)));
    snprintf(strict, sizeof strict, "%s", haul_error_message());
    haul_error_clear();
    haul_set_placement_policy(HAUL_PLACE_AUTO);
    assert_false(haul_tensor_is_valid(haul_matmul(a, a)));
    assert_string_equal(haul_error_message(), strict);
    haul_error_clear();
    end(scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_auto__chooses_by_price),
        cmocka_unit_test(test_auto__moves_a_tensor_once),
        cmocka_unit_test(test_auto__copies_anew_after_a_change),
        cmocka_unit_test(test_auto__writes_where_the_target_is),
        cmocka_unit_test(test_auto__trains_with_the_same_bits),
        cmocka_unit_test(test_auto__leaves_meta_alone),
        cmocka_unit_test(test_auto__explains),
        cmocka_unit_test(test_auto__keeps_errors),
    };
    gpu = haul_device_get("sim:laptop-4g");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
