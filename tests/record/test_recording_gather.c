/* Pointwise operations that move to a chain past operations that use none of its tensors. */
#include <haul/haul.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/devices/fusion.h"
#include "support/devices/program.h"

static haul_tensor *given, *other, *written, *counter, *second_counter, *indices, *kept;

static void begin(haul_scope **scope)
{
    *scope = haul_scope_push();
    haul_set_device(haul_cpu());
    set_fusion(true);
    haul_manual_seed(3);
    given = haul_normal(HAUL_F32, HAUL_SHAPE(100, 30), 0, 1);
    other = haul_normal(HAUL_F32, HAUL_SHAPE(100, 30), 0, 1);
    written = haul_zeros(HAUL_F32, HAUL_SHAPE(100, 30));
    counter = haul_full(HAUL_I64, HAUL_SCALAR_SHAPE, 0);
    second_counter = haul_full(HAUL_I64, HAUL_SCALAR_SHAPE, 0);
    indices = haul_zeros(HAUL_I64, HAUL_SHAPE(4));
}

static int64_t chain_of(const haul_program *p, const char *name)
{
    return p->operations[find(p, name)].fused;
}

static haul_status keep(haul_tensor *t)
{
    haul_release(kept);
    kept = haul_keep(t);
    return haul_error_status();
}

/* A followed step gives what the function gives by itself. */
static void expect_same_followed(haul_status (*function)(void *))
{
    haul_scope *scope = haul_scope_push();
    assert_int_equal(function(NULL), HAUL_OK);
    haul_tensor    *eager = haul_clone(kept);
    haul_recording *r = haul_recording_new(function, NULL);
    for (int i = 0; i < 3; i++)
        assert_int_equal(haul_recording_run(r), HAUL_OK);
    haul_recording_report report;
    assert_int_equal(haul_recording_report_get(r, &report), HAUL_OK);
    assert_int_equal(report.followed, 2);
    assert_true(haul_item(haul_all(haul_eq(eager, kept))) == 1);
    haul_release(kept);
    kept = NULL;
    haul_scope_pop(scope);
}

/* The product reads nothing that the square writes. */
static haul_status goes_back(void *context)
{
    (void)context;
    haul_tensor *a = haul_square(given), *b = haul_matmul(other, haul_transpose(other, 0, 1));
    return keep(haul_add(haul_sum(haul_sigmoid(a)), haul_sum(b)));
}

static void test_operation__goes_back_to_its_chain(void **state)
{
    (void)state;
    haul_scope *scope;
    begin(&scope);
    haul_program p = recorded(goes_back);
    assert_int_equal(chain_of(&p, "haul_sigmoid"), find(&p, "haul_square"));
    assert_int_equal(chain_of(&p, "haul_square"), find(&p, "haul_square"));
    assert_true(find(&p, "haul_sigmoid") < find(&p, "haul_matmul"));
    haul_program_free(&p);
    expect_same_followed(goes_back);
    haul_scope_pop(scope);
}

/* The sum needs the softmax, so the square waits for it. */
static haul_status waits(void *context)
{
    (void)context;
    haul_tensor *a = haul_square(given), *b = haul_softmax(other, 1);
    return keep(haul_add(a, b));
}

static void test_chain__waits_for_an_operation(void **state)
{
    (void)state;
    haul_scope *scope;
    begin(&scope);
    haul_program p = recorded(waits);
    assert_int_equal(chain_of(&p, "haul_add"), find(&p, "haul_square"));
    assert_true(find(&p, "haul_softmax") < find(&p, "haul_square"));
    haul_program_free(&p);
    expect_same_followed(waits);
    haul_scope_pop(scope);
}

/* The softmax reads the square and is read by the sum. */
static haul_status needs(void *context)
{
    (void)context;
    haul_tensor *a = haul_square(given), *b = haul_softmax(a, 1);
    return keep(haul_add(a, b));
}

static haul_status overwrites(void *context)
{
    (void)context;
    haul_tensor *a = haul_square(given);
    haul_status  status = haul_copy_into(written, haul_softmax(other, 1));
    status = status ? status : haul_mul_scalar_into(written, written, 3);
    haul_tensor *b = haul_matmul(written, haul_transpose(written, 0, 1));
    return status ? status : keep(haul_add(haul_sum(haul_sub(a, written)), haul_sum(b)));
}

static void test_operations__that_need_each_other_stay(void **state)
{
    (void)state;
    haul_scope *scope;
    begin(&scope);
    haul_program p = recorded(needs);
    assert_int_equal(chain_of(&p, "haul_square"), -1);
    assert_int_equal(chain_of(&p, "haul_add"), -1);
    haul_program_free(&p);
    expect_same_followed(needs);
    expect_same_followed(overwrites);
    haul_scope_pop(scope);
}

static haul_status counts(void *context)
{
    (void)context;
    haul_status  status = haul_add_scalar_into(counter, counter, 1);
    haul_tensor *y = haul_softmax(other, 1);
    status = status ? status : haul_add_scalar_into(second_counter, second_counter, 2);
    return status ? status : keep(haul_matmul(y, haul_transpose(y, 0, 1)));
}

static haul_status counts_around_indices(void *context)
{
    (void)context;
    haul_status  status = haul_add_scalar_into(counter, counter, 1);
    haul_tensor *y = haul_index_select(other, 0, indices);
    status = status ? status : haul_add_scalar_into(second_counter, second_counter, 2);
    return status ? status : keep(y);
}

/* Counters are fused, although they share nothing, but not past an operation that can fail. */
static void test_few_elements__go_to_any_chain(void **state)
{
    (void)state;
    haul_scope *scope;
    begin(&scope);
    haul_program p = recorded(counts);
    assert_int_equal(chain_of(&p, "haul_add_scalar"), find(&p, "haul_add_scalar"));
    haul_program_free(&p);
    expect_same_followed(counts);
    assert_true(haul_item(second_counter) == 8);
    p = recorded(counts_around_indices);
    assert_int_equal(chain_of(&p, "haul_add_scalar"), -1);
    haul_program_free(&p);
    haul_scope_pop(scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_operation__goes_back_to_its_chain),
        cmocka_unit_test(test_chain__waits_for_an_operation),
        cmocka_unit_test(test_operations__that_need_each_other_stay),
        cmocka_unit_test(test_few_elements__go_to_any_chain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
