/* Budgets of transfers and waits: what counts, when they fail, and what they say.
 * ctest: cuda; exports; env=POCL_DEVICES=pthread pthread; labels=threads */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "support/failure.h"
#include "support/moves.h"

/* ---- closing scopes ---- */

static void assert_within(haul_scope *part)
{
    if (haul_scope_pop(part))
        fail_msg("%s", haul_error_message());
    assert_int_equal(haul_error_status(), HAUL_OK);
}

/* The scope ends with an error whose message has all these parts, in this order. */
static void assert_exceeded(haul_scope *part, const char *const *words, int count)
{
    assert_int_equal(haul_scope_pop(part), HAUL_BUDGET);
    assert_int_equal(haul_error_status(), HAUL_BUDGET);
    assert_string_equal(haul_error_operation(), "haul_budget");
    const char *at = haul_error_message();
    for (int i = 0; i < count; i++) {
        at = strstr(at, words[i]);
        if (!at)
            fail_msg("\"%s\" does not say \"%s\", or not after what comes before", haul_error_message(), words[i]);
    }
    haul_error_clear();
}
#define ASSERT_EXCEEDED(part, ...)                                                                                     \
    assert_exceeded(part, (const char *const[]){__VA_ARGS__},                                                          \
                    (int)(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)))

static int64_t bytes_of(const haul_tensor *t)
{
    return (int64_t)haul_tensor_bytes(t);
}

/* ---- what counts ---- */

static void test_budget__limits_hold_to_the_byte(void **state)
{
    (void)state;
    for (int d = 1; d < device_count; d++) {
        haul_tensor *x = iota(8, 32);
        for (int64_t less = 0; less < 2; less++) {
            haul_scope *part = haul_scope_push();
            assert_int_equal(haul_budget(.h2d_bytes = bytes_of(x) - less, .d2h_bytes = 4, .waits = 1), HAUL_OK);
            assert_true(haul_item(haul_sum(haul_to(x, devices[d]))) == 255 * 128);
            if (!less)
                assert_within(part);
            else
                ASSERT_EXCEEDED(part,
                                "the budget of a scope was exceeded: 1024 bytes to devices (1023 allowed); most by ",
                                "haul_to, 1024 bytes from cpu to ", haul_device_name(devices[d]), " in 1 copy");
        }
    }
}

static void test_budget__what_is_not_named_is_forbidden(void **state)
{
    (void)state;
    haul_scope *part = haul_scope_push_named("step");
    assert_int_equal(haul_budget(.waits = 0), HAUL_OK);
    haul_tensor *x = haul_to(iota(1, 4), late_device(0));
    haul_to(x, late_device(1));
    assert_true(haul_item(view_of(x, &HAUL_SHAPE(1), (int64_t[]){1}, 2)) == 2);
    ASSERT_EXCEEDED(part, "the budget of scope \"step\" was exceeded: ", "32 bytes to devices (0 allowed)",
                    "20 bytes to the host (0 allowed)", "1 wait (0 allowed)", "; most by ");
}

static void test_budget__work_on_the_cpu_is_free(void **state)
{
    (void)state;
    haul_scope *part = haul_scope_push();
    assert_int_equal(haul_budget(.waits = 0), HAUL_OK);
    assert_true(haul_item(haul_sum(haul_to(iota(2, 2), haul_cpu()))) == 6);
    assert_within(part);
}

/* Not static, so that its name is known. */
void budget_test_reads(haul_tensor *t) __attribute__((noinline));
void budget_test_reads(haul_tensor *t)
{
    volatile double value = haul_item(t); /* no tail call */
    (void)value;
}

static haul_tensor *reads_in_forward(haul_module *m, haul_args *args)
{
    (void)m;
    budget_test_reads(view_of(args->x[0], &HAUL_SHAPE(1), (int64_t[]){1}, 0));
    return args->x[0];
}

static void test_budget__names_the_three_places_that_used_most(void **state)
{
    haul_tensor *x = haul_to(iota(1, 4), late_device(0));
    (void)state;
    haul_scope *part = haul_scope_push();
    assert_int_equal(haul_budget(.h2d_bytes = 100, .d2h_bytes = 1 << 20), HAUL_OK);
    assert_int_equal(haul_label_begin("validation"), HAUL_OK);
    for (int i = 0; i < 3; i++)
        budget_test_reads(view_of(x, &HAUL_SHAPE(1), (int64_t[]){1}, i));
    assert_int_equal(haul_label_end(), HAUL_OK);
    assert_int_equal(haul_device_sync(late_device(0)), HAUL_OK);
    haul_to(iota(4, 16), late_device(0)); /* 256 bytes */
    haul_to(iota(1, 2), late_device(0));  /* 8 */
    assert_int_equal(haul_device_sync(late_device(0)), HAUL_OK);
    ASSERT_EXCEEDED(part, "264 bytes to devices (100 allowed), ", " waits (0 allowed); most by ",
                    "haul_to, 256 bytes from cpu to late:0 in 1 copy at ", "; haul_item, 3 times for late:0",
                    " in \"validation\" at ", "test_budget", "; haul_device_sync, 1 time for late:0");
}

