/* Transposed convolutions against plain loops in double, over strides, paddings, dilations and groups; 1-d ones against
 * those of pictures with one row.
 *
 * ctest: cuda */
#include "support/failure.h"
#include "support/into.h"
#include "support/linalg.h"

typedef struct settings {
    int64_t n, c_in, h, w, c_out, kh, kw, stride[2], padding[2], output_padding[2], dilation[2], groups;
} settings;

static const settings all[] = {
    {2, 3, 8, 9, 4, 3, 3, {1, 1}, {0, 0}, {0, 0}, {1, 1}, 1},
    {9, 3, 12, 12, 6, 2, 2, {2, 2}, {0, 0}, {0, 0}, {1, 1}, 1},
    {2, 2, 7, 6, 3, 2, 3, {2, 1}, {0, 2}, {1, 0}, {1, 1}, 1},
    {1, 4, 9, 7, 6, 3, 3, {2, 3}, {1, 1}, {1, 2}, {1, 1}, 2},
    {2, 2, 9, 9, 3, 3, 3, {1, 1}, {2, 2}, {0, 0}, {2, 2}, 1},
    {2, 4, 6, 6, 4, 4, 4, {2, 2}, {1, 1}, {0, 0}, {1, 1}, 4},
    {2, 3, 5, 5, 2, 1, 1, {1, 1}, {0, 0}, {0, 0}, {1, 1}, 1},
    {2, 20, 11, 10, 33, 1, 1, {1, 1}, {0, 0}, {0, 0}, {1, 1}, 1},
    {2, 12, 10, 12, 6, 1, 1, {1, 1}, {0, 0}, {0, 0}, {1, 1}, 3},
    {2, 2, 5, 4, 2, 1, 1, {3, 3}, {4, 4}, {2, 1}, {1, 1}, 2},
    {1, 2, 4, 5, 2, 3, 2, {3, 2}, {1, 0}, {0, 1}, {2, 3}, 1},
    {2, 40, 6, 6, 35, 3, 3, {1, 1}, {1, 1}, {0, 0}, {1, 1}, 1},
    {9, 33, 6, 5, 40, 2, 2, {2, 2}, {0, 0}, {0, 0}, {1, 1}, 1},
    {3, 64, 6, 5, 96, 3, 3, {2, 2}, {1, 0}, {1, 1}, {1, 2}, 2},
    {17, 5, 1, 1, 7, 5, 3, {2, 2}, {0, 0}, {0, 0}, {1, 1}, 1},
    {2, 2, 3, 4, 2, 2, 2, {5, 4}, {0, 0}, {4, 3}, {1, 1}, 1},
};

static haul_tensor *transposed(haul_tensor *x, haul_tensor *w, haul_tensor *bias, const settings *s)
{
    return haul_conv_transpose2d(x, w, .bias = bias, .stride = PAIR(s->stride), .padding = PAIR(s->padding),
                                 .output_padding = PAIR(s->output_padding), .dilation = PAIR(s->dilation),
                                 .groups = s->groups);
}

static int64_t output_size(const settings *s, int axis)
{
    int64_t size = axis ? s->w : s->h, taps = axis ? s->kw : s->kh;
    return (size - 1) * s->stride[axis] - 2 * s->padding[axis] + s->dilation[axis] * (taps - 1) + 1 +
           s->output_padding[axis];
}

/* y, and the gradients that come from dy, by the definition. */
typedef struct reference {
    double *x, *w, *bias, *dy, *y, *dx, *dw, *dbias;
} reference;

