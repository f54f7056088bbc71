/* Objects and the scopes that own them.
 *
 * ctest: labels=threads */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <haul/haul.h>
#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "core/error.h"
#include "core/object.h"
#include "core/thread.h"
#include "support/failure.h"

/* An object that holds another, like a node of a graph, and says when it dies. */
typedef struct thing {
    haul__object  object;
    struct thing *held;
    void (*at_end)(struct thing *self);
    int name;
} thing;

static atomic_int alive;
static int        deaths[8];
static int        death_count;

static void destroy_thing(void *p)
{
    thing *t = p;
    if (t->name && death_count < 8)
        deaths[death_count++] = t->name;
    if (t->at_end)
        t->at_end(t);
    haul__object_release(t->held);
    haul__free(t);
    atomic_fetch_sub(&alive, 1);
}

static const haul__class thing_class = {.name = "thing", .destroy = destroy_thing};

/* A reference to `held` is taken over. */
static thing *new_thing(thing *held, int name)
{
    thing *t = haul__malloc(sizeof *t);
    assert_non_null(t);
    haul__object_init(&t->object, &thing_class);
    t->held = held;
    t->at_end = NULL;
    t->name = name;
    atomic_fetch_add(&alive, 1);
    return t;
}

static thing *own_thing(int name)
{
    thing *t = haul__own(new_thing(NULL, name), "new_thing");
    assert_non_null(t);
    return t;
}

static int blocks_before;

static int setup(void **state)
{
    (void)state;
    haul_error_clear();
    death_count = 0;
    blocks_before = (int)haul__host_blocks();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    if (haul_scope_depth() != 0 || atomic_load(&alive) != 0 || haul__host_blocks() != blocks_before)
        return -1;
    return 0;
}

static void test_scope__owns_until_popped(void **state)
{
    (void)state;
    haul_scope *scope = haul_scope_push();
    assert_int_equal(haul_scope_depth(), 1);
    own_thing(1);
    own_thing(2);
    own_thing(3);
    assert_int_equal(alive, 3);
    assert_int_equal(haul_scope_pop(scope), HAUL_OK);
    assert_int_equal(alive, 0);
    assert_memory_equal(deaths, ((int[]){3, 2, 1}), 3 * sizeof(int)); /* the newest first */
}

static void test_scope__pop_takes_those_above(void **state)
{
    (void)state;
    haul_scope *outer = haul_scope_push();
    own_thing(0);
    haul_scope *middle = haul_scope_push();
    own_thing(0);
    haul_scope_push();
    own_thing(0);
    haul_scope_push();
    assert_int_equal(haul_scope_depth(), 4);
    assert_int_equal(haul_scope_pop(middle), HAUL_OK);
    assert_int_equal(haul_scope_depth(), 1);
    assert_int_equal(alive, 1);
    haul_scope_pop(outer);
}

static void test_scope__pop_of_null_is_ignored(void **state)
{
    (void)state;
    assert_int_equal(haul_scope_pop(NULL), HAUL_OK);
    assert_int_equal(haul_error_status(), HAUL_OK);
}

static void *pop_it(void *scope)
{
    return (void *)(intptr_t)haul_scope_pop(scope);
}

static void test_scope__foreign_and_stale_scopes_are_refused(void **state)
{
    (void)state;
    pthread_t   thread;
    void       *status;
    haul_scope *scope = haul_scope_push(), *inner = haul_scope_push();
    assert_int_equal(pthread_create(&thread, NULL, pop_it, scope), 0);
    pthread_join(thread, &status);
    assert_int_equal((intptr_t)status, HAUL_STATE);
    assert_int_equal(haul_scope_depth(), 2);
    haul_scope_pop(inner);
    assert_int_equal(haul_scope_pop(inner), HAUL_STATE);
    assert_int_equal(haul_scope_depth(), 1);
    haul_scope_pop(scope);
}

static void test_scope__owning_without_a_scope_is_an_error(void **state)
{
    (void)state;
    assert_null(haul__own(new_thing(NULL, 0), "haul_zeros"));
    assert_int_equal(haul_error_status(), HAUL_STATE);
    assert_non_null(strstr(haul_error_message(), "haul_zeros: no scope is open"));
    assert_int_equal(alive, 0);
}

static void test_scope__owning_nothing_keeps_the_error(void **state)
{
    (void)state;
    haul_scope *scope = haul_scope_push();
    assert_null(haul__own(NULL, "haul_zeros"));
    assert_int_equal(haul_error_status(), HAUL_OUT_OF_MEMORY);
    haul_error_clear();
    haul__fail(HAUL_SHAPE, "haul_add", NULL, "first");
    assert_null(haul__own(NULL, "haul_zeros"));
    assert_int_equal(haul_error_status(), HAUL_SHAPE);
    haul_scope_pop(scope);
}

