/* Plans of trainings within memory limits against trainings on a simulated device: peaks to the byte, and times. */
#include <haul/haul.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/numbers.h"
#include "base/system/clock.h"
#include "core/thread.h"
#include "device/speeds.h"
#include "plan/keep.h"
#include "record/work.h"

enum { EXAMPLES = 2048, FEATURES = 10, WIDTH = 64, BLOCKS = 6, BATCH = 512 };

static haul_device *gpu;
static haul_scope  *scope;

static int setup(void **state)
{
    (void)state;
    haul_error_clear();
    scope = haul_scope_push();
    gpu = haul_device_get("sim:laptop-4g");
    return !scope || haul_set_device(gpu);
}

static int teardown(void **state)
{
    (void)state;
    haul_scope_pop(scope);
    return 0;
}

/* ---- a training ---- */

typedef struct model {
    haul_dataset      *data;
    haul_module       *net;
    haul_optimizer    *adam;
    haul_loader       *loader;
    haul_best_weights *best;
    int                dry; /* so many were built in a dry run */
} model;

/* Blocks of two layers, between which activations live until the backward pass. */
static haul_status build(void *context, int64_t batch, bool follows, haul__training_objects *out)
{
    model *m = context;
    (void)follows;
    haul_module *block[BLOCKS];
    for (int i = 0; i < BLOCKS; i++)
        block[i] = HAUL_SEQUENTIAL(haul_nn_linear(i ? WIDTH : FEATURES, WIDTH), haul_nn_gelu(),
                                   haul_nn_linear(WIDTH, WIDTH), haul_nn_relu());
    m->net = HAUL_SEQUENTIAL(block[0], block[1], block[2], block[3], block[4], block[5], haul_nn_linear(WIDTH, 1));
    m->adam = haul_adam(m->net, 0.01);
    m->loader = haul_loader_new(m->data, .batch = batch, .device = gpu);
    m->dry += haul__is_dry();
    *out = (haul__training_objects){.net = m->net, .loader = m->loader};
    return haul_error_status();
}

static haul_status step(void *context, const haul_batch *batch, const haul_step_part *part)
{
    model      *m = context;
    haul_scope *inner = haul_scope_push();
    haul_status status = haul_train_begin(m->adam, part);
    if (!status)
        status = haul_train_step(m->adam, haul_bce_with_logits(haul_call(m->net, batch->x), batch->y), .part = part);
    haul_scope_pop(inner);
    return status;
}

static haul_status hold(void *context)
{
    model *m = context;
    m->best = haul_best_weights_new(m->net);
    return haul_error_status();
}

static haul_status end_epoch(void *context)
{
    (void)context;
    return HAUL_OK;
}

static haul__training training_of(model *m)
{
    *m = (model){.data = haul_blobs(EXAMPLES)};
    return (haul__training){.device = gpu,
                            .accumulate = 1,
                            .context = m,
                            .build = build,
                            .step = step,
                            .hold = hold,
                            .end_epoch = end_epoch};
}

static haul_status record(void *context, haul__segments *segments, haul__fit_step *out)
{
    return haul__fit_record(context, BATCH, segments, out);
}

static haul__keep_request request_of(haul__training *t, int64_t limit)
{
    const haul__speeds speeds = haul__speeds_of(gpu);
    return (haul__keep_request){
        .record = record, .context = t, .limit = limit, .machine = speeds.machine, .number = speeds.number};
}

static int64_t now_ps(void)
{
    assert_int_equal(haul_device_sync(gpu), HAUL_OK);
    return haul__clock_ps();
}

static int64_t allocated(void)
{
    haul_memory_stats stats;
    assert_int_equal(haul_memory_stats_get(gpu, &stats), HAUL_OK);
    return stats.allocated;
}

/* The third step of a training that computes: its peak, above the memory from before the training, and its time. */
static void measure(const haul__training *t, const haul__segments *segments, int64_t *peak, int64_t *ps)
{
    haul__training_objects o;
    haul_memory_stats      stats;
    const haul_step_part   whole = {true, true, 1};
    haul_scope            *inner = haul_scope_push();
    const int64_t          start = allocated();
    assert_int_equal(t->build(t->context, BATCH, false, &o), HAUL_OK);
    assert_int_equal(haul__segments_apply(segments, o.net), HAUL_OK);
    haul_loader_start(o.loader, 1);
    for (int i = 0; i < 3; i++) {
        const haul_batch *b = haul_loader_next(o.loader);
        assert_non_null(b);
        if (i == 2) {
            assert_int_equal(t->hold(t->context), HAUL_OK);
            haul_memory_reset_peak(gpu);
            *ps = now_ps();
        }
        assert_int_equal(t->step(t->context, b, &whole), HAUL_OK);
    }
    *ps = now_ps() - *ps;
    haul_memory_stats_get(gpu, &stats);
    haul_scope_pop(inner);
    *peak = stats.peak_allocated - start;
}

