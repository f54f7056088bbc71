/* Autocast: the dtypes that operations give by their rule, gradients, nesting, the casts of parameters that are kept,
 * threads, and refused calls.
 *
 * ctest: cuda; sim */
#include <haul/haul.h>
#include <math.h>
#include <pthread.h>

#include "base/alloc.h"
#include "core/object.h"
#include "ops/pointwise/pointwise.h"
#include "support/linalg.h"

static const haul_dtype halves[] = {HAUL_F16, HAUL_BF16};

/* From where on to take `halves`: all on the CPU. Elsewhere, where kernels have to be compiled, one will do. */
static int first_half(const haul_device *device)
{
    return device == haul_cpu() ? 0 : 1;
}

static haul_tensor *values(haul_device *device, haul_dtype dtype, haul_shape shape, unsigned seed)
{
    return sample_tensor(device, dtype, shape, seed, NULL);
}

static haul_tensor *parameter(haul_device *device, haul_shape shape, unsigned seed)
{
    return haul_set_requires_grad(values(device, HAUL_F32, shape, seed), true);
}

static void assert_dtype(haul_tensor *t, haul_dtype dtype, const char *what)
{
    if (!haul_tensor_is_valid(t))
        fail_msg("%s: %s", what, haul_error_message());
    if (haul_tensor_dtype(t) != dtype)
        fail_msg("%s gives %s, not %s", what, haul_dtype_name(haul_tensor_dtype(t)), haul_dtype_name(dtype));
}
#define ASSERT_DTYPE(expression, dtype) assert_dtype(expression, dtype, #expression)

/* ---- the rules ---- */

static void check_lower(haul_device *device, haul_dtype half)
{
    haul_tensor *x = values(device, HAUL_F32, HAUL_SHAPE(4, 6), 1), *w = values(device, HAUL_F32, HAUL_SHAPE(3, 6), 2);
    haul_tensor *b = values(device, HAUL_F32, HAUL_SHAPE(3), 3), *wide = haul_cast(x, HAUL_F64);
    haul_tensor *picture = values(device, HAUL_F32, HAUL_SHAPE(2, 3, 5, 5), 4);
    haul_tensor *kernel = values(device, HAUL_F32, HAUL_SHAPE(4, 3, 3, 3), 5);
    haul_dtype   other = half == HAUL_F16 ? HAUL_BF16 : HAUL_F16;
    ASSERT_DTYPE(haul_matmul(x, haul_transpose(w, 0, 1)), half);
    ASSERT_DTYPE(haul_matmul(haul_cast(x, other), haul_transpose(w, 0, 1)), half);
    ASSERT_DTYPE(haul_linear(x, w, .bias = b), half);
    ASSERT_DTYPE(haul_linear(haul_cast(x, half), w), half);
    ASSERT_DTYPE(haul_conv2d(picture, kernel), half);
    ASSERT_DTYPE(haul_matmul(wide, haul_transpose(w, 0, 1)), HAUL_F64);
    ASSERT_DTYPE(haul_matmul(haul_arange(HAUL_I64, 0, 3, 1), haul_arange(HAUL_I64, 0, 3, 1)), HAUL_I64);
}

