/* Pooling against plain loops, where the maximum comes from, and gradients.
 *
 * ctest: cuda; labels=threads; cuda-labels=none */
#include "support/linalg.h"
#include "support/random.h"

typedef struct settings {
    int64_t h, w, size, size_w, stride[2], padding[2];
    bool    exclude;
} settings;

static const settings all[] = {
    {8, 8, 2, 2, {2, 2}, {0, 0}, false},
    {7, 9, 2, 2, {2, 2}, {0, 0}, false},
    {7, 8, 3, 3, {2, 2}, {1, 1}, true},
    {9, 9, 3, 2, {1, 3}, {1, 0}, false},
    {6, 5, 2, 2, {3, 3}, {0, 0}, true},
    {5, 5, 5, 5, {5, 5}, {2, 2}, false},
    {40, 3, 2, 3, {2, 3}, {0, 0}, true},
    {9, 8, 2, 2, {3, 3}, {1, 1}, false},
    /* Windows two apart: wider than a block of the kernel, and elements in many rows of windows. */
    {5, 601, 3, 3, {2, 2}, {1, 1}, false},
    {7, 531, 2, 4, {2, 2}, {1, 2}, true},
    {12, 33, 9, 3, {1, 2}, {4, 0}, false},
    {17, 30, 5, 3, {2, 2}, {2, 1}, true},
    {4, 40, 2, 16, {1, 2}, {0, 8}, false},
    {23, 3, 3, 3, {2, 2}, {1, 1}, false},
};
#define PLANES 6

static haul_tensor *pool(haul_tensor *x, const settings *s, bool maximum)
{
    haul_pool2d_options o = {.size = s->size,
                             .size_w = s->size_w,
                             .stride = PAIR(s->stride),
                             .padding = PAIR(s->padding),
                             .exclude_padding = s->exclude};
    return maximum ? haul_max_pool2d_with(x, &o) : haul_avg_pool2d_with(x, &o);
}

/* One window: its value, and what its gradient g gives to dx. */
static double pool_window(const settings *s, const double *x, double *dx, int64_t oy, int64_t ox, double g,
                          bool maximum)
{
    int64_t best = -1, inside = 0;
    double  sum = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int64_t i = 0; i < s->size * s->size_w; i++) {
            int64_t row = oy * s->stride[0] + i / s->size_w - s->padding[0];
            int64_t column = ox * s->stride[1] + i % s->size_w - s->padding[1], at = row * s->w + column;
            if (row < 0 || row >= s->h || column < 0 || column >= s->w)
                continue;
            if (pass == 0) {
                inside++;
                sum += x[at];
                best = best < 0 || x[at] > x[best] ? at : best;
            } else if (!maximum) {
                dx[at] += g / (double)(s->exclude ? inside : s->size * s->size_w);
            }
        }
    if (maximum)
        dx[best] += g;
    return maximum ? x[best] : sum / (double)(s->exclude ? inside : s->size * s->size_w);
}

static void compare(haul_device *device, haul_dtype dtype, const settings *s, bool maximum, int index)
{
    haul_scope  *scope = haul_scope_push();
    int64_t      oh = (s->h + 2 * s->padding[0] - s->size) / s->stride[0] + 1;
    int64_t      ow = (s->w + 2 * s->padding[1] - s->size_w) / s->stride[1] + 1, plane = s->h * s->w;
    double      *x, *dy, *y = calloc((size_t)(PLANES * oh * ow), sizeof *y), *dx = calloc((size_t)(PLANES * plane), 8);
    haul_tensor *in = sample_tensor(device, dtype, HAUL_SHAPE(2, PLANES / 2, s->h, s->w), 1, &x), *g;
    haul_tensor *seed = sample_tensor(device, dtype, HAUL_SHAPE(2, PLANES / 2, oh, ow), 2, &dy);
    assert_non_null(y);
    assert_non_null(dx);
    for (int64_t i = 0; i < PLANES * oh * ow; i++) {
        int64_t p = i / (oh * ow);
        y[i] = pool_window(s, x + p * plane, dx + p * plane, i / ow % oh, i % ow, dy[i], maximum);
    }
    char what[80];
    snprintf(what, sizeof what, "settings %d, %s on %s", index, haul_dtype_name(dtype), haul_device_name(device));
    in = haul_set_requires_grad(haul_detach(in), true);
    haul_tensor *result = pool(in, s, maximum);
    double       error = maximum ? 0 : 1e-5;
    assert_close(result, y, PLANES * oh * ow, error, what);
    assert_close(pool(haul_detach(in), s, maximum), y, PLANES * oh * ow, error, what);
    assert_int_equal(haul_grad(result, &in, 1, &g, .seed = seed), HAUL_OK);
    assert_close(g, dx, PLANES * plane, 1e-5, what);
    free(x);
    free(dy);
    free(y);
    free(dx);
    haul_scope_pop(scope);
}

