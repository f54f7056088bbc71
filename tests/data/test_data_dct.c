/* Blocks of JPEG that Haul transforms have the bytes that libjpeg-turbo gives them, whatever their coefficients and
 * tables, and damaged files fail as they do when the library transforms them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <haul/haul.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "data/image/dct.h"
#include "haul_config.h"

static uint32_t seed = 1;

static uint32_t next_number(uint32_t below)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % below;
}

/* From -most to most. */
static int16_t next_coefficient(int most)
{
    return (int16_t)((int)next_number(2 * (uint32_t)most + 1) - most);
}

/* Blocks of all kinds: one value, one row, few values, many. */
static void draw_block(int most, int16_t *block)
{
    memset(block, 0, 64 * sizeof *block);
    const uint32_t kind = next_number(4);
    block[0] = next_coefficient(most);
    for (int i = 1; i < 64; i++)
        if (kind == 3 || (kind == 2 && next_number(8) == 0) || (kind == 1 && i < 8))
            block[i] = next_coefficient(next_number(4) ? most / 8 + 1 : most);
}

/* ---- the loops ---- */

static int16_t wrapped(int64_t value)
{
    return (int16_t)(uint16_t)value;
}

static int limited(int32_t value, int most)
{
    return value < -most - 1 ? -most - 1 : value > most ? most : value;
}

/* The sums of libjpeg's jidctint.c, which wrap at 16 bits where libjpeg-turbo's vectors do; results are limited to 16
 * bits. */
static void define_pass(int16_t *at, int step, int shift)
{
    int64_t in[8], even[4], odd[4];
    for (int i = 0; i < 8; i++)
        in[i] = at[i * step];
    const int64_t z3 = wrapped(in[7] + in[3]), z4 = wrapped(in[5] + in[1]);
    const int64_t s = wrapped(in[0] + in[4]) * 8192, d = wrapped(in[0] - in[4]) * 8192;
    const int64_t s3 = 9633 * (z3 + z4) - 16069 * z3, s4 = 9633 * (z3 + z4) - 3196 * z4;
    even[0] = s + 4433 * (in[2] + in[6]) + 6270 * in[2];
    even[3] = s - 4433 * (in[2] + in[6]) - 6270 * in[2];
    even[1] = d + 4433 * (in[2] + in[6]) - 15137 * in[6];
    even[2] = d - 4433 * (in[2] + in[6]) + 15137 * in[6];
    odd[0] = 12299 * in[1] - 7373 * (in[7] + in[1]) + s4;
    odd[1] = 25172 * in[3] - 20995 * (in[5] + in[3]) + s3;
    odd[2] = 16819 * in[5] - 20995 * (in[5] + in[3]) + s4;
    odd[3] = 2446 * in[7] - 7373 * (in[7] + in[1]) + s3;
    for (int i = 0; i < 4; i++) {
        const int64_t half = INT64_C(1) << (shift - 1);
        at[i * step] = (int16_t)limited((int32_t)(uint32_t)(even[i] + odd[i] + half) >> shift, 32767);
        at[(7 - i) * step] = (int16_t)limited((int32_t)(uint32_t)(even[i] - odd[i] + half) >> shift, 32767);
    }
}

static void define_block(const int16_t *block, const uint16_t *table, uint8_t *out, int64_t pitch)
{
    int16_t v[64];
    bool    flat = true;
    for (int i = 0; i < 64; i++) {
        v[i] = wrapped(block[i] * (int64_t)table[i]);
        flat = flat && (i < 8 || !block[i]);
    }
    for (int i = 0; i < 8 && !flat; i++)
        define_pass(v + i, 8, 11);
    for (int i = 63; i >= 0 && flat; i--)
        v[i] = wrapped(v[i % 8] * INT64_C(4));
    for (int i = 0; i < 8; i++)
        define_pass(v + 8 * i, 1, 18);
    for (int i = 0; i < 64; i++)
        out[i / 8 * pitch + i % 8] = (uint8_t)(limited(v[i], 127) + 128);
}

