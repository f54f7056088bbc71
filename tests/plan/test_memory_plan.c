/* What of a step stays in memory: plans for random steps against all choices, bounds, and steps computed by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/numbers.h"
#include "plan/memory/bound.h"
#include "plan/memory/solve.h"
#include "support/random.h"

/* ---- random steps ---- */

enum { MOST_LAYERS = 7, MOST_SEGMENTS = 3 };

/* Layer i runs at operation i, and backwards at 2 * layers - 1 - i, where it uses its result and its input. */
static haul__memory_tensor result_of(int layer, int layers)
{
    const int           own = 2 * layers - 1 - layer, next = 2 * layers - 2 - layer;
    const int64_t       kib = 1 + below(60);
    haul__memory_tensor t = {.bytes = 1024 * kib,
                             .size = 1024 * kib,
                             .from = layer,
                             .until = own,
                             .leave = layer + 1 < layers ? layer + 1 : layer,
                             .back = below(3) ? next : own,
                             .out = 50 + kib * (5 + below(40)),
                             .in = below(6) ? 50 + kib * (5 + below(40)) : -1,
                             .segment = -1,
                             .drop = layer + 1 < layers ? layer + 1 : layer};
    if (t.back <= t.leave)
        t.back = own;
    return t;
}

static void make_model(haul__memory_model *m, uint64_t seed)
{
    random_state = seed * 7919 + 1;
    const int layers = 3 + (int)below(MOST_LAYERS - 2), segments = (int)below(MOST_SEGMENTS + 1);
    assert_int_equal(haul__memory_model_new(m, 2 * layers, layers, segments, segments), HAUL_OK);
    for (int i = 0; i < 2 * layers; i++) {
        m->time[i] = below(3000);
        m->fixed[i] = 1024 * below(40);
        m->own[i] = i < layers ? m->fixed[i] / 2 : 0;
    }
    for (int i = 0; i < layers; i++)
        m->tensors[i] = result_of(i, layers);
    int next = (int)below(2);
    for (int s = 0; s < segments; s++) {
        const int last = (int)smaller(next + below(3), layers - 1);
        if (next >= layers) {
            m->segment_count = s;
            break;
        }
        m->segments[s] = (haul__memory_segment){
            .first = next, .last = last, .back = 2 * layers - 1 - last, .around = 1024 * below(30), .read = s};
        for (int i = next; i <= last; i++)
            m->tensors[i].segment = s;
        m->segments[s].read_count = next > 0;
        m->reads[s] = next - 1;
        next = last + 1 + (int)below(2);
    }
    m->overlaps = seed % 2;
}

/* A limit between the least that a choice needs and the need without a limit. */
static void set_limit(haul__memory_model *m)
{
    haul__memory_work   w;
    uint8_t             none[MOST_LAYERS + MOST_SEGMENTS] = {0};
    haul__memory_choice c = {none, none};
    m->limit = INT64_C(1) << 40;
    assert_int_equal(haul__memory_work_new(&w, m), HAUL_OK);
    const int64_t peak = haul__memory_try(&w, &c).peak, least = haul__memory_least(m);
    assert_true(least <= peak);
    m->limit = least + below(peak - least + 1);
    haul__memory_work_free(&w);
}

/* ---- all choices ---- */

/* The least time of a choice that fits; -1: none does. */
static int64_t least_time(const haul__memory_model *m)
{
    haul__memory_work   w;
    uint8_t             bits[MOST_LAYERS + MOST_SEGMENTS];
    haul__memory_choice c = {bits, bits + m->tensor_count};
    int64_t             least = -1;
    assert_int_equal(haul__memory_work_new(&w, m), HAUL_OK);
    for (int set = 0; set < 1 << (m->tensor_count + m->segment_count); set++) {
        bool valid = true;
        for (int i = 0; i < m->tensor_count + m->segment_count; i++) {
            bits[i] = set >> i & 1;
            valid = valid && !(i < m->tensor_count && bits[i] && m->tensors[i].in < 0);
        }
        const haul__memory_figures f = haul__memory_try(&w, &c);
        if (valid && !f.over && (least < 0 || f.ps < least))
            least = f.ps;
    }
    haul__memory_work_free(&w);
    return least;
}

