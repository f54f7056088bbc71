/* Kernels on a backend that only notes what it is asked to compile: those of the library, and those whose text is made
 * while the program runs. */
#include <haul/haul.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/system/clock.h"
#include "device/device.h"
#include "device/generated.h"
#include "device/link.h"
#include "kernels/kernels.h"

static int         compiled;
static char        units[16][64];
static haul_status result;
static void (*while_compiling)(void);

static haul_status compile(haul_device *device, const haul__unit *unit, haul__kernel *out)
{
    assert_true(unit->text && *unit->text);
    snprintf(units[compiled++ % 16], sizeof *units, "%s|%s|%.8s", unit->name, unit->kernel, unit->text);
    out->handle = device;
    if (while_compiling)
        while_compiling();
    return result ? haul__fail(result, unit->kernel, NULL, "refused") : HAUL_OK;
}

static const haul__backend backend = {.name = "fake", .compile = compile};
static haul_device         devices[2];

static int setup(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        haul_device *d = &devices[i];
        if (!d->kernels) {
            d->kernels = haul__calloc(haul__kernel_slots(), sizeof *d->kernels);
            d->foreseen = haul__calloc(haul__kernel_slots(), sizeof *d->foreseen);
            pthread_mutex_init(&d->kernels_lock, NULL);
        }
        d->backend = &backend;
        snprintf(d->name, sizeof d->name, "fake:%d", i);
    }
    compiled = 0;
    result = HAUL_OK;
    while_compiling = NULL;
    haul_error_clear();
    return devices[1].kernels && devices[1].foreseen ? 0 : -1;
}

/* ---- kernels whose text is made ---- */

static void test_kernels__a_text_is_compiled_once_for_a_device_and_dtype(void **state)
{
    static const char   one[] = "text one", two[] = "text two";
    const haul__kernel *first = haul__kernel_of_text(&devices[0], "chain", one, HAUL_F32, "a + b");
    (void)state;
    assert_non_null(first);
    assert_string_equal(first->name, "a + b");
    assert_ptr_equal(first->handle, &devices[0]);
    assert_non_null(strstr(units[0], "|chain|text one"));
    assert_ptr_equal(strstr(units[0], "chain "), units[0]);
    assert_ptr_equal(haul__kernel_of_text(&devices[0], "chain", one, HAUL_F32, "a + b"), first);
    assert_int_equal(compiled, 1);
    const haul__kernel *others[] = {haul__kernel_of_text(&devices[0], "chain", two, HAUL_F32, "a + b"),
                                    haul__kernel_of_text(&devices[0], "chain", one, HAUL_F16, "a + b"),
                                    haul__kernel_of_text(&devices[1], "chain", one, HAUL_F32, "a + b")};
    assert_int_equal(compiled, 4);
    for (int i = 0; i < 3; i++) {
        assert_true(others[i] && others[i] != first);
        assert_string_not_equal(units[i + 1], units[0]); /* units of one name would be one program */
    }
    assert_ptr_equal(haul__kernel_of_text(&devices[0], "chain", one, HAUL_F32, "a + b"), first);
    assert_ptr_equal(haul__kernel_of_text(&devices[0], "chain", two, HAUL_F32, "a + b"), others[0]);
    assert_int_equal(compiled, 4);
}

static void test_kernels__a_text_that_failed_is_tried_again(void **state)
{
    (void)state;
    result = HAUL_BACKEND;
    assert_null(haul__kernel_of_text(&devices[0], "chain", "wrong", HAUL_F32, "a - b"));
    assert_int_equal(haul_error_status(), HAUL_BACKEND);
    haul_error_clear();
    result = HAUL_OK;
    assert_non_null(haul__kernel_of_text(&devices[0], "chain", "wrong", HAUL_F32, "a - b"));
    assert_int_equal(compiled, 2);
    for (int nth = 1;; nth++) {
        haul__fault_plan(HAUL__FAULT_HOST, nth);
        const haul__kernel *kernel = haul__kernel_of_text(&devices[0], "chain", "no memory", HAUL_F32, "a * b");
        haul__fault_plan(0, 0);
        if (kernel)
            break;
        assert_int_equal(haul_error_status(), HAUL_OUT_OF_MEMORY);
        assert_string_equal(haul_error_operation(), "a * b");
        haul_error_clear();
    }
    assert_int_equal(compiled, 3);
}

static pthread_t           other;
static const haul__kernel *of_other;

static void *ask_too(void *unused)
{
    of_other = haul__kernel_of_text(&devices[0], "chain", "at once", HAUL_F32, "a / b");
    return unused;
}

