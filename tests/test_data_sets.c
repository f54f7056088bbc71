/* The datasets: files, folders, memory, and what is drawn. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <haul/haul.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/alloc.h"
#include "data/dataset.h"
#include "data/image.h"
#include "haul_config.h"
#include "memory/allocator.h"
#include "support/example.h"

static void write_bytes(const char *path, const void *data, size_t size)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

static void expect(const char *what, haul_status status, const char *words)
{
    if (haul_error_status() != status || !strstr(haul_error_message(), words) || strchr(haul_error_message(), '\n'))
        fail_msg("%s: %s (expected: %s)", what, haul_error_message(), words);
    haul_error_clear();
}

/* The name of class `index`; NULL past the end. */
static const char *class_name(const haul_dataset *d, int index)
{
    haul_field field;
    assert_int_equal(haul_dataset_field(d, 1, &field), HAUL_OK);
    return index >= 0 && index < field.classes ? field.class_names[index] : NULL;
}

/* ---- CIFAR-10 ---- */

#define RECORD 3073

/* A file of `count` records: labels 0 1 2 ..., pixels that depend on file and record. */
static void write_records(const char *folder, const char *name, int file, int count)
{
    char     path[256];
    uint8_t *data = malloc((size_t)count * RECORD);
    assert_non_null(data);
    for (int i = 0; i < count; i++) {
        data[i * RECORD] = (uint8_t)(i % 10);
        for (int k = 1; k < RECORD; k++)
            data[i * RECORD + k] = (uint8_t)(file * 31 + i * 7 + k);
    }
    snprintf(path, sizeof path, "%s/%s", folder, name);
    write_bytes(path, data, (size_t)count * RECORD);
    free(data);
}

static void write_cifar(const char *folder)
{
    char name[32];
    mkdir(folder, 0777);
    for (int i = 1; i <= 5; i++) {
        snprintf(name, sizeof name, "data_batch_%d.bin", i);
        write_records(folder, name, i, 10 + i);
    }
    write_records(folder, "test_batch.bin", 6, 4);
}

static void test_cifar10__reads_both_splits(void **state)
{
    (void)state;
    haul_scope *scope = haul_scope_push();
    haul_field  spec;
    uint8_t     picture[3072];
    int64_t     label;
    mkdir("archive", 0777);
    write_cifar("archive/cifar-10-batches-bin");
    haul_dataset *train = haul_cifar10("archive"), *test = haul_cifar10("archive/cifar-10-batches-bin", .test = true);
    if (!train || !test)
        fail_msg("%s", haul_error_message());
    assert_int_equal(haul_dataset_count(train), 11 + 12 + 13 + 14 + 15);
    assert_int_equal(haul_dataset_count(test), 4);
    assert_string_equal(haul_dataset_name(train), "cifar10 (train)");
    assert_string_equal(haul_dataset_name(test), "cifar10 (test)");
    assert_string_equal(class_name(train, 9), "truck");
    assert_null(class_name(train, 10));
    assert_null(class_name(train, -1));
    assert_int_equal(haul_dataset_fields(train), 2);
    assert_int_equal(haul_dataset_field(train, 1, &spec), HAUL_OK);
    assert_int_equal(spec.classes, 10);
    assert_int_equal(haul_dataset_field(train, 0, &spec), HAUL_OK);
    assert_int_equal(spec.shape.dims[0], 3);
    assert_string_equal(spec.name, "x");
    assert_int_equal(haul_dataset_field(train, 2, &spec), HAUL_INVALID_ARGUMENT);
    haul_error_clear();
    /* the third record of the second file */
    assert_int_equal(read_example_of(train, 11 + 2, picture, &label), HAUL_OK);
    assert_int_equal(label, 2);
    assert_int_equal(picture[0], (uint8_t)(2 * 31 + 2 * 7 + 1));
    assert_int_equal(read_example_of(train, 64, picture, &label), HAUL_OK);
    assert_int_equal(picture[3071], (uint8_t)(5 * 31 + 14 * 7 + 3072));
    haul_scope_pop(scope);
}

