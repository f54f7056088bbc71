/* Placement on more than two devices: random graphs against all placements, with and without memory limits, and
 * certificates that are checked, tampered with and checked again. */
#include <haul/haul.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "plan/place/certificate.h"
#include "plan/verify/verify.h"
#include "support/every_placement.h"
#include "support/random.h"

/* ---- random graphs ---- */

/* Links of different speeds in each direction, so that a copy is sometimes shorter from another device. */
static void make_tensor(haul__place_graph *g, int operation)
{
    const int64_t      bytes = 1024 * (1 + below(60)), latency = below(400);
    haul__place_copies copies;
    haul__place_tensor t = {.producer = operation,
                            .from = below(8) ? operation : 0,
                            .until = operation,
                            .bytes = bytes,
                            .home_bytes = below(10) ? bytes : 0};
    for (int from = 0; from < g->device_count; from++)
        for (int to = 0; to < g->device_count; to++)
            copies.ps[from][to] = from == to ? 0 : latency + bytes * (5 + below(40)) / 1024;
    assert_true(haul__place_add_tensor(g, &t, &copies) >= 0);
}

static haul__place_operation make_operation(const haul__place_graph *g, int i)
{
    haul__place_operation o = {.name = "work", .call = i};
    const int             pin = below(6) == 0 ? (int)below(g->device_count) : -1;
    for (int d = 0; d < g->device_count; d++) {
        o.cost[d] = below(2500);
        if (pin >= 0 && pin != d)
            o.cost[d] = HAUL__PLACE_NEVER;
    }
    return o;
}

static haul__place_graph make_graph(uint64_t seed, int devices, int operations)
{
    haul__place_graph g = {.device_count = devices};
    random_state = seed * 7919 + 1;
    for (int i = 0; i < operations; i++) {
        haul__place_operation o = make_operation(&g, i);
        assert_int_equal(haul__place_add_operation(&g, &o), i);
        if (i > 3 && below(8) == 0)
            haul__place_join(&g, i, (int)below(i));
        for (int64_t k = i ? 1 + below(3) : 0; k > 0 && g.tensor_count; k--)
            assert_int_equal(haul__place_add_use(&g, (int)below((int64_t)g.tensor_count), i), HAUL_OK);
        for (int64_t k = 1 + below(2); k > 0; k--)
            make_tensor(&g, i);
    }
    return g;
}

/* Groups whose pins leave no device are drawn again. */
static uint64_t draw_graph(uint64_t seed, int devices, int operations, haul__place_graph *out)
{
    for (;; seed += 100000) {
        *out = make_graph(seed, devices, operations);
        if (haul__place_finish(out) == HAUL_OK)
            return seed;
        haul__place_free(out);
        haul_error_clear();
    }
}

/* ---- certificates ---- */

static const char *const devices[] = {"cpu",    "cuda:0", "cuda:1", "cuda:2", "cuda:3",
                                      "cuda:4", "cuda:5", "cuda:6", "cuda:7"};

static char *certify(const haul__place_graph *g, const haul__placement *p)
{
    char *text = haul__certificate_text(&(haul__certificate){g, p, "0123456789abcdef", "fedcba9876543210", devices});
    assert_non_null(text);
    return text;
}

static bool accepts(const char *text, haul__verdict *out)
{
    haul__json *json = NULL;
    size_t      used;
    *out = (haul__verdict){0};
    assert_int_equal(haul__json_read("test", (const uint8_t *)text, strlen(text), 8, &json, &used), HAUL_OK);
    const bool fine = json && haul__verify(json, out);
    haul__json_free(json);
    return fine;
}

