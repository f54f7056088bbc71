/* A program in its user's language: under a locale with a decimal comma and letters beyond ASCII, the library writes
 * and reads the same text as ever, and leaves the program's locale as it is. The test makes the locale itself; it is
 * skipped where localedef has no sources (Debian's package locales). */
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/text/ascii.h"
#include "base/text/json_text.h"
#include "base/text/plain.h"
#include "support/datasets.h"
#include "support/linalg.h"

#define LOCALE "de_DE.ISO-8859-1"

static bool set_comma_locale(void)
{
    char folder[4096], half[8];
    if (system("mkdir -p locales && localedef -i de_DE -f ISO-8859-1 ./locales/" LOCALE " >locales/log 2>&1") == -1 ||
        !getcwd(folder, sizeof folder - 16) || setenv("LOCPATH", strcat(folder, "/locales"), 1) ||
        !setlocale(LC_ALL, LOCALE))
        return false;
    snprintf(half, sizeof half, "%.1f", 0.5);
    return strcmp(half, "0,5") == 0;
}

static void assert_locale_stays(void)
{
    char half[8];
    assert_ptr_equal(uselocale((locale_t)0), LC_GLOBAL_LOCALE);
    snprintf(half, sizeof half, "%.1f", 0.5);
    assert_string_equal(half, "0,5");
    assert_string_equal(setlocale(LC_ALL, NULL), LOCALE);
}

static char *read_text(const char *path)
{
    FILE *file = fopen(path, "rb");
    char *text = calloc(1, 1 << 20);
    assert_non_null(file);
    assert_non_null(text);
    assert_true(fread(text, 1, (1 << 20) - 1, file) > 0);
    fclose(file);
    return text;
}

/* In an object, a number is followed by the next member or by the end: "wall_ms":0,526 is not. */
static int count_numbers(const char *json, const char *what)
{
    int count = 0;
    for (const char *p = json; (p = strstr(p, "\":"));) {
        p += 2;
        const char *end = p + strspn(p, "-+.eE0123456789");
        count += end > p;
        if (end > p && *end != '}' && (*end != ',' || end[1] != '"'))
            fail_msg("%s: %.30s", what, p);
    }
    return count;
}

/* ---- written numbers ---- */

static void test_locale__numbers_have_a_point(void **state)
{
    char            text[400];
    haul__json_text json = {.out = text, .size = sizeof text};
    (void)state;
    haul__json_number(&json, NULL, 0.526073);
    haul__json_finish(&json);
    assert_string_equal(text, "0.526073");
    haul__snprintf(text, sizeof text, "%.2f %g %s", 1.25, 1e-7, "x");
    assert_string_equal(text, "1.25 1e-07 x");
    assert_true(haul_tensor_format(haul_full(HAUL_F32, HAUL_SHAPE(2), 0.5), text, sizeof text) > 0);
    assert_string_equal(text, "[0.5000, 0.5000] f32[2] on cpu");
    assert_true(haul_tensor_format(haul_full(HAUL_F64, HAUL_SHAPE(1), 1.5e-10), text, sizeof text) > 0);
    assert_string_equal(text, "[1.5000e-10] f64[1] on cpu");
    assert_locale_stays();
}

static void test_locale__messages_have_points(void **state)
{
    (void)state;
    assert_true(has_failed(haul_dropout(haul_zeros(HAUL_F32, HAUL_SHAPE(2)), 1.5, true)));
    expect("a number of an option", HAUL_INVALID_ARGUMENT, "p is 1.5;");
    haul_error_set(HAUL_STATE, "my_reader", NULL, "the ratio is %.2f", 0.25);
    expect("a message of the program", HAUL_STATE, "the ratio is 0.25");
    assert_locale_stays();
}

static void test_locale__files_of_a_profile(void **state)
{
    static const char *const files[] = {"profile/profile.json", "profile/trace.json", "profile/audit.json"};
    (void)state;
    haul_profile *p = haul_profile_begin(.everywhere = true);
    for (int i = 0; i < 3; i++) {
        haul_tensor *x = haul_set_requires_grad(haul_ones(HAUL_F32, HAUL_SHAPE(3, 4)), true);
        assert_int_equal(haul_backward(haul_mean(haul_exp(x))), HAUL_OK);
        assert_int_equal(haul_profile_step(p), HAUL_OK);
    }
    assert_int_equal(haul_profile_end(p), HAUL_OK);
    assert_int_equal(haul_profile_save(p, "profile"), HAUL_OK);
    for (int i = 0; i < 3; i++) {
        char *text = read_text(files[i]);
        assert_true(count_numbers(text, files[i]) > 0 || i == 2); /* without findings an audit has none */
        free(text);
    }
    assert_locale_stays();
}

