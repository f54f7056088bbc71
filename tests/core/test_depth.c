/* Objects within each other, many levels deep, on a thread with a small stack: nothing recurses, or an error says how
 * deep it may go. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <haul/haul.h>
#include <pthread.h>
#include <string.h>

#include "support/failure.h"

enum { LEVELS = 100000, STACK = 256 << 10 };

/* cmocka's failures belong to the main thread, so the work only returns the fault. */
static void on_small_stack(void *(*work)(void *), void *context)
{
    pthread_attr_t attributes;
    pthread_t      thread;
    void          *wrong = NULL;
    pthread_attr_init(&attributes);
    assert_int_equal(pthread_attr_setstacksize(&attributes, STACK), 0);
    assert_int_equal(pthread_create(&thread, &attributes, work, context), 0);
    assert_int_equal(pthread_join(thread, &wrong), 0);
    pthread_attr_destroy(&attributes);
    if (wrong)
        fail_msg("%s", (const char *)wrong);
}

#define EXPECT(condition)                                                                                              \
    if (!(condition))                                                                                                  \
    return #condition

/* ---- modules ---- */

static haul_tensor *pass_on(haul_module *self, haul_args *args)
{
    return haul_call_child(self, "c", args->x[0]);
}

static haul_module *nested(int levels)
{
    haul_module *m = haul_nn_linear(2, 2);
    for (int i = 0; i < levels; i++) {
        haul_module *outer = haul_module_new("outer", pass_on);
        haul_module_add(outer, "c", m);
        m = outer;
    }
    return m;
}

static void *walk(void *context)
{
    haul_scope  *scope = haul_scope_push();
    haul_module *m = nested(LEVELS), *copy = haul_module_clone(m);
    (void)context;
    EXPECT(copy);
    EXPECT(haul_module_tensors(copy, NULL, 0) == 2);
    EXPECT(haul_module_parameter_count(copy) == 6);
    EXPECT(haul_module_train(m, false) == HAUL_OK && !haul_module_is_training(m));
    EXPECT(haul_module_to(m, haul_cpu()) == HAUL_OK && haul_module_place(m, haul_cpu()) == HAUL_OK);
    EXPECT(haul_module_cast(m, HAUL_F64) == HAUL_OK);
    EXPECT(haul_module_to_memory_format(m, HAUL_CHANNELS_LAST) == HAUL_OK);
    EXPECT(haul_module_copy(copy, m) == HAUL_OK);
    haul_keep(m); /* a module that something else holds may be within others */
    haul_module *outer = haul_module_new("outer", pass_on);
    EXPECT(haul_module_add(outer, "c", m) == HAUL_OK);
    EXPECT(haul_module_add(m, "d", outer) == HAUL_INVALID_ARGUMENT);
    EXPECT(strstr(haul_error_message(), "contain itself"));
    haul_release(m);
    EXPECT(haul_scope_pop(scope) == HAUL_OK);
    return NULL;
}

static void test_depth__modules(void **state)
{
    (void)state;
    on_small_stack(walk, NULL);
}

static void *call(void *context)
{
    haul_scope  *scope = haul_scope_push();
    haul_module *m = nested(10);
    haul_tensor *x = haul_ones(HAUL_F32, HAUL_SHAPE(1, 2)), *y = haul_call(m, x);
    (void)context;
    EXPECT(haul_tensor_is_valid(y));
    EXPECT(has_failed(haul_call(nested(10000), x)));
    EXPECT(haul_error_status() == HAUL_STATE);
    EXPECT(strstr(haul_error_message(), "modules are being called within each other"));
    EXPECT(strstr(haul_error_message(), "24576 are needed"));
    haul_error_clear();
    EXPECT(haul_tensor_is_valid(haul_call(m, x)));
    EXPECT(haul_scope_depth() == 1);
    haul_scope_pop(scope);
    return NULL;
}

static void test_depth__a_call_says_how_deep_it_may_go(void **state)
{
    (void)state;
    on_small_stack(call, NULL);
}

/* ---- datasets ---- */

static haul_status add_one(void *context, haul_example *e)
{
    (void)context;
    ++*(float *)e->fields[0].data;
    return HAUL_OK;
}

static haul_dataset *wrap(haul_dataset *d, haul_transform *t, int level)
{
    switch (level % 3) {
    case 0: return haul_dataset_map(d, t);
    case 1: return haul_dataset_subset(d, (const int64_t[]){1, 0}, 2);
    default: return haul_dataset_concat(d);
    }
}

static void *read_all(void *context)
{
    haul_scope     *scope = haul_scope_push();
    haul_tensor    *x = haul_arange(HAUL_F32, 0, 2, 1);
    haul_dataset   *d = haul_dataset_from_named(&(haul_named_tensor){.name = "x", .tensor = x}, 1);
    haul_transform *t = haul_transform_new(add_one);
    (void)context;
    for (int i = 0; i < LEVELS && d; i++)
        d = wrap(d, t, i);
    EXPECT(haul_dataset_count(d) == 2);
    haul_loader *l = haul_loader_new(d, .batch = 2);
    EXPECT(haul_loader_start(l, 0) == HAUL_OK);
    const haul_batch *b = haul_loader_next(l);
    EXPECT(b);
    double values[2];
    EXPECT(haul_read(haul_cast(b->x, HAUL_F64), values, sizeof values) == HAUL_OK);
    const int maps = (LEVELS + 2) / 3, swaps = (LEVELS + 1) / 3;
    EXPECT(values[0] == maps + swaps % 2 && values[1] == maps + 1 - swaps % 2);
    EXPECT(haul_scope_pop(scope) == HAUL_OK);
    return NULL;
}

static void test_depth__datasets(void **state)
{
    (void)state;
    on_small_stack(read_all, NULL);
}

/* ---- schedules ---- */

static void test_depth__schedules(void **state)
{
    (void)state;
    haul_scope     *scope = haul_scope_push();
    haul_optimizer *sgd = haul_sgd(haul_nn_linear(1, 1), 0.1);
    haul_schedule  *s = haul_schedule_cosine(sgd, 10);
    for (int i = 0; i < 32; i++)
        s = haul_schedule_chain(&s, NULL, 1);
    assert_non_null(s);
    assert_int_equal(haul_schedule_step(s), HAUL_OK);
    assert_null(haul_schedule_chain(&s, NULL, 1));
    assert_non_null(strstr(haul_error_message(), "schedules[0] has 32 chains within each other"));
    haul_error_clear();
    haul_scope_pop(scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_depth__modules),
        cmocka_unit_test(test_depth__a_call_says_how_deep_it_may_go),
        cmocka_unit_test(test_depth__datasets),
        cmocka_unit_test(test_depth__schedules),
    };
    return cmocka_run_group_tests_name("depth", tests, NULL, NULL);
}
