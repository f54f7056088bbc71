/* Pooling with gaps, windows that end behind the padding, other divisors, and the places of the largest elements:
 * against plain loops, in both memory formats, with gradients of gradients and errors.
 *
 * ctest: cuda; labels=threads; cuda-labels=none */
#include "support/linalg.h"
#include "support/random.h"

typedef struct form {
    int64_t size[2], stride[2], padding[2], dilation[2], divisor;
    bool    ceil, inside;
} form;

static const form forms[] = {
    {{2, 2}, {2, 2}, {0, 0}, {1, 1}, 0, true, false},  {{3, 3}, {2, 2}, {1, 1}, {1, 1}, 0, true, true},
    {{3, 2}, {2, 1}, {1, 1}, {2, 3}, 0, false, false}, {{2, 3}, {3, 2}, {0, 1}, {3, 1}, 0, true, false},
    {{4, 1}, {3, 1}, {2, 0}, {1, 1}, 5, true, false},  {{1, 5}, {1, 4}, {0, 2}, {1, 2}, 0, true, true},
};

enum { N = 2, C = 3, H = 9, W = 11 };

static int64_t windows(const form *f, int axis, int64_t size, int64_t dilation)
{
    const int64_t room = size + 2 * f->padding[axis] - (f->size[axis] - 1) * dilation - 1;
    int64_t       out = room / f->stride[axis] + 1;
    if (f->ceil && room % f->stride[axis] && out * f->stride[axis] < size + f->padding[axis])
        out++;
    return out;
}

/* The sum and the place of the largest element of a window of a plane, and how many elements count in a mean. */
static double window(const form *f, const double *x, int64_t oy, int64_t ox, const int64_t dilation[2], int64_t *best,
                     double *count)
{
    double sum = 0;
    *best = -1;
    *count = 0;
    for (int64_t r = 0; r < f->size[0]; r++)
        for (int64_t c = 0; c < f->size[1]; c++) {
            const int64_t row = oy * f->stride[0] - f->padding[0] + r * dilation[0];
            const int64_t column = ox * f->stride[1] - f->padding[1] + c * dilation[1];
            const bool    in = row >= 0 && row < H && column >= 0 && column < W;
            *count += f->inside ? in : row < H + f->padding[0] && column < W + f->padding[1];
            if (!in)
                continue;
            sum += x[row * W + column];
            *best = *best < 0 || x[row * W + column] > x[*best] ? row * W + column : *best;
        }
    return sum;
}

static void compare(haul_device *device, const form *f, int index, haul_dtype dtype, bool channels_last)
{
    static const int64_t ones[2] = {1, 1};
    haul_scope          *scope = haul_scope_push();
    double              *x, largest[N * C * H * W], places[N * C * H * W], means[N * C * H * W];
    haul_tensor         *in = sample_tensor(device, dtype, HAUL_SHAPE(N, C, H, W), index, &x), *y, *at;
    char                 what[80];
    haul_pool2d_options  o = {.size = f->size[0],
                              .size_w = f->size[1],
                              .stride = PAIR(f->stride),
                              .padding = PAIR(f->padding),
                              .dilation = PAIR(f->dilation),
                              .ceil_mode = f->ceil},
                        mean = o;
    mean.dilation[0] = mean.dilation[1] = 0;
    mean.exclude_padding = f->inside;
    mean.divisor = f->divisor;
    const int64_t oh = windows(f, 0, H, f->dilation[0]), ow = windows(f, 1, W, f->dilation[1]);
    const int64_t mh = windows(f, 0, H, 1), mw = windows(f, 1, W, 1);
    snprintf(what, sizeof what, "form %d, %s on %s", index, haul_dtype_name(dtype), haul_device_name(device));
    for (int64_t p = 0; p < N * C; p++) {
        int64_t best;
        double  count;
        for (int64_t i = 0; i < oh * ow; i++) {
            window(f, x + p * H * W, i / ow, i % ow, f->dilation, &best, &count);
            largest[p * oh * ow + i] = x[p * H * W + best];
            places[p * oh * ow + i] = (double)best;
        }
        for (int64_t i = 0; i < mh * mw; i++) {
            const double sum = window(f, x + p * H * W, i / mw, i % mw, ones, &best, &count);
            means[p * mh * mw + i] = sum / (f->divisor ? (double)f->divisor : count);
        }
    }
    if (channels_last)
        in = haul_to_memory_format(in, HAUL_CHANNELS_LAST);
    assert_close(haul_max_pool2d_with(in, &o), largest, N * C * oh * ow, 0, what);
    assert_close(haul_avg_pool2d_with(in, &mean), means, N * C * mh * mw, 1e-5, what);
    assert_int_equal(haul_max_pool2d_indices_with(in, &y, &at, &o), HAUL_OK);
    assert_int_equal(haul_tensor_dtype(at), HAUL_I64);
    assert_close(y, largest, N * C * oh * ow, 0, what);
    assert_close(at, places, N * C * oh * ow, 0, what);
    /* The gradient goes to the places, once for each window. */
    haul_tensor *leaf = haul_set_requires_grad(haul_detach(in), true), *g, *wanted;
    assert_int_equal(haul_grad(haul_sum(haul_max_pool2d_with(leaf, &o)), &leaf, 1, &g), HAUL_OK);
    wanted = haul_scatter_add(haul_zeros_like(haul_flatten(haul_contiguous(in), 2)), 2, haul_flatten(at, 2),
                              haul_ones_like(haul_flatten(y, 2)));
    assert_int_equal(read_values(wanted, places, N * C * H * W), HAUL_OK);
    assert_close(g, places, N * C * H * W, 0, what);
    free(x);
    haul_scope_pop(scope);
}

