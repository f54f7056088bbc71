/* Free blocks that are cut for smaller requests, and join again when their parts are free. All tests run on a device
 * whose buffers are addresses, and on one whose parts need handles, like those of OpenCL.
 *
 * ctest: labels=threads */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <haul/haul.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "device/stream.h"
#include "memory/split.h"
#include "memory/under_way.h"
#include "support/devices/late.h"
#include "support/failure.h"

enum { KIB = 1024, MIB = 1024 * 1024 };

static haul_memory_stats stats_of(haul_device *device)
{
    haul_memory_stats stats;
    assert_int_equal(haul_memory_stats_get(device, &stats), HAUL_OK);
    return stats;
}

/* Of the device of a test. */
static haul_device *(*make_device)(void);

static haul__storage *alloc(haul_device *device, size_t bytes)
{
    haul__storage *s = haul__storage_alloc(device, bytes, "test");
    assert_non_null(s);
    return s;
}

static char *address(const haul__storage *s)
{
    return s->buffer.host ? s->buffer.host : late_address(s);
}

/* A device with one free block of 4 MiB, which begins at the address. */
static haul_device *device_with_a_block(char **begin)
{
    haul_device   *device = make_device();
    haul__storage *s = alloc(device, 4 * MIB);
    *begin = address(s);
    haul__object_release(s);
    return device;
}

static void test_split__a_block_serves_several(void **state)
{
    char          *begin;
    haul_device   *device = device_with_a_block(&begin);
    haul__storage *part[3];
    (void)state;
    for (int i = 0; i < 3; i++) {
        part[i] = alloc(device, MIB - 1000);
        assert_ptr_equal(address(part[i]), begin + (size_t)i * MIB);
        assert_int_equal(part[i]->block->bytes, MIB);
    }
    haul_memory_stats s = stats_of(device);
    assert_int_equal(s.reserved, 4 * MIB);
    assert_int_equal(s.allocated, 3 * MIB);
    assert_int_equal(s.device_allocations, 1);
    assert_int_equal(s.cache_hits, 3);
    haul_memory_block rows[8];
    assert_int_equal(haul_memory_snapshot(device, rows, 8), 4); /* three and the rest */
    assert_true(!rows[3].live && rows[3].bytes == MIB);
    for (int i = 0; i < 3; i++)
        haul__object_release(part[(i + 1) % 3]);
    haul__storage *whole = alloc(device, 4 * MIB);
    assert_ptr_equal(address(whole), begin);
    assert_int_equal(stats_of(device).device_allocations, 1);
    haul__object_release(whole);
    assert_int_equal(haul_memory_release_cached(device), HAUL_OK);
    assert_int_equal(stats_of(device).reserved, 0);
}

static void test_split__takes_the_smallest_that_suffices(void **state)
{
    haul_device   *device = make_device();
    haul__storage *large = alloc(device, 8 * MIB), *small = alloc(device, 2 * MIB);
    char          *wanted = address(small);
    (void)state;
    haul__object_release(small);
    haul__object_release(large);
    haul__storage *part = alloc(device, MIB);
    assert_ptr_equal(address(part), wanted);
    haul__storage *rest = alloc(device, 900 * KIB);
    assert_ptr_equal(address(rest), wanted + MIB);
    haul__storage *other = alloc(device, 5 * MIB);
    assert_int_equal(stats_of(device).reserved, 10 * MIB);
    haul__object_release(part);
    haul__object_release(rest);
    haul__object_release(other);
}

static void test_split__small_requests_do_not_cut(void **state)
{
    char        *begin;
    haul_device *device = device_with_a_block(&begin);
    (void)state;
    haul__object_release(alloc(device, KIB));
    assert_int_equal(stats_of(device).device_allocations, 2);
    haul__storage *whole = alloc(device, 4 * MIB);
    assert_ptr_equal(address(whole), begin);
    haul__object_release(whole);
}

