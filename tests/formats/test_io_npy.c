/* The npy format: reading, writing, and every kind of file that must be refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <haul/haul.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "core/thread.h"
#include "formats/npy.h"
#include "support/failure.h"

#include "npy_bytes.h"

static void write_bytes(const char *path, const void *data, size_t size)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

/* ---- refused ---- */

static const struct {
    const char *header;
    size_t      count; /* bytes of elements */
    haul_status status;
    const char *message;
} hostile[] = {
    {"  ", 0, HAUL_FORMAT, "not a dictionary"},
    {"{ ", 0, HAUL_FORMAT, "not a dictionary"},
    {"{}", 0, HAUL_FORMAT, "lacks one of"},
    {"{'descr': '<f4', 'fortran_order': False, }", 4, HAUL_FORMAT, "lacks one of"},
    {"{'descr': '<f4', 'shape': (1,), }", 4, HAUL_FORMAT, "lacks one of"},
    {"{'fortran_order': False, 'shape': (1,), }", 4, HAUL_FORMAT, "lacks one of"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'more': 1}", 4, HAUL_FORMAT, "has a key that is not"},
    {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", 4, HAUL_FORMAT, "twice"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x", 4, HAUL_FORMAT, "something follows"},
    {"{'descr': '<f4' 'fortran_order': False, 'shape': (1,)}", 4, HAUL_FORMAT, "not a dictionary"},
    {"{'descr' '<f4', 'fortran_order': False, 'shape': (1,)}", 4, HAUL_FORMAT, "not a dictionary"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,)", 4, HAUL_FORMAT, "not a dictionary"},
    {"{'descr': '<f4, 'fortran_order': False, 'shape': (1,)}", 4, HAUL_DTYPE, "not supported"},
    {"{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", 8, HAUL_FORMAT, "pickled Python objects"},
    {"{'descr': 'f4', 'fortran_order': False, 'shape': (1,)}", 4, HAUL_FORMAT, "byte order"},
    {"{'descr': '|f4', 'fortran_order': False, 'shape': (1,)}", 4, HAUL_FORMAT, "no byte order"},
    {"{'descr': '', 'fortran_order': False, 'shape': (1,)}", 4, HAUL_FORMAT, "byte order"},
    {"{'descr': 4, 'fortran_order': False, 'shape': (1,)}", 4, HAUL_FORMAT, "not a text"},
    {"{'descr': 4<f4, 'fortran_order': False, 'shape': (1,)}", 4, HAUL_FORMAT, "not a text"},
    {"{'descr': '<f\\4', 'fortran_order': False, 'shape': (1,)}", 4, HAUL_FORMAT, "not a text"},
    {"{'descr': '<f\t4', 'fortran_order': False, 'shape': (1,)}", 4, HAUL_FORMAT, "not a text"},
    {"{'a key of more letters than any of the three': 1}", 4, HAUL_FORMAT, "not a dictionary"},
    {"{'descr': '|i2', 'fortran_order': False, 'shape': (1,)}", 4, HAUL_FORMAT, "no byte order"},
    {"{'descr': '<c8', 'fortran_order': False, 'shape': (1,)}", 8, HAUL_DTYPE, "'<c8'"},
    {"{'descr': '<c8', 'fortran_order': False, 'shape': (1,)}", 8, HAUL_DTYPE, "'<c8'"},
    {"{'descr': '<U5', 'fortran_order': False, 'shape': (1,)}", 20, HAUL_DTYPE, "'<U5'"},
    {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", 4, HAUL_DTYPE, "fields"},
    {"{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}", 4, HAUL_FORMAT, "neither True nor False"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': 1}", 4, HAUL_FORMAT, "not a tuple"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (1)}", 4, HAUL_FORMAT, "not a tuple"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", 4, HAUL_FORMAT, "negative"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (1 1)}", 4, HAUL_FORMAT, "commas"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (1.5,)}", 4, HAUL_FORMAT, "commas"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (,)}", 4, HAUL_FORMAT, "not a number"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (x,)}", 4, HAUL_FORMAT, "not a number"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 1, 1, 1, 1, 1, 1, 1)}", 4, HAUL_SHAPE, "8 dimensions"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775808,)}", 4, HAUL_FORMAT, "too large"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}", 4, HAUL_FORMAT, "can be counted"},
    {"{'descr': '<f8', 'fortran_order': False, 'shape': (2305843009213693952,)}", 8, HAUL_FORMAT, "can be counted"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (4000000000000,)}", 4, HAUL_FORMAT, "it has 4"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", 7, HAUL_FORMAT, "needs 8 bytes of elements, it has 7"},
};

static void test_io_npy__hostile_headers_are_refused(void **state)
{
    (void)state;
    uint8_t file[1024];
    for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++)
        for (int version = 1; version <= 3; version++) {
            haul_scope *scope = haul_scope_push();
            haul_error_clear();
            write_bytes("bad.npy", file, build_npy(file, version, hostile[i].header, hostile[i].count));
            if (haul_tensor_is_valid(haul_load_npy("bad.npy")))
                fail_msg("accepted: %s", hostile[i].header);
            if (haul_error_status() != hostile[i].status || !strstr(haul_error_message(), hostile[i].message) ||
                strchr(haul_error_message(), '\n'))
                fail_msg("%s: %s", hostile[i].header, haul_error_message());
            if (!strstr(haul_error_message(), "bad.npy"))
                fail_msg("the file is not named: %s", haul_error_message());
            haul_scope_pop(scope);
        }
    haul_error_clear();
}

