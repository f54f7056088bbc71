/* Texts as examples of characters, from files and made. */
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "data/dataset.h"
#include "support/datasets.h"

enum { CONTEXT = 4, LENGTH = 100 };

/* Example `index` as text: its characters, and the last one that follows. */
static void example_text(haul_dataset *d, int64_t index, int64_t context, char *out)
{
    const haul_batch *batch = whole(d);
    int64_t           x[64], y[64];
    haul_read(haul_select(batch->x, 0, index), x, (size_t)context * sizeof *x);
    haul_read(haul_select(batch->y, 0, index), y, (size_t)context * sizeof *y);
    *out = 0;
    for (int64_t i = 0; i < context; i++)
        strcat(out, class_name(d, (int)x[i]));
    for (int64_t i = 0; i + 1 < context; i++)
        assert_int_equal(x[i + 1], y[i]);
    strcat(out, class_name(d, (int)y[context - 1]));
}

/* "abcd...", LENGTH letters. */
static void write_letters(const char *path)
{
    char text[LENGTH + 1] = "";
    for (int i = 0; i < LENGTH; i++)
        text[i] = (char)('a' + i % 26);
    write_text(path, text);
}

static void test_text_file__is_cut_into_stretches(void **state)
{
    (void)state;
    char        text[64];
    haul_scope *scope = haul_scope_push();
    write_letters("letters.txt");
    haul_dataset *train = haul_text_file("letters.txt", .context = CONTEXT),
                 *test = haul_text_file("letters.txt", .context = CONTEXT, .test = true),
                 *dense = haul_text_file("letters.txt", .context = CONTEXT, .stride = 1);
    if (!train || !test || !dense)
        fail_msg("%s", haul_error_message());
    assert_int_equal(haul_dataset_count(train), 22); /* (90 - 5) / 4 + 1 */
    assert_int_equal(haul_dataset_count(test), 2);
    assert_int_equal(haul_dataset_count(dense), 86);
    assert_string_equal(haul_dataset_name(test), "text (test)");
    example_text(train, 0, CONTEXT, text);
    assert_string_equal(text, "abcde");
    example_text(train, 21, CONTEXT, text);
    assert_string_equal(text, "ghijk"); /* characters 84 to 88: the test split begins with 90 */
    example_text(test, 0, CONTEXT, text);
    assert_string_equal(text, "mnopq");
    example_text(dense, 1, CONTEXT, text);
    assert_string_equal(text, "bcdef");
    haul_scope_pop(scope);
}

/* In the order of code points; both fields have them. */
static void test_text_file__characters_are_code_points(void **state)
{
    (void)state;
    char        text[64];
    haul_field  x;
    haul_scope *scope = haul_scope_push();
    write_text("mixed.txt", "\xef\xbb\xbf"
                            "z\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80"
                            "a\n\r\n z\xc3\xa4");
    haul_dataset *d = haul_text_file("mixed.txt", .context = 7);
    if (!d)
        fail_msg("%s", haul_error_message());
    static const char *const names[] = {"\n", "\r", " ", "a", "z", "\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x98\x80"};
    for (int i = 0; i < 8; i++)
        assert_string_equal(class_name(d, i), names[i]);
    assert_null(class_name(d, 8));
    assert_int_equal(haul_dataset_field(d, 0, &x), HAUL_OK);
    assert_int_equal(x.classes, 8);
    assert_string_equal(x.class_names[7], names[7]);
    example_text(d, 0, 7, text);
    assert_string_equal(text, "z\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80"
                              "a\n\r\n");
    haul_scope_pop(scope);
}

