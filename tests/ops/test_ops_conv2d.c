/* Convolutions and their gradients against plain loops in double, over strides, paddings, dilations and groups.
 *
 * ctest: cuda; labels=threads; cuda-labels=none; ptx */
#include "support/failure.h"
#include "support/linalg.h"

typedef struct settings {
    int64_t n, c_in, h, w, c_out, kh, kw, stride[2], padding[2], dilation[2], groups;
} settings;

static const settings all[] = {
    {2, 3, 8, 9, 4, 3, 3, {1, 1}, {0, 0}, {1, 1}, 1},
    {9, 3, 12, 12, 6, 5, 5, {1, 1}, {0, 0}, {1, 1}, 1},
    {2, 2, 7, 6, 3, 2, 3, {2, 1}, {0, 2}, {1, 1}, 1},
    {1, 4, 9, 7, 6, 3, 3, {2, 3}, {1, 1}, {1, 1}, 2},
    {2, 2, 9, 9, 3, 3, 3, {1, 1}, {2, 2}, {2, 2}, 1},
    {2, 4, 6, 6, 4, 3, 3, {1, 1}, {1, 1}, {1, 1}, 4},
    {2, 3, 5, 5, 2, 1, 1, {1, 1}, {0, 0}, {1, 1}, 1},
    {1, 2, 3, 3, 2, 3, 3, {1, 1}, {0, 0}, {1, 1}, 1},
    {2, 2, 2, 2, 2, 1, 1, {3, 3}, {4, 4}, {1, 1}, 2},
    {1, 2, 10, 11, 2, 3, 2, {3, 2}, {1, 0}, {2, 3}, 1},
    {17, 1, 6, 40, 7, 3, 3, {1, 1}, {1, 1}, {1, 1}, 1},
    {2, 40, 6, 6, 35, 3, 3, {1, 1}, {1, 1}, {1, 1}, 1},
    {9, 33, 6, 5, 40, 3, 3, {1, 1}, {1, 1}, {1, 1}, 1},
    {3, 64, 6, 5, 96, 3, 3, {2, 2}, {1, 0}, {1, 2}, 2},
    {1, 300, 3, 3, 7, 1, 1, {1, 1}, {0, 0}, {1, 1}, 1},
    {2, 6, 7, 7, 6, 3, 3, {2, 2}, {1, 1}, {1, 1}, 3},
    {2, 5, 13, 20, 5, 3, 3, {1, 1}, {1, 1}, {1, 1}, 5},
    {1, 3, 17, 35, 3, 5, 5, {2, 2}, {2, 2}, {1, 1}, 3},
    {2, 3, 9, 19, 3, 4, 7, {1, 2}, {0, 3}, {2, 1}, 3},
    /* Rows that fill vectors, and channels that do: on the CPU pixels are the columns or the rows of a product. */
    {17, 3, 6, 32, 29, 3, 3, {1, 1}, {1, 1}, {1, 1}, 1},
    {8, 4, 9, 66, 12, 3, 2, {2, 1}, {0, 1}, {1, 4}, 2},
    {16, 12, 5, 32, 15, 5, 5, {2, 1}, {2, 2}, {1, 1}, 1},
    {16, 3, 6, 16, 13, 3, 3, {1, 1}, {0, 0}, {1, 1}, 1},
    {8, 6, 9, 20, 32, 3, 3, {2, 3}, {1, 2}, {1, 1}, 2},
    {17, 11, 7, 9, 50, 5, 5, {1, 1}, {1, 1}, {1, 1}, 1},
    {16, 30, 5, 18, 16, 3, 3, {1, 2}, {1, 1}, {1, 1}, 1},
    {20, 2, 20, 31, 24, 2, 6, {1, 1}, {0, 0}, {2, 1}, 1},
    /* Strides that are products of panels: all channels, groups, rows without a stride, and steps too large for them.
     */
    {3, 33, 9, 9, 100, 3, 3, {2, 2}, {1, 1}, {1, 1}, 1},
    {2, 48, 7, 8, 40, 1, 1, {2, 2}, {0, 0}, {1, 1}, 1},
    {3, 36, 11, 9, 52, 3, 2, {1, 2}, {1, 1}, {2, 1}, 2},
    {1, 24, 15, 16, 24, 4, 3, {3, 3}, {0, 2}, {1, 2}, 1},
    {1, 16, 20, 21, 100, 3, 3, {9, 2}, {1, 1}, {1, 1}, 1},
    /* 1x1 weights for many pixels: products of matrices, also of many channels. */
    {3, 40, 10, 11, 37, 1, 1, {1, 1}, {0, 0}, {1, 1}, 1},
    {2, 12, 12, 9, 18, 1, 1, {1, 1}, {0, 0}, {1, 1}, 3},
    {1, 1, 10, 10, 1, 1, 1, {1, 1}, {0, 0}, {2, 2}, 1},
    {2, 523, 11, 10, 33, 1, 1, {1, 1}, {0, 0}, {1, 1}, 1},
    {1, 48, 17, 16, 270, 1, 1, {1, 1}, {0, 0}, {1, 1}, 1},
    {1, 20, 16, 20, 600, 1, 1, {1, 1}, {0, 0}, {1, 1}, 1},
    /* Long sums for more pixels than some tiles have, whose weights devices copy; several pieces of the weight's
     * gradient; images with one row; phases without taps, with more padding than taps, and too many of them. */
    {6, 60, 8, 8, 58, 3, 3, {1, 1}, {1, 1}, {1, 1}, 1},
    {5, 116, 9, 12, 118, 3, 3, {2, 1}, {1, 1}, {1, 1}, 2},
    {40, 2, 9, 8, 7, 3, 2, {2, 2}, {1, 1}, {1, 1}, 1},
    {1, 3, 1, 13, 5, 1, 1, {1, 1}, {0, 0}, {1, 1}, 1},
    {2, 3, 9, 11, 4, 2, 1, {3, 4}, {0, 1}, {1, 1}, 1},
    {2, 3, 6, 5, 4, 2, 3, {2, 3}, {4, 5}, {1, 1}, 1},
    {2, 3, 13, 11, 4, 3, 4, {5, 4}, {1, 2}, {1, 1}, 1},
    /* More zeros on each side than the taps reach. */
    {2, 3, 5, 6, 4, 1, 1, {1, 1}, {1, 1}, {1, 1}, 1},
    {2, 3, 5, 6, 4, 2, 2, {1, 1}, {2, 2}, {1, 1}, 1},
    {3, 4, 6, 5, 6, 3, 2, {1, 1}, {3, 0}, {1, 1}, 2},
    {2, 3, 5, 6, 4, 2, 3, {1, 1}, {3, 5}, {1, 2}, 1},
};