static void test_budget__names_the_layer(void **state)
{
    haul_tensor *x = haul_to(iota(1, 4), late_device(0));
    (void)state;
    haul_module *net = HAUL_SEQUENTIAL(haul_module_new("peek", reads_in_forward));
    haul_scope  *part = haul_scope_push();
    assert_int_equal(haul_budget(.d2h_bytes = 4), HAUL_OK);
    haul_call(net, x);
    ASSERT_EXCEEDED(part, "1 wait (0 allowed)", "haul_item, 1 time for late:0 in layer '0'");
}

/* ---- whose ---- */

static void *copies(void *context)
{
    haul_scope *own = haul_scope_push();
    (void)context;
    haul_to(iota(1, 4), late_device(1));
    haul_device_sync(late_device(1));
    haul_scope_pop(own);
    return NULL;
}

static void test_budget__counts_its_thread_or_all(void **state)
{
    (void)state;
    for (int everywhere = 0; everywhere < 2; everywhere++) {
        pthread_t   worker;
        haul_scope *part = haul_scope_push();
        assert_int_equal(haul_budget(.everywhere = everywhere), HAUL_OK);
        assert_int_equal(pthread_create(&worker, NULL, copies, NULL), 0);
        assert_int_equal(pthread_join(worker, NULL), 0);
        if (!everywhere)
            assert_within(part);
        else
            ASSERT_EXCEEDED(part, "16 bytes to devices", "1 wait ");
    }
}

/* Two ranks add up four numbers: each sends half of its own, and the half of the sum that it made. */
static haul_status within_group_bytes(haul_group *group, void *context)
{
    const int64_t    *limit = context;
    haul_scope       *step = haul_scope_push_named("step");
    const haul_status status = haul_budget(.group_bytes = *limit);
    haul_all_reduce(haul_ones(HAUL_F32, HAUL_SHAPE(4)), group);
    if (haul_group_rank(group) == 0)
        haul_send(haul_ones(HAUL_F32, HAUL_SHAPE(5)), 1, group);
    else
        haul_receive(haul_ones(HAUL_F32, HAUL_SHAPE(5)), 0, group);
    return status ? status : haul_scope_pop(step);
}

static void test_budget__counts_bytes_to_other_ranks(void **state)
{
    int64_t limit = 36;
    (void)state;
    assert_int_equal(haul_group_run("local:cpu,cpu", within_group_bytes, &limit), HAUL_OK);
    limit = 35;
    assert_int_equal(haul_group_run("local:cpu,cpu", within_group_bytes, &limit), HAUL_BUDGET);
    assert_non_null(strstr(haul_error_message(), "36 bytes to other ranks (35 allowed); most by haul_send, 20 bytes to "
                                                 "other ranks in 1 call at "));
    assert_non_null(strstr(haul_error_message(), "; haul_all_reduce, 16 bytes to other ranks in 1 call at "));
    haul_error_clear();
}

static void test_budget__scopes_inside_count_too(void **state)
{
    (void)state;
    haul_scope *outer = haul_scope_push_named("outer"), *inner = haul_scope_push_named("inner");
    assert_int_equal(haul_budget(.h2d_bytes = 16), HAUL_OK);
    haul_to(iota(1, 4), late_device(0));
    assert_within(inner);
    inner = haul_scope_push_named("inner");
    assert_int_equal(haul_budget(.h2d_bytes = 16), HAUL_OK);
    assert_int_equal(haul_budget(.h2d_bytes = 32), HAUL_OK); /* a second one of the same scope */
    haul_scope *innermost = haul_scope_push();
    haul_to(iota(1, 8), late_device(0));
    ASSERT_EXCEEDED(outer, "the budget of scope \"inner\" was exceeded: 32 bytes to devices (16 allowed)");
    assert_int_equal(haul_scope_pop(innermost), HAUL_STATE); /* it was closed with `outer` */
    haul_error_clear();
    outer = haul_scope_push();
    haul_to(iota(1, 4), late_device(0)); /* no budget is left behind */
    assert_within(outer);
}

