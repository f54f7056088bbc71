/* The list of all operations: every descriptor is well formed, and its public description is true. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "catalog/catalog.h"

static int open_scope(void **state)
{
    *state = haul_scope_push();
    haul_error_clear();
    return *state == NULL;
}

static int close_scope(void **state)
{
    haul_error_clear();
    return (int)haul_scope_pop(*state);
}

static haul_operation_info describe(const char *name)
{
    haul_operation_info info = {0};
    int                 index = haul_operation_find(name);
    if (index < 0)
        fail_msg("%s is not in the list", name);
    assert_int_equal(haul_operation_describe(index, &info), HAUL_OK);
    assert_string_equal(info.name, name);
    return info;
}

static void assert_operands(const haul_operation_info *info, int count, const char *const *names)
{
    assert_int_equal(info->operand_count, count);
    for (int i = 0; i < count; i++) {
        assert_string_equal(info->operands[i].name, names[i]);
        assert_false(info->operands[i].optional);
        assert_false(info->operands[i].written);
    }
}

static uint32_t dtypes_of(const haul_operation_info *info)
{
    uint32_t dtypes = 0;
    for (int i = 0; i < info->dtype_count; i++) {
        assert_false(dtypes & HAUL__ONLY(info->dtypes[i]));
        dtypes |= HAUL__ONLY(info->dtypes[i]);
    }
    return dtypes;
}

/* ---- the list ---- */

static void test_operation__names_are_sorted_and_found(void **state)
{
    const char *before = "";
    (void)state;
    assert_true(haul_operation_count() > 70);
    for (int i = 0; i < haul_operation_count(); i++) {
        haul_operation_info info;
        assert_int_equal(haul_operation_describe(i, &info), HAUL_OK);
        assert_true(strcmp(before, info.name) < 0);
        assert_int_equal(haul_operation_find(info.name), i);
        before = info.name;
    }
}

static void test_operation__unknown_names_are_not_found(void **state)
{
    (void)state;
    assert_int_equal(haul_operation_find("haul_softmaxx"), -1);
    assert_int_equal(haul_operation_find("softmax"), -1);
    assert_int_equal(haul_operation_find(""), -1);
    assert_int_equal(haul_operation_find(NULL), -1);
    assert_int_equal(haul_error_status(), HAUL_OK);
}

static void test_operation__a_bad_index_is_refused(void **state)
{
    haul_operation_info info = {.name = "untouched"};
    const int           bad[] = {-1, haul_operation_count(), 1 << 30};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char number[16];
        snprintf(number, sizeof number, "%d", bad[i]);
        assert_int_equal(haul_operation_describe(bad[i], &info), HAUL_INVALID_ARGUMENT);
        assert_string_equal(haul_error_operation(), "haul_operation_describe");
        assert_string_equal(haul_error_argument(), "index");
        assert_non_null(strstr(haul_error_message(), number));
        assert_non_null(strstr(haul_error_message(), "numbered from 0"));
        assert_string_equal(info.name, "untouched");
        haul_error_clear();
    }
    assert_int_equal(haul_operation_describe(0, NULL), HAUL_INVALID_ARGUMENT);
    assert_string_equal(haul_error_argument(), "out");
}

/* ---- single operations ---- */

static void test_operation__softmax(void **state)
{
    haul_operation_info info = describe("haul_softmax");
    (void)state;
    assert_operands(&info, 1, (const char *const[]){"x"});
    assert_int_equal(info.result_count, 1);
    assert_string_equal(info.results[0], "y");
    assert_int_equal(dtypes_of(&info), HAUL__EVERY);
    assert_true(info.differentiable);
    assert_false(info.variadic);

    info = describe("haul_softmax_backward");
    assert_operands(&info, 2, (const char *const[]){"g", "y"});
    assert_int_equal(dtypes_of(&info), HAUL__FLOATS);
    assert_true(info.differentiable);
    assert_false(info.has_into);
}

static void test_operation__creations_have_no_operands(void **state)
{
    haul_operation_info info = describe("haul_arange");
    (void)state;
    assert_int_equal(info.operand_count, 0);
    assert_int_equal(dtypes_of(&info), HAUL__NUMBERS | HAUL__UNSIGNED); /* of the result */
    assert_false(info.differentiable);
    info = describe("haul_arange_i64");
    assert_int_equal(dtypes_of(&info), HAUL__ONLY(HAUL_I64));
}

