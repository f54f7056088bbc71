/* The loader: the same batches whatever the workers, errors, early ends, crops and flips.
 *
 * ctest: cuda; labels=threads */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <haul/haul.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "core/error.h"
#include "core/thread.h"
#include "engine/copy.h"
#include "support/conformance/conformance.h"

/* ---- a dataset of small pictures whose values give their index ---- */

typedef struct source {
    int64_t    bad;      /* this example fails; -1: none */
    bool       wordless; /* without recording an error */
    atomic_int closed;
} source;

#define CHANNELS 2
#define SIDE     6
#define PIXELS   (CHANNELS * SIDE * SIDE)

static haul_status read_example(void *context, haul_example *e)
{
    source  *s = context;
    int64_t  index = e->index;
    uint8_t *pixels = e->fields[0].data;
    if (index == s->bad)
        return s->wordless ? HAUL_IO
                           : haul__fail(HAUL_FORMAT, "read_example", NULL, "example %d is broken", (int)index);
    for (int i = 0; i < PIXELS; i++)
        pixels[i] = (uint8_t)(index * 7 + i);
    memcpy(e->fields[1].data, &index, sizeof index);
    return HAUL_OK;
}

static void close_source(void *context)
{
    source *s = context;
    atomic_fetch_add(&s->closed, 1);
}

static haul_dataset *pictures(source *s, int64_t count)
{
    const haul_dataset_source table = {
        .fields = {{.name = "x", .dtype = HAUL_U8, .shape = HAUL_SHAPE(CHANNELS, SIDE, SIDE)},
                   {.name = "y", .dtype = HAUL_I64, .shape = HAUL_SCALAR_SHAPE, .classes = 3}},
        .count = count,
        .name = "numbered",
        .read = read_example,
        .close = close_source,
        .context = s,
    };
    return haul_dataset_new(&table);
}

static haul_dataset *normalised(source *s, int64_t count)
{
    return haul_dataset_map(pictures(s, count), haul_normalise("x"));
}

/* Everything an epoch gives, as one array: x and y of each batch, behind its size. Returns how many values. */
static size_t record(haul_loader *loader, double *out, size_t capacity)
{
    size_t n = 0;
    for (const haul_batch *b; (b = haul_loader_next(loader));) {
        float   x[64 * PIXELS];
        int64_t y[64];
        assert_int_equal(haul_read(b->x, x, sizeof x), HAUL_OK);
        assert_int_equal(haul_read(b->y, y, sizeof y), HAUL_OK);
        assert_int_equal(haul_tensor_dim(b->x, 0), b->size);
        assert_true(n + 1 + (size_t)b->size * (PIXELS + 1) <= capacity);
        out[n++] = (double)b->size;
        for (int64_t i = 0; i < b->size * PIXELS; i++)
            out[n++] = x[i];
        for (int64_t i = 0; i < b->size; i++)
            out[n++] = (double)y[i];
    }
    assert_int_equal(haul_error_status(), HAUL_OK);
    return n;
}

#define COUNT    53
#define CAPACITY (COUNT * (PIXELS + 2))

static void test_loader__workers_do_not_change_the_batches(void **state)
{
    (void)state;
    static const struct {
        int workers, prefetch;
    } ways[] = {{0, 0}, {1, 0}, {1, 1}, {2, 0}, {4, 0}, {4, 1}, {8, 3}};
    double     *first = calloc(2 * CAPACITY, sizeof *first), *other = first + CAPACITY;
    size_t      count = 0;
    haul_scope *scope = haul_scope_push();
    source      s = {.bad = -1};
    assert_non_null(first);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        haul_dataset *d =
            haul_dataset_map(pictures(&s, COUNT), haul_random_crop("x", 2), haul_random_flip("x"), haul_normalise("x"));
        haul_loader *l = haul_loader_new(d, .batch = 8, .shuffle = true, .seed = 5, .workers = ways[i].workers,
                                         .prefetch = ways[i].prefetch);
        for (int epoch = 3; epoch >= 1; epoch--) { /* the order of epochs means nothing */
            assert_int_equal(haul_loader_start(l, epoch), HAUL_OK);
            size_t n = record(l, other, CAPACITY);
            if (epoch == 1 && i == 0)
                memcpy(first, other, (count = n) * sizeof *first);
            if (epoch == 1)
                assert_int_equal(n, count);
            if (i)
                assert_int_equal(memcmp(first, other, count * sizeof *first) == 0, epoch == 1);
        }
    }
    free(first);
    haul_scope_pop(scope);
    assert_int_equal(atomic_load(&s.closed), 7);
}

