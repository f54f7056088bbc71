/* Moves in which every failure is provoked, and moves that race.
 * ctest: cuda-random; env=POCL_DEVICES=pthread pthread; labels=threads */
#include "support/moves.h"

/* ---- failures ---- */

/* A chain of moves in which every kind of failure is provoked at every place. */
static bool chain(void)
{
    float       back[12] = {0};
    haul_scope *inner = haul_scope_push();
    if (!inner)
        return false;
    haul_tensor *x = haul_from_host(HAUL_F32, HAUL_SHAPE(3, 4), (float[12]){1, 2, 3});
    haul_tensor *y =
        haul_tensor_is_valid(x) ? haul_to(transposed(x), device_count > 1 ? devices[1] : late_device(0)) : NULL;
    haul_tensor *z = haul_tensor_is_valid(y) ? haul_identity(y, late_device(1)) : NULL;
    haul_tensor *w = haul_tensor_is_valid(z) ? haul_to(z, haul_cpu()) : NULL;
    bool         good = haul_tensor_is_valid(w) && haul_read(w, back, sizeof back) == HAUL_OK && back[3] == 2;
    haul_scope_pop(inner);
    return good;
}

static void test_transfer__every_failure_is_reported_and_leaves_nothing(void **state)
{
    static const unsigned kinds[] = {HAUL__FAULT_HOST, HAUL__FAULT_DEVICE, HAUL__FAULT_COPY, HAUL__FAULT_LAUNCH};
    haul_memory_stats     before[3], after;
    haul_device          *used[] = {haul_cpu(), late_device(1), device_count > 1 ? devices[1] : late_device(0)};
    (void)state;
    assert_true(chain());
    for (int i = 0; i < 3; i++)
        haul_memory_stats_get(used[i], &before[i]);
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        haul__fault_plan(kinds[k], INT64_MAX);
        assert_true(chain());
        int64_t count = haul__fault_count();
        assert_true(count > 0 || kinds[k] == HAUL__FAULT_HOST);
        for (int64_t nth = 1; nth <= count; nth++) {
            haul_error_clear();
            haul__fault_plan(kinds[k], nth);
            bool good = chain();
            haul__fault_plan(0, 0);
            /* memory for an event may be missing without harm */
            assert_true(good ? kinds[k] == HAUL__FAULT_HOST : haul_error_status() != HAUL_OK);
        }
    }
    haul_error_clear();
    assert_true(chain());
    for (int i = 0; i < 3; i++) {
        haul_memory_stats_get(used[i], &after);
        assert_int_equal(after.live_blocks, before[i].live_blocks);
        assert_int_equal(after.allocated, before[i].allocated);
    }
}

/* ---- races ---- */

/* Tensors of a few sizes wander between devices under a random schedule of moves, writes, copies and drops; the
 * expected values are kept in host memory and compared whenever one is looked at. A wait that is missing anywhere shows
 * as a wrong value. */
enum { WANDERERS = 12, SIZES = 3 };
static const int64_t sizes[SIZES] = {100, 5000, 70000};

typedef struct wanderer {
    haul_tensor *t;
    int32_t      value; /* element i is value + i */
    int          size;
} wanderer;

typedef struct race {
    haul_device **places;
    int           place_count, steps;
    uint32_t      random;
    int32_t       next_value;
    int32_t      *buffer;
    bool          good;
    wanderer      w[WANDERERS];
} race;

static uint32_t draw(race *r, uint32_t below)
{
    r->random = r->random * 1664525u + 1013904223u;
    return (uint32_t)(((uint64_t)r->random * below) >> 32);
}

static void fill_buffer(race *r, const wanderer *w)
{
    for (int64_t i = 0; i < sizes[w->size]; i++)
        r->buffer[i] = w->value + (int32_t)i;
}

static void renew(race *r, wanderer *w)
{
    if (haul_tensor_is_valid(w->t))
        haul_drop(w->t);
    w->size = (int)draw(r, SIZES);
    w->value = r->next_value += 100003;
    fill_buffer(r, w);
    haul_set_device(r->places[draw(r, (uint32_t)r->place_count)]);
    w->t = haul_from_host(HAUL_I32, HAUL_SHAPE(sizes[w->size]), r->buffer);
}

/* A third of the moves go by another place and another dtype, if that place has kernels. */
static void move_over(race *r, wanderer *to, const wanderer *from)
{
    haul_device *place = r->places[draw(r, (uint32_t)r->place_count)];
    haul_device *between = r->places[draw(r, (uint32_t)r->place_count)];
    const bool   converts = draw(r, 3) == 0 && (haul__device_is_host(between) || haul__device_reaches_host(between));
    haul_tensor *moved = converts ? haul_to(haul_to(from->t, between, .dtype = HAUL_I64), place, .dtype = HAUL_I32)
                                  : haul_identity(from->t, place);
    if (haul_tensor_is_valid(to->t))
        haul_drop(to->t);
    *to = (wanderer){moved, from->value, from->size};
}

