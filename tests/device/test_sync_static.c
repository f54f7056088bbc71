/* Places of waits in a program that holds the library and exports no names. Debug information shows the line. Without
 * it the owners of functions are unknown, so addresses are reported, none of them outside of the program. */
#include <stdio.h>

#include "support/moves.h"

static char place[512];
static int  waits;

static void keep(const haul_sync_event *e, void *context)
{
    (void)context;
    if (e->kind == HAUL_SYNC_DRIVER)
        return;
    waits++;
    snprintf(place, sizeof place, "%s", e->place);
}

static void test_sync_static__places_are_in_the_program(void **state)
{
    haul_tensor *x = haul_to(iota(1, 1), late_device(0));
    const char  *program = "test_sync_static+0x";
    int          addresses = 0;
    (void)state;
    haul_sync_report_to(keep, NULL);
    haul_item(x);
    haul_sync_report(false);
    assert_int_equal(waits, 1);
    if (strstr(place, ".c:")) /* of the test program, which has a part of the library in its place (support/ledger.c) */
        return;
    for (const char *at = strstr(place, program); at; at = strstr(at + 1, program))
        addresses++;
    assert_true(addresses > 1);
    assert_int_equal(strncmp(place, program, strlen(program)), 0);
    assert_null(strstr(place, "libc"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_sync_static__places_are_in_the_program, begin, end),
    };
    return run_moves("sync_static", tests, sizeof tests / sizeof tests[0]);
}
