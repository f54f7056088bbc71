/* The caching allocator: classes, statistics, limits, reports, and reuse of memory that is still being read.
 *
 * ctest: cuda; sim; labels=threads */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <haul/haul.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "device/stream.h"
#include "memory/allocator.h"
#include "support/commands.h"
#include "support/devices/late.h"
#include "support/failure.h"

enum { KIB = 1024, MIB = 1024 * 1024 };

static haul_memory_stats stats_of(haul_device *device)
{
    haul_memory_stats stats;
    assert_int_equal(haul_memory_stats_get(device, &stats), HAUL_OK);
    return stats;
}

/* Nothing cached, no limit, fresh peaks. */
static int reset(void **state)
{
    (void)state;
    haul_error_clear();
    haul__fault_plan(0, 0);
    late_set_room(-1);
    haul_device *devices[] = {haul_cpu(), late_device(0), late_device(1)};
    for (int i = 0; i < 3; i++) {
        haul_device_sync(devices[i]);
        haul_memory_set_limit(devices[i], 0);
        haul_memory_release_cached(devices[i]);
        haul_memory_reset_peak(devices[i]);
    }
    return haul_error_status();
}

/* ---- classes ---- */

static void test_memory__classes_waste_little(void **state)
{
    size_t before = 0;
    (void)state;
    for (size_t bytes = 1; bytes < (size_t)4 * MIB; bytes += bytes / 64 + 1) {
        haul__storage *s = haul__storage_alloc(late_device(0), bytes, "test");
        assert_non_null(s);
        size_t block = s->block->bytes;
        assert_true(block >= bytes && block >= 64);
        assert_true(bytes <= 64 || block <= bytes + bytes / 4);
        assert_true(block >= before);
        before = block;
        haul__object_release(s);
        s = haul__storage_alloc(late_device(0), block, "test"); /* a full block is of its own class */
        assert_int_equal(s->block->bytes, block);
        haul__object_release(s);
    }
}

static void test_memory__impossible_sizes_are_refused(void **state)
{
    static const size_t sizes[] = {SIZE_MAX, SIZE_MAX / 2, (size_t)7 << 60, ((size_t)7 << 60) + 1, (size_t)1 << 62};
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        late_set_room(MIB);
        assert_null(haul__storage_alloc(late_device(0), sizes[i], "test"));
        assert_int_equal(haul_error_status(), HAUL_OUT_OF_MEMORY);
        haul_error_clear();
    }
    assert_int_equal(stats_of(late_device(0)).reserved, 0);
}

/* Huge pages need it. Each block is obtained anew, because parts of larger ones begin anywhere. */
static void test_memory__large_blocks_of_the_cpu_begin_at_huge_pages(void **state)
{
    enum { HUGE_PAGE = 2 * MIB, COUNT = 6 };
    static const size_t sizes[COUNT] = {2 * MIB - 1, 2 * MIB, 2 * MIB + 1, 3 * MIB, 5 * MIB + 7, 33 * MIB};
    haul__storage      *held[COUNT];
    (void)state;
    for (int i = 0; i < COUNT; i++) {
        held[i] = haul__storage_alloc(haul_cpu(), sizes[i], "test");
        assert_non_null(held[i]);
        assert_true(held[i]->block->bytes >= HUGE_PAGE);
        assert_int_equal((uintptr_t)held[i]->buffer.host % HUGE_PAGE, 0);
        memset(held[i]->buffer.host, i, sizes[i]); /* all of it is there */
    }
    for (int i = 0; i < COUNT; i++)
        haul__object_release(held[i]);
}

/* ---- statistics ---- */

