/* The reader of JSON: values, escapes, numbers, and where it ends. */
#include <haul/haul.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "files/json.h"

enum { ROOM = 512 };

/* Writes a value in one way: n of numbers, d of decimals, l of literals, s of strings, [ ] and { } with the count. */
static void write_value(const haul__json *v, char *out)
{
    size_t used = strlen(out);
    if (v->name)
        used += (size_t)snprintf(out + used, ROOM - used, "%s=", v->name);
    if (v->kind == HAUL__JSON_NUMBER) {
        assert_null(v->string);
        snprintf(out + used, ROOM - used, "n%llu", (unsigned long long)v->number);
    } else if (v->kind == HAUL__JSON_ARRAY || v->kind == HAUL__JSON_OBJECT) {
        snprintf(out + used, ROOM - used, "%c%zu", v->kind == HAUL__JSON_ARRAY ? '[' : '{', v->count);
        for (const haul__json *child = v->child; child; child = child->next) {
            strcat(out, " ");
            write_value(child, out);
        }
        strcat(out, v->kind == HAUL__JSON_ARRAY ? "]" : "}");
    } else {
        assert_int_equal(v->number, 0);
        snprintf(out + used, ROOM - used, "%c%s",
                 v->kind == HAUL__JSON_DECIMAL   ? 'd'
                 : v->kind == HAUL__JSON_LITERAL ? 'l'
                                                 : 's',
                 v->string);
    }
}

/* Reads the text from memory that ends with it, so that a sanitizer sees a read behind its end. */
static haul__json *read_text(const char *text, int depth, bool all, size_t *used)
{
    const size_t size = strlen(text);
    uint8_t     *own = malloc(size ? size : 1);
    haul__json  *value = NULL;
    assert_non_null(own);
    memcpy(own, text, size);
    assert_int_equal((all ? haul__json_read_all : haul__json_read)("test", own, size, depth, &value, used), HAUL_OK);
    free(own);
    return value;
}

static void test_json__values(void **state)
{
    static const struct {
        const char *text, *value;
        size_t      used; /* 0: the whole text */
    } cases[] = {
        {"0", "n0", 0},
        {"7", "n7", 0},
        {" \t\r\n 12 ", "n12", 7},
        {"18446744073709551614", "n18446744073709551614", 0},
        {"18446744073709551615", "n18446744073709551615", 0},
        {"18446744073709551616", "n18446744073709551615", 0},
        {"18446744073709551625", "n18446744073709551615", 0},
        {"99999999999999999999999", "n18446744073709551615", 0},
        {"-0", "d-0", 0},
        {"-17", "d-17", 0},
        {"0.5", "d0.5", 0},
        {"10e5", "d10e5", 0},
        {"1E+05", "d1E+05", 0},
        {"1.25e-300", "d1.25e-300", 0},
        {"1x", "n1", 1},
        {"true", "ltrue", 0},
        {"false", "lfalse", 0},
        {"null", "lnull", 0},
        {"nullnull", "lnull", 4},
        {"[]", "[0]", 0},
        {"{}", "{0}", 0},
        {" [ 1 , [ ] , \"a\" ] ", "[3 n1 [0] sa]", 18},
        {"{\"a\":1,\"b\":{\"c\":true},\"a\":-2}", "{3 a=n1 b={1 c=ltrue} a=d-2}", 0},
        {"{ \"\" : \"\" }", "{1 =s}", 0},
        {"\"\"", "s", 0},
        {"\"a b\"c", "sa b", 5},
        {"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "s\"\\/\b\f\n\r\t", 0},
        {"\"\\u0001\\u007f\\u0080\\u07FF\\u0800\\ud7ff\\ue000\\uFfFf\\u00AF\"",
         "s\x01\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf\xc2\xaf", 0},
        {"\"\\ud800\\udc00\\udbff\\udfff\\ud83d\\ude00x\"", "s\xf0\x90\x80\x80\xf4\x8f\xbf\xbf\xf0\x9f\x98\x80x", 0},
        {"\"\x7f\xc3\xa9 \"", "s\x7f\xc3\xa9 ", 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char        out[ROOM] = "";
        size_t      used = 0;
        haul__json *value = read_text(cases[i].text, 3, false, &used);
        if (!value)
            fail_msg("%s was refused", cases[i].text);
        write_value(value, out);
        assert_string_equal(out, cases[i].value);
        assert_int_equal(used, cases[i].used ? cases[i].used : strlen(cases[i].text));
        haul__json_free(value);
    }
}

static void test_json__texts_that_are_no_json_are_refused(void **state)
{
    static const char *const texts[] = {"",
                                        " ",
                                        "tru",
                                        "nul",
                                        "True",
                                        "+1",
                                        "-",
                                        "-x",
                                        "01",
                                        "00",
                                        "-01",
                                        ".5",
                                        "1.",
                                        "1.x",
                                        "1e",
                                        "1e+",
                                        "1E-x",
                                        "[",
                                        "]",
                                        "[1",
                                        "[1,",
                                        "[,",
                                        "[1,]",
                                        "[1 2]",
                                        "{",
                                        "{\"a\"",
                                        "{\"a\":",
                                        "{\"a\":1",
                                        "{\"a\":1,",
                                        "{\"a\":1,}",
                                        "{\"a\" 1}",
                                        "{a:1}",
                                        "{1:1}",
                                        "{\"a\"=1}",
                                        "{\"a\":1]",
                                        "[1}",
                                        "{\"a\":x}",
                                        "\"",
                                        "\"a",
                                        "\"\\",
                                        "\"\\\"",
                                        "\"\\x\"",
                                        "\"\\'\"",
                                        "\"\\u\"",
                                        "\"\\u12\"",
                                        "\"\\u123\"",
                                        "\"\\u123g\"",
                                        "\"\\u 123\"",
                                        "\"\\u12G4\"",
                                        "\"\\u0000\"",
                                        "\"\\udc00\"",
                                        "\"\\udfff\"",
                                        "\"\\ud800\"",
                                        "\"\\ud800x\"",
                                        "\"\\ud800\\n\"",
                                        "\"\\ud800xudc00\"",
                                        "\"\\udc00\\udc00\"",
                                        "\"\\ud800\\u0041\"",
                                        "\"\\ud800\\udbff\"",
                                        "\"\\ud800\\ue000\"",
                                        "\"\\ud800\\u\"",
                                        "\"\\udbff\\",
                                        "\"a\nb\"",
                                        "\"a\tb\"",
                                        "\"\x1f\"",
                                        "[[[[1]]]]",
                                        "{\"a\":{\"b\":{\"c\":{\"d\":1}}}}",
                                        "[[[[]]],1",
                                        "'a'"};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        size_t used = 0;
        if (read_text(texts[i], 3, false, &used))
            fail_msg("%s was read", texts[i]);
        assert_true(used <= strlen(texts[i]));
    }
}