static void test_io_npy__every_truncation_is_refused(void **state)
{
    (void)state;
    uint8_t     file[256];
    haul__npy   head;
    size_t      size = build_npy(file, 1, "{'descr': '<i4', 'fortran_order': False, 'shape': (2, 3), }\n", 24);
    haul_scope *scope = haul_scope_push();
    assert_int_equal(haul__npy_parse(file, size, size, "x", &head), HAUL_OK);
    for (size_t cut = 0; cut < size; cut++) {
        uint8_t *copy = malloc(cut + 1); /* so that the address sanitizer sees a read past the end */
        assert_non_null(copy);
        memcpy(copy, file, cut);
        assert_int_equal(haul__npy_parse(copy, cut, cut, "x", &head), HAUL_FORMAT);
        write_bytes("short.npy", copy, cut);
        assert_failed(haul_load_npy("short.npy"));
        assert_int_equal(haul_error_status(), HAUL_FORMAT);
        free(copy);
    }
    haul_error_clear();
    haul_scope_pop(scope);
}

static void test_io_npy__magic_version_and_length_are_checked(void **state)
{
    (void)state;
    uint8_t   file[256], big[16000];
    haul__npy head;
    size_t    size = build_npy(file, 1, "{'descr': '<i4', 'fortran_order': False, 'shape': (1,), }", 4);
    for (size_t i = 0; i < 8; i++) {
        file[i] ^= 0x40;
        assert_int_equal(haul__npy_parse(file, size, size, "x", &head), HAUL_FORMAT);
        file[i] ^= 0x40;
    }
    assert_int_equal(haul__npy_parse(file, size, size, "x", &head), HAUL_OK);
    memset(big, ' ', sizeof big);
    build_npy(big, 2, "{'descr': '<i4', 'fortran_order': False, 'shape': (1,), }", 0);
    big[8] = 10001 & 255;
    big[9] = 10001 >> 8;
    assert_int_equal(haul__npy_parse(big, sizeof big, sizeof big, "x", &head), HAUL_FORMAT);
    assert_non_null(strstr(haul_error_message(), "10,000"));
    big[8] = 10000 & 255;
    assert_int_equal(haul__npy_parse(big, sizeof big, sizeof big, "x", &head), HAUL_OK);
    for (size_t i = 10; i < 12; i++) { /* the upper bytes of the length */
        for (int bit = 0; bit < 8; bit += 7) {
            big[i] = (uint8_t)(1 << bit);
            assert_int_equal(haul__npy_parse(big, sizeof big, sizeof big, "x", &head), HAUL_FORMAT);
            assert_non_null(strstr(haul_error_message(), "10,000"));
        }
        big[i] = 0;
    }
    for (int version = 0; version <= 4; version += 4) {
        build_npy(big, version, "{'descr': '<i4', 'fortran_order': False, 'shape': (1,), }", 0);
        assert_int_equal(haul__npy_parse(big, sizeof big, sizeof big, "x", &head), HAUL_FORMAT);
        assert_non_null(strstr(haul_error_message(), "Haul reads versions 1.0, 2.0 and 3.0"));
    }
    big[7] = 9;
    assert_int_equal(haul__npy_parse(big, sizeof big, sizeof big, "x", &head), HAUL_FORMAT);
    assert_non_null(strstr(haul_error_message(), "x has version 4.9 of the npy format"));
    big[7] = 0;
    for (size_t cut = 12; cut + 4 < size; cut++) { /* the rest of the header is there, behind the end */
        assert_int_equal(haul__npy_parse(file, cut, cut, "x", &head), HAUL_FORMAT);
        assert_non_null(strstr(haul_error_message(), "it ends within its header"));
    }
    big[6] = 2;
    big[8] = big[9] = big[10] = big[11] = 255;
    assert_int_equal(haul__npy_parse(big, sizeof big, sizeof big, "x", &head), HAUL_FORMAT);
    haul_error_clear();
}

