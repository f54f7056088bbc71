/* Arithmetic on shapes, above all where it would overflow. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/numbers.h"
#include "core/error.h"
#include "core/shape.h"

static int clear(void **state)
{
    (void)state;
    haul_error_clear();
    return 0;
}

static void test_shape__checked_arithmetic(void **state)
{
    (void)state;
    int64_t out = -7;
    assert_true(haul__mul_size(INT64_MAX, 1, &out));
    assert_int_equal(out, INT64_MAX);
    assert_true(haul__mul_size(INT64_MAX, 0, &out));
    assert_int_equal(out, 0);
    assert_true(haul__add_size(INT64_MAX - 1, 1, &out));
    assert_int_equal(out, INT64_MAX);
    out = -7;
    assert_false(haul__mul_size(INT64_C(1) << 32, INT64_C(1) << 31, &out));
    assert_false(haul__mul_size(-1, 0, &out));
    assert_false(haul__mul_size(3, -2, &out));
    assert_false(haul__add_size(INT64_MAX, 1, &out));
    assert_false(haul__add_size(-1, 1, &out));
    assert_int_equal(haul__ceil_div(0, 3), 0);
    assert_int_equal(haul__ceil_div(6, 3), 2);
    assert_int_equal(haul__ceil_div(7, 3), 3);
    assert_int_equal(haul__ceil_div(INT64_MAX, 2), INT64_MAX / 2 + 1);
    assert_int_equal(haul__ceil_div(-7, 3), 0);
    assert_int_equal(out, -7);
}

static void test_shape__counts(void **state)
{
    (void)state;
    static const struct {
        haul_shape shape;
        int64_t    count;
    } cases[] = {
        {{0, {0}}, 1},
        {{1, {5}}, 5},
        {{4, {64, 3, 32, 32}}, 196608},
        {{3, {4, 0, 3}}, 0},
        {{8, {2, 2, 2, 2, 2, 2, 2, 2}}, 256},
        {{1, {INT64_MAX / 8}}, INT64_MAX / 8},
        {{2, {INT64_MAX / 8, 0}}, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t count = -7;
        assert_int_equal(haul__shape_count(&cases[i].shape, "test", &count), HAUL_OK);
        assert_int_equal(count, cases[i].count);
    }
}

static void test_shape__impossible_ones_are_refused(void **state)
{
    (void)state;
    static const struct {
        haul_shape  shape;
        const char *said;
    } cases[] = {
        {{-1, {0}}, "-1 dimensions"},
        {{9, {1, 1, 1, 1, 1, 1, 1, 1}}, "9 dimensions"},
        {{2, {2, -3}}, "dimension 1 of shape [2,-3] is negative"},
        {{2, {0, -1}}, "negative"},
        {{1, {INT64_MIN}}, "negative"},
        {{1, {INT64_MAX / 8 + 1}}, "more elements"},
        {{2, {INT64_C(1) << 32, INT64_C(1) << 31}}, "more elements"},
        {{2, {INT64_C(1) << 31, INT64_C(1) << 30}}, "more elements"}, /* of 8 bytes */
        {{3, {INT64_MAX, INT64_MAX, 0}}, "more elements"},            /* empty, but its strides overflow */
        {{8, {INT64_MAX, 2, 2, 2, 2, 2, 2, 2}}, "more elements"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t count = -7;
        haul_error_clear();
        assert_int_equal(haul__shape_count(&cases[i].shape, "haul_empty", &count), HAUL_SHAPE);
        assert_int_equal(count, -7);
        assert_int_equal(haul_error_status(), HAUL_SHAPE);
        assert_non_null(strstr(haul_error_message(), cases[i].said));
        assert_string_equal(haul_error_operation(), "haul_empty");
    }
}

