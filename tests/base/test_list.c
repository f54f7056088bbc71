/* Lists in messages. */
#include "base/text/list.h"
#include "support/linalg.h"

static void test_list__items_are_separated_by_commas(void **state)
{
    char list[40] = "";
    (void)state;
    assert_string_equal(haul__list_add(list, sizeof list, "%s", "conv1"), "conv1");
    assert_string_equal(haul__list_add(list, sizeof list, "%s:%d", "cuda", 1), "conv1, cuda:1");
    assert_string_equal(haul__list_add(list, sizeof list, "%.*s", 2, "fc1"), "conv1, cuda:1, fc");
}

/* Nothing is written behind the end, wherever the list is cut. */
static void test_list__is_cut_where_the_room_ends(void **state)
{
    static const char whole[] = "one, two, three";
    (void)state;
    for (size_t size = 1; size < sizeof whole + 2; size++) {
        char list[sizeof whole + 4];
        memset(list, '#', sizeof list);
        list[0] = '\0';
        haul__list_add(list, size, "one");
        haul__list_add(list, size, "two");
        haul__list_add(list, size, "three");
        assert_true(strlen(list) < size);
        assert_int_equal(strncmp(list, whole, strlen(list)), 0);
        for (size_t i = size; i < sizeof list; i++)
            assert_int_equal(list[i], '#');
    }
}

static void test_list__separators(void **state)
{
    (void)state;
    assert_string_equal(haul__list_separator(0, 1, " and "), "");
    assert_string_equal(haul__list_separator(0, 3, " and "), "");
    assert_string_equal(haul__list_separator(1, 3, " and "), ", ");
    assert_string_equal(haul__list_separator(2, 3, " and "), " and ");
    assert_string_equal(haul__list_separator(1, 2, " or "), " or ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_list__items_are_separated_by_commas),
        cmocka_unit_test(test_list__is_cut_where_the_room_ends),
        cmocka_unit_test(test_list__separators),
    };
    return cmocka_run_group_tests_name("list", tests, NULL, NULL);
}
