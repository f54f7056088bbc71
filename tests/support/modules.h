/* What the tests of modules share: a scope a test, errors, small tensors. For a test program's one source file. */
#ifndef HAUL_TESTS_MODULES_H
#define HAUL_TESTS_MODULES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <haul/haul.h>
#include <string.h>

#include "support/failure.h"

static haul_scope *scope;

static inline int setup(void **state)
{
    (void)state;
    haul_error_clear();
    haul_manual_seed(1);
    scope = haul_scope_push();
    return !scope;
}

static inline int teardown(void **state)
{
    (void)state;
    haul_watch_calls(NULL, NULL);
    haul_scope_pop(scope);
    return 0;
}

/* The error at hand has this status, and its message these texts (the second may be ""). */
static inline void check_error(haul_status status, const char *first, const char *second)
{
    assert_int_equal(haul_error_status(), status);
    if (!strstr(haul_error_message(), first) || !strstr(haul_error_message(), second))
        fail_msg("'%s' and '%s' are expected in: %s", first, second, haul_error_message());
    haul_error_clear();
}
#define FIRST(a, ...)             a
#define SECOND(a, b, ...)         b
#define assert_error(status, ...) check_error(status, FIRST(__VA_ARGS__, ""), SECOND(__VA_ARGS__, "", ""))

static inline haul_tensor *vector(float a, float b)
{
    return haul_from_host(HAUL_F32, HAUL_SHAPE(2), (float[]){a, b});
}

static inline void assert_vector(haul_tensor *t, float a, float b)
{
    float values[2] = {-99, -99};
    assert_int_equal(
        haul_read(haul_to(haul_contiguous(haul_detach(t)), haul_cpu(), .dtype = HAUL_F32), values, sizeof values),
        HAUL_OK);
    assert_float_equal(values[0], a, 0);
    assert_float_equal(values[1], b, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_modules__##name, setup, teardown)

#endif