static void test_memory_plan__against_all_choices(void **state)
{
    (void)state;
    const int programs = some_of(500);
    int64_t   gaps = 0, fitting = 0, worst = 0, exact = 0;
    for (int i = 0; i < programs; i++) {
        haul__memory_model m;
        haul__memory_plan  p;
        make_model(&m, (uint64_t)i);
        set_limit(&m);
        assert_int_equal(haul__memory_solve(&m, &p), HAUL_OK);
        const int64_t least = least_time(&m);
        assert_int_equal(p.figures.over > 0, least < 0);
        if (least >= 0) {
            assert_true(p.figures.peak <= m.limit);
            assert_true(p.least <= m.limit);
            assert_true(p.bound <= least);
            assert_true(p.figures.ps >= least);
            const int64_t above = 1000 * (p.figures.ps - least) / (least + 1);
            worst = larger(worst, above);
            exact += p.figures.ps == least;
            fitting++;
            gaps += 1000 * (least - p.bound) / (least + 1);
        }
        haul__memory_plan_free(&p);
        haul__memory_model_free(&m);
    }
    print_message(
        "%d of %d steps fit, %d plans are the best; the worst is %.1f %% above it; bounds are %.1f %% below\n",
        (int)fitting, programs, (int)exact, (double)worst / 10, (double)gaps / 10 / (double)fitting);
    assert_true(fitting > programs / 2);
    assert_true(worst <= 50);
}

/* ---- by hand ---- */

enum { MIB = 1 << 20 };
static const int64_t US = 1000000; /* ps */

/* Four operations of 100 us, and a tensor of a MiB that the first one makes and the last one uses again. */
static haul__memory_model four_operations(bool overlaps)
{
    haul__memory_model m;
    assert_int_equal(haul__memory_model_new(&m, 4, 1, 1, 0), HAUL_OK);
    for (int i = 0; i < 4; i++)
        m.time[i] = 100 * US;
    m.tensors[0] = (haul__memory_tensor){
        .bytes = MIB, .size = MIB, .until = 3, .back = 3, .out = 30 * US, .in = 40 * US, .segment = -1};
    m.segment_count = 0;
    m.overlaps = overlaps;
    m.limit = MIB;
    return m;
}

/* The plan's time, and the operation before which the tensor begins to come back, or -1. */
static void check_plan(haul__memory_model *m, int64_t ps, int64_t bound, int issued)
{
    haul__memory_plan p;
    assert_int_equal(haul__memory_solve(m, &p), HAUL_OK);
    assert_int_equal(p.figures.over, 0);
    assert_int_equal(p.figures.ps, ps);
    assert_in_range(p.bound, bound, ps);
    assert_int_equal(p.issued[0], issued);
    assert_int_equal(p.figures.moved, issued >= 0 ? MIB : 0);
    haul__memory_plan_free(&p);
}

static void test_memory_plan__keeps_what_fits(void **state)
{
    (void)state;
    haul__memory_model m = four_operations(true);
    check_plan(&m, 400 * US, 400 * US, -1);
    haul__memory_model_free(&m);
}

static void test_memory_plan__waits_for_each_copy_without_overlap(void **state)
{
    (void)state;
    haul__memory_model m = four_operations(false);
    m.fixed[2] = MIB;
    check_plan(&m, 470 * US, 469 * US, 3);
    haul__memory_model_free(&m);
}

static void test_memory_plan__waits_for_memory_and_comes_back_early(void **state)
{
    (void)state;
    haul__memory_model m = four_operations(true);
    m.fixed[1] = MIB; /* waits for the copy to the host; the copy back is hidden behind operation 2 */
    check_plan(&m, 430 * US, 400 * US, 2);
    m.fixed[1] = 0;
    m.fixed[2] = MIB; /* the copy to the host is hidden behind operation 1; nothing hides the copy back */
    check_plan(&m, 440 * US, 400 * US, 3);
    m.fixed[1] = MIB;
    m.time[1] = m.time[2] = 1 * US; /* nothing hides anything */
    check_plan(&m, 272 * US, 270 * US, 3);
    haul__memory_model_free(&m);
}

