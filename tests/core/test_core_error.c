/* The thread's error record.
 *
 * ctest: labels=threads */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "core/error.h"

static int clear(void **state)
{
    (void)state;
    haul_error_clear();
    return 0;
}

static void test_error__starts_empty(void **state)
{
    (void)state;
    assert_int_equal(haul_error_status(), HAUL_OK);
    assert_string_equal(haul_error_message(), "");
    assert_string_equal(haul_error_operation(), "");
    assert_string_equal(haul_error_argument(), "");
}

static void test_error__records_what_failed(void **state)
{
    (void)state;
    assert_int_equal(haul__fail(HAUL_DTYPE, "haul_add", "a", "a is %s", "f16"), HAUL_DTYPE);
    assert_int_equal(haul_error_status(), HAUL_DTYPE);
    assert_string_equal(haul_error_message(), "haul_add: a is f16");
    assert_string_equal(haul_error_operation(), "haul_add");
    assert_string_equal(haul_error_argument(), "a");
    haul_error_clear();
    test_error__starts_empty(state);
}

static void test_error__replaces_the_last(void **state)
{
    (void)state;
    haul__fail(HAUL_DTYPE, "haul_add", "a", "first");
    haul__fail(HAUL_IO, NULL, NULL, "second");
    assert_int_equal(haul_error_status(), HAUL_IO);
    assert_string_equal(haul_error_message(), "second");
    assert_string_equal(haul_error_operation(), "");
    assert_string_equal(haul_error_argument(), "");
}

static void test_error__may_quote_the_old_record(void **state)
{
    (void)state;
    haul__fail(HAUL_IO, "open", "path", "no such file");
    haul__fail(HAUL_FORMAT, "haul_load", haul_error_argument(), "cannot load (%s)", haul_error_message());
    assert_string_equal(haul_error_message(), "haul_load: cannot load (open: no such file)");
    assert_string_equal(haul_error_argument(), "path");
}

static void test_error__can_be_set_by_the_user(void **state)
{
    (void)state;
    assert_int_equal(haul_error_set(HAUL_SHAPE, "halve", "x", "x has %d elements", 3), HAUL_SHAPE);
    assert_int_equal(haul_error_status(), HAUL_SHAPE);
    assert_string_equal(haul_error_message(), "halve: x has 3 elements");
    assert_string_equal(haul_error_operation(), "halve");
    assert_string_equal(haul_error_argument(), "x");
    assert_int_equal(haul_error_set(HAUL_IO, NULL, NULL, "no paper"), HAUL_IO);
    assert_string_equal(haul_error_message(), "no paper");
    assert_int_equal(haul_error_set(HAUL_IO, "halve", NULL, NULL), HAUL_IO);
    assert_string_equal(haul_error_message(), "halve: no reason is given");
}

static void test_error__set_without_a_failing_status_is_one(void **state)
{
    (void)state;
    assert_int_equal(haul_error_set(HAUL_OK, "halve", NULL, "fine"), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_error_status(), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_error_set((haul_status)99, "halve", NULL, "odd"), HAUL_INVALID_ARGUMENT);
}

static void test_error__null_operand_keeps_the_first_error(void **state)
{
    (void)state;
    haul__fail(HAUL_SHAPE, "haul_matmul", "b", "does not fit");
    assert_int_equal(haul__fail_null("haul_add", "a"), HAUL_SHAPE);
    assert_string_equal(haul_error_operation(), "haul_matmul");
}

static void test_error__null_operand_without_error_is_one(void **state)
{
    (void)state;
    assert_int_equal(haul__fail_null("haul_add", "a"), HAUL_INVALID_ARGUMENT);
    assert_string_equal(haul_error_operation(), "haul_add");
    assert_string_equal(haul_error_argument(), "a");
    assert_non_null(strstr(haul_error_message(), "haul_add: a is NULL"));
}

static void test_error__of_a_call_within_is_that_of_the_function_called(void **state)
{
    (void)state;
    haul__fail(HAUL_IO, "haul_inner", "path", "cannot open %s", "haul_inner: x");
    assert_int_equal(haul__fail_within("haul_outer"), HAUL_IO);
    assert_string_equal(haul_error_operation(), "haul_outer");
    assert_string_equal(haul_error_argument(), "path");
    assert_string_equal(haul_error_message(), "haul_outer: cannot open haul_inner: x");
    assert_int_equal(haul__fail_within("haul_outer"), HAUL_IO);
    assert_string_equal(haul_error_message(), "haul_outer: cannot open haul_inner: x");
    haul__fail(HAUL_OUT_OF_MEMORY, NULL, NULL, "exhausted");
    haul__fail_within("haul_outer");
    assert_string_equal(haul_error_message(), "haul_outer: exhausted");
}

static void test_error__message_is_one_line(void **state)
{
    (void)state;
    haul__fail(HAUL_IO, "haul_load", "path", "cannot open '%s'", "a\nb\r\tc\033[31m");
    assert_string_equal(haul_error_message(), "haul_load: cannot open 'a b  c [31m'");
}