static void test_io_npy__what_is_no_file_is_refused(void **state)
{
    (void)state;
    haul_scope *scope = haul_scope_push();
    assert_failed(haul_load_npy("missing.npy"));
    assert_int_equal(haul_error_status(), HAUL_IO);
    assert_non_null(strstr(haul_error_message(), "missing.npy"));
    assert_failed(haul_load_npy("."));
    assert_non_null(strstr(haul_error_message(), "folder"));
    assert_int_equal(mkfifo("pipe", 0600), 0);
    assert_failed(haul_load_npy("pipe")); /* and does not wait for a writer */
    assert_non_null(strstr(haul_error_message(), "pipe"));
    haul_error_clear();
    assert_failed(haul_load_npy(NULL));
    assert_int_equal(haul_error_status(), HAUL_INVALID_ARGUMENT);
    haul_error_clear();
    haul_scope_pop(scope);
}

/* ---- read ---- */

static const struct {
    int         version;
    const char *header;
    haul_dtype  dtype;
    int         ndim;
    int64_t     dims[3];
    double      values[6]; /* of bytes 0, 1, 2 ... */
} sound[] = {
    {1, "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3), }", HAUL_U8, 2, {2, 3}, {0, 1, 2, 3, 4, 5}},
    {2, "{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }", HAUL_U8, 2, {2, 3}, {0, 2, 4, 1, 3, 5}},
    {3, "{\"shape\":(3,2,1),\"descr\":\"<u1\",\"fortran_order\":True}", HAUL_U8, 3, {3, 2, 1}, {0, 3, 1, 4, 2, 5}},
    {1, "{'descr': '<i2', 'fortran_order': False, 'shape': (2,), }\n", HAUL_I16, 1, {2}, {0x0100, 0x0302}},
    {1, "{'descr': '>i2', 'fortran_order': False, 'shape': (2L,), }", HAUL_I16, 1, {2}, {0x0001, 0x0203}},
    {1, "{'descr': '>i4', 'fortran_order': True, 'shape': (1, 2)}", HAUL_I32, 2, {1, 2}, {0x00010203, 0x04050607}},
    {1, "{'descr': '=i8', 'fortran_order': False, 'shape': ()}", HAUL_I64, 0, {0}, {0x0706050403020100}},
    {1, "{'descr': '|b1', 'fortran_order': False, 'shape': (3,)}", HAUL_BOOL, 1, {3}, {0, 1, 1}},
    {1, "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 0, 3)}", HAUL_F64, 3, {2, 0, 3}, {0}},
    {1, "{'descr': '|i1', 'fortran_order': True, 'shape': (0,)}", HAUL_I8, 1, {0}, {0}},
};

static void test_io_npy__all_orders_and_versions_are_read(void **state)
{
    (void)state;
    uint8_t file[512];
    for (size_t i = 0; i < sizeof sound / sizeof *sound; i++) {
        haul_scope *scope = haul_scope_push();
        write_bytes("good.npy", file, build_npy(file, sound[i].version, sound[i].header, 48));
        haul_tensor *t = haul_load_npy("good.npy");
        if (!haul_tensor_is_valid(t))
            fail_msg("%s: %s", sound[i].header, haul_error_message());
        assert_int_equal(haul_tensor_dtype(t), sound[i].dtype);
        assert_int_equal(haul_tensor_ndim(t), sound[i].ndim);
        for (int d = 0; d < sound[i].ndim; d++)
            assert_int_equal(haul_tensor_dim(t, d), sound[i].dims[d]);
        uint8_t data[48];
        int64_t size = haul_dtype_bits(sound[i].dtype) / 8;
        assert_int_equal(haul_read(t, data, sizeof data), HAUL_OK);
        for (int64_t k = 0; k < haul_tensor_count(t); k++) {
            int64_t value = 0; /* all values here are whole and not negative */
            memcpy(&value, data + k * size, (size_t)size);
            assert_true((double)value == sound[i].values[k]);
        }
        haul_scope_pop(scope);
    }
}

