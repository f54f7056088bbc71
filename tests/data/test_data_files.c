/* Datasets in files: npy, shards; also larger than the memory of the process.
 *
 * ctest: labels=threads */
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "support/datasets.h"

/* ---- npy and shards ---- */

static void save(const char *path, haul_tensor *t)
{
    if (haul_save_npy(path, t))
        fail_msg("%s", haul_error_message());
}

static haul_tensor *range(double first, int64_t count, int64_t width)
{
    return haul_reshape(haul_arange(HAUL_F32, first, first + (double)(count * width), 1), HAUL_SHAPE(count, width));
}

static void test_npy__files_are_fields(void **state)
{
    (void)state;
    haul_scope *scope = haul_scope_push();
    float       x[4][3];
    int64_t     y[4];
    bool        flag[4];
    save("x.npy", range(0, 4, 3));
    save("y.npy", haul_arange_i64(10, 14, 1));
    save("flag.npy", haul_gt_scalar(haul_arange(HAUL_F32, 0, 4, 1), 1));
    haul_dataset *data = haul_npy_dataset({"x", "x.npy"}, {"y", "y.npy"}, {"flag", "flag.npy"});
    if (!data)
        fail_msg("%s", haul_error_message());
    const haul_batch *b = whole(data);
    assert_int_equal(haul_read(b->x, x, sizeof x), HAUL_OK);
    assert_int_equal(haul_read(b->y, y, sizeof y), HAUL_OK);
    assert_int_equal(haul_read(haul_batch_tensor(b, "flag"), flag, sizeof flag), HAUL_OK);
    for (int i = 0; i < 4; i++)
        assert_true(x[i][2] == (float)(3 * i + 2) && y[i] == 10 + i && flag[i] == (i > 1));
    save("short.npy", haul_arange_i64(0, 3, 1));
    assert_null(haul_npy_dataset({"x", "x.npy"}, {"y", "short.npy"}));
    expect(__func__, HAUL_SHAPE, "short.npy has 3 examples, and the files before it have 4");
    save("scalar.npy", haul_scalar(1));
    assert_null(haul_npy_dataset({"x", "scalar.npy"}));
    expect(__func__, HAUL_SHAPE, "is 0-d");
    assert_null(haul_npy_dataset({"x", "x.npy"}, {"x", "x.npy"}));
    expect(__func__, HAUL_INVALID_ARGUMENT, "two fields are named");
    assert_int_equal(truncate("x.npy", 150), 0);
    assert_null(haul_npy_dataset({"y", "y.npy"}, {"x", "x.npy"}));
    expect(__func__, HAUL_FORMAT, "haul_npy_dataset: x.npy");
    assert_null(haul_npy_dataset_list(NULL, 1));
    expect(__func__, HAUL_INVALID_ARGUMENT, "files");
    haul_scope_pop(scope);
}

/* Big-endian elements, and Fortran's order, which no example of a matrix has in one place. */
static void test_npy__foreign_orders(void **state)
{
    (void)state;
    static const char head[] = "{'descr': '>i2', 'fortran_order': True, 'shape': (2,%s), }";
    haul_scope       *scope = haul_scope_push();
    for (int matrix = 0; matrix < 2; matrix++) {
        char  text[128];
        int   length = snprintf(text, sizeof text, head, matrix ? " 1" : "");
        FILE *file = fopen("big.npy", "wb");
        assert_non_null(file);
        fwrite("\x93NUMPY\x01\x00", 1, 8, file);
        fputc(length, file);
        fputc(0, file);
        fwrite(text, 1, (size_t)length, file);
        fwrite("\x01\x02\x03\x04", 1, 4, file);
        fclose(file);
        haul_dataset *data = haul_npy_dataset({"x", "big.npy"});
        if (matrix) {
            assert_null(data);
            expect(__func__, HAUL_UNSUPPORTED, "Fortran");
        } else {
            int16_t x[2];
            assert_int_equal(haul_read(whole(data)->x, x, sizeof x), HAUL_OK);
            assert_true(x[0] == 0x102 && x[1] == 0x304);
        }
    }
    haul_scope_pop(scope);
}

