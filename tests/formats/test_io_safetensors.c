/* The safetensors format: round trips, and every kind of file that must be refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <haul/haul.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "core/thread.h"
#include "formats/tensor_file.h"
#include "support/failure.h"

static void write_file(const char *path, uint64_t length, const void *json, size_t json_size, size_t data_size)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    for (int i = 0; i < 8; i++)
        fputc((int)(length >> 8 * i & 255), file);
    assert_int_equal(fwrite(json, 1, json_size, file), json_size);
    for (size_t i = 0; i < data_size; i++)
        fputc((int)(i & 255), file);
    assert_int_equal(fclose(file), 0);
}

/* ---- refused ---- */

#define T(name, dtype, shape, offsets)                                                                                 \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

static const struct {
    const char *json;
    size_t      data;
    const char *message;
} hostile[] = {
    {"", 0, "does not begin with {"},
    {"[]", 0, "does not begin with {"},
    {" {}", 0, "does not begin with {"},
    {"{", 0, "not JSON"},
    {"{\"a\"}", 0, "not JSON"},
    {"{} x", 0, "text after the JSON object"},
    {"{}{}", 0, "text after the JSON object"},
    {"{\"a\":1}", 0, "'a' is not an object"},
    {"{\"a\":null}", 0, "'a' is not an object"},
    {"{\"a\":{}}", 0, "'a' lacks one of"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "'a' lacks one of"},
    {"{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "has a key twice"},
    {"{" T("a", "F32", "[1]", "[0,4]") "," T("a", "F32", "[1]", "[4,8]") "}", 8, "'a' occurs twice"},
    {"{" T("a", "F32", "[1]", "[0,4]") "," T("\\u0061", "F32", "[1]", "[4,8]") "}", 8, "'a' occurs twice"},
    {"{" T("a", "F32", "[1]", "[0,4]") "," T("a", "F32", "[1]", "[0,4]") "}", 4, "'a' occurs twice"},
    {"{" T("a", "F32", "[1]", "[0,4]") "," T("b", "F32", "[1]", "[4,8]") "," T("a", "F32", "[1]", "[0,4]") "}", 8,
     "'a' occurs twice"},
    {"{" T("a", "", "[1]", "[0,8]") "}", 8, "a dtype that is not a name"},
    {"{" T("a", "\\u001b[2J", "[1]", "[0,8]") "}", 8, "a dtype that is not a name"},
    {"{" T("a", "A23456789012345678901234567890123", "[1]", "[0,8]") "}", 8, "a dtype that is not a name"},
    {"{" T("a", "U32", "[1]", "[0,8]") "}", 8, "do not fit its shape"},
    {"{" T("a", "F4", "[3]", "[0,2]") "}", 2, "do not fit its shape"},
    {"{" T("a", "NEW", "[4294967296,4294967296]", "[0,1]") "}", 1, "can be counted"},
    {"{" T("a", "NEW", "[1]", "[1,2]") "}", 2, "follows bytes of no tensor"},
    {"{\"a\":{\"dtype\":1,\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "dtype that is not a string"},
    {"{" T("a", "F32", "1", "[0,4]") "}", 4, "shape that is not an array"},
    {"{" T("a", "F32", "[-1]", "[0,4]") "}", 4, "has the number -1; numbers must be written with digits only"},
    {"{" T("a", "F32", "[1.5]", "[0,4]") "}", 4, "has the number 1.5;"},
    {"{" T("a", "F32", "[1.0]", "[0,4]") "}", 4, "has the number 1.0;"},
    {"{" T("a", "F32", "[1]", "[0,4.0]") "}", 4, "has the number 4.0;"},
    {"{" T("a", "F32", "[1]", "[0,4e0]") "}", 4, "has the number 4e0;"},
    {"{" T("a", "F32", "[1]", "[0,04]") "}", 4, "has the number 04;"},
    {"{" T("a", "F32", "[1]", "[00,4]") "}", 4, "has the number 00;"},
    {"{" T("a", "F32", "[1]", "[-0,4]") "}", 4, "has the number -0;"},
    {"{" T("a", "F32", "[1]", "[0,+4]") "}", 4, "has the number +4;"},
    {"{" T("a", "F32", "[\"1\"]", "[0,4]") "}", 4, "dimension that is not a whole number"},
    {"{" T("a", "F32", "[1e400]", "[0,4]") "}", 4, "has the number 1e400;"},
    {"{" T("a", "F32", "[9007199254740993]", "[0,4]") "}", 4, "dimension that is not a whole number"},
    {"{" T("a", "F32", "[1,1,1,1,1,1,1,1,2]", "[0,4]") "}", 4, "do not fit its shape"},
    {"{" T("a", "F32", "[1]", "[0]") "}", 4, "data_offsets that are not two"},
    {"{" T("a", "F32", "[1]", "[0,4,8]") "}", 4, "data_offsets that are not two"},
    {"{" T("a", "F32", "[1]", "[0,null]") "}", 4, "data_offsets that are not two"},
    {"{" T("a", "F32", "[1]", "[-4,0]") "}", 4, "has the number -4;"},
    {"{" T("a", "F32", "[1]", "[0,9007199254740996]") "}", 4, "data_offsets that are not two"},
    {"{" T("a", "F32", "[1]", "[4,0]") "}", 4, "ends before it begins"},
    {"{" T("a", "F32", "[2]", "[0,8]") "}", 7, "goes past the end"},
    {"{" T("a", "F32", "[2]", "[0,4]") "}", 4, "do not fit its shape"},
    {"{" T("a", "F32", "[0]", "[0,4]") "}", 4, "do not fit its shape"},
    {"{" T("a", "U8", "[4294967296,4294967296]", "[0,0]") "}", 0, "can be counted"},
    {"{" T("a", "U8", "[4294967296,4294967296,4294967296]", "[0,1]") "}", 1, "can be counted"},
    {"{" T("a", "F64", "[4503599627370496,512]", "[0,8]") "}", 8, "can be counted"},
    {"{" T("a", "F32", "[1]", "[0,4]") "}", 5, "bytes after its last tensor"},
    {"{}", 1, "bytes after its last tensor"},
    {"{" T("a", "F32", "[1]", "[4,8]") "}", 8, "follows bytes of no tensor"},
    {"{" T("a", "U8", "[4]", "[0,4]") "," T("b", "U8", "[4]", "[5,9]") "}", 9, "'b' follows bytes of no tensor"},
    {"{" T("a", "U8", "[4]", "[0,4]") "," T("b", "U8", "[4]", "[3,7]") "}", 7, "'b' overlaps"},
    {"{" T("a", "U8", "[4]", "[0,4]") "," T("b", "U8", "[4]", "[0,4]") "}", 4, "overlaps"},
    {"{\"__metadata__\":1}", 0, "__metadata__ is not an object"},
    {"{\"__metadata__\":{\"a\":1}}", 0, "value that is not a string"},
    {"{\"__metadata__\":{\"a\":{}}}", 0, "value that is not a string"},
    {"{\"__metadata__\":{\"a\":\"1\",\"a\":\"2\"}}", 0, "a key twice"},
    {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, "twice"},
    {"{\"\xff\":1}", 0, "not UTF-8"},
    {"{\"\xc0\x80\":1}", 0, "not UTF-8"},         /* an overlong 0 */
    {"{\"\xed\xa0\x80\":1}", 0, "not UTF-8"},     /* a surrogate */
    {"{\"\xf4\x90\x80\x80\":1}", 0, "not UTF-8"}, /* past U+10FFFF */
    {"{\"\xe2\x82\":1}", 0, "not UTF-8"},
    {"{\"a\\u0000b\":1}", 0, "NUL character"},
    {"{\"a\\u0000", 0, "NUL character"},
    {"{\"a\\u000", 0, "not JSON"},
    {"{\"a\":{\"shape\":[[1]]}}", 0, "nested too deeply"},
    {"{\"a\":{\"shape\":[00000000000000000000000000000000000000000000000000]}}", 0,
     "has the number 0000000000000000000000000000000000000000;"},
    {"{\"a\nb\":1}", 0, "control character"},
    {"{\"a\":{\"shape\":[0x10]}}", 0, "has the number 0x10;"},
    {"{\"a\":{\"shape\":[1", 0, "not JSON"},
    {"{\"a\":{\"shape\":[1\xc3\xa9]}}", 0, "has the number 1;"},
    {"{\"a\":{\"shape\":[[[1]]]}}", 0, "nested too deeply"},
    {"{\"a\":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[", 0, "nested too deeply"},
};

static void test_io_safetensors__hostile_headers_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++) {
        haul_scope *scope = haul_scope_push();
        size_t      size = strlen(hostile[i].json);
        int64_t     blocks = haul__host_blocks();
        write_file("bad.safetensors", size, hostile[i].json, size, hostile[i].data);
        haul_error_clear();
        if (haul_open_safetensors("bad.safetensors"))
            fail_msg("accepted: %s", hostile[i].json);
        if (haul_error_status() != HAUL_FORMAT || !strstr(haul_error_message(), hostile[i].message) ||
            !strstr(haul_error_message(), "bad.safetensors") || strchr(haul_error_message(), '\n'))
            fail_msg("%s: %s", hostile[i].json, haul_error_message());
        assert_int_equal(haul__host_blocks(), blocks);
        haul_scope_pop(scope);
    }
    haul_error_clear();
}