static haul_tensor *convolve(haul_tensor *x, haul_tensor *w, haul_tensor *bias, const settings *s)
{
    return haul_conv2d(x, w, .bias = bias, .stride = PAIR(s->stride), .padding = PAIR(s->padding),
                       .dilation = PAIR(s->dilation), .groups = s->groups);
}

static int64_t output_size(const settings *s, int axis)
{
    int64_t size = axis ? s->w : s->h, taps = axis ? s->kw : s->kh;
    return (size + 2 * s->padding[axis] - s->dilation[axis] * (taps - 1) - 1) / s->stride[axis] + 1;
}

/* y, and the gradients that come from dy, by the definition. */
typedef struct reference {
    double *x, *w, *bias, *dy, *y, *dx, *dw, *dbias;
} reference;

static void compute_element(const settings *s, reference *r, int64_t n, int64_t o, int64_t oy, int64_t ox, int64_t at)
{
    int64_t channels = s->c_in / s->groups, group = o / (s->c_out / s->groups);
    double  sum = r->bias[o], g = r->dy[at];
    for (int64_t c = 0; c < channels; c++)
        for (int64_t y = 0; y < s->kh; y++)
            for (int64_t x = 0; x < s->kw; x++) {
                int64_t row = oy * s->stride[0] + y * s->dilation[0] - s->padding[0];
                int64_t column = ox * s->stride[1] + x * s->dilation[1] - s->padding[1];
                if (row < 0 || row >= s->h || column < 0 || column >= s->w)
                    continue;
                int64_t in = ((n * s->c_in + group * channels + c) * s->h + row) * s->w + column;
                int64_t tap = ((o * channels + c) * s->kh + y) * s->kw + x;
                sum += r->x[in] * r->w[tap];
                r->dx[in] += g * r->w[tap];
                r->dw[tap] += g * r->x[in];
            }
    r->y[at] = sum;
    r->dbias[o] += g;
}

