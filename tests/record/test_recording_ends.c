/* Reductions at the end of chains have the bits of their own operations. */
#include <haul/haul.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/bits.h"
#include "support/devices/fusion.h"
#include "support/devices/program.h"

typedef haul_tensor *reduction_fn(haul_tensor *x, bool whole);

static haul_tensor *sum(haul_tensor *x, bool whole)
{
    return whole ? haul_sum(x) : haul_sum(x, HAUL_AXES(-1));
}
static haul_tensor *mean(haul_tensor *x, bool whole)
{
    x = haul_dtype_is_float(haul_tensor_dtype(x)) ? x : haul_cast(x, HAUL_F32);
    return whole ? haul_mean(x) : haul_mean(x, HAUL_AXES(-1), .keepdim = true);
}
static haul_tensor *max(haul_tensor *x, bool whole)
{
    return whole ? haul_max(x) : haul_max(x, HAUL_AXES(-1));
}
static haul_tensor *min(haul_tensor *x, bool whole)
{
    return whole ? haul_min(x) : haul_min(x, HAUL_AXES(-1), .keepdim = true);
}

typedef struct reducing {
    haul_tensor  *x;
    reduction_fn *by;
    bool          whole, keeps; /* keeps: the operand of the reduction outlives the step, so it has memory */
    haul_tensor  *result, *kept;
} reducing;

static haul_status step(void *context)
{
    reducing    *r = context;
    haul_tensor *y = haul_add(haul_abs(r->x), r->x);
    haul_release(r->result);
    haul_release(r->kept);
    r->kept = r->keeps ? haul_keep(y) : NULL;
    r->result = haul_keep(r->by(y, r->whole));
    return haul_error_status();
}

/* Some elements are so large that sums leave the range, although means do not. */
static haul_tensor *make_rows(haul_dtype dtype, int64_t rows, int64_t columns)
{
    haul_tensor *x = haul_mul_scalar(haul_normal(HAUL_F32, HAUL_SHAPE(rows, columns), 0, 1), 4);
    haul_tensor *row = haul_reshape(haul_arange(HAUL_F32, 0, (double)rows, 1), HAUL_SHAPE(rows, 1));
    if (dtype == HAUL_F32)
        x = haul_where(haul_lt_scalar(row, 1), haul_mul_scalar(haul_sign(x), 1.5e38), x);
    return haul_cast(dtype == HAUL_U8 ? haul_abs(x) : x, dtype);
}

static int64_t chain_of_last(reducing *r)
{
    haul_program p;
    assert_int_equal(haul_program_record(step, r, &p), HAUL_OK);
    const int64_t chain = p.operations[p.operation_count - 1].fused;
    haul_program_free(&p);
    return chain;
}

static void check_end(haul_dtype dtype, int64_t rows, int64_t columns, reduction_fn *by, bool whole, bool keeps)
{
    char                  what[120];
    haul_scope           *scope = haul_scope_push();
    reducing              r = {.x = make_rows(dtype, rows, columns), .by = by, .whole = whole, .keeps = keeps};
    haul_recording_report report;
    snprintf(what, sizeof what, "%s of %lld rows of %lld, %s", haul_dtype_name(dtype), (long long)rows,
             (long long)columns, whole ? "all" : "each row");
    assert_int_equal(step(&r), HAUL_OK);
    haul_tensor    *eager = haul_clone(r.result);
    haul_recording *recording = haul_recording_new(step, &r, .strict = true);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(haul_recording_run(recording), HAUL_OK);
        assert_same_bits(eager, r.result, what);
    }
    assert_int_equal(haul_recording_report_get(recording, &report), HAUL_OK);
    assert_int_equal(report.followed, 2);
    const bool is_fused = chain_of_last(&r) >= 0, takes_parts = whole && rows * columns > 8192;
    if (!(takes_parts && (by == max || by == min)) && columns > 1 && columns <= 8192 && rows * columns > 1)
        assert_true(is_fused);
    if (takes_parts && (by == max || by == min))
        assert_false(is_fused);
    haul_release(r.result);
    haul_release(r.kept);
    haul_scope_pop(scope);
}

static reduction_fn *const all[] = {sum, mean, max, min};

static void test_reduction__of_rows_has_the_same_bits(void **state)
{
    static const haul_dtype dtypes[] = {HAUL_F32, HAUL_F64, HAUL_F16, HAUL_BF16, HAUL_I32, HAUL_U8};
    static const int64_t    shapes[][2] = {{900, 2},  {70, 16},  {301, 17},  {40, 64},  {65, 100}, {9, 1000},
                                           {3, 4096}, {5, 5003}, {2, 12345}, {1, 8192}, {4100, 3}, {17, 2049}};
    (void)state;
    haul_manual_seed(5);
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
            for (int k = 0; k < 4; k++)
                check_end(dtypes[d], shapes[s][0], shapes[s][1], all[k], false, (s + (size_t)k) % 3 == 0);
}

