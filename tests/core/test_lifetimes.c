/* HAUL_DEBUG=lifetimes: every wrong use of an object is an error that names it, its scope and the places.
 * ctest: exports; labels=threads */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <haul/haul.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "core/lifetime.h"
#include "core/thread.h"

static int64_t blocks_before;

/* Of host memory, without what the allocator keeps for later. */
static int64_t live_blocks(void)
{
    haul_memory_release_cached(haul_cpu());
    return haul__host_blocks();
}

static int setup(void **state)
{
    (void)state;
    haul_error_clear();
    blocks_before = live_blocks();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    haul_error_clear();
    return haul_scope_depth() == 0 ? 0 : -1;
}

/* The last error is of this status and its message has all of the texts. */
static void assert_error(haul_status status, const char *a, const char *b)
{
    if (haul_error_status() != status || !strstr(haul_error_message(), a) || !strstr(haul_error_message(), b)) {
        print_error("status %d: %s\n", haul_error_status(), haul_error_message());
        fail_msg("expected status %d, \"%s\" and \"%s\"", status, a, b);
    }
    haul_error_clear();
}

static haul_tensor *ones(void)
{
    return haul_ones(HAUL_F32, HAUL_SHAPE(3, 4));
}

__attribute__((noinline)) haul_tensor *make_and_pop(const char *name);
__attribute__((noinline)) haul_tensor *make_and_pop(const char *name)
{
    haul_scope  *scope = haul_scope_push_named(name);
    haul_tensor *t = ones();
    haul_scope_pop(scope);
    return t;
}

/* ---- uses of ended objects ---- */

static void test_lifetimes__use_after_pop_names_tensor_scope_and_places(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *t = make_and_pop("epoch");
    haul_add(t, t);
    assert_non_null(strstr(haul_error_message(), "haul_add: a is a tensor f32[3,4] on cpu"));
    assert_non_null(strstr(haul_error_message(), "\"epoch\" (depth 2) was popped"));
    assert_non_null(strstr(haul_error_message(), "make_and_pop"));
    assert_error(HAUL_STATE, "has been freed", "haul_ones made it");
    haul_scope_pop(scope);
}

static void test_lifetimes__every_kind_of_use_is_refused(void **state)
{
    (void)state;
    char         text[64];
    float        data[12];
    haul_scope  *scope = haul_scope_push();
    haul_tensor *dead = make_and_pop(NULL), *alive = ones();
#define REFUSED(call)                                                                                                  \
    do {                                                                                                               \
        (void)(call);                                                                                                  \
        assert_error(HAUL_STATE, "tensor f32[3,4]", "has been freed");                                                 \
    } while (0)
    REFUSED(haul_add(alive, dead));
    REFUSED(haul_add_into(dead, alive, alive));
    REFUSED(haul_reshape(dead, HAUL_SHAPE(12)));
    REFUSED(haul_matmul(alive, dead));
    REFUSED(haul_softmax(dead, 0));
    REFUSED(haul_to(dead, haul_cpu()));
    REFUSED(haul_fill_into(dead, 1));
    REFUSED(haul_tensor_ndim(dead));
    REFUSED(haul_tensor_shape(dead));
    REFUSED(haul_tensor_device(dead));
    REFUSED(haul_print(dead));
    REFUSED(haul_tensor_format(dead, text, sizeof text));
    REFUSED(haul_read(dead, data, sizeof data));
    REFUSED(haul_write(dead, data, sizeof data));
    REFUSED(haul_item(dead));
    REFUSED(haul_map(dead, HAUL_READ));
    REFUSED(haul_set_requires_grad(dead, true));
    REFUSED(haul_backward(dead));
    REFUSED(haul_set_grad(alive, dead));
    REFUSED(haul_tensor_grad(dead));
    REFUSED(haul_save_npy("x.npy", dead));
    REFUSED(haul_dataset_from_tensors(dead, alive));
    REFUSED(haul_cat((haul_tensor *[]){alive, dead}, 2, 0));
    REFUSED(haul_module_add_parameter(haul_nn_relu(), "p", dead));
    REFUSED(haul_call(haul_nn_relu(), dead));
    REFUSED(haul_drop(dead));
    REFUSED(haul_keep(dead));
    REFUSED(haul_take(dead));
    REFUSED(haul_release(dead));
    haul_scope_pop(scope);
}

