/* Safetensors files that are mapped: tensors in place, how long they stay, and tensors that are read instead. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <haul/haul.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "core/tensor.h"
#include "support/conformance/conformance.h"
#include "support/failure.h"

/* A file with the header and `size` bytes of data, of which those from `at` on are written; the others are a hole. */
static void write_file(const char *path, const char *json, uint64_t size, uint64_t at, const void *data, size_t bytes)
{
    uint8_t first[8];
    size_t  length = strlen(json);
    int     fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0666);
    for (int i = 0; i < 8; i++)
        first[i] = (uint8_t)(length >> 8 * i & 255);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, first, 8, 0), 8);
    assert_int_equal(pwrite(fd, json, length, 8), length);
    assert_int_equal(ftruncate(fd, (off_t)(8 + length + size)), 0);
    assert_int_equal(pwrite(fd, data, bytes, (off_t)(8 + length + at)), bytes);
    assert_int_equal(close(fd), 0);
}

/* How many lines of the process's memory map name the file. */
static int mappings_of(const char *name)
{
    char  line[4096];
    int   count = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    assert_non_null(maps);
    while (fgets(line, sizeof line, maps))
        count += strstr(line, name) != NULL;
    fclose(maps);
    return count;
}

static bool in_place(const haul_tensor *t)
{
    return t->storage->deleter != NULL;
}

static const float values[] = {1, 2, 3, 4};

static void test_io_mapped__tensors_lie_in_the_file_until_the_last_is_gone(void **state)
{
    (void)state;
    float             back[4];
    haul_scope       *outer = haul_scope_push(), *scope = haul_scope_push();
    haul_named_tensor tensors[] = {{"a", haul_from_host(HAUL_F32, HAUL_SHAPE(2, 2), values), false},
                                   {"b", haul_from_host(HAUL_F32, HAUL_SHAPE(4), values), false},
                                   {"c", haul_from_host(HAUL_BOOL, HAUL_SHAPE(2), "\1\0"), false},
                                   {"d", haul_zeros(HAUL_F32, HAUL_SHAPE(0)), false}};
    assert_int_equal(haul_save_safetensors("mapped.st", tensors, 4, NULL, 0), HAUL_OK);
    haul_safetensors *file = haul_open_safetensors("mapped.st", .map = true);
    assert_int_equal(mappings_of("mapped.st"), 1);
    haul_tensor *a = haul_safetensors_load(file, "a"), *b = haul_safetensors_load(file, "b");
    assert_true(in_place(a) && in_place(b));
    assert_true(!in_place(haul_safetensors_load(file, "c")) && !in_place(haul_safetensors_load(file, "d")));
    haul_keep(a);
    assert_int_equal(haul_drop(file), HAUL_OK);
    assert_int_equal(haul_read(b, back, sizeof back), HAUL_OK);
    assert_memory_equal(back, values, sizeof values);
    haul_scope_pop(scope);
    assert_int_equal(mappings_of("mapped.st"), 1);
    assert_int_equal(haul_read(haul_mul_scalar(a, 2), back, sizeof back), HAUL_OK);
    assert_true(back[0] == 2 && back[3] == 8);
    haul_release(a);
    assert_int_equal(mappings_of("mapped.st"), 0);
    haul_scope_pop(outer);
}

static void test_io_mapped__writing_leaves_the_file_and_other_mappings_alone(void **state)
{
    (void)state;
    static const float other[] = {9, 8, 7, 6};
    float              back[4];
    haul_scope        *scope = haul_scope_push();
    haul_named_tensor  tensor = {"a", haul_from_host(HAUL_F32, HAUL_SHAPE(4), values), false};
    assert_int_equal(haul_save_safetensors("written.st", &tensor, 1, NULL, 0), HAUL_OK);
    haul_tensor *a = haul_safetensors_load(haul_open_safetensors("written.st", .map = true), "a");
    haul_tensor *b = haul_safetensors_load(haul_open_safetensors("written.st", .map = true), "a");
    assert_true(in_place(a) && in_place(b));
    assert_int_equal(haul_write(a, other, sizeof other), HAUL_OK);
    assert_int_equal(haul_read(b, back, sizeof back), HAUL_OK);
    assert_memory_equal(back, values, sizeof values);
    assert_int_equal(haul_read(haul_safetensors_load(haul_open_safetensors("written.st"), "a"), back, sizeof back), 0);
    assert_memory_equal(back, values, sizeof values);
    assert_int_equal(haul_read(a, back, sizeof back), HAUL_OK);
    assert_memory_equal(back, other, sizeof other);

    /* a file that is written anew replaces the name, not the bytes */
    tensor.tensor = a;
    assert_int_equal(haul_save_safetensors("written.st", &tensor, 1, NULL, 0), HAUL_OK);
    assert_int_equal(haul_read(b, back, sizeof back), HAUL_OK);
    assert_memory_equal(back, values, sizeof values);
    haul_scope_pop(scope);
}

