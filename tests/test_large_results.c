/* Results that go past the caches, as operations read and write 50 MB and more for them, and transposed copies of odd
 * sizes: every element. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <haul/haul.h>
#include <stdlib.h>

enum { ROWS = 2051, COLUMNS = 3311, COUNT = ROWS * COLUMNS, FIRST = 3 };

static float *values, *got;

static float value(int64_t i)
{
    return (float)(i % 1000003);
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

static void test_large__transposed_copies(void **state)
{
    haul_tensor *x = haul_from_host(HAUL_F32, HAUL_SHAPE(ROWS, COLUMNS), values);
    (void)state;
    read_all(haul_contiguous(haul_transpose(x, 0, 1)), COUNT);
    for (int64_t i = 0; i < ROWS; i++)
        for (int64_t j = 0; j < COLUMNS; j++)
            assert_true(got[j * ROWS + i] == value(i * COLUMNS + j));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_large__elementwise),
        cmocka_unit_test(test_large__copies_fills_and_casts),
        cmocka_unit_test(test_large__transposed_copies),
    };
    values = malloc(COUNT * sizeof *values);
    got = malloc(COUNT * sizeof *got);
    if (!values || !got)
        return 1;
    for (int64_t i = 0; i < COUNT; i++)
        values[i] = value(i);
    haul_scope *scope = haul_scope_push();
    const int   failed = cmocka_run_group_tests(tests, NULL, NULL);
    haul_scope_pop(scope);
    free(values);
    free(got);
    return failed;
}