static void test_data_dct__all_levels_transform_exactly(void **state)
{
    enum { BLOCKS = 2 * HAUL__DCT_GROUP, PITCH = 8 * BLOCKS + 5 };
    static const int most[] = {3, 60, 1023, 32767}, largest[] = {1, 16, 255, 65535};
    (void)state;
    for (int level = 0; level < HAUL__CPU_LEVELS; level++) {
        haul__dct *dct = haul__dct_of((haul__cpu_level_id)level);
        for (int round = 0; dct && haul__cpu_runs((haul__cpu_level_id)level) && round < 16 * 200; round++) {
            int16_t  blocks[BLOCKS][64];
            uint16_t table[64];
            uint8_t  expected[8 * PITCH] = {0}, found[8 * PITCH] = {0};
            for (int i = 0; i < 64; i++)
                table[i] = (uint16_t)(1 + next_number((uint32_t)largest[round / 4 % 4]));
            for (int b = 0; b < BLOCKS; b++) {
                draw_block(most[round % 4], blocks[b]);
                define_block(blocks[b], table, expected + 8 * b, PITCH);
            }
            dct(blocks[0], table, BLOCKS, found, PITCH);
            assert_memory_equal(found, expected, sizeof found);
        }
    }
}

/* ---- files ---- */

#ifdef HAUL_HAVE_JPEG
#include <jpeglib.h>

enum { SIDE = 100, MOST_BYTES = 1 << 16 };

static int64_t up(int64_t n, int64_t step)
{
    return (n + step - 1) / step * step;
}

/* How a file is made. */
typedef struct form {
    int width, height, across, down, most, largest; /* sampling of Y; limits of coefficients and of tables */
} form;

static void write_blocks(struct jpeg_compress_struct *jpeg, const form *f)
{
    jvirt_barray_ptr arrays[3];
    int64_t          across[3], down[3];
    for (int c = 0; c < 3; c++) {
        const int h = c ? 1 : f->across, v = c ? 1 : f->down;
        jpeg->comp_info[c].h_samp_factor = h;
        jpeg->comp_info[c].v_samp_factor = v;
        across[c] = up(f->width, INT64_C(8) * f->across) / (INT64_C(8) * f->across) * h;
        down[c] = up(f->height, INT64_C(8) * f->down) / (INT64_C(8) * f->down) * v;
        arrays[c] = jpeg->mem->request_virt_barray((j_common_ptr)jpeg, JPOOL_IMAGE, TRUE, (JDIMENSION)across[c],
                                                   (JDIMENSION)down[c], (JDIMENSION)v);
    }
    jpeg_write_coefficients(jpeg, arrays);
    for (int c = 0; c < 3; c++)
        for (int64_t y = 0; y < down[c]; y++) {
            JBLOCKARRAY row = jpeg->mem->access_virt_barray((j_common_ptr)jpeg, arrays[c], (JDIMENSION)y, 1, TRUE);
            for (int64_t x = 0; x < across[c]; x++)
                draw_block(f->most, row[0][x]);
        }
}

static void write_jpeg(const char *path, const form *f)
{
    struct jpeg_compress_struct jpeg;
    struct jpeg_error_mgr       errors;
    FILE                       *file = fopen(path, "wb");
    assert_non_null(file);
    jpeg.err = jpeg_std_error(&errors);
    jpeg_create_compress(&jpeg);
    jpeg_stdio_dest(&jpeg, file);
    jpeg.image_width = (JDIMENSION)f->width;
    jpeg.image_height = (JDIMENSION)f->height;
    jpeg.input_components = 3;
    jpeg.in_color_space = JCS_RGB;
    jpeg_set_defaults(&jpeg);
    jpeg.optimize_coding = TRUE;
    for (int t = 0; t < 2; t++)
        for (int i = 0; i < 64; i++)
            jpeg.quant_tbl_ptrs[t]->quantval[i] = (UINT16)(1 + next_number((uint32_t)f->largest));
    write_blocks(&jpeg, f);
    jpeg_finish_compress(&jpeg);
    jpeg_destroy_compress(&jpeg);
    assert_int_equal(fclose(file), 0);
}

