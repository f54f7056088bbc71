/* A scope on the fastest device for each test, and a check of errors. For a test program's one source file. */
#ifndef HAUL_TESTS_DEVICES_AUTO_H
#define HAUL_TESTS_DEVICES_AUTO_H

#include <haul/haul.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static haul_scope *scope;

static inline int setup(void **state)
{
    (void)state;
    haul_error_clear();
    scope = haul_scope_push();
    haul_set_device(haul_device_get("auto"));
    return !scope;
}

static inline int teardown(void **state)
{
    (void)state;
    haul_scope_pop(scope);
    return 0;
}

static inline void assert_message(const char *text)
{
    if (!strstr(haul_error_message(), text))
        fail_msg("\"%s\" does not say \"%s\"", haul_error_message(), text);
    haul_error_clear();
}

static inline void assert_says(haul_status status, haul_status wanted, const char *text)
{
    assert_int_equal(status, wanted);
    assert_message(text);
}

#endif