/* What element `at` of x, in channel c, adds to y, and gets from dy. */
static void spread_element(const settings *s, reference *r, int64_t n, int64_t c, int64_t row, int64_t column,
                           int64_t at)
{
    int64_t channels = s->c_out / s->groups, group = c / (s->c_in / s->groups);
    int64_t oh = output_size(s, 0), ow = output_size(s, 1);
    for (int64_t o = 0; o < channels; o++)
        for (int64_t y = 0; y < s->kh; y++)
            for (int64_t x = 0; x < s->kw; x++) {
                int64_t oy = row * s->stride[0] + y * s->dilation[0] - s->padding[0];
                int64_t ox = column * s->stride[1] + x * s->dilation[1] - s->padding[1];
                if (oy < 0 || oy >= oh || ox < 0 || ox >= ow)
                    continue;
                int64_t out = ((n * s->c_out + group * channels + o) * oh + oy) * ow + ox;
                int64_t tap = ((c * channels + o) * s->kh + y) * s->kw + x;
                r->y[out] += r->x[at] * r->w[tap];
                r->dx[at] += r->dy[out] * r->w[tap];
                r->dw[tap] += r->dy[out] * r->x[at];
            }
}

static double *zeros(int64_t count)
{
    double *p = calloc((size_t)count, sizeof *p);
    assert_non_null(p);
    return p;
}

static void compare(haul_device *device, haul_dtype dtype, const settings *s, int index, bool channels_last)
{
    haul_scope  *scope = haul_scope_push();
    int64_t      oh = output_size(s, 0), ow = output_size(s, 1), channels = s->c_out / s->groups;
    int64_t      nx = s->n * s->c_in * s->h * s->w, nw = s->c_in * channels * s->kh * s->kw;
    int64_t      ny = s->n * s->c_out * oh * ow;
    reference    r = {.y = zeros(ny), .dx = zeros(nx), .dw = zeros(nw), .dbias = zeros(s->c_out)};
    haul_tensor *x = sample_tensor(device, dtype, HAUL_SHAPE(s->n, s->c_in, s->h, s->w), 1, &r.x);
    haul_tensor *w = sample_tensor(device, dtype, HAUL_SHAPE(s->c_in, channels, s->kh, s->kw), 2, &r.w);
    haul_tensor *bias = sample_tensor(device, dtype, HAUL_SHAPE(s->c_out), 3, &r.bias);
    haul_tensor *dy = sample_tensor(device, dtype, HAUL_SHAPE(s->n, s->c_out, oh, ow), 4, &r.dy);
    for (int64_t i = 0; i < ny; i++) {
        r.y[i] = r.bias[i / (oh * ow) % s->c_out];
        r.dbias[i / (oh * ow) % s->c_out] += r.dy[i];
    }
    for (int64_t i = 0; i < nx; i++)
        spread_element(s, &r, i / (s->c_in * s->h * s->w), i / (s->h * s->w) % s->c_in, i / s->w % s->h, i % s->w, i);

    if (channels_last)
        x = haul_to_memory_format(x, HAUL_CHANNELS_LAST);
    haul_tensor *in[] = {haul_set_requires_grad(haul_detach(x), true), haul_set_requires_grad(haul_detach(w), true),
                         haul_set_requires_grad(haul_detach(bias), true)};
    haul_tensor *g[3], *y = transposed(in[0], in[1], in[2], s);
    char         what[80];
    double       unit = dtype == HAUL_F32 ? 2e-6 : 1e-14;
    snprintf(what, sizeof what, "settings %d, %s on %s", index, haul_dtype_name(dtype), haul_device_name(device));
    assert_close(y, r.y, ny, unit * (double)(s->c_in / s->groups * s->kh * s->kw + 1), what);
    assert_int_equal(haul_tensor_dim(y, 2), oh);
    assert_int_equal(haul_grad(y, in, 3, g, .seed = dy), HAUL_OK);
    assert_close(g[0], r.dx, nx, unit * (double)(channels * s->kh * s->kw + 1), what);
    assert_close(g[1], r.dw, nw, unit * (double)(s->n * s->h * s->w + 1), what);
    assert_close(g[2], r.dbias, s->c_out, unit * (double)(s->n * oh * ow + 1), what);
    double *memory[] = {r.x, r.w, r.bias, r.dy, r.y, r.dx, r.dw, r.dbias};
    for (int i = 0; i < 8; i++)
        free(memory[i]);
    haul_scope_pop(scope);
}

