/* The reader of pickles: each operation on texts of a few bytes, and each way in which they can be wrong. */
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
#include "formats/pickle.h"

enum { ROOM = 512 };

static bool is_known(const char *name, size_t size)
{
    return (size == 23 && memcmp(name, "collections\nOrderedDict", 23) == 0) ||
           (size == 3 && memcmp(name, "m\nf", 3) == 0);
}

static void add_text(char *out, const char *text)
{
    assert_true(strlen(out) + strlen(text) < ROOM);
    strcat(out, text);
}

/* Writes a value in one way: numbers, 'texts', None, tuples ( ), lists [ ], dictionaries { }, <global>, calls with !,
 * storages with @, and all others as a question mark. */
static void write_value(const haul__pickle *p, uint32_t index, char *out)
{
    static const char         begins[] = {[HAUL__PICKLE_TUPLE] = '(',
                                          [HAUL__PICKLE_LIST] = '[',
                                          [HAUL__PICKLE_DICT] = '{',
                                          [HAUL__PICKLE_CALL] = '!',
                                          [HAUL__PICKLE_STORAGE] = '@'};
    static const char         ends[] = {[HAUL__PICKLE_TUPLE] = ')',
                                        [HAUL__PICKLE_LIST] = ']',
                                        [HAUL__PICKLE_DICT] = '}',
                                        [HAUL__PICKLE_CALL] = ';',
                                        [HAUL__PICKLE_STORAGE] = ';'};
    const haul__pickle_value *v = &p->values[index];
    char                      text[300];
    if (v->kind == HAUL__PICKLE_NUMBER) {
        snprintf(text, sizeof text, "%lld", (long long)haul__pickle_number(p, index));
    } else if (v->kind == HAUL__PICKLE_TEXT || v->kind == HAUL__PICKLE_GLOBAL) {
        snprintf(text, sizeof text, v->kind == HAUL__PICKLE_TEXT ? "'%.*s'" : "<%.*s>", (int)v->size, p->bytes + v->at);
        assert_int_equal(haul__pickle_is(p, index, ""), v->size == 0);
    } else if (v->kind == HAUL__PICKLE_NONE || v->kind == HAUL__PICKLE_OTHER) {
        snprintf(text, sizeof text, "%s", v->kind == HAUL__PICKLE_NONE ? "None" : "?");
    } else {
        snprintf(text, sizeof text, "%c", begins[v->kind]);
        add_text(out, text);
        for (uint32_t i = 0; i < v->count; i++) {
            add_text(out, i ? " " : "");
            write_value(p, haul__pickle_item(p, index, i), out);
        }
        snprintf(text, sizeof text, "%c", ends[v->kind]);
    }
    add_text(out, text);
    if (v->kind != HAUL__PICKLE_NUMBER)
        assert_int_equal(haul__pickle_number(p, index), -1);
}

/* Parses from memory that ends with the text, so that a sanitizer sees a read behind its end. */
static haul_status parse(const char *text, size_t size, char *out)
{
    haul__pickle p;
    uint8_t     *own = malloc(size ? size : 1);
    assert_non_null(own);
    memcpy(own, text, size);
    const haul_status status = haul__pickle_parse(&p, own, size, is_known, "w.pt", "test");
    if (status == HAUL_OK)
        write_value(&p, p.root, out);
    haul__pickle_free(&p);
    free(own);
    return status;
}

typedef struct row {
    const char *text;
    size_t      size;
    const char *result; /* the value, or a part of the message */
} row;
#define ROW(text, result)                                                                                              \
    {                                                                                                                  \
        text, sizeof(text) - 1, result                                                                                 \
    }

