/* npz files: round trips, archives with 64-bit sizes, and every kind of damage. io_python.py compares them with NumPy.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "formats/tensor_file.h"
#include "formats/zip.h"
#include "support/datasets.h"
#include "support/linalg.h"

#include "npy_bytes.h"

static const haul_dtype DTYPES[] = {HAUL_BOOL, HAUL_U8,  HAUL_I8,  HAUL_I16, HAUL_I32, HAUL_I64,
                                    HAUL_F16,  HAUL_F32, HAUL_F64, HAUL_U16, HAUL_U32, HAUL_U64};
enum { COUNT = sizeof DTYPES / sizeof *DTYPES };

/* One tensor of each dtype. */
static void make_tensors(haul_named_tensor tensors[COUNT])
{
    for (int i = 0; i < COUNT; i++) {
        haul_tensor *t = haul_cast(haul_reshape(haul_arange(HAUL_I64, 0, 12, 1), HAUL_SHAPE(3, 4)), DTYPES[i]);
        tensors[i] = (haul_named_tensor){.name = haul_dtype_name(DTYPES[i]), .tensor = t};
    }
}

static void expect_same(haul_tensor *a, haul_tensor *b)
{
    uint8_t x[256], y[256];
    assert_true(haul_tensor_is_valid(a) && haul_tensor_is_valid(b));
    assert_int_equal(haul_tensor_dtype(a), haul_tensor_dtype(b));
    assert_true(haul_tensor_bytes(a) == haul_tensor_bytes(b) && haul_tensor_bytes(a) <= sizeof x);
    assert_int_equal(haul_read(a, x, haul_tensor_bytes(a)), HAUL_OK);
    assert_int_equal(haul_read(b, y, haul_tensor_bytes(b)), HAUL_OK);
    assert_memory_equal(x, y, haul_tensor_bytes(a));
}

static void test_npz__round_trip(void **state)
{
    (void)state;
    haul_scope       *scope = haul_scope_push();
    haul_named_tensor tensors[COUNT];
    make_tensors(tensors);
    for (int compress = 0; compress < 2; compress++) {
        const haul_status status = haul_save_npz("t.npz", tensors, COUNT, compress);
        if (status == HAUL_UNSUPPORTED)
            continue; /* a build without zlib */
        assert_int_equal(status, HAUL_OK);
        for (int map = 0; map < 2; map++) {
            haul_safetensors *file = haul_open_safetensors("t.npz", .map = map);
            assert_non_null(file);
            assert_int_equal(haul_safetensors_count(file), COUNT);
            for (int i = 0; i < COUNT; i++) {
                haul_tensor *t = haul_safetensors_load(file, tensors[i].name);
                expect_same(t, tensors[i].tensor);
                /* stored arrays are aligned, and used in place */
                assert_int_equal(haul__safetensors_in_place(file, t), map && !compress && DTYPES[i] != HAUL_BOOL);
            }
        }
    }
    assert_int_equal(haul_save_npz("e.npz", NULL, 0, false), HAUL_OK);
    assert_int_equal(haul_safetensors_count(haul_open_safetensors("e.npz")), 0);
    haul_scope_pop(scope);
}

static void test_npz__modules_load_from_them(void **state)
{
    (void)state;
    haul_scope       *scope = haul_scope_push();
    haul_module      *a = haul_nn_linear(3, 2), *b = haul_nn_linear(3, 2);
    haul_named_tensor tensors[2];
    assert_int_equal(haul_module_tensors(a, tensors, 2), 2);
    assert_int_equal(haul_save_npz("w.npz", tensors, 2, false), HAUL_OK);
    assert_int_equal(haul_load_weights("w.npz", b), HAUL_OK);
    expect_same(haul_module_parameter(a, "weight"), haul_module_parameter(b, "weight"));
    expect_same(haul_module_parameter(a, "bias"), haul_module_parameter(b, "bias"));
    haul_scope_pop(scope);
}