/* It is accepted, and read back it is the same graph and placement. */
static void check_certificate(const haul__place_graph *g, const haul__placement *p)
{
    haul__verdict     verdict;
    haul__place_graph graph;
    haul__placement   placement;
    haul__json       *json;
    size_t            used;
    char             *text = certify(g, p);
    if (!accepts(text, &verdict))
        fail_msg("%s[%lld]: %s\n%s", verdict.member, (long long)verdict.item, verdict.why_not, text);
    assert_int_equal(verdict.cost, p->cost);
    assert_int_equal(verdict.bound, p->proof.bound);
    assert_int_equal(haul__json_read("test", (const uint8_t *)text, strlen(text), 8, &json, &used), HAUL_OK);
    assert_int_equal(haul__certificate_read(json, "file", "test", &graph, &placement), HAUL_OK);
    char *again = certify(&graph, &placement);
    assert_string_equal(text, again);
    haul__json_free(json);
    haul__free(text);
    haul__free(again);
    haul__place_free(&graph);
    haul__placement_free(&placement);
}

/* ---- against all placements ---- */

typedef struct gaps {
    int    count, exact;
    double plan, worst, bound; /* sums of shares of the least cost, and the highest one */
} gaps;

static void add_gap(gaps *s, const haul__placement *p, int64_t least)
{
    const double above = (double)(p->cost - least) / (double)least;
    assert_true(p->proof.bound <= least && least <= p->cost);
    s->count++;
    s->exact += p->cost == least;
    s->plan += above;
    s->worst = above > s->worst ? above : s->worst;
    s->bound += (double)(least - p->proof.bound) / (double)least;
}

static void print_gaps(const gaps *s)
{
    print_message(
        "%d of %d plans are the best; they are %.2f %% above it in the mean and %.1f %% at most, and the bound "
        "is %.1f %% below it in the mean\n",
        s->exact, s->count, 100 * s->plan / s->count, 100 * s->worst, 100 * s->bound / s->count);
}

/* Never dearer than everything on one device, or the best placement on two. */
static void check_against_fewer(const haul__place_graph *g, int64_t cost)
{
    for (int i = 0; i < g->device_count; i++) {
        haul__placement single;
        assert_int_equal(haul__place_single(g, i, &single), HAUL_OK);
        assert_true(cost <= single.cost);
        haul__placement_free(&single);
        for (int j = 0; j < i; j++)
            assert_true(cost <= least_of_all(g, 1U << i | 1U << j, false));
    }
}

static void test_place_many__is_near_the_best(void **context)
{
    gaps s = {0};
    (void)context;
    for (uint64_t seed = 1; seed <= (uint64_t)some_of(500); seed++) {
        haul__place_graph g;
        haul__placement   p;
        draw_graph(seed, 3, 8 + (int)(seed % 5), &g);
        assert_int_equal(haul__place_solve(&g, &p), HAUL_OK);
        assert_int_equal(p.cost, haul__place_cost(&g, p.device));
        add_gap(&s, &p, least_of_all(&g, 7, false));
        check_against_fewer(&g, p.cost);
        check_certificate(&g, &p);
        haul__placement_free(&p);
        haul__place_free(&g);
    }
    print_gaps(&s);
    assert_true(s.worst <= 0.10 && s.plan / s.count <= 0.01 && s.bound / s.count <= 0.05);
}

/* ---- limits ---- */

static void limit(haul__place_graph *g)
{
    haul__placement p;
    assert_int_equal(haul__place_solve(g, &p), HAUL_OK);
    for (int d = 0; d < g->device_count; d++)
        if (p.peaks[d].bytes && below(2))
            g->limit[d] = p.peaks[d].bytes * (60 + below(50)) / 100 + 1;
    haul__placement_free(&p);
}