static void test_lifetimes__a_dropped_module_is_not_called(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_module *m = haul_nn_linear(4, 2);
    haul_tensor *x = ones();
    assert_int_equal(haul_drop(m), HAUL_OK);
    haul_call(m, x);
    assert_error(HAUL_STATE, "haul_call: module is a module linear that has been freed", "haul_drop ended it");
    assert_int_equal(haul_drop(m), HAUL_STATE);
    assert_error(HAUL_STATE, "module linear", "has been freed");
    haul_module_tensors(m, NULL, 0);
    assert_error(HAUL_STATE, "module linear", "has been freed");
    haul_save_weights("x.safetensors", m);
    assert_error(HAUL_STATE, "module linear", "has been freed");
    haul_scope_pop(scope);
}

static void test_lifetimes__a_dropped_optimizer_makes_no_step(void **state)
{
    (void)state;
    haul_scope     *scope = haul_scope_push();
    haul_module    *m = haul_nn_linear(4, 2);
    haul_optimizer *o = haul_sgd(m, 0.1);
    assert_int_equal(haul_drop(o), HAUL_OK);
    assert_int_equal(haul_optimizer_step(o), HAUL_STATE);
    assert_error(HAUL_STATE, "haul_optimizer_step: optimizer is an optimizer that has been freed",
                 "haul_drop ended it");
    assert_int_equal(haul_optimizer_zero_grad(o), HAUL_STATE);
    haul_scope_pop(scope);
}

static void test_lifetimes__dropped_data_is_not_read(void **state)
{
    (void)state;
    haul_scope   *scope = haul_scope_push();
    haul_dataset *d = haul_blobs(8);
    haul_loader  *l = haul_loader_new(d, .batch = 2);
    assert_int_equal(haul_loader_start(l, 0), HAUL_OK);
    haul_tensor *x = haul_loader_next(l)->x;
    assert_int_equal(haul_tensor_dim(x, 0), 2);
    assert_non_null(haul_loader_next(l));
    assert_int_equal(haul_tensor_dim(x, 0), -1);
    assert_error(HAUL_STATE, "t is a tensor f32[2,10] that has been freed", "haul_loader_next made it");
    assert_int_equal(haul_drop(l), HAUL_OK);
    assert_int_equal(haul_loader_start(l, 0), HAUL_STATE);
    assert_null(haul_loader_next(l));
    assert_error(HAUL_STATE, "loader", "has been freed");
    assert_int_equal(haul_drop(d), HAUL_OK);
    haul_error_clear();
    assert_int_equal(haul_dataset_count(d), -1);
    assert_error(HAUL_STATE, "dataset", "has been freed");
    assert_null(haul_loader_new(d, .batch = 2));
    assert_error(HAUL_STATE, "dataset", "has been freed");
    haul_scope_pop(scope);
}

/* ---- wrong objects ---- */

static void test_lifetimes__devices_and_scopes_are_not_objects(void **state)
{
    (void)state;
    haul_scope *scope = haul_scope_push();
    assert_int_equal(haul_drop(haul_cpu()), HAUL_INVALID_ARGUMENT);
    assert_error(HAUL_INVALID_ARGUMENT, "haul_drop: object is the device cpu", "devices belong to the library");
    assert_null(haul_keep(haul_cpu()));
    assert_error(HAUL_INVALID_ARGUMENT, "haul_keep: object is the device cpu", "devices belong to the library");
    haul_release(haul_device_get("no such device"));
    assert_error(HAUL_INVALID_ARGUMENT, "haul_release: object is the device invalid", "object is expected");
    assert_null(haul_take(haul_cpu()));
    haul_error_clear();
    haul_drop(scope);
    assert_error(HAUL_INVALID_ARGUMENT, "haul_drop: object is a scope", "haul_scope_pop");
    haul_scope_pop(scope);
    haul_keep(scope);
    assert_error(HAUL_INVALID_ARGUMENT, "haul_keep: object is a scope", "haul_scope_pop");
}

