/* Pictures of u8: torchvision's results (golden/pictures.json, made by tools/golden/pictures.py) on every device,
 * batches, filters by definition, and errors. Floats and gradients are samples of conformance.
 *
 * ctest: cuda */
#include <cjson/cJSON.h>
#include <math.h>

#include "support/conformance/golden.h"
#include "support/failure.h"
#include "support/into.h"
#include "support/linalg.h"

enum { CHANNELS = 3, ROWS = 20, COLUMNS = 26, MOST = 4 * CHANNELS * ROWS * COLUMNS };

static cJSON *golden;

static int load_golden(void **state)
{
    (void)state;
    golden = read_golden_json("pictures.json");
    return !golden;
}

static int free_golden(void **state)
{
    (void)state;
    cJSON_Delete(golden);
    return 0;
}

static haul_tensor *picture(void)
{
    uint8_t  values[CHANNELS * ROWS * COLUMNS], *v = values;
    uint32_t noise = 1;
    for (int c = 0; c < CHANNELS; c++)
        for (int y = 0; y < ROWS; y++)
            for (int x = 0; x < COLUMNS; x++) {
                noise = noise * 1664525u + 1013904223u;
                *v++ = (uint8_t)(20u + 4 * (unsigned)x + (2 + (unsigned)c) * (unsigned)y + (noise >> 16) % 32);
            }
    return haul_from_host(HAUL_U8, HAUL_SHAPE(CHANNELS, ROWS, COLUMNS), values);
}

/* ---- torchvision's results ---- */

static haul_tensor *rotate(haul_tensor *x)
{
    return haul_rotate(x, 33);
}

static haul_tensor *rotate_linear(haul_tensor *x)
{
    return haul_rotate(x, -12.5, .mode = HAUL_BILINEAR, .expand = true, .fill = 200);
}

static haul_tensor *rotate_quarter(haul_tensor *x)
{
    return haul_rotate(x, 90, .expand = true);
}

static haul_tensor *affine(haul_tensor *x)
{
    return haul_warp_affine(x, .degrees = 20, .translate = {1.5, -1}, .scale = 1.3, .shear = {10, -20},
                            .mode = HAUL_BILINEAR);
}

static haul_tensor *perspective(haul_tensor *x)
{
    return haul_warp_perspective(x, .from = {0, 0, 25, 0, 25, 19, 0, 19}, .to = {2, 1, 23, 0, 24, 19, 1, 15},
                                 .mode = HAUL_BILINEAR);
}

static haul_tensor *brightness(haul_tensor *x)
{
    return haul_adjust_brightness(x, 1.4);
}

static haul_tensor *contrast(haul_tensor *x)
{
    return haul_adjust_contrast(x, 0.6);
}

static haul_tensor *saturation(haul_tensor *x)
{
    return haul_adjust_saturation(x, 1.8);
}

static haul_tensor *hue(haul_tensor *x)
{
    return haul_adjust_hue(x, 0.3);
}

static haul_tensor *sharpness(haul_tensor *x)
{
    return haul_adjust_sharpness(x, 2.5);
}

static haul_tensor *solarize(haul_tensor *x)
{
    return haul_solarize(x, 100);
}

static haul_tensor *posterize(haul_tensor *x)
{
    return haul_posterize(x, 3);
}

static haul_tensor *gaussian_blur(haul_tensor *x)
{
    return haul_gaussian_blur(x, 5, 1.5);
}

/* `apart`: by how much an element may differ, where a sum or a position is between two values. */
static const struct {
    const char *name;
    haul_tensor *(*run)(haul_tensor *x);
    int apart;
} cases[] = {
    {"rotate", rotate, 0},
    {"rotate_linear", rotate_linear, 1},
    {"rotate_quarter", rotate_quarter, 0},
    {"affine", affine, 1},
    {"perspective", perspective, 1},
    {"grayscale", haul_rgb_to_grayscale, 0},
    {"brightness", brightness, 0},
    {"contrast", contrast, 0},
    {"saturation", saturation, 1},
    {"hue", hue, 1},
    {"sharpness", sharpness, 1},
    {"invert", haul_invert, 0},
    {"solarize", solarize, 0},
    {"posterize", posterize, 0},
    {"autocontrast", haul_autocontrast, 0},
    {"equalize", haul_equalize, 0},
    {"gaussian_blur", gaussian_blur, 1},
};