static void compare_all(haul_device *device)
{
    for (int i = 0; i < (int)(sizeof all / sizeof all[0]); i++)
        for (int maximum = 0; maximum < 2; maximum++) {
            compare(device, HAUL_F32, &all[i], maximum, i);
            compare(device, HAUL_F64, &all[i], maximum, i);
        }
}

static void test_pool2d__forward_and_gradient_by_definition(void **state)
{
    (void)state;
    on_devices(compare_all);
}

static haul_tensor *max_of(haul_tensor *const *in, int count, void *context)
{
    (void)count, (void)context;
    return haul_max_pool2d(in[0], 3, .stride = {2, 2}, .padding = {1, 1});
}

static haul_tensor *mean_of(haul_tensor *const *in, int count, void *context)
{
    (void)count, (void)context;
    return haul_avg_pool2d(in[0], 3, .stride = {2, 1}, .padding = {1, 1}, .exclude_padding = true);
}

typedef struct second {
    haul_function *f;
} second;

static haul_tensor *gradient_of(haul_tensor *const *in, int count, void *context)
{
    haul_tensor *g, *y = haul_sum(haul_square(((second *)context)->f(in, count, NULL)));
    return haul_grad(y, in, 1, &g, .create_graph = true) ? NULL : haul_sum(haul_square(g));
}

static void check_gradients(haul_device *device)
{
    haul_tensor *in[] = {sample_tensor(device, HAUL_F64, HAUL_SHAPE(1, 2, 6, 7), 1, NULL)};
    second       of[] = {{max_of}, {mean_of}};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(haul_grad_check(of[i].f, in, 1, NULL), HAUL_OK);
        assert_int_equal(haul_grad_check(gradient_of, in, 1, &of[i], .tolerance = {1e-4, 1e-3}), HAUL_OK);
    }
}

static void test_pool2d__gradients_twice(void **state)
{
    (void)state;
    on_devices(check_gradients);
}

static void not_a_number(haul_device *device)
{
    haul_set_device(device);
    float        v[] = {1, 2, NAN, 0, 5, 6, 7, 8};
    haul_tensor *x = haul_from_host(HAUL_F32, HAUL_SHAPE(1, 2, 2, 2), v);
    double       y[2], z[2];
    assert_int_equal(read_values(haul_max_pool2d(x, 2), y, 2), HAUL_OK);
    assert_int_equal(read_values(haul_max_pool2d(x, 2, .stride = {1, 1}), z, 2), HAUL_OK);
    assert_true(isnan(y[0]) && isnan(z[0]));
    assert_true(y[1] == 8 && z[1] == 8);
}

static void test_pool2d__nan_is_the_maximum(void **state)
{
    (void)state;
    on_devices(not_a_number);
}

