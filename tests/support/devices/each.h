/* Runs a program's tests on every device in turn. */
#ifndef HAUL_TESTS_DEVICES_EACH_H
#define HAUL_TESTS_DEVICES_EACH_H

#include <haul/haul.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/conformance/conformance.h"

/* *device is the device under test. Returns the number of failed tests. */
static inline int run_tests_on_devices(const struct CMUnitTest *tests, size_t count, haul_device **device)
{
    haul_scope  *scope = haul_scope_push();
    haul_device *devices[8];
    int          device_count = test_devices(devices, 8), failed = 0;
    for (int i = 0; i < device_count; i++) {
        *device = devices[i];
        failed += _cmocka_run_group_tests(haul_device_name(devices[i]), tests, count, NULL, NULL);
    }
    haul_scope_pop(scope);
    return failed;
}
#define run_on_devices(tests, device) run_tests_on_devices(tests, sizeof(tests) / sizeof *(tests), device)

#endif