static void compare_all(haul_device *device)
{
    for (int i = 0; i < (int)(sizeof all / sizeof all[0]); i++) {
        compare(device, HAUL_F32, &all[i], i, false);
        compare(device, HAUL_F32, &all[i], i, true);
        compare(device, HAUL_F64, &all[i], i, false);
    }
}

static void test_conv_transpose2d__forward_and_gradients_by_definition(void **state)
{
    (void)state;
    on_devices(compare_all);
}

static void empty_batch(haul_device *device)
{
    haul_set_device(device);
    haul_tensor *x = haul_zeros(HAUL_F32, HAUL_SHAPE(0, 2, 5, 5));
    haul_tensor *w = haul_set_requires_grad(haul_ones(HAUL_F32, HAUL_SHAPE(2, 3, 3, 3)), true);
    haul_tensor *y = haul_conv_transpose2d(x, w);
    assert_int_equal(haul_tensor_dim(y, 0), 0);
    assert_int_equal(haul_tensor_dim(y, 3), 7);
    assert_int_equal(haul_backward(haul_sum(y)), HAUL_OK);
    double none[54] = {0};
    assert_close(haul_tensor_grad(w), none, 54, 0, "the gradient of an empty batch");
}

static void test_conv_transpose2d__empty_batch(void **state)
{
    (void)state;
    on_devices(empty_batch);
}

static haul_tensor *compute(void *context)
{
    int64_t      channels = *(const int64_t *)context;
    haul_tensor *x = sample_tensor(haul_cpu(), HAUL_F32, HAUL_SHAPE(13, channels, 9, 9), 1, NULL);
    haul_tensor *w = sample_tensor(haul_cpu(), HAUL_F32, HAUL_SHAPE(channels, 40, 3, 3), 2, NULL);
    haul_tensor *bias = sample_tensor(haul_cpu(), HAUL_F32, HAUL_SHAPE(40), 3, NULL);
    return haul_conv_transpose2d(x, w, .bias = bias, .stride = {2, 2}, .padding = {1, 1});
}

static void test_conv_transpose2d__threads_do_not_change_bits(void **state)
{
    (void)state;
    assert_same_for_threads(compute, &(int64_t){5});
    assert_same_for_threads(compute, &(int64_t){48});
}

static haul_tensor *transpose_into(haul_tensor *out, haul_tensor *x, haul_tensor *w, haul_tensor *bias)
{
    assert_succeeded(haul_conv_transpose2d_into(out, x, w, .bias = bias, .padding = {1, 1}), "conv_transpose2d_into");
    return out;
}

static void into_given(haul_device *device)
{
    haul_tensor *x = sample_tensor(device, HAUL_F32, HAUL_SHAPE(2, 3, 5, 4), 1, NULL);
    haul_tensor *w = sample_tensor(device, HAUL_F32, HAUL_SHAPE(3, 3, 3, 3), 2, NULL);
    haul_tensor *bias = sample_tensor(device, HAUL_F32, HAUL_SHAPE(3), 3, NULL);
    haul_set_device(device);
    haul_tensor *y = haul_conv_transpose2d(x, w, .bias = bias, .padding = {1, 1});
    haul_tensor *out = haul_zeros(HAUL_F32, HAUL_SHAPE(2, 3, 5, 4));
    haul_tensor *last = haul_to_memory_format(haul_zeros(HAUL_F32, HAUL_SHAPE(2, 3, 5, 4)), HAUL_CHANNELS_LAST);
    assert_equal_bits(transpose_into(out, x, w, bias), y, "row-major");
    assert_equal_bits(transpose_into(last, x, w, bias), y, "channels-last");
    assert_int_equal(haul_conv_transpose2d_into(out, x, w, .bias = bias), HAUL_SHAPE);
    haul_error_clear();
    assert_int_equal(haul_conv_transpose2d_into_with(out, x, NULL), HAUL_INVALID_ARGUMENT);
    haul_error_clear();
    assert_equal_bits(transpose_into(x, x, w, bias), y, "an operand");
}

