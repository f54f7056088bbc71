/* The map from pointers to pointers.
 *
 * ctest: labels=threads */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "core/map.h"

enum { KEYS = 5000 };

static void test_map__finds_what_was_inserted(void **state)
{
    (void)state;
    static char keys[KEYS], values[KEYS];
    haul__map   map = {0};
    bool        is_new;
    assert_null(haul__map_find(&map, &keys[0]));
    for (int i = 0; i < KEYS; i++) {
        haul__map_entry *e = haul__map_insert(&map, &keys[i], &is_new);
        assert_non_null(e);
        assert_true(is_new);
        assert_null(e->value);
        e->value = &values[i];
        assert_null(haul__map_find(&map, &values[i]));
    }
    assert_int_equal(map.count, KEYS);
    assert_true(map.capacity >= 2 * KEYS);
    for (int i = 0; i < KEYS; i++) {
        assert_ptr_equal(haul__map_find(&map, &keys[i])->value, &values[i]);
        assert_ptr_equal(haul__map_insert(&map, &keys[i], &is_new)->value, &values[i]);
        assert_false(is_new);
    }
    assert_int_equal(map.count, KEYS);
    size_t found = 0;
    for (size_t i = 0; i < map.capacity; i++)
        found += map.entries[i].key != NULL;
    assert_int_equal(found, KEYS);
    haul__map_free(&map);
    assert_null(haul__map_find(&map, &keys[0]));
}

/* An insertion that fails changes nothing. */
static void test_map__without_memory(void **state)
{
    (void)state;
    static char keys[KEYS];
    haul__map   map = {0};
    bool        is_new;
    int         inserted = 0;
    haul__fault_plan(HAUL__FAULT_HOST, 1);
    assert_null(haul__map_insert(&map, &keys[0], &is_new));
    assert_int_equal(map.count, 0);
    haul__fault_plan(HAUL__FAULT_HOST, 2);
    while (inserted < KEYS && haul__map_insert(&map, &keys[inserted], &is_new))
        inserted++;
    haul__fault_plan(0, 0);
    assert_true(inserted > 0 && inserted < KEYS);
    assert_int_equal(map.count, inserted);
    for (int i = 0; i < inserted; i++)
        assert_non_null(haul__map_find(&map, &keys[i]));
    assert_null(haul__map_find(&map, &keys[inserted]));
    assert_non_null(haul__map_insert(&map, &keys[inserted], &is_new));
    haul__map_free(&map);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_map__finds_what_was_inserted),
        cmocka_unit_test(test_map__without_memory),
    };
    return cmocka_run_group_tests_name("core_map", tests, NULL, NULL);
}
