/* Spilling: tensors of a device in host memory, while there is no room for them.
 * ctest: cuda; sim; env=POCL_DEVICES=pthread pthread; labels=threads */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "memory/spill/spill.h"
#include "support/devices/spilling.h"
#include "support/ledger.h"

/* ---- elements ---- */

static void test_spill__elements_return(void **state)
{
    enum { COUNT = 20, FIT = 4 };
    haul_device *device;
    (void)state;
    for (int d = 0; (device = spilling(d)); d++) {
        haul_scope *part = haul_scope_push();
        begin_limit(device, FIT * BYTES);
        const haul_memory_stats before = stats_of(device);
        haul_tensor            *t[COUNT];
        fill_each(t, COUNT, device);
        haul_memory_stats now = stats_of(device);
        assert_int_equal(now.spilled, (COUNT - FIT) * BYTES);
        assert_int_equal(now.spilled_total - before.spilled_total, (COUNT - FIT) * BYTES);
        assert_int_equal(now.allocated - before.allocated, FIT * BYTES);
        assert_true(now.peak_reserved <= now.limit);
        for (int i = 0; i < 3 * COUNT; i++)
            assert_filled(t[i * 7 % COUNT], (float)(i * 7 % COUNT));
        now = stats_of(device);
        assert_int_equal(now.live_blocks - before.live_blocks, COUNT);
        assert_int_equal(now.spilled, (COUNT - FIT) * BYTES);
        assert_true(now.peak_reserved <= now.limit && now.peak_allocated <= now.limit);
        haul_scope_pop(part);
        now = stats_of(device);
        assert_int_equal(now.spilled, 0);
        assert_int_equal(now.allocated, before.allocated);
        assert_int_equal(now.live_blocks, before.live_blocks);
        end_limit(device);
    }
}

static void test_spill__is_off_until_asked_for(void **state)
{
    haul_device *device;
    (void)state;
    for (int d = 0; (device = spilling(d)); d++) {
        haul_scope *part = haul_scope_push();
        begin_limit(device, 2 * BYTES);
        haul_tensor *t[4];
        fill_each(t, 3, device);
        assert_int_equal(stats_of(device).spilled, BYTES);
        assert_int_equal(haul_memory_set_spill(device, false), HAUL_OK);
        assert_false(haul_tensor_is_valid(haul_to(filled(3), device)));
        assert_int_equal(haul_error_status(), HAUL_OUT_OF_MEMORY);
        haul_error_clear();
        haul_drop(t[1]); /* room for spilled elements */
        assert_filled(t[0], 0);
        assert_filled(t[2], 2);
        haul_scope_pop(part);
        end_limit(device);
    }
}

/* An operation needs its operands and its result at the same time. */
static void test_spill__what_does_not_fit_at_once_fails(void **state)
{
    (void)state;
    for (int d = 1; d < device_count; d++) {
        haul_scope *part = haul_scope_push();
        begin_limit(devices[d], 2 * BYTES);
        haul_tensor *a = haul_to(filled(1), devices[d]), *b = haul_to(filled(2), devices[d]);
        haul_tensor *c = haul_add(a, b); /* three of them */
        assert_false(haul_tensor_is_valid(c));
        assert_int_equal(haul_error_status(), HAUL_OUT_OF_MEMORY);
        haul_error_clear();
        assert_int_equal(haul_memory_set_tensor_limit(devices[d], stats_of(devices[d]).limit + BYTES), HAUL_OK);
        assert_filled(haul_add(a, b), 3);
        assert_filled(a, 1);
        assert_filled(b, 2);
        haul_scope_pop(part);
        end_limit(devices[d]);
    }
}