static void test_cifar10__unsound_files_are_refused(void **state)
{
    (void)state;
    haul_scope *scope = haul_scope_push();
    int64_t     blocks = haul__host_blocks();
    assert_null(haul_cifar10("nowhere"));
    expect("nowhere", HAUL_IO, "data_batch_1.bin in nowhere");
    write_cifar("bad");
    assert_int_equal(truncate("bad/data_batch_3.bin", 13 * RECORD - 1), 0);
    assert_null(haul_cifar10("bad"));
    expect("short", HAUL_FORMAT, "bad/data_batch_3.bin is not a valid CIFAR-10 file");
    assert_int_equal(truncate("bad/data_batch_3.bin", 0), 0);
    assert_null(haul_cifar10("bad"));
    expect("empty", HAUL_FORMAT, "it has 0 bytes");
    write_records("bad", "data_batch_3.bin", 3, 13);
    FILE *file = fopen("bad/data_batch_5.bin", "r+b");
    assert_non_null(file);
    fseek(file, 14 * RECORD, SEEK_SET);
    fputc(10, file);
    fclose(file);
    assert_null(haul_cifar10("bad"));
    expect("label", HAUL_FORMAT, "record 14 has the label 10");
    assert_int_equal(unlink("bad/data_batch_4.bin"), 0);
    assert_null(haul_cifar10("bad"));
    expect("missing", HAUL_IO, "cannot open bad/data_batch_4.bin");
    assert_int_equal(truncate("bad/data_batch_2.bin", (off_t)1 << 40), 0); /* sparse: nothing is taken for it */
    assert_null(haul_cifar10("bad"));
    expect("huge", HAUL_FORMAT, "at most");
    assert_null(haul_cifar10(NULL));
    expect("NULL", HAUL_INVALID_ARGUMENT, "directory");
    assert_int_equal(haul__host_blocks(), blocks);
    haul_scope_pop(scope);
}

/* ---- folders of pictures ---- */

#if defined(HAUL_HAVE_PNG) && defined(HAUL_HAVE_JPEG)
#include <jpeglib.h>
#include <png.h>

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

/* Is the example the pixels, in planes, within `tolerance`? */
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

/* libjpeg writes Adobe's marker, with which 255 is no ink. */
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

#define PICTURE_TESTS                                                                                                  \
    cmocka_unit_test(test_image_folder__reads_sorted_pictures),                                                        \
        cmocka_unit_test(test_image_folder__unsound_pictures_are_refused),                                             \
        cmocka_unit_test(test_image_folder__classes_are_numbered_by_the_training_split),                               \
        cmocka_unit_test(test_image__drafts_have_the_colours_of_their_places),                                         \
        cmocka_unit_test(test_image__four_inks_become_three_colours),                                                  \
        cmocka_unit_test(test_image__every_truncation_is_refused),                                                     \
        cmocka_unit_test(test_image__huge_pictures_are_refused_before_memory_is_taken),
#else
#define PICTURE_TESTS
#endif

/* ---- memory ---- */

static void test_tensors__are_examples(void **state)
{
    (void)state;
    haul_scope   *scope = haul_scope_push();
    haul_field    spec;
    float         row[3];
    int64_t       label;
    haul_tensor  *x = haul_from_host(HAUL_F32, HAUL_SHAPE(3, 2), (const float[]){0, 1, 2, 3, 4, 5});
    haul_tensor  *y = haul_from_host(HAUL_I64, HAUL_SHAPE(2), (const int64_t[]){4, 0});
    haul_dataset *d = haul_dataset_from_tensors(haul_permute(x, (const int[]){1, 0}, 2), y);
    if (!d)
        fail_msg("%s", haul_error_message());
    haul_drop(x);
    haul_drop(y);
    assert_int_equal(haul_dataset_count(d), 2);
    assert_int_equal(haul_dataset_field(d, 1, &spec), HAUL_OK);
    assert_int_equal(spec.classes, 5);
    assert_int_equal(spec.shape.ndim, 0);
    assert_string_equal(class_name(d, 3), "3");
    assert_int_equal(read_example_of(d, 1, row, &label), HAUL_OK);
    assert_true(row[0] == 1 && row[1] == 3 && row[2] == 5 && label == 0);
    haul_scope_pop(scope);
}

