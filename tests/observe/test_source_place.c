/* The places in the program that reports name.
 * ctest: exports */
#include "observe/profile/source_line.h"
#include "support/linalg.h"

/* Functions of the program that appear as callers. */
void first_caller(void);
void first_caller(void)
{
    haul_error_clear();
}

void second_caller(void);
void second_caller(void)
{
    haul_error_clear();
}

static void *within(void (*function)(void))
{
    char *address;
    memcpy(&address, &function, sizeof address);
    return address + 1;
}

/* One stack may contain two operations: haul_abs was called by a function of the program that haul_neg had called. */
static void test_source_place__depends_on_the_operation(void **state)
{
    char        inner[256], outer[256], again[256];
    void *const frames[] = {within((void (*)(void))haul_abs), within(second_caller), within((void (*)(void))haul_neg),
                            within(first_caller)};
    (void)state;
    haul__source_place(frames, 4, "haul_abs", inner, sizeof inner);
    haul__source_place(frames, 4, "haul_neg", outer, sizeof outer);
    assert_string_not_equal(inner, outer);
    assert_string_equal(haul__source_place(frames, 4, "haul_abs", again, sizeof again), inner);
    assert_string_equal(haul__source_place(frames, 4, "haul_neg", again, sizeof again), outer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_source_place__depends_on_the_operation)};
    return cmocka_run_group_tests_name("source_place", tests, NULL, NULL);
}