/* Into memory of its own, and in place. */
static void test_io_npy__elements_are_decoded(void **state)
{
    (void)state;
    uint8_t   file[256], out[12];
    haul__npy head;
    for (int big = 0; big < 2; big++)
        for (int in_place = 0; in_place < 2; in_place++) {
            const char *text = big ? "{'descr': '>i4', 'fortran_order': False, 'shape': (2,)}"
                                   : "{'descr': '<i4', 'fortran_order': False, 'shape': (2,)}";
            size_t      size = build_npy(file, 1, text, 12);
            assert_int_equal(haul__npy_parse(file, size, size, "x", &head), HAUL_OK);
            uint8_t *in = file + head.offset, *to = in_place ? in : out;
            memset(out, 99, sizeof out);
            haul__npy_decode(&head, in, to);
            for (int i = 0; i < 8; i++)
                assert_int_equal(to[i], big ? i / 4 * 4 + 3 - i % 4 : i);
            for (int i = 8; i < 12; i++) /* nothing behind the elements changes */
                assert_int_equal(to[i], in_place ? i : 99);
            if (!in_place)
                for (int i = 8; i < 12; i++)
                    assert_int_equal(in[i], i);
        }
}

/* ---- written ---- */

static void test_io_npy__what_is_written_is_read_back(void **state)
{
    (void)state;
    static const haul_dtype dtypes[] = {HAUL_BOOL, HAUL_U8,  HAUL_I8,  HAUL_I16, HAUL_I32, HAUL_I64,
                                        HAUL_F32,  HAUL_F64, HAUL_U16, HAUL_U32, HAUL_U64};
    uint8_t                 bytes[6 * 8], back[6 * 8];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 37 + 1);
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        haul_scope  *scope = haul_scope_push();
        haul_tensor *t = haul_from_host(dtypes[i], HAUL_SHAPE(2, 3), bytes);
        if (dtypes[i] == HAUL_BOOL)
            t = haul_from_host(HAUL_BOOL, HAUL_SHAPE(2, 3), (const uint8_t[]){1, 0, 1, 1, 0, 0});
        assert_int_equal(haul_save_npy("out.npy", t), HAUL_OK);
        haul_tensor *u = haul_load_npy("out.npy");
        assert_valid(u);
        assert_int_equal(haul_tensor_dtype(u), dtypes[i]);
        haul_read(t, bytes, sizeof bytes);
        haul_read(u, back, sizeof back);
        assert_memory_equal(bytes, back, haul_tensor_bytes(t));
        haul_scope_pop(scope);
    }
}

static void test_io_npy__elements_begin_at_a_multiple_of_64(void **state)
{
    (void)state;
    haul_scope *scope = haul_scope_push();
    assert_int_equal(haul_save_npy("out.npy", haul_from_host(HAUL_U8, HAUL_SHAPE(1), "\x2a")), HAUL_OK);
    struct stat info;
    assert_int_equal(stat("out.npy", &info), 0);
    assert_int_equal(info.st_size % 64, 1);
    haul_scope_pop(scope);
}

/* ---- interrupted ---- */

static int64_t files_here(void)
{
    FILE *list = popen("ls -A | wc -l", "r");
    int   count = -1;
    assert_non_null(list);
    assert_int_equal(fscanf(list, "%d", &count), 1);
    pclose(list);
    return count;
}

static void test_io_npy__a_failed_write_leaves_the_old_file(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *old = haul_from_host(HAUL_F32, HAUL_SHAPE(2), (const float[]){1, 2});
    haul_tensor *new = haul_from_host(HAUL_F32, HAUL_SHAPE(2), (const float[]){3, 4});
    float back[2];
    assert_int_equal(haul_save_npy("kept.npy", old), HAUL_OK);
    int64_t before = files_here(), blocks = haul__host_blocks(), nth = 1;
    for (;; nth++) {
        haul__fault_plan(HAUL__FAULT_FILE, nth);
        haul_status status = haul_save_npy("kept.npy", new);
        haul__fault_plan(0, 0);
        if (status == HAUL_OK)
            break;
        assert_int_equal(status, HAUL_IO);
        assert_non_null(strstr(haul_error_message(), "kept.npy"));
        haul_error_clear();
        assert_int_equal(files_here(), before);
        assert_int_equal(haul__host_blocks(), blocks);
        haul_scope  *inner = haul_scope_push();
        haul_tensor *t = haul_load_npy("kept.npy");
        assert_valid(t);
        haul_read(t, back, sizeof back);
        assert_true(back[0] == 1 && back[1] == 2);
        haul_scope_pop(inner);
    }
    assert_true(nth > 5); /* create, two writes, folder, sync, rename */
    haul_read(haul_load_npy("kept.npy"), back, sizeof back);
    assert_true(back[0] == 3 && back[1] == 4);
    assert_int_equal(files_here(), before);
    haul_scope_pop(scope);
}