static void test_tensors__that_are_no_examples_are_refused(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *x = haul_zeros(HAUL_F32, HAUL_SHAPE(3, 2)), *y = haul_zeros(HAUL_I64, HAUL_SHAPE(3));
    assert_null(haul_dataset_from_tensors(x, haul_zeros(HAUL_I64, HAUL_SHAPE(4))));
    expect("count", HAUL_SHAPE, "x has 3 examples, y has 4");
    const haul_named_tensor twice[] = {{.name = "a", .tensor = x}, {.name = "a", .tensor = y}};
    assert_null(haul_dataset_from_named(twice, 2));
    expect("twice", HAUL_INVALID_ARGUMENT, "two fields are named \"a\"");
    assert_null(haul_dataset_from_named(twice, 0));
    expect("none", HAUL_INVALID_ARGUMENT, "0 tensors");
    assert_null(haul_dataset_from_named(&(haul_named_tensor){.name = "a b", .tensor = x}, 1));
    expect("blank", HAUL_INVALID_ARGUMENT, "must not be empty or contain commas or blanks");
    assert_null(haul_dataset_from_tensors(haul_scalar(1), y));
    expect("0-d", HAUL_SHAPE, "x is 0-d");
    assert_null(haul_dataset_from_tensors(x, haul_full(HAUL_I64, HAUL_SHAPE(3), -1)));
    expect("label", HAUL_INVALID_ARGUMENT, "label -1");
    assert_null(haul_dataset_from_tensors(x, HAUL_NONE));
    expect("none", HAUL_INVALID_ARGUMENT, "y is HAUL_NONE, but a tensor is needed");
    assert_null(haul_dataset_from_tensors(haul_to(x, haul_device_get("meta")), y));
    expect("device", HAUL_DEVICE, "haul_to(x, haul_cpu())");
    assert_null(haul_dataset_from_tensors(NULL, y));
    expect("NULL", HAUL_INVALID_ARGUMENT, "x");
    haul_scope_pop(scope);
}

static int closed;

static void count_closed(void *context)
{
    (void)context;
    closed++;
}

static haul_status read_nothing(void *context, haul_example *e)
{
    (void)context, (void)e;
    return HAUL_OK;
}

static void test_dataset__wrong_sources_are_refused_and_closed(void **state)
{
    (void)state;
    haul_scope               *scope = haul_scope_push();
    const haul_dataset_source good = {
        .fields = {{.name = "x", .dtype = HAUL_F32, .shape = HAUL_SHAPE(2)},
                   {.name = "y", .dtype = HAUL_I64, .classes = 2}},
        .count = 1,
        .read = read_nothing,
        .close = count_closed,
    };
    haul_dataset_source bad[11];
    for (int i = 0; i < 11; i++)
        bad[i] = good;
    bad[0].read = NULL;
    bad[1].count = -2;
    bad[2].fields[0].dtype = HAUL_DTYPE_END;
    bad[3].fields[1].dtype = HAUL_DTYPE_NONE;
    bad[4].fields[1].classes = -1;
    bad[5].fields[0].shape.dims[0] = -2;
    bad[6].fields[0].shape = (haul_shape){8, {1, 1, 1, 1, 1, 1, 1, 1}};
    bad[7].fields[0].shape = (haul_shape){2, {-1, -1}};
    bad[8].fields[0].name = NULL;
    bad[9].fields[1].name = "x";
    bad[10].fields[1].padding = 0.5;
    for (int i = 0; i < 11; i++) {
        assert_null(haul_dataset_new(&bad[i]));
        assert_int_not_equal(haul_error_status(), HAUL_OK);
        assert_int_equal(closed, i + 1);
        haul_error_clear();
    }
    assert_string_equal(haul_dataset_name(haul_dataset_new(&good)), "dataset");
    haul_scope_pop(scope);
    assert_int_equal(closed, 12);
}

/* ---- drawn ---- */