static void test_budget__a_result_leaves_its_scope_all_the_same(void **state)
{
    (void)state;
    haul_scope *part = haul_scope_push();
    assert_int_equal(haul_budget(.waits = 0), HAUL_OK);
    haul_tensor *x = haul_scope_return(part, haul_to(iota(1, 4), late_device(0)));
    assert_valid(x);
    assert_int_equal(haul_error_status(), HAUL_BUDGET);
    haul_error_clear();
    assert_true(haul_item(view_of(x, &HAUL_SHAPE(1), (int64_t[]){1}, 3)) == 3);
}

/* More places than are kept: all count, and the largest of those that were kept is named. */
static void test_budget__has_room_for_any_number_of_places(void **state)
{
    enum { MANY = 300 };
    static char labels[MANY][24];
    (void)state;
    haul_scope *part = haul_scope_push();
    assert_int_equal(haul_budget(.waits = MANY), HAUL_OK);
    for (int i = 0; i < MANY; i++) {
        snprintf(labels[i], sizeof labels[i], "part %d", i);
        assert_int_equal(haul_label_begin(labels[i]), HAUL_OK);
        haul_to(iota(1, i == 7 ? 2 : 1), late_device(0));
        assert_int_equal(haul_label_end(), HAUL_OK);
    }
    ASSERT_EXCEEDED(part, "1204 bytes to devices (0 allowed)", "haul_to, 8 bytes", "in \"part 7\"");
}

static void test_budget__counts_without_memory(void **state)
{
    (void)state;
    haul_tensor *x = iota(1, 4);
    for (int64_t nth = 1; nth < 12; nth++) {
        haul_scope *part = haul_scope_push();
        haul__fault_plan(HAUL__FAULT_HOST, nth);
        const haul_status status = haul_budget(.waits = 0);
        haul_tensor      *moved = status ? NULL : haul_to(x, late_device(0));
        haul__fault_plan(0, 0);
        if (status)
            assert_int_equal(status, HAUL_OUT_OF_MEMORY);
        haul_error_clear();
        if (moved && haul_tensor_is_valid(moved))
            ASSERT_EXCEEDED(part, "16 bytes to devices (0 allowed)");
        else
            haul_scope_pop(part);
        haul_error_clear();
    }
}

/* ---- wrong uses ---- */

static void subscriber(const haul_event *e, void *context)
{
    (void)e;
    haul_scope *own = haul_scope_push();
    *(haul_status *)context = haul_budget(.waits = 1);
    haul_scope_pop(own);
}

static void test_budget__wrong_uses(void **state)
{
    haul_status status = HAUL_OK;
    (void)state;
    assert_int_equal(haul_budget(.h2d_bytes = -1), HAUL_INVALID_ARGUMENT);
    assert_string_equal(haul_error_argument(), "h2d_bytes");
    assert_int_equal(haul_budget(.group_bytes = -1), HAUL_INVALID_ARGUMENT);
    assert_string_equal(haul_error_argument(), "group_bytes");
    assert_int_equal(haul_budget(.waits = -1), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_budget_with(NULL), HAUL_INVALID_ARGUMENT);
    int64_t id = haul_events_subscribe(subscriber, .kinds = HAUL_EVENT_LABEL_BEGIN, .context = &status);
    assert_int_equal(haul_label_begin("here"), HAUL_OK);
    assert_int_equal(haul_label_end(), HAUL_OK);
    assert_int_equal(haul_events_unsubscribe(id), HAUL_OK);
    assert_int_equal(status, HAUL_STATE);
    haul_scope_pop(scope);
    haul_error_clear();
    assert_int_equal(haul_budget(.waits = 1), HAUL_STATE);
    assert_non_null(strstr(haul_error_message(), "haul_scope_push()"));
    scope = haul_scope_push();
    haul_error_clear();
}

#define BUDGET_TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        BUDGET_TEST(test_budget__limits_hold_to_the_byte),
        BUDGET_TEST(test_budget__what_is_not_named_is_forbidden),
        BUDGET_TEST(test_budget__work_on_the_cpu_is_free),
        BUDGET_TEST(test_budget__names_the_three_places_that_used_most),
        BUDGET_TEST(test_budget__names_the_layer),
        BUDGET_TEST(test_budget__counts_its_thread_or_all),
        BUDGET_TEST(test_budget__counts_bytes_to_other_ranks),
        BUDGET_TEST(test_budget__scopes_inside_count_too),
        BUDGET_TEST(test_budget__a_result_leaves_its_scope_all_the_same),
        BUDGET_TEST(test_budget__has_room_for_any_number_of_places),
        BUDGET_TEST(test_budget__counts_without_memory),
        BUDGET_TEST(test_budget__wrong_uses),
    };
    return run_moves("budget", tests, sizeof tests / sizeof tests[0]);
}
