/* Spilling: what stays in device memory, and which tensors make room for scratch memory.
 *
 * ctest: labels=threads */
#include <pthread.h>
#include <stdlib.h>

#include "memory/allocator.h"
#include "support/devices/spilling.h"

/* NULL if there is no memory. */
static haul_tensor *try_tensor_on(haul_device *device, float value)
{
    haul_scope  *part = haul_scope_push();
    haul_tensor *t = haul_to(haul_full(HAUL_F32, HAUL_SHAPE(SIDE, SIDE), value), device);
    if (haul_tensor_is_valid(t))
        return haul_scope_return(part, t);
    haul_scope_pop(part);
    return NULL;
}

static haul_tensor *tensor_on(haul_device *device, float value)
{
    haul_tensor *t = try_tensor_on(device, value);
    if (!t)
        fail_msg("%s", haul_error_message());
    return t;
}

static bool is_filled(haul_tensor *t, float value)
{
    float *values = malloc(BYTES);
    bool   right = values && haul_read(t, values, BYTES) == HAUL_OK;
    for (int i = 0; right && i < SIDE * SIDE; i++)
        right = values[i] == value;
    free(values);
    return right;
}

/* It may bring memory back, which counts. */
static haul_status fill(haul__storage *to, unsigned char value)
{
    haul__command command = {.kind = HAUL__COMMAND_FILL,
                             .operation = "test",
                             .device = to->device,
                             .buffers = &(haul__region){to, 0},
                             .write_count = 1,
                             .buffer_count = 1,
                             .bytes = BYTES,
                             .pattern_size = 1};
    *(unsigned char *)&command.pattern = value;
    return haul__submit(&command);
}

/* ---- memory that must stay ---- */

static void hold(const haul_tensor *t, int by)
{
    atomic_fetch_add(&t->storage->uses->fixed, by);
}

/* It stays until nothing relies on it. */
static void test_spill_held__by_count(void **state)
{
    haul_device *device = late_device(0);
    (void)state;
    begin_limit(device, 2 * BYTES);
    haul_tensor *a = tensor_on(device, 1), *b = tensor_on(device, 2);
    assert_int_equal(fill(a->storage, 0), HAUL_OK);
    hold(a, 2);
    assert_true(is_filled(b, 2)); /* a was used longest ago */
    haul_tensor *c = tensor_on(device, 3);
    assert_true(!is_away(a) && is_away(b) && !is_away(c));
    hold(a, -1);
    haul_tensor *d = tensor_on(device, 4);
    assert_true(!is_away(a) && is_away(c) && !is_away(d));
    hold(a, -1);
    haul_tensor *e = tensor_on(device, 5);
    assert_true(is_away(a) && !is_away(d) && !is_away(e));
    assert_true(is_filled(a, 0) && is_filled(b, 2) && is_filled(c, 3) && is_filled(d, 4) && is_filled(e, 5));
    haul_drop(a);
    haul_drop(b);
    haul_drop(c);
    haul_drop(d);
    haul_drop(e);
    end_limit(device);
}

/* The square is in the arena. */
static haul_status square_and_double(void *context)
{
    haul_tensor *const *t = context;
    return haul_mul_scalar_into(t[1], haul_square(t[0]), 2);
}

/* The arena of a recording stays, though it was used longest ago, until a step runs on the device that spills: its
 * stores then have blocks of their own. */
static void test_spill_held__by_recordings(void **state)
{
    haul_device          *device = spilling(1);
    haul_recording_report report;
    (void)state;
    if (!device)
        skip();
    haul_scope     *part = haul_scope_push();
    haul_tensor    *t[] = {tensor_on(device, 3), tensor_on(device, 0)};
    haul_recording *r = haul_recording_new(square_and_double, t);
    for (int i = 0; i < 2; i++)
        assert_int_equal(haul_recording_run(r), HAUL_OK);
    assert_true(is_filled(t[0], 3) && is_filled(t[1], 18));
    assert_int_equal(haul_recording_report_get(r, &report), HAUL_OK);
    assert_true(report.followed == 1 && report.arena_bytes >= BYTES);
    begin_limit(device, 0);
    haul_tensor *a = tensor_on(device, 5);
    assert_true(is_away(t[0]) && !is_away(t[1]) && !is_away(a));
    assert_int_equal(stats_of(device).spilled, BYTES);
    assert_int_equal(haul_recording_run(r), HAUL_OK);
    assert_true(is_filled(t[1], 18) && is_filled(a, 5));
    assert_int_equal(haul_recording_report_get(r, &report), HAUL_OK);
    assert_true(report.followed == 2 && report.eager == 1 && report.arena_bytes == 0);
    haul_scope_pop(part);
    end_limit(device);
}