/* Eight million values are too many; that many blanks are none. */
static void test_io_safetensors__headers_of_many_bytes(void **state)
{
    (void)state;
    static const char begin[] = "{\"a\":{\"shape\":[";
    const size_t      size = 8000100;
    char             *text = malloc(size);
    haul_scope       *scope = haul_scope_push();
    assert_non_null(text);
    memset(text, ',', size);
    memcpy(text, begin, sizeof begin - 1);
    write_file("many.safetensors", size, text, size, 0);
    assert_null(haul_open_safetensors("many.safetensors"));
    assert_non_null(strstr(haul_error_message(), "its header has too many values"));
    haul_error_clear();
    memset(text, ' ', size);
    text[0] = '{';
    text[size - 1] = '}';
    write_file("blank.safetensors", size, text, size, 0);
    assert_int_equal(haul_safetensors_count(haul_open_safetensors("blank.safetensors")), 0);
    free(text);
    haul_scope_pop(scope);
}

/* A name of 31 letters is that of a dtype, a longer one is not. */
static void test_io_safetensors__names_of_dtypes_have_a_limit(void **state)
{
    (void)state;
    char        json[200];
    haul_scope *scope = haul_scope_push();
    for (int letters = 31; letters <= 32; letters++) {
        snprintf(json, sizeof json, "{\"a\":{\"dtype\":\"%.*s\",\"shape\":[1],\"data_offsets\":[0,2]}}", letters,
                 "ABCDEFGHIJKLMNOPQRSTUVWXYZ_12345");
        write_file("dtype.safetensors", strlen(json), json, strlen(json), 2);
        assert_int_equal(haul_open_safetensors("dtype.safetensors") != NULL, letters == 31);
    }
    assert_non_null(strstr(haul_error_message(), "has a dtype that is not a name of up to 31 letters"));
    haul_error_clear();
    haul_scope_pop(scope);
}