/* ---- plans ---- */

static void test_keep__what_fits_is_as_it_is(void **state)
{
    (void)state;
    model              m;
    haul__keep         k;
    int64_t            peak, ps;
    haul__training     t = training_of(&m);
    haul__keep_request r = request_of(&t, INT64_C(1) << 40);
    r.recomputes = r.spills = true;
    assert_int_equal(haul__keep_find(&r, &k), HAUL_OK);
    measure(&t, &k.segments, &peak, &ps);
    assert_true(k.fits && k.ps == k.free_ps && k.bound == k.ps && k.peak == k.free_peak);
    assert_int_equal(haul__segments_count_on(&k.segments), 0);
    assert_int_equal(k.schedule.count, 0);
    assert_int_equal(k.peak, peak);
    assert_int_equal(k.ps, ps);
    haul__keep_free(&k);
}

/* Limits between all segments running again and none. */
static void test_keep__segments_run_again_as_planned(void **state)
{
    (void)state;
    model              m;
    haul__keep         k;
    int64_t            peak, ps;
    haul__training     t = training_of(&m);
    haul__keep_request r = request_of(&t, INT64_C(1) << 40);
    r.recomputes = true;
    assert_int_equal(haul__keep_find(&r, &k), HAUL_OK);
    const int64_t most = k.peak;
    int64_t       before = k.ps;
    int           fitting = 0;
    haul__keep_free(&k);
    for (int percent = 95; percent >= 40; percent -= 5) {
        r.limit = most * percent / 100;
        assert_int_equal(haul__keep_find(&r, &k), HAUL_OK);
        if (k.fits) {
            fitting++;
            measure(&t, &k.segments, &peak, &ps);
            assert_int_equal(k.peak, peak);
            assert_int_equal(k.ps, ps);
            assert_true(k.peak <= r.limit && k.bound <= k.ps && k.ps >= before && k.free_peak == most);
            before = k.ps;
        } else {
            assert_true(k.peak > r.limit);
        }
        haul__keep_free(&k);
    }
    assert_true(fitting >= 6);
}

/* ---- haul train --recompute auto ---- */

enum { SEGMENTS = BLOCKS + 1 };

/* What the step takes with a set of segments running again. */
static void try_segments(const haul__training *t, const haul__segments *segments, int64_t *peak, int64_t *ps)
{
    const haul__speeds         speeds = haul__speeds_of(gpu);
    const haul__spill_schedule none = {.count = 0};
    haul__segments             now = *segments;
    haul__fit_step             s;
    assert_int_equal(haul__fit_record(t, BATCH, &now, &s), HAUL_OK);
    assert_int_equal(haul__residency_peak(&s.residency, &s.program, &none, peak), HAUL_OK);
    *ps = 0;
    for (int64_t i = 0; i < s.program.operation_count; i++) {
        const haul__machine_work w = haul__program_work_of(&s.program, &s.program.operations[i]);
        *ps += haul__machine_time(speeds.machine, speeds.number, &w);
    }
    haul__fit_step_free(&s);
}

/* The fastest set of all whose peak is within the limit; -1: there is none. */
static int64_t fastest_within(const int64_t peaks[1 << SEGMENTS], const int64_t times[1 << SEGMENTS], int64_t limit)
{
    int64_t best = -1;
    for (int set = 0; set < 1 << SEGMENTS; set++)
        if (peaks[set] <= limit && (best < 0 || times[set] < best))
            best = times[set];
    return best;
}

static void test_keep__trainings_recompute_the_fastest_segments(void **state)
{
    (void)state;
    static int64_t peaks[1 << SEGMENTS], times[1 << SEGMENTS];
    model          m;
    haul__segments all = {.count = 0};
    haul__fit_step s;
    haul__training t = training_of(&m);
    assert_int_equal(haul__fit_record(&t, BATCH, &all, &s), HAUL_OK);
    haul__fit_step_free(&s);
    assert_int_equal(all.count, SEGMENTS);
    for (int set = 0; set < 1 << SEGMENTS; set++) {
        for (int i = 0; i < SEGMENTS; i++)
            all.items[i].on = set >> i & 1;
        try_segments(&t, &all, &peaks[set], &times[set]);
    }
    for (int percent = 95; percent >= 40; percent -= 5) {
        haul__fit_result        fit;
        int64_t                 peak, ps;
        const int64_t           limit = peaks[0] * percent / 100, best = fastest_within(peaks, times, limit);
        const haul__fit_request r = {.batch = BATCH, .limit = {.bytes = limit}, .recompute = true};
        m.dry = 0;
        assert_int_equal(haul__fit(&t, &r, &fit), HAUL_OK);
        assert_int_equal(m.dry, 1);
        try_segments(&t, &fit.segments, &peak, &ps);
        assert_int_equal(fit.peak <= limit, best >= 0);
        assert_true(best < 0 || (peak <= limit && ps <= best + best / 20));
        for (int i = 0; i < SEGMENTS && best >= 0; i++) {
            haul__segments fewer = fit.segments;
            if (!fewer.items[i].on)
                continue;
            fewer.items[i].on = false;
            try_segments(&t, &fewer, &peak, &ps);
            assert_true(peak > limit);
        }
        haul__fit_free(&fit);
        haul__keep         k;
        haul__keep_request within = request_of(&t, limit);
        within.recomputes = true;
        assert_int_equal(haul__keep_find(&within, &k), HAUL_OK);
        assert_int_equal(k.fits, best >= 0);
        haul__keep_free(&k);
    }
}