/* ---- scratch memory ---- */

/* The storage that was used longest ago makes room, unless the call uses it. */
static void test_spill_held__by_calls(void **state)
{
    haul_device *device = late_device(0);
    haul_scope  *part = haul_scope_push();
    haul_tensor *t[4];
    (void)state;
    begin_limit(device, 4 * BYTES);
    for (int i = 0; i < 4; i++)
        t[i] = tensor_on(device, (float)i);
    haul__storage *scratch = haul__scratch_alloc(device, BYTES, t, 2);
    assert_non_null(scratch);
    assert_int_equal(haul_error_status(), HAUL_OK);
    assert_true(!is_away(t[0]) && !is_away(t[1]) && is_away(t[2]) && !is_away(t[3]));
    haul__object_release(scratch);
    for (int i = 0; i < 4; i++)
        assert_true(is_filled(t[i], (float)i));
    haul_tensor *more = tensor_on(device, 4); /* t[0] is the oldest, and nothing holds it any more */
    assert_true(is_away(t[0]) && !is_away(more));
    haul_scope_pop(part);
    assert_true(stats_of(device).peak_reserved <= stats_of(device).limit);
    end_limit(device);
}

static void nothing_moves(haul_device *device, haul_tensor *const *used, int count)
{
    const int64_t spilled = stats_of(device).spilled_total;
    assert_null(haul__scratch_alloc(device, BYTES, used, count));
    assert_int_equal(haul_error_status(), HAUL_OK);
    assert_int_equal(stats_of(device).spilled_total, spilled);
}

/* If it would not suffice, nothing moves. */
static void test_spill_held__without_room(void **state)
{
    haul_device *device = late_device(0);
    haul_scope  *part = haul_scope_push();
    haul_tensor *t[3];
    (void)state;
    begin_limit(device, 2 * BYTES);
    for (int i = 0; i < 3; i++)
        t[i] = tensor_on(device, (float)i);
    assert_true(is_away(t[0]));
    nothing_moves(device, &t[1], 2);
    nothing_moves(device, t, 2); /* t[0] must come back */
    haul__storage *scratch = haul__scratch_alloc(device, BYTES, (haul_tensor *[]){t[0], t[0]}, 2);
    assert_non_null(scratch);
    haul__object_release(scratch);
    haul_scope_pop(part);
    end_limit(device);
}

/* A scope's limit remains one. */
static void test_spill_held__by_limits(void **state)
{
    haul_device *device = late_device(0);
    haul_scope  *part = haul_scope_push();
    (void)state;
    begin_limit(device, BYTES);
    tensor_on(device, 1);
    haul_scope *little = haul_scope_push();
    assert_int_equal(haul_scope_set_memory_limit(little, device, BYTES / 2), HAUL_OK);
    nothing_moves(device, NULL, 0);
    haul_scope_pop(little);
    haul__storage *scratch = haul__scratch_alloc(device, BYTES, NULL, 0);
    assert_non_null(scratch);
    haul__object_release(scratch);
    haul_scope_pop(part);
    end_limit(device);
}

/* ---- threads ---- */

enum { THREADS = 4, OWN = 4, FIT = 8, ROUNDS = 150 };

typedef struct worker {
    pthread_t thread;
    uint64_t  state;
    int       rounds, given;
    bool      good;
} worker;

static int draw(worker *w)
{
    w->state = w->state * 6364136223846793005u + 1442695040888963407u;
    return (int)((w->state >> 33) % OWN);
}