/* Elements in the other byte order, and truth values that are not 1. */
static void test_io_safetensors__elements_are_decoded(void **state)
{
    (void)state;
    uint8_t                 bytes[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    haul__safetensors_entry e = {.dtype = HAUL_I32, .bits = 32, .shape = HAUL_SHAPE(2), .end = 8, .big_endian = true};
    haul__entry_decode(&e, bytes, bytes);
    assert_memory_equal(bytes, "\3\2\1\0\7\6\5\4\10\11\12\13", 12);
    e = (haul__safetensors_entry){.dtype = HAUL_BOOL, .bits = 8, .shape = HAUL_SHAPE(5), .end = 5};
    haul__entry_decode(&e, bytes, bytes);
    assert_memory_equal(bytes, "\1\1\1\0\1\6\5\4", 8);
}

static void test_io_safetensors__lengths_are_checked_before_memory_is_taken(void **state)
{
    (void)state;
    static const uint64_t lengths[] = {3,          1u << 20,      100000001u, UINT64_C(1) << 32, UINT64_C(1) << 63,
                                       UINT64_MAX, UINT64_MAX - 7};
    haul_scope           *scope = haul_scope_push();
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        write_file("long.safetensors", lengths[i], "{}", 2, 0);
        assert_null(haul_open_safetensors("long.safetensors"));
        assert_int_equal(haul_error_status(), HAUL_FORMAT);
        assert_non_null(strstr(haul_error_message(), "header"));
    }
    for (size_t size = 0; size < 8; size++) {
        FILE *file = fopen("short.safetensors", "wb");
        assert_non_null(file);
        assert_int_equal(fwrite("\2\0\0\0\0\0\0\0", 1, size, file), size);
        fclose(file);
        assert_null(haul_open_safetensors("short.safetensors"));
        assert_int_equal(haul_error_status(), HAUL_FORMAT);
    }
    haul_error_clear();
    haul_scope_pop(scope);
}