/* ---- spilling ---- */

/* The operations that use a store. */
static bool is_used(const haul_program *p, int64_t store, int64_t operation)
{
    const haul_program_operation *o = &p->operations[operation];
    for (int64_t v = o->value; o->command_count && v < o->value + o->operand_count + o->result_count; v++)
        if (p->values[v].store == store)
            return true;
    return false;
}

static void check_schedule(const haul__keep *k)
{
    const int64_t count = k->program.operation_count;
    for (int64_t i = 0; i < k->schedule.count; i++) {
        const haul__spill_move *m = &k->schedule.moves[i];
        assert_true(i == 0 || m[-1].after <= m->after);
        assert_in_range(m->store, 0, k->program.store_count - 1);
        assert_in_range(m->after, 0, count - 1);
        assert_in_range(m->before, m->after + 1, m->after + count);
        for (int64_t o = m->after + 1; o < m->before; o++)
            assert_false(is_used(&k->program, m->store, o % count));
        assert_true(m->before < count || k->program.stores[m->store].kind == HAUL_STORE_OUTSIDE);
    }
}

static void test_keep__spills_between_uses(void **state)
{
    (void)state;
    model              m;
    haul__keep         k;
    haul__training     t = training_of(&m);
    haul__keep_request r = request_of(&t, INT64_C(1) << 40);
    r.spills = true;
    assert_int_equal(haul__keep_find(&r, &k), HAUL_OK);
    const int64_t most = k.peak;
    int64_t       before = k.ps;
    int           fitting = 0;
    haul__keep_free(&k);
    for (int percent = 90; percent >= 30; percent -= 10) {
        r.limit = most * percent / 100;
        assert_int_equal(haul__keep_find(&r, &k), HAUL_OK);
        assert_true(k.peak <= k.free_peak && k.fits == (k.peak <= r.limit));
        check_schedule(&k);
        if (k.fits) {
            fitting++;
            assert_true(k.moved > 0 && k.schedule.count > 0 && k.bound <= k.ps && k.ps >= before);
        }
        haul__keep_free(&k);
    }
    assert_true(fitting >= 4);
}

/* Both are never slower than one of them. */
static void test_keep__chooses_both_together(void **state)
{
    (void)state;
    model              m;
    haul__keep         both, one;
    haul__training     t = training_of(&m);
    haul__keep_request r = request_of(&t, INT64_C(1) << 40);
    assert_int_equal(haul__keep_find(&r, &one), HAUL_OK);
    r.limit = one.peak / 2;
    haul__keep_free(&one);
    r.recomputes = r.spills = true;
    assert_int_equal(haul__keep_find(&r, &both), HAUL_OK);
    assert_true(both.fits);
    for (int i = 0; i < 2; i++) {
        r.recomputes = i == 0;
        r.spills = i == 1;
        assert_int_equal(haul__keep_find(&r, &one), HAUL_OK);
        assert_true(!one.fits || one.ps >= both.ps);
        haul__keep_free(&one);
    }
    haul__keep_free(&both);
}

static void test_keep__what_nothing_fits(void **state)
{
    (void)state;
    model              m;
    haul__keep         k;
    const int64_t      before = allocated();
    haul__training     t = training_of(&m);
    haul__keep_request r = request_of(&t, 100000);
    r.recomputes = r.spills = true;
    assert_int_equal(haul__keep_find(&r, &k), HAUL_OK);
    assert_true(!k.fits && k.peak > r.limit && k.least > r.limit);
    haul__keep_free(&k);
    assert_int_equal(allocated(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_keep__what_fits_is_as_it_is, setup, teardown),
        cmocka_unit_test_setup_teardown(test_keep__segments_run_again_as_planned, setup, teardown),
        cmocka_unit_test_setup_teardown(test_keep__trainings_recompute_the_fastest_segments, setup, teardown),
        cmocka_unit_test_setup_teardown(test_keep__spills_between_uses, setup, teardown),
        cmocka_unit_test_setup_teardown(test_keep__chooses_both_together, setup, teardown),
        cmocka_unit_test_setup_teardown(test_keep__what_nothing_fits, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