/* The block cannot go back to the device while a part of it is in use. */
static void test_split__goes_back_as_a_whole(void **state)
{
    char          *begin;
    haul_device   *device = device_with_a_block(&begin);
    haul__storage *part = alloc(device, MIB);
    (void)state;
    assert_int_equal(haul_memory_release_cached(device), HAUL_OK);
    assert_int_equal(stats_of(device).reserved, 4 * MIB);
    haul__object_release(part);
    assert_int_equal(haul_memory_release_cached(device), HAUL_OK);
    assert_int_equal(stats_of(device).reserved, 0);
}

/* With a limit, what fits by its size must fit, so whole blocks stay whole; parts are still handed out. */
static void test_split__with_a_limit(void **state)
{
    char          *begin;
    haul_device   *device = device_with_a_block(&begin);
    haul__storage *part = alloc(device, MIB), *whole = alloc(device, 4 * MIB);
    (void)state;
    haul__object_release(whole);
    assert_int_equal(haul_memory_set_limit(device, 9 * MIB), HAUL_OK);
    haul__storage *next = alloc(device, 2 * MIB);
    assert_ptr_equal(address(next), begin + MIB);
    haul__storage *fresh = alloc(device, 2 * MIB - 1000); /* not from the whole one, which goes for it */
    assert_int_equal(stats_of(device).reserved, 6 * MIB);
    assert_int_equal(haul_memory_set_limit(device, 0), HAUL_OK);
    haul__object_release(part);
    haul__object_release(next);
    haul__object_release(fresh);
}

static haul__use last_write(haul__storage *s)
{
    return s->uses->write;
}

/* A part must wait for what the whole block was used for. */
static void test_split__keeps_uses(void **state)
{
    haul_device   *device = make_device();
    haul__storage *whole = alloc(device, 4 * MIB);
    (void)state;
    haul__uses_mark(whole->uses, (haul__use){device->compute, 7}, true);
    haul__uses_mark(whole->uses, (haul__use){device->compute, 9}, false);
    haul__object_release(whole);
    haul__storage *a = alloc(device, MIB), *b = alloc(device, 2 * MIB);
    haul__storage *both[] = {a, b};
    for (int i = 0; i < 2; i++) {
        assert_true(atomic_load(&both[i]->uses->any));
        assert_ptr_equal(last_write(both[i]).stream, device->compute);
        assert_int_equal(last_write(both[i]).ticket, 9);
    }
    haul__uses_mark(b->uses, (haul__use){device->compute, 12}, true);
    haul__object_release(a);
    haul__object_release(b);
    whole = alloc(device, 4 * MIB); /* joined on one stream: the later use stands for all */
    assert_int_equal(stats_of(device).device_allocations, 1);
    assert_int_equal(last_write(whole).ticket, 12);
    haul__object_release(whole);
}

/* Uses on two streams cannot be one. */
static void test_split__does_not_mix_streams(void **state)
{
    char          *begin;
    haul_device   *device = device_with_a_block(&begin);
    haul__storage *a = alloc(device, 2 * MIB), *b = alloc(device, 2 * MIB);
    (void)state;
    assert_ptr_not_equal(device->compute, device->upload);
    haul__uses_mark(a->uses, (haul__use){device->compute, 3}, true);
    haul__uses_mark(b->uses, (haul__use){device->upload, 4}, true);
    haul__object_release(a);
    haul__object_release(b);
    haul__storage *whole = alloc(device, 4 * MIB);
    assert_ptr_not_equal(address(whole), begin);
    assert_int_equal(stats_of(device).device_allocations, 2);
    haul__object_release(whole);
}

/* Between its lists a block belongs to the thread that took it, even if its neighbours are free. */
static void test_split__what_is_taken_does_not_join(void **state)
{
    char                   *begin;
    haul_device            *device = device_with_a_block(&begin);
    struct haul__allocator *a = haul__allocator_of(device, false);
    haul__block            *block = haul__split_get(a, haul__bin_of(MIB));
    (void)state;
    assert_non_null(block);
    assert_ptr_equal(address(&block->own), begin);
    haul__spin_lock(&a->lock);
    haul__block *left_over = haul__split_join(a);
    haul__spin_unlock(&a->lock);
    assert_null(left_over);
    assert_int_equal(block->bytes, MIB);
    haul__storage *rest = alloc(device, 3 * MIB);
    assert_ptr_equal(address(rest), begin + MIB);
    haul__object_release(rest);
    haul__under_way_end(a);
}