static void test_io_safetensors__every_truncation_is_refused(void **state)
{
    (void)state;
    static const char json[] = "{" T("a", "F32", "[2]", "[4,12]") "," T("b", "U8", "[4]", "[0,4]") "}   ";
    size_t            size = strlen(json);
    haul_scope       *scope = haul_scope_push();
    write_file("cut.safetensors", size, json, size, 12);
    assert_non_null(haul_open_safetensors("cut.safetensors"));
    for (size_t cut = size + 12 + 8; cut-- > 0;) {
        assert_int_equal(truncate("cut.safetensors", (off_t)cut), 0);
        assert_null(haul_open_safetensors("cut.safetensors"));
        assert_int_equal(haul_error_status(), HAUL_FORMAT);
    }
    haul_error_clear();
    haul_scope_pop(scope);
}

static void test_io_safetensors__a_file_that_shrinks_is_noticed(void **state)
{
    (void)state;
    static const char json[] = "{" T("a", "F32", "[2]", "[0,8]") "}";
    haul_scope       *scope = haul_scope_push();
    write_file("shrinks.safetensors", strlen(json), json, strlen(json), 8);
    haul_safetensors *file = haul_open_safetensors("shrinks.safetensors");
    assert_non_null(file);
    assert_int_equal(truncate("shrinks.safetensors", (off_t)strlen(json) + 10), 0);
    assert_failed(haul_safetensors_load(file, "a"));
    assert_int_equal(haul_error_status(), HAUL_FORMAT);
    haul_error_clear();
    haul_scope_pop(scope);
}

/* ---- read ---- */

static void test_io_safetensors__unusual_but_sound_files_are_read(void **state)
{
    (void)state;
    static const char json[] =
        "{ \"__metadata__\" : {\"b\":\"2\", \"a\":\"\\u00e9\\\"\"},\n" T("z", "U8", "[3]", "[5,8]") "," T(
            "empty", "F32", "[2,0,3]", "[5,5]") "," T("", "BOOL", "[]", "[4,5]") "," T("f", "F32", "[1]",
                                                                                       "[0,4]") "}     ";
    haul_scope *scope = haul_scope_push();
    write_file("odd.safetensors", strlen(json), json, strlen(json), 8);
    haul_safetensors *file = haul_open_safetensors("odd.safetensors");
    if (!file)
        fail_msg("%s", haul_error_message());
    haul_file_tensor entry;
    haul_text_pair   pair;
    assert_int_equal(haul_safetensors_count(file), 4);
    assert_int_equal(haul_safetensors_entry(file, 0, &entry), HAUL_OK);
    assert_string_equal(entry.name, "z");
    assert_int_equal(entry.bytes, 3);
    assert_int_equal(haul_safetensors_entry(file, 1, &entry), HAUL_OK);
    assert_int_equal(entry.shape.ndim, 3);
    assert_int_equal(haul_safetensors_entry(file, 4, &entry), HAUL_INVALID_ARGUMENT);
    haul_error_clear();
    assert_int_equal(haul_safetensors_metadata_count(file), 2);
    assert_int_equal(haul_safetensors_metadata_entry(file, 0, &pair), HAUL_OK);
    assert_string_equal(pair.key, "a");
    assert_string_equal(haul_safetensors_metadata(file, "a"), "\xc3\xa9\"");
    assert_string_equal(haul_safetensors_metadata(file, "b"), "2");
    assert_string_equal(haul_safetensors_metadata(file, "c"), "");
    assert_int_equal(haul_error_status(), HAUL_OK);

    uint8_t bytes[3];
    assert_int_equal(haul_read(haul_safetensors_load(file, "z"), bytes, 3), HAUL_OK);
    assert_true(bytes[0] == 5 && bytes[1] == 6 && bytes[2] == 7);
    assert_true(haul_item(haul_safetensors_load(file, "")) == 1); /* 4 as a truth value */
    assert_int_equal(haul_tensor_count(haul_safetensors_load(file, "empty")), 0);
    assert_failed(haul_safetensors_load(file, "no\nsuch"));
    assert_non_null(strstr(haul_error_message(), "'no?such'"));
    haul_error_clear();
    haul_scope_pop(scope);
}