static void test_memory__statistics(void **state)
{
    haul_device      *device = late_device_new();
    haul_memory_stats s = stats_of(device);
    (void)state;
    assert_int_equal(s.allocated + s.reserved + s.allocations + s.live_blocks, 0);
    haul__storage *a = haul__storage_alloc(device, 100, "a"), *b = haul__storage_alloc(device, 1000, "b");
    s = stats_of(device);
    assert_int_equal(s.allocated, 112 + 1024);
    assert_int_equal(s.reserved, 112 + 1024);
    assert_int_equal(s.allocations, 2);
    assert_int_equal(s.device_allocations, 2);
    assert_int_equal(s.cache_hits, 0);
    assert_int_equal(s.live_blocks, 2);
    haul__object_release(b);
    s = stats_of(device);
    assert_int_equal(s.allocated, 112);
    assert_int_equal(s.reserved, 112 + 1024);
    assert_int_equal(s.peak_allocated, 112 + 1024);
    b = haul__storage_alloc(device, 900, "b"); /* the same class */
    s = stats_of(device);
    assert_int_equal(s.allocated, 112 + 1024);
    assert_int_equal(s.cache_hits, 1);
    assert_int_equal(s.allocations, 3);
    assert_int_equal(s.device_allocations, 2);
    haul__object_release(a);
    haul__object_release(b);
    assert_int_equal(haul_memory_reset_peak(device), HAUL_OK);
    s = stats_of(device);
    assert_int_equal(s.peak_allocated, 0);
    assert_int_equal(s.peak_reserved, 112 + 1024);
    assert_int_equal(haul_memory_release_cached(device), HAUL_OK);
    s = stats_of(device);
    assert_int_equal(s.reserved, 0);
    assert_int_equal(s.live_blocks, 0);
    assert_int_equal(haul_memory_stats_get(device, NULL), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_memory_stats_get(NULL, &s), HAUL_INVALID_ARGUMENT);
}

static void test_memory__views_share_and_empty_tensors_cost_nothing(void **state)
{
    haul_scope       *scope = haul_scope_push();
    haul_memory_stats before = stats_of(haul_cpu());
    (void)state;
    haul_tensor *x = haul_from_host(HAUL_F32, HAUL_SHAPE(4), (float[]){1, 2, 3, 4});
    assert_valid(haul_to(x, haul_cpu()));
    assert_int_equal(stats_of(haul_cpu()).live_blocks, before.live_blocks + 1);
    assert_valid(haul_from_host(HAUL_F32, HAUL_SHAPE(0, 4), NULL));
    assert_int_equal(stats_of(haul_cpu()).live_blocks, before.live_blocks + 1);
    haul_scope_pop(scope);
    assert_int_equal(stats_of(haul_cpu()).live_blocks, before.live_blocks);
}

static void test_memory__meta_holds_nothing(void **state)
{
    haul_device *meta = haul_device_get("meta");
    haul_scope  *scope = haul_scope_push();
    (void)state;
    assert_int_equal(haul_set_device(meta), HAUL_OK);
    haul_tensor *t = haul_from_host(HAUL_F32, HAUL_SHAPE(1000000, 1000000), (float[]){0});
    assert_valid(t);
    assert_int_equal(stats_of(meta).allocated, 0);
    haul_scope_pop(scope);
}

/* ---- limits ---- */

static void test_memory__limit_is_absolute(void **state)
{
    haul_device *device = late_device_new();
    (void)state;
    assert_int_equal(haul_memory_set_limit(device, 4 * KIB), HAUL_OK);
    assert_int_equal(stats_of(device).limit, 4 * KIB);
    haul__storage *a = haul__storage_alloc(device, 2 * KIB, "a"), *b = haul__storage_alloc(device, 2 * KIB, "b");
    assert_non_null(a);
    assert_non_null(b); /* exactly full */
    assert_null(haul__storage_alloc(device, 1, "c"));
    assert_int_equal(haul_error_status(), HAUL_OUT_OF_MEMORY);
    assert_int_equal(stats_of(device).reserved, 4 * KIB);
    haul_error_clear();
    haul__object_release(b);
    haul__storage *c = haul__storage_alloc(device, 3 * KIB / 2, "c"); /* the cache makes room */
    assert_non_null(c);
    assert_int_equal(stats_of(device).reserved, 2 * KIB + 3 * KIB / 2);
    assert_int_equal(haul_memory_set_limit(device, KIB), HAUL_OK); /* below the memory in use */
    assert_null(haul__storage_alloc(device, 1, "d"));
    assert_int_equal(haul_memory_set_limit(device, -1), HAUL_INVALID_ARGUMENT);
    assert_int_equal(stats_of(device).limit, KIB);
    assert_int_equal(haul_memory_set_limit(device, 0), HAUL_OK);
    haul_error_clear();
    haul__storage *d = haul__storage_alloc(device, MIB, "d");
    assert_non_null(d);
    haul__object_release(d);
    assert_int_equal(haul_memory_set_limit(device, 8 * KIB), HAUL_OK); /* cached blocks go at once */
    assert_true(stats_of(device).reserved <= 8 * KIB);
    assert_int_equal(stats_of(device).peak_reserved, MIB + 2 * KIB + 3 * KIB / 2);
    haul__object_release(a);
    haul__object_release(c);
}

