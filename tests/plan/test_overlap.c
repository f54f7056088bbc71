/* Placements with short makespans: random graphs on three devices against all placements, and against the sums. */
#include <haul/haul.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "plan/graph/makespan.h"
#include "plan/graph/overlap.h"
#include "support/random.h"

/* ---- random graphs ---- */

static void make_tensor(haul__place_graph *g, int operation)
{
    const int64_t            bytes = 1024 * (1 + below(60)), latency = below(400);
    haul__place_copies       copies = {.ps = {{0}}};
    const haul__place_tensor t = {
        .producer = operation, .from = operation, .until = operation, .bytes = bytes, .home_bytes = bytes};
    for (int from = 0; from < g->device_count; from++)
        for (int to = 0; to < g->device_count; to++)
            copies.ps[from][to] = from == to ? 0 : latency + bytes * (5 + below(20)) / 1024;
    assert_true(haul__place_add_tensor(g, &t, &copies) >= 0);
}

static haul__place_graph make_graph(uint64_t seed, int devices, int operations)
{
    haul__place_graph g = {.device_count = devices};
    random_state = seed * 7919 + 1;
    for (int i = 0; i < operations; i++) {
        haul__place_operation o = {.name = "work", .call = i};
        for (int d = 0; d < devices; d++)
            o.cost[d] = 1 + below(2500);
        if (below(8) == 0)
            o.cost[below(devices)] = HAUL__PLACE_NEVER;
        snprintf(o.module, sizeof o.module, "%s", below(3) ? "" : i % 2 ? "odd" : "even");
        assert_int_equal(haul__place_add_operation(&g, &o), i);
        if (i > 3 && below(10) == 0)
            haul__place_join(&g, i, (int)below(i));
        for (int64_t k = i ? 1 + below(2) : 0; k > 0; k--)
            assert_int_equal(haul__place_add_use(&g, (int)below((int64_t)g.tensor_count), i), HAUL_OK);
        make_tensor(&g, i);
    }
    return g;
}

/* Groups that no device can run are drawn again. */
static void draw_graph(uint64_t seed, int devices, int operations, haul__place_graph *out)
{
    for (;; seed += 100000) {
        *out = make_graph(seed, devices, operations);
        if (haul__place_finish(out) == HAUL_OK)
            return;
        haul__place_free(out);
        haul_error_clear();
    }
}

/* ---- against all placements ---- */

typedef struct every {
    const haul__place_graph *g;
    haul__makespan           m;
    uint8_t                  place[64];
    int64_t                  scratch[HAUL__PLACE_DEVICES * 65];
    int64_t                  least;
} every;

static bool keeps_limits(every *e)
{
    haul__place_peak peaks[HAUL__PLACE_DEVICES];
    haul__place_peaks(e->g, e->place, e->scratch, peaks);
    return haul__place_fits(e->g, peaks);
}

static void try_all(every *e, size_t next)
{
    if (next < e->g->group_count) {
        for (int d = 0; d < e->g->device_count; d++)
            if (haul__place_allows(e->g, (int)next, d)) {
                e->place[next] = (uint8_t)d;
                try_all(e, next + 1);
            }
        return;
    }
    const int64_t ps = haul__makespan_of(&e->m, e->place, NULL);
    if (ps < e->least && keeps_limits(e))
        e->least = ps;
}

static int64_t shortest(const haul__place_graph *g)
{
    every e = {.g = g, .least = INT64_MAX};
    assert_int_equal(haul__makespan_new(g, &e.m), HAUL_OK);
    try_all(&e, 0);
    haul__makespan_free(&e.m);
    return e.least;
}

static int64_t makespan(const haul__place_graph *g, const uint8_t *place)
{
    haul__makespan m;
    assert_int_equal(haul__makespan_new(g, &m), HAUL_OK);
    const int64_t ps = haul__makespan_of(&m, place, NULL);
    assert_int_equal(haul__makespan_of(&m, place, NULL), ps); /* nothing of the first time is left */
    haul__makespan_free(&m);
    return ps;
}

static void limit(haul__place_graph *g)
{
    haul__placement p;
    assert_int_equal(haul__place_solve(g, &p), HAUL_OK);
    for (int d = 0; d < g->device_count; d++)
        g->limit[d] = p.peaks[d].bytes + 1024 * (1 + below(60));
    haul__placement_free(&p);
}

