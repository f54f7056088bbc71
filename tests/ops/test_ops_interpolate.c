/* Interpolation against plain loops in double: long rows, both formats, and the gradient as the transpose.
 *
 * ctest: cuda */
#include "support/failure.h"
#include "support/into.h"
#include "support/linalg.h"

typedef struct settings {
    int64_t h, w, size[2];
    double  scale[2];
    bool    bilinear, align_corners;
} settings;

static const settings all[] = {
    {5, 70, {10, 140}, {0}, false, false}, {5, 70, {0}, {2, 2}, true, false},
    {5, 70, {3, 301}, {0}, false, false},  {5, 70, {3, 301}, {0}, true, false},
    {5, 70, {9, 201}, {0}, true, true},    {9, 200, {4, 13}, {0}, true, false},
    {9, 200, {4, 13}, {0}, true, true},    {9, 200, {4, 13}, {0}, false, false},
    {1, 1, {7, 90}, {0}, true, false},     {6, 90, {1, 1}, {0}, true, true},
    {7, 33, {0}, {1.3, 2.6}, true, false}, {7, 33, {0}, {0.7, 2.6}, false, false},
    {4, 65, {4, 65}, {0}, true, false},
};

static haul_tensor *interpolate(haul_tensor *x, const settings *s)
{
    const haul_interpolate_options o = {.x = x,
                                        .size = {s->size[0], s->size[1]},
                                        .scale = {s->scale[0], s->scale[1]},
                                        .mode = s->bilinear ? HAUL_BILINEAR : HAUL_NEAREST,
                                        .align_corners = s->align_corners};
    return haul_interpolate_with(&o);
}

static int64_t size_of(const settings *s, int axis)
{
    int64_t in = axis ? s->w : s->h;
    return s->scale[axis] > 0 ? (int64_t)floor((double)in * s->scale[axis] + 1e-9) : s->size[axis];
}

/* Where element i of an axis comes from. */
static void find(const settings *s, int axis, int64_t i, int64_t *first, int64_t *second, double *share)
{
    int64_t in = axis ? s->w : s->h, out = size_of(s, axis);
    double  ratio = s->scale[axis] > 0 ? 1 / s->scale[axis] : (double)in / (double)out, at;
    if (s->align_corners)
        at = out > 1 ? (double)i * (double)(in - 1) / (double)(out - 1) : 0;
    else
        at = s->bilinear ? ((double)i + 0.5) * ratio - 0.5 : (double)i * ratio;
    at = at < 0 ? 0 : at;
    *first = (int64_t)floor(at + 1e-9);
    *first = *first < in - 1 ? *first : in - 1;
    *second = *first < in - 1 ? *first + 1 : *first;
    *share = s->bilinear ? at - (double)*first : 0;
}