/* What the driver takes counts, except for a limit of tensors. */
static void test_memory__limit_counts_overhead(void **state)
{
    haul_device       *device = late_device_new();
    haul_memory_report r;
    char               text[1000];
    (void)state;
    atomic_store(&device->overhead, KIB);
    assert_int_equal(stats_of(device).overhead, KIB);
    assert_int_equal(haul_memory_set_limit(device, 4 * KIB), HAUL_OK);
    haul__storage *a = haul__storage_alloc(device, 2 * KIB, "a"), *b = haul__storage_alloc(device, KIB, "b");
    assert_non_null(a);
    assert_non_null(b); /* exactly full */
    assert_null(haul__storage_alloc(device, 1, "c"));
    assert_int_equal(haul_memory_report_get(&r), HAUL_OK);
    assert_int_equal(r.overhead, KIB);
    assert_int_equal(r.room, 0);
    haul_memory_report_text(&r, text, sizeof text);
    assert_non_null(strstr(text, "\n  overhead   1.0 KiB\n"));
    haul__object_release(b);
    atomic_store(&device->overhead, 2 * KIB); /* b's block in the cache is too much now */
    assert_null(haul__storage_alloc(device, 1, "c"));
    assert_int_equal(stats_of(device).reserved, 2 * KIB);
    haul_error_clear();
    assert_int_equal(haul_memory_set_tensor_limit(device, 4 * KIB), HAUL_OK);
    assert_int_equal(stats_of(device).limit, 4 * KIB);
    b = haul__storage_alloc(device, 2 * KIB, "b");
    assert_non_null(b);
    haul__object_release(b);
    assert_int_equal(stats_of(device).reserved, 4 * KIB);
    assert_int_equal(haul_memory_set_limit(device, 4 * KIB), HAUL_OK); /* cached blocks go at once */
    assert_int_equal(stats_of(device).reserved, 2 * KIB);
    assert_int_equal(haul_memory_set_tensor_limit(device, -1), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_memory_set_limit(device, 0), HAUL_OK);
    haul_error_clear();
    haul__object_release(a);
}

static void test_memory__report_says_what_is_live(void **state)
{
    haul_device   *device = late_device_new();
    haul__storage *held[5];
    (void)state;
    haul_memory_set_limit(device, (int64_t)10 * MIB);
    held[0] = haul__storage_alloc(device, 4 * MIB, "haul_conv2d");
    held[1] = haul__storage_alloc(device, 3 * MIB, "haul_from_host");
    held[2] = haul__storage_alloc(device, MIB, "haul_conv2d");
    held[3] = haul__storage_alloc(device, KIB, "haul_add");
    held[4] = haul__storage_alloc(device, 512, "haul_mul");
    assert_null(haul__storage_alloc(device, 6 * MIB, "haul_matmul"));
    assert_int_equal(haul_error_status(), HAUL_OUT_OF_MEMORY);
    assert_string_equal(haul_error_operation(), "haul_matmul");
    assert_string_equal(haul_error_message(),
                        "haul_matmul: out of memory on late:0: requested 6.0 MiB, 8.0 MiB of 10.0 MiB limit in use (by "
                        "haul_conv2d 5.0 MiB, haul_from_host 3.0 MiB, haul_add 1.0 KiB, ...); lower the batch size, "
                        "free tensors, or raise the limit with haul_memory_set_limit");
    haul_error_clear();
    for (int i = 0; i < 5; i++)
        haul__object_release(held[i]);
}