static void compare(haul_device *device, int i)
{
    static uint8_t got[MOST];
    const char    *what = cases[i].name;
    const cJSON   *want = cJSON_GetObjectItem(golden, what), *shape = cJSON_GetObjectItem(want, "shape");
    const char    *hex = cJSON_GetStringValue(cJSON_GetObjectItem(want, "y"));
    haul_scope    *scope = haul_scope_push();
    haul_tensor   *y = cases[i].run(haul_to(picture(), device));
    assert_non_null(hex);
    if (!haul_tensor_is_valid(y))
        fail_msg("%s on %s: %s", what, haul_device_name(device), haul_error_message());
    const int64_t count = haul_tensor_count(y);
    assert_int_equal(haul_tensor_dtype(y), HAUL_U8);
    for (int d = 0; d < 3; d++)
        assert_int_equal(haul_tensor_dim(y, d), cJSON_GetArrayItem(shape, d)->valueint);
    assert_true(count <= MOST && strlen(hex) == 2 * (size_t)count);
    assert_succeeded(haul_read(y, got, (size_t)count), what);
    for (int64_t k = 0; k < count; k++) {
        unsigned value = 0;
        assert_int_equal(sscanf(hex + 2 * k, "%2x", &value), 1);
        if (abs((int)value - got[k]) > cases[i].apart)
            fail_msg("%s on %s: element %d is %d, not %u", what, haul_device_name(device), (int)k, got[k], value);
    }
    haul_scope_pop(scope);
}

static void compare_all(haul_device *device)
{
    for (int i = 0; i < (int)(sizeof cases / sizeof cases[0]); i++)
        compare(device, i);
}

static void test_pictures__are_torchvisions(void **state)
{
    (void)state;
    on_devices(compare_all);
}

/* ---- batches and devices ---- */

/* Each picture of a batch becomes what it becomes alone, and the device of the thread does not matter. */
static void batch(haul_device *device)
{
    haul_tensor *x = picture(), *other = haul_flip(x, HAUL_AXES(0, 2)), *both[] = {x, other};
    haul_tensor *xs = haul_to(haul_reshape(haul_stack(both, 2, 0), HAUL_SHAPE(2, 1, CHANNELS, ROWS, COLUMNS)), device);
    haul_set_device(haul_cpu());
    for (int i = 0; i < (int)(sizeof cases / sizeof cases[0]); i++) {
        haul_tensor *ys = cases[i].run(xs);
        assert_true(haul_tensor_device(ys) == device);
        haul_tensor *second = haul_select(haul_select(ys, 0, 1), 0, 0);
        assert_equal_bits(second, cases[i].run(haul_to(other, device)), cases[i].name);
    }
}

static void test_pictures__batches_are_pictures(void **state)
{
    (void)state;
    on_devices(batch);
}

/* ---- filters by definition ---- */

static int by_value(const void *a, const void *b)
{
    return *(const uint8_t *)a - *(const uint8_t *)b;
}

static void filters(haul_device *device)
{
    static uint8_t in[CHANNELS][ROWS][COLUMNS], median[sizeof in], least[sizeof in], most[sizeof in];
    haul_tensor   *x = picture();
    assert_succeeded(haul_read(x, in, sizeof in), "the picture");
    x = haul_to(x, device);
    assert_succeeded(haul_read(haul_median_blur(x, 5), median, sizeof in), "haul_median_blur");
    assert_succeeded(haul_read(haul_erode(x, 5), least, sizeof in), "haul_erode");
    assert_succeeded(haul_read(haul_dilate(x, 5), most, sizeof in), "haul_dilate");
    for (int i = 0; i < (int)sizeof in; i++) {
        uint8_t   window[25];
        const int c = i / ROWS / COLUMNS, y = i / COLUMNS % ROWS, last = ROWS - 1, right = COLUMNS - 1;
        for (int k = 0; k < 25; k++) {
            const int row = y + k / 5 - 2, column = i % COLUMNS + k % 5 - 2;
            window[k] = in[c][row < 0 ? 0 : row > last ? last : row][column < 0 ? 0 : column > right ? right : column];
        }
        qsort(window, 25, 1, by_value);
        assert_int_equal(median[i], window[12]);
        assert_int_equal(least[i], window[0]); /* elements at the edges, seen again, change neither extreme */
        assert_int_equal(most[i], window[24]);
    }
}

static void test_pictures__filters_by_definition(void **state)
{
    (void)state;
    on_devices(filters);
}

/* ---- errors ---- */