static void test_loader__an_epoch_has_every_example_once(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    source       s = {.bad = -1};
    haul_loader *l = haul_loader_new(normalised(&s, COUNT), .batch = 10, .shuffle = true, .workers = 2, .seed = 1);
    int          seen[COUNT] = {0}, moved = 0;
    assert_int_equal(haul_loader_batches(l), 6);
    assert_int_equal(haul_loader_start(l, 1), HAUL_OK);
    int64_t position = 0;
    for (const haul_batch *b; (b = haul_loader_next(l));) {
        int64_t y[10];
        float   x[10 * PIXELS];
        assert_int_equal(b->size, b->index < 5 ? 10 : 3);
        haul_read(b->y, y, sizeof y);
        haul_read(b->x, x, sizeof x);
        for (int64_t i = 0; i < b->size; i++, position++) {
            seen[y[i]]++;
            moved += y[i] != position;
            for (int k = 0; k < PIXELS; k++)
                assert_true(x[i * PIXELS + k] == ((float)(uint8_t)(y[i] * 7 + k) / 255.0f - 0.5f) / 0.5f);
        }
    }
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(seen[i], 1);
    assert_true(moved > COUNT / 2);
    assert_null(haul_loader_next(l)); /* and again: still no error */
    assert_int_equal(haul_error_status(), HAUL_OK);
    haul_scope_pop(scope);
}

static void test_loader__order_is_kept_and_the_last_batch_dropped_when_asked(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    source       s = {.bad = -1};
    haul_loader *l = haul_loader_new(normalised(&s, COUNT), .batch = 10, .drop_last = true, .workers = 1);
    int64_t      next = 0;
    assert_int_equal(haul_loader_batches(l), 5);
    assert_int_equal(haul_loader_start(l, 1), HAUL_OK);
    for (const haul_batch *b; (b = haul_loader_next(l));) {
        int64_t y[10];
        haul_read(b->y, y, sizeof y);
        for (int i = 0; i < 10; i++)
            assert_int_equal(y[i], next++);
    }
    assert_int_equal(next, 50);
    haul_scope_pop(scope);
}

static void test_loader__memory_is_for_the_examples_there_are(void **state)
{
    (void)state;
    haul_scope       *scope = haul_scope_push();
    source            s = {.bad = -1};
    haul_memory_stats before, after;
    assert_int_equal(haul_memory_stats_get(haul_cpu(), &before), HAUL_OK);
    haul_loader *l = haul_loader_new(normalised(&s, COUNT), .batch = 1 << 20);
    assert_int_equal(haul_loader_start(l, 1), HAUL_OK);
    assert_int_equal(haul_loader_next(l)->size, COUNT);
    assert_int_equal(haul_memory_stats_get(haul_cpu(), &after), HAUL_OK);
    int64_t examples = COUNT * (PIXELS * (int64_t)sizeof(float) + (int64_t)sizeof(int64_t));
    assert_true(after.allocated - before.allocated <= 2 * examples);
    haul_scope_pop(scope);
}

static void test_loader__seeds_and_epochs_give_different_orders(void **state)
{
    (void)state;
    int64_t     orders[3][COUNT];
    haul_scope *scope = haul_scope_push();
    source      s = {.bad = -1};
    for (int i = 0; i < 3; i++) {
        haul_loader *l =
            haul_loader_new(normalised(&s, COUNT), .batch = COUNT, .shuffle = true, .seed = i == 1 ? 9 : 0);
        assert_int_equal(haul_loader_start(l, i == 2 ? 9 : 0), HAUL_OK);
        assert_int_equal(haul_read(haul_loader_next(l)->y, orders[i], sizeof orders[i]), HAUL_OK);
    }
    assert_memory_not_equal(orders[0], orders[1], sizeof orders[0]);
    assert_memory_not_equal(orders[0], orders[2], sizeof orders[0]);
    assert_memory_not_equal(orders[1], orders[2], sizeof orders[0]);
    haul_scope_pop(scope);
}