static void test_lifetimes__an_object_of_another_class_is_named(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_module *m = haul_nn_relu();
    haul_tensor *t = ones();
    haul_add((haul_tensor *)(void *)m, t);
    assert_error(HAUL_INVALID_ARGUMENT, "a is a module relu", "but a tensor is expected");
    haul_call((haul_module *)(void *)t, t);
    assert_error(HAUL_INVALID_ARGUMENT, "module is a tensor f32[3,4] on cpu", "but a module is expected");
    haul_optimizer_step((haul_optimizer *)(void *)m);
    assert_error(HAUL_INVALID_ARGUMENT, "optimizer is a module relu", "expected");
    haul_module_add_parameter(m, "weight", (haul_tensor *)(void *)haul_average_new(haul_nn_linear(2, 2)));
    assert_error(HAUL_INVALID_ARGUMENT, "parameter is an average", "but a tensor is expected");
    haul_call(m, (haul_tensor *)(void *)haul_cpu());
    assert_error(HAUL_INVALID_ARGUMENT, "x is the device cpu", "expected");
    haul_to(t, (haul_device *)(void *)t);
    assert_error(HAUL_INVALID_ARGUMENT, "device is not a device", "haul_device_get");
    haul_tensor_ndim((haul_tensor *)(void *)scope);
    assert_error(HAUL_INVALID_ARGUMENT, "t is a scope", "expected");
    haul_scope_pop(scope);
}

/* ---- references ---- */

static void release_too_often(void)
{
    haul_scope  *scope = haul_scope_push();
    haul_tensor *leaf = haul_set_requires_grad(ones(), true), *y = haul_sum(haul_square(leaf));
    haul_keep(leaf);
    haul_release(leaf);
    assert_int_equal(haul_error_status(), HAUL_OK);
    for (int i = 0; i < 4; i++) {
        haul_release(leaf);
        assert_error(HAUL_STATE, "the tensor f32[3,4] on cpu was released more often than it was kept", "its scope");
    }
    assert_int_equal(haul_drop(leaf), HAUL_OK);
    haul_release(leaf); /* the graph's reference is not the user's */
    assert_error(HAUL_STATE, "released more often than it was kept", "a graph");
    assert_int_equal(haul_backward(y), HAUL_OK);
    haul_scope_pop(scope);
}

static void test_lifetimes__what_a_graph_holds_is_not_released_by_users(void **state)
{
    (void)state;
    release_too_often(); /* what the process keeps after its first operations is there now */
    int64_t before = live_blocks();
    release_too_often();
    assert_int_equal(live_blocks(), before);
}

static void test_lifetimes__take_makes_the_caller_the_owner(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *t = ones();
    assert_ptr_equal(haul_take(t), t);
    assert_null(haul_take(t));
    assert_error(HAUL_STATE, "haul_take: the tensor f32[3,4] on cpu belongs to no scope of this thread", "taken");
    haul_scope_pop(scope);
    assert_int_equal(haul_tensor_ndim(t), 2);
    haul_release(t);
    assert_int_equal(haul_error_status(), HAUL_OK);
    haul_release(t);
    assert_error(HAUL_STATE, "has been freed", "haul_release ended it");
    assert_null(haul_take(NULL));
    assert_int_not_equal(haul_error_status(), HAUL_OK);
    haul_error_clear();
    assert_ptr_equal(haul_take(HAUL_NONE), HAUL_NONE);
    assert_int_equal(live_blocks(), blocks_before);
}

static void *release_it(void *object)
{
    haul_release(object);
    return NULL;
}

static void test_lifetimes__another_thread_releases_what_was_taken(void **state)
{
    (void)state;
    pthread_t    thread;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *t = haul_take(ones());
    assert_int_equal(pthread_create(&thread, NULL, release_it, t), 0);
    pthread_join(thread, NULL);
    assert_int_equal(haul_tensor_ndim(t), -1);
    assert_error(HAUL_STATE, "has been freed", "haul_release ended it");
    haul_scope_pop(scope);
}

/* ---- results ---- */

static void test_lifetimes__any_object_is_returned_from_a_scope(void **state)
{
    (void)state;
    haul_scope     *outer = haul_scope_push(), *inner = haul_scope_push();
    haul_module    *m = haul_scope_return(inner, haul_nn_linear(4, 2));
    haul_scope     *again = haul_scope_push();
    haul_optimizer *o = haul_scope_return(again, haul_sgd(m, 0.1));
    assert_int_equal(haul_optimizer_zero_grad(o), HAUL_OK);
    haul_tensor *y = haul_call(m, ones());
    assert_int_equal(haul_tensor_dim(y, 1), 2);
    haul_scope_pop(outer);
    assert_int_equal(live_blocks(), blocks_before);
}