static void test_scope__return_hands_to_the_parent(void **state)
{
    (void)state;
    haul_scope *outer = haul_scope_push(), *inner = haul_scope_push();
    own_thing(1);
    thing *result = own_thing(2);
    own_thing(3);
    haul_scope_push(); /* popped with inner */
    assert_ptr_equal(haul_scope_return(inner, (haul_tensor *)result), result);
    assert_int_equal(haul_scope_depth(), 1);
    assert_int_equal(alive, 1);
    haul_scope_pop(outer);
    assert_int_equal(deaths[2], 2);
}

static void test_scope__return_takes_from_scopes_above(void **state)
{
    (void)state;
    haul_scope *outer = haul_scope_push(), *inner = haul_scope_push();
    haul_scope_push();
    thing *result = own_thing(0);
    assert_ptr_equal(haul_scope_return(inner, (haul_tensor *)result), result);
    assert_int_equal(alive, 1);
    haul_scope_pop(outer);
}

/* A function may return what it was given: that must not die earlier for it. */
static void test_scope__return_leaves_an_older_object_where_it_is(void **state)
{
    (void)state;
    haul_scope *program = haul_scope_push();
    thing      *weight = own_thing(0);
    haul_scope *step = haul_scope_push(), *function = haul_scope_push();
    assert_ptr_equal(haul_scope_return(function, (haul_tensor *)weight), weight);
    haul_scope_pop(step);
    assert_int_equal(alive, 1);
    haul_scope_pop(program);
}

static void test_scope__return_of_null_pops_and_keeps_the_error(void **state)
{
    (void)state;
    haul_scope *outer = haul_scope_push(), *inner = haul_scope_push();
    haul__fail(HAUL_SHAPE, "haul_matmul", NULL, "first");
    assert_null(haul_scope_return(inner, NULL));
    assert_int_equal(haul_error_status(), HAUL_SHAPE);
    assert_int_equal(haul_scope_depth(), 1);
    haul_error_clear();
    assert_null(haul_scope_return(NULL, NULL));
    assert_int_equal(haul_error_status(), HAUL_INVALID_ARGUMENT);
    haul_scope_pop(outer);
}

static void test_scope__return_from_the_outermost_is_refused(void **state)
{
    (void)state;
    haul_scope *scope = haul_scope_push();
    assert_null(haul_scope_return(scope, (haul_tensor *)own_thing(0)));
    assert_int_equal(haul_error_status(), HAUL_STATE);
    assert_int_equal(alive, 0);
}

static void test_scope__drop_ends_an_object_early(void **state)
{
    (void)state;
    haul_scope *outer = haul_scope_push();
    thing      *a = own_thing(1), *b = own_thing(2), *c = own_thing(3);
    haul_scope *inner = haul_scope_push();
    assert_int_equal(haul_drop(b), HAUL_OK);
    assert_int_equal(haul_drop(c), HAUL_OK);
    assert_int_equal(haul_drop(a), HAUL_OK);
    assert_memory_equal(deaths, ((int[]){2, 3, 1}), 3 * sizeof(int));
    assert_int_equal(haul_drop(NULL), HAUL_OK);
    assert_int_equal(haul_drop(HAUL_NONE), HAUL_OK);
    haul_scope_pop(inner);
    haul_scope_pop(outer);
}

static void *drop_it(void *object)
{
    return (void *)(intptr_t)haul_drop(object);
}

static void test_scope__drop_of_a_foreign_object_is_refused(void **state)
{
    (void)state;
    pthread_t   thread;
    void       *status;
    haul_scope *scope = haul_scope_push();
    thing      *t = own_thing(0);
    assert_int_equal(pthread_create(&thread, NULL, drop_it, t), 0);
    pthread_join(thread, &status);
    assert_int_equal((intptr_t)status, HAUL_STATE);
    assert_int_equal(alive, 1);
    haul_keep(t);
    assert_int_equal(haul_drop(t), HAUL_OK);
    assert_int_equal(haul_drop(t), HAUL_STATE); /* kept, so alive, but no scope owns it any more */
    haul_release(t);
    haul_scope_pop(scope);
}

