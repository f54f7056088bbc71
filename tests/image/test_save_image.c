/* haul_save_image: files are read again as they were written, from every device, and nothing remains of what fails.
 *
 * ctest: cuda */
#include "haul_config.h"

#if defined(HAUL_HAVE_PNG) && defined(HAUL_HAVE_JPEG)
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "support/failure.h"
#include "support/into.h"
#include "support/linalg.h"

static char folder[] = "/tmp/haul_save_image_XXXXXX";
static char name[sizeof folder + 40];

static const char *in_folder(const char *file)
{
    snprintf(name, sizeof name, "%s/%s", folder, file);
    return name;
}

static int make_folder(void **state)
{
    (void)state;
    return !mkdtemp(folder);
}

static int remove_folder(void **state)
{
    static const char *const files[] = {"a.png", "a.PNG", "a.jpg", "a.jpeg", "b.jpg"};
    (void)state;
    for (int i = 0; i < 5; i++)
        unlink(in_folder(files[i]));
    return rmdir(folder);
}

static haul_tensor *picture(haul_device *device, int64_t channels, int64_t rows, int64_t columns)
{
    haul_tensor *x = sample_tensor(device, HAUL_F32, HAUL_SHAPE(channels, rows, columns), 1, NULL);
    return haul_cast(haul_clamp(haul_affine(x, 60, 128), 0, 255), HAUL_U8);
}

/* ---- formats ---- */

static void png(haul_device *device)
{
    static const int64_t sizes[][3] = {{3, 17, 23}, {1, 5, 64}, {3, 1, 1}, {1, 300, 2}};
    for (int i = 0; i < 4; i++) {
        haul_tensor *x = picture(device, sizes[i][0], sizes[i][1], sizes[i][2]);
        assert_succeeded(haul_save_image(in_folder(i % 2 ? "a.PNG" : "a.png"), x), "PNG");
        haul_tensor *again = haul_read_image(name, .channels = (int)sizes[i][0]);
        assert_equal_bits(again, haul_to(x, haul_tensor_device(again)), "PNG");
    }
    haul_tensor *grey = picture(device, 1, 6, 7), *turned = haul_transpose(grey, -1, -2);
    assert_succeeded(haul_save_image(in_folder("a.png"), haul_squeeze(turned, 0)), "[H, W], not contiguous");
    haul_tensor *again = haul_read_image(name, .channels = 1);
    assert_equal_bits(again, haul_to(haul_contiguous(turned), haul_tensor_device(again)), "[H, W]");
}

static void test_save_image__png_is_exact(void **state)
{
    (void)state;
    on_devices(png);
}

/* Floats are rounded, and cut to the range of pictures. */
static void floats(haul_device *device)
{
    static const float   values[] = {-1, 0, 0.5f, 1, 7, 0.2f};
    static const uint8_t want[] = {0, 0, 128, 255, 255, 51};
    uint8_t              got[6];
    haul_tensor         *x = haul_to(haul_from_host(HAUL_F32, HAUL_SHAPE(2, 3), values), device);
    for (int i = 0; i < 2; i++) {
        haul_tensor *leaf = haul_set_requires_grad(haul_detach(i ? haul_cast(x, HAUL_F64) : x), true);
        assert_succeeded(haul_save_image(in_folder("a.png"), leaf), "floats");
        assert_succeeded(haul_read(haul_read_image(name, .channels = 1), got, sizeof got), "floats");
        assert_memory_equal(got, want, sizeof want);
    }
}

static void test_save_image__floats_are_rounded(void **state)
{
    (void)state;
    on_devices(floats);
}

static double distance(haul_tensor *a, haul_tensor *b)
{
    return haul_item(
        haul_mean(haul_abs(haul_sub(haul_cast(a, HAUL_F32), haul_cast(haul_to(b, haul_tensor_device(a)), HAUL_F32)))));
}

/* A smooth picture survives, and the better the higher the quality is. */
static void jpeg(haul_device *device)
{
    haul_tensor *x = haul_interpolate(haul_reshape(picture(device, 3, 4, 5), HAUL_SHAPE(1, 3, 4, 5)), .size = {90, 111},
                                      .mode = HAUL_BICUBIC);
    x = haul_squeeze(x, 0);
    assert_succeeded(haul_save_image(in_folder("a.jpg"), x, .quality = 98), "JPEG");
    const double near = distance(haul_read_image(name), x);
    assert_succeeded(haul_save_image(in_folder("b.jpg"), x, .quality = 5), "JPEG");
    const double far = distance(haul_read_image(name), x);
    assert_true(near < 2 && far > near && far < 40);
    haul_tensor *grey = haul_rgb_to_grayscale(x);
    assert_succeeded(haul_save_image(in_folder("a.jpeg"), grey), "grey JPEG");
    assert_true(distance(haul_read_image(name, .channels = 1), grey) < 3);
}