static void test_spill__counts_as_transfers(void **state)
{
    (void)state;
    haul_device *device = late_device(0);
    begin_limit(device, BYTES);
    haul_ledger *ledger = haul_ledger_begin(.everywhere = false);
    haul_tensor *a = haul_to(filled(1), device), *b = haul_to(filled(2), device);
    assert_filled(a, 1);
    assert_filled(b, 2);
    haul_ledger_row rows[8];
    const int       count = haul_ledger_rows(ledger, rows, 8, .by = HAUL_LEDGER_OPERATION | HAUL_LEDGER_TO);
    int64_t         away = 0, back = 0;
    for (int i = 0; i < count; i++) {
        if (strcmp(rows[i].operation, "spill") != 0)
            continue;
        *(rows[i].to == device ? &back : &away) += rows[i].bytes;
        assert_int_equal(rows[i].pinned_bytes, rows[i].bytes);
    }
    assert_int_equal(away, 2 * BYTES); /* a goes twice, with one copy */
    assert_int_equal(back, 2 * BYTES);
    haul_drop(a);
    haul_drop(b);
    end_limit(device);
}

/* The next owner of the memory waits for the copy away, on the device. */
static void test_spill__the_host_does_not_wait(void **state)
{
    haul_scope  *part = haul_scope_push();
    haul_device *device = late_device(0);
    haul_tensor *sources[3], *t[3];
    (void)state;
    begin_limit(device, 2 * BYTES);
    for (int i = 0; i < 3; i++)
        assert_valid(sources[i] = haul_pin(filled((float)i), device));
    for (int i = 0; i < 2; i++)
        assert_valid(t[i] = haul_to(sources[i], device));
    const int64_t waits = haul_sync_count(), pending = late_pending();
    assert_valid(t[2] = haul_to(sources[2], device));
    assert_int_equal(stats_of(device).spilled, BYTES);
    assert_int_equal(late_pending(), pending + 3); /* the copy away, the next one that goes, and to the device */
    assert_int_equal(haul_sync_count(), waits);
    assert_each_filled(t, 0, 3);
    haul_scope_pop(part);
    end_limit(device);
}

static void test_spill__without_pinned_memory(void **state)
{
    (void)state;
    haul_device *device = late_device(0);
    begin_limit(device, 2 * BYTES);
    haul_tensor *sources[6], *t[6];
    for (int i = 0; i < 6; i++)
        sources[i] = filled((float)i);
    assert_int_equal(haul_pinned_set_limit(device, 1), HAUL_OK);
    for (int i = 0; i < 6; i++)
        assert_valid(t[i] = haul_to(sources[i], device));
    assert_each_filled(t, 0, 6);
    assert_int_equal(haul_pinned_set_limit(device, 0), HAUL_OK);
    for (int i = 0; i < 6; i++)
        haul_drop(t[i]);
    end_limit(device);
}

/* ---- failures ---- */

/* Whatever is refused, what a tensor holds is right or an error. */
static void test_spill__survives_failures(void **state)
{
    enum { COUNT = 6, MOST = 40 };
    static const haul__fault faults[] = {HAUL__FAULT_HOST, HAUL__FAULT_DEVICE, HAUL__FAULT_COPY, HAUL__FAULT_PINNED};
    haul_device             *device = late_device(0);
    haul_tensor             *sources[COUNT], *t[COUNT];
    (void)state;
    for (int i = 0; i < COUNT; i++)
        sources[i] = filled((float)i);
    ledger_stop(); /* events that are held back are lost without memory */
    for (size_t f = 0; f < sizeof faults / sizeof *faults; f++) {
        for (int64_t nth = 1; nth < MOST; nth++) {
            const haul_memory_stats before = stats_of(device);
            haul_scope             *part = haul_scope_push();
            begin_limit(device, 2 * BYTES);
            haul__fault_plan(faults[f], nth);
            for (int i = 0; i < COUNT; i++)
                t[i] = haul_to(sources[i], device);
            haul__fault_plan(0, 0);
            for (int i = 0; i < COUNT; i++)
                if (haul_tensor_is_valid(t[i]))
                    assert_filled(t[i], (float)i);
            haul__fault_plan(faults[f], nth);
            for (int i = 0; i < COUNT; i++) {
                float value;
                if (haul_tensor_is_valid(t[i]) && !haul_read(t[i], sources[0]->storage->buffer.host, BYTES)) {
                    memcpy(&value, (char *)sources[0]->storage->buffer.host + BYTES - sizeof value, sizeof value);
                    assert_true(value == (float)i);
                }
            }
            haul__fault_plan(0, 0);
            memset(sources[0]->storage->buffer.host, 0, BYTES);
            haul_error_clear();
            for (int i = 0; i < COUNT; i++)
                if (haul_tensor_is_valid(t[i]))
                    assert_filled(t[i], (float)i);
            haul_scope_pop(part);
            haul_error_clear();
            assert_int_equal(stats_of(device).spilled, 0);
            assert_int_equal(stats_of(device).live_blocks, before.live_blocks);
            end_limit(device);
        }
    }
    ledger_go_on();
}

