/* GGUF files: every type of value and of tensor, and every kind of damage. */
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "formats/tensor_file.h"
#include "support/datasets.h"
#include "support/linalg.h"

typedef struct bytes {
    uint8_t of[160 << 10];
    size_t  size;
} bytes;

static void put(bytes *b, const void *data, size_t size)
{
    assert_true(b->size + size <= sizeof b->of);
    memcpy(b->of + b->size, data, size);
    b->size += size;
}

static void put_number(bytes *b, uint64_t number, int size)
{
    for (int i = 0; i < size; i++, number >>= 8)
        put(b, &(uint8_t){(uint8_t)number}, 1);
}

static void put_text(bytes *b, const char *text)
{
    put_number(b, strlen(text), 8);
    put(b, text, strlen(text));
}

static void put_head(bytes *b, uint64_t version, uint64_t tensors, uint64_t pairs)
{
    b->size = 0;
    put(b, "GGUF", 4);
    put_number(b, version, 4);
    put_number(b, tensors, 8);
    put_number(b, pairs, 8);
}

static void put_pair(bytes *b, const char *key, int type, uint64_t value, int size)
{
    put_text(b, key);
    put_number(b, (uint64_t)type, 4);
    put_number(b, value, size);
}

static void put_array(bytes *b, const char *key, int type, uint64_t count)
{
    put_text(b, key);
    put_number(b, 9, 4);
    put_number(b, (uint64_t)type, 4);
    put_number(b, count, 8);
}

static void put_tensor(bytes *b, const char *name, int type, uint64_t offset, int ndim, const uint64_t *dims)
{
    put_text(b, name);
    put_number(b, (uint64_t)ndim, 4);
    for (int d = 0; d < ndim; d++)
        put_number(b, dims[d], 8);
    put_number(b, (uint64_t)type, 4);
    put_number(b, offset, 8);
}

static void align(bytes *b, size_t alignment)
{
    while (b->size % alignment)
        put_number(b, 0, 1);
}

static haul_safetensors *reopen(const bytes *b, bool map)
{
    write_bytes("t.gguf", (const char *)b->of, b->size);
    return haul_open_safetensors("t.gguf", .map = map);
}

static void refused(const bytes *b, const char *why)
{
    assert_null(reopen(b, false));
    expect(why, HAUL_FORMAT, why);
}

/* A file with tensors "x", f32 [2, 3] of 0 to 5, and "q", which is quantised. */
static void make_small(bytes *b)
{
    put_head(b, 3, 2, 1);
    put_pair(b, "general.alignment", 4, 64, 4);
    put_tensor(b, "x", 0, 0, 2, (const uint64_t[]){3, 2});
    put_tensor(b, "q", 8, 64, 2, (const uint64_t[]){32, 2});
    align(b, 64);
    for (int i = 0; i < 6; i++) {
        const float    f = (float)i;
        const uint8_t *p = (const uint8_t *)&f;
        put(b, p, 4);
    }
    align(b, 64);
    for (int i = 0; i < 68; i++)
        put_number(b, 0, 1);
}

static void test_gguf__tensors(void **state)
{
    (void)state;
    haul_scope *scope = haul_scope_push();
    bytes       b;
    float       x[6];
    make_small(&b);
    for (int map = 0; map < 2; map++) {
        haul_safetensors *file = reopen(&b, map);
        haul_file_tensor  t;
        assert_non_null(file);
        assert_int_equal(haul_safetensors_count(file), 2);
        haul_tensor *loaded = haul_safetensors_load(file, "x");
        assert_true(haul_tensor_is_valid(loaded));
        assert_int_equal(haul__safetensors_in_place(file, loaded), map);
        assert_int_equal(haul_tensor_shape(loaded).ndim, 2);
        assert_true(haul_tensor_shape(loaded).dims[0] == 2 && haul_tensor_shape(loaded).dims[1] == 3);
        assert_int_equal(haul_read(loaded, x, sizeof x), HAUL_OK);
        for (int i = 0; i < 6; i++)
            assert_true(x[i] == (float)i);
        assert_int_equal(haul_safetensors_entry(file, 0, &t), HAUL_OK);
        if (strcmp(t.name, "q") != 0)
            assert_int_equal(haul_safetensors_entry(file, 1, &t), HAUL_OK);
        assert_string_equal(t.dtype_name, "Q8_0");
        assert_true(t.bytes == 68 && t.shape.dims[0] == 2 && t.shape.dims[1] == 32);
        assert_false(haul_tensor_is_valid(haul_safetensors_load(file, "q")));
        expect("q", HAUL_DTYPE, "'q', which cannot be read: it is quantised (Q8_0)");
        haul_error_clear();
    }
    haul_scope_pop(scope);
}