static void test_reduction__of_all_has_the_same_bits(void **state)
{
    static const haul_dtype dtypes[] = {HAUL_F32, HAUL_F64, HAUL_BF16, HAUL_I64};
    static const int64_t    shapes[][2] = {{3, 5},      {1, 8191},  {2, 4096},    {1, 8193},  {1, 12288},
                                           {16, 20000}, {1, 40961}, {300, 10001}, {8193, 513}};
    (void)state;
    haul_manual_seed(6);
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
            for (int k = 0; k < 4; k++)
                check_end(dtypes[d], shapes[s][0], shapes[s][1], all[k], true, (s + (size_t)k) % 3 == 0);
}

/* Columns, and an operand that no operation of the chain makes, are reduced by themselves. */
static haul_tensor *given;

static haul_status of_columns(void *context)
{
    (void)context;
    return haul_tensor_check(haul_sum(haul_abs(given), HAUL_AXES(0)));
}

static haul_status of_another(void *context)
{
    (void)context;
    haul_tensor *y = haul_abs(given), *s = haul_sum(given, HAUL_AXES(1), .keepdim = true);
    return haul_tensor_check(haul_sub(y, s));
}

static haul_status goes_on(void *context)
{
    (void)context;
    haul_tensor *y = haul_abs(given), *s = haul_sum(y, HAUL_AXES(1), .keepdim = true);
    return haul_tensor_check(haul_div(haul_exp(y), s));
}

static void test_reduction__that_does_not_fit_is_alone(void **state)
{
    haul_program p;
    haul_scope  *scope = haul_scope_push();
    (void)state;
    given = haul_ones(HAUL_F32, HAUL_SHAPE(100, 30));
    assert_int_equal(haul_program_record(of_columns, NULL, &p), HAUL_OK);
    assert_int_equal(p.operations[find(&p, "haul_sum")].fused, -1);
    haul_program_free(&p);
    assert_int_equal(haul_program_record(of_another, NULL, &p), HAUL_OK);
    assert_int_equal(p.operations[find(&p, "haul_sum")].fused, -1);
    haul_program_free(&p);
    /* A pointwise operation goes before the reduction; one that needs it does not. */
    assert_int_equal(haul_program_record(goes_on, NULL, &p), HAUL_OK);
    assert_int_equal(p.operations[find(&p, "haul_exp")].fused, find(&p, "haul_abs"));
    assert_int_equal(p.operations[find(&p, "haul_sum")].fused, find(&p, "haul_abs"));
    assert_true(find(&p, "haul_exp") < find(&p, "haul_sum"));
    assert_int_equal(p.operations[find(&p, "haul_div")].fused, -1);
    haul_program_free(&p);
    haul_scope_pop(scope);
}

/* ---- memory ---- */

/* The first followed step learns what a sum in several passes launches. That takes no memory, which no estimate would
 * count. */
static void test_reduction__takes_no_memory_to_learn(void **state)
{
    haul_scope       *scope = haul_scope_push();
    haul_memory_stats after;
    reducing          r = {.by = sum, .whole = true};
    haul_recording   *recording = haul_recording_new(step, &r);
    (void)state;
    r.x = haul_normal(HAUL_F32, HAUL_SHAPE(1 << 9, 1 << 9), 0, 1);
    assert_int_equal(haul_recording_run(recording), HAUL_OK);
    assert_int_equal(haul_memory_reset_peak(haul_cpu()), HAUL_OK);
    assert_int_equal(haul_recording_run(recording), HAUL_OK);
    assert_int_equal(haul_memory_stats_get(haul_cpu(), &after), HAUL_OK);
    assert_int_equal(after.peak_allocated, after.allocated);
    haul_release(r.result);
    haul_scope_pop(scope);
}

static int begin(void **state)
{
    (void)state;
    set_fusion(true);
    haul_scope_push();
    haul_set_device(haul_cpu());
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reduction__of_rows_has_the_same_bits),
        cmocka_unit_test(test_reduction__of_all_has_the_same_bits),
        cmocka_unit_test(test_reduction__that_does_not_fit_is_alone),
        cmocka_unit_test(test_reduction__takes_no_memory_to_learn),
    };
    return cmocka_run_group_tests(tests, begin, NULL);
}
