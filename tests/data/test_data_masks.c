/* Pictures with a class for each pixel, from folders and drawn. */
#include "haul_config.h"

#ifdef HAUL_HAVE_PNG
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
/* after stdio.h */
#include <png.h>

#include "base/alloc.h"
#include "support/datasets.h"

enum { HEIGHT = 6, WIDTH = 8, PIXELS = HEIGHT * WIDTH };

static void write_png(const char *path, int height, int width, uint32_t format, const uint8_t *pixels)
{
    png_image image = {
        .version = PNG_IMAGE_VERSION, .width = (uint32_t)width, .height = (uint32_t)height, .format = format};
    assert_true(png_image_write_to_file(&image, path, 0, pixels, 0, NULL));
}

/* Grey values or, with a palette or fewer bits, numbers as they are. */
static void write_numbers_turned(const char *path, int kind, int bits, const uint8_t *numbers, bool turned)
{
    FILE       *file = fopen(path, "wb");
    png_struct *png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_info   *info = png_create_info_struct(png);
    png_color   colours[4] = {{9, 9, 9}, {200, 0, 0}, {0, 200, 0}, {0, 0, 200}};
    assert_true(file && png && info && !setjmp(png_jmpbuf(png)));
    png_init_io(png, file);
    png_set_IHDR(png, info, WIDTH, HEIGHT, bits, kind, PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_BASE,
                 PNG_FILTER_TYPE_BASE);
    if (kind == PNG_COLOR_TYPE_PALETTE)
        png_set_PLTE(png, info, colours, 4);
#ifdef PNG_eXIf_SUPPORTED
    uint8_t exif[26] = {'M', 'M', 0, 42, 0, 0, 0, 8, 0, 1, 1, 18, 0, 3, 0, 0, 0, 1, 0, 3}; /* orientation 3 */
    if (turned)
        png_set_eXIf_1(png, info, sizeof exif, exif);
#else
    (void)turned;
#endif
    png_write_info(png, info);
    png_set_packing(png);
    for (int y = 0; y < HEIGHT; y++)
        png_write_row(png, numbers + y * WIDTH);
    png_write_end(png, NULL);
    png_destroy_write_struct(&png, &info);
    assert_int_equal(fclose(file), 0);
}

static void write_numbers(const char *path, int kind, int bits, const uint8_t *numbers)
{
    write_numbers_turned(path, kind, bits, numbers, false);
}

static uint8_t rgb[3 * PIXELS], classes[PIXELS];

static void make_pixels(void)
{
    for (int i = 0; i < PIXELS; i++) {
        classes[i] = (uint8_t)(i % 3);
        for (int c = 0; c < 3; c++)
            rgb[3 * i + c] = (uint8_t)(i + c);
    }
}

static void make_folders(const char *root)
{
    char path[128];
    mkdir(root, 0777);
    snprintf(path, sizeof path, "%s/images", root);
    mkdir(path, 0777);
    snprintf(path, sizeof path, "%s/masks", root);
    mkdir(path, 0777);
}

static void in(const char *root, const char *name, char path[128])
{
    snprintf(path, 128, "%s/%s", root, name);
}

static void put_picture(const char *root, const char *name)
{
    char path[128];
    in(root, name, path);
    write_png(path, HEIGHT, WIDTH, PNG_FORMAT_RGB, rgb);
}

static void put_mask(const char *root, const char *name, const uint8_t *values)
{
    char path[128];
    in(root, name, path);
    write_numbers(path, PNG_COLOR_TYPE_GRAY, 8, values);
}

/* A folder with two pictures and masks of three classes. */
static void write_set(const char *root)
{
    make_pixels();
    make_folders(root);
    put_picture(root, "images/a.png");
    put_picture(root, "images/b.png");
    put_mask(root, "masks/a.png", classes);
    put_mask(root, "masks/b.png", classes);
}

static void remove_from(const char *root, const char *name)
{
    char path[128];
    in(root, name, path);
    assert_int_equal(unlink(path), 0);
}

