/* Folders of pictures, and the pictures in them: JPEG and PNG. */
#include "haul_config.h"

#if defined(HAUL_HAVE_PNG) && defined(HAUL_HAVE_JPEG)
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
/* after stdio.h */
#include <jpeglib.h>
#include <png.h>

#include "base/alloc.h"
#include "data/image/image.h"
#include "support/datasets.h"

static void write_png(const char *path, int side, uint32_t format, const uint8_t *pixels)
{
    png_image image = {
        .version = PNG_IMAGE_VERSION, .width = (uint32_t)side, .height = (uint32_t)side, .format = format};
    assert_true(png_image_write_to_file(&image, path, 0, pixels, 0, NULL));
}

static void write_jpeg(const char *path, int side, int channels, const uint8_t *pixels)
{
    struct jpeg_compress_struct jpeg;
    struct jpeg_error_mgr       errors;
    FILE                       *file = fopen(path, "wb");
    assert_non_null(file);
    jpeg.err = jpeg_std_error(&errors);
    jpeg_create_compress(&jpeg);
    jpeg_stdio_dest(&jpeg, file);
    jpeg.image_width = jpeg.image_height = (JDIMENSION)side;
    jpeg.input_components = channels;
    jpeg.in_color_space = channels == 1   ? JCS_GRAYSCALE
                          : channels == 3 ? JCS_RGB
                          : channels == 4 ? JCS_CMYK
                                          : JCS_UNKNOWN;
    jpeg_set_defaults(&jpeg);
    jpeg_set_quality(&jpeg, 100, TRUE);
    jpeg_start_compress(&jpeg, TRUE);
    for (int y = 0; y < side; y++) {
        JSAMPROW row = (JSAMPROW)(uintptr_t)(pixels + y * side * channels);
        jpeg_write_scanlines(&jpeg, &row, 1);
    }
    jpeg_finish_compress(&jpeg);
    jpeg_destroy_compress(&jpeg);
    fclose(file);
}

#define SIDE 8

static uint8_t rgb[SIDE * SIDE * 3], grey[SIDE * SIDE], rgba[SIDE * SIDE * 4];

static void make_pixels(void)
{
    for (int i = 0; i < SIDE * SIDE; i++) {
        grey[i] = (uint8_t)(i * 4);
        for (int c = 0; c < 3; c++)
            rgba[4 * i + c] = rgb[3 * i + c] = (uint8_t)(i * 3 + c * 20);
        rgba[4 * i + 3] = (uint8_t)(i & 1 ? 255 : 0);
    }
}

/* Checks that the example has the pixels, in planes, within `tolerance`. */
static void assert_planes(const haul_dataset *d, int64_t index, const uint8_t *pixels, int channels, int tolerance)
{
    uint8_t picture[3 * SIDE * SIDE];
    int64_t label;
    assert_int_equal(read_example_of(d, index, picture, &label), HAUL_OK);
    for (int c = 0; c < 3; c++)
        for (int i = 0; i < SIDE * SIDE; i++) {
            int expected = pixels[channels * i + (channels == 1 ? 0 : c)];
            assert_in_range(picture[c * SIDE * SIDE + i] + 100, expected + 100 - tolerance, expected + 100 + tolerance);
        }
}