static void test_npz__wrong_tensors_are_refused(void **state)
{
    (void)state;
    haul_scope       *scope = haul_scope_push();
    haul_tensor      *t = haul_ones(HAUL_F32, HAUL_SHAPE(2));
    haul_named_tensor two[] = {{.name = "a", .tensor = t}, {.name = "a", .tensor = t}};
    assert_int_equal(haul_save_npz("x.npz", two, 2, false), HAUL_INVALID_ARGUMENT);
    expect("twice", HAUL_INVALID_ARGUMENT, "two tensors are named 'a'");
    two[1] = (haul_named_tensor){.name = "b", .tensor = haul_cast(t, HAUL_BF16)};
    assert_int_equal(haul_save_npz("x.npz", two, 2, false), HAUL_DTYPE);
    expect("bf16", HAUL_DTYPE, "'b' is bf16, which npz files cannot hold");
    two[1] = (haul_named_tensor){.name = "\xff", .tensor = t};
    assert_int_equal(haul_save_npz("x.npz", two, 2, false), HAUL_INVALID_ARGUMENT);
    expect("name", HAUL_INVALID_ARGUMENT, "names are UTF-8");
    char *name = calloc(60002, 1);
    assert_non_null(name);
    memset(name, 'n', 60000);
    two[1].name = name;
    assert_int_equal(haul_save_npz("x.npz", two, 2, false), HAUL_OK);
    name[60000] = 'n';
    assert_int_equal(haul_save_npz("x.npz", two, 2, false), HAUL_INVALID_ARGUMENT);
    expect("long name", HAUL_INVALID_ARGUMENT, "of at most 60,000 bytes");
    free(name);
    two[1].name = NULL;
    assert_int_equal(haul_save_npz("x.npz", two, 2, false), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_save_npz(NULL, two, 1, false), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_save_npz("x.npz", NULL, 1, false), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_save_npz("x.npz", two, -1, false), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_save_npz("no/x.npz", two, 1, false), HAUL_IO);
    haul_error_clear();
    haul_scope_pop(scope);
}

/* Archives whose records have 64-bit numbers, as those above 4 GiB have. */
static void test_npz__sizes_of_64_bits(void **state)
{
    (void)state;
    static const char text[] = "some bytes of a member, some bytes";
    char              back[sizeof text];
    haul__file        file;
    haul__zip         zip;
    for (uint64_t limit = 0; limit < 400; limit += 50) {
        haul__zip_writer w = {.file = haul__writer_open("64.zip", "test"), .operation = "test", .limit = limit};
        assert_non_null(w.file);
        for (char name[] = "a"; *name < 'f'; ++*name)
            assert_int_equal(haul__zip_put(&w, name, false, text, 10, text + 10, sizeof text - 10), HAUL_OK);
        assert_int_equal(haul__zip_end(&w), HAUL_OK);
        assert_int_equal(haul__writer_commit(w.file), HAUL_OK);
        haul__free(w.directory);
        assert_int_equal(haul__file_open(&file, "64.zip", "test"), HAUL_OK);
        assert_int_equal(haul__zip_open(&zip, &file), HAUL_OK);
        assert_int_equal(zip.count, 5);
        assert_null(haul__zip_find(&zip, "f"));
        for (char name[] = "a"; *name < 'f'; ++*name) {
            const haul__zip_member *m = haul__zip_find(&zip, name);
            assert_non_null(m);
            assert_true(m->size == sizeof text && m->data % 64 == 0);
            assert_int_equal(haul__zip_read(&file, m, 0, back, sizeof back), HAUL_OK);
            assert_memory_equal(back, text, sizeof text);
            assert_int_equal(haul__zip_read(&file, m, 1, back, sizeof back), HAUL_FORMAT);
        }
        haul__zip_free(&zip);
        haul__file_close(&file);
    }
    haul_error_clear();
}

