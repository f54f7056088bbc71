/* Files that are given to the wrong reader: each names what the file seems to be, and what to do with it. */
#include <stdlib.h>
#include <sys/stat.h>

#include "formats/file_type.h"
#include "support/datasets.h"
#include "support/linalg.h"

#define BYTES(text) text, sizeof(text) - 1

static const struct {
    const char *bytes;
    size_t      size;
    const char *name, *advice; /* parts of the messages */
} files[] = {
    {BYTES("PK\3\4zip"), "a zip archive", "if numpy.savez or torch.save did not write it, unpack it"},
    {BYTES("PK\3\4\24\0\0\0\0\0[Content_Types].xml\1"), "a document of an office program", "export its table as CSV"},
    {BYTES("\x80\2}q\0."), "a Python pickle, as old PyTorch files are", "torch.load(FILE)"},
    {BYTES("\x80\4\x95\0"), "a Python pickle", "numpy.save"},
    {BYTES("\x1f\x8b\x08\0rest"), "a gzip archive", "unpack it with gunzip"},
    {BYTES("\x89PNG\r\n\x1a\nrest"), "a PNG picture", ""},
    {BYTES("\x89HDF\r\n\x1a\nrest"), "an HDF5 file", "h5py reads it"},
    {BYTES("PAR1\x15\0\x15"), "a Parquet file", ""},
    {BYTES("\xff\xfe"
           "a\0,\0b\0"),
     "text in UTF-16", "iconv -f UTF-16 -t UTF-8"},
    {BYTES("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"), "a pointer of Git LFS",
     "git lfs pull"},
};

static void check_readers(size_t i, const char *path)
{
    haul_tensor *t = haul_load_npy(path);
    assert_false(haul_tensor_is_valid(t));
    expect(path, HAUL_FORMAT, files[i].name);
    haul_load_npy(path);
    expect(path, HAUL_FORMAT, files[i].advice);
    haul_load_npy(path);
    expect(path, HAUL_FORMAT, "is not an npy file, but ");
    assert_null(haul_npy_dataset({"x", path}));
    expect(path, HAUL_FORMAT, files[i].name);
    assert_null(haul_open_safetensors(path));
    expect(path, HAUL_FORMAT, files[i].name);
    assert_null(haul_open_safetensors(path));
    expect(path, HAUL_FORMAT, "is not a safetensors file, but ");
    assert_null(haul_shard_dataset("shards"));
    expect(path, HAUL_FORMAT, files[i].name);
    assert_null(haul_cifar10("cifar", .test = true));
    expect(path, HAUL_FORMAT, "is not a CIFAR-10 file, but ");
    assert_null(haul_csv_dataset(path));
    expect(path, HAUL_FORMAT, files[i].name);
    assert_null(haul_csv_dataset(path));
    expect(path, HAUL_FORMAT, "is not a CSV file, but ");
}

static void test_file_type__readers_name_what_they_got(void **state)
{
    (void)state;
    haul_scope *scope = haul_scope_push();
    assert_true(mkdir("shards", 0777) == 0 && mkdir("cifar", 0777) == 0);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        write_bytes("given", files[i].bytes, files[i].size);
        write_bytes("shards/a.safetensors", files[i].bytes, files[i].size);
        write_bytes("cifar/test_batch.bin", files[i].bytes, files[i].size);
        check_readers(i, "given");
    }
    haul_scope_pop(scope);
}

static void test_file_type__npz_files_are_for_the_reader_of_tensors(void **state)
{
    (void)state;
    haul_scope *scope = haul_scope_push();
    write_bytes("given", BYTES("PK\3\4\24\0\0\0\0\0weights.npy\1"));
    assert_false(haul_tensor_is_valid(haul_load_npy("given")));
    expect("npy", HAUL_FORMAT, "given is not an npy file, but an npz file");
    haul_load_npy("given");
    expect("npy", HAUL_FORMAT, "haul_open_safetensors reads it");
    assert_null(haul_csv_dataset("given"));
    expect("csv", HAUL_FORMAT, "an npz file");
    assert_null(haul_open_safetensors("given"));
    expect("damaged", HAUL_FORMAT, "given is not a valid zip archive: it ends without a directory");
    haul_scope_pop(scope);
}

