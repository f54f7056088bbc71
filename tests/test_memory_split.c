/* Free blocks that are cut for smaller requests, and join again when their parts are free.
 *
 * ctest: timeout=300 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <haul/haul.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "device/stream.h"
#include "memory/split.h"
#include "support/failure.h"
#include "support/late.h"

enum { KIB = 1024, MIB = 1024 * 1024 };

static haul_memory_stats stats_of(haul_device *device)
{
    haul_memory_stats stats;
    assert_int_equal(haul_memory_stats_get(device, &stats), HAUL_OK);
    return stats;
}

static haul__storage *alloc(haul_device *device, size_t bytes)
{
    haul__storage *s = haul__storage_alloc(device, bytes, "test");
    assert_non_null(s);
    return s;
}

static char *address(const haul__storage *s)
{
    return s->buffer.host ? s->buffer.host : s->buffer.handle;
}

/* A device with one free block of 4 MiB, which begins at the address. */
static haul_device *device_with_a_block(char **begin)
{
    haul_device   *device = late_device_new();
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
    haul_device   *device = late_device_new();
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
    haul_device   *device = late_device_new();
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
    haul__block            *block = haul__split_get(a, haul__bin_of(MIB, false));
    (void)state;
    assert_non_null(block);
    assert_ptr_equal(block->buffer.handle, begin);
    haul__spin_lock(&a->lock);
    haul__block *left_over = haul__split_join(a);
    haul__spin_unlock(&a->lock);
    assert_null(left_over);
    assert_int_equal(block->bytes, MIB);
    haul__storage *rest = alloc(device, 3 * MIB);
    assert_ptr_equal(address(rest), begin + MIB);
    haul__object_release(rest);
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

/* The first and last bytes of what is held tell whether two tensors ever share memory. */
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

static void test_split__threads(void **state)
{
    haul_device *devices[] = {haul_cpu(), late_device_new()};
    (void)state;
    for (int d = 0; d < 2; d++) {
        pthread_t               threads[THREADS];
        worker                  workers[THREADS];
        const haul_memory_stats before = stats_of(devices[d]);
        for (int i = 0; i < THREADS; i++) {
            workers[i] = (worker){.device = devices[d], .random = 77u * (unsigned)i + 5};
            assert_int_equal(pthread_create(&threads[i], NULL, attack, &workers[i]), 0);
        }
        for (int i = 0; i < THREADS; i++) {
            pthread_join(threads[i], NULL);
            assert_int_equal(workers[i].wrong, 0);
        }
        assert_int_equal(haul_memory_release_cached(devices[d]), HAUL_OK);
        const haul_memory_stats after = stats_of(devices[d]);
        assert_int_equal(after.allocated, before.allocated);
        assert_int_equal(after.reserved, after.allocated);
    }
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
    return cmocka_run_group_tests(tests, NULL, NULL);
}