static void test_loader__an_epoch_continues_where_it_is_told_to(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    source       s = {.bad = -1};
    haul_loader *l = haul_loader_new(haul_dataset_map(normalised(&s, COUNT), haul_random_flip("x")), .batch = 10,
                                     .shuffle = true, .workers = 2);
    float        whole[6][10 * PIXELS] = {{0}}, part[10 * PIXELS] = {0};
    assert_int_equal(haul_loader_start(l, 4), HAUL_OK);
    for (const haul_batch *b; (b = haul_loader_next(l));)
        haul_read(b->x, whole[b->index], sizeof whole[0]);
    for (int64_t first = 0; first <= 6; first++) {
        int64_t index = first;
        assert_int_equal(haul_loader_start_at(l, 4, first), HAUL_OK);
        for (const haul_batch *b; (b = haul_loader_next(l)); index++) {
            assert_int_equal(b->index, index);
            haul_read(b->x, part, sizeof part);
            assert_memory_equal(part, whole[index], (size_t)b->size * PIXELS * sizeof(float));
        }
        assert_int_equal(index, 6);
    }
    assert_int_equal(haul_loader_start_at(l, 4, 7), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_loader_start_at(l, 4, -1), HAUL_INVALID_ARGUMENT);
    haul_loader *fresh = haul_loader_new(haul_blobs(8), .batch = 4);
    assert_int_equal(haul_loader_start_at(fresh, 1, 99), HAUL_INVALID_ARGUMENT);
    assert_null(haul_loader_next(fresh)); /* does not hide why */
    assert_non_null(strstr(haul_error_message(), "batch 99 does not exist"));
    assert_int_equal(haul_loader_status(fresh), HAUL_INVALID_ARGUMENT);
    haul_error_clear();
    haul_scope_pop(scope);
}

static void test_loader__errors_of_workers_reach_the_caller(void **state)
{
    (void)state;
    for (int workers = 0; workers <= 3; workers++)
        for (int wordless = 0; wordless <= 1; wordless++) {
            haul_scope  *scope = haul_scope_push();
            source       s = {.bad = 25, .wordless = wordless};
            haul_loader *l = haul_loader_new(normalised(&s, COUNT), .batch = 10, .workers = workers);
            for (int again = 0; again < 2; again++) {
                assert_int_equal(haul_loader_start(l, 1), HAUL_OK);
                assert_non_null(haul_loader_next(l));
                assert_non_null(haul_loader_next(l));
                assert_int_equal(haul_error_status(), HAUL_OK);
                assert_null(haul_loader_next(l));
                assert_int_equal(haul_error_status(), wordless ? HAUL_IO : HAUL_FORMAT);
                assert_non_null(strstr(haul_error_message(), "25"));
                assert_null(haul_loader_next(l)); /* the epoch is over */
                assert_int_equal(haul_error_status(), HAUL_STATE);
                haul_error_clear();
            }
            haul_scope_pop(scope);
        }
}

static void test_loader__ending_early_and_starting_again_is_clean(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    source       s = {.bad = -1};
    haul_loader *l = haul_loader_new(normalised(&s, COUNT), .batch = 4, .workers = 3, .shuffle = true);
    int64_t      first[4], y[4];
    for (int i = 0; i < 50; i++) {
        assert_int_equal(haul_loader_start(l, 1), HAUL_OK);
        for (int k = 0; k <= i % 5; k++) {
            const haul_batch *b = haul_loader_next(l);
            assert_non_null(b);
            haul_read(b->y, k || i ? y : first, sizeof y);
            if (k == 0 && i)
                assert_memory_equal(y, first, sizeof y);
        }
    }
    /* freed in the middle of an epoch */
    haul_scope_pop(scope);
    assert_int_equal(atomic_load(&s.closed), 1);
}

static void test_loader__a_batch_that_is_kept_stays_as_it_is(void **state)
{
    (void)state;
    for (int workers = 0; workers <= 2; workers++) {
        haul_scope  *scope = haul_scope_push();
        source       s = {.bad = -1};
        haul_loader *l = haul_loader_new(normalised(&s, COUNT), .batch = 4, .workers = workers);
        haul_tensor *kept[14];
        assert_int_equal(haul_loader_start(l, 1), HAUL_OK);
        for (const haul_batch *b; (b = haul_loader_next(l));)
            kept[b->index] = haul_keep(b->y);
        for (int i = 0; i < 13; i++) {
            int64_t y[4];
            assert_int_equal(haul_read(kept[i], y, sizeof y), HAUL_OK);
            assert_int_equal(y[0], 4 * i);
        }
        haul_scope_pop(scope);
        for (int i = 0; i < 14; i++)
            haul_release(kept[i]);
    }
}