/* Like a library call: writes to scratch memory and to a tensor. */
static bool call(haul_tensor *t, haul_tensor *other, worker *w)
{
    haul_tensor   *used[] = {t, other};
    haul__storage *scratch = haul__scratch_alloc(t->storage->device, BYTES, used, 2);
    const bool     works = (!scratch || fill(scratch, 9) == HAUL_OK) && fill(t->storage, 0) == HAUL_OK;
    w->given += scratch != NULL;
    haul__object_release(scratch);
    return works;
}

static void *work(void *context)
{
    worker      *w = context;
    haul_scope  *part = haul_scope_push();
    haul_device *device = late_device(0);
    haul_tensor *t[OWN];
    float        values[OWN];
    for (int i = 0; i < OWN; i++) {
        values[i] = (float)i;
        t[i] = try_tensor_on(device, values[i]);
        w->good = w->good && t[i];
    }
    for (int round = 0; round < w->rounds && w->good; round++) {
        const int i = draw(w), k = draw(w);
        w->good = call(t[i], t[k], w) && is_filled(t[k], i == k ? 0 : values[k]);
        haul_drop(t[i]);
        values[i] = (float)round;
        t[i] = try_tensor_on(device, values[i]);
        w->good = w->good && t[i];
    }
    for (int i = 0; i < OWN; i++)
        w->good = w->good && is_filled(t[i], values[i]);
    haul_scope_pop(part);
    return NULL;
}

/* HAUL_TEST_ROUNDS=N makes N rounds. */
static void test_spill_held__threads(void **state)
{
    static worker workers[THREADS];
    const char   *rounds = getenv("HAUL_TEST_ROUNDS");
    haul_device  *device = late_device(0);
    int           given = 0;
    (void)state;
    begin_limit(device, FIT * BYTES);
    const int64_t spilled = stats_of(device).spilled_total;
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (worker){.state = (uint64_t)i + 1, .rounds = rounds ? atoi(rounds) : ROUNDS, .good = true};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
        assert_true(workers[i].good);
        given += workers[i].given;
    }
    assert_true(given > 0 && stats_of(device).spilled_total > spilled);
    assert_int_equal(stats_of(device).spilled, 0);
    assert_true(stats_of(device).peak_reserved <= stats_of(device).limit);
    end_limit(device);
}

/* ---- what cannot be freed ---- */

/* The rest of a block that was cut is free, but neither goes to the driver nor suffices: the search for room ends. */
static void test_spill_held__beside_a_free_piece(void **state)
{
    haul_device *device = haul_device_get("opencl:0");
    (void)state;
    if (!device || !haul__device_divides(device)) {
        haul_error_clear();
        skip();
    }
    assert_int_equal(haul_memory_release_cached(device), HAUL_OK);
    const haul_memory_stats before = stats_of(device);
    haul_drop(haul_to(haul_empty(HAUL_F32, HAUL_SHAPE(4, SIDE, SIDE)), device));
    haul_tensor *part = tensor_on(device, 1);
    begin_limit(device, 0);
    hold(part, 1);
    assert_int_equal(stats_of(device).reserved, before.reserved + 4 * BYTES);
    assert_int_equal(stats_of(device).allocated, before.allocated + BYTES);
    assert_false(haul_tensor_is_valid(haul_to(haul_empty(HAUL_F32, HAUL_SHAPE(4, SIDE, SIDE)), device)));
    assert_int_equal(haul_error_status(), HAUL_OUT_OF_MEMORY);
    haul_error_clear();
    hold(part, -1);
    haul_drop(part);
    end_limit(device);
}

#define HELD_TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        HELD_TEST(test_spill_held__by_count),  HELD_TEST(test_spill_held__by_recordings),
        HELD_TEST(test_spill_held__by_calls),  HELD_TEST(test_spill_held__without_room),
        HELD_TEST(test_spill_held__by_limits), HELD_TEST(test_spill_held__beside_a_free_piece),
        HELD_TEST(test_spill_held__threads),
    };
    return run_moves("spill_held", tests, sizeof tests / sizeof tests[0]);
}