static void compare(haul_device *device, haul_dtype dtype, const settings *s, int index, bool channels_last)
{
    enum { N = 2, C = 3 };
    haul_scope  *scope = haul_scope_push();
    int64_t      oh = size_of(s, 0), ow = size_of(s, 1), nx = N * C * s->h * s->w, ny = N * C * oh * ow;
    double      *vx, *vg, *y = calloc((size_t)ny, sizeof *y), *dx = calloc((size_t)nx, sizeof *dx);
    haul_tensor *x = sample_tensor(device, dtype, HAUL_SHAPE(N, C, s->h, s->w), 1, &vx);
    haul_tensor *g = sample_tensor(device, dtype, HAUL_SHAPE(N, C, oh, ow), 2, &vg), *gradient;
    assert_true(y && dx);
    for (int64_t i = 0; i < ny; i++) {
        int64_t plane = i / (oh * ow) * s->h * s->w, r[2], c[2];
        double  low, right;
        find(s, 0, i / ow % oh, &r[0], &r[1], &low);
        find(s, 1, i % ow, &c[0], &c[1], &right);
        for (int k = 0; k < 4; k++) {
            double  weight = (k / 2 ? low : 1 - low) * (k % 2 ? right : 1 - right);
            int64_t at = plane + r[k / 2] * s->w + c[k % 2];
            y[i] += weight * vx[at];
            dx[at] += weight * vg[i];
        }
    }
    if (channels_last)
        x = haul_to_memory_format(x, HAUL_CHANNELS_LAST);
    haul_tensor *leaf = haul_set_requires_grad(haul_detach(x), true), *result = interpolate(leaf, s);
    char         what[80];
    double       unit = dtype == HAUL_F32 ? 1e-5 : 1e-13;
    snprintf(what, sizeof what, "settings %d, %s on %s%s", index, haul_dtype_name(dtype), haul_device_name(device),
             channels_last ? ", channels-last" : "");
    assert_close(result, y, ny, unit, what);
    assert_int_equal(haul_tensor_dim(result, 2), oh);
    assert_true(!channels_last || s->h * s->w == 1 || oh * ow == 1 || haul_tensor_stride(result, 1) == 1);
    assert_int_equal(haul_grad(result, &leaf, 1, &gradient, .seed = g), HAUL_OK);
    assert_close(gradient, dx, nx, unit * 100, what);
    double *memory[] = {vx, vg, y, dx};
    for (int i = 0; i < 4; i++)
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

static void test_interpolate__by_definition(void **state)
{
    (void)state;
    on_devices(compare_all);
}

/* A case of compute: the options, and whether its gradient is compared. */
typedef struct way {
    haul_interpolate_options options;
    bool                     backward;
} way;

static haul_tensor *compute(void *context)
{
    way          w = *(const way *)context;
    haul_tensor *x = sample_tensor(haul_cpu(), HAUL_F32, HAUL_SHAPE(3, 5, 37, 41), 1, NULL), *gradient;
    haul_tensor *leaf = w.options.x = haul_set_requires_grad(haul_detach(x), true);
    haul_tensor *y = haul_interpolate_with(&w.options);
    if (!w.backward)
        return haul_detach(y);
    return haul_grad(y, &leaf, 1, &gradient, .seed = haul_detach(y)) ? NULL : gradient;
}

static void test_interpolate__threads_do_not_change_bits(void **state)
{
    (void)state;
    const haul_interpolate_options all_ways[] = {
        {.scale = {2.5, 3}, .mode = HAUL_BILINEAR},
        {.scale = {2.5, 3}, .mode = HAUL_BICUBIC},
        {.size = {90, 20}, .mode = HAUL_AREA},
        {.size = {9, 20}, .mode = HAUL_BICUBIC, .antialias = true},
    };
    for (int i = 0; i < 8; i++) {
        way w = {.options = all_ways[i / 2], .backward = i % 2};
        assert_same_for_threads(compute, &w);
    }
}

/* Every mode of u8 gives the rounded result of f32, in both formats. */
static void bytes(haul_device *device)
{
    haul_set_device(device);
    haul_tensor *x = haul_to(sample_tensor(haul_cpu(), HAUL_F32, HAUL_SHAPE(2, 3, 9, 8), 1, NULL), device);
    haul_tensor *u = haul_cast(haul_clamp(haul_add_scalar(haul_mul_scalar(x, 150), 128), 0, 255), HAUL_U8);
    for (int mode = HAUL_NEAREST; mode <= HAUL_AREA; mode++)
        for (int last = 0; last < 2; last++) {
            haul_interpolate_options o = {.size = {5, 19}, .mode = (haul_interpolation)mode};
            o.x = last ? haul_to_memory_format(u, HAUL_CHANNELS_LAST) : u;
            haul_tensor *y = haul_interpolate_with(&o);
            o.x = haul_cast(o.x, HAUL_F32);
            haul_tensor *want = haul_cast(haul_clamp(haul_round(haul_interpolate_with(&o)), 0, 255), HAUL_U8);
            assert_true(haul_tensor_is_valid(y) && haul_tensor_dtype(y) == HAUL_U8);
            assert_equal_bits(y, want, "u8");
        }
}

static void test_interpolate__rounds_bytes(void **state)
{
    (void)state;
    on_devices(bytes);
}

static void layouts(haul_device *device)
{
    haul_tensor *x = sample_tensor(device, HAUL_F32, HAUL_SHAPE(2, 3, 4, 4), 1, NULL);
    haul_tensor *want = haul_interpolate(x, .size = {8, 6}, .mode = HAUL_BILINEAR);
    haul_tensor *last = haul_to_memory_format(x, HAUL_CHANNELS_LAST);
    haul_tensor *gap = haul_sub(haul_interpolate(last, .size = {8, 6}, .mode = HAUL_BILINEAR), want);
    assert_float_equal(haul_item(haul_max(haul_abs(gap))), 0, 1e-6);
    haul_tensor *none = haul_to(haul_zeros(HAUL_F32, HAUL_SHAPE(0, 3, 4, 4)), device);
    assert_int_equal(haul_tensor_dim(haul_interpolate(none, .scale = {2, 2}), 3), 8);
}

static void test_interpolate__layouts(void **state)
{
    (void)state;
    on_devices(layouts);
}

static void test_interpolate__errors(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *x = haul_ones(HAUL_F32, HAUL_SHAPE(2, 3, 4, 4));
    assert_refused(haul_interpolate(haul_flatten(x, 1), .scale = {2, 2}), HAUL_SHAPE, "[N, C, H, W]");
    assert_refused(haul_interpolate(haul_flatten(x, 2), .scale = {2, 2}), HAUL_INVALID_ARGUMENT, "number 2 of scale");
    assert_refused(haul_interpolate(x, .size = {2, 2, 2}), HAUL_INVALID_ARGUMENT, "number 3 of size");
    assert_refused(haul_interpolate(x, .size = {2, 2}, .antialias = true), HAUL_INVALID_ARGUMENT, "antialias needs");
    assert_refused(haul_interpolate(x, .size = {2, 2}, .mode = HAUL_AREA, .align_corners = true), HAUL_INVALID_ARGUMENT,
                   "align_corners needs");
    assert_refused(haul_interpolate(x), HAUL_INVALID_ARGUMENT, "neither size nor scale");
    assert_refused(haul_interpolate(x, .scale = {2, 2}, .size = {8, 8}), HAUL_INVALID_ARGUMENT, "both given");
    assert_refused(haul_interpolate(x, .size = {8, 0}), HAUL_INVALID_ARGUMENT, "size is {8, 0, 0}");
    assert_refused(haul_interpolate(x, .size = {-8, 8}), HAUL_INVALID_ARGUMENT, "size is {-8, 8, 0}");
    assert_refused(haul_interpolate(x, .scale = {2, -1}), HAUL_INVALID_ARGUMENT, "scale is {2, -1, 0}");
    assert_refused(haul_interpolate(x, .scale = {2, 0.1}), HAUL_INVALID_ARGUMENT, "scale is {2, 0.1, 0}");
    assert_refused(haul_interpolate(x, .scale = {2, NAN}), HAUL_INVALID_ARGUMENT, "scale is {2, nan, 0}");
    assert_refused(haul_interpolate(x, .scale = {2, 1e300}), HAUL_INVALID_ARGUMENT, "scale is {2, 1e+300, 0}");
    assert_refused(haul_interpolate(x, .scale = {2, 2}, .align_corners = true), HAUL_INVALID_ARGUMENT, "HAUL_BILINEAR");
    assert_refused(haul_interpolate(x, .scale = {2, 2}, .mode = (haul_interpolation)7), HAUL_INVALID_ARGUMENT,
                   "mode is 7");
    assert_refused(haul_interpolate(haul_cast(x, HAUL_I32), .scale = {2, 2}), HAUL_DTYPE, "i32");
    assert_refused(haul_interpolate(haul_ones(HAUL_F32, HAUL_SHAPE(2, 3, 0, 4)), .size = {2, 2}), HAUL_SHAPE, "plane");
    assert_refused(haul_interpolate_with(NULL), HAUL_INVALID_ARGUMENT, "options");
    haul_scope_pop(scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_interpolate__by_definition),
        cmocka_unit_test(test_interpolate__threads_do_not_change_bits),
        cmocka_unit_test(test_interpolate__rounds_bytes),
        cmocka_unit_test(test_interpolate__layouts),
        cmocka_unit_test(test_interpolate__errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
