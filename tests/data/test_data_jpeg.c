/* JPEG files whose colours Haul converts have the bytes that libjpeg-turbo gives them: every kind, many sizes, and the
 * loops of every level. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <haul/haul.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/image/image.h"
#include "data/image/ycc.h"
#include "haul_config.h"

static uint32_t seed = 1;

static uint8_t next_byte(void)
{
    seed = seed * 1664525u + 1013904223u;
    return (uint8_t)(seed >> 24);
}

/* ---- the loops ---- */

enum { MOST = 150, ROOM = MOST + 2 * HAUL__YCC_PADDING };

static int clamped(double value)
{
    return value < 0 ? 0 : value > 255 ? 255 : (int)value;
}

/* Factors with 16 bits after the point, sums rounded down after adding a half. */
static void define_pixel(int y, int cb, int cr, uint8_t *out)
{
    out[0] = (uint8_t)clamped(y + ((91881 * (cr - 128) + 32768) >> 16));
    out[1] = (uint8_t)clamped(y + ((-22554 * (cb - 128) - 46802 * (cr - 128) + 32768) >> 16));
    out[2] = (uint8_t)clamped(y + ((116130 * (cb - 128) + 32768) >> 16));
}

/* Converts every value of Cb and Cr, at full resolution. */
static void check_colours(const haul__ycc_loops *loops)
{
    uint8_t y[256 + HAUL__YCC_PADDING] = {0}, cb[sizeof y] = {0}, cr[sizeof y] = {0}, planes[3][256], expected[3];
    const haul__ycc        row = {.y = y, .stored = {cb, cr}};
    const haul__ycc_target to = {.planes = {planes[0], planes[1], planes[2]}};
    for (int i = 0; i < 256; i++) {
        memset(cr, i, 256);
        for (int x = 0; x < 256; x++) {
            y[x] = next_byte();
            cb[x] = (uint8_t)x;
        }
        loops->convert(HAUL__YCC_FULL, &row, 0, 256, &to);
        for (int x = 0; x < 256; x++) {
            define_pixel(y[x], x, i, expected);
            for (int c = 0; c < 3; c++)
                assert_int_equal(planes[c][x], expected[c]);
        }
    }
}

/* Cb or Cr of pixel x between those of two rows: 9/16 of the nearest one, 3/16 and 3/16 of its neighbours, and 1/16. */
static int between(const uint8_t *near, const uint8_t *far, int count, int x)
{
    const int i = x / 2, next = x % 2 ? (i + 1 < count ? i + 1 : i) : i ? i - 1 : 0;
    if (!far)
        return (3 * near[i] + near[next] + (x % 2 ? 2 : 1)) >> 2;
    return (3 * (3 * near[i] + far[i]) + 3 * near[next] + far[next] + (x % 2 ? 7 : 8)) >> 4;
}

static void check_halves(const haul__ycc_loops *loops, haul__ycc_kind kind, int first, int width)
{
    uint8_t              y[ROOM], near[2][ROOM], far[2][ROOM], pixels[4 * ROOM], planes[3][ROOM], expected[3];
    int16_t              sums[2][2 * ROOM] = {{0}};
    _Alignas(64) uint8_t past[3][5 * HAUL__YCC_PADDING];
    haul__ycc            row = {.y = y};
    for (int i = 0; i < ROOM; i++) {
        y[i] = next_byte();
        for (int c = 0; c < 2; c++) {
            near[c][i] = next_byte();
            far[c][i] = next_byte();
        }
    }
    memset(pixels, 77, sizeof pixels);
    memset(planes, 77, sizeof planes);
    memset(past, 77, sizeof past);
    for (int c = 0; c < 2; c++) {
        row.sums[c] = sums[c] + HAUL__YCC_PADDING;
        loops->sums(near[c], kind == HAUL__YCC_HALF ? NULL : far[c], (width + 1) / 2, sums[c] + HAUL__YCC_PADDING);
    }
    loops->convert(kind, &row, first, width, &(haul__ycc_target){.pixels = pixels});
    loops->convert(kind, &row, first, width, &(haul__ycc_target){.planes = {planes[0], planes[1], planes[2]}});
    loops->convert(kind, &row, first, width,
                   &(haul__ycc_target){.planes = {past[0], past[1], past[2]}, .uncached = true});
    for (int x = 0; x < ROOM; x++) {
        const uint8_t *f[2] = {kind == HAUL__YCC_HALF ? NULL : far[0], kind == HAUL__YCC_HALF ? NULL : far[1]};
        memset(expected, 77, sizeof expected);
        if (x >= first && x < width)
            define_pixel(y[x], between(near[0], f[0], (width + 1) / 2, x), between(near[1], f[1], (width + 1) / 2, x),
                         expected);
        for (int c = 0; c < 3; c++) {
            assert_int_equal(planes[c][x], expected[c]);
            assert_int_equal(past[c][x], expected[c]);
            assert_int_equal(pixels[4 * x + c], expected[c]);
        }
    }
}