static void test_lifetimes__a_parameter_outlives_the_scope_of_its_module(void **state)
{
    (void)state;
    haul_scope  *outer = haul_scope_push(), *inner = haul_scope_push();
    haul_module *m = haul_nn_linear(4, 2);
    haul_tensor *w = haul_scope_return(inner, haul_module_parameter(m, "weight"));
    assert_int_equal(haul_tensor_dim(w, 0), 2);
    assert_int_equal(haul_tensor_ndim(haul_square(w)), 2);
    assert_int_equal(haul_drop(w), HAUL_OK);
    haul_scope_pop(outer);
    assert_int_equal(live_blocks(), blocks_before);
}

static void test_lifetimes__a_result_that_is_over_is_refused(void **state)
{
    (void)state;
    haul_scope  *outer = haul_scope_push(), *inner = haul_scope_push();
    haul_tensor *dead = make_and_pop("inside");
    assert_null(haul_scope_return(inner, dead));
    assert_error(HAUL_STATE, "haul_scope_return: result is a tensor f32[3,4] on cpu", "\"inside\" (depth 3)");
    assert_int_equal(haul_scope_depth(), 1);
    inner = haul_scope_push();
    assert_null(haul_scope_return(inner, haul_cpu()));
    assert_error(HAUL_INVALID_ARGUMENT, "result is the device cpu", "expected");
    haul_scope_pop(outer);
}

static haul_tensor *forward_of_popped(haul_module *self, haul_args *args)
{
    haul_scope *scope = haul_scope_push_named("forward");
    (void)self;
    haul_tensor *y = haul_relu(args->x[0]);
    haul_scope_pop(scope);
    return y;
}

static void test_lifetimes__forward_does_not_return_a_tensor_of_a_popped_scope(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_module *m = haul_module_new("wrong", forward_of_popped);
    haul_call(m, ones());
    assert_error(HAUL_STATE, "the result of forward is a tensor f32[3,4] on cpu", "\"forward\" (depth 3) was popped");
    haul_module *outer = haul_nn_sequential((haul_module *[]){haul_nn_relu(), m}, 2);
    haul_call(outer, ones());
    assert_error(HAUL_STATE, "haul_call: the result of forward", "has been freed");
    haul_scope_pop(scope);
}

/* ---- at random ---- */

enum { HANDLES = 64, MOST_SCOPES = 6, CALLS = 100000 };

typedef struct handle {
    void *object;
    int   kept; /* what this thread must still release */
} handle;

typedef struct game {
    uint64_t    random;
    handle      handles[HANDLES];
    haul_scope *scopes[MOST_SCOPES]; /* some were popped already */
    int         failures;
} game;

static unsigned draw(game *g, unsigned below)
{
    g->random = g->random * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(g->random >> 33) % below;
}

static haul_tensor *any_tensor(game *g)
{
    handle *h = &g->handles[draw(g, HANDLES)];
    return draw(g, 50) == 0 ? HAUL_NONE : h->object; /* a module now and then */
}

/* One that is still to be released must not be forgotten. */
static void remember(game *g, void *object)
{
    handle *h = &g->handles[draw(g, HANDLES)];
    while (h->kept > 0) {
        haul_release(h->object);
        h->kept--;
    }
    *h = (handle){object, 0};
}

static void make(game *g)
{
    handle *h = &g->handles[draw(g, HANDLES)];
    switch (draw(g, 8)) {
    case 0: remember(g, haul_nn_linear(4, 4)); break;
    case 1: remember(g, haul_sgd(h->object, 0.1)); break;
    case 2: remember(g, haul_set_requires_grad(haul_ones(HAUL_F32, HAUL_SHAPE(4, 4)), true)); break;
    case 3: remember(g, haul_sum(any_tensor(g))); break;
    case 4: remember(g, haul_call(h->object, any_tensor(g))); break;
    case 5: remember(g, haul_mul(any_tensor(g), any_tensor(g))); break;
    case 6: remember(g, haul_transpose(any_tensor(g), 0, 1)); break;
    default: remember(g, haul_ones(HAUL_F32, HAUL_SHAPE(4, 4)));
    }
}