static double *zeros(int64_t count)
{
    double *p = calloc((size_t)count, sizeof *p);
    assert_non_null(p);
    return p;
}

static void compare(haul_device *device, haul_dtype dtype, const settings *s, int index)
{
    haul_scope  *scope = haul_scope_push();
    int64_t      oh = output_size(s, 0), ow = output_size(s, 1), channels = s->c_in / s->groups;
    int64_t      nx = s->n * s->c_in * s->h * s->w, nw = s->c_out * channels * s->kh * s->kw;
    int64_t      ny = s->n * s->c_out * oh * ow;
    reference    r = {.y = zeros(ny), .dx = zeros(nx), .dw = zeros(nw), .dbias = zeros(s->c_out)};
    haul_tensor *x = sample_tensor(device, dtype, HAUL_SHAPE(s->n, s->c_in, s->h, s->w), 1, &r.x);
    haul_tensor *w = sample_tensor(device, dtype, HAUL_SHAPE(s->c_out, channels, s->kh, s->kw), 2, &r.w);
    haul_tensor *bias = sample_tensor(device, dtype, HAUL_SHAPE(s->c_out), 3, &r.bias);
    haul_tensor *dy = sample_tensor(device, dtype, HAUL_SHAPE(s->n, s->c_out, oh, ow), 4, &r.dy);
    for (int64_t i = 0; i < ny; i++)
        compute_element(s, &r, i / (s->c_out * oh * ow), i / (oh * ow) % s->c_out, i / ow % oh, i % ow, i);

    /* haul_to gives tensors with a history only under grad mode: these are leaves. */
    haul_tensor *in[] = {haul_set_requires_grad(haul_detach(x), true), haul_set_requires_grad(haul_detach(w), true),
                         haul_set_requires_grad(haul_detach(bias), true)};
    haul_tensor *g[3], *y = convolve(in[0], in[1], in[2], s);
    char         what[80];
    double       unit = dtype == HAUL_F32 ? 2e-6 : 1e-14;
    snprintf(what, sizeof what, "settings %d, %s on %s", index, haul_dtype_name(dtype), haul_device_name(device));
    assert_close(y, r.y, ny, unit * (double)(channels * s->kh * s->kw + 1), what);
    assert_int_equal(haul_grad(y, in, 3, g, .seed = dy), HAUL_OK);
    for (int64_t i = 0; i < ny; i++)
        r.y[i] -= r.bias[i / (oh * ow) % s->c_out];
    assert_close(convolve(x, w, HAUL_NONE, s), r.y, ny, unit * (double)(channels * s->kh * s->kw + 2), what);
    assert_close(g[0], r.dx, nx, unit * (double)(s->c_out / s->groups * s->kh * s->kw + 1), what);
    assert_close(g[1], r.dw, nw, unit * (double)(s->n * oh * ow + 1), what);
    assert_close(g[2], r.dbias, s->c_out, unit * (double)(s->n * oh * ow + 1), what);
    double *memory[] = {r.x, r.w, r.bias, r.dy, r.y, r.dx, r.dw, r.dbias};
    for (int i = 0; i < 8; i++)
        free(memory[i]);
    haul_scope_pop(scope);
}