static void test_pickle__values(void **state)
{
    static const row rows[] = {
        ROW("N.", "None"),
        ROW("\x80\x02N.", "None"),
        ROW("\x95"
            "12345678N.",
            "None"),
        ROW("\x88.", "1"),
        ROW("\x89.", "0"),
        ROW("J\x01\x02\x03\x04.", "67305985"),
        ROW("J\xff\xff\xff\xff.", "-1"),
        ROW("J\0\0\0\x80.", "-2147483648"),
        ROW("K\xff.", "255"),
        ROW("M\x01\xff.", "65281"),
        ROW("\x8a\0.", "0"),
        ROW("\x8a\x01\x7f.", "127"),
        ROW("\x8a\x01\x80.", "-128"),
        ROW("\x8a\x02\xff\0.", "255"),
        ROW("\x8a\x05\0\0\0\0\x01.", "4294967296"),
        ROW("\x8a\x07\0\0\0\0\0\0\x80.", "-36028797018963968"),
        ROW("\x8a\x08\xfe\xff\xff\xff\xff\xff\xff\xff.", "-2"),
        ROW("\x8a\x08\x01\0\0\0\0\0\0\x40.", "4611686018427387905"),
        ROW("\x8a\x09\0\0\0\0\0\0\0\0\x01.", "?"),
        ROW("\x8b\x02\0\0\0\x02\x01.", "258"),
        ROW("G12345678.", "?"),
        ROW("X\x02\0\0\0ab.", "'ab'"),
        ROW("X\0\0\0\0.", "''"),
        ROW("\x8c\x01z.", "'z'"),
        ROW("\x8d\x03\0\0\0\0\0\0\0\xc3\xa9x.", "'\xc3\xa9x'"),
        ROW("U\x02hi.", "'hi'"),
        ROW("T\x02\0\0\0hi.", "'hi'"),
        ROW("U\x02h\xff.", "?"),
        ROW("U\x02h\0.", "?"),
        ROW("B\x02\0\0\0ab.", "?"),
        ROW("C\x01z.", "?"),
        ROW("\x8e\x01\0\0\0\0\0\0\0z.", "?"),
        ROW("].", "[]"),
        ROW(").", "()"),
        ROW("}.", "{}"),
        ROW("(K\x01K\x02t.", "(1 2)"),
        ROW("(t.", "()"),
        ROW("(K\x01l.", "[1]"),
        ROW("(K\x01K\x02K\x03K\x04"
            "d.",
            "{1 2 3 4}"),
        ROW("K\x01\x85.", "(1)"),
        ROW("K\x01K\x02\x86.", "(1 2)"),
        ROW("K\x01K\x02K\x03\x87.", "(1 2 3)"),
        ROW("K\x09K\x01\x85\x86.", "(9 (1))"),
        ROW("]K\x01"
            "aK\x02"
            "a.",
            "[1 2]"),
        ROW("](K\x01K\x02"
            "eK\x03"
            "a.",
            "[1 2 3]"),
        ROW("](e.", "[]"),
        ROW("}K\x01K\x02s.", "{1 2}"),
        ROW("}(K\x01K\x02K\x03K\x04u.", "{1 2 3 4}"),
        ROW("(K\x07(K\x01t]t.", "(7 (1) [])"),
        ROW("K\x01K\x02"
            "0.",
            "1"),
        ROW("cm\nf\n.", "<m\nf>"),
        ROW("cm\nf\nK\x05\x85R.", "!<m\nf> (5);"),
        ROW("ccollections\nOrderedDict\n)R.", "{}"),
        ROW("ccollections\nOrderedDict\n)RK\x01K\x02s.", "{1 2}"),
        ROW("ccollections\nOrderedDict\nK\x01\x85R.", "!<collections\nOrderedDict> (1);"),
        ROW("}]b.", "{}"),
        ROW("K\x05Q.", "@5;"),
        ROW("(K\x01K\x02tQ.", "@(1 2);"),
        ROW("K\x05q\0K\x06h\0\x86.", "(6 5)"),
        ROW("K\x05q\x01"
            "0K\x06r\x02\0\0\0j\x01\0\0\0\x86.",
            "(6 5)"),
        ROW("K\x05\x94K\x06\x94h\0h\x01\x87.", "(6 5 6)"),
        ROW("K\x04q\x02K\x05\x94"
            "00h\x02h\x03\x86.",
            "(4 5)"),
        ROW("K\x01.rest", "1"),
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char out[ROOM] = "";
        if (parse(rows[i].text, rows[i].size, out))
            fail_msg("row %zu: %s", i, haul_error_message());
        assert_string_equal(out, rows[i].result);
    }
}