static void test_place_many__keeps_limits(void **context)
{
    gaps s = {0};
    (void)context;
    for (uint64_t seed = 1; seed <= (uint64_t)some_of(150); seed++) {
        haul__place_graph g;
        haul__placement   p;
        draw_graph(1000 + seed, 3, 8 + (int)(seed % 3), &g);
        limit(&g);
        const int64_t     least = least_of_all(&g, 7, true);
        const haul_status status = haul__place_solve(&g, &p);
        assert_int_equal(status, least == INT64_MAX ? HAUL_OUT_OF_MEMORY : HAUL_OK);
        if (!status) {
            assert_true(haul__place_fits(&g, p.peaks));
            add_gap(&s, &p, least);
            check_certificate(&g, &p);
            haul__placement_free(&p);
        }
        haul__place_free(&g);
    }
    print_gaps(&s);
    assert_true(s.count >= some_of(80) && s.worst <= 0.10 && s.plan / s.count <= 0.02);
    haul_error_clear();
}

/* Prices of memory are in the certificate, and raise the bound above that without limits. */
static void test_place_many__prices_memory(void **context)
{
    int    raised = 0, count = 0;
    double sum = 0;
    (void)context;
    for (uint64_t seed = 1; seed <= (uint64_t)some_of(60); seed++) {
        haul__place_graph g;
        haul__placement   free, p;
        draw_graph(4000 + seed, 3, 8 + (int)(seed % 5), &g);
        assert_int_equal(haul__place_solve(&g, &free), HAUL_OK);
        int most = free.peaks[1].bytes > free.peaks[0].bytes;
        most = free.peaks[2].bytes > free.peaks[most].bytes ? 2 : most;
        g.limit[most] = free.peaks[most].bytes * 7 / 10;
        if (!haul__place_solve(&g, &p)) {
            char *text = certify(&g, &p);
            assert_true(p.proof.bound <= p.cost && p.cost >= free.proof.bound);
            assert_true(p.proof.price_count == 0 || !strstr(text, "\"prices\":[]"));
            check_certificate(&g, &p);
            raised += p.proof.price_count > 0 && p.proof.bound > free.proof.bound;
            sum += p.proof.bound > free.proof.bound ? (double)p.proof.bound / (double)free.proof.bound - 1 : 0;
            count++;
            haul__free(text);
            haul__placement_free(&p);
        }
        haul__placement_free(&free);
        haul__place_free(&g);
    }
    print_message("%d of %d bounds are higher with limits, by %.1f %% in the mean\n", raised, count, 100 * sum / count);
    assert_true(raised > count / 3);
    haul_error_clear();
}

/* ---- more devices ---- */

static void test_place_many__takes_nine_devices(void **context)
{
    (void)context;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        haul__place_graph g;
        haul__placement   p;
        draw_graph(2000 + seed, 9, 60, &g);
        assert_int_equal(haul__place_solve(&g, &p), HAUL_OK);
        assert_true(p.proof.bound <= p.cost && p.proof.bound > p.cost / 2);
        for (int d = 0; d < 9; d++) {
            haul__placement single;
            assert_int_equal(haul__place_single(&g, d, &single), HAUL_OK);
            assert_true(p.cost <= single.cost);
            haul__placement_free(&single);
        }
        check_certificate(&g, &p);
        haul__placement_free(&p);
        haul__place_free(&g);
    }
}

/* ---- tampering ---- */

/* The text with another number at a random place of the member's array. */
static char *change_number(const char *text, const char *member)
{
    const char  *from = strstr(text, member);
    const size_t length = strcspn(from, "}");
    for (;;) {
        size_t at = (size_t)(from - text) + strlen(member) + (size_t)below((int64_t)(length - strlen(member)));
        if (!strchr("0123456789", text[at]))
            continue;
        while (strchr("0123456789", text[at - 1]))
            at--;
        const int64_t old = strtoll(text + at, NULL, 10), next = old + (below(2) ? 1 + below(40) : -1 - below(3));
        char         *out =
            haul__format("%.*s%lld%s", (int)at, text, (long long)next, text + at + strspn(text + at, "0123456789"));
        assert_non_null(out);
        return out;
    }
}