static void test_io_mapped__what_is_not_aligned_is_read(void **state)
{
    (void)state;
    static const char json[] = "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                               "\"b\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[1,17]}} ";
    float             back[4];
    haul_scope       *scope = haul_scope_push();
    assert_int_equal((8 + strlen(json)) % 4, 0);
    write_file("odd.st", json, 17, 1, values, sizeof values);
    haul_safetensors *file = haul_open_safetensors("odd.st", .map = true);
    haul_tensor      *b = haul_safetensors_load(file, "b");
    assert_true(in_place(haul_safetensors_load(file, "a")) && !in_place(b));
    assert_int_equal(haul_read(b, back, sizeof back), HAUL_OK);
    assert_memory_equal(back, values, sizeof values);
    haul_scope_pop(scope);
}

static void test_io_mapped__on_other_devices_tensors_are_copied(void **state)
{
    (void)state;
    haul_named_tensor tensor;
    haul_scope       *outer = haul_scope_push();
    tensor = (haul_named_tensor){"a", haul_from_host(HAUL_F32, HAUL_SHAPE(4), values), false};
    assert_int_equal(haul_save_safetensors("device.st", &tensor, 1, NULL, 0), HAUL_OK);
    haul_device *devices[16];
    int          count = test_devices(devices, 16);
    for (int i = 0; i < count; i++) {
        float       back[4];
        haul_scope *scope = haul_scope_push();
        haul_set_device(devices[i]);
        haul_tensor *a = haul_safetensors_load(haul_open_safetensors("device.st", .map = true), "a");
        assert_ptr_equal(haul_tensor_device(a), devices[i]);
        assert_int_equal(haul_read(a, back, sizeof back), HAUL_OK);
        assert_memory_equal(back, values, sizeof values);
        haul_scope_pop(scope);
    }
    haul_scope_pop(outer);
}