static void test_text_file__what_is_not_a_text_is_refused(void **state)
{
    (void)state;
    int64_t     blocks = haul__host_blocks();
    haul_scope *scope = haul_scope_push();
    assert_null(haul_text_file("none.txt"));
    expect("no file", HAUL_IO, "none.txt");
    write_text("empty.txt", "");
    assert_null(haul_text_file("empty.txt"));
    expect("empty", HAUL_INVALID_ARGUMENT, "empty.txt has 0 characters");
    write_text("bad.txt", "first\nsecond \xff line");
    assert_null(haul_text_file("bad.txt"));
    expect("not UTF-8", HAUL_FORMAT, "bad.txt is not UTF-8: it has the byte 0xff in line 2 (byte 13)");
    write_text("cut.txt", "ends early \xe2\x82");
    assert_null(haul_text_file("cut.txt"));
    expect("cut", HAUL_FORMAT, "iconv");
    write_bytes("zero.txt", "a\0b", 3);
    assert_null(haul_text_file("zero.txt"));
    expect("a zero", HAUL_FORMAT, "0x00 in line 1 (byte 1)");
    write_letters("short.txt");
    assert_null(haul_text_file("short.txt", .context = 90));
    expect("too short", HAUL_INVALID_ARGUMENT, "a context of at most 89");
    assert_null(haul_text_file("short.txt", .test = true, .context = 10));
    expect("too short to test", HAUL_INVALID_ARGUMENT, "10 of them in the test split");
    assert_non_null(haul_text_file("short.txt", .test = true, .context = 9));
    assert_null(haul_text_file("short.txt", .context = -1));
    expect("a negative context", HAUL_INVALID_ARGUMENT, "context is -1");
    assert_null(haul_text_file("short.txt", .context = 4, .stride = -2));
    expect("a negative stride", HAUL_INVALID_ARGUMENT, "stride is -2");
    haul_scope_pop(scope);
    assert_int_equal(haul__host_blocks(), blocks);
}

/* A text of the same length and characters is another text. */
static void test_text_file__is_known_by_its_content(void **state)
{
    (void)state;
    haul_scope *scope = haul_scope_push();
    write_text("one.txt", "ab ab ab ab ab ab ab ab");
    write_text("two.txt", "ba ab ab ab ab ab ab ab");
    haul_dataset         *one = haul_text_file("one.txt", .context = 2), *two = haul_text_file("two.txt", .context = 2);
    const haul__data_file a = haul__dataset_file(one, 0), b = haul__dataset_file(two, 0);
    assert_string_equal(a.name, "one.txt");
    assert_true(a.content && b.content && a.content != b.content);
    assert_null(haul__dataset_file(one, 1).path);
    haul_scope_pop(scope);
}

static void test_sentences__depend_on_seed_and_index_only(void **state)
{
    (void)state;
    char          a[80], b[80];
    haul_scope   *scope = haul_scope_push();
    haul_dataset *few = haul_sentences(5, .seed = 3), *many = haul_sentences(300, .seed = 3),
                 *other = haul_sentences(5, .seed = 4), *test = haul_sentences(5, .seed = 3, .test = true);
    if (!few || !many || !other || !test)
        fail_msg("%s", haul_error_message());
    for (int i = 0; i < 5; i++) {
        example_text(few, i, 64, a);
        example_text(many, i, 64, b);
        assert_string_equal(a, b);
        assert_non_null(strstr(a, " the ")); /* the longest sentence is shorter than an example */
        example_text(other, i, 64, b);
        assert_string_not_equal(a, b);
        example_text(test, i, 64, b);
        assert_string_not_equal(a, b);
    }
    example_text(few, 0, 64, a);
    assert_string_equal(a, "th. the horse loves a white horse. the white cat sees a king. the");
    assert_null(haul_sentences(-1));
    expect("negative", HAUL_INVALID_ARGUMENT, "-1 examples");
    haul_scope_pop(scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_file__is_cut_into_stretches),
        cmocka_unit_test(test_text_file__characters_are_code_points),
        cmocka_unit_test(test_text_file__what_is_not_a_text_is_refused),
        cmocka_unit_test(test_text_file__is_known_by_its_content),
        cmocka_unit_test(test_sentences__depend_on_seed_and_index_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
