/* Objects, scopes, errors and memory used by several threads at once, for ThreadSanitizer above all.
 * ctest: labels=concurrency,threads; processors=2 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <haul/tensor.h>
#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "core/error.h"
#include "core/tensor.h"
#include "core/thread.h"
#include "support/failure.h"

enum { THREADS = 4, ROUNDS = 2000 };

static haul_tensor *shared;

static haul_tensor *make(void)
{
    haul_shape     shape = HAUL_SHAPE(2, 3);
    haul__storage *storage = haul__storage_new(NULL);
    haul_tensor   *t = haul__tensor_wrap(storage, HAUL_F32, &shape, NULL, 0);
    haul__object_release(storage);
    return haul__own(t, "make");
}

/* Views of one storage come and go on all threads; the shared tensor is read by all. */
static void *use_shared(void *context)
{
    intptr_t wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        haul_scope  *scope = haul_scope_push();
        haul_tensor *view = haul__own(haul__tensor_alias(shared), "alias");
        haul_keep(shared);
        wrong += haul_tensor_dim(view, -1) != 3 || haul_tensor_count(shared) != 6;
        wrong += haul_tensor_dim(view, 2) != -1 || haul_error_status() != HAUL_INVALID_ARGUMENT;
        haul_error_clear();
        wrong += make() == NULL;
        haul_release(shared);
        if (round % 3 == 0)
            haul_drop(view);
        haul__thread()->no_grad = true;
        haul_scope_pop(scope);
        wrong += haul__thread()->no_grad;
    }
    (void)context;
    return (void *)wrong;
}

static void run_all(void *(*run)(void *))
{
    pthread_t threads[THREADS];
    for (intptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run, (void *)i), 0);
    for (int i = 0; i < THREADS; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        assert_null(wrong);
    }
}

static void test_threads__share_a_tensor(void **state)
{
    (void)state;
    int64_t     before = haul__host_blocks();
    haul_scope *scope = haul_scope_push();
    shared = make();
    assert_valid(shared);
    run_all(use_shared);
    assert_int_equal(atomic_load(&shared->object.refs), 1);
    haul_scope_pop(scope);
    assert_int_equal(haul__host_blocks(), before);
}

/* Each thread makes tensors, keeps them and leaves them for the next thread to release. */
static _Atomic(haul_tensor *) mailbox[THREADS];

static void *pass_on(void *context)
{
    intptr_t self = (intptr_t)context, wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        haul_scope  *scope = haul_scope_push();
        haul_tensor *t = haul_keep(make());
        haul_scope_pop(scope);
        haul_tensor *old = atomic_exchange(&mailbox[(self + 1) % THREADS], t);
        haul_release(old);
        haul_tensor *mine = atomic_exchange(&mailbox[self], NULL);
        wrong += mine && haul_tensor_ndim(mine) != 2;
        haul_release(mine);
    }
    return (void *)wrong;
}

static void test_threads__release_what_others_made(void **state)
{
    (void)state;
    int64_t before = haul__host_blocks();
    run_all(pass_on);
    for (int i = 0; i < THREADS; i++)
        haul_release(atomic_exchange(&mailbox[i], NULL));
    assert_int_equal(haul__host_blocks(), before);
}

/* Counting blocks while threads start, work and end. */
static void *come_and_go(void *context)
{
    (void)context;
    haul_scope *scope = haul_scope_push();
    bool        failed = !haul_tensor_is_valid(make()) || haul__host_blocks() < 0;
    if ((intptr_t)context % 2)
        haul_scope_pop(scope); /* the others leave it to the end of their thread */
    return (void *)(intptr_t)failed;
}

static void test_threads__come_and_go(void **state)
{
    (void)state;
    int64_t before = haul__host_blocks();
    for (int round = 0; round < 50; round++)
        run_all(come_and_go);
    assert_int_equal(haul__host_blocks(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads__share_a_tensor),
        cmocka_unit_test(test_threads__release_what_others_made),
        cmocka_unit_test(test_threads__come_and_go),
    };
    return cmocka_run_group_tests_name("core_threads", tests, NULL, NULL);
}