/* Without a gradient to come, the maximum is computed by a kernel of its own. */
static void check_values_alone(haul_device *device, bool special)
{
    static const haul_dtype dtypes[] = {HAUL_F16, HAUL_BF16, HAUL_F32, HAUL_F64};
    static const float      specials[] = {NAN, INFINITY, -INFINITY, -INFINITY, -0.0F, 0, 3e38F, -3e38F};
    enum { PLANE_COUNT = 3, LARGEST = 20 * 170 };
    float                     data[PLANE_COUNT * LARGEST];
    static double             alone[PLANE_COUNT * LARGEST], recorded[PLANE_COUNT * LARGEST];
    const haul_pool2d_options o = {.size = 1 + below(5),
                                   .size_w = 1 + below(below(4) ? 4 : 20),
                                   .stride = {1 + below(4), 1 + below(below(4) ? 3 : 20)},
                                   .padding = {HAUL_ZERO, HAUL_ZERO}};
    haul_pool2d_options       padded = o;
    const bool                exact = o.size_w <= o.stride[1] && below(2); /* windows divide rows, which may be short */
    const int64_t             rows = o.size + below(15);
    const int64_t             columns = exact ? o.stride[1] * (1 + below(7)) : o.size_w + below(150);
    haul_scope               *scope = haul_scope_push();
    if (o.size / 2 > 0 && o.size_w / 2 > 0 && below(2))
        padded.padding[0] = o.size / 2, padded.padding[1] = 1 + below(o.size_w / 2);
    for (int i = 0; i < PLANE_COUNT * rows * columns; i++)
        data[i] = special && below(20) == 0 ? specials[below(8)] : (float)(below(4001) - 2000) / 8;
    haul_tensor *x = haul_from_host(HAUL_F32, HAUL_SHAPE(1, PLANE_COUNT, rows, columns), data);
    x = haul_to(haul_cast(x, dtypes[below(4)]), device);
    if (below(3) == 0)
        x = haul_to_memory_format(x, HAUL_CHANNELS_LAST);
    haul_tensor  *y = haul_max_pool2d_with(x, &padded);
    haul_tensor  *leaf = haul_set_requires_grad(haul_detach(x), true), *z = haul_max_pool2d_with(leaf, &padded);
    const int64_t count = haul_tensor_count(z);
    assert_int_equal(read_values(y, alone, count), HAUL_OK);
    assert_int_equal(read_values(z, recorded, count), HAUL_OK);
    for (int64_t i = 0; i < count; i++)
        if (alone[i] != recorded[i] && !(isnan(alone[i]) && isnan(recorded[i])))
            fail_msg(
                "%s: windows of %lld x %lld, {%lld, %lld} apart, padding {%lld, %lld}, of %lld x %lld: element %lld "
                "is %g alone and %g with a graph",
                haul_device_name(device), (long long)o.size, (long long)o.size_w, (long long)o.stride[0],
                (long long)o.stride[1], (long long)padded.padding[0], (long long)padded.padding[1], (long long)rows,
                (long long)columns, (long long)i, alone[i], recorded[i]);
    haul_scope_pop(scope);
}

static void values_alone(haul_device *device)
{
    for (int i = 0; i < 200; i++)
        check_values_alone(device, i % 2);
}

static void test_pool2d__values_alone_are_those_with_a_graph(void **state)
{
    (void)state;
    on_devices(values_alone);
}

static void empty_batch(haul_device *device)
{
    haul_set_device(device);
    haul_tensor *x = haul_set_requires_grad(haul_zeros(HAUL_F32, HAUL_SHAPE(0, 3, 4, 4)), true);
    assert_int_equal(haul_backward(haul_sum(haul_max_pool2d(x, 2))), HAUL_OK);
    assert_int_equal(haul_backward(haul_sum(haul_avg_pool2d(x, 2))), HAUL_OK);
    assert_int_equal(haul_tensor_count(haul_tensor_grad(x)), 0);
}

static void test_pool2d__empty_batch(void **state)
{
    (void)state;
    on_devices(empty_batch);
}

static void test_pool2d__errors(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *x = haul_ones(HAUL_F32, HAUL_SHAPE(2, 3, 8, 8));
    assert_refused(haul_max_pool2d(haul_flatten(x, 1), 2), HAUL_SHAPE, "[N, C, H, W]");
    assert_refused(haul_max_pool2d(x, 9), HAUL_SHAPE, "the window has 9 rows, but x has 8");
    assert_refused(haul_avg_pool2d(x, 0), HAUL_INVALID_ARGUMENT, "0 rows");
    assert_refused(haul_avg_pool2d(x, 2, .stride = {-1, 1}), HAUL_INVALID_ARGUMENT,
                   "stride is {-1, 1}; both must be at least 1");
    assert_refused(haul_max_pool2d(x, 2, .padding = {2, HAUL_ZERO}), HAUL_INVALID_ARGUMENT, "half the window");
    assert_refused(haul_max_pool2d(haul_cast(x, HAUL_I32), 2), HAUL_DTYPE, "haul_cast");
    haul_scope_pop(scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pool2d__forward_and_gradient_by_definition),
        cmocka_unit_test(test_pool2d__gradients_twice),
        cmocka_unit_test(test_pool2d__nan_is_the_maximum),
        cmocka_unit_test(test_pool2d__values_alone_are_those_with_a_graph),
        cmocka_unit_test(test_pool2d__empty_batch),
        cmocka_unit_test(test_pool2d__errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
