/* The properties of dtypes, and which of two an operation computes in. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/tensor.h"

static void test_dtype__names_sizes_and_kinds(void **state)
{
    (void)state;
    static const struct {
        haul_dtype  dtype;
        const char *name, *other;
        int         bits;
        bool        is_float, is_integer;
    } known[] = {
        {HAUL_BOOL, "bool", "bool", 8, false, false},  {HAUL_U8, "u8", "uint8", 8, false, true},
        {HAUL_I8, "i8", "int8", 8, false, true},       {HAUL_I16, "i16", "int16", 16, false, true},
        {HAUL_I32, "i32", "int32", 32, false, true},   {HAUL_I64, "i64", "int64", 64, false, true},
        {HAUL_F16, "f16", "float16", 16, true, false}, {HAUL_BF16, "bf16", "bfloat16", 16, true, false},
        {HAUL_F32, "f32", "float32", 32, true, false}, {HAUL_F64, "f64", "float64", 64, true, false},
        {HAUL_U16, "u16", "uint16", 16, false, true},  {HAUL_U32, "u32", "uint32", 32, false, true},
        {HAUL_U64, "u64", "uint64", 64, false, true},
    };
    assert_int_equal(sizeof known / sizeof *known, HAUL_DTYPE_END - 1);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        haul_dtype dtype = known[i].dtype;
        assert_string_equal(haul_dtype_name(dtype), known[i].name);
        assert_int_equal(haul_dtype_parse(known[i].name), dtype);
        assert_int_equal(haul_dtype_parse(known[i].other), dtype);
        assert_int_equal(haul_dtype_bits(dtype), known[i].bits);
        assert_int_equal(haul__dtype_size(dtype), known[i].bits / 8);
        assert_int_equal(haul_dtype_is_float(dtype), known[i].is_float);
        assert_int_equal(haul_dtype_is_integer(dtype), known[i].is_integer);
    }
}

static void test_dtype__unknown_ones_are_harmless(void **state)
{
    (void)state;
    assert_string_equal(haul_dtype_name(HAUL_DTYPE_NONE), "none");
    assert_string_equal(haul_dtype_name(HAUL_DTYPE_END), "invalid");
    assert_string_equal(haul_dtype_name((haul_dtype)-1), "invalid");
    assert_int_equal(haul_dtype_bits((haul_dtype)1000), 0);
    static const char *const wrong[] = {"", "none", "invalid", "F32", "f3", "f322", "complex64"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(haul_dtype_parse(wrong[i]), HAUL_DTYPE_NONE);
    assert_int_equal(haul_dtype_parse(NULL), HAUL_DTYPE_NONE);
}

/* https://data-apis.org/array-api/2022.12/API_specification/type_promotion.html, restricted to the dtypes we have;
 * mixes it leaves open (bool with numbers, integers with floats, the 16-bit floats) as in PyTorch. */
static void test_dtype__promotion_table(void **state)
{
    (void)state;
    enum { b = HAUL_BOOL, u8 = HAUL_U8, i8 = HAUL_I8, i16 = HAUL_I16, i32 = HAUL_I32, i64 = HAUL_I64 };
    enum { f16 = HAUL_F16, bf = HAUL_BF16, f32 = HAUL_F32, f64 = HAUL_F64 };
    static const int order[] = {b, u8, i8, i16, i32, i64, f16, bf, f32, f64};
    static const int table[10][10] = {
        /*           b    u8   i8   i16  i32  i64  f16  bf   f32  f64 */
        /* b   */ {b, u8, i8, i16, i32, i64, f16, bf, f32, f64},
        /* u8  */ {u8, u8, i16, i16, i32, i64, f16, bf, f32, f64},
        /* i8  */ {i8, i16, i8, i16, i32, i64, f16, bf, f32, f64},
        /* i16 */ {i16, i16, i16, i16, i32, i64, f16, bf, f32, f64},
        /* i32 */ {i32, i32, i32, i32, i32, i64, f16, bf, f32, f64},
        /* i64 */ {i64, i64, i64, i64, i64, i64, f16, bf, f32, f64},
        /* f16 */ {f16, f16, f16, f16, f16, f16, f16, f32, f32, f64},
        /* bf  */ {bf, bf, bf, bf, bf, bf, f32, bf, f32, f64},
        /* f32 */ {f32, f32, f32, f32, f32, f32, f32, f32, f32, f64},
        /* f64 */ {f64, f64, f64, f64, f64, f64, f64, f64, f64, f64},
    };
    for (int i = 0; i < 10; i++)
        for (int j = 0; j < 10; j++)
            assert_int_equal(haul_dtype_promote((haul_dtype)order[i], (haul_dtype)order[j]), table[i][j]);
}

static void test_dtype__promotion_with_nothing_is_nothing(void **state)
{
    (void)state;
    assert_int_equal(haul_dtype_promote(HAUL_DTYPE_NONE, HAUL_F32), HAUL_DTYPE_NONE);
    assert_int_equal(haul_dtype_promote(HAUL_F32, HAUL_DTYPE_END), HAUL_DTYPE_NONE);
    assert_int_equal(haul_dtype_promote((haul_dtype)-1, (haul_dtype)-1), HAUL_DTYPE_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dtype__names_sizes_and_kinds),
        cmocka_unit_test(test_dtype__unknown_ones_are_harmless),
        cmocka_unit_test(test_dtype__promotion_table),
        cmocka_unit_test(test_dtype__promotion_with_nothing_is_nothing),
    };
    return cmocka_run_group_tests_name("core_dtype", tests, NULL, NULL);
}