static void test_json__zeros_are_no_json(void **state)
{
    static const uint8_t     escaped[] = {'"', '\\', 0, '"'};
    haul__json              *none = NULL;
    size_t                   read;
    static const char *const texts[] = {"1\0", "1.5\0", "1e5\0"};
    (void)state;
    assert_int_equal(haul__json_read("test", escaped, sizeof escaped, 0, &none, &read), HAUL_OK);
    assert_null(none);
    for (int i = 0; i < 3; i++) {
        const size_t size = strlen(texts[i]);
        haul__json  *value = NULL;
        size_t       used = 0;
        assert_int_equal(haul__json_read("test", (const uint8_t *)texts[i], size + 1, 0, &value, &used), HAUL_OK);
        assert_non_null(value);
        assert_int_equal(used, size);
        haul__json_free(value);
    }
}

static void test_json__depth_is_limited(void **state)
{
    size_t used;
    (void)state;
    for (int depth = 0; depth < 4; depth++) {
        static const char *const texts[] = {"[]", "[[]]", "[[[]]]", "[[[[]]]]", "[[[[[]]]]]"};
        haul__json              *value = read_text(texts[depth], depth, false, &used);
        assert_non_null(value);
        haul__json_free(value);
        assert_null(read_text(texts[depth + 1], depth, false, &used));
    }
}

static void test_json__only_blanks_may_follow_a_whole_text(void **state)
{
    size_t used;
    (void)state;
    haul__json *value = read_text("[1] \n", 2, true, &used);
    assert_non_null(value);
    assert_int_equal(used, 5);
    haul__json_free(value);
    assert_null(read_text("[1] x", 2, true, &used));
    assert_int_equal(used, 4);
    assert_null(read_text("[1 x", 2, true, &used));
    assert_int_equal(used, 3);
}

static void test_json__members_are_found_by_name(void **state)
{
    size_t      used;
    haul__json *value = read_text("{\"a\":1,\"b\":[2],\"a\":3}", 2, false, &used);
    (void)state;
    assert_non_null(value);
    assert_int_equal(haul__json_member(value, "a")->number, 1);
    const haul__json *b = haul__json_member(value, "b");
    assert_int_equal(b->child->number, 2);
    assert_null(haul__json_member(value, "c"));
    assert_null(haul__json_member(value, ""));
    assert_null(haul__json_member(b, "a"));
    assert_null(haul__json_member(b->child, "a"));
    haul__json_free(value);
    haul__json_free(NULL);
}

static void test_json__every_failing_allocation_is_an_error(void **state)
{
    static const char text[] = "{\"a\":[1,-2,true,\"s\"]}";
    (void)state;
    const int64_t blocks = haul__counted_blocks();
    for (int64_t nth = 1;; nth++) {
        haul__json *value = NULL;
        size_t      used;
        haul__fault_plan(HAUL__FAULT_HOST, nth);
        const haul_status status = haul__json_read("test", (const uint8_t *)text, sizeof text - 1, 3, &value, &used);
        const bool        reached = haul__fault_count() >= nth;
        haul__fault_plan(0, 0);
        if (!reached) {
            assert_int_equal(status, HAUL_OK);
            assert_int_equal(nth, 11); /* six values, a name, three texts */
            haul__json_free(value);
            break;
        }
        assert_int_equal(status, HAUL_OUT_OF_MEMORY);
        assert_null(value);
        assert_string_equal(haul_error_operation(), "test");
        haul_error_clear();
    }
    assert_int_equal(haul__counted_blocks(), blocks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json__values),
        cmocka_unit_test(test_json__texts_that_are_no_json_are_refused),
        cmocka_unit_test(test_json__zeros_are_no_json),
        cmocka_unit_test(test_json__depth_is_limited),
        cmocka_unit_test(test_json__only_blanks_may_follow_a_whole_text),
        cmocka_unit_test(test_json__members_are_found_by_name),
        cmocka_unit_test(test_json__every_failing_allocation_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