static void test_io_safetensors__halves_are_listed_and_loaded(void **state)
{
    (void)state;
    static const char json[] = "{" T("h", "F16", "[2]", "[0,4]") "," T("b", "BF16", "[1]", "[4,6]") "}";
    haul_file_tensor  entry;
    haul_scope       *scope = haul_scope_push();
    write_file("half.safetensors", strlen(json), json, strlen(json), 6);
    haul_safetensors *file = haul_open_safetensors("half.safetensors");
    assert_int_equal(haul_safetensors_entry(file, 1, &entry), HAUL_OK);
    assert_int_equal(entry.dtype, HAUL_BF16);
    uint16_t h[2], b;
    assert_int_equal(haul_read(haul_safetensors_load(file, "h"), h, sizeof h), HAUL_OK);
    assert_int_equal(haul_read(haul_safetensors_load(file, "b"), &b, sizeof b), HAUL_OK);
    assert_memory_equal(h, ((const uint8_t[]){0, 1, 2, 3}), 4);
    assert_memory_equal(&b, ((const uint8_t[]){4, 5}), 2);
    haul_scope_pop(scope);
}

static void test_io_safetensors__unknown_dtypes_are_listed_and_only_loading_them_fails(void **state)
{
    (void)state;
    static const struct {
        const char *name, *dtype;
        uint64_t    bytes;
    } tensors[] = {{"a", "C64", 8}, {"b", "F8_E4M3", 2}, {"c", "F4", 1}, {"d\x1b", "NEW_1", 3}};
    static const char json[] = "{" T("a", "C64", "[1]", "[0,8]") "," T("b", "F8_E4M3", "[2]", "[8,10]") "," T(
        "c", "F4", "[2]", "[10,11]") "," T("d\\u001b", "NEW_1", "[2]", "[11,14]") "," T("e", "U8", "[2]",
                                                                                        "[14,16]") "}";
    haul_scope *scope = haul_scope_push();
    write_file("new.safetensors", strlen(json), json, strlen(json), 16);
    for (int map = 0; map <= 1; map++) {
        haul_file_tensor  entry;
        haul_safetensors *file = haul_open_safetensors("new.safetensors", .map = map);
        if (!file)
            fail_msg("%s", haul_error_message());
        for (int i = 0; i < 4; i++) {
            char words[64];
            assert_int_equal(haul_safetensors_entry(file, i, &entry), HAUL_OK);
            assert_string_equal(entry.name, tensors[i].name);
            assert_string_equal(entry.dtype_name, tensors[i].dtype);
            assert_int_equal(entry.dtype, HAUL_DTYPE_NONE);
            assert_int_equal(entry.bytes, tensors[i].bytes);
            assert_failed(haul_safetensors_load(file, tensors[i].name));
            assert_int_equal(haul_error_status(), HAUL_DTYPE);
            snprintf(words, sizeof words, "holds '%.1s%s' with the dtype %s,", tensors[i].name, i == 3 ? "?" : "",
                     tensors[i].dtype);
            if (!strstr(haul_error_message(), words) || !strstr(haul_error_message(), "new.safetensors"))
                fail_msg("%s", haul_error_message());
            haul_error_clear();
        }
        uint8_t bytes[2];
        assert_int_equal(haul_safetensors_entry(file, 4, &entry), HAUL_OK);
        assert_string_equal(entry.dtype_name, "U8");
        assert_int_equal(haul_read(haul_safetensors_load(file, "e"), bytes, 2), HAUL_OK);
        assert_memory_equal(bytes, ((const uint8_t[]){14, 15}), 2);
    }
    haul_scope_pop(scope);
}

