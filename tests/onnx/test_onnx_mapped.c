/* haul_load_onnx with .map: external data stays in the mapped file, where it can be used in place. */
#include <haul/onnx.h>
#include <stdio.h>
#include <unistd.h>

#include "onnx/load.h"
#include "support/linalg.h"

#define FILE_NAME "mapped.onnx"
#define DATA      FILE_NAME ".data"

enum { IN = 64, OUT = 300, BYTES = IN * OUT * 4 };

/* Writes a layer whose weight is the only tensor, in a file of its own. */
static haul_module *save(void)
{
    haul_module *m = haul_nn_linear(IN, OUT, .no_bias = true);
    haul_module_train(m, false);
    assert_int_equal(haul_save_onnx(FILE_NAME, m, haul_ones(HAUL_F32, HAUL_SHAPE(2, IN)), .external = true), HAUL_OK);
    return m;
}

static haul_module *load(bool map)
{
    haul_module *m = haul_load_onnx(FILE_NAME, .map = map);
    if (!m)
        fail_msg("%s", haul_error_message());
    return m;
}

static size_t mapped_bytes(haul_module *m)
{
    return haul__onnx_plan_of(m)->mapped_bytes;
}

static void expect_same(haul_module *a, haul_module *b)
{
    haul_tensor *x = haul_normal(HAUL_F32, HAUL_SHAPE(2, IN), 0, 1);
    float        y[2][2 * OUT];
    assert_int_equal(haul_read(haul_call(a, x), y[0], sizeof y[0]), HAUL_OK);
    assert_int_equal(haul_read(haul_call(b, x), y[1], sizeof y[1]), HAUL_OK);
    assert_memory_equal(y[0], y[1], sizeof y[0]);
}

static void test_onnx_mapped__uses_the_file(void **state)
{
    haul_memory_stats before, after;
    (void)state;
    haul_module *saved = save();
    assert_int_equal(haul_memory_stats_get(haul_cpu(), &before), HAUL_OK);
    haul_module *m = load(true);
    assert_int_equal(haul_memory_stats_get(haul_cpu(), &after), HAUL_OK);
    assert_int_equal(after.allocated, before.allocated);
    assert_int_equal(mapped_bytes(m), BYTES);
    assert_int_equal(mapped_bytes(load(false)), 0);
    expect_same(m, saved);
    assert_int_equal(unlink(DATA), 0); /* the mapping stays */
    expect_same(m, saved);
}

/* Training changes the memory of this module, not the file. */
static void test_onnx_mapped__never_changes_the_file(void **state)
{
    (void)state;
    haul_module *saved = save(), *m = load(true);
    const bool   grad = haul_set_grad_enabled(false);
    haul_tensor *weight = haul_module_parameter(m, "weight");
    assert_int_equal(haul_mul_scalar_into(weight, weight, 2), HAUL_OK);
    haul_set_grad_enabled(grad);
    assert_true(haul_item(haul_sum(haul_abs(weight))) >
                1.5 * haul_item(haul_sum(haul_abs(haul_module_parameter(saved, "weight")))));
    expect_same(load(true), saved);
}

/* Replaces `count` bytes of a file by others. */
static void overwrite(const char *path, long place, const void *bytes, size_t count)
{
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, place, SEEK_SET), 0);
    assert_int_equal(fwrite(bytes, 1, count, f), count);
    assert_int_equal(fclose(f), 0);
}

/* The place of the number after the key "offset" of the model's only tensor. */
static long place_of_offset(void)
{
    static const char key[] = "\n\6offset\x12\1";
    char              text[4096];
    FILE             *f = fopen(FILE_NAME, "rb");
    assert_non_null(f);
    const size_t size = fread(text, 1, sizeof text, f);
    assert_int_equal(fclose(f), 0);
    for (size_t i = 0; i + sizeof key < size; i++)
        if (!memcmp(text + i, key, sizeof key - 1))
            return (long)(i + sizeof key - 1);
    fail_msg("the model has no offset of one digit");
    return 0;
}

static void test_onnx_mapped__reads_what_is_not_aligned(void **state)
{
    static float weight[IN * OUT];
    (void)state;
    haul_module *saved = save();
    assert_int_equal(haul_read(haul_module_parameter(saved, "weight"), weight, sizeof weight), HAUL_OK);
    overwrite(FILE_NAME, place_of_offset(), "1", 1);
    overwrite(DATA, 1, weight, sizeof weight);
    haul_module *m = load(true);
    assert_int_equal(mapped_bytes(m), 0);
    expect_same(m, saved);
}

static void test_onnx_mapped__refuses_files_that_are_cut(void **state)
{
    (void)state;
    save();
    assert_int_equal(truncate(DATA, BYTES - 1), 0);
    assert_null(haul_load_onnx(FILE_NAME, .map = true));
    assert_int_equal(haul_error_status(), HAUL_FORMAT);
    haul_error_clear();
}

static int enter(void **state)
{
    *state = haul_scope_push();
    haul_manual_seed(1);
    return *state ? 0 : -1;
}

static int leave(void **state)
{
    unlink(FILE_NAME);
    unlink(DATA);
    return haul_scope_pop(*state) ? -1 : 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_onnx_mapped__uses_the_file, enter, leave),
        cmocka_unit_test_setup_teardown(test_onnx_mapped__never_changes_the_file, enter, leave),
        cmocka_unit_test_setup_teardown(test_onnx_mapped__reads_what_is_not_aligned, enter, leave),
        cmocka_unit_test_setup_teardown(test_onnx_mapped__refuses_files_that_are_cut, enter, leave),
    };
    return cmocka_run_group_tests_name("onnx_mapped", tests, NULL, NULL);
}