static void test_split__without_host_memory(void **state)
{
    char        *begin;
    haul_device *device = device_with_a_block(&begin);
    (void)state;
    haul__fault_plan(HAUL__FAULT_HOST, 1); /* for the rest: then a new block is obtained */
    haul__storage *part = haul__storage_alloc(device, MIB, "test");
    haul__fault_plan(0, 0);
    assert_non_null(part);
    assert_int_equal(stats_of(device).device_allocations, 2);
    haul__object_release(part);
}

static void test_split__parts_spill_and_return(void **state)
{
    enum { COUNT = 8, FLOATS = 256 * KIB };
    static float   values[FLOATS];
    char          *begin;
    haul_device   *device = device_with_a_block(&begin);
    haul__storage *part[COUNT];
    haul_scope    *scope = haul_scope_push();
    haul_tensor   *t[COUNT];
    (void)state;
    part[0] = alloc(device, MIB);
    haul_memory_set_limit(device, 4 * MIB);
    assert_int_equal(haul_memory_set_spill(device, true), HAUL_OK);
    for (int i = 0; i < COUNT; i++)
        assert_valid(t[i] = haul_to(haul_full(HAUL_F32, HAUL_SHAPE(FLOATS), i), device));
    assert_true(stats_of(device).spilled >= 4 * MIB);
    for (int i = 0; i < 2 * COUNT; i++) {
        assert_int_equal(haul_read(t[i * 3 % COUNT], values, sizeof values), HAUL_OK);
        assert_true(values[0] == (float)(i * 3 % COUNT) && values[FLOATS - 1] == values[0]);
    }
    haul_scope_pop(scope);
    haul__object_release(part[0]);
    haul_memory_set_spill(device, false);
    haul_memory_set_limit(device, 0);
    assert_int_equal(haul_memory_release_cached(device), HAUL_OK);
    assert_int_equal(stats_of(device).reserved, 0);
}

/* ---- handles of parts ---- */

/* A piece has one for its bytes. Blocks that were handed out before keep it, and a whole buffer needs none. */
static void test_split__makes_handles(void **state)
{
    const int64_t before = late_parts(), made = late_parts_made();
    haul_device  *device = late_device_with_parts();
    haul__buffer  whole;
    (void)state;
    haul__storage *s = alloc(device, 4 * MIB);
    whole = s->buffer;
    haul__object_release(s);
    for (int round = 0; round < 3; round++) {
        haul__storage *a = alloc(device, MIB), *b = alloc(device, 2 * MIB);
        assert_ptr_not_equal(a->buffer.handle, whole.handle);
        assert_int_equal(a->block->sub_buffer.bytes, MIB);
        assert_int_equal(b->block->sub_buffer.bytes, 2 * MIB);
        haul__object_release(a);
        haul__object_release(b);
        assert_int_equal(late_parts_made(), made + 2);
    }
    s = alloc(device, 4 * MIB);
    assert_ptr_equal(s->buffer.handle, whole.handle);
    assert_int_equal(late_parts_made(), made + 2);
    haul__object_release(s);
    s = alloc(device, MIB); /* the same place and size as before */
    assert_int_equal(late_parts_made(), made + 2);
    haul__object_release(s);
    s = alloc(device, 3 * MIB + 512 * KIB); /* the same place, another size */
    assert_int_equal(late_parts_made(), made + 3);
    assert_int_equal(late_parts(), before + 1);
    haul__object_release(s);
    assert_int_equal(haul_memory_release_cached(device), HAUL_OK);
    assert_int_equal(late_parts(), before);
    assert_int_equal(stats_of(device).reserved, 0);
}