/* Sound files that other writers may make: a tensor that cannot be represented does not keep others from being read. */
static void test_io_safetensors__odd_files_open(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "{\"__metadata__\":null," T("a", "U8", "[2]", "[0,2]") "," T("n", "U8", "[1,1,1,1,1,1,1,1,2]", "[2,4]") "}",
        "{\"__metadata__\":{\"k\":null,\"l\":\"m\"}," T("n", "U8", "[2,1,1,1,1,1,1,1,1]",
                                                        "[2,4]") "," T("a", "U8", "[2]", "[0,2]") "}",
        "{\"a\":{\"new\":{\"x\":1},\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2],\"more\":[\"y\",2]}," T(
            "n", "U8", "[1,1,1,1,2,1,1,1,1]", "[2,4]") "}"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        haul_scope      *scope = haul_scope_push();
        haul_file_tensor entry = {.name = ""};
        uint8_t          bytes[2];
        write_file("odd.safetensors", strlen(texts[i]), texts[i], strlen(texts[i]), 4);
        haul_safetensors *file = haul_open_safetensors("odd.safetensors");
        if (!file)
            fail_msg("%s", haul_error_message());
        assert_int_equal(haul_safetensors_count(file), 2);
        assert_int_equal(haul_safetensors_metadata_count(file), i == 1);
        assert_string_equal(haul_safetensors_metadata(file, "l"), i == 1 ? "m" : "");
        assert_int_equal(haul_read(haul_safetensors_load(file, "a"), bytes, 2), HAUL_OK);
        assert_memory_equal(bytes, ((const uint8_t[]){0, 1}), 2);
        for (int k = 0; k < 2; k++) {
            assert_int_equal(haul_safetensors_entry(file, k, &entry), HAUL_OK);
            assert_true((strcmp(entry.name, "n") == 0) == (entry.fault != NULL));
        }
        assert_failed(haul_safetensors_load(file, "n"));
        assert_int_equal(haul_error_status(), HAUL_SHAPE);
        assert_non_null(strstr(haul_error_message(), "holds 'n', which cannot be read: it has 9 dimensions"));
        haul_error_clear();
        haul_scope_pop(scope);
    }
}

/* ---- written ---- */

static void test_io_safetensors__all_dtypes_and_layouts_come_back(void **state)
{
    (void)state;
    static const haul_dtype dtypes[] = {HAUL_U8,  HAUL_I8,  HAUL_I16,  HAUL_I32, HAUL_I64, HAUL_F16, HAUL_BF16,
                                        HAUL_F32, HAUL_F64, HAUL_BOOL, HAUL_U16, HAUL_U32, HAUL_U64};
    enum { COUNT = 13 };
    uint8_t           bytes[48], back[48];
    char              names[COUNT][8];
    haul_named_tensor tensors[COUNT + 2];
    haul_scope       *scope = haul_scope_push();
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = i < 24 ? (uint8_t)(i & 1) : (uint8_t)(i * 5);
    for (int i = 0; i < COUNT; i++) {
        snprintf(names[i], sizeof names[i], "t%d", i);
        tensors[i] = (haul_named_tensor){names[i], haul_from_host(dtypes[i], HAUL_SHAPE(2, 3), bytes), false};
    }
    tensors[COUNT] =
        (haul_named_tensor){"turned \"\\\x01", haul_permute(tensors[3].tensor, (const int[]){1, 0}, 2), false};
    tensors[COUNT + 1] = (haul_named_tensor){"none", haul_zeros(HAUL_F32, HAUL_SHAPE(0, 4)), false};
    const haul_text_pair metadata[] = {{"b", "line\nline"}, {"a", "\xe2\x82\xac"}};
    assert_int_equal(haul_save_safetensors("all.safetensors", tensors, COUNT + 2, metadata, 2), HAUL_OK);

    haul_safetensors *file = haul_open_safetensors("all.safetensors");
    if (!file)
        fail_msg("%s", haul_error_message());
    assert_string_equal(haul_safetensors_metadata(file, "b"), "line\nline");
    assert_string_equal(haul_safetensors_metadata(file, "a"), "\xe2\x82\xac");
    for (int i = 0; i < COUNT + 2; i++) {
        haul_tensor *t = haul_safetensors_load(file, tensors[i].name);
        if (!haul_tensor_is_valid(t))
            fail_msg("%s", haul_error_message());
        haul_shape a = haul_tensor_shape(t), b = haul_tensor_shape(tensors[i].tensor);
        assert_memory_equal(&a, &b, sizeof(int) + sizeof(int64_t));
        assert_int_equal(haul_tensor_dtype(t), haul_tensor_dtype(tensors[i].tensor));
        assert_int_equal(haul_read(tensors[i].tensor, bytes, sizeof bytes), HAUL_OK);
        assert_int_equal(haul_read(t, back, sizeof back), HAUL_OK);
        assert_memory_equal(bytes, back, haul_tensor_bytes(t));
    }
    haul_scope_pop(scope);
}