static void test_file_type__haul_s_own_files_are_told_apart(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *x = haul_ones(HAUL_F32, HAUL_SHAPE(3));
    assert_int_equal(haul_save_npy("x.npy", x), HAUL_OK);
    assert_int_equal(haul_save_safetensors("x.safetensors", &(haul_named_tensor){.name = "x", .tensor = x}, 1, NULL, 0),
                     HAUL_OK);
    haul_load_npy("x.safetensors");
    expect("npy", HAUL_FORMAT,
           "x.safetensors is not an npy file, but a safetensors file; haul_open_safetensors reads it");
    assert_null(haul_open_safetensors("x.npy"));
    expect("safetensors", HAUL_FORMAT, "x.npy is not a safetensors file, but an npy file; haul_load_npy reads it");
    assert_null(haul_csv_dataset("x.npy"));
    expect("csv", HAUL_FORMAT, "x.npy is not a CSV file, but an npy file");
    haul_scope_pop(scope);
}

/* Text is never taken for the formats that begin with letters, and damage of a file's own format is named as before. */
static void test_file_type__text_stays_text(void **state)
{
    static const char damaged[] = "\x1f\x8b\x08\0\0\0\0\0{\"x\":";
    (void)state;
    haul_scope *scope = haul_scope_push();
    write_bytes("text.csv", BYTES("PAR1,GIF8\n1,2\n"));
    assert_non_null(haul_csv_dataset("text.csv"));
    write_bytes("list.csv", BYTES("[a,b]\n1,2\n"));
    assert_non_null(haul_csv_dataset("list.csv"));
    assert_string_equal(haul__file_type_of(BYTES("%PDF-1.4\n\xe2\xe3"))->name, "a PDF file");
    assert_string_equal(haul__file_type_of(BYTES("%PDF-1.4\n"))->name, "a text file");
    assert_string_equal(haul__file_type_of(BYTES(" \n[1, 2]"))->name, "a JSON text");
    assert_null(haul__file_type_of("", 0));
    assert_null(haul__file_type_of(BYTES("\1abc")));
    assert_null(haul__file_type_of(BYTES("ab\xc3")));
    assert_null(haul__file_type_of(BYTES("\1\0\0\0\0\1\0\0{")));
    char head[HAUL__FILE_HEAD]; /* which ends within a character */
    memset(head, 'a', sizeof head);
    head[sizeof head - 1] = '\xc3';
    assert_string_equal(haul__file_type_of(head, sizeof head)->name, "a text file");
    assert_string_equal(haul__file_type_of(" <html", 5)->name, "a text file");
    assert_string_equal(haul__file_type_of(BYTES("[\"weight_map\"]"))->name, "a JSON text");
    assert_string_equal(haul__file_type_of(BYTES("{\"x\": 1}"))->name, "a JSON text");
    assert_string_equal(haul__file_type_of(BYTES("{\"weight_map\": {}}"))->name,
                        "the index of sharded safetensors files");
    assert_string_equal(haul__file_type_of(BYTES("\x89HDF"))->name, "an HDF5 file");
    assert_string_equal(haul__file_type_of(BYTES("PK\3\4"))->name, "a zip archive");
    assert_ptr_equal(haul__file_type_of(BYTES("PK\5\6")), &haul__file_npz);
    assert_ptr_equal(haul__file_type_of(BYTES("PK\5\6\1")), &haul__file_npz);
    char *blanks = malloc(2); /* so that a sanitizer sees a read behind them */
    assert_non_null(blanks);
    memset(blanks, ' ', 2);
    assert_string_equal(haul__file_type_of(blanks, 2)->name, "a text file");
    free(blanks);
    assert_null(haul__file_type_of("\0\0\0\0", 4));
    /* eight bytes of a size that look like gzip */
    write_bytes("damaged", damaged, sizeof damaged - 1);
    assert_null(haul_open_safetensors("damaged"));
    expect("damaged", HAUL_FORMAT, "damaged is not a valid safetensors file");
    write_bytes("damaged", BYTES("\x93NUMPY\1\0"));
    haul_load_npy("damaged");
    expect("damaged", HAUL_FORMAT, "damaged is not a valid npy file: it is too short");
    write_bytes("damaged", BYTES("\1\2\3\4"));
    haul_load_npy("damaged");
    expect("damaged", HAUL_FORMAT, "damaged is not a valid npy file: it does not begin with");
    haul_scope_pop(scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_file_type__readers_name_what_they_got),
        cmocka_unit_test(test_file_type__npz_files_are_for_the_reader_of_tensors),
        cmocka_unit_test(test_file_type__haul_s_own_files_are_told_apart),
        cmocka_unit_test(test_file_type__text_stays_text),
    };
    return cmocka_run_group_tests_name("io_file_type", tests, NULL, NULL);
}