static void test_loader__makes_no_memory_after_the_start(void **state)
{
    (void)state;
    haul_memory_stats before, after;
    haul_scope       *scope = haul_scope_push();
    source            s = {.bad = -1};
    haul_loader      *l = haul_loader_new(normalised(&s, COUNT), .batch = 4, .workers = 2);
    assert_int_equal(haul_loader_start(l, 1), HAUL_OK);
    assert_non_null(haul_loader_next(l));
    haul_memory_stats_get(haul_cpu(), &before);
    for (int epoch = 2; epoch < 4; epoch++) {
        while (haul_loader_next(l))
            ;
        assert_int_equal(haul_loader_start(l, epoch), HAUL_OK);
    }
    haul_memory_stats_get(haul_cpu(), &after);
    assert_int_equal(before.device_allocations, after.device_allocations);
    haul_scope_pop(scope);
}

static void test_loader__goes_to_the_device(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    source       s = {.bad = -1};
    haul_loader *l =
        haul_loader_new(normalised(&s, COUNT), .batch = 10, .workers = 2, .device = haul_device_get("meta"));
    assert_int_equal(haul_loader_start(l, 1), HAUL_OK);
    const haul_batch *b = haul_loader_next(l);
    if (!b)
        fail_msg("%s", haul_error_message());
    assert_string_equal(haul_device_name(haul_tensor_device(b->x)), "meta");
    assert_int_equal(haul_tensor_dim(b->x, 3), SIDE);
    haul_scope_pop(scope);
}

/* On every tested device the batches hold the same values; the slots' memory is used again and again. */
static void test_loader__copies_to_devices_are_finished_before_memory_is_reused(void **state)
{
    (void)state;
    haul_device *devices[32];
    int          count = test_devices(devices, 32);
    double      *first = calloc(2 * CAPACITY, sizeof *first), *other = first + CAPACITY;
    size_t       size = 0;
    assert_non_null(first);
    for (int i = 0; i < count; i++) {
        haul_scope  *scope = haul_scope_push();
        source       s = {.bad = -1};
        haul_loader *l = haul_loader_new(normalised(&s, COUNT), .batch = 4, .workers = i ? 2 : 0, .prefetch = 1,
                                         .shuffle = true, .device = devices[i]);
        for (int again = 0; again < 3; again++) {
            assert_int_equal(haul_loader_start(l, 1), HAUL_OK);
            size_t n = record(l, i ? other : first, CAPACITY);
            if (!i)
                size = n;
            else
                assert_int_equal(n, size);
            assert_memory_equal(first, i ? other : first, size * sizeof *first);
        }
        haul_scope_pop(scope);
    }
    print_message("          on %d devices\n", count);
    assert_true(count >= 1);
    free(first);
}

/* Plans keep copies of tensors on other devices until these change; the memory of a batch becomes that of a later
 * one. */
static void test_loader__kept_copies_of_a_batch_end_with_it(void **state)
{
    (void)state;
    haul_device *devices[32];
    int          count = test_devices(devices, 32), copies = 0;
    for (int i = 0; i < count; i++)
        for (int to = 0; to < count; to++) {
            haul_scope  *scope = haul_scope_push();
            source       s = {.bad = -1};
            haul_loader *l = haul_loader_new(normalised(&s, COUNT), .batch = 4, .workers = 0, .device = devices[i]);
            assert_int_equal(haul_loader_start(l, 1), HAUL_OK);
            for (const haul_batch *b; i != to && (b = haul_loader_next(l)); copies++) {
                haul_scope *step = haul_scope_push();
                int64_t     y[4];
                assert_int_equal(haul_read(haul__to_kept(b->y, devices[to], NULL), y, (size_t)b->size * sizeof *y),
                                 HAUL_OK);
                assert_int_equal(y[0], 4 * b->index);
                haul_scope_pop(step);
            }
            assert_int_equal(haul_error_status(), HAUL_OK);
            haul_scope_pop(scope);
        }
    print_message("          %d copies\n", copies);
}

/* A program that checks once, at its end, learns that an earlier call failed. */
static void test_loader__keeps_an_error_that_nobody_has_read(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    source       s = {.bad = -1};
    haul_loader *l = haul_loader_new(normalised(&s, COUNT), .batch = 4);
    assert_int_equal(haul_load_weights("nosuch.safetensors", haul_nn_linear(2, 2)), HAUL_IO);
    assert_int_equal(haul_loader_start(l, 1), HAUL_OK);
    assert_non_null(haul_loader_next(l));
    assert_int_equal(haul_error_status(), HAUL_IO);
    assert_non_null(strstr(haul_error_message(), "nosuch.safetensors"));
    assert_int_equal(haul_loader_start(l, 2), HAUL_OK); /* the message was read */
    assert_int_equal(haul_error_status(), HAUL_OK);
    haul_scope_pop(scope);
}

