/* An error names the function that the program called, and not one that this function called. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <haul/haul.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

/* What the calls work on; made anew for each. */
typedef struct fixture {
    haul_tensor    *f32, *i32, *turned, *wide;
    haul_module    *net, *none;
    haul_optimizer *sgd;
} fixture;

static fixture make(void)
{
    fixture f = {.f32 = haul_ones(HAUL_F32, HAUL_SHAPE(4, 3)), .i32 = haul_ones(HAUL_I32, HAUL_SHAPE(4))};
    f.turned = haul_permute(f.f32, (const int[]){1, 0}, 2);
    f.wide = haul_expand(haul_ones(HAUL_F32, HAUL_SHAPE(1)), HAUL_SHAPE(5));
    f.net = HAUL_SEQUENTIAL(haul_nn_linear(3, 2));
    f.sgd = haul_sgd(f.net, 0.001);
    assert_int_equal(haul_error_status(), HAUL_OK);
    return f;
}

static haul_training_position position = {1, 1};

static void check(const char *wanted, const char *call)
{
    if (haul_error_status() == HAUL_OK)
        fail_msg("%s did not fail", call);
    if (strcmp(haul_error_operation(), wanted) != 0 || strncmp(haul_error_message(), wanted, strlen(wanted)) != 0)
        fail_msg("%s: an error of %s: \"%s\"", call, haul_error_operation(), haul_error_message());
}

static void test_error_names__of_wrong_calls(void **state)
{
    (void)state;
    static const struct {
        const char *name, *call;
    } calls[] = {
#define WRONG(name, ...) {#name, #__VA_ARGS__},
#include "error_names.def"
    };
    for (int i = 0; i < (int)(sizeof calls / sizeof *calls); i++) {
        haul_scope *scope = haul_scope_push();
        fixture     f = make();
        int         n = 0;
#define WRONG(name, ...)                                                                                               \
    if (n++ == i)                                                                                                      \
        (void)(__VA_ARGS__);
#include "error_names.def"
        check(calls[i].name, calls[i].call);
        haul_error_clear();
        haul_scope_pop(scope);
    }
}

static void test_error_names__of_calls_for_which_there_is_no_memory_or_file(void **state)
{
    (void)state;
    static const struct {
        const char *name, *call;
    } calls[] = {
#define FAILING(name, ...) {#name, #__VA_ARGS__},
#include "error_names.def"
    };
    for (int i = 0; i < (int)(sizeof calls / sizeof *calls); i++)
        for (int64_t nth = 1;; nth++) {
            haul_scope *scope = haul_scope_push();
            fixture     f = make();
            int         n = 0;
            haul__fault_plan(HAUL__FAULT_DEVICE | HAUL__FAULT_COPY | HAUL__FAULT_LAUNCH | HAUL__FAULT_FILE, nth);
#define FAILING(name, ...)                                                                                             \
    if (n++ == i)                                                                                                      \
        (void)(__VA_ARGS__);
#include "error_names.def"
            haul__fault_plan(0, 0);
            bool failed = haul_error_status() != HAUL_OK;
            if (failed)
                check(calls[i].name, calls[i].call);
            haul_error_clear();
            haul_scope_pop(scope);
            if (!failed)
                break;
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_error_names__of_wrong_calls),
        cmocka_unit_test(test_error_names__of_calls_for_which_there_is_no_memory_or_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