static void test_spill__wrong_uses(void **state)
{
    (void)state;
    assert_int_equal(haul_memory_set_spill(NULL, true), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_memory_set_spill(haul_cpu(), true), HAUL_UNSUPPORTED);
    assert_non_null(strstr(haul_error_message(), "cpu has no memory apart from the host's"));
    assert_int_equal(haul_memory_set_spill(haul_device_get("meta"), true), HAUL_UNSUPPORTED);
    assert_int_equal(haul_memory_set_spill(haul_cpu(), false), HAUL_OK);
    haul_error_clear();
}

/* ---- training ---- */

typedef struct trained {
    float   losses[6];
    float   weights[64 * 32];
    int64_t peak, spilled;
} trained;

/* Six steps; `out` is NULL in a dry run, which has no values. */
static haul_status run_steps(void *context)
{
    trained     *out = context;
    haul_module *net =
        HAUL_SEQUENTIAL(haul_nn_linear(32, 64), haul_nn_relu(), haul_nn_dropout(0.2), haul_nn_linear(64, 64),
                        haul_nn_relu(), haul_nn_linear(64, 64), haul_nn_relu(), haul_nn_linear(64, 8));
    haul_optimizer *adam = haul_adam(net, 0.01);
    for (int i = 0; i < 6; i++) {
        haul_scope  *step = haul_scope_push();
        haul_tensor *x = haul_normal(HAUL_F32, HAUL_SHAPE(64, 32), 0, 1);
        haul_tensor *y = haul_normal(HAUL_F32, HAUL_SHAPE(64, 8), 0, 1);
        haul_optimizer_zero_grad(adam);
        haul_tensor *loss = haul_mse_loss(haul_call(net, x), y);
        haul_backward(loss);
        haul_optimizer_step(adam);
        if (out)
            out->losses[i] = (float)haul_item(loss);
        haul_scope_pop(step);
    }
    if (out)
        haul_read(haul_module_parameter(net, "0.weight"), out->weights, sizeof out->weights);
    return haul_error_status();
}

static void train(haul_device *device, int64_t limit, trained *out)
{
    haul_scope *part = haul_scope_push();
    train_begin(device, limit);
    const int64_t spilled = stats_of(device).spilled_total;
    if (run_steps(out))
        fail_msg("with a limit of %lld: %s", (long long)limit, haul_error_message());
    out->peak = stats_of(device).peak_reserved;
    out->spilled = stats_of(device).spilled_total - spilled;
    haul_scope_pop(part);
    haul_memory_release_cached(device);
    end_limit(device);
}

static void test_spill__training_has_the_same_bits(void **state)
{
    static trained plain, limited;
    (void)state;
    for (int d = 1; d < device_count; d++) {
        train(devices[d], 0, &plain);
        for (int percent = 75; percent >= 50; percent -= 25) {
            const int64_t limit = plain.peak * percent / 100;
            train(devices[d], limit, &limited);
            assert_memory_equal(plain.losses, limited.losses, sizeof plain.losses);
            assert_memory_equal(plain.weights, limited.weights, sizeof plain.weights);
            assert_true(limited.peak <= limit);
            assert_true(limited.spilled > 0);
        }
    }
}