static void test_locale__texts_of_memory_and_statistics(void **state)
{
    static char text[1 << 20];
    (void)state;
    assert_int_equal(haul_memory_record(true), HAUL_OK);
    haul_tensor *held = haul_ones(HAUL_F32, HAUL_SHAPE(300, 400));
    assert_true(haul_memory_snapshot_json(haul_cpu(), text, sizeof text) > 0);
    assert_true(count_numbers(text, "a snapshot") > 0);
    assert_int_equal(haul_memory_record(false), HAUL_OK);
    assert_true(haul_stats_json(text, sizeof text) > 0);
    assert_true(count_numbers(text, "statistics") > 0);
    assert_true(haul_tensor_is_valid(held));
}

/* ---- read numbers ---- */

static void test_locale__csv(void **state)
{
    static const char text[] = "a,b\n1.5,0.25\n-2.5e-1,0.75\n";
    (void)state;
    write_bytes("point.csv", text, sizeof text - 1);
    haul_loader *l = haul_loader_new(haul_csv_dataset("point.csv"), .batch = 2);
    assert_int_equal(haul_loader_start(l, 1), HAUL_OK);
    const haul_batch *b = haul_loader_next(l);
    assert_non_null(b);
    assert_close(b->x, (double[]){1.5, -0.25}, 2, 0, "x");
    assert_close(b->y, (double[]){0.25, 0.75}, 2, 0, "y");
    assert_true(haul__strtod("2.5", NULL) == 2.5);
    assert_locale_stays();
}

/* ---- names ---- */

static haul_status same(const haul_custom_call *call, haul_tensor *const *x, haul_tensor **y)
{
    (void)call;
    y[0] = x[0];
    return HAUL_OK;
}

static void test_locale__names_are_ascii(void **state)
{
    static haul_custom_operation accented = {
        .name = "my_caf\xe9", .operands = {{"x"}}, .results = {{"y"}}, .compose = same};
    (void)state;
    assert_true(has_failed(haul_apply(&accented, NULL, haul_ones(HAUL_F32, HAUL_SHAPE(1)))));
    haul_error_clear();
    assert_false(haul__is_letter('\xe9'));
    assert_true(haul__lower('I') == 'i' && haul__lower('\xc9') == '\xc9');
    assert_true(haul__same_letters(".PNG", ".png", SIZE_MAX) && !haul__same_letters(".png", ".pn", SIZE_MAX));
    assert_true(haul__same_letters("Device:0", "device:1", 7));
}

/* ---- a locale of the thread's own ---- */

static void test_locale__of_the_thread_stays(void **state)
{
    char     text[80];
    locale_t own = newlocale(LC_ALL_MASK, LOCALE, (locale_t)0);
    (void)state;
    assert_non_null(own);
    uselocale(own);
    haul__snprintf(text, sizeof text, "%.1f", 0.5);
    const locale_t after = uselocale(LC_GLOBAL_LOCALE);
    assert_string_equal(text, "0.5");
    assert_ptr_equal(after, own);
    freelocale(own);
}

static haul_scope *scope;

static int begin(void **state)
{
    (void)state;
    haul_error_clear();
    scope = haul_scope_push();
    return scope ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    return haul_scope_pop(scope);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_locale__numbers_have_a_point),
        TEST(test_locale__messages_have_points),
        TEST(test_locale__files_of_a_profile),
        TEST(test_locale__texts_of_memory_and_statistics),
        TEST(test_locale__csv),
        TEST(test_locale__names_are_ascii),
        TEST(test_locale__of_the_thread_stays),
    };
    if (!set_comma_locale()) {
        puts("skipped: localedef cannot make " LOCALE " (install the package locales)");
        return 77;
    }
    return cmocka_run_group_tests_name("locale", tests, NULL, NULL);
}