static void check_wide(haul_device *device, haul_dtype half)
{
    haul_tensor *x = haul_cast(values(device, HAUL_F32, HAUL_SHAPE(4, 6), 1), half);
    haul_tensor *y = haul_to(haul_from_host(HAUL_I64, HAUL_SHAPE(4), (int64_t[]){0, 5, 2, 1}), device);
    ASSERT_DTYPE(haul_softmax(x, 1), HAUL_F32);
    ASSERT_DTYPE(haul_log_softmax(x, 1), HAUL_F32);
    ASSERT_DTYPE(haul_cross_entropy(x, y), HAUL_F32);
    ASSERT_DTYPE(haul_nll_loss(x, y), HAUL_F32);
    ASSERT_DTYPE(haul_bce_with_logits(x, haul_sigmoid(x)), HAUL_F32);
    ASSERT_DTYPE(haul_mse_loss(x, x), HAUL_F32);
    ASSERT_DTYPE(haul_sum(x), HAUL_F32);
    ASSERT_DTYPE(haul_sum(x, HAUL_AXES(0)), HAUL_F32);
    ASSERT_DTYPE(haul_mean(x, HAUL_AXES(1), .keepdim = true), HAUL_F32);
    ASSERT_DTYPE(haul_exp(x), HAUL_F32);
    ASSERT_DTYPE(haul_pow(x, x), HAUL_F32);
    ASSERT_DTYPE(haul_pow_scalar(x, 2), HAUL_F32);
    ASSERT_DTYPE(haul_log(haul_cast(x, HAUL_F64)), HAUL_F64);
    ASSERT_DTYPE(haul_sum(haul_cast(x, HAUL_F64)), HAUL_F64);
}

static void check_widest_and_others(haul_device *device, haul_dtype half)
{
    haul_tensor *f = values(device, HAUL_F32, HAUL_SHAPE(4, 3, 2, 2), 1), *h = haul_cast(f, half);
    haul_tensor *ones = haul_to(haul_ones(HAUL_F32, HAUL_SHAPE(3)), device);
    ASSERT_DTYPE(haul_add(h, f), HAUL_F32);
    ASSERT_DTYPE(haul_mul(h, h), half);
    ASSERT_DTYPE(haul_where(haul_gt_scalar(f, 0), h, f), HAUL_F32);
    ASSERT_DTYPE(haul_cat((haul_tensor *[]){h, f}, 2, 0), HAUL_F32);
    ASSERT_DTYPE(haul_stack((haul_tensor *[]){h, h}, 2, 0), half);
    ASSERT_DTYPE(haul_relu(h), half);
    ASSERT_DTYPE(haul_relu(f), HAUL_F32);
    ASSERT_DTYPE(haul_max_pool2d(h, 2), half);
    ASSERT_DTYPE(haul_max(h), half);
    ASSERT_DTYPE(haul_batch_norm(h, .weight = ones, .bias = ones, .training = true), half);
    ASSERT_DTYPE(haul_softmax(f, 1), HAUL_F32);
    assert_int_equal(haul_exp_into(h, h), HAUL_OK); /* as without autocast */
    haul_tensor *out = haul_full_like(haul_max(h), 0);
    assert_int_equal(haul_sum_into(out, h), HAUL_OK);
    ASSERT_DTYPE(haul_exp(h), HAUL_F32);
}

static void check_rules(haul_device *device)
{
    for (int i = first_half(device); i < 2; i++) {
        haul_autocast_state before = haul_autocast_begin("all", halves[i]);
        check_lower(device, halves[i]);
        check_wide(device, halves[i]);
        check_widest_and_others(device, halves[i]);
        assert_int_equal(haul_autocast_end(before), HAUL_OK);
        haul_tensor *x = values(device, halves[i], HAUL_SHAPE(2, 2), 1);
        ASSERT_DTYPE(haul_matmul(x, x), halves[i]);
        ASSERT_DTYPE(haul_exp(x), halves[i]);
        ASSERT_DTYPE(haul_sum(x), halves[i]);
        ASSERT_DTYPE(haul_matmul(haul_cast(x, HAUL_F32), haul_cast(x, HAUL_F32)), HAUL_F32);
    }
}

static void test_autocast__operations_follow_their_rules(void **state)
{
    (void)state;
    on_devices(check_rules);
}

