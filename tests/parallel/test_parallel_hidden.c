/* How much of the exchange of gradients a backward pass hides, from made-up times. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "parallel/hidden.h"

/* Exchanges of one step: pairs of times, in the order in which they began. */
typedef struct example {
    int     count;
    int64_t times[8], pass_over, all, hidden;
} example;

static void test_parallel_hidden__time_before_the_end_of_the_pass_is_hidden(void **state)
{
    static const example examples[] = {
        {.count = 0, .pass_over = 50, .all = 0, .hidden = 0},
        {.count = 1, .times = {10, 30}, .pass_over = 50, .all = 20, .hidden = 20},
        {.count = 1, .times = {10, 30}, .pass_over = 30, .all = 20, .hidden = 20},
        {.count = 1, .times = {10, 30}, .pass_over = 25, .all = 20, .hidden = 15},
        {.count = 1, .times = {10, 30}, .pass_over = 10, .all = 20, .hidden = 0},
        {.count = 1, .times = {10, 30}, .pass_over = 5, .all = 20, .hidden = 0},
        {.count = 2, .times = {10, 30, 40, 60}, .pass_over = 50, .all = 40, .hidden = 30},
    };
    (void)state;
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        const example      *e = &examples[i];
        haul__exchange_time time = {.all = 0};
        for (int k = 0; k < e->count; k++)
            haul__exchange_time_add(&time, e->times[2 * k], e->times[2 * k + 1], e->pass_over);
        assert_int_equal(time.all, e->all);
        assert_int_equal(time.hidden, e->hidden);
    }
}

static void test_parallel_hidden__exchanges_at_the_same_time_count_once(void **state)
{
    haul__exchange_time time = {.all = 0};
    (void)state;
    haul__exchange_time_add(&time, 10, 40, 60);
    haul__exchange_time_add(&time, 20, 30, 60); /* within the first one */
    haul__exchange_time_add(&time, 20, 55, 60);
    haul__exchange_time_add(&time, 50, 80, 60);
    assert_int_equal(time.all, 70);
    assert_int_equal(time.hidden, 50);
    assert_int_equal(time.until, 80);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parallel_hidden__time_before_the_end_of_the_pass_is_hidden),
        cmocka_unit_test(test_parallel_hidden__exchanges_at_the_same_time_count_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