static void test_shapes__examples_depend_on_seed_and_index_only(void **state)
{
    (void)state;
    static uint8_t a[3072], b[3072];
    int64_t        la, lb;
    haul_scope    *scope = haul_scope_push();
    haul_dataset  *few = haul_shapes(5, .seed = 3), *many = haul_shapes(2000, .seed = 3),
                 *other = haul_shapes(5, .seed = 4), *test = haul_shapes(5, .seed = 3, .test = true),
                 *endless = haul_shapes(INT64_C(1) << 40, .seed = 3);
    if (!few || !many || !other || !test || !endless)
        fail_msg("%s", haul_error_message());
    int counts[10] = {0};
    for (int i = 0; i < 5; i++) {
        assert_int_equal(read_example_of(few, i, a, &la), HAUL_OK);
        assert_int_equal(read_example_of(many, i, b, &lb), HAUL_OK);
        assert_int_equal(la, lb);
        assert_memory_equal(a, b, sizeof a);
        assert_int_equal(read_example_of(endless, i, b, &lb), HAUL_OK);
        assert_memory_equal(a, b, sizeof a);
        assert_int_equal(read_example_of(other, i, b, &lb), HAUL_OK);
        assert_memory_not_equal(a, b, sizeof a);
        assert_int_equal(read_example_of(test, i, b, &lb), HAUL_OK);
        assert_memory_not_equal(a, b, sizeof a);
    }
    for (int i = 0; i < 2000; i++) {
        assert_int_equal(read_example_of(many, i, a, &la), HAUL_OK);
        counts[la]++;
    }
    for (int i = 0; i < 10; i++)
        assert_in_range(counts[i], 140, 260);
    assert_string_equal(class_name(few, 4), "ring");
    assert_null(haul_shapes(-1));
    expect("negative", HAUL_INVALID_ARGUMENT, "-1 examples");
    haul_scope_pop(scope);
}

static void test_shapes__large_sets_are_in_counted_memory(void **state)
{
    (void)state;
    enum { MANY = 2000, FEW = 50, BYTES = 3 * 32 * 32 + 8 };
    const int64_t before = haul__device_allocated(haul_cpu(), false);
    haul_scope   *scope = haul_scope_push();
    haul_shapes(FEW);
    assert_int_equal(haul__device_allocated(haul_cpu(), false), before);
    haul_shapes(MANY);
    assert_true(haul__device_allocated(haul_cpu(), false) >= before + (int64_t)MANY * BYTES);
    haul_scope_pop(scope);

    /* Where the device's limit leaves no room, they are in the system's memory. */
    scope = haul_scope_push();
    assert_int_equal(haul_memory_release_cached(haul_cpu()), HAUL_OK);
    assert_int_equal(haul_memory_set_limit(haul_cpu(), 1 << 20), HAUL_OK);
    assert_non_null(haul_shapes(MANY));
    assert_int_equal(haul_memory_set_limit(haul_cpu(), 0), HAUL_OK);
    haul_scope_pop(scope);
    assert_int_equal(haul__device_allocated(haul_cpu(), false), before);
}

/* What is drawn on one machine is drawn on all. */
static void test_shapes__draws_what_it_always_drew(void **state)
{
    (void)state;
    static uint8_t picture[3072];
    int64_t        label;
    uint32_t       sum = 2166136261u;
    haul_scope    *scope = haul_scope_push();
    haul_dataset  *d = haul_shapes(50);
    for (int i = 0; i < 50; i++) {
        assert_int_equal(read_example_of(d, i, picture, &label), HAUL_OK);
        for (int k = 0; k < 3072; k++)
            sum = (sum ^ picture[k]) * 16777619u;
        sum = (sum ^ (uint32_t)label) * 16777619u;
    }
    assert_int_equal(sum, 0xae3d51b5);
    haul_scope_pop(scope);
}

static void test_blobs__are_two_clouds(void **state)
{
    (void)state;
    float         row[10], label;
    int           ones = 0, right = 0;
    haul_scope   *scope = haul_scope_push();
    haul_dataset *d = haul_blobs(2000, .seed = 1);
    for (int i = 0; i < 2000; i++) {
        float score = 0;
        assert_int_equal(read_example_of(d, i, row, &label), HAUL_OK);
        assert_true(label == 0 || label == 1);
        ones += label == 1;
        for (int k = 0; k < 10; k++)
            score += k % 2 ? -row[k] : row[k];
        right += (score > 0) == (label == 1);
    }
    assert_in_range(ones, 900, 1100);
    assert_in_range(right, 1960, 1999); /* separable, but not wholly */
    haul_scope_pop(scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cifar10__reads_both_splits),
        cmocka_unit_test(test_cifar10__unsound_files_are_refused),
        PICTURE_TESTS cmocka_unit_test(test_tensors__are_examples),
        cmocka_unit_test(test_tensors__that_are_no_examples_are_refused),
        cmocka_unit_test(test_dataset__wrong_sources_are_refused_and_closed),
        cmocka_unit_test(test_shapes__examples_depend_on_seed_and_index_only),
        cmocka_unit_test(test_shapes__large_sets_are_in_counted_memory),
        cmocka_unit_test(test_shapes__draws_what_it_always_drew),
        cmocka_unit_test(test_blobs__are_two_clouds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