/* ThreadSanitizer runs every third one, which leaves some of each kind. */
static int next_setting(void)
{
    const char *sanitizers = getenv("HAUL_SANITIZE");
    return sanitizers && strstr(sanitizers, "thread") ? 3 : 1;
}

static void compare_all(haul_device *device)
{
    for (int i = 0; i < (int)(sizeof all / sizeof all[0]); i += next_setting()) {
        compare(device, HAUL_F32, &all[i], i);
        compare(device, HAUL_F64, &all[i], i);
    }
}

static void test_conv2d__forward_and_gradients_by_definition(void **state)
{
    (void)state;
    on_devices(compare_all);
}

/* A function of the three first gradients: differences of it check the second ones. */
static haul_tensor *gradients_of(haul_tensor *const *in, int count, void *context)
{
    haul_tensor *g[3], *sum = NULL, *y = haul_sum(haul_square(convolve(in[0], in[1], in[2], context)));
    if (haul_grad(y, in, count, g, .create_graph = true))
        return NULL;
    for (int i = 0; i < count; i++) {
        haul_tensor *term = haul_sum(haul_square(g[i]));
        sum = sum ? haul_add(sum, term) : term;
    }
    return haul_mul_scalar(sum, 1e-3);
}

static void check_second(haul_device *device)
{
    static const settings some[] = {
        {2, 2, 4, 5, 2, 2, 3, {1, 1}, {1, 1}, {1, 1}, 1},
        {1, 2, 6, 5, 4, 3, 2, {2, 2}, {1, 0}, {1, 2}, 2},
    };
    for (int i = 0; i < 2; i++) {
        const settings *s = &some[i];
        haul_tensor    *in[] = {
               sample_tensor(device, HAUL_F64, HAUL_SHAPE(s->n, s->c_in, s->h, s->w), 1, NULL),
               sample_tensor(device, HAUL_F64, HAUL_SHAPE(s->c_out, s->c_in / s->groups, s->kh, s->kw), 2, NULL),
               sample_tensor(device, HAUL_F64, HAUL_SHAPE(s->c_out), 3, NULL),
        };
        if (haul_grad_check(gradients_of, in, 3, (void *)(uintptr_t)s, .tolerance = {1e-4, 1e-3}))
            fail_msg("settings %d on %s: %s", i, haul_device_name(device), haul_error_message());
    }
}

static void test_conv2d__second_gradients(void **state)
{
    (void)state;
    on_devices(check_second);
}

static void empty_batch(haul_device *device)
{
    haul_set_device(device);
    haul_tensor *x = haul_zeros(HAUL_F32, HAUL_SHAPE(0, 2, 5, 5));
    haul_tensor *w = haul_set_requires_grad(haul_ones(HAUL_F32, HAUL_SHAPE(3, 2, 3, 3)), true);
    double       none[54] = {0};
    for (int stride = 1; stride < 3; stride++) {
        haul_tensor *y = haul_conv2d(x, w, .stride = {stride, stride});
        assert_int_equal(haul_tensor_dim(y, 0), 0);
        assert_int_equal(haul_tensor_dim(y, 3), 4 - stride);
        assert_int_equal(haul_backward(haul_sum(y)), HAUL_OK);
        assert_close(haul_tensor_grad(w), none, 54, 0, "the gradient of an empty batch");
    }
}

static void test_conv2d__empty_batch(void **state)
{
    (void)state;
    on_devices(empty_batch);
}

static void strided_views(haul_device *device)
{
    haul_tensor *x = sample_tensor(device, HAUL_F32, HAUL_SHAPE(2, 6, 5, 3), 1, NULL);
    haul_tensor *w = sample_tensor(device, HAUL_F32, HAUL_SHAPE(4, 3, 2, 2), 2, NULL);
    haul_tensor *view = haul_permute(x, (const int[]){0, 3, 1, 2}, 4);
    double       want[2 * 4 * 5 * 4];
    assert_int_equal(read_values(haul_conv2d(haul_contiguous(view), w), want, 160), HAUL_OK);
    assert_close(haul_conv2d(view, w), want, 160, layout_error(device), "a channels-last view");
    /* an element offset */
    haul_tensor *tail = haul_slice(haul_contiguous(view), 0, 1, 2, 1);
    assert_close(haul_conv2d(tail, w), want + 80, 80, layout_error(device), "a slice");
}