/* What reading the file gives: the pixels' sum with places, or the message. */
static void report(const char *path, FILE *out)
{
    static uint8_t pixels[3 * SIDE * SIDE];
    haul_scope    *scope = haul_scope_push();
    haul_tensor   *picture = haul_read_image(path);
    uint64_t       sum = 0;
    size_t         count = (size_t)haul_tensor_count(picture);
    if (haul_error_status() == HAUL_OK && count <= sizeof pixels && haul_read(picture, pixels, count) == HAUL_OK)
        for (size_t i = 0; i < count; i++)
            sum = (sum ^ pixels[i]) * UINT64_C(1099511628211);
    fprintf(out, "%d %s %zu %llx\n", (int)haul_error_status(), haul_error_message(), count, (unsigned long long)sum);
    haul_error_clear();
    haul_scope_pop(scope);
}

static void write_bytes(const uint8_t *bytes, size_t size)
{
    FILE *file = fopen("damaged.jpg", "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

/* Files that are cut, that have other bytes, and whose scan has the components in another order. */
static void report_damaged(FILE *out)
{
    static uint8_t bytes[MOST_BYTES], other[MOST_BYTES];
    FILE          *file = fopen("x.jpg", "rb");
    assert_non_null(file);
    const size_t size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    for (int i = 0; i < 40; i++) {
        memcpy(other, bytes, size);
        for (uint32_t k = next_number(4); k < 4; k++)
            other[next_number((uint32_t)size)] = (uint8_t)next_number(256);
        write_bytes(other, next_number(3) ? size : next_number((uint32_t)size));
        report("damaged.jpg", out);
    }
    memcpy(other, bytes, size);
    for (size_t i = 0; i + 10 < size; i++)
        if (other[i] == 0xff && other[i + 1] == 0xda) {
            memcpy(other + i + 5, bytes + i + 9, 2);
            memcpy(other + i + 9, bytes + i + 5, 2);
            break;
        }
    write_bytes(other, size);
    report("damaged.jpg", out);
}

static void report_all(const char *path)
{
    static const form forms[] = {{40, 40, 1, 1, 100, 20},     {SIDE, 77, 2, 1, 1023, 2},   {57, SIDE, 2, 2, 60, 255},
                                 {33, 18, 2, 2, 1023, 65535}, {16, 90, 2, 1, 1023, 255},   {SIDE, 1, 1, 1, 1000, 65535},
                                 {SIDE, SIDE, 2, 2, 30, 30},  {17, 17, 2, 2, 1023, 65535}, {64, 48, 1, 2, 60, 30}};
    FILE             *out = fopen(path, "w");
    assert_non_null(out);
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        seed = (uint32_t)i;
        write_jpeg("x.jpg", &forms[i]);
        report("x.jpg", out);
        report_damaged(out);
    }
    assert_int_equal(fclose(out), 0);
}

static void assert_same(const char *a, const char *b)
{
    char  lines[2][400];
    int   count = 0;
    FILE *files[] = {fopen(a, "r"), fopen(b, "r")};
    assert_non_null(files[0]);
    assert_non_null(files[1]);
    while (fgets(lines[0], sizeof lines[0], files[0])) {
        assert_non_null(fgets(lines[1], sizeof lines[1], files[1]));
        assert_string_equal(lines[0], lines[1]);
        count++;
    }
    assert_null(fgets(lines[1], sizeof lines[1], files[1]));
    assert_true(count > 100);
    fclose(files[0]);
    fclose(files[1]);
}

/* The base level leaves blocks to the library. A process keeps its level, so that this test comes first. */
static void test_data_dct__files_have_the_bytes_and_messages_of_the_library(void **state)
{
    int status;
    (void)state;
    if (!haul__cpu_runs(HAUL__CPU_BASE))
        skip();
    const pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        setenv("HAUL_CPU_LEVEL", "base", 1);
        report_all("base.txt");
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    report_all("own.txt");
    assert_same("base.txt", "own.txt");
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
#ifdef HAUL_HAVE_JPEG
        cmocka_unit_test(test_data_dct__files_have_the_bytes_and_messages_of_the_library),
#endif
        cmocka_unit_test(test_data_dct__all_levels_transform_exactly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