static void test_data_jpeg__all_levels_convert_exactly(void **state)
{
    (void)state;
    for (int level = 0; level < HAUL__CPU_LEVELS; level++) {
        const haul__ycc_loops *loops = haul__ycc_loops_of((haul__cpu_level_id)level);
        if (!loops || (level && !haul__cpu_runs((haul__cpu_level_id)level)))
            continue;
        check_colours(loops);
        for (int width = 1; width <= MOST; width++)
            for (int first = 0; first < width && first < 10; first += 4) {
                check_halves(loops, HAUL__YCC_HALF, first, width);
                check_halves(loops, HAUL__YCC_QUARTER, first, width);
            }
    }
}

/* ---- files ---- */

#ifdef HAUL_HAVE_JPEG
#include <jpeglib.h>

enum { SIDE = 150 };

/* How Y, and Cb and Cr, are sampled. */
typedef struct sampling {
    int  across, down, chroma_across, chroma_down;
    bool progressive;
} sampling;

static void write_jpeg(const char *path, int width, int height, const sampling *how)
{
    struct jpeg_compress_struct jpeg;
    struct jpeg_error_mgr       errors;
    JSAMPLE                     pixels[3 * SIDE];
    JSAMPROW                    row = pixels;
    FILE                       *file = fopen(path, "wb");
    assert_non_null(file);
    jpeg.err = jpeg_std_error(&errors);
    jpeg_create_compress(&jpeg);
    jpeg_stdio_dest(&jpeg, file);
    jpeg.image_width = (JDIMENSION)width;
    jpeg.image_height = (JDIMENSION)height;
    jpeg.input_components = 3;
    jpeg.in_color_space = JCS_RGB;
    jpeg_set_defaults(&jpeg);
    jpeg_set_quality(&jpeg, 95, TRUE);
    for (int c = 0; c < 3; c++) {
        jpeg.comp_info[c].h_samp_factor = c ? how->chroma_across : how->across;
        jpeg.comp_info[c].v_samp_factor = c ? how->chroma_down : how->down;
    }
    if (how->progressive)
        jpeg_simple_progression(&jpeg);
    jpeg_start_compress(&jpeg, TRUE);
    for (int y = 0; y < height; y++) {
        for (int i = 0; i < 3 * width; i++)
            pixels[i] = (JSAMPLE)((y * 2 + i * 3 / (i % 3 + 1) + next_byte() / 4) & 255);
        jpeg_write_scanlines(&jpeg, &row, 1);
    }
    jpeg_finish_compress(&jpeg);
    jpeg_destroy_compress(&jpeg);
    assert_int_equal(fclose(file), 0);
}

/* [3, height, width], by libjpeg alone. */
static void decode(const char *path, uint8_t *planes)
{
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr         errors;
    JSAMPLE                       pixels[3 * SIDE];
    JSAMPROW                      row = pixels;
    FILE                         *file = fopen(path, "rb");
    assert_non_null(file);
    jpeg.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&jpeg);
    jpeg_stdio_src(&jpeg, file);
    jpeg_read_header(&jpeg, TRUE);
    jpeg_start_decompress(&jpeg);
    for (size_t y = 0, width = jpeg.output_width; y < jpeg.output_height; y++) {
        jpeg_read_scanlines(&jpeg, &row, 1);
        for (size_t i = 0; i < 3 * width; i++)
            planes[(i % 3 * jpeg.output_height + y) * width + i / 3] = pixels[i];
    }
    jpeg_finish_decompress(&jpeg);
    jpeg_destroy_decompress(&jpeg);
    fclose(file);
}

/* As one of a large folder. */
static void read_past(const char *path, uint8_t *out)
{
    const haul__image_form form = {.channels = 3, .uncached = true};
    haul__image            image = {.path = path, .operation = "test", .argument = "path"};
    assert_int_equal(haul__image_open(&image), HAUL_OK);
    assert_int_equal(haul__image_put(&image, &form, out), HAUL_OK);
    haul__image_close(&image);
}

static void check_file(int width, int height, const sampling *how)
{
    static uint8_t              expected[3 * SIDE * SIDE], found[3 * SIDE * SIDE];
    static _Alignas(64) uint8_t past[3 * SIDE * SIDE];
    const size_t                bytes = (size_t)(3 * width * height);
    haul_scope                 *scope = haul_scope_push();
    write_jpeg("x.jpg", width, height, how);
    decode("x.jpg", expected);
    assert_int_equal(haul_read(haul_read_image("x.jpg"), found, bytes), HAUL_OK);
    assert_memory_equal(found, expected, bytes);
    read_past("x.jpg", past);
    assert_memory_equal(past, expected, bytes);
    haul_scope_pop(scope);
}

static void test_data_jpeg__pictures_have_the_bytes_of_libjpeg(void **state)
{
    static const sampling all[] = {{1, 1, 1, 1, false}, {2, 1, 1, 1, false}, {2, 2, 1, 1, false}, {1, 2, 1, 1, false},
                                   {4, 1, 1, 1, false}, {2, 2, 2, 1, false}, {2, 2, 1, 1, true},  {2, 1, 1, 1, true}};
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        for (int side = 1; side <= 40; side++) {
            check_file(side, 20, &all[i]);
            check_file(20, side, &all[i]);
        }
        check_file(SIDE, SIDE - 1, &all[i]);
        check_file(129, 64, &all[i]);
        check_file(128, 33, &all[i]);
    }
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_data_jpeg__all_levels_convert_exactly),
#ifdef HAUL_HAVE_JPEG
        cmocka_unit_test(test_data_jpeg__pictures_have_the_bytes_of_libjpeg),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