static void assert_classes(haul_dataset *d, int64_t index, const uint8_t *wanted)
{
    int64_t values[PIXELS];
    if (!d)
        fail_msg("%s", haul_error_message());
    assert_int_equal(haul_read(haul_select(whole(d)->y, 0, index), values, sizeof values), HAUL_OK);
    for (int i = 0; i < PIXELS; i++)
        assert_int_equal(values[i], wanted[i]);
}

static int classes_of(const haul_dataset *d)
{
    haul_field y;
    assert_int_equal(haul_dataset_field(d, 1, &y), HAUL_OK);
    return y.classes;
}

static void test_mask_folder__numbers_are_classes(void **state)
{
    (void)state;
    haul_scope *scope = haul_scope_push();
    write_set("set");
    write_numbers("set/masks/b.png", PNG_COLOR_TYPE_PALETTE, 2, classes);
    haul_dataset *d = haul_mask_folder("set");
    assert_classes(d, 0, classes);
    assert_classes(d, 1, classes);
    assert_int_equal(haul_dataset_count(d), 2);
    assert_int_equal(classes_of(d), 3);
    assert_string_equal(haul_dataset_name(d), "masks");
    assert_int_equal(classes_of(haul_mask_folder("set", .classes = 7)), 7);
    haul_field x;
    assert_int_equal(haul_dataset_field(d, 0, &x), HAUL_OK);
    assert_int_equal(x.shape.dims[0], 3);
    assert_int_equal(x.shape.dims[1], HEIGHT);
    assert_int_equal(x.shape.dims[2], WIDTH);
    haul_scope_pop(scope);
}

static void test_mask_folder__black_and_white_are_two_classes(void **state)
{
    (void)state;
    uint8_t     white[PIXELS], halves[PIXELS];
    haul_scope *scope = haul_scope_push();
    write_set("white");
    for (int i = 0; i < PIXELS; i++) {
        halves[i] = i < PIXELS / 2;
        white[i] = halves[i] ? 255 : 0;
    }
    put_mask("white", "masks/a.png", white);
    put_mask("white", "masks/b.png", white);
    haul_dataset *d = haul_mask_folder("white");
    assert_classes(d, 0, halves);
    assert_int_equal(classes_of(d), 2);
    write_numbers("white/masks/b.png", PNG_COLOR_TYPE_GRAY, 1, halves); /* 0 and 1 in one bit */
    assert_int_equal(classes_of(haul_mask_folder("white", .classes = 256)), 256);
    assert_null(haul_mask_folder("white", .classes = 2));
    expect("255 among others", HAUL_INVALID_ARGUMENT, "white/masks/a.png has the value 255, and there are 2 classes");
    haul_scope_pop(scope);
}

/* Each pixel of the smaller mask is one of the larger: the middle 4x4 of it, scaled by 2/3, would mix them. */
static void test_mask_folder__resized_masks_mix_no_classes(void **state)
{
    (void)state;
    int64_t     values[9];
    uint8_t     blocks[PIXELS];
    haul_scope *scope = haul_scope_push();
    write_set("resized");
    for (int i = 0; i < PIXELS; i++)
        blocks[i] = (uint8_t)((i % WIDTH - 1) / 2 + 3 * (i / WIDTH / 2)); /* 2x2 pixels of columns 1 to 6 */
    for (int y = 0; y < HEIGHT; y++)
        blocks[y * WIDTH] = 9, blocks[y * WIDTH + WIDTH - 1] = 9;
    put_mask("resized", "masks/a.png", blocks);
    haul_dataset *d = haul_mask_folder("resized", .size = {3, 3});
    if (!d)
        fail_msg("%s", haul_error_message());
    assert_int_equal(classes_of(d), 10);
    assert_int_equal(haul_read(haul_select(whole(d)->y, 0, 0), values, sizeof values), HAUL_OK);
    for (int i = 0; i < 9; i++)
        assert_int_equal(values[i], i); /* columns 0 and 7 are cut off */
    haul_scope_pop(scope);
}