static void test_shape__strides_are_row_major(void **state)
{
    (void)state;
    static const struct {
        haul_shape shape;
        int64_t    strides[4];
    } cases[] = {
        {{1, {5}}, {1}},
        {{3, {2, 3, 4}}, {12, 4, 1}},
        {{4, {2, 1, 3, 1}}, {3, 3, 1, 1}},
        {{3, {4, 0, 3}}, {3, 3, 1}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t strides[HAUL_MAX_DIMS];
        haul__shape_strides(&cases[i].shape, strides);
        assert_memory_equal(strides, cases[i].strides, (size_t)cases[i].shape.ndim * sizeof *strides);
    }
}

static void check_broadcast(haul_shape a, haul_shape b, haul_shape wanted)
{
    haul_shape out;
    assert_int_equal(haul__shape_broadcast(&a, &b, "test", &out), HAUL_OK);
    assert_true(haul__shape_equal(&out, &wanted));
    assert_int_equal(haul__shape_broadcast(&b, &a, "test", &out), HAUL_OK);
    assert_true(haul__shape_equal(&out, &wanted));
}

static void test_shape__broadcasts_as_numpy(void **state)
{
    (void)state;
    check_broadcast(HAUL_SHAPE(2, 3), HAUL_SHAPE(2, 3), HAUL_SHAPE(2, 3));
    check_broadcast(HAUL_SHAPE(2, 3), HAUL_SHAPE(3), HAUL_SHAPE(2, 3));
    check_broadcast(HAUL_SHAPE(2, 1), HAUL_SHAPE(1, 3), HAUL_SHAPE(2, 3));
    check_broadcast(HAUL_SHAPE(8, 1, 6, 1), HAUL_SHAPE(7, 1, 5), HAUL_SHAPE(8, 7, 6, 5));
    check_broadcast(HAUL_SHAPE(2, 3), HAUL_SCALAR_SHAPE, HAUL_SHAPE(2, 3));
    check_broadcast(HAUL_SCALAR_SHAPE, HAUL_SCALAR_SHAPE, HAUL_SCALAR_SHAPE);
    check_broadcast(HAUL_SHAPE(0, 3), HAUL_SHAPE(1, 3), HAUL_SHAPE(0, 3));
    check_broadcast(HAUL_SHAPE(2, 0), HAUL_SHAPE(1), HAUL_SHAPE(2, 0));
}

static void test_shape__what_does_not_broadcast_is_named(void **state)
{
    (void)state;
    haul_shape a = HAUL_SHAPE(4, 3), b = HAUL_SHAPE(2, 3), c = HAUL_SHAPE(0, 3), out = HAUL_SHAPE(7);
    assert_int_equal(haul__shape_broadcast(&a, &b, "haul_add", &out), HAUL_SHAPE);
    assert_non_null(strstr(haul_error_message(), "haul_add: shapes [4,3] and [2,3] do not broadcast"));
    assert_int_equal(haul__shape_broadcast(&a, &c, "haul_add", &out), HAUL_SHAPE);
    assert_int_equal(out.dims[0], 7);
    a.ndim = 9;
    assert_int_equal(haul__shape_broadcast(&a, &b, "haul_add", &out), HAUL_SHAPE);
}

static void test_shape__equality(void **state)
{
    (void)state;
    haul_shape a = {2, {2, 3, 4}}, b = {2, {2, 3, 5}}, c = {3, {2, 3, 4}}, d = {2, {2, 4}};
    assert_true(haul__shape_equal(&a, &b)); /* elements behind the dimensions do not count */
    assert_false(haul__shape_equal(&a, &c));
    assert_false(haul__shape_equal(&a, &d));
}

static void test_shape__axes_count_from_both_ends(void **state)
{
    (void)state;
    for (int axis = -3; axis < 3; axis++) {
        int out = -7;
        assert_int_equal(haul__axis(axis, 3, "test", &out), HAUL_OK);
        assert_int_equal(out, (axis + 3) % 3);
    }
    int out = -7;
    assert_int_equal(haul__axis(3, 3, "haul_sum", &out), HAUL_INVALID_ARGUMENT);
    assert_non_null(strstr(haul_error_message(), "-3 to 2"));
    assert_int_equal(haul__axis(-4, 3, "haul_sum", &out), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul__axis(0, 0, "haul_sum", &out), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul__axis(INT32_MIN, 3, "haul_sum", &out), HAUL_INVALID_ARGUMENT);
    assert_int_equal(out, -7);
}

static void test_shape__text_is_cut_to_its_room(void **state)
{
    (void)state;
    char       buffer[64];
    haul_shape shape = HAUL_SHAPE(64, 3, 32, 32), scalar = HAUL_SCALAR_SHAPE;
    assert_string_equal(haul__shape_text(&shape, buffer, sizeof buffer), "[64,3,32,32]");
    assert_string_equal(haul__shape_text(&scalar, buffer, sizeof buffer), "[]");
    for (size_t size = 1; size <= 13; size++) {
        memset(buffer, 'x', sizeof buffer);
        haul__shape_text(&shape, buffer, size);
        assert_int_equal(strlen(buffer), size - 1);
        assert_memory_equal(buffer, "[64,3,32,32]", size - 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_shape__checked_arithmetic, clear),
        cmocka_unit_test_setup(test_shape__counts, clear),
        cmocka_unit_test_setup(test_shape__impossible_ones_are_refused, clear),
        cmocka_unit_test_setup(test_shape__strides_are_row_major, clear),
        cmocka_unit_test_setup(test_shape__broadcasts_as_numpy, clear),
        cmocka_unit_test_setup(test_shape__what_does_not_broadcast_is_named, clear),
        cmocka_unit_test_setup(test_shape__equality, clear),
        cmocka_unit_test_setup(test_shape__axes_count_from_both_ends, clear),
        cmocka_unit_test_setup(test_shape__text_is_cut_to_its_room, clear),
    };
    return cmocka_run_group_tests_name("core_shape", tests, NULL, NULL);
}