static void use(game *g)
{
    char  text[256];
    void *object = g->handles[draw(g, HANDLES)].object;
    switch (draw(g, 8)) {
    case 0: haul_backward(object); break;
    case 1: haul_optimizer_step(object); break;
    case 2: haul_tensor_format(object, text, sizeof text); break;
    case 3: haul_add_into(object, any_tensor(g), any_tensor(g)); break;
    case 4: haul_module_train(object, true); break;
    case 5: haul_tensor_grad(object); break;
    case 6: haul_module_add(object, "child", g->handles[draw(g, HANDLES)].object); break;
    default: haul_tensor_shape(object);
    }
}

static void count_references(game *g)
{
    handle *h = &g->handles[draw(g, HANDLES)];
    bool    counted = h->object && !(haul__exists(h->object) && haul__is_nobodys(h->object));
    switch (draw(g, 4)) {
    case 0: h->kept += haul_keep(h->object) != NULL; break;
    case 1: h->kept += haul_take(h->object) != NULL; break;
    case 2:
        haul_error_clear();
        haul_release(h->object);
        if (counted && (haul_error_status() == HAUL_OK) != (h->kept > 0))
            g->failures++;
        h->kept -= h->kept > 0;
        break;
    default: haul_drop(h->object);
    }
}

static void change_scopes(game *g)
{
    haul_scope **scope = &g->scopes[draw(g, MOST_SCOPES)];
    if (haul_scope_depth() < 4) {
        *scope = haul_scope_push_named("random");
        return;
    }
    handle *h = &g->handles[draw(g, HANDLES)];
    if (draw(g, 2))
        haul_scope_pop(*scope);
    else
        haul_scope_return(*scope, h->object);
}

static void *play(void *p)
{
    game *g = p;
    for (int i = 0; i < CALLS; i++) {
        switch (draw(g, 8)) {
        case 0:
        case 1: make(g); break;
        case 2:
        case 3:
        case 4: count_references(g); break;
        case 5: change_scopes(g); break;
        default: use(g);
        }
        haul_error_clear();
    }
    for (int i = 0; i < HANDLES; i++)
        for (; g->handles[i].kept > 0; g->handles[i].kept--)
            haul_release(g->handles[i].object);
    haul__scope_pop_all();
    haul_error_clear();
    return NULL;
}

static void test_lifetimes__random_calls_with_stale_handles_are_errors(void **state)
{
    (void)state;
    game g = {.random = 7}, again = {.random = 7};
    play(&g); /* what the process keeps after its first operations is there now */
    int64_t before = live_blocks();
    play(&again);
    assert_int_equal(g.failures + again.failures, 0);
    assert_int_equal(live_blocks(), before);
}

static void test_lifetimes__random_calls_of_four_threads(void **state)
{
    (void)state;
    game      games[4] = {{.random = 1}, {.random = 2}, {.random = 3}, {.random = 4}};
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, play, &games[i]), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 4; i++)
        assert_int_equal(games[i].failures, 0);
}

/* Before the test's ledger (support/ledger.c) makes the first object. */
__attribute__((constructor(101))) static void trace_lifetimes(void)
{
    setenv("HAUL_DEBUG", "lifetimes", 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_lifetimes__use_after_pop_names_tensor_scope_and_places, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lifetimes__every_kind_of_use_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lifetimes__a_dropped_module_is_not_called, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lifetimes__a_dropped_optimizer_makes_no_step, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lifetimes__dropped_data_is_not_read, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lifetimes__devices_and_scopes_are_not_objects, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lifetimes__an_object_of_another_class_is_named, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lifetimes__what_a_graph_holds_is_not_released_by_users, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lifetimes__take_makes_the_caller_the_owner, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lifetimes__another_thread_releases_what_was_taken, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lifetimes__any_object_is_returned_from_a_scope, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lifetimes__a_parameter_outlives_the_scope_of_its_module, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lifetimes__a_result_that_is_over_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lifetimes__forward_does_not_return_a_tensor_of_a_popped_scope, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_lifetimes__random_calls_with_stale_handles_are_errors, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lifetimes__random_calls_of_four_threads, setup, teardown),
    };
    if (!haul__lifetimes_begin())
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