static void test_memory__by_origin(void **state)
{
    haul_device       *device = late_device_new();
    haul_memory_origin rows[4] = {{.name = ""}};
    haul__storage     *held[4];
    (void)state;
    assert_int_equal(haul_memory_by_origin(device, rows, 4), 0);
    held[0] = haul__storage_alloc(device, 128, "small");
    held[1] = haul__storage_alloc(device, 4096, "large");
    held[2] = haul__storage_alloc(device, 256, "medium");
    held[3] = haul__storage_alloc(device, 64, "small");
    assert_int_equal(haul_memory_by_origin(device, rows, 4), 3);
    assert_string_equal(rows[0].name, "large");
    assert_int_equal(rows[0].bytes, 4096);
    assert_string_equal(rows[1].name, "medium");
    assert_int_equal(rows[1].blocks, 1);
    assert_string_equal(rows[2].name, "small");
    assert_int_equal(rows[2].bytes, 128 + 64);
    assert_int_equal(rows[2].blocks, 2);
    memset(rows, 0, sizeof rows);
    assert_int_equal(haul_memory_by_origin(device, rows, 1), 3);
    assert_string_equal(rows[0].name, "large");
    assert_string_equal(rows[1].name, "");
    assert_int_equal(haul_memory_by_origin(device, NULL, 0), 3);
    assert_int_equal(haul_memory_by_origin(device, NULL, 3), -1);
    assert_int_equal(haul_memory_by_origin(haul_device_get("cuda:31"), rows, 4), -1);
    for (int i = 0; i < 4; i++)
        haul__object_release(held[i]);
    assert_int_equal(haul_memory_by_origin(device, rows, 4), 0);
}

/* ---- a full device ---- */

static void test_memory__full_device_gives_the_cache_back_first(void **state)
{
    haul_device *device = late_device(0);
    (void)state;
    late_set_room(4 * KIB);
    haul__storage *a = haul__storage_alloc(device, 3 * KIB, "a");
    haul__object_release(a); /* cached, and the device has only 1 KiB left */
    haul__storage *b = haul__storage_alloc(device, 2 * KIB, "b");
    assert_non_null(b);
    assert_int_equal(haul_error_status(), HAUL_OK); /* the first attempt leaves no trace */
    assert_int_equal(stats_of(device).reserved, 2 * KIB);
    assert_null(haul__storage_alloc(device, 3 * KIB, "c"));
    assert_int_equal(haul_error_status(), HAUL_OUT_OF_MEMORY);
    assert_non_null(strstr(haul_error_message(), "out of memory on late:0: requested 3.0 KiB, but the device does not "
                                                 "have that much memory with 2.0 KiB in use (by b 2.0 KiB)"));
    assert_int_equal(stats_of(device).reserved, 2 * KIB);
    haul_error_clear();
    haul__object_release(b);
}

static void test_memory__injected_failures_leave_nothing(void **state)
{
    haul_memory_stats before = stats_of(haul_cpu());
    int64_t           blocks = haul__host_blocks();
    (void)state;
    haul__fault_plan(HAUL__FAULT_DEVICE, 1);
    assert_null(haul__storage_alloc(haul_cpu(), 100, "test"));
    haul__fault_plan(0, 0);
    assert_int_equal(haul_error_status(), HAUL_OUT_OF_MEMORY);
    for (int nth = 1; nth <= 4; nth++) {
        haul__fault_plan(HAUL__FAULT_HOST, nth);
        haul__object_release(haul__storage_alloc(haul_cpu(), 123456, "test"));
        haul__fault_plan(0, 0);
        haul_memory_release_cached(haul_cpu());
    }
    haul_error_clear();
    assert_int_equal(stats_of(haul_cpu()).allocated, before.allocated);
    assert_int_equal(stats_of(haul_cpu()).reserved, 0);
    assert_int_equal(haul__host_blocks(), blocks);
}