static void errors(haul_device *device)
{
    haul_set_device(device);
    haul_tensor *x = haul_to(picture(), device), *row = haul_ones(HAUL_F32, HAUL_SHAPE(7));
    haul_tensor *two = haul_ones(HAUL_F32, HAUL_SHAPE(2, 4, 5)), *none = haul_ones(HAUL_F32, HAUL_SHAPE(3, 0, 5));
    assert_refused(haul_rotate(row, 3), HAUL_SHAPE, "[..., H, W]");
    assert_refused(haul_rotate(x, NAN), HAUL_INVALID_ARGUMENT, "degrees is nan");
    assert_refused(haul_rotate(x, 3, .center = {INFINITY, 1}), HAUL_INVALID_ARGUMENT, "center is inf");
    assert_refused(haul_rotate(x, 3, .mode = HAUL_AREA), HAUL_INVALID_ARGUMENT, "mode is 4");
    assert_refused(haul_rotate(x, 3, .fill = 300), HAUL_INVALID_ARGUMENT, "300 is not a value of u8");
    assert_refused(haul_rotate(none, 3), HAUL_SHAPE, "at least one row");
    assert_refused(haul_rotate(haul_cast(x, HAUL_I32), 3), HAUL_DTYPE, "i32");
    assert_refused(haul_rotate_with(x, NULL), HAUL_INVALID_ARGUMENT, "options");
    assert_refused(haul_warp_affine(x, .scale = -1), HAUL_INVALID_ARGUMENT, "scale is -1");
    assert_refused(haul_warp_affine(x, .shear = {90, 1}), HAUL_INVALID_ARGUMENT, "shear is {90, 1}");
    assert_refused(haul_warp_affine_with(NULL), HAUL_INVALID_ARGUMENT, "options");
    assert_refused(haul_warp_perspective(x), HAUL_INVALID_ARGUMENT, "four corners");
    assert_refused(haul_warp_perspective(x, .from = {0, 0, 4, 0, 4, 4, 0, 4}, .to = {0, 0, 1, 1, 2, 2, 0, 4}),
                   HAUL_INVALID_ARGUMENT, "four corners");
    assert_refused(haul_warp_perspective_with(NULL), HAUL_INVALID_ARGUMENT, "options");
    assert_refused(haul_rgb_to_grayscale(two), HAUL_SHAPE, "1 or 3 channels");
    assert_refused(haul_rgb_to_hsv(two), HAUL_SHAPE, "3 channels");
    assert_refused(haul_hsv_to_rgb(x), HAUL_DTYPE, "u8");
    assert_refused(haul_adjust_brightness(x, -0.5), HAUL_INVALID_ARGUMENT, "factor is -0.5");
    assert_refused(haul_adjust_contrast(x, NAN), HAUL_INVALID_ARGUMENT, "factor is nan");
    assert_refused(haul_adjust_saturation(two, 1), HAUL_SHAPE, "1 or 3 channels");
    assert_refused(haul_adjust_hue(x, 0.6), HAUL_INVALID_ARGUMENT, "factor is 0.6");
    assert_refused(haul_adjust_sharpness(x, -1), HAUL_INVALID_ARGUMENT, "factor is -1");
    assert_refused(haul_solarize(x, 256), HAUL_INVALID_ARGUMENT, "threshold is 256");
    assert_refused(haul_posterize(x, 9), HAUL_INVALID_ARGUMENT, "bits is 9");
    assert_refused(haul_equalize(row), HAUL_SHAPE, "[..., H, W]");
    assert_refused(haul_gaussian_blur(x, 4, 1), HAUL_INVALID_ARGUMENT, "size is 4");
    assert_refused(haul_gaussian_blur(x, 3, -1), HAUL_INVALID_ARGUMENT, "sigma is -1");
    assert_refused(haul_gaussian_blur(x, 41, 1), HAUL_INVALID_ARGUMENT, "20 x 26");
    assert_refused(haul_median_blur(x, INT64_MAX), HAUL_INVALID_ARGUMENT, "an odd number");
    assert_refused(haul_erode(x, 0), HAUL_INVALID_ARGUMENT, "size is 0");
    assert_refused(haul_dilate(x, -3), HAUL_INVALID_ARGUMENT, "size is -3");
    haul_tensor *empty = haul_zeros(HAUL_F32, HAUL_SHAPE(0, 3, 4, 5));
    haul_tensor *same[] = {haul_rotate(empty, 3),           haul_equalize(empty),       haul_autocontrast(empty),
                           haul_gaussian_blur(empty, 3, 0), haul_median_blur(empty, 3), haul_erode(empty, 3)};
    for (int i = 0; i < 6; i++)
        assert_int_equal(haul_tensor_dim(same[i], 3), 5);
}

static void test_pictures__errors(void **state)
{
    (void)state;
    on_devices(errors);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pictures__are_torchvisions),
        cmocka_unit_test(test_pictures__batches_are_pictures),
        cmocka_unit_test(test_pictures__filters_by_definition),
        cmocka_unit_test(test_pictures__errors),
    };
    return cmocka_run_group_tests(tests, load_golden, free_golden);
}
