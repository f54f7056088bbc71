/* Copies past the caches copy every byte, and no other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/copy_uncached.h"

static void test_copy_uncached__copies_all_sizes_from_and_to_everywhere(void **state)
{
    enum { MOST = 300, PLACES = 70 };
    uint8_t from[PLACES + MOST], to[PLACES + MOST], expected[sizeof to];
    (void)state;
    for (size_t i = 0; i < sizeof from; i++)
        from[i] = (uint8_t)(i * 7 + i / 256);
    for (size_t at = 0; at < PLACES; at++)
        for (size_t bytes = 0; bytes < MOST; bytes += bytes % 3 + 1) {
            const size_t source = at * 5 % PLACES;
            memset(to, 99, sizeof to);
            memset(expected, 99, sizeof expected);
            memcpy(expected + at, from + source, bytes);
            haul__copy_uncached(to + at, from + source, bytes);
            assert_memory_equal(to, expected, sizeof to);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copy_uncached__copies_all_sizes_from_and_to_everywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