static void test_conv2d__views(void **state)
{
    (void)state;
    on_devices(strided_views);
}

/* A result or gradient of a convolution with few or many channels: they are computed in different ways. */
typedef struct wanted {
    int     which; /* 0: dx, 1: dw, 2: y */
    int64_t c_in, c_out, stride;
} wanted;

static haul_tensor *compute(void *context)
{
    const wanted *o = context;
    haul_tensor  *in[] = {sample_tensor(haul_cpu(), HAUL_F32, HAUL_SHAPE(37, o->c_in, 20, 20), 1, NULL),
                          sample_tensor(haul_cpu(), HAUL_F32, HAUL_SHAPE(o->c_out, o->c_in, 5, 5), 2, NULL)};
    haul_tensor  *g[2];
    for (int i = 0; i < 2; i++)
        in[i] = haul_set_requires_grad(haul_detach(in[i]), true);
    haul_tensor *y = haul_conv2d(in[0], in[1], .stride = {o->stride, o->stride});
    int64_t      size = 15 / o->stride + 1;
    haul_tensor *seed = sample_tensor(haul_cpu(), HAUL_F32, HAUL_SHAPE(37, o->c_out, size, size), 3, NULL);
    if (haul_grad(y, in, 2, g, .seed = seed))
        return NULL;
    return o->which == 2 ? haul_detach(y) : g[o->which];
}

static void test_conv2d__threads_do_not_change_bits(void **state)
{
    (void)state;
    for (int which = 0; which < 3; which++) {
        for (int stride = 1; stride < 4; stride++) {
            assert_same_for_threads(compute, &(wanted){which, 3, 6, stride});
            assert_same_for_threads(compute, &(wanted){which, 6, 16, stride});
            assert_same_for_threads(compute, &(wanted){which, 32, 48, stride});
        }
        assert_same_for_threads(compute, &(wanted){which, 64, 128, 2});
    }
}

/* Convolutions of many images are cut in another way than those of few, and add up in the same order. */
static void test_conv2d__the_batch_does_not_change_bits(void **state)
{
    /* width, channels of the result, stride */
    static const int64_t sizes[][3] = {{36, 16, 1}, {18, 16, 1}, {36, 48, 1}, {18, 50, 1},
                                       {36, 16, 2}, {18, 16, 3}, {36, 48, 2}, {36, 100, 2}};
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        haul_scope  *scope = haul_scope_push();
        int64_t      w = sizes[i][0], out = sizes[i][1], stride = sizes[i][2];
        int64_t      count = out * (3 / stride + 1) * ((w - 5) / stride + 1);
        haul_tensor *x = sample_tensor(haul_cpu(), HAUL_F32, HAUL_SHAPE(16, 12, 8, w), 1, NULL);
        haul_tensor *weight = sample_tensor(haul_cpu(), HAUL_F32, HAUL_SHAPE(out, 12, 5, 5), 2, NULL);
        haul_tensor *bias = sample_tensor(haul_cpu(), HAUL_F32, HAUL_SHAPE(out), 3, NULL);
        double      *want = zeros(count);
        haul_tensor *one = haul_conv2d(haul_slice(x, 0, 9, 10, 1), weight, .bias = bias, .stride = {stride, stride});
        haul_tensor *y = haul_conv2d(x, weight, .bias = bias, .stride = {stride, stride});
        assert_int_equal(read_values(one, want, count), HAUL_OK);
        assert_close(haul_slice(y, 0, 9, 10, 1), want, count, 0, "one of 16 images");
        free(want);
        haul_scope_pop(scope);
    }
}