static void test_memory_plan__runs_a_segment_again_where_that_is_cheaper(void **state)
{
    (void)state;
    haul__memory_model m = four_operations(false);
    m.segment_count = 1;
    m.segments[0] = (haul__memory_segment){.first = 0, .last = 0, .back = 3};
    m.tensors[0].segment = 0;
    m.fixed[2] = MIB;
    check_plan(&m, 470 * US, 469 * US, 3);
    m.tensors[0].in = 80 * US;
    check_plan(&m, 500 * US, 499 * US, -1);
    m.segments[0].around = MIB / 2; /* there is no memory to run it again */
    check_plan(&m, 510 * US, 499 * US, 3);
    haul__memory_model_free(&m);
}

/* A segment that runs again needs its input until then. */
static void test_memory_plan__keeps_the_inputs_of_segments(void **state)
{
    (void)state;
    haul__memory_model m;
    assert_int_equal(haul__memory_model_new(&m, 4, 2, 1, 1), HAUL_OK);
    for (int i = 0; i < 4; i++)
        m.time[i] = 100 * US;
    m.tensors[0] = (haul__memory_tensor){
        .bytes = MIB, .size = MIB, .until = 1, .leave = 1, .back = -1, .out = US, .in = US, .segment = -1};
    m.tensors[1] = (haul__memory_tensor){
        .bytes = MIB, .size = MIB, .from = 1, .until = 3, .leave = 1, .back = 3, .in = -1, .segment = 0, .drop = 1};
    m.segments[0] = (haul__memory_segment){.first = 1, .last = 1, .back = 3, .read_count = 1};
    m.fixed[2] = MIB;
    m.limit = 2 * MIB;
    check_plan(&m, 400 * US, 400 * US, -1);
    m.fixed[2] = 2 * MIB; /* both have to go: the input to the host, and the segment runs again */
    check_plan(&m, 502 * US, 499 * US, 3);
    haul__memory_model_free(&m);
}

/* The state of an optimizer is away when the step begins. */
static void test_memory_plan__spills_what_only_the_end_uses(void **state)
{
    (void)state;
    haul__memory_model m = four_operations(true);
    m.tensors[0].leave = -1;
    m.fixed[1] = MIB;
    check_plan(&m, 400 * US, 400 * US, 2);
    haul__memory_model_free(&m);
}

static void test_memory_plan__says_what_nothing_fits(void **state)
{
    (void)state;
    haul__memory_model m = four_operations(true);
    haul__memory_plan  p;
    m.fixed[1] = MIB + 1;
    assert_int_equal(haul__memory_solve(&m, &p), HAUL_OK);
    assert_int_equal(p.figures.over, 1);
    assert_int_equal(p.least, MIB + 1);
    haul__memory_plan_free(&p);
    haul__memory_model_free(&m);
}

static void test_memory_plan__refuses_numbers_out_of_range(void **state)
{
    (void)state;
    haul__memory_model m = four_operations(true);
    haul__memory_plan  p;
    m.time[1] = INT64_MAX;
    assert_int_equal(haul__memory_solve(&m, &p), HAUL_INVALID_ARGUMENT);
    m.time[1] = -1;
    assert_int_equal(haul__memory_solve(&m, &p), HAUL_INVALID_ARGUMENT);
    m.time[1] = 0;
    m.tensors[0].back = 4;
    assert_int_equal(haul__memory_solve(&m, &p), HAUL_INVALID_ARGUMENT);
    m.tensors[0].back = 3;
    m.tensors[0].bytes = INT64_MAX;
    assert_int_equal(haul__memory_solve(&m, &p), HAUL_INVALID_ARGUMENT);
    haul__memory_model_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_plan__against_all_choices),
        cmocka_unit_test(test_memory_plan__keeps_what_fits),
        cmocka_unit_test(test_memory_plan__waits_for_each_copy_without_overlap),
        cmocka_unit_test(test_memory_plan__waits_for_memory_and_comes_back_early),
        cmocka_unit_test(test_memory_plan__runs_a_segment_again_where_that_is_cheaper),
        cmocka_unit_test(test_memory_plan__keeps_the_inputs_of_segments),
        cmocka_unit_test(test_memory_plan__spills_what_only_the_end_uses),
        cmocka_unit_test(test_memory_plan__says_what_nothing_fits),
        cmocka_unit_test(test_memory_plan__refuses_numbers_out_of_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