static void save_shard(const char *path, double first, int64_t rows, const char *second)
{
    const haul_named_tensor all[] = {{.name = "x", .tensor = range(first, rows, 2)},
                                     {.name = second, .tensor = haul_full(HAUL_I64, HAUL_SHAPE(rows), first)}};
    if (haul_save_safetensors(path, all, 2, NULL, 0))
        fail_msg("%s", haul_error_message());
}

static void test_shards__are_one_dataset(void **state)
{
    (void)state;
    haul_scope *scope = haul_scope_push();
    float       x[9][2];
    int64_t     y[9];
    mkdir("shards", 0777);
    assert_null(haul_shard_dataset("shards"));
    expect(__func__, HAUL_IO, "no files that end in");
    save_shard("shards/b.safetensors", 100, 2, "y");
    save_shard("shards/a.safetensors", 0, 4, "y");
    save_shard("shards/c.safetensors", 200, 3, "y");
    write_text("shards/readme.txt", "not a shard");
    haul_dataset *data = haul_shard_dataset("shards");
    if (!data)
        fail_msg("%s", haul_error_message());
    assert_int_equal(haul_dataset_count(data), 9);
    const haul_batch *b = whole(data);
    assert_int_equal(haul_read(b->x, x, sizeof x), HAUL_OK);
    assert_int_equal(haul_read(b->y, y, sizeof y), HAUL_OK);
    for (int i = 0; i < 9; i++) {
        int first = i < 4 ? 0 : i < 6 ? 100 : 200, row = i < 4 ? i : i < 6 ? i - 4 : i - 6;
        assert_true(y[i] == first && x[i][1] == (float)(first + 2 * row + 1));
    }
    save_shard("shards/d.safetensors", 300, 1, "z");
    assert_null(haul_shard_dataset("shards"));
    expect(__func__, HAUL_FORMAT, "d.safetensors has a tensor 'z'; the files before it have y");
    write_text("shards/d.safetensors", "short");
    assert_null(haul_shard_dataset("shards"));
    expect(__func__, HAUL_FORMAT, "d.safetensors");
    unlink("shards/d.safetensors");
    save("shards/d.npy", range(0, 2, 2));
    assert_null(haul_shard_dataset("shards"));
    expect(__func__, HAUL_FORMAT, "both npy and safetensors");
    mkdir("pieces", 0777);
    save("pieces/0.npy", range(0, 2, 2));
    save("pieces/1.npy", range(4, 3, 2));
    assert_int_equal(haul_dataset_count(haul_shard_dataset("pieces")), 5);
    save("pieces/2.npy", range(4, 3, 3));
    assert_null(haul_shard_dataset("pieces"));
    expect(__func__, HAUL_FORMAT, "x of an example is f32[3] in pieces/2.npy, and f32[2] in the files before it");
    assert_null(haul_shard_dataset("nowhere"));
    expect(__func__, HAUL_IO, "nowhere");
    assert_null(haul_shard_dataset(NULL));
    expect(__func__, HAUL_INVALID_ARGUMENT, "directory");
    haul_scope_pop(scope);
}

static void test_arrays__every_failing_call_is_an_error(void **state)
{
    (void)state;
    haul_scope *outer = haul_scope_push();
    mkdir("few", 0777);
    save_shard("few/a.safetensors", 0, 4, "y");
    save_shard("few/b.safetensors", 0, 4, "y");
    save("x.npy", range(0, 4, 3));
    for (int npy = 0; npy < 2; npy++) {
        bool whole_run = false;
        for (int64_t nth = 1; !whole_run; nth++) {
            int64_t     blocks = haul__host_blocks();
            haul_scope *scope = haul_scope_push();
            haul__fault_plan(HAUL__FAULT_HOST | HAUL__FAULT_FILE, nth);
            whole_run = (npy ? haul_npy_dataset({"x", "x.npy"}, {"y", "x.npy"}) : haul_shard_dataset("few")) != NULL;
            haul__fault_plan(0, 0);
            assert_int_equal(whole_run, haul_error_status() == HAUL_OK);
            haul_error_clear();
            haul_scope_pop(scope);
            assert_int_equal(haul__host_blocks(), blocks);
        }
    }
    haul_scope_pop(outer);
}