static void estimate_steps(haul_device *device, int64_t limit, haul_estimate_device *out)
{
    haul_estimate_result r;
    haul_scope          *part = haul_scope_push();
    train_begin(device, limit);
    assert_int_equal(haul_estimate(run_steps, NULL, &r), HAUL_OK);
    *out = (haul_estimate_device){NULL};
    for (int i = 0; i < r.device_count; i++)
        if (r.devices[i].device == device)
            *out = r.devices[i];
    haul_estimate_free(&r);
    haul_scope_pop(part);
    end_limit(device);
}

/* A dry run moves what a training moves, except for what differs in the free blocks that have other sizes. */
static void test_spill__is_estimated(void **state)
{
    static trained       real;
    haul_estimate_device dry;
    (void)state;
    for (int d = 1; d < device_count; d++) {
        train(devices[d], 0, &real);
        const int64_t peak = real.peak;
        estimate_steps(devices[d], 0, &dry);
        assert_true(dry.spilled_bytes == 0 && dry.returned_bytes == 0 && !dry.fits);
        for (int percent = 100; percent >= 50; percent -= 25) {
            train(devices[d], peak * percent / 100, &real);
            estimate_steps(devices[d], peak * percent / 100, &dry);
            assert_true(dry.fits);
            assert_true(llabs(dry.spilled_bytes - real.spilled) <= real.spilled / 5);
            assert_true(dry.returned_bytes <= dry.spilled_bytes);
            assert_int_equal(dry.returned_bytes > 0, percent < 100);
        }
        estimate_steps(devices[d], peak / 20, &dry);
        assert_false(dry.fits);
    }
}

/* ---- threads ---- */

enum { THREADS = 4, OWN = 8, ROUNDS = 150 };

typedef struct worker {
    pthread_t    thread;
    haul_device *devices[2]; /* tensors are made on the first, and move between them */
    uint64_t     state;
    int          rounds, wrong, refused;
    char         message[512]; /* of the first refusal */
    haul_tensor *t[OWN];
    float        values[OWN];
} worker;

static pthread_barrier_t barrier;

static unsigned draw(worker *w, unsigned n)
{
    w->state = w->state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(w->state >> 33) % n;
}

/* Keeps the tensor, or notes why there is none. */
static void keep(worker *w, unsigned i, haul_tensor *t)
{
    w->t[i] = haul_tensor_is_valid(t) ? t : NULL;
    if (!w->t[i] && w->refused++ == 0)
        snprintf(w->message, sizeof w->message, "%s", haul_error_message());
    haul_error_clear();
}

static void check_last(worker *w, unsigned i)
{
    float       values[2] = {-1, -1};
    haul_scope *part = haul_scope_push();
    haul_status status =
        haul_read(view_of(w->t[i], &HAUL_SHAPE(2), (int64_t[]){1}, SIDE * SIDE - 2), values, sizeof values);
    haul_scope_pop(part);
    if (status)
        keep(w, i, NULL);
    else if (values[0] != w->values[i] || values[1] != w->values[i])
        w->wrong++;
}

static void move_over(worker *w, unsigned i)
{
    haul_tensor *before = w->t[i];
    keep(w, i, haul_to(before, w->devices[haul_tensor_device(before) == w->devices[0]]));
    haul_drop(before); /* perhaps while it is being copied */
}

/* What host memory has of it is out of date then. */
static void write_over(worker *w, unsigned i)
{
    haul_scope *part = haul_scope_push();
    w->values[i] = (float)draw(w, 1000);
    haul_status status = haul_copy_into(w->t[i], haul_full(HAUL_F32, HAUL_SHAPE(SIDE, SIDE), w->values[i]));
    haul_scope_pop(part);
    if (status)
        keep(w, i, NULL);
}