/* Those rows, and no others. */
static void test_autocast__rows_compute_in_f32_where_they_say_so(void **state)
{
    static const char *const wide[] = {
        "haul_reciprocal", "haul_exp",     "haul_expm1",       "haul_log",  "haul_log1p",         "haul_rsqrt",
        "haul_softplus",   "haul_sinh",    "haul_cosh",        "haul_exp2", "haul_log2",          "haul_log10",
        "haul_lgamma",     "haul_digamma", "haul_polygamma",   "haul_rpow", "haul_softplus_beta", "haul_pow",
        "haul_logaddexp",  "haul_xlogy",   "haul_bce_elements"};
    int found = 0;
    (void)state;
    for (int r = 0; r < haul__row_count; r++) {
        bool listed = false;
        for (size_t i = 0; i < sizeof wide / sizeof *wide; i++)
            listed = listed || !strcmp(haul__rows[r].name, wide[i]);
        found += listed;
        bool is = haul__rows[r].dtypes == HAUL__ROW_WIDE || haul__rows[r].dtypes == HAUL__ROW_NUMBER_WIDE;
        if (is != listed)
            fail_msg("%s is %s", haul__rows[r].name, listed ? "not wide" : "wide");
    }
    assert_int_equal(found, sizeof wide / sizeof *wide);
}

static void check_meta(haul_device *device)
{
    haul_tensor *x = haul_to(values(haul_cpu(), HAUL_F32, HAUL_SHAPE(4, 6), 1), haul_device_get("meta"));
    (void)device;
    haul_autocast_begin("meta", HAUL_BF16);
    haul_tensor *y = haul_linear(x, x);
    ASSERT_DTYPE(y, HAUL_BF16);
    ASSERT_DTYPE(haul_softmax(y, 0), HAUL_F32);
    ASSERT_DTYPE(haul_sum(y), HAUL_F32);
}

static void test_autocast__meta_tells_the_dtypes(void **state)
{
    (void)state;
    on_devices(check_meta);
}

/* ---- values ---- */

/* A sum over many halves is not rounded on the way, nor at the end. */
static void check_sums(haul_device *device)
{
    haul_tensor *x = haul_to(haul_full(HAUL_F16, HAUL_SHAPE(100, 1000), 1.5), device);
    haul_autocast_begin("all", HAUL_F16);
    assert_true(haul_item(haul_sum(x)) == 150000); /* f16 ends at 65504 */
    assert_true(haul_item(haul_mean(x)) == 1.5);
    double rows[100];
    assert_int_equal(read_values(haul_sum(x, HAUL_AXES(1)), rows, 100), HAUL_OK);
    for (int i = 0; i < 100; i++)
        assert_true(rows[i] == 1500);
}

static void test_autocast__sums_are_of_f32(void **state)
{
    (void)state;
    on_devices(check_sums);
}

typedef struct small_net {
    haul_tensor *x, *w1, *b1, *w2, *y;
} small_net;

static small_net net_on(haul_device *device)
{
    return (small_net){
        .x = values(device, HAUL_F32, HAUL_SHAPE(8, 6), 1),
        .w1 = parameter(device, HAUL_SHAPE(5, 6), 2),
        .b1 = parameter(device, HAUL_SHAPE(5), 3),
        .w2 = parameter(device, HAUL_SHAPE(4, 5), 4),
        .y = haul_to(haul_from_host(HAUL_I64, HAUL_SHAPE(8), (int64_t[]){0, 1, 2, 3, 3, 2, 1, 0}), device)};
}

static haul_tensor *loss_of(const small_net *n)
{
    return haul_cross_entropy(haul_linear(haul_relu(haul_linear(n->x, n->w1, .bias = n->b1)), n->w2), n->y);
}

/* The same by hand. */
static haul_tensor *loss_by_hand(const small_net *n, haul_dtype half)
{
    haul_tensor *h =
        haul_relu(haul_linear(haul_cast(n->x, half), haul_cast(n->w1, half), .bias = haul_cast(n->b1, half)));
    return haul_cross_entropy(haul_cast(haul_linear(h, haul_cast(n->w2, half)), HAUL_F32), n->y);
}