static void test_scope__kept_objects_outlive_it(void **state)
{
    (void)state;
    haul_scope *scope = haul_scope_push();
    thing      *t = own_thing(0);
    assert_ptr_equal(haul_keep(t), t);
    haul_keep(t);
    haul_scope_pop(scope);
    assert_int_equal(alive, 1);
    haul_release(t);
    assert_int_equal(alive, 1);
    haul_release(t);
    assert_int_equal(alive, 0);
    assert_null(haul_keep(NULL));
    haul_release(NULL);
    haul_release(haul_keep(HAUL_NONE));
    haul_release(HAUL_NONE);
    assert_int_equal(haul_error_status(), HAUL_OK);
}

static void test_scope__release_of_what_a_scope_owns_is_refused(void **state)
{
    (void)state;
    haul_scope *scope = haul_scope_push();
    thing      *t = own_thing(0);
    haul_release(t);
    assert_int_equal(haul_error_status(), HAUL_STATE);
    assert_int_equal(alive, 1);
    haul_scope_pop(scope);
}

static void test_scope__restores_the_threads_settings(void **state)
{
    (void)state;
    haul_device        *fake = (haul_device *)&alive;
    haul__thread_state *thread = haul__thread();
    haul_scope         *outer = haul_scope_push();
    thread->words[HAUL__PLACEMENT] = 1;
    haul_scope *inner = haul_scope_push();
    thread->device = fake;
    thread->no_grad = true;
    haul_scope_push();
    thread->words[HAUL__PLACEMENT] = 0;
    thread->device = NULL;
    haul_scope_pop(inner);
    assert_null(thread->device);
    assert_false(thread->no_grad);
    assert_int_equal(thread->words[HAUL__PLACEMENT], 1);
    inner = haul_scope_push();
    thread->device = fake;
    assert_null(haul_scope_return(inner, NULL));
    assert_null(thread->device);
    haul_scope_pop(outer);
    assert_int_equal(thread->words[HAUL__PLACEMENT], 0);
}

/* An object kept with a setting lasts as long as its word is not 0. */
static void test_scope__keeps_objects_with_settings(void **state)
{
    (void)state;
    haul__thread_state *thread = haul__thread();
    haul_scope         *outer = haul_scope_push();
    thread->words[HAUL__AUTOCAST] = 1;
    thing *first = new_thing(NULL, 0), *second = new_thing(NULL, 0);
    assert_true(haul__thread_keep(HAUL__AUTOCAST, first));
    assert_ptr_equal(haul__thread_kept(HAUL__AUTOCAST), first);
    assert_null(haul__thread_kept(HAUL__PRECISION));
    assert_true(haul__thread_keep(HAUL__AUTOCAST, second)); /* in the place of the first */
    assert_int_equal(alive, 1);
    haul_scope *inner = haul_scope_push();
    thread->words[HAUL__AUTOCAST] = 2;
    haul_scope_pop(inner); /* 1 again */
    assert_ptr_equal(haul__thread_kept(HAUL__AUTOCAST), second);
    thread->words[HAUL__AUTOCAST] = 0;
    assert_int_equal(alive, 1);
    haul__thread_settle();
    assert_int_equal(alive, 0);
    assert_null(haul__thread_kept(HAUL__AUTOCAST));
    inner = haul_scope_push();
    thread->words[HAUL__PRECISION] = 1;
    assert_true(haul__thread_keep(HAUL__PRECISION, new_thing(NULL, 0)));
    haul_scope_pop(inner); /* ends the setting */
    assert_int_equal(alive, 0);
    haul_scope_pop(outer);
}

static void test_scope__million_objects_in_a_chain_do_not_recurse(void **state)
{
    (void)state;
    haul_scope *scope = haul_scope_push();
    thing      *chain = NULL;
    for (int i = 0; i < 1000000; i++)
        chain = new_thing(chain, 0);
    haul__own(chain, "test");
    haul_scope_pop(scope);
    assert_int_equal(alive, 0);
}

static void test_scope__million_objects_in_one_scope(void **state)
{
    (void)state;
    haul_scope *scope = haul_scope_push();
    for (int i = 0; i < 1000000; i++)
        own_thing(0);
    haul_scope_pop(scope);
    assert_int_equal(alive, 0);
}

static void use_scopes(thing *self)
{
    haul_scope *scope = haul_scope_push();
    own_thing(0);
    haul_scope_pop(scope);
    if (self->name == 1)
        own_thing(2); /* into the scope that is being popped */
}

static void test_scope__destruction_may_use_scopes(void **state)
{
    (void)state;
    haul_scope *outer = haul_scope_push(), *scope = haul_scope_push();
    own_thing(1)->at_end = use_scopes;
    own_thing(3)->at_end = use_scopes;
    haul_scope_pop(scope);
    assert_int_equal(haul_scope_depth(), 1);
    assert_int_equal(alive, 0);
    assert_int_equal(death_count, 3);
    haul_scope_pop(outer);
}

