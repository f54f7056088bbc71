/* Results of more than 32 MiB, which go past the caches on each device that can do so, and transposed copies of odd
 * sizes: every element, on each device. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>

#include "base/half.h"
#include "support/conformance/conformance.h"

enum { ROWS = 3803, COLUMNS = 2311, COUNT = ROWS * COLUMNS, FIRST = 3 };

static float *values, *got;

/* Exact in f16. */
static float value(int64_t i)
{
    return (float)(i % 2039);
}

static void read_all(haul_tensor *t, int64_t count)
{
    assert_int_equal(haul_read(t, got, (size_t)count * sizeof *got), HAUL_OK);
}

static void test_large__elementwise(void **state)
{
    haul_tensor *x = haul_from_host(HAUL_F32, HAUL_SHAPE(ROWS, COLUMNS), values);
    (void)state;
    read_all(haul_add(x, x), COUNT);
    for (int64_t i = 0; i < COUNT; i++)
        assert_true(got[i] == 2 * value(i));
    read_all(haul_relu(x), COUNT);
    for (int64_t i = 0; i < COUNT; i++)
        assert_true(got[i] == value(i));
    read_all(haul_add_scalar(haul_slice(x, 0, FIRST, ROWS, 1), 1), COUNT - FIRST * COLUMNS);
    for (int64_t i = 0; i < COUNT - FIRST * COLUMNS; i++)
        assert_true(got[i] == value(i + FIRST * COLUMNS) + 1);
}

static void test_large__copies_fills_and_casts(void **state)
{
    haul_tensor *x = haul_from_host(HAUL_F32, HAUL_SHAPE(ROWS, COLUMNS), values);
    (void)state;
    read_all(haul_cast(haul_cast(haul_clone(x), HAUL_F64), HAUL_F32), COUNT);
    for (int64_t i = 0; i < COUNT; i++)
        assert_true(got[i] == value(i));
    read_all(haul_full(HAUL_F32, HAUL_SHAPE(ROWS, COLUMNS), 3), COUNT);
    for (int64_t i = 0; i < COUNT; i++)
        assert_true(got[i] == 3);
}

static void test_large__halves(void **state)
{
    haul_tensor *x = haul_from_host(HAUL_F32, HAUL_SHAPE(ROWS, COLUMNS), values);
    (void)state;
    haul_tensor *y = haul_cast(haul_cast(haul_cat((haul_tensor *[]){x, x}, 2, 0), HAUL_F16), HAUL_F32);
    for (int part = 0; part < 2; part++) {
        read_all(haul_slice(y, 0, part * ROWS, (part + 1) * ROWS, 1), COUNT);
        for (int64_t i = 0; i < COUNT; i++)
            assert_true(got[i] == value(i));
    }
}

/* Operands that are broadcast along rows and along columns, results of other sizes than the operands, and rows that do
 * not begin at a line. */
static void test_large__broadcasts_and_other_sizes(void **state)
{
    haul_tensor *x = haul_from_host(HAUL_F32, HAUL_SHAPE(ROWS, COLUMNS), values);
    haul_tensor *row = haul_slice(x, 0, 0, 1, 1), *column = haul_slice(x, 1, 0, 1, 1);
    (void)state;
    read_all(haul_add(x, row), COUNT);
    for (int64_t i = 0; i < COUNT; i++)
        assert_true(got[i] == value(i) + value(i % COLUMNS));
    read_all(haul_add(x, column), COUNT);
    for (int64_t i = 0; i < COUNT; i++)
        assert_true(got[i] == value(i) + value(i / COLUMNS * COLUMNS));
    read_all(haul_cast(haul_gt(x, column), HAUL_F32), COUNT);
    for (int64_t i = 0; i < COUNT; i++)
        assert_true(got[i] == (value(i) > value(i / COLUMNS * COLUMNS)));
    read_all(haul_cast(haul_add(haul_cast(x, HAUL_F16), haul_cast(column, HAUL_F16)), HAUL_F32), COUNT);
    for (int64_t i = 0; i < COUNT; i++) {
        const float sum = value(i) + value(i / COLUMNS * COLUMNS);
        assert_true(got[i] == haul__half_decode(HAUL_F16, haul__half_encode(HAUL_F16, sum)));
    }
}

/* Row i of the wide tensor is row i of x as often as `step` says. */
static void test_large__stepped_copies(void **state)
{
    haul_tensor *x = haul_from_host(HAUL_F32, HAUL_SHAPE(ROWS, COLUMNS), values);
    (void)state;
    for (int step = 2; step < 4; step++) {
        haul_tensor *wide = haul_cat((haul_tensor *[]){x, x, x}, step, 1);
        read_all(haul_contiguous(haul_slice(wide, 1, 0, step * COLUMNS, step)), COUNT);
        for (int64_t i = 0; i < ROWS; i++)
            for (int64_t j = 0; j < COLUMNS; j++)
                assert_true(got[i * COLUMNS + j] == value(i * COLUMNS + j * step % COLUMNS));
    }
}

static void check_transposed(int64_t rows, int64_t columns)
{
    haul_tensor *x = haul_from_host(HAUL_F32, HAUL_SHAPE(ROWS, COLUMNS), values);
    haul_tensor *part = haul_slice(haul_slice(x, 0, 0, rows, 1), 1, 0, columns, 1);
    read_all(haul_contiguous(haul_transpose(part, 0, 1)), rows * columns);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++)
            assert_true(got[j * rows + i] == value(i * COLUMNS + j));
}

/* Rows of the second result are whole lines. */
static void test_large__transposed_copies(void **state)
{
    (void)state;
    check_transposed(ROWS, COLUMNS);
    check_transposed(ROWS / 16 * 16, COLUMNS / 16 * 16);
}

static int run_on(haul_device *device)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_large__elementwise),    cmocka_unit_test(test_large__copies_fills_and_casts),
        cmocka_unit_test(test_large__halves),         cmocka_unit_test(test_large__broadcasts_and_other_sizes),
        cmocka_unit_test(test_large__stepped_copies), cmocka_unit_test(test_large__transposed_copies),
    };
    haul_scope *scope = haul_scope_push();
    haul_set_device(device);
    const int failed = cmocka_run_group_tests_name(haul_device_name(device), tests, NULL, NULL);
    haul_scope_pop(scope);
    return failed;
}

int main(void)
{
    haul_device *devices[8];
    const int    count = test_devices(devices, 8);
    int          failed = count == 0;
    values = malloc(COUNT * sizeof *values);
    got = malloc(COUNT * sizeof *got);
    if (!values || !got)
        return 1;
    for (int64_t i = 0; i < COUNT; i++)
        values[i] = value(i);
    for (int i = 0; i < count; i++)
        failed += run_on(devices[i]);
    free(values);
    free(got);
    return failed != 0;
}