static void assert_equal_bits(haul_tensor *a, haul_tensor *b)
{
    char left[512], right[512];
    if (!haul_tensor_is_valid(a) || !haul_tensor_is_valid(b))
        fail_msg("%s", haul_error_message());
    assert_int_equal(haul_tensor_dtype(a), haul_tensor_dtype(b));
    assert_int_equal(haul_tensor_bytes(a), haul_tensor_bytes(b));
    assert_true(haul_tensor_bytes(a) <= sizeof left);
    assert_int_equal(haul_read(a, left, haul_tensor_bytes(a)), HAUL_OK);
    assert_int_equal(haul_read(b, right, haul_tensor_bytes(b)), HAUL_OK);
    assert_memory_equal(left, right, haul_tensor_bytes(a));
}

static void check_gradients(haul_device *device)
{
    for (int i = first_half(device); i < 2; i++)
        for (int inside = 0; inside < 2; inside++) {
            small_net           n = net_on(device), m = net_on(device);
            haul_autocast_state before = haul_autocast_begin("all", halves[i]);
            haul_tensor        *loss = loss_of(&n);
            if (!inside) /* a backward pass computes the same in either place */
                assert_int_equal(haul_autocast_end(before), HAUL_OK);
            assert_int_equal(haul_backward(loss), HAUL_OK);
            assert_int_equal(haul_autocast_end(before), HAUL_OK);
            haul_tensor *wanted = loss_by_hand(&m, halves[i]);
            assert_int_equal(haul_backward(wanted), HAUL_OK);
            assert_equal_bits(loss, wanted);
            ASSERT_DTYPE(haul_tensor_grad(n.w1), HAUL_F32);
            assert_equal_bits(haul_tensor_grad(n.w1), haul_tensor_grad(m.w1));
            assert_equal_bits(haul_tensor_grad(n.b1), haul_tensor_grad(m.b1));
            assert_equal_bits(haul_tensor_grad(n.w2), haul_tensor_grad(m.w2));
        }
}

static void test_autocast__gradients_arrive_in_f32(void **state)
{
    (void)state;
    on_devices(check_gradients);
}

static void check_sum_gradient(haul_device *device)
{
    haul_tensor *x = haul_set_requires_grad(values(device, HAUL_BF16, HAUL_SHAPE(3, 4), 1), true);
    double       g[12];
    haul_autocast_begin("all", HAUL_BF16);
    assert_int_equal(haul_backward(haul_mean(x)), HAUL_OK);
    ASSERT_DTYPE(haul_tensor_grad(x), HAUL_BF16);
    assert_int_equal(read_values(haul_tensor_grad(x), g, 12), HAUL_OK);
    for (int i = 0; i < 12; i++)
        assert_true(g[i] == rounded(1.0 / 12, HAUL_BF16));
}

static void test_autocast__a_sum_hands_its_gradient_back_in_the_operands_dtype(void **state)
{
    (void)state;
    on_devices(check_sum_gradient);
}

/* Second derivatives pass through the casts. */
static void check_second_order(haul_device *device)
{
    haul_tensor *x = parameter(device, HAUL_SHAPE(1, 1), 7), *g = NULL, *gg = NULL;
    haul_autocast_begin("all", HAUL_BF16);
    haul_tensor *y = haul_sum(haul_matmul(haul_matmul(x, x), x));
    assert_int_equal(haul_grad(y, &x, 1, &g, .create_graph = true), HAUL_OK);
    assert_int_equal(haul_grad(haul_sum(g), &x, 1, &gg), HAUL_OK);
    ASSERT_DTYPE(gg, HAUL_F32);
    assert_true(fabs(haul_item(gg) - 6 * haul_item(x)) <= 0.05 * fabs(haul_item(x)) * 6);
}

static void test_autocast__gradients_can_be_differentiated(void **state)
{
    (void)state;
    on_devices(check_second_order);
}