static void test_mask_folder__splits_share_the_classes_of_the_training_split(void **state)
{
    (void)state;
    uint8_t     low[PIXELS] = {0}, high[PIXELS] = {4};
    haul_scope *scope = haul_scope_push();
    mkdir("split", 0777);
    write_set("split/train");
    write_set("split/test");
    put_mask("split/test", "masks/a.png", low);
    put_mask("split/test", "masks/b.png", low);
    haul_dataset *test = haul_mask_folder("split", .test = true);
    if (!test)
        fail_msg("%s", haul_error_message());
    assert_int_equal(classes_of(test), 3);
    assert_string_equal(haul_dataset_name(test), "masks (test)");
    assert_string_equal(haul_dataset_name(haul_mask_folder("split")), "masks (train)");
    put_mask("split/test", "masks/b.png", high);
    assert_null(haul_mask_folder("split", .test = true));
    expect("a class of the test split alone", HAUL_INVALID_ARGUMENT,
           "split/test/masks/b.png has the value 4, and there are 3 classes");
    assert_null(haul_mask_folder("split/train", .test = true));
    expect("no test split", HAUL_IO, "split/train has no folder named test");
    make_folders("split");
    assert_null(haul_mask_folder("split"));
    expect("a split and none", HAUL_INVALID_ARGUMENT, "split has a folder images and also a folder train; move");
    haul_scope_pop(scope);
}

static void test_mask_folder__unsound_folders_are_refused(void **state)
{
    (void)state;
    uint8_t     small[PIXELS] = {0};
    int64_t     blocks = haul__host_blocks();
    haul_scope *scope = haul_scope_push();
    assert_null(haul_mask_folder("nowhere"));
    expect("no folder", HAUL_IO,
           "nowhere has no folder named images: pictures are expected in nowhere/images and their "
           "masks in nowhere/masks");
    write_set("bad");
    remove_from("bad", "masks/b.png");
    assert_null(haul_mask_folder("bad"));
    expect("no mask", HAUL_IO, "bad/images/b.png has no mask: bad/masks/b.png is missing");
    put_mask("bad", "masks/b.png", classes);
    put_mask("bad", "masks/c.png", classes);
    assert_null(haul_mask_folder("bad"));
    expect("no picture", HAUL_INVALID_ARGUMENT, "bad/masks/c.png has no picture in bad/images");
    remove_from("bad", "masks/c.png");
    write_text("bad/images/b.jpg", "x");
    assert_null(haul_mask_folder("bad"));
    expect("two pictures", HAUL_INVALID_ARGUMENT, "bad/masks/b.png is the mask of two pictures");
    remove_from("bad", "images/b.jpg");
    write_png("bad/masks/b.png", HEIGHT - 1, WIDTH, PNG_FORMAT_GRAY, small);
    assert_null(haul_mask_folder("bad"));
    expect("another size", HAUL_FORMAT, "bad/masks/b.png has 8 x 5 pixels and its picture bad/images/b.png has 8 x 6");
    write_png("bad/masks/b.png", HEIGHT, WIDTH, PNG_FORMAT_RGB, rgb);
    assert_null(haul_mask_folder("bad"));
    expect("colours", HAUL_FORMAT, "bad/masks/b.png is no mask: its pixels have colours");
#ifdef PNG_eXIf_SUPPORTED
    write_numbers_turned("bad/masks/b.png", PNG_COLOR_TYPE_GRAY, 8, classes, true);
    assert_null(haul_mask_folder("bad"));
    expect("turned", HAUL_FORMAT, "bad/masks/b.png is turned by its EXIF orientation");
#endif
    write_text("bad/masks/b.png", "no picture");
    assert_null(haul_mask_folder("bad"));
    expect("no picture", HAUL_FORMAT, "bad/masks/b.png is neither a JPEG nor a PNG file");
    write_text("bad/masks/b.png", "\x89PNG\r\n\x1a\n");
    assert_null(haul_mask_folder("bad"));
    expect("cut", HAUL_FORMAT, "bad/masks/b.png");
    put_mask("bad", "masks/b.png", classes);
    write_text("bad/images/x.webp", "x");
    assert_null(haul_mask_folder("bad"));
    expect("foreign", HAUL_INVALID_ARGUMENT, "bad/images/x.webp is neither");
    remove_from("bad", "images/x.webp");
    write_png("bad/images/b.png", HEIGHT - 1, WIDTH, PNG_FORMAT_RGB, rgb);
    write_png("bad/masks/b.png", HEIGHT - 1, WIDTH, PNG_FORMAT_GRAY, small);
    assert_null(haul_mask_folder("bad"));
    expect("sizes differ", HAUL_SHAPE, "bad/images/b.png has 8 x 5 pixels and bad/images/a.png has 8 x 6");
    assert_non_null(haul_mask_folder("bad", .size = {4, 4}));
    assert_null(haul_mask_folder("bad", .size = {4, 4}, .classes = -1));
    expect("negative classes", HAUL_INVALID_ARGUMENT, "classes is -1");
    assert_null(haul_mask_folder("bad", .size = {4, 4}, .classes = 2));
    expect("too few classes", HAUL_INVALID_ARGUMENT, "bad/masks/a.png has the value 2, and there are 2 classes");
    haul_scope_pop(scope);
    assert_int_equal(haul__host_blocks(), blocks);
}