static void compare(int devices, int count, bool limited)
{
    int    exact = 0;
    double sum = 0, worst = 0, cheapest = 0;
    for (uint64_t seed = 1; seed <= (uint64_t)count; seed++) {
        haul__place_graph g;
        haul__placement   p;
        int64_t           first, ps;
        draw_graph(seed + (limited ? 5000 : 0), devices, 6 + (int)(seed % 4), &g);
        if (limited)
            limit(&g);
        const int64_t least = shortest(&g);
        assert_int_equal(haul__place_solve(&g, &p), HAUL_OK);
        const int64_t before = makespan(&g, p.device);
        assert_true(before <= p.cost);
        assert_int_equal(haul__place_overlap(&g, p.device, &first, &ps), HAUL_OK);
        assert_int_equal(first, before);
        assert_int_equal(ps, makespan(&g, p.device));
        assert_true(least <= ps && ps <= before);
        assert_int_equal(haul__place_measure(&g, &p), HAUL_OK);
        assert_true(haul__place_fits(&g, p.peaks));
        const double above = (double)(ps - least) / (double)least;
        exact += ps == least;
        sum += above;
        worst = above > worst ? above : worst;
        cheapest += (double)(before - least) / (double)least;
        haul__placement_free(&p);
        haul__place_free(&g);
    }
    print_message(
        "%d of %d are the shortest; they are %.2f %% above it in the mean and %.1f %% at most, and the cheapest "
        "placements %.1f %% in the mean\n",
        exact, count, 100 * sum / count, 100 * worst, 100 * cheapest / count);
    assert_true(worst <= 0.10 && sum <= 0.01 * count);
}

static void test_overlap__is_near_the_shortest(void **state)
{
    (void)state;
    compare(3, some_of(200), false);
    compare(2, some_of(200), false);
}

static void test_overlap__keeps_limits(void **state)
{
    (void)state;
    compare(3, some_of(60), true);
}

/* ---- the makespan of known placements ---- */

/* a feeds b on device 1 and c on device 2; both feed d on the host. */
static void test_overlap__counts_what_works_at_the_same_time(void **state)
{
    haul__place_graph g = {.device_count = 3};
    (void)state;
    for (int i = 0; i < 4; i++) {
        const haul__place_operation o = {.name = "work", .call = i, .cost = {100, 100, 100}};
        haul__place_copies          copies;
        const haul__place_tensor    t = {.producer = i, .from = i, .until = i, .bytes = 1024, .home_bytes = 1024};
        assert_int_equal(haul__place_add_operation(&g, &o), i);
        if (i == 1 || i == 2)
            assert_int_equal(haul__place_add_use(&g, 0, i), HAUL_OK);
        for (int k = 0; i == 3 && k < 2; k++)
            assert_int_equal(haul__place_add_use(&g, 1 + k, i), HAUL_OK);
        for (int k = 0; k < 9; k++)
            copies.ps[k / 3][k % 3] = k / 3 == k % 3 ? 0 : 10;
        assert_true(haul__place_add_tensor(&g, &t, &copies) >= 0);
    }
    assert_int_equal(haul__place_finish(&g), HAUL_OK);
    assert_int_equal(makespan(&g, (const uint8_t[]){0, 1, 2, 0}), 100 + 10 + 100 + 10 + 100);
    /* a copy waits for all work that its device was given before it */
    assert_int_equal(makespan(&g, (const uint8_t[]){0, 1, 1, 0}), 100 + 10 + 200 + 10 + 10 + 100);
    assert_int_equal(makespan(&g, (const uint8_t[]){1, 1, 1, 1}), 400);
    assert_int_equal(makespan(&g, (const uint8_t[]){0, 0, 1, 0}), 100 + 100 + 10 + 100 + 10 + 100); /* the host waits */
    haul__place_free(&g);
}

static void test_overlap__survives_failing_allocations(void **state)
{
    haul__place_graph g;
    haul__placement   p;
    int64_t           before, ps;
    (void)state;
    draw_graph(11, 3, 9, &g);
    assert_int_equal(haul__place_solve(&g, &p), HAUL_OK);
    const int64_t blocks = haul__counted_blocks();
    for (int64_t nth = 1, failed = true; failed && nth < 400; nth++) {
        haul__fault_plan(HAUL__FAULT_HOST, nth);
        failed = haul__place_overlap(&g, p.device, &before, &ps) != HAUL_OK;
        haul__fault_plan(0, 0);
        assert_true(!failed || haul_error_status() == HAUL_OUT_OF_MEMORY);
        assert_int_equal(haul__counted_blocks(), blocks);
    }
    haul__placement_free(&p);
    haul__place_free(&g);
    haul_error_clear();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_overlap__is_near_the_shortest),
        cmocka_unit_test(test_overlap__keeps_limits),
        cmocka_unit_test(test_overlap__counts_what_works_at_the_same_time),
        cmocka_unit_test(test_overlap__survives_failing_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