static haul_tensor *convolve_into(haul_tensor *out, haul_tensor *x, haul_tensor *w, haul_tensor *bias)
{
    assert_int_equal(haul_conv2d_into(out, x, w, .bias = bias, .padding = {1, 1}, .relu = true), HAUL_OK);
    return out;
}

static void into_given(haul_device *device)
{
    haul_tensor *x = sample_tensor(device, HAUL_F32, HAUL_SHAPE(2, 3, 5, 4), 1, NULL);
    haul_tensor *w = sample_tensor(device, HAUL_F32, HAUL_SHAPE(3, 3, 3, 3), 2, NULL);
    haul_tensor *bias = sample_tensor(device, HAUL_F32, HAUL_SHAPE(3), 3, NULL);
    double       want[120];
    haul_set_device(device);
    haul_tensor *y = haul_conv2d(x, w, .bias = bias, .padding = {1, 1}, .relu = true);
    haul_tensor *out = haul_zeros(HAUL_F32, HAUL_SHAPE(2, 3, 5, 4)), *last;
    last = haul_to_memory_format(haul_zeros(HAUL_F32, HAUL_SHAPE(2, 3, 5, 4)), HAUL_CHANNELS_LAST);
    assert_int_equal(read_values(y, want, 120), HAUL_OK);
    assert_close(convolve_into(out, x, w, bias), want, 120, 0, "conv2d_into");
    assert_close(convolve_into(last, x, w, bias), want, 120, 0, "conv2d_into, channels-last");
    assert_int_equal(haul_conv2d_into(out, x, w, .bias = bias), HAUL_SHAPE);
    haul_error_clear();
    assert_int_equal(haul_conv2d_into_with(out, x, NULL), HAUL_INVALID_ARGUMENT);
    haul_error_clear();
    assert_close(convolve_into(x, x, w, bias), want, 120, 0, "conv2d_into an operand");
}

static void test_conv2d__into_given_tensors(void **state)
{
    (void)state;
    on_devices(into_given);
}

/* The node of a convolution saves its result for relu only, and its gradients are nodes of two operations, which cost
 * the same. */
static void test_conv2d__nodes_and_costs(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *x = haul_set_requires_grad(haul_ones(HAUL_F32, HAUL_SHAPE(2, 4, 8, 8)), true);
    haul_tensor *w = haul_set_requires_grad(haul_ones(HAUL_F32, HAUL_SHAPE(6, 2, 3, 3)), true);
    haul_tensor *in[] = {x, w, HAUL_NONE}, *g[2];
    haul_tensor *y = haul_conv2d(x, w, .groups = 2);
    double       flops = 2.0 * (2 * 6 * 6 * 6) * 2 * 3 * 3;
    haul__cost   cost = cost_of(y, in, 3);
    assert_string_equal(y->node->operation->name, "haul_conv2d");
    assert_false(y->node->saves_results & 1);
    assert_true(haul_conv2d(x, w, .groups = 2, .relu = true)->node->saves_results & 1);
    assert_true(cost.flops == flops);
    assert_int_equal(cost.bytes, 4 * (2 * 4 * 8 * 8 + 6 * 2 * 3 * 3 + 2 * 6 * 6 * 6));
    assert_int_equal(haul_grad(haul_sum(haul_square(y)), in, 2, g, .create_graph = true), HAUL_OK);
    assert_string_equal(g[0]->node->operation->name, "haul_conv2d_backward_data");
    assert_string_equal(g[1]->node->operation->name, "haul_conv2d_backward_weight");
    assert_true(cost_of(g[0], (haul_tensor *[]){y, w}, 2).flops == flops);
    assert_true(cost_of(g[1], (haul_tensor *[]){x, y}, 2).flops == flops);
    haul_scope_pop(scope);
}