/* It waits for the lock of the device's kernels. */
static void begin_other(void)
{
    while_compiling = NULL;
    assert_int_equal(pthread_create(&other, NULL, ask_too, NULL), 0);
    nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
}

static void test_kernels__threads_share_what_one_compiles(void **state)
{
    (void)state;
    while_compiling = begin_other;
    const haul__kernel *kernel = haul__kernel_of_text(&devices[0], "chain", "at once", HAUL_F32, "a / b");
    assert_non_null(kernel);
    assert_int_equal(pthread_join(other, NULL), 0);
    assert_ptr_equal(of_other, kernel);
    assert_int_equal(compiled, 1);
}

/* ---- kernels of the library ---- */

typedef struct seen {
    int     driver_calls, kernels;
    int64_t bytes;
} seen;

static void see(const haul_event *e, void *context)
{
    seen *s = context;
    s->kernels += e->kind == HAUL_EVENT_KERNEL_COMPILED;
    s->driver_calls += e->kind == HAUL_EVENT_DRIVER_CALLED;
    s->bytes += e->bytes;
}

static void test_kernels__events_tell_what_was_compiled(void **state)
{
    seen s = {.bytes = 0};
    (void)state;
    const int64_t id =
        haul_events_subscribe(see, .kinds = HAUL_EVENT_KERNEL_COMPILED | HAUL_EVENT_DRIVER_CALLED, .context = &s);
    assert_true(id > 0);
    result = HAUL_BACKEND;
    assert_null(haul__kernel_get(&devices[0], HAUL__K_exp, HAUL_F32));
    assert_int_equal(s.driver_calls, 1);
    assert_int_equal(s.kernels, 0);
    haul_error_clear();
    result = HAUL_OK;
    assert_non_null(haul__kernel_get(&devices[0], HAUL__K_exp, HAUL_F32));
    assert_int_equal(s.driver_calls, 2);
    assert_int_equal(s.kernels, 1);
    assert_int_equal(s.bytes, 0);
    haul_events_unsubscribe(id);
}

static void test_kernels__without_memory_none_is_compiled(void **state)
{
    (void)state;
    for (int nth = 1;; nth++) {
        haul__fault_plan(HAUL__FAULT_HOST, nth);
        const haul__kernel *kernel = haul__kernel_get(&devices[0], HAUL__K_tanh, HAUL_F32);
        haul__fault_plan(0, 0);
        if (kernel)
            break;
        assert_int_equal(haul_error_status(), HAUL_OUT_OF_MEMORY);
        assert_string_equal(haul_error_operation(), "tanh");
        haul_error_clear();
    }
    assert_int_equal(compiled, 1);
}

static void test_kernels__foreseen_ones_are_awaited_until_they_are_ready(void **state)
{
    haul_device *device = &devices[1];
    (void)state;
    assert_int_equal(haul__kernels_ready(device), 0);
    assert_int_equal(haul__kernels_awaited(device), 0);
    for (int i = 0; i < 2; i++)
        haul__kernel_foresee(device, HAUL__K_exp, HAUL_F32);
    haul__kernel_foresee(device, HAUL__K_exp, HAUL_F16);
    assert_int_equal(haul__kernels_awaited(device), 2);
    assert_non_null(haul__kernel_get(device, HAUL__K_exp, HAUL_F32));
    assert_int_equal(haul__kernels_awaited(device), 1);
    assert_int_equal(haul__kernels_ready(device), 1);
    assert_non_null(haul__kernel_get(device, HAUL__K_exp, HAUL_F16));
    assert_int_equal(haul__kernels_awaited(device), 0);
}

/* ---- the link ---- */

static void test_link__copies_that_were_timed_price_others(void **state)
{
    haul_device *device = &devices[0];
    (void)state;
    assert_int_equal(haul__link_ns(device, 1000), -1);
    haul__link_end(device, 1000, 0); /* not timed */
    assert_int_equal(haul__link_ns(device, 1000), -1);
    haul__link_end(device, 1000, haul__now_ns() - 1000000);
    assert_in_range(haul__link_ns(device, 2000), 2000000, 2000000000);
}

#define TEST(name) cmocka_unit_test_setup(name, setup)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_kernels__a_text_is_compiled_once_for_a_device_and_dtype),
        TEST(test_kernels__a_text_that_failed_is_tried_again),
        TEST(test_kernels__threads_share_what_one_compiles),
        TEST(test_kernels__events_tell_what_was_compiled),
        TEST(test_kernels__without_memory_none_is_compiled),
        TEST(test_kernels__foreseen_ones_are_awaited_until_they_are_ready),
        TEST(test_link__copies_that_were_timed_price_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