static void test_error__long_message_ends_in_dots_between_characters(void **state)
{
    (void)state;
    /* With 0 to 3 bytes in front, the cut falls on each byte of the four-byte character once. */
    for (int before = 0; before < 4; before++) {
        char text[2000];
        memset(text, 'x', sizeof text);
        for (size_t i = (size_t)before; i + 4 < sizeof text; i += 4)
            memcpy(text + i, "\xf0\x9f\x9a\x9a", 4);
        text[sizeof text - 1] = 0;
        haul__fail(HAUL_IO, NULL, NULL, "%s", text);
        const char *message = haul_error_message();
        size_t      length = strlen(message);
        assert_true(length < sizeof((haul__error_record *)0)->message && length > 500);
        assert_string_equal(message + length - 3, "...");
        assert_int_equal((length - 3 - (size_t)before) % 4, 0);
    }
}

static void test_error__saved_record_comes_back(void **state)
{
    (void)state;
    haul__error_record saved;
    haul__fail(HAUL_IO, "haul_load", "path", "first");
    haul__error_save(&saved);
    haul__fail(HAUL_STATE, "clean-up", NULL, "second");
    haul__error_restore(&saved);
    assert_int_equal(haul_error_status(), HAUL_IO);
    assert_string_equal(haul_error_message(), "haul_load: first");
}

static void test_error__every_status_has_a_name(void **state)
{
    (void)state;
#define X(name, value, text) assert_string_equal(haul_status_name(HAUL_##name), text);
    HAUL_STATUS_LIST(X)
#undef X
    assert_string_equal(haul_status_name((haul_status)99), "unknown status");
    assert_string_equal(haul_status_name((haul_status)-1), "unknown status");
}

static void *look(void *seen)
{
    *(haul_status *)seen = haul_error_status();
    haul__fail(HAUL_IO, NULL, NULL, "of the other thread");
    return NULL;
}

static void test_error__belongs_to_its_thread(void **state)
{
    (void)state;
    pthread_t   thread;
    haul_status seen = HAUL_BACKEND;
    haul__fail(HAUL_SHAPE, NULL, NULL, "of this thread");
    assert_int_equal(pthread_create(&thread, NULL, look, &seen), 0);
    pthread_join(thread, NULL);
    assert_int_equal(seen, HAUL_OK);
    assert_string_equal(haul_error_message(), "of this thread");
}

/* Without memory for the thread an error has its status, but no texts. */
static void *fail_without_memory(void *wrong)
{
    haul__error_record record;
    haul__fault_plan(HAUL__FAULT_HOST, 1);
    haul__fail(HAUL_SHAPE, "haul_add", "a", "a is f16");
    bool right = haul_error_status() == HAUL_SHAPE && strstr(haul_error_message(), "host memory is exhausted") &&
                 !*haul_error_operation() && !*haul_error_argument();
    haul__error_save(&record);
    haul_error_clear();
    right = right && record.status == HAUL_SHAPE && haul_error_status() == HAUL_OK && !*haul_error_message();
    haul__fault_plan(HAUL__FAULT_HOST, 1);
    haul__error_restore(&record);
    right = right && haul_error_status() == HAUL_SHAPE && haul__fail_within("outer") == HAUL_SHAPE &&
            haul__fail_null("outer", "x") == HAUL_SHAPE;
    haul__error_settle();
    right = right && haul_error_status() == HAUL_SHAPE && *haul_error_message();
    haul__error_settle();
    right = right && haul_error_status() == HAUL_OK;
    haul__fault_plan(0, 0);
    haul__fail(HAUL_IO, NULL, NULL, "with memory"); /* registers the thread */
    *(bool *)wrong = !right || haul_error_status() != HAUL_IO || strcmp(haul_error_message(), "with memory") != 0;
    return NULL;
}

static void test_error__needs_no_memory(void **state)
{
    (void)state;
    pthread_t thread;
    bool      wrong = true;
    assert_int_equal(pthread_create(&thread, NULL, fail_without_memory, &wrong), 0);
    pthread_join(thread, NULL);
    assert_false(wrong);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_error__starts_empty, clear),
        cmocka_unit_test_setup(test_error__records_what_failed, clear),
        cmocka_unit_test_setup(test_error__replaces_the_last, clear),
        cmocka_unit_test_setup(test_error__may_quote_the_old_record, clear),
        cmocka_unit_test_setup(test_error__can_be_set_by_the_user, clear),
        cmocka_unit_test_setup(test_error__set_without_a_failing_status_is_one, clear),
        cmocka_unit_test_setup(test_error__null_operand_keeps_the_first_error, clear),
        cmocka_unit_test_setup(test_error__null_operand_without_error_is_one, clear),
        cmocka_unit_test_setup(test_error__of_a_call_within_is_that_of_the_function_called, clear),
        cmocka_unit_test_setup(test_error__message_is_one_line, clear),
        cmocka_unit_test_setup(test_error__long_message_ends_in_dots_between_characters, clear),
        cmocka_unit_test_setup(test_error__saved_record_comes_back, clear),
        cmocka_unit_test_setup(test_error__every_status_has_a_name, clear),
        cmocka_unit_test_setup(test_error__belongs_to_its_thread, clear),
        cmocka_unit_test_setup(test_error__needs_no_memory, clear),
    };
    return cmocka_run_group_tests_name("core_error", tests, NULL, NULL);
}