/* Convolution in halves, normalisation of halves with statistics and parameters of f32. */
static void check_normalised(haul_device *device)
{
    for (int i = first_half(device); i < 2; i++) {
        haul_module *norm = haul_nn_batch_norm(4), *conv = haul_nn_conv2d(3, 4, 3, .no_bias = true);
        haul_module *net = HAUL_SEQUENTIAL(conv, norm, haul_nn_relu(), haul_nn_flatten(1), haul_nn_linear(36, 5));
        assert_int_equal(haul_module_to(net, device), HAUL_OK);
        haul_autocast_state before = haul_autocast_begin("all", halves[i]);
        haul_tensor        *x = values(device, HAUL_F32, HAUL_SHAPE(6, 3, 5, 5), 1);
        ASSERT_DTYPE(haul_call(norm, haul_call(conv, x)), halves[i]);
        assert_int_equal(haul_backward(haul_mean(haul_square(haul_call(net, x)))), HAUL_OK);
        assert_int_equal(haul_autocast_end(before), HAUL_OK);
        double wide[4], mean[4];
        assert_int_equal(read_values(haul_module_buffer(norm, "running_mean"), mean, 4), HAUL_OK);
        ASSERT_DTYPE(haul_module_buffer(norm, "running_mean"), HAUL_F32);
        ASSERT_DTYPE(haul_tensor_grad(haul_module_parameter(norm, "weight")), HAUL_F32);
        ASSERT_DTYPE(haul_tensor_grad(haul_module_parameter(conv, "weight")), HAUL_F32);
        haul_tensor *all = haul_mean(haul_call(conv, x), HAUL_AXES(0, 2, 3));
        assert_int_equal(read_values(all, wide, 4), HAUL_OK);
        for (int c = 0; c < 4; c++) /* twice a tenth of the batch's mean */
            assert_true(fabs(mean[c] - 0.19 * wide[c]) < 0.01);
    }
}

static void test_autocast__normalisation_keeps_f32_statistics(void **state)
{
    (void)state;
    on_devices(check_normalised);
}

/* ---- nesting ---- */

static void test_autocast__nests_and_ends_with_the_scope(void **state)
{
    haul_scope  *outer = haul_scope_push();
    haul_device *cpu = haul_cpu(), *meta = haul_device_get("meta");
    (void)state;
    assert_int_equal(haul_autocast_dtype(cpu), HAUL_DTYPE_NONE);
    haul_autocast_state first = haul_autocast_begin("all", HAUL_BF16);
    assert_int_equal(haul_autocast_dtype(cpu), HAUL_BF16);
    haul_autocast_state second = haul_autocast_begin("cpu", HAUL_DTYPE_NONE);
    assert_int_equal(haul_autocast_dtype(cpu), HAUL_DTYPE_NONE);
    assert_int_equal(haul_autocast_dtype(meta), HAUL_BF16);
    haul_scope *inner = haul_scope_push();
    haul_autocast_begin("cpu", HAUL_F16);
    assert_int_equal(haul_autocast_dtype(cpu), HAUL_F16);
    assert_int_equal(haul_scope_pop(inner), HAUL_OK);
    assert_int_equal(haul_autocast_dtype(cpu), HAUL_DTYPE_NONE);
    assert_int_equal(haul_autocast_end(second), HAUL_OK);
    assert_int_equal(haul_autocast_dtype(cpu), HAUL_BF16);
    assert_int_equal(haul_autocast_end(first), HAUL_OK);
    assert_int_equal(haul_autocast_dtype(meta), HAUL_DTYPE_NONE);
    haul_autocast_begin("all", HAUL_F16);
    assert_int_equal(haul_scope_pop(outer), HAUL_OK);
    assert_int_equal(haul_autocast_dtype(cpu), HAUL_DTYPE_NONE);
    assert_null(haul__thread_kept(HAUL__AUTOCAST));
}

/* ---- kept casts ---- */

static int64_t live_blocks(haul_device *device)
{
    haul_memory_stats stats = {0};
    assert_int_equal(haul_memory_stats_get(device, &stats), HAUL_OK);
    return stats.live_blocks;
}