static void compare_all(haul_device *device)
{
    for (int i = 0; i < (int)(sizeof forms / sizeof forms[0]); i++)
        for (int channels_last = 0; channels_last < 2; channels_last++) {
            compare(device, &forms[i], i, HAUL_F32, channels_last);
            compare(device, &forms[i], i, HAUL_F64, channels_last);
        }
}

static void test_pool_forms__are_those_of_plain_loops(void **state)
{
    (void)state;
    on_devices(compare_all);
}

static haul_tensor *max_of(haul_tensor *const *in, int count, void *context)
{
    (void)count, (void)context;
    return haul_max_pool2d(in[0], 2, .stride = {3, 2}, .padding = {1, 1}, .dilation = {2, 1}, .ceil_mode = true);
}

static haul_tensor *mean_of(haul_tensor *const *in, int count, void *context)
{
    (void)count, (void)context;
    return haul_avg_pool2d(in[0], 3, .stride = {2, 2}, .padding = {1, 1}, .ceil_mode = true, .exclude_padding = true);
}

static haul_tensor *gradient_of(haul_tensor *const *in, int count, void *context)
{
    haul_function **f = context;
    haul_tensor    *g, *y = haul_sum(haul_square((*f)(in, count, NULL)));
    return haul_grad(y, in, 1, &g, .create_graph = true) ? NULL : haul_sum(haul_square(g));
}

static void check_gradients(haul_device *device)
{
    haul_tensor   *in[] = {sample_tensor(device, HAUL_F64, HAUL_SHAPE(1, 2, 6, 8), 1, NULL)};
    haul_function *of[] = {max_of, mean_of};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(haul_grad_check(of[i], in, 1, NULL), HAUL_OK);
        assert_int_equal(haul_grad_check(gradient_of, in, 1, &of[i], .tolerance = {1e-4, 1e-3}), HAUL_OK);
    }
}

static void test_pool_forms__gradients_twice(void **state)
{
    (void)state;
    on_devices(check_gradients);
}

/* Planes that are pooled and put back are 0 but for the largest elements. */
static void back(haul_device *device)
{
    haul_set_device(device);
    float        v[] = {1, 2, 4, 3, 5, 6, -7, 8, 9};
    double       y[9];
    haul_tensor *x = haul_from_host(HAUL_F32, HAUL_SHAPE(1, 1, 3, 3), v), *most, *at;
    const double wanted[] = {0, 0, 0, 0, 5, 6, 0, 8, 9};
    assert_int_equal(haul_max_pool2d_indices(x, &most, &at, 2, .stride = {1, 1}), HAUL_OK);
    assert_int_equal(read_values(haul_max_unpool2d(most, at, 3, 3), y, 9), HAUL_OK);
    assert_memory_equal(y, wanted, sizeof y);
    /* of several elements for one place the last one stays */
    haul_tensor *lines = haul_from_host(HAUL_F32, HAUL_SHAPE(1, 1, 3), v);
    haul_tensor *same = haul_zeros(HAUL_I64, HAUL_SHAPE(1, 1, 3));
    assert_int_equal(read_values(haul_max_unpool1d(lines, same, 2), y, 2), HAUL_OK);
    assert_true(y[0] == 4 && y[1] == 0);
    haul_tensor *none = haul_zeros(HAUL_F32, HAUL_SHAPE(0, 2, 3));
    haul_tensor *empty = haul_max_unpool1d(none, haul_zeros(HAUL_I64, HAUL_SHAPE(0, 2, 3)), 4);
    assert_int_equal(haul_tensor_dim(empty, 2), 4);
    assert_int_equal(haul_tensor_count(empty), 0);
}