static void test_split__without_a_handle(void **state)
{
    haul_device   *device = late_device_with_parts();
    haul__storage *whole = alloc(device, 4 * MIB);
    char          *begin = address(whole);
    (void)state;
    haul__object_release(whole);
    late_fail_part();
    haul__storage *fresh = alloc(device, MIB);
    assert_int_equal(haul_error_status(), HAUL_OK);
    assert_int_equal(stats_of(device).device_allocations, 2);
    haul__storage *part = alloc(device, MIB); /* the piece that got none gets it now */
    assert_ptr_equal(address(part), begin);
    late_fail_part();
    haul__storage *other = alloc(device, 2 * MIB);
    assert_int_equal(stats_of(device).device_allocations, 3);
    haul__object_release(fresh);
    haul__object_release(part);
    haul__object_release(other);
    whole = alloc(device, 4 * MIB);
    assert_ptr_equal(address(whole), begin);
    haul__object_release(whole);
    assert_int_equal(haul_memory_release_cached(device), HAUL_OK);
    assert_int_equal(stats_of(device).reserved, 0);
}

/* ---- threads ---- */

enum { THREADS = 4, HELD = 24, ROUNDS = 4000 };

typedef struct worker {
    haul_device *device;
    unsigned     random;
    int          wrong;
} worker;

static unsigned draw(unsigned *state, unsigned below)
{
    *state = *state * 1664525u + 1013904223u;
    return (*state >> 16) % below;
}

/* The first and last bytes of live tensors show whether two ever share memory. */
static void mark(haul__storage *s, int value)
{
    memset(address(s), value, 64);
    memset(address(s) + s->bytes - 64, value, 64);
}

static bool is_marked(const haul__storage *s, int value)
{
    const char *at = address(s);
    for (size_t i = 0; i < 64; i++)
        if (at[i] != (char)value || at[s->bytes - 64 + i] != (char)value)
            return false;
    return true;
}

static void *attack(void *context)
{
    worker        *w = context;
    haul__storage *held[HELD] = {NULL};
    int            value[HELD] = {0};
    for (int i = 0; i < ROUNDS; i++) {
        const unsigned k = draw(&w->random, HELD);
        if (held[k]) {
            w->wrong += !is_marked(held[k], value[k]);
            haul__object_release(held[k]);
            held[k] = NULL;
        } else if ((held[k] = haul__storage_alloc(w->device, (size_t)1 << (12 + draw(&w->random, 10)), "attack"))) {
            value[k] = (int)draw(&w->random, 127) + 1;
            mark(held[k], value[k]);
        }
        if (draw(&w->random, 500) == 0)
            haul_memory_release_cached(w->device);
    }
    for (int k = 0; k < HELD; k++) {
        if (held[k])
            w->wrong += !is_marked(held[k], value[k]);
        haul__object_release(held[k]);
    }
    return NULL;
}

