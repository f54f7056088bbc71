/* Copies to another device in followed steps: equal ones become one.
 *
 * ctest: cuda; sim */
#include <haul/haul.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/devices/each.h"
#include "support/devices/program.h"

static haul_device *device; /* the one under test */
static haul_tensor *given, *weight, *kept;

static void begin(haul_scope **scope)
{
    *scope = haul_scope_push();
    haul_set_device(haul_cpu());
    haul_manual_seed(5);
    given = haul_normal(HAUL_F32, HAUL_SHAPE(20, 30), 0, 1);
    weight = haul_to(haul_normal(HAUL_F32, HAUL_SHAPE(20, 30), 0, 1), device);
}

static haul_tensor *there(haul_tensor *t)
{
    return haul_to(t, device);
}

static haul_status keep(haul_tensor *t)
{
    haul_release(kept);
    kept = haul_keep(t);
    return haul_error_status();
}

/* The program's haul_to that copy. */
static int count_copies(const haul_program *p)
{
    int count = 0;
    for (int64_t i = 0; i < p->operation_count; i++)
        count += !strcmp(p->operations[i].name, "haul_to") && p->operations[i].view_of < 0;
    return count;
}

/* A followed step gives what the function gives by itself, with so many copies to the device. */
static void expect_followed(haul_status (*function)(void *), int64_t copies)
{
    assert_int_equal(function(NULL), HAUL_OK);
    haul_tensor    *eager = haul_clone(kept);
    haul_recording *r = haul_recording_new(function, NULL);
    for (int i = 0; i < 3; i++)
        assert_int_equal(haul_recording_run(r), HAUL_OK);
    haul_ledger    *ledger = haul_ledger_begin(.everywhere = false);
    haul_ledger_row rows[4];
    int64_t         counted = 0;
    assert_int_equal(haul_recording_run(r), HAUL_OK);
    assert_int_equal(haul_ledger_end(ledger), HAUL_OK);
    for (int i = haul_ledger_rows(ledger, rows, 4, .by = HAUL_LEDGER_TO) - 1; i >= 0; i--)
        counted += rows[i].to == device ? rows[i].count : 0;
    assert_int_equal(report_of(r).followed, 3);
    assert_int_equal(counted, copies);
    assert_true(haul_item(haul_all(haul_eq(eager, kept))) == 1);
    haul_release(kept);
    kept = NULL;
}

static bool is_host(void)
{
    return device == haul_cpu();
}

static haul_status copies_twice(void *context)
{
    (void)context;
    haul_tensor *a = there(given), *b = there(given);
    return keep(haul_add(haul_mul(a, weight), haul_exp(b)));
}

static void test_two_copies__become_one(void **state)
{
    (void)state;
    haul_scope *scope;
    begin(&scope);
    haul_program p = recorded(copies_twice);
    assert_int_equal(count_copies(&p), is_host() ? 0 : 1);
    haul_program_free(&p);
    expect_followed(copies_twice, is_host() ? 0 : 1);
    haul_scope_pop(scope);
}

/* Values are changed back, so that each step sees the same ones. */
static haul_status changes_between(void *context)
{
    (void)context;
    haul_tensor *a = there(given);
    haul_status  status = haul_mul_scalar_into(given, given, 2);
    haul_tensor *b = there(given);
    status = status ? status : haul_mul_scalar_into(given, given, 0.5);
    return status ? status : keep(haul_add(haul_mul(a, weight), b));
}

static haul_status changes_a_view(void *context)
{
    (void)context;
    haul_tensor *a = there(given), *row = haul_slice(given, 0, 3, 4, 1);
    haul_status  status = haul_mul_scalar_into(row, row, 2);
    haul_tensor *b = there(given);
    status = status ? status : haul_mul_scalar_into(row, row, 0.5);
    return status ? status : keep(haul_add(haul_mul(a, weight), b));
}

static haul_status changes_a_copy(void *context)
{
    (void)context;
    haul_tensor *a = is_host() ? haul_clone(given) : there(given), *b = there(given);
    haul_status  status = haul_mul_scalar_into(a, a, 2);
    return status ? status : keep(haul_add(haul_mul(a, weight), b));
}

static haul_status changes_the_second_copy(void *context)
{
    (void)context;
    haul_tensor *a = there(given), *b = is_host() ? haul_clone(given) : there(given);
    haul_status  status = haul_mul_scalar_into(b, b, 2);
    return status ? status : keep(haul_add(haul_mul(a, weight), b));
}

static void test_writes__end_the_sharing(void **state)
{
    (void)state;
    haul_scope *scope;
    begin(&scope);
    haul_status (*const functions[])(void *) = {changes_between, changes_a_view, changes_a_copy,
                                                changes_the_second_copy};
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        expect_followed(functions[i], is_host() ? 0 : 2);
    haul_scope_pop(scope);
}

static haul_tensor *held;

/* One of the copies outlives the step. */
static haul_status holds_one(void *context)
{
    (void)context;
    haul_tensor *a = there(given), *b = there(given);
    haul_release(held);
    held = haul_keep(is_host() ? haul_clone(b) : b);
    return keep(haul_add(haul_mul(a, weight), b));
}