static void test_conv_transpose2d__into_given_tensors(void **state)
{
    (void)state;
    on_devices(into_given);
}

static void test_conv_transpose2d__errors(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *x = haul_ones(HAUL_F32, HAUL_SHAPE(2, 4, 8, 8)), *w = haul_ones(HAUL_F32, HAUL_SHAPE(4, 3, 3, 3));
    assert_refused(haul_conv_transpose2d(haul_flatten(x, 1), w), HAUL_SHAPE, "[N, C, H, W]");
    assert_refused(haul_conv_transpose2d(x, haul_flatten(w, 1)), HAUL_SHAPE, "[C_in, C_out / groups, KH, KW]");
    assert_refused(haul_conv_transpose2d(x, w, .bias = haul_ones(HAUL_F32, HAUL_SHAPE(4))), HAUL_SHAPE,
                   "bias must be [3]");
    assert_refused(haul_conv_transpose2d(x, w, .groups = 3), HAUL_SHAPE, "groups must divide 4");
    assert_refused(haul_conv_transpose2d(x, haul_ones(HAUL_F32, HAUL_SHAPE(3, 4, 3, 3))), HAUL_SHAPE,
                   "weight must be [4, C_out / groups, KH, KW]");
    assert_refused(haul_conv_transpose2d(x, w, .output_padding = {1, 1}), HAUL_INVALID_ARGUMENT,
                   "it must be less than the stride");
    assert_refused(haul_conv_transpose2d(x, w, .padding = {5, 5}), HAUL_SHAPE, "none are left");
    assert_refused(haul_conv_transpose2d(x, w, .stride = {1 << 30, 1}), HAUL_INVALID_ARGUMENT, "less than 2^31");
    assert_refused(haul_conv_transpose2d(x, w, .padding = {INT64_MAX, 1}), HAUL_INVALID_ARGUMENT, "too large");
    assert_refused(haul_conv_transpose2d(x, w, .stride = {-1, 1}), HAUL_INVALID_ARGUMENT, "both must");
    assert_refused(haul_conv_transpose2d(haul_cast(x, HAUL_I32), haul_cast(w, HAUL_I32)), HAUL_DTYPE, "haul_cast");
    assert_refused(haul_conv_transpose2d_with(x, NULL), HAUL_INVALID_ARGUMENT, "options");
    haul_scope_pop(scope);
}

/* ---- one dimension ---- */

static void one_row(haul_device *device)
{
    haul_tensor *x = sample_tensor(device, HAUL_F32, HAUL_SHAPE(3, 4, 9), 1, NULL);
    haul_tensor *w = sample_tensor(device, HAUL_F32, HAUL_SHAPE(6, 2, 3), 2, NULL), *v = haul_slice(x, 2, 0, 9, 2);
    haul_tensor *bias = sample_tensor(device, HAUL_F32, HAUL_SHAPE(6), 3, NULL);
    haul_tensor *want = haul_conv2d(haul_unsqueeze(x, 2), haul_unsqueeze(w, 2), .bias = bias, .stride = {1, 2},
                                    .padding = {HAUL_ZERO, 1}, .groups = 2, .relu = true);
    haul_tensor *out = haul_zeros_like(haul_squeeze(want, 2));
    assert_equal_bits(haul_conv1d(x, w, .bias = bias, .stride = 2, .padding = 1, .groups = 2, .relu = true),
                      haul_squeeze(want, 2), "conv1d");
    assert_succeeded(haul_conv1d_into(out, x, w, .bias = bias, .stride = 2, .padding = 1, .groups = 2, .relu = true),
                     "into");
    assert_equal_bits(out, haul_squeeze(want, 2), "conv1d_into");
    assert_equal_bits(haul_conv1d(v, w, .bias = bias, .padding = HAUL_ZERO, .groups = 2),
                      haul_conv1d(haul_contiguous(v), w, .bias = bias, .groups = 2), "a view");
    haul_tensor *turned = haul_transpose(w, 0, 1); /* [2, 6, 3] */
    want = haul_conv_transpose2d(haul_unsqueeze(haul_slice(x, 1, 0, 2, 1), 2), haul_unsqueeze(turned, 2), .bias = bias,
                                 .stride = {1, 3}, .padding = {HAUL_ZERO, 1}, .output_padding = {HAUL_ZERO, 2});
    out = haul_zeros_like(haul_squeeze(want, 2));
    v = haul_slice(x, 1, 0, 2, 1);
    assert_equal_bits(haul_conv_transpose1d(v, turned, .bias = bias, .stride = 3, .padding = 1, .output_padding = 2),
                      haul_squeeze(want, 2), "conv_transpose1d");
    assert_succeeded(
        haul_conv_transpose1d_into(out, v, turned, .bias = bias, .stride = 3, .padding = 1, .output_padding = 2),
        "into");
    assert_equal_bits(out, haul_squeeze(want, 2), "conv_transpose1d_into");
}

