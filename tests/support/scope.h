/* A scope for each test. For a test program's one source file. */
#ifndef HAUL_TESTS_SCOPE_H
#define HAUL_TESTS_SCOPE_H

#include <haul/haul.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static haul_scope *scope;

static inline int setup(void **state)
{
    (void)state;
    haul_error_clear();
    scope = haul_scope_push();
    return !scope;
}

static inline int teardown(void **state)
{
    (void)state;
    return haul_scope_pop(scope) != HAUL_OK;
}

#endif