static void test_conv2d__errors(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *x = haul_ones(HAUL_F32, HAUL_SHAPE(2, 3, 8, 8)), *w = haul_ones(HAUL_F32, HAUL_SHAPE(4, 3, 3, 3));
    haul_tensor *ints = haul_ones(HAUL_I32, HAUL_SHAPE(2, 3, 8, 8));
    assert_refused(haul_conv2d(haul_flatten(x, 1), w), HAUL_SHAPE, "[N, C, H, W]");
    assert_refused(haul_conv2d(x, haul_flatten(w, 1)), HAUL_SHAPE, "[C_out, C_in / groups, KH, KW]");
    assert_refused(haul_conv2d(x, w, .bias = haul_ones(HAUL_F32, HAUL_SHAPE(3))), HAUL_SHAPE, "bias must be [4]");
    assert_refused(haul_conv2d(x, w, .groups = 2), HAUL_SHAPE, "2 group(s)");
    assert_refused(haul_conv2d(x, w, .stride = {-1, 1}), HAUL_INVALID_ARGUMENT, "stride is {-1, 1}; both must");
    assert_refused(haul_conv2d(x, w, .padding = {1, -1}), HAUL_INVALID_ARGUMENT, "padding is {1, -1}; both must");
    assert_refused(haul_conv2d(x, w, .dilation = {4, 4}), HAUL_SHAPE, "the weight spans 9 rows");
    assert_refused(haul_conv2d(x, w, .padding = {INT64_MAX, HAUL_ZERO}), HAUL_INVALID_ARGUMENT, "too large");
    assert_refused(haul_conv2d(x, w, .stride = {INT64_MAX, 1}), HAUL_INVALID_ARGUMENT, "too large");
    assert_refused(haul_conv2d(ints, haul_ones(HAUL_I32, HAUL_SHAPE(4, 3, 3, 3))), HAUL_DTYPE, "haul_cast");
    assert_refused(haul_conv2d(haul_ones(HAUL_F32, HAUL_SHAPE(2, 3, 0, 8)), w), HAUL_SHAPE, "only its batch");
    haul_scope_pop(scope);
}

static void test_conv2d__same_refuses_strides_and_padding(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *x = haul_ones(HAUL_F32, HAUL_SHAPE(2, 3, 8, 8)), *w = haul_ones(HAUL_F32, HAUL_SHAPE(3, 3, 2, 2)),
                *out;
    assert_refused(haul_conv2d(x, w, .same = true, .stride = {2, 1}), HAUL_INVALID_ARGUMENT, "stride must be 1");
    assert_refused(haul_conv2d(x, w, .same = true, .padding = {1, 1}), HAUL_INVALID_ARGUMENT, "padding must not");
    assert_refused(haul_conv2d(haul_flatten(x, 2), w, .same = true), HAUL_SHAPE, "[N, C, H, W]");
    assert_refused(haul_conv2d(x, w, .same = true, .dilation = {INT32_MAX, INT32_MAX}), HAUL_INVALID_ARGUMENT, "");
    assert_refused(haul_conv1d(haul_flatten(x, 2), haul_flatten(w, 2), .same = true, .stride = 2),
                   HAUL_INVALID_ARGUMENT, "stride must be 1");
    out = haul_empty_like(x);
    assert_int_equal(haul_conv2d_into(out, x, w, .same = true), HAUL_OK);
    haul_scope_pop(scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conv2d__same_refuses_strides_and_padding),
        cmocka_unit_test(test_conv2d__forward_and_gradients_by_definition),
        cmocka_unit_test(test_conv2d__second_gradients),
        cmocka_unit_test(test_conv2d__empty_batch),
        cmocka_unit_test(test_conv2d__views),
        cmocka_unit_test(test_conv2d__threads_do_not_change_bits),
        cmocka_unit_test(test_conv2d__the_batch_does_not_change_bits),
        cmocka_unit_test(test_conv2d__into_given_tensors),
        cmocka_unit_test(test_conv2d__nodes_and_costs),
        cmocka_unit_test(test_conv2d__errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