/* Arrays as other programs write them; one that cannot be read does not keep the others from it. */
static void test_npz__arrays_of_other_programs(void **state)
{
    (void)state;
    static const struct {
        const char *name, *header;
        size_t      count;
    } arrays[] = {{"big.npy", "{'descr': '>i2', 'fortran_order': False, 'shape': (2,)}", 4},
                  {"columns.npy", "{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3, 2)}", 12},
                  {"complex.npy", "{'descr': '<c8', 'fortran_order': False, 'shape': (1,)}", 8},
                  {"list.npy", "{'descr': '|u1', 'fortran_order': True, 'shape': (3,)}", 3},
                  {"matrix.npy", "{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3)}", 6},
                  {"longer.npy", "{'descr': '|u1', 'fortran_order': False, 'shape': (2,)}", 7},
                  {"no.npy", "{'descr': '|u1', 'fortran_order': False, 'shape': 2}", 2},
                  {"read.me", "of no array", 0}};
    haul_scope      *scope = haul_scope_push();
    uint8_t          bytes[256], back[12];
    haul__zip_writer w = {
        .file = haul__writer_open("other.npz", "test"), .operation = "test", .limit = HAUL__ZIP_LIMIT};
    assert_non_null(w.file);
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        const size_t size = build_npy(bytes, 1, arrays[i].header, arrays[i].count);
        assert_int_equal(haul__zip_put(&w, arrays[i].name, false, bytes, size, NULL, 0), HAUL_OK);
    }
    assert_int_equal(haul__zip_end(&w), HAUL_OK);
    assert_int_equal(haul__writer_commit(w.file), HAUL_OK);
    haul__free(w.directory);
    haul_safetensors *file = haul_open_safetensors("other.npz");
    assert_non_null(file);
    assert_int_equal(haul_error_status(), HAUL_OK);
    assert_string_equal(haul__safetensors_header_of(file)->format, "npz");
    assert_int_equal(haul_safetensors_count(file), 7);
    assert_int_equal(haul_read(haul_safetensors_load(file, "big"), back, 4), HAUL_OK);
    assert_memory_equal(back, "\1\0\3\2", 4);
    assert_int_equal(haul_read(haul_safetensors_load(file, "columns"), back, 12), HAUL_OK);
    assert_memory_equal(back, "\0\6\2\10\4\12\1\7\3\11\5\13", 12);
    assert_int_equal(haul_read(haul_safetensors_load(file, "matrix"), back, 6), HAUL_OK);
    assert_memory_equal(back, "\0\2\4\1\3\5", 6);
    haul_safetensors *mapped = haul_open_safetensors("other.npz", .map = true);
    assert_true(haul__safetensors_in_place(mapped, haul_safetensors_load(mapped, "list")));
    assert_false(haul__safetensors_in_place(mapped, haul_safetensors_load(mapped, "matrix")));
    assert_int_equal(haul_read(haul_safetensors_load(file, "longer"), back, 2), HAUL_OK);
    assert_memory_equal(back, "\0\1", 2);
    haul_file_tensor t;
    for (int i = 0; i < 7; i++) {
        assert_int_equal(haul_safetensors_entry(file, i, &t), HAUL_OK);
        if (!strcmp(t.name, "no"))
            assert_string_equal(t.dtype_name, "?");
        if (!strcmp(t.name, "longer"))
            assert_int_equal(t.bytes, 2);
    }
    assert_false(haul_tensor_is_valid(haul_safetensors_load(file, "no")));
    expect("no", HAUL_DTYPE, "'no', which cannot be read: it is not a valid npy file: shape is not a tuple");
    haul_error_clear();
    assert_false(haul_tensor_is_valid(haul_safetensors_load(file, "complex")));
    expect("complex", HAUL_DTYPE, "'complex', which cannot be read: it holds elements of dtype '<c8'");
    haul_error_clear();
    haul_scope_pop(scope);
}

/* Numbers that cannot be packed well are read in several pieces. */
static void test_npz__large_arrays_are_compressed(void **state)
{
    enum { SIZE = 200000 };
    (void)state;
    haul_scope *scope = haul_scope_push();
    uint8_t    *bytes = malloc(SIZE), *back = malloc(SIZE);
    uint32_t    random = 1;
    assert_true(bytes && back);
    for (int i = 0; i < SIZE; i++)
        bytes[i] = (uint8_t)((random = random * 1664525 + 1013904223) >> 24);
    haul_named_tensor named = {.name = "a", .tensor = haul_from_host(HAUL_U8, HAUL_SHAPE(SIZE), bytes)};
    if (haul_save_npz("large.npz", &named, 1, true) == HAUL_OK) {
        haul_tensor *t = haul_safetensors_load(haul_open_safetensors("large.npz"), "a");
        assert_int_equal(haul_read(t, back, SIZE), HAUL_OK);
        assert_memory_equal(back, bytes, SIZE);
    }
    haul_error_clear();
    free(bytes);
    free(back);
    haul_scope_pop(scope);
}