static void test_pickle__what_is_wrong_is_refused(void **state)
{
    static const row rows[] = {
        ROW("", "ends too early"),
        ROW("K\x01", "ends too early"),
        ROW("K", "ends too early"),
        ROW("M\x01", "ends too early"),
        ROW("J\x01\x02\x03", "ends too early"),
        ROW("\x80", "ends too early"),
        ROW("\x95"
            "1234567",
            "ends too early"),
        ROW("G1234567", "ends too early"),
        ROW("X\x01\0\0", "ends too early"),
        ROW("X\x02\0\0\0a", "ends within a text"),
        ROW("X\x02\0\0\0ab", "ends too early"),
        ROW("cm\nf\n", "ends too early"),
        ROW("cm\n\n.", "holds the Python object 'm.', which"),
        ROW("X\xff\xff\xff\xff"
            "a",
            "ends within a text"),
        ROW("\x8d\xff\xff\xff\xff\xff\xff\xff\xff"
            "a",
            "ends within a text"),
        ROW("\x8a\x02\x01", "ends within a text"),
        ROW("C\x02z", "ends within a text"),
        ROW(".", "takes a value that is not there"),
        ROW("(.", "takes a value that is not there"),
        ROW("0", "takes a value that is not there"),
        ROW("(0", "takes a value that is not there"),
        ROW("\x85.", "takes a value that is not there"),
        ROW("K\x01\x86.", "takes a value that is not there"),
        ROW("K\x01K\x01\x87.", "takes a value that is not there"),
        ROW("(\x85.", "takes a value that is not there"),
        ROW("K\x01(K\x01\x87.", "takes a value that is not there"),
        ROW("Q.", "takes a value that is not there"),
        ROW("R.", "takes a value that is not there"),
        ROW(")R.", "takes a value that is not there"),
        ROW("b.", "takes a value that is not there"),
        ROW("a.", "takes a value that is not there"),
        ROW("t.", "lacks a mark"),
        ROW("K\x01t.", "lacks a mark"),
        ROW("]e.", "lacks a mark"),
        ROW("(K\x01"
            "d.",
            "has a key without a value"),
        ROW("}(K\x01u.", "has a key without a value"),
        ROW("K\x01K\x02"
            "a.",
            "fills a value that is not a list or dictionary"),
        ROW("K\x01"
            "a.",
            "fills a value that is not a list or dictionary"),
        ROW("(K\x01"
            "a.",
            "fills a value that is not a list or dictionary"),
        ROW("}K\x01"
            "a.",
            "fills a value that is not a list or dictionary"),
        ROW("]K\x01K\x02s.", "fills a value that is not a list or dictionary"),
        ROW("(K\x01"
            "e.",
            "fills a value that is not a list or dictionary"),
        ROW("(](u.", "fills a value that is not a list or dictionary"),
        ROW("K\x01)R.", "calls a value that is not a function"),
        ROW("cm\nf\nK\x01R.", "calls a value that is not a function"),
        ROW("cm\nf\n]R.", "calls a value that is not a function"),
        ROW("]]b.", "gives a state to a value that is not a dictionary"),
        ROW("(]b.", "gives a state to a value that is not a dictionary"),
        ROW("]b.", "gives a state to a value that is not a dictionary"),
        ROW("q\0.", "remembers a value that is not there"),
        ROW("(q\0.", "remembers a value that is not there"),
        ROW("\x94.", "remembers a value that is not there"),
        ROW("K\x01q\x06.", "remembers more values than it has"),
        ROW("K\x01r\xff\xff\xff\xff.", "remembers more values than it has"),
        ROW("h\0.", "asks for a value that it does not remember"),
        ROW("K\x01q\x01h\0.", "asks for a value that it does not remember"),
        ROW("K\x01q\x01h\x02.", "asks for a value that it does not remember"),
        ROW("cm", "ends within a name"),
        ROW("cm\nf", "ends within a name"),
        ROW("cm\nf\0\n.", "has a global name that is too long, or not UTF-8"),
        ROW("cm\nf\xff\n.", "has a global name that is too long, or not UTF-8"),
        ROW("cos\nsystem\n.", "holds the Python object 'os.system', which Haul does not read"),
        ROW("cm\nff\n.", "holds the Python object 'm.ff', which"),
        ROW("\x93.", "has the pickle operation 0x93, which Haul does not read"),
        ROW("i.", "has the pickle operation 0x69, which"),
    };
    char out[ROOM] = "";
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(parse(rows[i].text, rows[i].size, out), HAUL_FORMAT);
        if (!strstr(haul_error_message(), rows[i].result))
            fail_msg("row %zu: %s", i, haul_error_message());
        assert_non_null(strstr(haul_error_message(), "w.pt "));
        assert_string_equal(haul_error_operation(), "test");
        haul_error_clear();
    }
}