/* Runs the function in threads on the device, which then holds what it held before. */
static void run_threads(haul_device *device, void *function(void *))
{
    pthread_t               threads[THREADS];
    worker                  workers[THREADS];
    const haul_memory_stats before = stats_of(device);
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (worker){.device = device, .random = 77u * (unsigned)i + 5};
        assert_int_equal(pthread_create(&threads[i], NULL, function, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(workers[i].wrong, 0);
    }
    assert_int_equal(haul_memory_release_cached(device), HAUL_OK);
    const haul_memory_stats after = stats_of(device);
    assert_int_equal(after.allocated, before.allocated);
    assert_int_equal(after.reserved, after.allocated);
}

static void test_split__threads(void **state)
{
    (void)state;
    run_threads(haul_cpu(), attack);
    run_threads(make_device(), attack);
}

/* ---- OpenCL ---- */

enum { TENSORS = 8, MOST_FLOATS = 128 * KIB, TENSOR_ROUNDS = 150 };

static bool is_all(haul_tensor *t, float value)
{
    const int64_t count = haul_tensor_count(t);
    float        *values = malloc((size_t)count * sizeof *values);
    bool          right = values && haul_read(t, values, (size_t)count * sizeof *values) == HAUL_OK;
    for (int64_t i = 0; i < count && right; i++)
        right = values[i] == value;
    free(values);
    return right;
}

/* Makes, changes and reads tensors of many sizes: kernels, fills and copies on pieces. */
static void *compute(void *context)
{
    worker      *w = context;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *t[TENSORS] = {NULL};
    float        value[TENSORS] = {0};
    haul_set_device(w->device);
    for (int i = 0; i < TENSOR_ROUNDS; i++) {
        const unsigned k = draw(&w->random, TENSORS);
        if (!t[k]) {
            value[k] = (float)draw(&w->random, 1000);
            t[k] = haul_full(HAUL_F32, HAUL_SHAPE(8 * KIB + (int64_t)draw(&w->random, MOST_FLOATS)), value[k]);
        } else if (draw(&w->random, 2)) {
            haul_tensor *sum = haul_add_scalar(t[k], 1);
            haul_drop(t[k]);
            t[k] = sum;
            value[k]++;
        } else {
            w->wrong += !is_all(t[k], value[k]);
            haul_drop(t[k]);
            t[k] = NULL;
        }
        if (draw(&w->random, 50) == 0)
            haul_memory_release_cached(w->device);
    }
    for (int k = 0; k < TENSORS; k++)
        w->wrong += t[k] && !is_all(t[k], value[k]);
    haul_scope_pop(scope);
    return NULL;
}

static haul_device *opencl(void)
{
    haul_device *device = haul_device_get("opencl:0");
    if (!haul_device_is_valid(device))
        skip();
    return device;
}

/* Neighbouring pieces keep their elements while others come and go. */
static void test_split__opencl(void **state)
{
    enum { COUNT = 4, FLOATS = 256 * KIB };
    haul_device  *device = opencl();
    haul_tensor  *t[COUNT];
    haul_scope   *scope = haul_scope_push();
    const int64_t before = stats_of(device).device_allocations;
    (void)state;
    haul_set_device(device);
    haul_drop(haul_empty(HAUL_F32, HAUL_SHAPE(COUNT, FLOATS)));
    assert_int_equal(stats_of(device).device_allocations, before + 1);
    for (int i = 0; i < COUNT; i++)
        assert_valid(t[i] = haul_full(HAUL_F32, HAUL_SHAPE(FLOATS), i));
    for (int i = 0; i < COUNT; i += 2)
        haul_drop(t[i]);
    for (int i = 0; i < COUNT; i += 2)
        assert_valid(t[i] = haul_add_scalar(t[i + 1], 10));
    assert_int_equal(stats_of(device).device_allocations, before + 1);
    for (int i = 0; i < COUNT; i++)
        assert_true(is_all(t[i], (float)(i % 2 ? i : i + 11)));
    haul_scope_pop(scope);
    haul_set_device(haul_cpu());
    assert_int_equal(haul_memory_release_cached(device), HAUL_OK);
    assert_int_equal(stats_of(device).reserved, stats_of(device).allocated);
}

static void test_split__opencl_threads(void **state)
{
    (void)state;
    run_threads(opencl(), compute);
}

static int end(void **state)
{
    (void)state;
    haul__fault_plan(0, 0);
    haul_error_clear();
    return 0;
}

#define TEST(f) cmocka_unit_test_teardown(f, end)

int main(void)
{
    const struct CMUnitTest handles[] = {
        TEST(test_split__makes_handles),
        TEST(test_split__without_a_handle),
        TEST(test_split__opencl),
        TEST(test_split__opencl_threads),
    };
    const struct CMUnitTest tests[] = {
        TEST(test_split__a_block_serves_several),
        TEST(test_split__takes_the_smallest_that_suffices),
        TEST(test_split__small_requests_do_not_cut),
        TEST(test_split__goes_back_as_a_whole),
        TEST(test_split__with_a_limit),
        TEST(test_split__keeps_uses),
        TEST(test_split__does_not_mix_streams),
        TEST(test_split__what_is_taken_does_not_join),
        TEST(test_split__without_host_memory),
        TEST(test_split__parts_spill_and_return),
        TEST(test_split__threads),
    };
    make_device = late_device_new;
    int failed = cmocka_run_group_tests_name("addresses", tests, NULL, NULL);
    make_device = late_device_with_parts;
    failed += cmocka_run_group_tests_name("parts with handles", tests, NULL, NULL);
    return failed + cmocka_run_group_tests(handles, NULL, NULL);
}