static void overwrite(race *r, wanderer *w)
{
    w->value = r->next_value += 100003;
    fill_buffer(r, w);
    haul_write(w->t, r->buffer, (size_t)sizes[w->size] * 4);
}

static void overwrite_mapped(race *r, wanderer *w)
{
    int32_t *memory = haul_map(w->t, HAUL_READ | HAUL_WRITE);
    if (!memory)
        return;
    r->good = r->good && memory[7] == w->value + 7;
    w->value = r->next_value += 100003;
    for (int64_t i = 0; i < sizes[w->size]; i++)
        memory[i] = w->value + (int32_t)i;
    haul_unmap(w->t);
}

static void look(race *r, const wanderer *w)
{
    if (haul_read(w->t, r->buffer, (size_t)sizes[w->size] * 4))
        return;
    for (int64_t i = 0; i < sizes[w->size]; i++)
        r->good = r->good && r->buffer[i] == w->value + (int32_t)i;
}

static void *run_race(void *context)
{
    race       *r = context;
    haul_scope *inner = haul_scope_push();
    r->buffer = malloc((size_t)sizes[SIZES - 1] * 4);
    r->good = inner && r->buffer;
    for (int i = 0; i < WANDERERS && r->good; i++)
        renew(r, &r->w[i]);
    for (int i = 0; i < r->steps && r->good && haul_error_status() == HAUL_OK; i++) {
        wanderer *a = &r->w[draw(r, WANDERERS)], *b = &r->w[draw(r, WANDERERS)];
        switch (draw(r, 8)) {
        case 0: renew(r, a); break;
        case 1: overwrite(r, a); break;
        case 2: overwrite_mapped(r, a); break;
        case 3: look(r, a); break;
        case 4:
            if (a->size == b->size && a != b && haul_copy_into(a->t, b->t) == HAUL_OK)
                a->value = b->value;
            break;
        default:
            if (a != b)
                move_over(r, a, b);
        }
    }
    for (int i = 0; i < WANDERERS && r->good; i++)
        look(r, &r->w[i]);
    r->good = r->good && haul_error_status() == HAUL_OK;
    free(r->buffer);
    haul_scope_pop(inner);
    return NULL;
}

/* HAUL_TEST_ROUNDS=N makes N rounds. */
static int rounds_or(int usual)
{
    const char *rounds = getenv("HAUL_TEST_ROUNDS");
    return rounds ? atoi(rounds) : usual;
}

static void race_on(haul_device **places, int place_count, int steps, int rounds)
{
    for (int round = 1; round <= rounds_or(rounds); round++) {
        race r = {
            .places = places, .place_count = place_count, .steps = steps, .random = (uint32_t)round * 2654435761u};
        run_race(&r);
        if (!r.good)
            fail_msg("round %d: %s", round, haul_error_status() ? haul_error_message() : "a wrong value");
    }
}

static void test_race__late_devices(void **state)
{
    haul_device *places[] = {haul_cpu(), late_device(0), late_device(1)};
    (void)state;
    race_on(places, 3, 400, 20);
}

static void test_race__real_devices(void **state)
{
    (void)state;
    race_on(devices, device_count, 1500, 6);
}

static void test_race__both_kinds(void **state)
{
    haul_device *places[18] = {late_device(0), late_device(1)};
    (void)state;
    for (int i = 0; i < device_count; i++)
        places[i + 2] = devices[i];
    race_on(places, device_count + 2, 1000, 4);
}

static void race_in_threads(haul_device **places, int place_count, uint32_t random)
{
    pthread_t threads[3];
    race      races[3];
    for (int i = 0; i < 3; i++) {
        races[i] = (race){.places = places, .place_count = place_count, .steps = 800, .random = random + (uint32_t)i};
        assert_int_equal(pthread_create(&threads[i], NULL, run_race, &races[i]), 0);
    }
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
        assert_true(races[i].good);
    }
}

static void test_race__threads_share_devices(void **state)
{
    haul_device *places[18] = {late_device(0), late_device(1)};
    (void)state;
    for (int i = 0; i < device_count; i++)
        places[i + 2] = devices[i];
    for (int round = 0; round < rounds_or(1); round++)
        race_in_threads(places, device_count + 2, 77u + 3u * (uint32_t)round);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_transfer__every_failure_is_reported_and_leaves_nothing),
        TEST(test_race__late_devices),
        TEST(test_race__real_devices),
        TEST(test_race__both_kinds),
        TEST(test_race__threads_share_devices),
    };
    return run_moves("transfer_races", tests, sizeof tests / sizeof tests[0]);
}