/* Blocks that a use of the parameter leaves behind. */
static int64_t use(haul_device *device, haul_tensor *x, haul_tensor *w)
{
    int64_t     before = live_blocks(device);
    haul_scope *scope = haul_scope_push();
    ASSERT_DTYPE(haul_linear(x, w), HAUL_BF16);
    haul_scope_pop(scope);
    return live_blocks(device) - before;
}

static void check_cache(haul_device *device)
{
    haul_tensor        *x = values(device, HAUL_BF16, HAUL_SHAPE(4, 6), 1), *w = parameter(device, HAUL_SHAPE(3, 6), 2);
    haul_tensor        *plain = values(device, HAUL_F32, HAUL_SHAPE(3, 6), 2);
    int64_t             before = live_blocks(device);
    haul_autocast_state outside = haul_autocast_begin("all", HAUL_BF16);
    assert_int_equal(use(device, x, w), 1);
    assert_int_equal(use(device, x, w), 0);
    assert_int_equal(use(device, x, plain), 0); /* no parameter */
    haul_autocast_state inside = haul_autocast_begin("all", HAUL_BF16);
    assert_int_equal(use(device, x, w), 0);
    assert_int_equal(haul_autocast_end(inside), HAUL_OK);
    assert_int_equal(live_blocks(device), before + 1); /* the outer one still goes on */
    assert_int_equal(haul_autocast_end(outside), HAUL_OK);
    assert_int_equal(live_blocks(device), before);
    assert_null(haul__thread_kept(HAUL__AUTOCAST));

    haul_scope *scope = haul_scope_push(); /* a scope ends it, too */
    haul_autocast_begin("all", HAUL_BF16);
    assert_int_equal(use(device, x, w), 1);
    haul_scope_pop(scope);
    assert_int_equal(live_blocks(device), before);
}

static void test_autocast__parameters_are_cast_once(void **state)
{
    (void)state;
    on_devices(check_cache);
}

static double first_of(haul_tensor *t)
{
    return haul_item(haul_select(haul_select(t, 0, 0), 0, 0));
}

static void check_changed_parameter(haul_device *device)
{
    haul_tensor *x = haul_to(haul_ones(HAUL_F32, HAUL_SHAPE(1, 1)), device),
                *w = parameter(device, HAUL_SHAPE(1, 1), 1);
    haul_autocast_begin("all", HAUL_BF16);
    for (int i = 0; i < 3; i++) {
        bool before = haul_set_grad_enabled(false);
        assert_int_equal(haul_fill_into(w, i), HAUL_OK); /* as an optimizer's step would */
        haul_set_grad_enabled(before);
        assert_true(first_of(haul_linear(x, w)) == i);
    }
    haul_autocast_state f16 = haul_autocast_begin("all", HAUL_F16);
    ASSERT_DTYPE(haul_linear(x, w), HAUL_F16);
    assert_int_equal(haul_autocast_end(f16), HAUL_OK);
    ASSERT_DTYPE(haul_linear(x, w), HAUL_BF16);

    /* a cast of a time without graphs does not cut the graph */
    bool before = haul_set_grad_enabled(false);
    assert_int_equal(haul_fill_into(w, 2), HAUL_OK);
    haul_linear(x, w);
    haul_set_grad_enabled(before);
    assert_int_equal(haul_backward(haul_linear(x, w)), HAUL_OK);
    assert_true(haul_item(haul_tensor_grad(w)) == 1);
}

static void test_autocast__a_changed_parameter_is_cast_again(void **state)
{
    (void)state;
    on_devices(check_changed_parameter);
}