static void test_io_safetensors__data_is_aligned(void **state)
{
    (void)state;
    uint8_t           first[8];
    haul_scope       *scope = haul_scope_push();
    haul_named_tensor tensors[] = {
        {"small", haul_zeros(HAUL_U8, HAUL_SHAPE(3)), false},
        {"large", haul_zeros(HAUL_F64, HAUL_SHAPE(3)), false},
        {"middle", haul_zeros(HAUL_F32, HAUL_SHAPE(3)), false},
    };
    assert_int_equal(haul_save_safetensors("aligned.safetensors", tensors, 3, NULL, 0), HAUL_OK);
    FILE *file = fopen("aligned.safetensors", "rb");
    assert_non_null(file);
    assert_int_equal(fread(first, 1, 8, file), 8);
    fclose(file);
    assert_int_equal(first[0] % 8, 0);
    haul_safetensors               *opened = haul_open_safetensors("aligned.safetensors");
    const haul__safetensors_header *header = haul__safetensors_header_of(opened);
    assert_int_equal(haul__safetensors_find(header, "large")->begin, 0);
    assert_int_equal(haul__safetensors_find(header, "middle")->begin, 24);
    assert_int_equal(haul__safetensors_find(header, "small")->begin, 36);
    haul_scope_pop(scope);
}

/* Tensors of equal sizes stay in their order, and only what JSON demands is escaped. */
static void test_io_safetensors__order_and_names_are_kept(void **state)
{
    (void)state;
    static const char *const names[] = {"c", "a b", "b"};
    haul_named_tensor        tensors[3];
    char                     text[400] = "";
    haul_scope              *scope = haul_scope_push();
    for (int i = 0; i < 3; i++)
        tensors[i] = (haul_named_tensor){.name = names[i], .tensor = haul_full(HAUL_F32, HAUL_SHAPE(2), i)};
    tensors[1].tensor = haul_transpose(haul_ones(HAUL_F32, HAUL_SHAPE(2, 3)), 0, 1); /* which is copied */
    assert_int_equal(haul_save_safetensors("order.safetensors", tensors, 3, NULL, 0), HAUL_OK);
    const int64_t blocks = haul__counted_blocks();
    assert_int_equal(haul_save_safetensors("order.safetensors", tensors, 3, NULL, 0), HAUL_OK);
    assert_int_equal(haul__counted_blocks(), blocks);
    FILE *file = fopen("order.safetensors", "rb");
    assert_non_null(file);
    assert_true(fread(text, 1, sizeof text - 1, file) > 8);
    fclose(file);
    const char *c = strstr(text + 8, "\"c\":"), *a = strstr(text + 8, "\"a b\":"), *b = strstr(text + 8, "\"b\":");
    assert_true(c && a && b && c < a && a < b);
    haul_scope_pop(scope);
}

static void test_io_safetensors__bad_arguments_write_nothing(void **state)
{
    (void)state;
    haul_scope             *scope = haul_scope_push();
    haul_tensor            *t = haul_zeros(HAUL_F32, HAUL_SHAPE(1));
    const haul_named_tensor twice[] = {{"a", t, false}, {"b", t, false}, {"a", t, false}};
    const haul_named_tensor taken = {"__metadata__", t, false}, latin = {"\xe9", t, false}, lost = {"a", NULL, false},
                            none = {"a", HAUL_NONE, false}, good = {"a", t, false};
    const haul_text_pair doubled[] = {{"a", "1"}, {"a", "2"}}, bad = {"a", "\xff"};
    const char          *path = "never.safetensors";
    assert_int_equal(haul_save_safetensors(path, twice, 3, NULL, 0), HAUL_INVALID_ARGUMENT);
    assert_non_null(strstr(haul_error_message(), "'a'"));
    assert_int_equal(haul_save_safetensors(path, &taken, 1, NULL, 0), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_save_safetensors(path, &latin, 1, NULL, 0), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_save_safetensors(path, &none, 1, NULL, 0), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_save_safetensors(path, &good, -1, NULL, 0), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_save_safetensors(path, NULL, 1, NULL, 0), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_save_safetensors(path, &good, 1, doubled, 2), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_save_safetensors(path, &good, 1, &bad, 1), HAUL_INVALID_ARGUMENT);
    haul_error_clear();
    assert_int_equal(haul_save_safetensors(path, &lost, 1, NULL, 0), HAUL_INVALID_ARGUMENT);
    assert_int_equal(access(path, F_OK), -1);
    haul_error_clear();
    haul_scope_pop(scope);
}