static void *leave_things_behind(void *unused)
{
    (void)unused;
    haul_scope_push();
    own_thing(0);
    haul_scope_push();
    own_thing(0)->at_end = use_scopes;
    return NULL;
}

static void test_scope__ends_with_its_thread(void **state)
{
    (void)state;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, leave_things_behind, NULL), 0);
    pthread_join(thread, NULL);
    assert_int_equal(alive, 0);
}

static void test_scope__push_without_memory(void **state)
{
    (void)state;
    haul__fault_plan(HAUL__FAULT_HOST, 1);
    haul_scope *scope = haul_scope_push();
    haul__fault_plan(0, 0);
    assert_null(scope);
    assert_int_equal(haul_error_status(), HAUL_OUT_OF_MEMORY);
    assert_int_equal(haul_scope_depth(), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_scope__##name, setup, teardown)

/* ---- stale pointers, without HAUL_DEBUG=lifetimes ---- */

static void test_scope__stale_objects_are_refused_until_memory_is_used_again(void **state)
{
    (void)state;
    enum { COUNT = 5000 }; /* more than the list of a thread has room for */
    static haul_tensor *stale[COUNT];
    if (!haul__small_blocks_wait())
        skip();
    haul_scope *scope = haul_scope_push(), *outer = scope;
    scope = haul_scope_push();
    for (int i = 0; i < COUNT; i++)
        assert_valid(stale[i] = haul_empty(HAUL_F32, HAUL_SHAPE(2, 3)));
    haul_module *m = haul_nn_relu();
    haul_loader *l = haul_loader_new(haul_blobs(4)); /* the largest of all objects */
    haul_scope_pop(scope);
    assert_int_equal(haul_loader_batches(l), -1);
    assert_non_null(strstr(haul_error_message(), "loader is a loader that has been freed"));
    for (int i = 0; i < COUNT; i++) {
        haul_error_clear();
        assert_int_equal(haul_drop(stale[i]), HAUL_STATE);
        assert_int_equal(haul_tensor_ndim(stale[i]), -1);
        assert_non_null(strstr(haul_error_message(), "tensor f32[2,3] that has been freed"));
    }
    haul_call(m, stale[0]);
    assert_non_null(strstr(haul_error_message(), "haul_call: module is a module that has been freed"));
    haul_scope_pop(outer);
}

static void *make_tensor(void *context)
{
    haul_tensor **out = context;
    haul_scope   *scope = haul_scope_push();
    *out = haul_empty(HAUL_F32, HAUL_SHAPE(2, 3));
    haul_scope_pop(scope);
    return NULL;
}

static void test_scope__objects_of_threads_that_ended_are_refused(void **state)
{
    pthread_t    thread;
    haul_tensor *stale;
    (void)state;
    if (!haul__small_blocks_wait())
        skip();
    assert_int_equal(pthread_create(&thread, NULL, make_tensor, &stale), 0);
    pthread_join(thread, NULL);
    assert_int_equal(haul_tensor_ndim(stale), -1);
    assert_int_equal(haul_error_status(), HAUL_STATE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scope__stale_objects_are_refused_until_memory_is_used_again),
        cmocka_unit_test(test_scope__objects_of_threads_that_ended_are_refused),
        TEST(owns_until_popped),
        TEST(pop_takes_those_above),
        TEST(pop_of_null_is_ignored),
        TEST(foreign_and_stale_scopes_are_refused),
        TEST(owning_without_a_scope_is_an_error),
        TEST(owning_nothing_keeps_the_error),
        TEST(return_hands_to_the_parent),
        TEST(return_takes_from_scopes_above),
        TEST(return_leaves_an_older_object_where_it_is),
        TEST(return_of_null_pops_and_keeps_the_error),
        TEST(return_from_the_outermost_is_refused),
        TEST(drop_ends_an_object_early),
        TEST(drop_of_a_foreign_object_is_refused),
        TEST(kept_objects_outlive_it),
        TEST(release_of_what_a_scope_owns_is_refused),
        TEST(restores_the_threads_settings),
        TEST(keeps_objects_with_settings),
        TEST(million_objects_in_a_chain_do_not_recurse),
        TEST(million_objects_in_one_scope),
        TEST(destruction_may_use_scopes),
        TEST(ends_with_its_thread),
        TEST(push_without_memory),
    };
    return cmocka_run_group_tests_name("core_scope", tests, NULL, NULL);
}