/* A parameter's two uses share a cast, and their gradients arrive added up; many parameters have many casts. */
static void check_shared(haul_device *device)
{
    enum { MANY = 70 };
    haul_tensor *w[MANY], *x = haul_to(haul_ones(HAUL_F32, HAUL_SHAPE(1, 1)), device), *sum = NULL;
    for (int i = 0; i < MANY; i++)
        w[i] = haul_set_requires_grad(haul_to(haul_full(HAUL_F32, HAUL_SHAPE(1, 1), i), device), true);
    haul_autocast_begin("all", HAUL_BF16);
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < MANY; i++) {
            haul_tensor *y = haul_linear(x, w[i]);
            assert_true(haul_item(y) == i);
            sum = sum ? haul_add(sum, y) : y;
        }
    assert_int_equal(haul_backward(sum), HAUL_OK);
    for (int i = 0; i < MANY; i++)
        assert_true(haul_item(haul_tensor_grad(w[i])) == 2);
}

static void test_autocast__uses_share_a_cast(void **state)
{
    (void)state;
    on_devices(check_shared);
}

/* A module that is moved while its casts are kept. */
static void check_moved(haul_device *device)
{
    haul_module *net = haul_nn_linear(2, 2);
    haul_tensor *x = values(haul_cpu(), HAUL_F32, HAUL_SHAPE(1, 2), 1);
    haul_autocast_begin("all", HAUL_BF16);
    haul_tensor *here = haul_call(net, x);
    assert_int_equal(haul_module_to(net, device), HAUL_OK);
    haul_tensor *there = haul_call(net, haul_to(x, device));
    double       a[2], b[2];
    assert_int_equal(read_values(here, a, 2), HAUL_OK);
    assert_int_equal(read_values(there, b, 2), HAUL_OK);
    assert_ptr_equal(haul_tensor_device(there), device);
    for (int i = 0; i < 2; i++)
        assert_true(fabs(a[i] - b[i]) <= 0.01);
}

static void test_autocast__casts_follow_a_moved_parameter(void **state)
{
    (void)state;
    on_devices(check_moved);
}

/* Nothing fails for want of memory to keep a cast, and what fails is an error. */
static void test_autocast__survives_exhausted_memory(void **state)
{
    haul_scope *scope = haul_scope_push();
    small_net   n = net_on(haul_cpu());
    int         failed = 0, at = 0;
    bool        struck = true;
    (void)state;
    while (struck) {
        haul_error_clear();
        haul__fault_plan(HAUL__FAULT_HOST, ++at);
        haul_scope         *inner = haul_scope_push();
        haul_autocast_state before = haul_autocast_begin("all", HAUL_BF16);
        haul_tensor        *loss = inner ? loss_of(&n) : NULL;
        struck = haul__fault_count() >= at;
        haul__fault_plan(0, 0);
        if (haul_tensor_is_valid(loss))
            assert_true(isfinite(haul_item(loss)));
        else
            assert_int_equal(haul_error_status(), HAUL_OUT_OF_MEMORY);
        failed += !haul_tensor_is_valid(loss);
        haul_autocast_end(before);
        haul_scope_pop(inner);
    }
    assert_true(failed > 3 && at > failed); /* some went on without keeping */
    haul_error_clear();
    haul_scope_pop(scope);
}

/* ---- threads ---- */

static void *elsewhere(void *context)
{
    haul_scope  *scope = haul_scope_push();
    small_net   *n = context;
    haul_dtype   found = haul_autocast_dtype(haul_cpu());
    haul_tensor *plain = haul_linear(n->x, n->w1, .bias = n->b1);
    bool         right = found == HAUL_DTYPE_NONE && haul_tensor_dtype(plain) == HAUL_F32;
    haul_scope_pop(scope);
    haul_autocast_begin("cpu", HAUL_F16); /* without a scope, and never ended: the thread's end frees its casts */
    scope = haul_scope_push();
    right = right && haul_tensor_dtype(haul_linear(n->x, n->w1, .bias = n->b1)) == HAUL_F16;
    haul_scope_pop(scope);
    return right && haul__thread_kept(HAUL__AUTOCAST) ? context : NULL;
}