/* Elements of one byte each, so that their order in memory is that of the file. */
static void test_gguf__dtypes(void **state)
{
    (void)state;
    static const struct {
        int        type;
        haul_dtype dtype;
    } types[] = {{0, HAUL_F32},  {1, HAUL_F16},  {24, HAUL_I8},  {25, HAUL_I16},
                 {26, HAUL_I32}, {27, HAUL_I64}, {28, HAUL_F64}, {30, HAUL_BF16}};
    haul_scope *scope = haul_scope_push();
    bytes       b;
    uint8_t     data[64], back[64];
    for (int i = 0; i < 64; i++)
        data[i] = (uint8_t)i;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        const uint64_t width = (uint64_t)haul_dtype_bits(types[i].dtype) / 8;
        put_head(&b, 2, 1, 0);
        put_tensor(&b, "t", types[i].type, 0, 1, (const uint64_t[]){64 / width});
        align(&b, 32);
        put(&b, data, sizeof data);
        haul_tensor *t = haul_safetensors_load(reopen(&b, false), "t");
        assert_true(haul_tensor_is_valid(t));
        assert_int_equal(haul_tensor_dtype(t), types[i].dtype);
        assert_int_equal(haul_read(t, back, sizeof back), HAUL_OK);
        assert_memory_equal(back, data, sizeof data);
    }
    haul_scope_pop(scope);
}

static void test_gguf__named_values(void **state)
{
    (void)state;
    haul_scope *scope = haul_scope_push();
    bytes       b;
    put_head(&b, 3, 0, 20);
    put_pair(&b, "u8", 0, 255, 1);
    put_pair(&b, "i8", 1, 255, 1);
    put_pair(&b, "u16", 2, 65535, 2);
    put_pair(&b, "i16", 3, 65535, 2);
    put_pair(&b, "u32", 4, 4294967295u, 4);
    put_pair(&b, "i32", 5, 4294967294u, 4);
    put_pair(&b, "f32", 6, 0x3fc00000u, 4);
    put_pair(&b, "bool", 7, 1, 1);
    put_text(&b, "string");
    put_number(&b, 8, 4);
    put_text(&b, "a \xc3\xa9");
    put_pair(&b, "u64", 10, UINT64_MAX, 8);
    put_pair(&b, "i64", 11, UINT64_MAX, 8);
    put_pair(&b, "f64", 12, 0xc004000000000000u, 8);
    put_pair(&b, "small", 6, 0x3727c5acu, 4);
    put_pair(&b, "third", 12, 0x3fd5555555555555u, 8);
    put_pair(&b, "lowest", 1, 128, 1);
    put_pair(&b, "tiny", 6, 1, 4); /* few digits are enough where numbers are far from each other */
    put_pair(&b, "tiniest", 12, 1, 8);
    put_array(&b, "numbers", 5, 3);
    for (int i = 0; i < 3; i++)
        put_number(&b, 7, 4);
    put_array(&b, "tokens", 8, 2);
    put_text(&b, "to");
    put_text(&b, "ken");
    put_array(&b, "nested", 9, 2);
    for (int i = 0; i < 2; i++) {
        put_number(&b, 0, 4);
        put_number(&b, 1, 8);
        put_number(&b, 0, 1);
    }
    haul_safetensors *file = reopen(&b, false);
    assert_non_null(file);
    static const char *const expected[][2] = {
        {"u8", "255"},
        {"i8", "-1"},
        {"u16", "65535"},
        {"i16", "-1"},
        {"u32", "4294967295"},
        {"i32", "-2"},
        {"f32", "1.5"},
        {"bool", "true"},
        {"string", "a \xc3\xa9"},
        {"u64", "18446744073709551615"},
        {"i64", "-1"},
        {"f64", "-2.5"},
        {"small", "1e-05"},
        {"third", "0.3333333333333333"},
        {"lowest", "-128"},
        {"tiny", "1.4013e-45"},
        {"tiniest", "4.94065645841247e-324"},
        {"numbers", "array of 3 i32"},
        {"tokens", "array of 2 string"},
        {"nested", "array of 2 array"},
    };
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        assert_string_equal(haul_safetensors_metadata(file, expected[i][0]), expected[i][1]);
    haul_scope_pop(scope);
}