static void test_io_safetensors__every_failure_leaves_the_old_file(void **state)
{
    (void)state;
    haul_scope       *scope = haul_scope_push();
    haul_named_tensor old = {"a", haul_from_host(HAUL_F32, HAUL_SHAPE(1), &(float){1}), false};
    haul_named_tensor new = {"a", haul_from_host(HAUL_F32, HAUL_SHAPE(1), &(float){2}), false};
    haul_text_pair text = {"k", "v"};
    assert_int_equal(haul_save_safetensors("kept.safetensors", &old, 1, &text, 1), HAUL_OK);
    for (int64_t nth = 1;; nth++) {
        int64_t blocks = haul__host_blocks();
        haul__fault_plan(HAUL__FAULT_HOST | HAUL__FAULT_FILE | HAUL__FAULT_COPY, nth);
        haul_status status = haul_save_safetensors("kept.safetensors", &new, 1, &text, 1);
        haul__fault_plan(0, 0);
        assert_int_equal(haul__host_blocks(), blocks);
        assert_int_equal(access("kept.safetensors.tmp", F_OK), -1);
        haul_scope *inner = haul_scope_push();
        float       value = (float)haul_item(haul_safetensors_load(haul_open_safetensors("kept.safetensors"), "a"));
        assert_true(value == (status == HAUL_OK ? 2 : 1));
        haul_scope_pop(inner);
        haul_error_clear();
        if (status == HAUL_OK)
            break;
    }
    haul_scope_pop(scope);
}

static void test_io_safetensors__every_failure_to_read_is_an_error(void **state)
{
    (void)state;
    haul_scope       *scope = haul_scope_push();
    haul_named_tensor tensor = {"a", haul_from_host(HAUL_F32, HAUL_SHAPE(1), &(float){1}), false};
    haul_text_pair    text = {"k", "v"};
    assert_int_equal(haul_save_safetensors("r.safetensors", &tensor, 1, &text, 1), HAUL_OK);
    bool loaded = false;
    for (int64_t nth = 1; !loaded; nth++) {
        int64_t     blocks = haul__host_blocks();
        haul_scope *inner = haul_scope_push();
        haul__fault_plan(HAUL__FAULT_HOST | HAUL__FAULT_FILE | HAUL__FAULT_DEVICE | HAUL__FAULT_COPY, nth);
        haul_safetensors *file = haul_open_safetensors("r.safetensors");
        loaded = haul_tensor_is_valid(haul_safetensors_load(file, "a"));
        haul__fault_plan(0, 0);
        assert_true(loaded || haul_error_status() != HAUL_OK);
        haul_error_clear();
        haul_scope_pop(inner);
        if (!loaded)
            assert_int_equal(haul__host_blocks(), blocks);
    }
    haul_scope_pop(scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_io_safetensors__hostile_headers_are_refused),
        cmocka_unit_test(test_io_safetensors__headers_of_many_bytes),
        cmocka_unit_test(test_io_safetensors__names_of_dtypes_have_a_limit),
        cmocka_unit_test(test_io_safetensors__elements_are_decoded),
        cmocka_unit_test(test_io_safetensors__lengths_are_checked_before_memory_is_taken),
        cmocka_unit_test(test_io_safetensors__every_truncation_is_refused),
        cmocka_unit_test(test_io_safetensors__a_file_that_shrinks_is_noticed),
        cmocka_unit_test(test_io_safetensors__unusual_but_sound_files_are_read),
        cmocka_unit_test(test_io_safetensors__halves_are_listed_and_loaded),
        cmocka_unit_test(test_io_safetensors__odd_files_open),
        cmocka_unit_test(test_io_safetensors__unknown_dtypes_are_listed_and_only_loading_them_fails),
        cmocka_unit_test(test_io_safetensors__all_dtypes_and_layouts_come_back),
        cmocka_unit_test(test_io_safetensors__data_is_aligned),
        cmocka_unit_test(test_io_safetensors__order_and_names_are_kept),
        cmocka_unit_test(test_io_safetensors__bad_arguments_write_nothing),
        cmocka_unit_test(test_io_safetensors__every_failure_leaves_the_old_file),
        cmocka_unit_test(test_io_safetensors__every_failure_to_read_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