/* ---- larger than memory ---- */

#define ROWS  ((int64_t)40000)
#define WIDTH 1024 /* floats: 160 MB in all */

static int child_status(void (*child)(void))
{
    int   status = 0;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        child();
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

/* Sum of the first column, in a process that may have a fifth of the file as memory of its own. */
static void sum_all(haul_dataset *(*open_data)(void))
{
    const struct rlimit limit = {(rlim_t)32 << 20, (rlim_t)32 << 20};
    haul_scope         *scope = haul_scope_push();
    double              sum = 0;
    if (setrlimit(RLIMIT_DATA, &limit) || !scope)
        _exit(2);
    if (malloc((size_t)64 << 20))
        _exit(77); /* the system does not count */
    haul_loader *loader = haul_loader_new(open_data(), .batch = 64, .shuffle = true, .seed = 1);
    if (haul_loader_start(loader, 1))
        _exit(3);
    for (const haul_batch *b; (b = haul_loader_next(loader));) {
        float x[64][WIDTH];
        if (haul_read(b->x, x, (size_t)b->size * sizeof *x))
            _exit(4);
        for (int64_t i = 0; i < b->size; i++)
            sum += x[i][0];
    }
    if (sum != (double)ROWS * (ROWS - 1) / 2)
        _exit(5);
    haul_scope_pop(scope);
}

static haul_dataset *open_npy(void)
{
    return haul_npy_dataset({"x", "large.npy"});
}

static haul_dataset *open_shards(void)
{
    return haul_shard_dataset("large");
}

static void sum_npy(void)
{
    sum_all(open_npy);
}

static void sum_shards(void)
{
    sum_all(open_shards);
}

/* The first value of each row is its number; between them is a hole in the file. */
static void write_large(const char *path, int64_t first, int64_t rows)
{
    char  text[128] = "";
    FILE *file = fopen(path, "wb");
    int   length = snprintf(text, sizeof text, "{'descr': '<f4', 'fortran_order': False, 'shape': (%lld, %d), }",
                            (long long)rows, WIDTH);
    assert_non_null(file);
    fwrite("\x93NUMPY\x01\x00\x76\x00", 1, 10, file);
    fprintf(file, "%-*s\n", 0x76 - 1, text);
    assert_true(length < 0x76 - 1);
    for (int64_t i = 0; i < rows; i++) {
        float value = (float)(first + i);
        fseek(file, 128 + (long)(i * WIDTH * (int64_t)sizeof value), SEEK_SET);
        fwrite(&value, 1, sizeof value, file);
    }
    assert_int_equal(fclose(file), 0);
    assert_int_equal(truncate(path, 128 + rows * WIDTH * (int64_t)sizeof(float)), 0);
}

static void test_files__larger_than_the_memory_limit(void **state)
{
    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); /* they need more memory than the limit leaves */
#endif
    write_large("large.npy", 0, ROWS);
    mkdir("large", 0777);
    for (int64_t i = 0; i < 4; i++) {
        char path[32];
        snprintf(path, sizeof path, "large/%d.npy", (int)i);
        write_large(path, i * ROWS / 4, ROWS / 4);
    }
    int npy = child_status(sum_npy), shards = child_status(sum_shards);
    unlink("large.npy");
    if (WEXITSTATUS(npy) == 77)
        skip();
    assert_int_equal(npy, 0);
    assert_int_equal(shards, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files__larger_than_the_memory_limit), /* forks while nothing is in use yet */
        cmocka_unit_test(test_npy__files_are_fields),
        cmocka_unit_test(test_npy__foreign_orders),
        cmocka_unit_test(test_shards__are_one_dataset),
        cmocka_unit_test(test_arrays__every_failing_call_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