static void test_gguf__wrong_files_are_refused(void **state)
{
    (void)state;
    static const uint64_t one[] = {1}, many[] = {UINT64_MAX}, wide[] = {1ull << 40, 1ull << 40}, odd[] = {31};
    haul_scope           *scope = haul_scope_push();
    bytes                 b;
    put_head(&b, 1, 0, 0);
    refused(&b, "of another version; versions 2 and 3 in little-endian order can be read");
    put_head(&b, 0x03000000, 0, 0);
    refused(&b, "in big-endian order");
    put_head(&b, 3, UINT64_MAX, 0);
    refused(&b, "more than a million tensors");
    put_head(&b, 3, 0, UINT64_MAX);
    refused(&b, "more than a million named values");
    put_head(&b, 3, 1000, 1000);
    refused(&b, "it ends within its header");
    put_head(&b, 3, 0, 1);
    put_pair(&b, "k", 13, 0, 8);
    refused(&b, "unknown type");
    put_head(&b, 3, 0, 1);
    put_array(&b, "k", 10, UINT64_MAX);
    refused(&b, "it ends within its header");
    put_head(&b, 3, 0, 1);
    put_array(&b, "k", 0, 40); /* fewer than the bytes before them */
    refused(&b, "it ends within its header");
    put_head(&b, 3, 0, 1);
    put_array(&b, "k", 13, 0);
    refused(&b, "it has a value of an unknown type");
    put_head(&b, 3, 0, 1);
    put_number(&b, 33, 8);
    refused(&b, "it has a key of more than 65,535 bytes, or it ends within one");
    put_head(&b, 3, 0, 1);
    put_array(&b, "k", 10, UINT64_MAX / 8 + 1); /* eight bytes each overflow */
    refused(&b, "it ends within its header");
    put_head(&b, 3, 0, 2);
    put_pair(&b, "k", 0, 0, 1);
    put_pair(&b, "k", 0, 0, 1);
    refused(&b, "it has a key twice");
    put_head(&b, 3, 0, 1);
    put_array(&b, "k", 9, 1);
    for (int depth = 0; depth < 20; depth++) {
        put_number(&b, 9, 4);
        put_number(&b, 1, 8);
    }
    refused(&b, "more than eight levels deep");
    put_head(&b, 3, 0, 1);
    put_pair(&b, "general.alignment", 4, 48, 4);
    refused(&b, "general.alignment is not a power of two");
    put_head(&b, 3, 0, 1);
    put_pair(&b, "general.alignment", 10, 10737418240u, 8);
    refused(&b, "general.alignment is not a power of two");
    put_head(&b, 3, 0, 1);
    put_pair(&b, "general.alignment", 4, (uint64_t)2 << 30, 4);
    refused(&b, "general.alignment is not a power of two");
    put_head(&b, 3, 0, 1);
    put_pair(&b, "\xff", 0, 0, 1);
    refused(&b, "not UTF-8");
    put_head(&b, 3, 1, 0);
    put_tensor(&b, "t", 0, 4, 1, one);
    refused(&b, "'t' begins at a place that is not aligned");
    put_head(&b, 3, 1, 0);
    put_tensor(&b, "t", 0, 0, 1, many);
    refused(&b, "'t' has a size of more than 2^63 - 1");
    put_head(&b, 3, 1, 0);
    put_tensor(&b, "t", 0, 0, 2, wide);
    refused(&b, "'t' has a size that does not fit its type");
    put_head(&b, 3, 1, 0);
    put_tensor(&b, "t", 2, 0, 1, odd);
    refused(&b, "'t' has a size that does not fit its type");
    put_head(&b, 3, 1, 0);
    put_tensor(&b, "t", 0, 0, 1, one);
    refused(&b, "'t' goes past the end of the file");
    align(&b, 32);
    put_number(&b, 0, 3);
    refused(&b, "'t' goes past the end of the file");
    put_head(&b, 3, 2, 0);
    put_tensor(&b, "t", 0, 0, 1, one);
    put_tensor(&b, "t", 0, 0, 1, one);
    align(&b, 32);
    put_number(&b, 0, 4);
    refused(&b, "t");
    haul_scope_pop(scope);
}