/* Makes, moves, reads, writes and drops tensors at random. */
static void *work(void *context)
{
    worker     *w = context;
    haul_scope *own = haul_scope_push();
    pthread_barrier_wait(&barrier);
    for (int round = 0; round < w->rounds; round++) {
        const unsigned i = draw(w, OWN), what = draw(w, 8);
        if (!w->t[i]) {
            haul_scope *part = haul_scope_push();
            w->values[i] = (float)draw(w, 1000);
            keep(w, i, haul_to(haul_full(HAUL_F32, HAUL_SHAPE(SIDE, SIDE), w->values[i]), w->devices[0]));
            w->t[i] = w->t[i] ? haul_scope_return(part, w->t[i]) : NULL;
            if (!w->t[i])
                haul_scope_pop(part);
        } else if (what < 1) {
            haul_drop(w->t[i]);
            w->t[i] = NULL;
        } else if (what < 3) {
            move_over(w, i);
        } else if (what < 4) {
            write_over(w, i);
        } else if (what < 5) {
            haul__spill_return_ahead(w->t[i]->storage, 0);
        } else {
            check_last(w, i);
        }
    }
    haul_scope_pop(own);
    return NULL;
}

/* HAUL_TEST_ROUNDS=N makes N rounds. */
static void attack(haul_device *first, haul_device *second, uint64_t seed)
{
    static worker           workers[THREADS];
    const char             *rounds = getenv("HAUL_TEST_ROUNDS");
    const haul_memory_stats before[] = {stats_of(first), stats_of(second)};
    begin_limit(first, 6 * BYTES);
    if (second != first)
        begin_limit(second, 6 * BYTES);
    assert_int_equal(pthread_barrier_init(&barrier, NULL, THREADS), 0);
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (worker){.devices = {first, second}, .state = seed + (uint64_t)i, .rounds = ROUNDS};
        workers[i].rounds = rounds ? atoi(rounds) : ROUNDS;
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
    pthread_barrier_destroy(&barrier);
    for (int i = 0; i < THREADS; i++) {
        if (workers[i].refused)
            fail_msg("%d refused: %s", workers[i].refused, workers[i].message);
        assert_int_equal(workers[i].wrong, 0);
    }
    haul_device *both[] = {first, second};
    for (int d = 0; d < 2; d++) {
        const haul_memory_stats now = stats_of(both[d]);
        assert_int_equal(now.spilled, 0);
        assert_int_equal(now.live_blocks, before[d].live_blocks);
        assert_true(now.peak_reserved <= now.limit);
    }
    assert_true(stats_of(first).spilled_total > before[0].spilled_total);
    end_limit(first);
    if (second != first)
        end_limit(second);
}

static void test_spill__threads(void **state)
{
    (void)state;
    attack(late_device(0), late_device(1), 1);
    for (int d = 1; d < device_count; d++)
        attack(devices[d], devices[d + 1 < device_count ? d + 1 : 1], (uint64_t)(100 * d));
}

#define SPILL_TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SPILL_TEST(test_spill__elements_return),
        SPILL_TEST(test_spill__is_off_until_asked_for),
        SPILL_TEST(test_spill__what_does_not_fit_at_once_fails),
        SPILL_TEST(test_spill__counts_as_transfers),
        SPILL_TEST(test_spill__the_host_does_not_wait),
        SPILL_TEST(test_spill__without_pinned_memory),
        SPILL_TEST(test_spill__survives_failures),
        SPILL_TEST(test_spill__wrong_uses),
        SPILL_TEST(test_spill__training_has_the_same_bits),
        SPILL_TEST(test_spill__is_estimated),
        SPILL_TEST(test_spill__threads),
    };
    return run_moves("spill", tests, sizeof tests / sizeof tests[0]);
}