static void test_autocast__belongs_to_the_thread(void **state)
{
    haul_scope *scope = haul_scope_push();
    small_net   n = net_on(haul_cpu());
    pthread_t   thread;
    void       *result = NULL;
    int64_t     blocks = live_blocks(haul_cpu());
    (void)state;
    haul_autocast_begin("all", HAUL_BF16);
    assert_int_equal(pthread_create(&thread, NULL, elsewhere, &n), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_ptr_equal(result, &n);
    assert_int_equal(live_blocks(haul_cpu()), blocks);
    assert_int_equal(haul_autocast_dtype(haul_cpu()), HAUL_BF16);
    haul_scope_pop(scope);
}

/* ---- refused calls ---- */

static void assert_refusal(haul_status status, const char *words)
{
    assert_int_equal(haul_error_status(), status);
    if (!strstr(haul_error_message(), words))
        fail_msg("the message is \"%s\", it should contain \"%s\"", haul_error_message(), words);
    haul_error_clear();
}

static void test_autocast__refuses_what_it_cannot_do(void **state)
{
    (void)state;
    haul_autocast_state before = haul_autocast_begin("all", HAUL_BF16);
    haul_autocast_state same = haul_autocast_begin("cuda:0", HAUL_F16);
    assert_refusal(HAUL_INVALID_ARGUMENT, "'cuda:0' is not a kind of device");
    assert_int_equal(haul_autocast_dtype(haul_cpu()), HAUL_BF16);
    haul_autocast_begin("cpu", HAUL_F32);
    assert_refusal(HAUL_DTYPE, "f32 is not possible; use HAUL_F16 or HAUL_BF16");
    haul_autocast_begin(NULL, HAUL_F16);
    assert_refusal(HAUL_INVALID_ARGUMENT, "devices");
    assert_int_equal(haul_autocast_dtype(haul_cpu()), HAUL_BF16);
    assert_int_equal(haul_autocast_end(same), HAUL_OK);
    assert_int_equal(haul_autocast_dtype(haul_cpu()), HAUL_BF16);
    assert_int_equal(haul_autocast_end((haul_autocast_state){7}), HAUL_INVALID_ARGUMENT);
    assert_refusal(HAUL_INVALID_ARGUMENT, "pass its result unchanged");
    assert_int_equal(haul_autocast_end((haul_autocast_state){3u | 1u << 31}), HAUL_INVALID_ARGUMENT);
    assert_refusal(HAUL_INVALID_ARGUMENT, "pass its result unchanged");
    assert_int_equal(haul_autocast_dtype(haul_device_get("no such")), HAUL_DTYPE_NONE);
    assert_refusal(HAUL_DEVICE, "no such");
    assert_int_equal(haul_autocast_end(before), HAUL_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_autocast__operations_follow_their_rules),
        cmocka_unit_test(test_autocast__rows_compute_in_f32_where_they_say_so),
        cmocka_unit_test(test_autocast__meta_tells_the_dtypes),
        cmocka_unit_test(test_autocast__sums_are_of_f32),
        cmocka_unit_test(test_autocast__gradients_arrive_in_f32),
        cmocka_unit_test(test_autocast__a_sum_hands_its_gradient_back_in_the_operands_dtype),
        cmocka_unit_test(test_autocast__gradients_can_be_differentiated),
        cmocka_unit_test(test_autocast__normalisation_keeps_f32_statistics),
        cmocka_unit_test(test_autocast__nests_and_ends_with_the_scope),
        cmocka_unit_test(test_autocast__parameters_are_cast_once),
        cmocka_unit_test(test_autocast__a_changed_parameter_is_cast_again),
        cmocka_unit_test(test_autocast__uses_share_a_cast),
        cmocka_unit_test(test_autocast__casts_follow_a_moved_parameter),
        cmocka_unit_test(test_autocast__survives_exhausted_memory),
        cmocka_unit_test(test_autocast__belongs_to_the_thread),
        cmocka_unit_test(test_autocast__refuses_what_it_cannot_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