static void write_folder(void)
{
    make_pixels();
    static const char *const folders[] = {"set",      "set/train", "set/train/b", "set/train/a", "set/train/.hidden",
                                          "set/test", "set/test/a"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        mkdir(folders[i], 0777);
    write_png("set/train/b/2.png", SIDE, PNG_FORMAT_RGB, rgb);
    write_png("set/train/b/10.PNG", SIDE, PNG_FORMAT_GRAY, grey);
    write_png("set/train/b/3.png", SIDE, PNG_FORMAT_RGBA, rgba);
    write_jpeg("set/train/a/x.jpg", SIDE, 3, rgb);
    write_jpeg("set/train/a/y.jpeg", SIDE, 1, grey);
    write_bytes("set/train/a/readme.txt", "no picture", 10);
    write_bytes("set/train/a/.z.png", "no picture", 10);
    write_bytes("set/train/loose.png", "no picture", 10);
    write_png("set/test/a/1.png", SIDE, PNG_FORMAT_RGB, rgb);
}

static void test_image_folder__reads_sorted_pictures(void **state)
{
    (void)state;
    static const int64_t labels[] = {0, 0, 1, 1, 1};
    haul_scope          *scope = haul_scope_push();
    uint8_t              picture[3 * SIDE * SIDE];
    int64_t              label;
    write_folder();
    haul_dataset *d = haul_image_folder("set"), *flat = haul_image_folder("set/train"),
                 *test = haul_image_folder("set", .test = true);
    if (!d || !flat || !test)
        fail_msg("%s", haul_error_message());
    assert_int_equal(haul_dataset_count(d), 5);
    assert_int_equal(haul_dataset_count(flat), 5);
    assert_int_equal(haul_dataset_count(test), 1);
    assert_string_equal(class_name(d, 0), "a");
    assert_string_equal(class_name(d, 1), "b");
    assert_null(class_name(d, 2));
    for (int i = 0; i < 5; i++) {
        assert_int_equal(read_example_of(d, i, picture, &label), HAUL_OK);
        assert_int_equal(label, labels[i]);
    }
    assert_planes(d, 0, rgb, 3, 12);
    assert_planes(d, 1, grey, 1, 12);
    assert_planes(d, 2, grey, 1, 0); /* "10.PNG" before "2.png" */
    assert_planes(d, 3, rgb, 3, 0);
    assert_planes(d, 4, rgba, 4, 0); /* transparency is dropped */
    haul_scope_pop(scope);
}

static void test_image_folder__unsound_pictures_are_refused(void **state)
{
    (void)state;
    haul_scope *scope = haul_scope_push();
    int64_t     blocks = haul__host_blocks();
    uint8_t     big[3 * 16 * 16] = {0};
    write_folder();
    write_png("set/train/b/7.png", 16, PNG_FORMAT_RGB, big);
    assert_null(haul_image_folder("set"));
    expect("size", HAUL_SHAPE, "set/train/b/7.png has 16 x 16 pixels and set/train/a/x.jpg has 8 x 8");
    haul_dataset *resized = haul_image_folder("set", .size = {SIDE, SIDE});
    assert_non_null(resized);
    assert_int_equal(haul_dataset_count(resized), 6);
    write_bytes("set/train/b/7.png", "GIF89a", 6);
    assert_null(haul_image_folder("set"));
    expect("gif", HAUL_FORMAT, "set/train/b/7.png is neither a JPEG nor a PNG");
    write_bytes("set/train/b/7.png", "", 0);
    assert_null(haul_image_folder("set"));
    expect("empty", HAUL_FORMAT, "set/train/b/7.png is neither");
    write_jpeg("set/train/b/7.png", SIDE, 2, rgba);
    assert_null(haul_image_folder("set"));
    expect("two colours", HAUL_UNSUPPORTED, "7.png has 2 colour channels of an unknown kind; convert it to RGB");
    assert_int_equal(unlink("set/train/b/7.png"), 0);
    mkdir("set/train/empty", 0777);
    assert_null(haul_image_folder("set"));
    expect("no pictures", HAUL_IO, "set/train/empty has no .jpg");
    assert_int_equal(rmdir("set/train/empty"), 0);
    assert_null(haul_image_folder("set/train", .test = true));
    expect("no test", HAUL_IO, "set/train has no folder named test");
    assert_null(haul_image_folder("set/train/a"));
    expect("no classes", HAUL_IO, "has no folders");
    assert_null(haul_image_folder("nowhere"));
    expect("nowhere", HAUL_IO, "nowhere");
    assert_null(haul_image_folder(NULL));
    expect("NULL", HAUL_INVALID_ARGUMENT, "directory");
    assert_non_null(haul_image_folder("set"));
    haul_scope_pop(scope);
    assert_int_equal(haul__host_blocks(), blocks - 1); /* the scope's own */
}

static int64_t label_of(const haul_dataset *d, int64_t index)
{
    uint8_t picture[3 * SIDE * SIDE];
    int64_t label = -1;
    assert_int_equal(read_example_of(d, index, picture, &label), HAUL_OK);
    return label;
}

/* A class has one number, whatever the test split lacks. */
static void test_image_folder__classes_are_numbered_by_the_training_split(void **state)
{
    (void)state;
    haul_scope *scope = haul_scope_push();
    write_folder();
    assert_int_equal(rename("set/test/a", "set/test/b"), 0);
    haul_dataset *test = haul_image_folder("set", .test = true);
    assert_non_null(test);
    assert_string_equal(class_name(test, 0), "a");
    assert_int_equal(label_of(test, 0), 1);
    assert_int_equal(rename("set/test/b", "set/test/aa"), 0);
    assert_null(haul_image_folder("set", .test = true));
    expect("unknown", HAUL_INVALID_ARGUMENT, "set/test/aa is a class that the training split does not have");
    assert_int_equal(rename("set/train", "other"), 0); /* the test split alone numbers its own */
    test = haul_image_folder("set", .test = true);
    assert_non_null(test);
    assert_string_equal(class_name(test, 0), "aa");
    assert_null(haul_image_folder("set"));
    expect("no training split", HAUL_IO, "set has a folder named test and none named train");
    assert_int_equal(rename("other", "set/train"), 0);
    assert_int_equal(rename("set/test/aa", "set/test/a"), 0);
    haul_scope_pop(scope);
}

#define FOR_MESSAGES .operation = "haul_read_image", .argument = "path"
static const haul__image_form as_it_is = {.channels = 3};

/* libjpeg writes Adobe's marker, with which 255 means no ink. */
static void test_image__four_inks_become_three_colours(void **state)
{
    (void)state;
    uint8_t inks[SIDE * SIDE * 4], data[4096], out[3 * SIDE * SIDE];
    for (int i = 0; i < SIDE * SIDE; i++)
        memcpy(inks + 4 * i, (const uint8_t[]){200, 100, 0, 128}, 4);
    write_jpeg("cmyk.jpg", SIDE, 4, inks);
    FILE *file = fopen("cmyk.jpg", "rb");
    assert_non_null(file);
    size_t size = fread(data, 1, sizeof data, file);
    fclose(file);
    haul__image image = {.path = "cmyk.jpg", FOR_MESSAGES, .data = data, .size = size, .height = SIDE, .width = SIDE};
    for (int plain = 0; plain < 2; plain++) {
        static const uint8_t expected[2][3] = {{100, 50, 0}, {27, 77, 127}};
        assert_int_equal(haul__image_put(&image, &as_it_is, out), HAUL_OK);
        for (int c = 0; c < 3; c++)
            assert_in_range(out[SIDE * SIDE * c + 9] + 10, expected[plain][c] + 8, expected[plain][c] + 12);
        for (size_t i = 0; i + 6 < size; i++)
            if (!memcmp(data + i, "Adobe", 5))
                data[i] = 'X'; /* without the marker 255 is all ink */
    }
}

/* Every cut of a picture is an error, without a word on the terminal. */
static void test_image__every_truncation_is_refused(void **state)
{
    (void)state;
    uint8_t data[4096], *out = malloc(3 * SIDE * SIDE);
    assert_non_null(out);
    make_pixels();
    write_png("cut.png", SIDE, PNG_FORMAT_RGB, rgb);
    write_jpeg("cut.jpg", SIDE, 3, rgb);
    static const char *const paths[] = {"cut.png", "cut.jpg"};
    for (int i = 0; i < 2; i++) {
        FILE *file = fopen(paths[i], "rb");
        assert_non_null(file);
        size_t size = fread(data, 1, sizeof data, file);
        fclose(file);
        haul__image whole = {.path = paths[i], FOR_MESSAGES, .data = data, .size = size, .height = SIDE, .width = SIDE};
        assert_int_equal(haul__image_put(&whole, &as_it_is, out), HAUL_OK);
        for (size_t cut = 0; cut < size; cut++) {
            uint8_t *copy = malloc(cut + 1);
            assert_non_null(copy);
            memcpy(copy, data, cut);
            haul__image image = {
                .path = paths[i], FOR_MESSAGES, .data = copy, .size = cut, .height = SIDE, .width = SIDE};
            /* a JPEG that lacks the last byte or two, which mean the end, has all of its pixels */
            if (haul__image_put(&image, &as_it_is, out) == HAUL_OK && !(i == 1 && cut + 2 >= size))
                fail_msg("%s cut to %zu of %zu bytes was accepted", paths[i], cut, size);
            free(copy);
        }
    }
    haul_error_clear();
    free(out);
}

/* Four quarters of one colour each: no pixel of a draft is in two of them. */
static void test_image__drafts_have_the_colours_of_their_places(void **state)
{
    enum { LARGE = 64 };
    static const uint8_t colours[2][2] = {{20, 90}, {160, 230}};
    static uint8_t       large[LARGE * LARGE];
    (void)state;
    for (int i = 0; i < LARGE * LARGE; i++)
        large[i] = colours[i / LARGE >= LARGE / 2][i % LARGE >= LARGE / 2];
    mkdir("drafts", 0777);
    mkdir("drafts/a", 0777);
    write_jpeg("drafts/a/1.jpg", LARGE, 1, large);
    for (int shrink = 1; shrink <= 8; shrink *= 2) {
        haul_scope   *scope = haul_scope_push();
        const int     side = LARGE / shrink;
        uint8_t       picture[3 * LARGE * LARGE];
        haul_dataset *drafts = haul_image_folder("drafts", .size = {side, side}, .draft = true);
        assert_non_null(drafts);
        assert_int_equal(read_example_of(drafts, 0, picture, &(int64_t){0}), HAUL_OK);
        for (int i = 0; i < 3 * side * side; i++) {
            const int y = i / side % side, x = i % side;
            assert_in_range(picture[i] + 2, colours[y >= side / 2][x >= side / 2],
                            colours[y >= side / 2][x >= side / 2] + 4);
        }
        haul_scope_pop(scope);
    }
}

static void test_image__huge_pictures_are_refused_before_memory_is_taken(void **state)
{
    (void)state;
    uint8_t data[4096], out[1];
    make_pixels();
    write_png("huge.png", SIDE, PNG_FORMAT_RGB, rgb);
    FILE *file = fopen("huge.png", "rb");
    assert_non_null(file);
    size_t size = fread(data, 1, sizeof data, file);
    fclose(file);
    data[16] = 0x7f; /* the width's first byte; the chunk's checksum is wrong now, too */
    haul__image image = {.path = "huge.png", FOR_MESSAGES, .data = data, .size = size};
    assert_int_equal(haul__image_measure(&image), HAUL_FORMAT);
    write_jpeg("huge.jpg", SIDE, 3, rgb);
    file = fopen("huge.jpg", "rb");
    assert_non_null(file);
    size = fread(data, 1, sizeof data, file);
    fclose(file);
    for (size_t i = 0; i + 9 < size; i++)
        if (data[i] == 0xff && data[i + 1] == 0xc0) /* start of frame: length, precision, height, width */
            data[i + 5] = data[i + 7] = 0xff;
    image = (haul__image){.path = "huge.jpg", FOR_MESSAGES, .data = data, .size = size};
    assert_int_equal(haul__image_measure(&image), HAUL_FORMAT);
    expect("huge", HAUL_FORMAT, "at most");
    image.height = image.width = SIDE;
    assert_int_equal(haul__image_put(&image, &as_it_is, out), HAUL_FORMAT);
    haul_error_clear();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_image_folder__reads_sorted_pictures),
        cmocka_unit_test(test_image_folder__unsound_pictures_are_refused),
        cmocka_unit_test(test_image_folder__classes_are_numbered_by_the_training_split),
        cmocka_unit_test(test_image__drafts_have_the_colours_of_their_places),
        cmocka_unit_test(test_image__four_inks_become_three_colours),
        cmocka_unit_test(test_image__every_truncation_is_refused),
        cmocka_unit_test(test_image__huge_pictures_are_refused_before_memory_is_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void)
{
    return 77; /* skipped */
}
#endif