/* Fails once at each request of this kind, while an array is saved and while it is loaded. */
static void fail_each(const haul_named_tensor *named, unsigned kind, haul_status expected)
{
    for (int loading = 0; loading < 2; loading++)
        for (int64_t nth = 1;; nth++) {
            haul_scope *scope = haul_scope_push();
            haul__fault_plan(kind, nth);
            haul_safetensors *file = loading ? haul_open_safetensors("f.npz") : NULL;
            const bool        done = loading ? file && haul_tensor_is_valid(haul_safetensors_load(file, "a"))
                                             : haul_save_npz("f.npz", named, 1, true) == HAUL_OK;
            const bool        reached = haul__fault_count() >= nth;
            haul__fault_plan(0, 0);
            const haul_status status = haul_error_status();
            haul_error_clear();
            haul_scope_pop(scope);
            if (status == HAUL_UNSUPPORTED)
                skip();
            assert_int_equal(done, !reached);
            assert_int_equal(status, done ? HAUL_OK : expected);
            if (done)
                break;
        }
}

static void test_npz__every_failure_is_an_error(void **state)
{
    (void)state;
    haul_scope             *scope = haul_scope_push();
    const haul_named_tensor named = {.name = "a", .tensor = haul_arange(HAUL_F32, 0, 20, 1)};
    fail_each(&named, HAUL__FAULT_HOST, HAUL_OUT_OF_MEMORY);
    fail_each(&named, HAUL__FAULT_FILE, HAUL_IO);
    haul_scope_pop(scope);
}

static size_t read_file(const char *path, uint8_t *bytes, size_t size)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    const size_t got = fread(bytes, 1, size, file);
    assert_true(fclose(file) == 0 && got < size);
    return got;
}

/* A file that opens gives the values that were written, or an error: the checksum covers every array. */
static void check_damaged(const uint8_t *bytes, size_t size, haul_tensor *written)
{
    haul_scope *scope = haul_scope_push();
    write_bytes("damaged.npz", (const char *)bytes, size);
    haul_safetensors *file = haul_open_safetensors("damaged.npz");
    if (file && haul__safetensors_find(haul__safetensors_header_of(file), "a")) {
        haul_tensor *t = haul_safetensors_load(file, "a");
        if (haul_tensor_is_valid(t))
            expect_same(t, written);
    }
    haul_error_clear();
    haul_scope_pop(scope);
}

static void test_npz__damage_is_found(void **state)
{
    (void)state;
    haul_scope       *scope = haul_scope_push();
    static uint8_t    bytes[4096];
    haul_tensor      *t = haul_arange(HAUL_F32, 0, 20, 1);
    haul_named_tensor tensors[] = {{.name = "a", .tensor = t}, {.name = "b", .tensor = t}};
    for (int compress = 0; compress < 2; compress++) {
        if (haul_save_npz("d.npz", tensors, 2, compress) == HAUL_UNSUPPORTED)
            continue;
        const size_t size = read_file("d.npz", bytes, sizeof bytes);
        for (size_t cut = 0; cut < size; cut++)
            check_damaged(bytes, cut, t);
        for (size_t i = 0; i < size; i++)
            for (int bit = 0; bit < 8; bit += 3) {
                bytes[i] ^= (uint8_t)(1 << bit);
                check_damaged(bytes, size, t);
                bytes[i] ^= (uint8_t)(1 << bit);
            }
    }
    haul_scope_pop(scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_npz__round_trip),
        cmocka_unit_test(test_npz__modules_load_from_them),
        cmocka_unit_test(test_npz__wrong_tensors_are_refused),
        cmocka_unit_test(test_npz__sizes_of_64_bits),
        cmocka_unit_test(test_npz__arrays_of_other_programs),
        cmocka_unit_test(test_npz__damage_is_found),
        cmocka_unit_test(test_npz__large_arrays_are_compressed),
        cmocka_unit_test(test_npz__every_failure_is_an_error),
    };
    return cmocka_run_group_tests_name("io_npz", tests, NULL, NULL);
}