/* A copy of t whose last byte is the last of a page, behind which nothing can be read: as at the end of a mapping. */
static haul_tensor *at_end_of_page(haul_tensor *t)
{
    size_t   page = (size_t)sysconf(_SC_PAGESIZE), bytes = haul_tensor_bytes(t), room = (bytes / page + 1) * page;
    uint8_t *memory = mmap(NULL, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    assert_int_equal(mprotect(memory + room, page, PROT_NONE), 0);
    haul_tensor *copy = haul_wrap_host(haul_tensor_dtype(t), haul_tensor_shape(t), memory + room - bytes, NULL, NULL);
    assert_int_equal(haul_read(t, memory + room - bytes, bytes), HAUL_OK);
    return copy;
}

static void test_io_mapped__nothing_is_read_behind_the_end(void **state)
{
    (void)state;
    static const haul_dtype dtypes[] = {HAUL_F32, HAUL_F16, HAUL_BF16, HAUL_F64};
    for (int i = 0; i < 4; i++)
        for (int64_t n = 1; n < 40; n += 3) {
            haul_scope  *scope = haul_scope_push();
            haul_tensor *w = at_end_of_page(haul_ones(dtypes[i], HAUL_SHAPE(n, n + 2)));
            haul_tensor *b = at_end_of_page(haul_ones(dtypes[i], HAUL_SHAPE(n)));
            haul_tensor *k = at_end_of_page(haul_ones(dtypes[i], HAUL_SHAPE(n, 3, 3, 3)));
            haul_tensor *y = haul_linear(haul_ones(dtypes[i], HAUL_SHAPE(5, n + 2)), w, .bias = b);
            assert_true(haul_item(haul_sum(haul_cast(y, HAUL_F64))) == 5. * (double)(n * (n + 3)));
            y = haul_conv2d(haul_ones(dtypes[i], HAUL_SHAPE(2, 3, 5, 5)), k, .bias = b);
            assert_true(haul_item(haul_sum(haul_cast(y, HAUL_F64))) == 2. * 9 * 28 * (double)n);
            assert_true(haul_item(haul_sum(haul_cast(haul_exp(haul_sub(w, w)), HAUL_F64))) == (double)(n * (n + 2)));
            assert_int_equal(haul_error_status(), HAUL_OK);
            haul_scope_pop(scope);
        }
}

static void test_io_mapped__offsets_beyond_4_gb(void **state)
{
    (void)state;
    static const char json[] = "{\"hole\":{\"dtype\":\"U8\",\"shape\":[5,1000000000],\"data_offsets\":[0,5000000000]},"
                               "\"b\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[5000000000,5000000016]}} ";
    haul_scope       *scope = haul_scope_push();
    assert_int_equal((8 + strlen(json)) % 4, 0);
    write_file("large.st", json, 5000000016, 5000000000, values, sizeof values);
    for (int map = 0; map <= 1; map++) {
        float             back[4];
        haul_safetensors *file = haul_open_safetensors("large.st", .map = map);
        if (!file)
            fail_msg("%s", haul_error_message());
        haul_tensor *b = haul_safetensors_load(file, "b");
        assert_int_equal(haul_read(b, back, sizeof back), HAUL_OK);
        assert_memory_equal(back, values, sizeof values);
        assert_int_equal(in_place(b), map);
        haul_tensor *hole = map ? haul_safetensors_load(file, "hole") : NULL;
        if (hole) /* five gigabytes, of which one page is touched */
            assert_true(haul_item(haul_slice(haul_slice(hole, 0, 4, 5, 1), 1, 999999999, 1000000000, 1)) == 0);
    }
    haul_scope_pop(scope);
    unlink("large.st");
}

static void test_io_mapped__a_file_that_shrank_is_noticed(void **state)
{
    (void)state;
    haul_scope       *scope = haul_scope_push();
    haul_named_tensor tensor = {"a", haul_from_host(HAUL_F32, HAUL_SHAPE(4), values), false};
    assert_int_equal(haul_save_safetensors("cut.st", &tensor, 1, NULL, 0), HAUL_OK);
    haul_safetensors *file = haul_open_safetensors("cut.st", .map = true);
    assert_int_equal(truncate("cut.st", 20), 0);
    assert_failed(haul_safetensors_load(file, "a"));
    assert_int_equal(haul_error_status(), HAUL_FORMAT);
    assert_string_equal(haul_error_operation(), "haul_safetensors_load");
    assert_non_null(strstr(haul_error_message(), "cut.st"));
    haul_error_clear();
    haul_scope_pop(scope);
}

static void test_io_mapped__every_failure_is_an_error_and_leaks_nothing(void **state)
{
    (void)state;
    haul_scope       *scope = haul_scope_push();
    haul_named_tensor tensor = {"a", haul_from_host(HAUL_F32, HAUL_SHAPE(4), values), false};
    assert_int_equal(haul_save_safetensors("faults.st", &tensor, 1, NULL, 0), HAUL_OK);
    bool loaded = false;
    for (int64_t nth = 1; !loaded; nth++) {
        int64_t     blocks = haul__host_blocks();
        haul_scope *inner = haul_scope_push();
        haul__fault_plan(HAUL__FAULT_HOST | HAUL__FAULT_FILE, nth);
        haul_safetensors *file = haul_open_safetensors("faults.st", .map = true);
        loaded = file && !haul__failed(haul_safetensors_load(file, "a"));
        haul__fault_plan(0, 0);
        assert_true(loaded || haul_error_status() == HAUL_IO || haul_error_status() == HAUL_OUT_OF_MEMORY);
        assert_string_equal(haul_error_operation(), loaded ? ""
                                                    : file ? "haul_safetensors_load"
                                                           : "haul_open_safetensors");
        haul_error_clear();
        haul_scope_pop(inner);
        assert_int_equal(mappings_of("faults.st"), 0);
        if (nth > 1)
            assert_int_equal(haul__host_blocks(), blocks);
    }
    haul_scope_pop(scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_io_mapped__tensors_lie_in_the_file_until_the_last_is_gone),
        cmocka_unit_test(test_io_mapped__writing_leaves_the_file_and_other_mappings_alone),
        cmocka_unit_test(test_io_mapped__what_is_not_aligned_is_read),
        cmocka_unit_test(test_io_mapped__on_other_devices_tensors_are_copied),
        cmocka_unit_test(test_io_mapped__nothing_is_read_behind_the_end),
        cmocka_unit_test(test_io_mapped__offsets_beyond_4_gb),
        cmocka_unit_test(test_io_mapped__a_file_that_shrank_is_noticed),
        cmocka_unit_test(test_io_mapped__every_failure_is_an_error_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