static void test_conv1d__is_that_of_one_row(void **state)
{
    (void)state;
    on_devices(one_row);
}

static void test_conv1d__errors(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *x = haul_ones(HAUL_F32, HAUL_SHAPE(2, 4, 8)), *w = haul_ones(HAUL_F32, HAUL_SHAPE(6, 4, 3));
    haul_tensor *turned = haul_transpose(w, 0, 1);
    assert_refused(haul_conv1d(haul_flatten(x, 1), w), HAUL_SHAPE, "[N, C, L]");
    assert_refused(haul_conv1d(x, haul_flatten(w, 1)), HAUL_SHAPE, "[C_out, C_in / groups, K]");
    assert_refused(haul_conv1d(x, w, .groups = 2), HAUL_SHAPE, "2 group(s)");
    assert_refused(haul_conv1d(x, w, .bias = haul_ones(HAUL_F32, HAUL_SHAPE(4))), HAUL_SHAPE, "haul_conv1d: bias");
    assert_refused(haul_conv1d(x, w, .stride = HAUL_ZERO), HAUL_INVALID_ARGUMENT, "stride is 0");
    assert_refused(haul_conv1d(x, w, .padding = -1), HAUL_INVALID_ARGUMENT, "padding is -1");
    assert_refused(haul_conv1d(x, w, .dilation = INT64_MAX), HAUL_INVALID_ARGUMENT, "2^31 - 1");
    assert_refused(haul_conv1d(x, w, .dilation = 5), HAUL_SHAPE, "the weight spans 11 columns");
    assert_refused(haul_conv_transpose1d(x, w), HAUL_SHAPE, "[C_in, C_out / groups, K]");
    assert_refused(haul_conv_transpose1d(x, turned, .groups = 3), HAUL_SHAPE, "3 group(s)");
    assert_refused(haul_conv_transpose1d(x, turned, .output_padding = 1), HAUL_INVALID_ARGUMENT, "the stride");
    assert_refused(haul_conv1d_with(x, NULL), HAUL_INVALID_ARGUMENT, "options");
    assert_refused(haul_conv_transpose1d_with(x, NULL), HAUL_INVALID_ARGUMENT, "options");
    haul_scope_pop(scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conv_transpose2d__forward_and_gradients_by_definition),
        cmocka_unit_test(test_conv_transpose2d__empty_batch),
        cmocka_unit_test(test_conv_transpose2d__threads_do_not_change_bits),
        cmocka_unit_test(test_conv_transpose2d__into_given_tensors),
        cmocka_unit_test(test_conv_transpose2d__errors),
        cmocka_unit_test(test_conv1d__is_that_of_one_row),
        cmocka_unit_test(test_conv1d__errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