/* An operation on another device. */
static char *move_operation(const char *text)
{
    static const char name[] = "\"device\":\"";
    const char       *at = strstr(text, "\"operations\"");
    for (int64_t skip = below(8); skip >= 0 && strstr(at, name); skip--)
        at = strstr(at, name) + strlen(name);
    char *out = haul__format("%.*s%s%s", (int)(at - text), text, devices[below(3)], strchr(at, '"'));
    assert_non_null(out);
    return out;
}

static char *tamper(const char *text)
{
    if (!strstr(text, "\"prices\":[]") && below(3) == 0)
        return change_number(text, "\"prices\":[");
    switch (below(4)) {
    case 0: return change_number(text, "\"cost_ps\":");
    case 1: return change_number(text, "\"bound_ps\":");
    case 2: return move_operation(text);
    default: return change_number(text, "\"shares\":[");
    }
}

/* The cost of the placement in a text. */
static int64_t cost_in(const haul__place_graph *g, const char *text)
{
    uint8_t     place[64];
    const char *at = strstr(text, "\"operations\"");
    for (size_t i = 0; i < g->operation_count; i++) {
        at = strstr(at, "\"device\":\"") + strlen("\"device\":\"");
        place[g->operations[i].group] = strncmp(at, "cpu", 3) ? (uint8_t)(at[5] - '0' + 1) : 0;
    }
    return haul__place_cost(g, place);
}

static void test_place_many__refuses_false_certificates(void **context)
{
    int accepted = 0, refused = 0;
    (void)context;
    for (uint64_t seed = 1; seed <= (uint64_t)some_of(100); seed++) {
        haul__place_graph g;
        haul__placement   p;
        haul__verdict     verdict;
        draw_graph(3000 + seed, 3, 8 + (int)(seed % 3), &g);
        assert_int_equal(haul__place_solve(&g, &p), HAUL_OK);
        if (seed % 2) { /* with prices of memory */
            limit(&g);
            haul__placement_free(&p);
            if (haul__place_solve(&g, &p)) {
                haul__place_free(&g);
                continue;
            }
        }
        const int64_t least = least_of_all(&g, 7, true);
        char         *text = certify(&g, &p);
        for (int i = 0; i < 20; i++) {
            char *other = tamper(text);
            if (accepts(other, &verdict)) {
                assert_int_equal(verdict.cost, cost_in(&g, other));
                assert_true(verdict.bound <= least);
                accepted++;
            } else {
                assert_true(verdict.member && verdict.why_not);
                refused++;
            }
            haul__free(other);
        }
        haul__free(text);
        haul__placement_free(&p);
        haul__place_free(&g);
    }
    print_message("%d tampered certificates accepted, which are true, and %d refused\n", accepted, refused);
    assert_true(refused > some_of(800));
    haul_error_clear();
}

/* ---- failures ---- */

static void test_place_many__survives_failing_allocations(void **context)
{
    (void)context;
    haul__place_graph g;
    draw_graph(11, 3, 9, &g);
    limit(&g);
    const int64_t blocks = haul__counted_blocks();
    for (int64_t nth = 1, failed = true; failed && nth < 400; nth += 1 + nth / 20) {
        haul__placement p;
        haul__fault_plan(HAUL__FAULT_HOST, nth);
        failed = haul__place_solve(&g, &p) != HAUL_OK;
        haul__fault_plan(0, 0);
        assert_true(!failed || haul_error_status() == HAUL_OUT_OF_MEMORY);
        if (!failed)
            haul__placement_free(&p);
        assert_int_equal(haul__counted_blocks(), blocks);
    }
    haul__place_free(&g);
    haul_error_clear();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_place_many__is_near_the_best),
        cmocka_unit_test(test_place_many__keeps_limits),
        cmocka_unit_test(test_place_many__prices_memory),
        cmocka_unit_test(test_place_many__takes_nine_devices),
        cmocka_unit_test(test_place_many__refuses_false_certificates),
        cmocka_unit_test(test_place_many__survives_failing_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