/* Tensors that cannot be represented do not keep the others from being read. */
static void test_gguf__odd_tensors(void **state)
{
    (void)state;
    static const uint64_t nine[] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    haul_scope           *scope = haul_scope_push();
    bytes                 b;
    put_head(&b, 3, 3, 0);
    put_tensor(&b, "nine", 0, 0, 9, nine);
    put_tensor(&b, "new", 99, 0, 1, nine);
    put_tensor(&b, "t", 0, 0, 0, NULL);
    align(&b, 32);
    put_number(&b, 0x3f800000u, 4);
    haul_safetensors *file = reopen(&b, false);
    assert_non_null(file);
    assert_false(haul_tensor_is_valid(haul_safetensors_load(file, "nine")));
    expect("nine", HAUL_DTYPE, "it has 9 dimensions; tensors have at most 8");
    haul_error_clear();
    assert_false(haul_tensor_is_valid(haul_safetensors_load(file, "new")));
    expect("new", HAUL_DTYPE, "ggml's type 99 is unknown");
    haul_error_clear();
    assert_true(haul_item(haul_safetensors_load(file, "t")) == 1);
    haul_scope_pop(scope);
}

/* Tensors at the end of the file, and the bounds of alignments. */
static void test_gguf__sizes_at_their_bounds(void **state)
{
    (void)state;
    static const uint64_t none[] = {0}, block[] = {32};
    haul_scope           *scope = haul_scope_push();
    bytes                 b;
    for (uint64_t alignment = 1; alignment <= 1 << 30; alignment <<= 30) {
        put_head(&b, 3, 0, 1);
        put_pair(&b, "general.alignment", 4, alignment, 4);
        haul_safetensors *file = reopen(&b, false);
        assert_non_null(file);
        assert_string_equal(haul__safetensors_header_of(file)->format, "gguf");
    }
    put_head(&b, 3, 2, 0);
    put_tensor(&b, "empty", 0, 32, 1, none);
    put_tensor(&b, "block", 8, 0, 1, block);
    align(&b, 32);
    for (int i = 0; i < 34; i++)
        put_number(&b, 0, 1);
    assert_non_null(reopen(&b, false));
    put_head(&b, 3, 1, 0);
    put_tensor(&b, "empty", 0, 0, 1, none);
    align(&b, 32);
    haul_safetensors *file = reopen(&b, false);
    assert_non_null(file);
    assert_int_equal(haul_tensor_count(haul_safetensors_load(file, "empty")), 0);
    haul_scope_pop(scope);
}