/* ---- reuse while in use ---- */

/* Freed blocks of pinned memory that a device still reads: the first are passed over, so that there is no wait, and
 * when they are many one is handed to the next owner, which waits. */
static void test_memory__reuse_waits_for_reads(void **state)
{
    enum { BYTES = 4000, MANY = 100 };
    haul_device      *device = late_device(0);
    haul_memory_stats before, after;
    haul__storage    *there[MANY];
    char              back[BYTES];
    int64_t           count = haul_sync_count();
    (void)state;
    assert_int_equal(haul_memory_release_cached(device), HAUL_OK);
    assert_int_equal(haul_pinned_stats_get(device, &before), HAUL_OK);
    assert_int_equal(before.reserved, 0);
    for (int k = 0; k < MANY; k++) {
        haul__storage *host = haul__pinned_alloc(device, BYTES, "t");
        there[k] = haul__storage_alloc(device, BYTES, "t");
        assert_true(host && there[k]);
        assert_ptr_equal(host->device, haul_cpu());
        assert_int_equal(haul__host_before(host, true, "t"), HAUL_OK);
        memset(host->buffer.host, k, BYTES);
        assert_int_equal(submit_write(there[k], host->buffer.host, host, BYTES), HAUL_OK);
        haul__object_release(host);
    }
    assert_int_equal(haul_pinned_stats_get(device, &after), HAUL_OK);
    assert_int_equal(after.allocations - before.allocations, MANY);
    assert_in_range(after.device_allocations - before.device_allocations, 2, MANY / 2);
    assert_in_range(haul_sync_count() - count, 1, MANY / 2);
    assert_int_equal(after.live_blocks, before.live_blocks);
    assert_int_equal(late_pinned_held(), after.reserved);
    for (int k = 0; k < MANY; k++) {
        assert_int_equal(submit_read(back, NULL, there[k], BYTES), HAUL_OK);
        for (int i = 0; i < BYTES; i++)
            assert_int_equal(back[i], (char)k);
        haul__object_release(there[k]);
    }
    assert_int_equal(haul_memory_release_cached(device), HAUL_OK);
    assert_int_equal(late_pinned_held(), 0);
}

/* The same on the device's side: a block still being read on the download stream is filled by the upload stream. */
static void test_memory__reuse_waits_on_other_streams(void **state)
{
    haul__storage *host = haul__storage_alloc(haul_cpu(), 256, "t"), *more = haul__storage_alloc(haul_cpu(), 256, "t");
    haul__storage *a = haul__storage_alloc(late_device(0), 256, "a");
    (void)state;
    assert_int_equal(submit_fill(a, 256, 1), HAUL_OK);
    assert_int_equal(submit_read(host->buffer.host, host, a, 256), HAUL_OK);
    haul__block *block = a->block;
    haul__object_release(a);
    haul__storage *b = haul__storage_alloc(late_device(0), 256, "b");
    assert_ptr_equal(b->block, block);
    memset(more->buffer.host, 2, 256);
    assert_int_equal(submit_write(b, more->buffer.host, more, 256), HAUL_OK);
    assert_true(late_pending() >= 3);
    assert_int_equal(haul__uses_wait(b->uses, late_device(0)->compute, true, "test"), HAUL_OK);
    assert_int_equal(haul_device_sync(late_device(0)), HAUL_OK);
    assert_int_equal(haul__host_before(host, false, "test"), HAUL_OK);
    assert_int_equal(((char *)host->buffer.host)[255], 1);
    haul__object_release(b);
    haul__object_release(host);
    haul__object_release(more);
}

static void test_memory__memory_in_use_is_not_given_back(void **state)
{
    haul__storage *host = haul__storage_alloc(haul_cpu(), 4096, "t"),
                  *a = haul__storage_alloc(late_device(0), 4096, "t");
    (void)state;
    memset(host->buffer.host, 6, 4096);
    assert_int_equal(submit_write(a, host->buffer.host, host, 4096), HAUL_OK);
    assert_true(late_pending() > 0);
    haul__object_release(host);
    assert_int_equal(haul_memory_release_cached(haul_cpu()), HAUL_OK);
    assert_int_equal(late_pending(), 0);
    haul__object_release(a);
}