static void test_pool_forms__unpooling(void **state)
{
    (void)state;
    on_devices(back);
}

static void bad_places(haul_device *device)
{
    haul_set_device(device);
    double       y[9];
    int64_t      out[] = {0, 9};
    haul_tensor *x = haul_ones(HAUL_F32, HAUL_SHAPE(1, 1, 2)), *at = haul_from_host(HAUL_I64, HAUL_SHAPE(1, 1, 2), out);
    assert_int_not_equal(read_values(haul_max_unpool1d(x, at, 9), y, 9), HAUL_OK);
    assert_int_equal(haul_error_status(), HAUL_INVALID_ARGUMENT);
    haul_error_clear();
}

static void test_pool_forms__a_place_outside_is_refused(void **state)
{
    (void)state;
    on_devices(bad_places);
}

static void test_pool_forms__errors(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *x = haul_ones(HAUL_F32, HAUL_SHAPE(2, 3, 8, 8)), *y, *at;
    assert_refused(haul_max_pool2d(x, 3, .dilation = {4, 4}), HAUL_SHAPE, "the window has 9 rows, but x has 8");
    assert_refused(haul_max_pool2d(x, 3, .dilation = {-1, 1}), HAUL_INVALID_ARGUMENT, "dilation");
    assert_refused(haul_avg_pool2d(x, 3, .dilation = {2, 2}), HAUL_INVALID_ARGUMENT, "a mean has no dilation");
    assert_refused(haul_avg_pool2d(x, 3, .divisor = -2), HAUL_INVALID_ARGUMENT, "the divisor is -2");
    assert_refused(haul_avg_pool2d(x, 3, .divisor = HAUL_ZERO), HAUL_INVALID_ARGUMENT, "the divisor is 0");
    assert_refused(haul_max_pool2d(x, 3, .divisor = 2), HAUL_INVALID_ARGUMENT, "haul_avg_pool2d");
    assert_refused(haul_max_pool2d(haul_slice(x, 2, 0, 2, 1), 2, .padding = {2, 1}, .dilation = {4, 1}), HAUL_SHAPE,
                   "x has 2 rows, and a window with padding 2 and dilation 4 has none of them");
    assert_refused(haul_max_pool1d(haul_flatten(x, 2), 2, .dilation = HAUL_ZERO), HAUL_INVALID_ARGUMENT,
                   "dilation 0 is not possible");
    assert_refused(haul_max_pool3d(haul_unsqueeze(x, 2), 1, .size_h = 3, .size_w = 3, .dilation = {1, 4, 1}),
                   HAUL_SHAPE, "the window is");
    assert_refused(haul_max_unpool2d(x, haul_ones(HAUL_I64, HAUL_SHAPE(2, 3, 8)), 9, 9), HAUL_SHAPE,
                   "it must have the shape of x");
    assert_refused(haul_max_unpool2d(haul_flatten(x, 2), haul_ones(HAUL_I64, HAUL_SHAPE(2, 3, 64)), 9, 9), HAUL_SHAPE,
                   "[N, C, H, W]");
    assert_refused(haul_max_unpool2d(x, haul_ones_like(haul_cast(x, HAUL_I64)), 9, 0), HAUL_INVALID_ARGUMENT,
                   "width is 0");
    assert_refused(haul_max_unpool2d(x, x, 9, 9), HAUL_DTYPE, "haul_max_unpool2d");
    assert_int_not_equal(haul_max_pool2d_indices_with(x, &y, &at, NULL), HAUL_OK);
    haul_error_clear();
    assert_int_not_equal(haul_max_pool2d_indices(x, &y, NULL, 2), HAUL_OK);
    haul_error_clear();
    assert_int_equal(haul_max_pool2d_indices(x, &y, &at, 9), HAUL_SHAPE);
    assert_false(haul_tensor_is_valid(y) || haul_tensor_is_valid(at));
    haul_error_clear();
    haul_scope_pop(scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pool_forms__are_those_of_plain_loops),
        cmocka_unit_test(test_pool_forms__gradients_twice),
        cmocka_unit_test(test_pool_forms__unpooling),
        cmocka_unit_test(test_pool_forms__a_place_outside_is_refused),
        cmocka_unit_test(test_pool_forms__errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
