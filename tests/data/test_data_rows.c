/* Rows of planes are shifted and mirrored as the definition says, for every size of elements and rows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "data/rows.h"

enum { PLANES = 2, TALLEST = 4, WIDEST = 41, LONGEST = 8, EDGE = 8 };

/* Random bytes in a block of exactly this size, so that AddressSanitizer sees accesses outside. */
static uint8_t *random_block(size_t bytes)
{
    static uint32_t seed = 1;
    uint8_t        *block = malloc(bytes ? bytes : 1);
    assert_non_null(block);
    for (size_t i = 0; i < bytes; i++) {
        seed = seed * 1664525u + 1013904223u;
        block[i] = (uint8_t)(seed >> 24);
    }
    return block;
}

static size_t place_of(const haul__planes *p, int64_t plane, int64_t y, int64_t x)
{
    return (size_t)((plane * p->height + y) * p->width + x) * p->element;
}

static void check_shift(const haul__planes *p, int64_t dy, int64_t dx)
{
    static const uint8_t none[LONGEST];
    const size_t         bytes = place_of(p, p->count, 0, 0);
    uint8_t             *in = random_block(bytes), *out = random_block(bytes);
    haul__planes_shift(p, in, dy, dx, out);
    for (int64_t plane = 0; plane < p->count; plane++)
        for (int64_t y = 0; y < p->height; y++)
            for (int64_t x = 0; x < p->width; x++) {
                const int64_t  from_y = y + dy, from_x = x + dx;
                const bool     inside = from_y >= 0 && from_y < p->height && from_x >= 0 && from_x < p->width;
                const uint8_t *expected = inside ? in + place_of(p, plane, from_y, from_x) : none;
                assert_memory_equal(out + place_of(p, plane, y, x), expected, p->element);
            }
    free(in);
    free(out);
}

static void check_mirror(const haul__planes *p)
{
    const size_t bytes = place_of(p, p->count, 0, 0);
    uint8_t     *before = random_block(bytes), *rows = random_block(bytes);
    memcpy(rows, before, bytes);
    haul__planes_mirror(p, rows);
    for (int64_t y = 0; y < p->count * p->height; y++)
        for (int64_t x = 0; x < p->width; x++)
            assert_memory_equal(rows + place_of(p, 0, y, x), before + place_of(p, 0, y, p->width - 1 - x), p->element);
    free(before);
    free(rows);
}

static void for_each_size(void (*check)(const haul__planes *))
{
    for (size_t element = 1; element <= LONGEST; element *= 2)
        for (int64_t height = 1; height <= TALLEST; height++)
            for (int64_t width = 0; width <= WIDEST; width++)
                check(&(haul__planes){PLANES, height, width, element});
}

static void check_shifts(const haul__planes *p)
{
    for (int64_t dy = -TALLEST - 1; dy <= TALLEST + 1; dy++)
        for (int64_t dx = -EDGE - 1; dx <= EDGE + 1; dx++)
            check_shift(p, dy, dx);
}

static void test_data_rows__shifts_follow_the_definition(void **state)
{
    (void)state;
    for_each_size(check_shifts);
    check_shift(&(haul__planes){PLANES, TALLEST, WIDEST, 1}, INT32_MAX, -INT32_MAX);
}

static void test_data_rows__mirrors_follow_the_definition(void **state)
{
    (void)state;
    for_each_size(check_mirror);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_data_rows__shifts_follow_the_definition),
        cmocka_unit_test(test_data_rows__mirrors_follow_the_definition),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