/* Texts of the largest size, over the pieces in which the file is read. */
static void test_gguf__long_texts(void **state)
{
    (void)state;
    static char text[65537];
    haul_scope *scope = haul_scope_push();
    bytes       b;
    for (int i = 0; i < 65535; i++)
        text[i] = (char)('a' + i % 23);
    put_head(&b, 3, 1, 2);
    for (int i = 0; i < 2; i++) {
        put_text(&b, i ? "second" : "first");
        put_number(&b, 8, 4);
        text[0] = i ? 'y' : 'x';
        put_text(&b, text);
    }
    put_tensor(&b, "t", 26, 0, 1, (const uint64_t[]){2});
    align(&b, 32);
    put_number(&b, 5, 4);
    put_number(&b, 6, 4);
    haul_safetensors *file = reopen(&b, false);
    assert_non_null(file);
    assert_string_equal(haul_safetensors_metadata(file, "second"), text);
    text[0] = 'x';
    assert_string_equal(haul_safetensors_metadata(file, "first"), text);
    int32_t back[2];
    assert_int_equal(haul_read(haul_safetensors_load(file, "t"), back, sizeof back), HAUL_OK);
    assert_true(back[0] == 5 && back[1] == 6);
    text[65535] = 'z';
    put_head(&b, 3, 0, 1);
    put_text(&b, "k");
    put_number(&b, 8, 4);
    put_text(&b, text);
    refused(&b, "it has a value of more than 65,535 bytes, or it ends within one");
    text[65535] = '\0';
    haul_scope_pop(scope);
}

static void test_gguf__every_failing_allocation_is_an_error(void **state)
{
    (void)state;
    bytes b;
    make_small(&b);
    for (int64_t nth = 1;; nth++) {
        haul_scope *scope = haul_scope_push();
        write_bytes("t.gguf", (const char *)b.of, b.size);
        haul__fault_plan(HAUL__FAULT_HOST, nth);
        const bool opened = haul_open_safetensors("t.gguf") != NULL;
        haul__fault_plan(0, 0);
        assert_int_equal(haul_error_status(), opened ? HAUL_OK : HAUL_OUT_OF_MEMORY);
        haul_error_clear();
        haul_scope_pop(scope);
        if (opened)
            break;
    }
}

static void check_damaged(const bytes *b)
{
    haul_scope       *scope = haul_scope_push();
    haul_safetensors *file = reopen(b, false);
    for (int i = 0; file && i < haul_safetensors_count(file); i++) {
        haul_file_tensor t;
        assert_int_equal(haul_safetensors_entry(file, i, &t), HAUL_OK);
        haul_safetensors_load(file, t.name);
        haul_error_clear();
    }
    haul_error_clear();
    haul_scope_pop(scope);
}

static void test_gguf__damage_is_survived(void **state)
{
    (void)state;
    bytes b;
    make_small(&b);
    const size_t size = b.size;
    for (b.size = 0; b.size < size; b.size++)
        check_damaged(&b);
    for (size_t i = 0; i < size; i++)
        for (int bit = 0; bit < 8; bit++) {
            b.of[i] ^= (uint8_t)(1 << bit);
            check_damaged(&b);
            b.of[i] ^= (uint8_t)(1 << bit);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gguf__tensors),
        cmocka_unit_test(test_gguf__dtypes),
        cmocka_unit_test(test_gguf__named_values),
        cmocka_unit_test(test_gguf__wrong_files_are_refused),
        cmocka_unit_test(test_gguf__odd_tensors),
        cmocka_unit_test(test_gguf__damage_is_survived),
        cmocka_unit_test(test_gguf__sizes_at_their_bounds),
        cmocka_unit_test(test_gguf__long_texts),
        cmocka_unit_test(test_gguf__every_failing_allocation_is_an_error),
    };
    return cmocka_run_group_tests_name("io_gguf", tests, NULL, NULL);
}