static void test_save_image__jpeg_is_near(void **state)
{
    (void)state;
    on_devices(jpeg);
}

/* ---- errors ---- */

static void assert_fails(haul_status status, haul_status want, const char *text)
{
    assert_int_equal(status, want);
    if (!strstr(haul_error_message(), text))
        fail_msg("the message is \"%s\", it should contain \"%s\"", haul_error_message(), text);
    haul_error_clear();
}

static void test_save_image__errors(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *x = picture(haul_cpu(), 3, 4, 5);
    const char  *path = in_folder("a.png");
    assert_succeeded(haul_save_image(path, x), "before");
    assert_fails(haul_save_image(NULL, x), HAUL_INVALID_ARGUMENT, "path");
    assert_fails(haul_save_image(path, NULL), HAUL_INVALID_ARGUMENT, "x");
    assert_fails(haul_save_image_with(NULL), HAUL_INVALID_ARGUMENT, "path");
    assert_fails(haul_save_image("picture.gif", x), HAUL_INVALID_ARGUMENT, ".png, .jpg and .jpeg");
    assert_fails(haul_save_image("picture", x), HAUL_INVALID_ARGUMENT, ".png, .jpg and .jpeg");
    assert_fails(haul_save_image(path, x, .quality = 101), HAUL_INVALID_ARGUMENT, "quality is 101");
    assert_fails(haul_save_image(path, haul_cast(x, HAUL_I32)), HAUL_DTYPE, "i32");
    assert_fails(haul_save_image(path, haul_slice(x, 0, 0, 2, 1)), HAUL_SHAPE, "[2,4,5]");
    assert_fails(haul_save_image(path, haul_slice(x, 1, 0, 0, 1)), HAUL_SHAPE, "[3,0,5]");
    assert_fails(haul_save_image(path, haul_zeros(HAUL_U8, HAUL_SHAPE(1, 16385))), HAUL_SHAPE, "16384");
    assert_fails(haul_save_image(path, haul_zeros(HAUL_U8, HAUL_SHAPE(16384, 16384))), HAUL_SHAPE, "2^26");
    assert_equal_bits(haul_read_image(path), x, "the file of before");
    assert_fails(haul_save_image("/nowhere/a.png", x), HAUL_IO, "/nowhere");
    assert_fails(haul_save_image("/nowhere/a.jpg", x), HAUL_IO, "/nowhere");
    haul_scope_pop(scope);
}

/* Each request for memory and each call of the system fails once: an error each time, and the file stays. */
static void test_save_image__what_fails_leaves_nothing(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *x = picture(haul_cpu(), 3, 40, 50);
    for (int i = 0; i < 2; i++) {
        char path[sizeof name];
        strcpy(path, in_folder(i ? "a.jpg" : "a.png"));
        assert_succeeded(haul_save_image(path, x), path);
        haul_tensor *before = haul_read_image(path);
        int64_t      nth = 1;
        for (bool fails = true; fails; nth++) {
            const int64_t blocks = haul__host_blocks();
            haul__fault_plan(HAUL__FAULT_HOST | HAUL__FAULT_FILE, nth);
            fails = haul_save_image(path, x) != HAUL_OK;
            haul__fault_plan(0, 0);
            assert_true(!fails || strcmp(haul_error_operation(), "haul_save_image") == 0);
            haul_error_clear();
            assert_true(!fails || haul__host_blocks() == blocks);
            haul_scope *inner = haul_scope_push();
            assert_equal_bits(haul_read_image(path), before, path);
            haul_scope_pop(inner);
        }
        assert_true(nth > 5);
    }
    haul_scope_pop(scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_save_image__png_is_exact),
        cmocka_unit_test(test_save_image__floats_are_rounded),
        cmocka_unit_test(test_save_image__jpeg_is_near),
        cmocka_unit_test(test_save_image__errors),
        cmocka_unit_test(test_save_image__what_fails_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

#else

int main(void)
{
    return 77; /* skipped */
}
#endif