/* A name of 255 bytes is read, a longer one is not. A number of up to the pickle's size may be remembered. */
static void test_pickle__limits(void **state)
{
    char text[300], out[ROOM] = "";
    (void)state;
    for (int size = 255; size <= 256; size++) {
        memset(text, 'x', sizeof text);
        text[0] = 'c';
        text[3] = text[size + 1] = '\n';
        assert_int_equal(parse(text, sizeof text, out), HAUL_FORMAT);
        const char *expected = size == 255 ? "holds the Python object 'xx.xxx" : "has a global name that is too long";
        assert_non_null(strstr(haul_error_message(), expected));
        haul_error_clear();
    }
    assert_int_equal(parse("K\x07q\x05.", 5, out), HAUL_OK);
    haul__pickle p;
    assert_int_equal(haul__pickle_parse(&p, (const uint8_t *)"N.", HAUL__PICKLE_LIMIT + 1, is_known, "w.pt", "test"),
                     HAUL_FORMAT);
    assert_non_null(strstr(haul_error_message(), "has more than 256 MiB"));
    haul_error_clear();
}

static void test_pickle__texts_and_globals_are_compared(void **state)
{
    haul__pickle p;
    (void)state;
    assert_int_equal(haul__pickle_parse(&p, (const uint8_t *)"U\x02hicm\nf\nK\x01\x87.", 14, is_known, "w.pt", "test"),
                     HAUL_OK);
    const uint32_t text = haul__pickle_item(&p, p.root, 0), global = haul__pickle_item(&p, p.root, 1);
    assert_true(haul__pickle_is(&p, text, "hi"));
    assert_false(haul__pickle_is(&p, text, "ho"));
    assert_false(haul__pickle_is(&p, text, "h"));
    assert_false(haul__pickle_is(&p, text, "hi "));
    assert_true(haul__pickle_is(&p, global, "m\nf"));
    assert_false(haul__pickle_is(&p, haul__pickle_item(&p, p.root, 2), ""));
    assert_int_equal(haul__pickle_number(&p, haul__pickle_item(&p, p.root, 2)), 1);
    haul__pickle_free(&p);
}

static void test_pickle__every_failing_allocation_is_an_error(void **state)
{
    static const char text[] = "}(K\x01q\0K\x02](K\x03K\x04"
                               "ecm\nf\n)Ru.";
    (void)state;
    const int64_t blocks = haul__counted_blocks();
    for (int64_t nth = 1;; nth++) {
        char out[ROOM] = "";
        haul__fault_plan(HAUL__FAULT_HOST, nth);
        const haul_status status = parse(text, sizeof text - 1, out);
        const bool        reached = haul__fault_count() >= nth;
        haul__fault_plan(0, 0);
        if (!reached) {
            assert_int_equal(status, HAUL_OK);
            assert_string_equal(out, "{1 2 [3 4] !<m\nf> ();}");
            break;
        }
        assert_int_equal(status, HAUL_OUT_OF_MEMORY);
        haul_error_clear();
    }
    assert_int_equal(haul__counted_blocks(), blocks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pickle__values),
        cmocka_unit_test(test_pickle__what_is_wrong_is_refused),
        cmocka_unit_test(test_pickle__limits),
        cmocka_unit_test(test_pickle__texts_and_globals_are_compared),
        cmocka_unit_test(test_pickle__every_failing_allocation_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