static void test_copy_that_outlives_the_step__is_its_own(void **state)
{
    (void)state;
    haul_scope *scope;
    begin(&scope);
    expect_followed(holds_one, is_host() ? 0 : 2);
    assert_true(haul_item(haul_all(haul_eq(haul_to(held, haul_cpu()), given))) == 1);
    haul_release(held);
    held = NULL;
    haul_scope_pop(scope);
}

/* Other rows of the tensor, and the same rows as another dtype. */
static haul_status copies_parts(void *context)
{
    (void)context;
    haul_tensor *a = there(haul_slice(given, 0, 0, 10, 1)), *b = there(haul_slice(given, 0, 10, 20, 1));
    haul_tensor *c = haul_to(haul_slice(given, 0, 0, 10, 1), device, .dtype = HAUL_F16);
    return keep(haul_add(haul_add(a, b), haul_cast(c, HAUL_F32)));
}

static void test_other_elements_and_dtypes__are_other_copies(void **state)
{
    (void)state;
    haul_scope *scope;
    begin(&scope);
    expect_followed(copies_parts, is_host() ? 0 : 3);
    haul_scope_pop(scope);
}

/* The copy would be held through the moment at which the device needs most. */
static haul_status needs_room_between(void *context)
{
    (void)context;
    haul_tensor *sum = haul_sum(there(given));
    haul_tensor *large = haul_add(haul_reshape(weight, HAUL_SHAPE(600, 1)), haul_reshape(weight, HAUL_SHAPE(600)));
    sum = haul_add(sum, haul_sum(haul_add(haul_exp(large), large)));
    return keep(haul_add(sum, haul_sum(haul_square(there(given)))));
}

static haul_status in_a_scope(void *context)
{
    haul_scope       *scope = haul_scope_push();
    const haul_status status = needs_room_between(context);
    haul_scope_pop(scope);
    return status;
}

static void test_merged_copies__do_not_raise_the_peak(void **state)
{
    (void)state;
    haul_scope *scope;
    begin(&scope);
    haul_program p = recorded(in_a_scope);
    for (int i = 0; i < p.memory_count; i++)
        assert_true(p.memory[i].arena_bytes <= p.memory[i].eager_peak_bytes);
    assert_int_equal(count_copies(&p), is_host() ? 0 : 2);
    haul_program_free(&p);
    expect_followed(in_a_scope, is_host() ? 0 : 2);
    haul_scope_pop(scope);
}

static haul_tensor *target;

static haul_status trains(void *context)
{
    (void)context;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *x = haul_set_requires_grad(haul_detach(weight), true), *y = haul_mul(x, x);
    haul_tensor *loss = haul_mse_loss(y, haul_to(target, device));
    loss = haul_add(loss, haul_mse_loss(haul_exp(y), haul_to(target, device)));
    haul_tensor *g;
    haul_status  status = haul_grad(loss, &x, 1, &g);
    status = status ? status : keep(g);
    haul_scope_pop(scope);
    return status;
}

static void test_backward_pass__uses_the_copy(void **state)
{
    (void)state;
    haul_scope *scope;
    begin(&scope);
    target = given;
    expect_followed(trains, is_host() ? 0 : 1);
    haul_scope_pop(scope);
}

static haul_tensor *out;

/* What HAUL_PLACE_AUTO copies to the host goes to pinned memory, which is not in an arena. */
static haul_status adds_on_the_host(void *context)
{
    (void)context;
    const haul_policy before = haul_placement_policy();
    haul_set_placement_policy(HAUL_PLACE_AUTO);
    haul_tensor      *y = haul_exp(weight);
    const haul_status status = haul_add_into(out, y, given);
    haul_set_placement_policy(before);
    return status ? status : keep(haul_add(out, out));
}

static void test_kept_copies__do_not_outlive_a_followed_step(void **state)
{
    (void)state;
    haul_scope *scope;
    begin(&scope);
    out = haul_zeros(HAUL_F32, HAUL_SHAPE(20, 30));
    haul_recording *r = haul_recording_new(adds_on_the_host, NULL);
    for (int i = 0; i < 6; i++)
        assert_int_equal(haul_recording_run(r), HAUL_OK);
    assert_int_equal(report_of(r).followed, 5);
    assert_int_equal(report_of(r).variants, 1);
    haul_tensor *y = haul_exp(haul_to(weight, haul_cpu()));
    assert_true(haul_item(haul_max(haul_abs(haul_sub(out, haul_add(y, given))))) < 1e-5);
    haul_release(kept);
    kept = NULL;
    haul_scope_pop(scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_copies__become_one),
        cmocka_unit_test(test_writes__end_the_sharing),
        cmocka_unit_test(test_copy_that_outlives_the_step__is_its_own),
        cmocka_unit_test(test_other_elements_and_dtypes__are_other_copies),
        cmocka_unit_test(test_merged_copies__do_not_raise_the_peak),
        cmocka_unit_test(test_backward_pass__uses_the_copy),
        cmocka_unit_test(test_kept_copies__do_not_outlive_a_followed_step),
    };
    return run_on_devices(tests, &device);
}