static void test_operation__written_operands_and_lists(void **state)
{
    haul_operation_info info = describe("haul_copy_into");
    (void)state;
    assert_int_equal(info.operand_count, 2);
    assert_true(info.operands[0].written);
    assert_false(info.operands[1].written);
    assert_int_equal(info.result_count, 0);
    assert_false(info.differentiable);
    info = describe("haul_cat");
    assert_true(info.variadic && info.differentiable && info.has_into);
    assert_int_equal(info.operand_count, 1);
}

static void test_operation__pointwise_rows(void **state)
{
    static const struct {
        const char *name;
        int         operands;
        uint32_t    dtypes;
        bool        differentiable;
    } rows[] = {
        {"haul_add", 2, HAUL__EVERY, true},
        {"haul_add_scalar", 1, HAUL__EVERY, true}, /* ANY */
        {"haul_sub", 2, HAUL__NUMBERS | HAUL__UNSIGNED, true},
        {"haul_sub_scalar", 1, HAUL__EVERY, true}, /* a number and bool give i64 */
        {"haul_clamp", 1, HAUL__EVERY, true},
        {"haul_neg", 1, HAUL__NUMBERS | HAUL__UNSIGNED, true},
        {"haul_exp", 1, HAUL__EVERY, true},
        {"haul_lt", 2, HAUL__EVERY, false},
        {"haul_lt_scalar", 1, HAUL__EVERY, false},
        {"haul_isnan", 1, HAUL__EVERY, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        haul_operation_info info = describe(rows[i].name);
        const char *const binary[] = {"a", "b"}, *const unary[] = {"x"};
        bool alone = info.operands[0].name[0] == 'x';
        assert_operands(&info, rows[i].operands, alone ? unary : binary);
        assert_int_equal(info.result_count, 1);
        assert_string_equal(info.results[0], "y");
        assert_int_equal(dtypes_of(&info), rows[i].dtypes);
        assert_int_equal(info.differentiable, rows[i].differentiable);
        assert_true(info.has_into);
    }
}

/* ---- descriptors ---- */

/* An operand of the dtype, or of its own where it has one. */
static haul_tensor *operand_of(const haul__operand *operand, haul_dtype dtype)
{
    if (operand->accepts)
        for (dtype = HAUL_BOOL; !(operand->accepts >> dtype & 1);)
            dtype++;
    return haul_empty(dtype, HAUL_SHAPE(2, 2));
}

/* True if an operand follows the operation's rule. Others have dtypes of their own. */
static bool has_rule(const haul__operation *operation)
{
    for (int i = 0; i < HAUL__MAX_OPERANDS && operation->operands[i].name; i++)
        if (!operation->operands[i].accepts)
            return true;
    return false;
}

/* What the description says of dtypes is what a call does. Other refusals, as of a shape, say nothing about them. */
static int check_dtypes(const haul__operation *operation)
{
    static const unsigned char zeros[HAUL__MAX_ATTRIBUTES];
    haul_operation_info        info = describe(operation->name);
    uint32_t                   listed = dtypes_of(&info);
    int                        accepted = 0;
    for (haul_dtype d = HAUL_BOOL; d < HAUL_DTYPE_END; d++) {
        haul_scope  *scope = haul_scope_push();
        haul_tensor *operands[HAUL__MAX_OPERANDS], *results[HAUL__MAX_RESULTS];
        for (int i = 0; i < info.operand_count; i++)
            operands[i] = operand_of(&operation->operands[i], d);
        haul_status status = haul__apply(operation, zeros, operands, info.operand_count, results);
        bool        is_listed = listed >> d & 1;
        if (is_listed ? status == HAUL_DTYPE : !status)
            fail_msg("%s of %s: %s", operation->name, haul_dtype_name(d), haul_error_message());
        accepted += !status;
        haul_error_clear();
        assert_int_equal(haul_scope_pop(scope), HAUL_OK);
    }
    return accepted;
}

static void test_operation__dtypes_are_those_that_calls_accept(void **state)
{
    int checked = 0;
    (void)state;
    assert_int_equal(haul_set_device(haul_device_get("meta")), HAUL_OK);
    for (int i = 0; i < haul__catalog_count; i++) {
        const haul__operation *operation = haul__catalog[i].operation;
        /* Attributes of zeros mean something to these only. */
        bool zeros = !operation->attributes_size || operation->pointwise || strstr(operation->name, "softmax");
        if (zeros && has_rule(operation))
            checked += check_dtypes(operation) > 0;
    }
    assert_true(checked > 75);
}

/* Names come one after the other, from the first on. */
static int count_operands(const haul__operation *operation)
{
    int count = 0;
    for (int i = 0; i < HAUL__MAX_OPERANDS; i++)
        if (operation->operands[i].name) {
            assert_int_equal(count, i);
            assert_true(*operation->operands[i].name);
            count++;
        }
    return count;
}

static int count_results(const haul__operation *operation)
{
    int count = 0;
    for (int i = 0; i < HAUL__MAX_RESULTS; i++)
        if (operation->results[i].name) {
            assert_int_equal(count, i);
            assert_true(*operation->results[i].name);
            count++;
        }
    return count;
}

/* A tensor is saved for the gradients of operands that exist. */
static void check_saves(const haul__operation *operation, unsigned saved_for, int operands)
{
    if (!operation->gradient)
        assert_int_equal(saved_for, 0);
    else if (saved_for != HAUL__FOR_ALL)
        assert_int_equal(saved_for >> operands, 0);
}

static void check_descriptor(const haul__operation *operation)
{
    int operands = count_operands(operation), results = count_results(operation);
    assert_int_equal(strncmp(operation->name, "haul_", 5), 0);
    assert_true(results > 0 || operands > 0);
    for (int i = 0; i < operands; i++) {
        const haul__operand *o = &operation->operands[i];
        check_saves(operation, o->saved_for, operands);
        if (o->becomes)
            assert_true(o->accepts && (o->accepts >> o->becomes & 1));
        assert_int_equal(o->accepts & ~HAUL__EVERY, 0);
        assert_false(o->written && o->saved_for);
    }
    for (int i = 0; i < results; i++)
        check_saves(operation, operation->results[i].saved_for, operands);
    if (results)
        assert_false(operation->results[0].hidden);
    assert_int_equal(operation->dtypes & ~HAUL__EVERY, 0);
    assert_true(operation->attributes_size <= HAUL__MAX_ATTRIBUTES);
    if (operation->repeat)
        assert_int_equal(operands, operation->repeat);
    if (operation->compose)
        assert_true(!operation->infer && !operation->compute);
    else
        assert_non_null(operation->infer);
    if (operation->pointwise)
        assert_true(operation->elementwise && results == 1 && operands <= 2);
}

static void test_operation__descriptors_are_well_formed(void **state)
{
    (void)state;
    for (int i = 0; i < haul__catalog_count; i++) {
        print_message("%s\n", haul__catalog[i].operation->name); /* the one that fails comes last */
        check_descriptor(haul__catalog[i].operation);
    }
}

/* Hidden results are the graph's: no description has them. */
static void test_operation__descriptions_agree_with_descriptors(void **state)
{
    (void)state;
    for (int i = 0; i < haul__catalog_count; i++) {
        const haul__operation *operation = haul__catalog[i].operation;
        haul_operation_info    info = describe(operation->name);
        int                    shown = 0;
        assert_int_equal(info.operand_count, count_operands(operation));
        for (int k = 0; k < info.operand_count; k++) {
            assert_string_equal(info.operands[k].name, operation->operands[k].name);
            assert_int_equal(info.operands[k].optional, operation->operands[k].optional);
            assert_int_equal(info.operands[k].written, operation->operands[k].written);
        }
        for (int k = 0; k < count_results(operation); k++)
            if (!operation->results[k].hidden)
                assert_string_equal(info.results[shown++], operation->results[k].name);
        assert_int_equal(info.result_count, shown);
        assert_true(info.dtype_count > 0);
        assert_int_equal(info.variadic, operation->repeat > 0);
        if (info.differentiable)
            assert_true(operation->gradient || operation->compose);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_operation__##name, open_scope, close_scope)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(names_are_sorted_and_found),
        TEST(unknown_names_are_not_found),
        TEST(a_bad_index_is_refused),
        TEST(softmax),
        TEST(creations_have_no_operands),
        TEST(written_operands_and_lists),
        TEST(pointwise_rows),
        TEST(dtypes_are_those_that_calls_accept),
        TEST(descriptors_are_well_formed),
        TEST(descriptions_agree_with_descriptors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