static void test_scenes__have_three_classes(void **state)
{
    (void)state;
    static uint8_t picture[2][3 * 32 * 32];
    static int64_t mask[2][32 * 32];
    int            counts[3] = {0};
    haul_scope    *scope = haul_scope_push();
    haul_dataset  *few = haul_scenes(5, .seed = 3), *many = haul_scenes(50, .seed = 3);
    if (!few || !many)
        fail_msg("%s", haul_error_message());
    for (int i = 0; i < 5; i++) {
        haul_dataset *both[] = {few, many};
        for (int k = 0; k < 2; k++) {
            const haul_batch *batch = whole(both[k]);
            haul_read(haul_select(batch->x, 0, i), picture[k], sizeof picture[k]);
            haul_read(haul_select(batch->y, 0, i), mask[k], sizeof mask[k]);
        }
        assert_memory_equal(picture[0], picture[1], sizeof picture[0]);
        assert_memory_equal(mask[0], mask[1], sizeof mask[0]);
        for (int p = 0; p < 32 * 32; p++)
            counts[mask[0][p]]++;
    }
    assert_true(counts[0] > counts[1] && counts[1] > 50 && counts[2] > 300);
    assert_string_equal(class_name(few, 2), "square");
    assert_null(haul_scenes(-1));
    expect("negative", HAUL_INVALID_ARGUMENT, "-1 examples");
    haul_scope_pop(scope);
}

/* All machines draw the same. */
static void test_scenes__draw_what_they_always_drew(void **state)
{
    (void)state;
    static uint8_t    picture[10 * 3 * 32 * 32];
    static int64_t    mask[10 * 32 * 32];
    uint32_t          sum = 2166136261u;
    haul_scope       *scope = haul_scope_push();
    const haul_batch *batch = whole(haul_scenes(10));
    assert_int_equal(haul_read(batch->x, picture, sizeof picture), HAUL_OK);
    assert_int_equal(haul_read(batch->y, mask, sizeof mask), HAUL_OK);
    for (size_t i = 0; i < sizeof picture; i++)
        sum = (sum ^ picture[i]) * 16777619u;
    for (size_t i = 0; i < sizeof mask / sizeof *mask; i++)
        sum = (sum ^ (uint32_t)mask[i]) * 16777619u;
    assert_int_equal(sum, 0x13c6712c);
    haul_scope_pop(scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mask_folder__numbers_are_classes),
        cmocka_unit_test(test_mask_folder__black_and_white_are_two_classes),
        cmocka_unit_test(test_mask_folder__resized_masks_mix_no_classes),
        cmocka_unit_test(test_mask_folder__splits_share_the_classes_of_the_training_split),
        cmocka_unit_test(test_mask_folder__unsound_folders_are_refused),
        cmocka_unit_test(test_scenes__have_three_classes),
        cmocka_unit_test(test_scenes__draw_what_they_always_drew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void)
{
    return 77; /* skipped */
}
#endif