/* ---- threads ---- */

static void *churn(void *seed)
{
    uint32_t       random = (uint32_t)(uintptr_t)seed * 2654435761u + 1;
    haul__storage *held[16] = {NULL};
    for (int i = 0; i < 20000; i++) {
        random = random * 1664525u + 1013904223u;
        haul__storage **place = &held[random >> 28];
        haul__object_release(*place);
        *place = haul__storage_alloc(late_device(1), 1 + (random >> 8) % 5000, (random & 1) ? "odd" : "even");
        if (!*place)
            return NULL;
    }
    for (int i = 0; i < 16; i++)
        haul__object_release(held[i]);
    return seed;
}

static void test_memory__threads(void **state)
{
    pthread_t threads[4];
    void     *result;
    int64_t   others = late_held(); /* by other devices of the backend */
    (void)state;
    for (uintptr_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, churn, (void *)(i + 1)), 0);
    for (int i = 0; i < 50; i++) {
        haul_memory_origin rows[2];
        haul_memory_release_cached(late_device(1));
        haul_memory_by_origin(late_device(1), rows, 2);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], &result);
        assert_non_null(result);
    }
    haul_memory_stats s = stats_of(late_device(1));
    assert_int_equal(s.allocated, 0);
    assert_int_equal(s.live_blocks, 0);
    assert_int_equal(s.allocations, 4 * 20000);
    assert_int_equal(s.cache_hits + s.device_allocations, s.allocations);
    assert_int_equal(s.reserved, late_held() - others);
    haul_memory_release_cached(late_device(1));
    assert_int_equal(late_held(), others);
}

/* Scratch memory depends on memory in use, not on cached blocks, so that an operation chooses the same algorithm each
 * time. Without memory there is no error. */
static void test_memory__scratch_takes_what_is_left(void **state)
{
    haul_device *device = late_device(1);
    (void)state;
    assert_int_equal(haul_memory_set_limit(device, 1 << 20), HAUL_OK);
    haul__storage *held = haul__storage_alloc(device, 700 << 10, "test");
    assert_null(haul__scratch_alloc(device, 500 << 10, NULL, 0));
    assert_int_equal(haul_error_status(), HAUL_OK);
    haul__storage *small = haul__scratch_alloc(device, 100 << 10, NULL, 0);
    assert_non_null(small);
    haul__object_release(held); /* cached now: it makes room */
    haul__storage *large = haul__scratch_alloc(device, 500 << 10, NULL, 0);
    assert_non_null(large);
    haul__object_release(small);
    haul__object_release(large);
    haul_memory_release_cached(device);
    assert_int_equal(haul_memory_set_limit(device, 0), HAUL_OK);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, reset, reset)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_memory__classes_waste_little),
        TEST(test_memory__impossible_sizes_are_refused),
        TEST(test_memory__large_blocks_of_the_cpu_begin_at_huge_pages),
        TEST(test_memory__statistics),
        TEST(test_memory__views_share_and_empty_tensors_cost_nothing),
        TEST(test_memory__meta_holds_nothing),
        TEST(test_memory__limit_is_absolute),
        TEST(test_memory__limit_counts_overhead),
        TEST(test_memory__report_says_what_is_live),
        TEST(test_memory__by_origin),
        TEST(test_memory__full_device_gives_the_cache_back_first),
        TEST(test_memory__injected_failures_leave_nothing),
        TEST(test_memory__reuse_waits_for_reads),
        TEST(test_memory__reuse_waits_on_other_streams),
        TEST(test_memory__memory_in_use_is_not_given_back),
        TEST(test_memory__threads),
        TEST(test_memory__scratch_takes_what_is_left),
    };
    return cmocka_run_group_tests_name("memory", tests, NULL, NULL);
}