static void test_io_npy__every_failing_allocation_is_an_error(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *t = haul_from_host(HAUL_F32, HAUL_SHAPE(2, 2), (const float[]){1, 2, 3, 4});
    assert_int_equal(haul_save_npy("a.npy", t), HAUL_OK);
    for (int64_t nth = 1;; nth++) {
        int64_t     blocks = haul__host_blocks();
        haul_scope *inner = haul_scope_push();
        haul__fault_plan(HAUL__FAULT_HOST | HAUL__FAULT_DEVICE | HAUL__FAULT_FILE, nth);
        haul_status  status = haul_save_npy("a.npy", t);
        haul_tensor *u = status == HAUL_OK ? haul_load_npy("a.npy") : NULL;
        bool         loaded = haul_tensor_is_valid(u);
        haul__fault_plan(0, 0);
        assert_true(loaded || haul_error_status() != HAUL_OK);
        haul_scope_pop(inner);
        if (loaded)
            break;
        haul_error_clear();
        assert_int_equal(haul__host_blocks(), blocks);
    }
    haul_scope_pop(scope);
}

static void test_io_npy__a_link_is_written_where_it_leads(void **state)
{
    (void)state;
    struct stat  info;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *t = haul_from_host(HAUL_U8, HAUL_SHAPE(3), "abc");
    assert_int_equal(haul_save_npy("target.npy", t), HAUL_OK);
    assert_int_equal(symlink("target.npy", "link.npy"), 0);
    assert_int_equal(haul_save_npy("link.npy", haul_from_host(HAUL_U8, HAUL_SHAPE(200), (uint8_t[200]){0})), HAUL_OK);
    assert_int_equal(lstat("link.npy", &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    assert_int_equal(haul_tensor_count(haul_load_npy("target.npy")), 200);
    haul_scope_pop(scope);
}

static void test_io_npy__what_cannot_be_written_is_an_error(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *t = haul_from_host(HAUL_U8, HAUL_SHAPE(3), "abc");
    assert_int_equal(haul_save_npy("no/such/folder.npy", t), HAUL_IO);
    assert_non_null(strstr(haul_error_message(), "no/such/folder.npy"));
    assert_int_equal(haul_save_npy("/dev/null", t), HAUL_IO);
    assert_int_equal(haul_save_npy(".", t), HAUL_IO);
    haul_error_clear();
    assert_int_equal(haul_save_npy("x.npy", NULL), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_save_npy("x.npy", HAUL_NONE), HAUL_INVALID_ARGUMENT);
    assert_int_equal(access("x.npy", F_OK), -1);
    haul_error_clear();
    haul_scope_pop(scope);
}

static void test_io_npy__loading_goes_to_the_current_device(void **state)
{
    (void)state;
    haul_scope *scope = haul_scope_push();
    assert_int_equal(haul_save_npy("m.npy", haul_from_host(HAUL_U8, HAUL_SHAPE(3), "abc")), HAUL_OK);
    assert_int_equal(haul_set_device(haul_device_get("meta")), HAUL_OK);
    haul_tensor *t = haul_load_npy("m.npy");
    if (!haul_tensor_is_valid(t))
        fail_msg("%s", haul_error_message());
    assert_string_equal(haul_device_name(haul_tensor_device(t)), "meta");
    assert_string_equal(haul_device_name(haul_current_device()), "meta");
    haul_scope_pop(scope);
    assert_failed(haul_load_npy("m.npy")); /* no scope to belong to */
    assert_int_equal(haul_error_status(), HAUL_STATE);
    haul_error_clear();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_io_npy__hostile_headers_are_refused),
        cmocka_unit_test(test_io_npy__every_truncation_is_refused),
        cmocka_unit_test(test_io_npy__magic_version_and_length_are_checked),
        cmocka_unit_test(test_io_npy__what_is_no_file_is_refused),
        cmocka_unit_test(test_io_npy__all_orders_and_versions_are_read),
        cmocka_unit_test(test_io_npy__elements_are_decoded),
        cmocka_unit_test(test_io_npy__what_is_written_is_read_back),
        cmocka_unit_test(test_io_npy__elements_begin_at_a_multiple_of_64),
        cmocka_unit_test(test_io_npy__a_failed_write_leaves_the_old_file),
        cmocka_unit_test(test_io_npy__every_failing_allocation_is_an_error),
        cmocka_unit_test(test_io_npy__a_link_is_written_where_it_leads),
        cmocka_unit_test(test_io_npy__what_cannot_be_written_is_an_error),
        cmocka_unit_test(test_io_npy__loading_goes_to_the_current_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
