/* Host memory: limits, counting, and failures on demand.
 *
 * ctest: labels=threads */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "core/thread.h"

static void test_alloc__impossible_sizes_are_refused(void **state)
{
    (void)state;
    assert_null(haul__malloc(SIZE_MAX));
    assert_null(haul__calloc(SIZE_MAX / 2, 4));
    void *p = haul__malloc(0);
    assert_non_null(p);
    assert_null(haul__realloc(p, SIZE_MAX / 2, 4));
    haul__free(p);
}

static void test_alloc__counts_blocks(void **state)
{
    (void)state;
    int64_t before = haul__host_blocks();
    void   *a = haul__malloc(10), *b = haul__calloc(3, 3), *c = haul__strdup("c"), *d = haul__format("%d", 4);
    void   *e = haul__small_alloc(100), *f = haul__small_alloc(5000), *g = haul__realloc(NULL, 4, 4);
    assert_int_equal(haul__host_blocks(), before + 7);
    assert_string_equal(c, "c");
    assert_string_equal(d, "4");
    g = haul__realloc(g, 400, 4);
    assert_int_equal(haul__host_blocks(), before + 7);
    haul__free(a);
    haul__free(b);
    haul__free(c);
    haul__free(d);
    haul__small_free(e, 100);
    haul__small_free(f, 5000);
    haul__free(g);
    haul__free(NULL);
    haul__small_free(NULL, 64);
    assert_int_equal(haul__host_blocks(), before);
}

static void *free_blocks(void *blocks)
{
    void **p = blocks;
    haul__free(p[0]);
    haul__small_free(p[1], 64);
    p[0] = haul__malloc(1);
    p[1] = haul__small_alloc(64);
    return NULL;
}

static void test_alloc__counts_over_threads_that_ended(void **state)
{
    (void)state;
    int64_t   before = haul__host_blocks();
    void     *blocks[2] = {haul__malloc(1), haul__small_alloc(64)};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, free_blocks, blocks), 0);
    pthread_join(thread, NULL);
    assert_int_equal(haul__host_blocks(), before + 2);
    haul__free(blocks[0]);
    haul__small_free(blocks[1], 64);
    assert_int_equal(haul__host_blocks(), before);
}

static void test_alloc__small_blocks_do_not_overlap(void **state)
{
    (void)state;
    enum { COUNT = 600 };
    unsigned char *blocks[COUNT];
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < COUNT; i++) {
            size_t bytes = (size_t)(i % 9 + 1) * 64;
            blocks[i] = haul__small_alloc(bytes);
            assert_non_null(blocks[i]);
            memset(blocks[i], i & 255, bytes);
        }
        for (int i = 0; i < COUNT; i++) {
            size_t bytes = (size_t)(i % 9 + 1) * 64;
            assert_int_equal(blocks[i][0], i & 255);
            assert_memory_equal(blocks[i], blocks[i] + 1, bytes - 1);
            haul__small_free(blocks[i], bytes);
        }
    }
}

static void test_alloc__grows_and_keeps_the_items(void **state)
{
    (void)state;
    int   *items = NULL;
    size_t capacity = 0;
    for (size_t i = 0; i < 1000; i++) {
        assert_true(haul__grow(&items, &capacity, i + 1, sizeof *items));
        assert_true(capacity > i);
        items[i] = (int)i;
    }
    for (int i = 0; i < 1000; i++)
        assert_int_equal(items[i], i);
    size_t had = capacity;
    assert_false(haul__grow(&items, &capacity, SIZE_MAX / 2, sizeof *items));
    assert_int_equal(capacity, had);
    assert_int_equal(items[999], 999);
    haul__free(items);
}

static void test_alloc__planned_call_fails_and_no_other(void **state)
{
    (void)state;
    int64_t before = haul__host_blocks();
    for (int nth = 1; nth <= 5; nth++) {
        int failed = 0;
        haul__fault_plan(HAUL__FAULT_HOST | HAUL__FAULT_COPY, nth);
        for (int call = 1; call <= 5; call++) {
            void *p = call == 2   ? haul__calloc(1, 1)
                      : call == 3 ? haul__small_alloc(64)
                      : call == 4 ? haul__realloc(NULL, 1, 1)
                                  : haul__malloc(1);
            failed += p ? 0 : call;
            assert_false(haul__fault_point(HAUL__FAULT_LAUNCH));
            haul__free(p);
        }
        assert_int_equal(failed, nth);
        assert_int_equal(haul__fault_count(), 5);
    }
    haul__fault_plan(HAUL__FAULT_COPY, 1);
    assert_true(haul__fault_point(HAUL__FAULT_COPY));
    assert_false(haul__fault_point(HAUL__FAULT_COPY));
    haul__fault_plan(HAUL__FAULT_HOST, 0);
    assert_int_equal(haul__fault_count(), 2);
    void *p = haul__malloc(1);
    assert_non_null(p);
    haul__free(p);
    assert_int_equal(haul__host_blocks(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alloc__impossible_sizes_are_refused),
        cmocka_unit_test(test_alloc__counts_blocks),
        cmocka_unit_test(test_alloc__counts_over_threads_that_ended),
        cmocka_unit_test(test_alloc__small_blocks_do_not_overlap),
        cmocka_unit_test(test_alloc__grows_and_keeps_the_items),
        cmocka_unit_test(test_alloc__planned_call_fails_and_no_other),
    };
    return cmocka_run_group_tests_name("core_alloc", tests, NULL, NULL);
}