static void test_loader__no_examples_no_batches(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    source       s = {.bad = -1};
    haul_loader *l = haul_loader_new(normalised(&s, 0), .batch = 10, .workers = 2, .shuffle = true);
    assert_int_equal(haul_loader_batches(l), 0);
    assert_int_equal(haul_loader_start(l, 1), HAUL_OK);
    assert_null(haul_loader_next(l));
    assert_int_equal(haul_error_status(), HAUL_OK);
    haul_scope_pop(scope);
}

static void test_loader__wrong_options_are_errors(void **state)
{
    (void)state;
    static const haul_loader_options wrong[] = {
        {.batch = -1}, {.workers = -1}, {.workers = 1000}, {.prefetch = -1}, {.samples = -1}, {.samples = 5},
    };
    haul_scope   *scope = haul_scope_push();
    source        s = {.bad = -1};
    haul_dataset *d = pictures(&s, COUNT);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        haul_loader_options options = wrong[i];
        options.dataset = d;
        assert_null(haul_loader_new_with(&options));
        assert_int_equal(haul_error_status(), HAUL_INVALID_ARGUMENT);
        haul_error_clear();
    }
    assert_null(haul_loader_new(d, .device = haul_device_get("nowhere:7")));
    assert_int_equal(haul_error_status(), HAUL_DEVICE);
    haul_error_clear();
    assert_null(haul_loader_next(haul_loader_new(d, .batch = 2))); /* not started */
    assert_int_equal(haul_error_status(), HAUL_STATE);
    haul_error_clear();
    assert_null(haul_loader_new(NULL, .batch = 2));
    assert_int_equal(haul_loader_start(NULL, 1), HAUL_INVALID_ARGUMENT);
    assert_null(haul_loader_next(NULL));
    assert_int_equal(haul_loader_batches(NULL), -1);
    haul_error_clear();
    haul_scope_pop(scope);
}

static void test_loader__every_failing_allocation_is_an_error(void **state)
{
    (void)state;
    haul_scope *outer = haul_scope_push();
    bool        whole = false;
    for (int64_t nth = 1; !whole; nth++) {
        source      s = {.bad = -1};
        int64_t     blocks = haul__host_blocks();
        haul_scope *scope = haul_scope_push();
        haul__fault_plan(HAUL__FAULT_HOST | HAUL__FAULT_DEVICE | HAUL__FAULT_COPY, nth);
        haul_loader *l =
            haul_loader_new(normalised(&s, 6), .batch = 4, .workers = 0, .device = haul_device_get("meta"));
        haul_loader_start(l, 1);
        int batches = 0;
        while (haul_loader_next(l))
            batches++;
        haul__fault_plan(0, 0);
        whole = haul_error_status() == HAUL_OK;
        assert_int_equal(batches == 2, whole);
        haul_error_clear();
        haul_scope_pop(scope);
        assert_int_equal(haul__host_blocks(), blocks);
        assert_int_equal(atomic_load(&s.closed), 1);
    }
    haul_scope_pop(outer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loader__workers_do_not_change_the_batches),
        cmocka_unit_test(test_loader__an_epoch_has_every_example_once),
        cmocka_unit_test(test_loader__order_is_kept_and_the_last_batch_dropped_when_asked),
        cmocka_unit_test(test_loader__seeds_and_epochs_give_different_orders),
        cmocka_unit_test(test_loader__an_epoch_continues_where_it_is_told_to),
        cmocka_unit_test(test_loader__errors_of_workers_reach_the_caller),
        cmocka_unit_test(test_loader__ending_early_and_starting_again_is_clean),
        cmocka_unit_test(test_loader__a_batch_that_is_kept_stays_as_it_is),
        cmocka_unit_test(test_loader__makes_no_memory_after_the_start),
        cmocka_unit_test(test_loader__goes_to_the_device),
        cmocka_unit_test(test_loader__copies_to_devices_are_finished_before_memory_is_reused),
        cmocka_unit_test(test_loader__kept_copies_of_a_batch_end_with_it),
        cmocka_unit_test(test_loader__memory_is_for_the_examples_there_are),
        cmocka_unit_test(test_loader__keeps_an_error_that_nobody_has_read),
        cmocka_unit_test(test_loader__no_examples_no_batches),
        cmocka_unit_test(test_loader__wrong_options_are_errors),
        cmocka_unit_test(test_loader__every_failing_allocation_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
