/* Pipelines: the halves of a network on two simulated devices work at the same time on micro-batches whose backward
 * pass is one. */
#include <haul/haul.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/system/clock.h"

enum { WIDTH = 512, BATCH = 1024 };

static haul_scope *scope;

static int setup(void **state)
{
    (void)state;
    scope = haul_scope_push();
    return !scope;
}

static int teardown(void **state)
{
    (void)state;
    return haul_scope_pop(scope) != HAUL_OK;
}

/* ---- a network in two halves ---- */

typedef struct training {
    haul_module    *halves[2], *net;
    haul_device    *devices[2];
    haul_optimizer *sgd;
    haul_tensor    *x, *y;
    int             parts;
} training;

static haul_module *half(int64_t classes)
{
    haul_module *m = HAUL_SEQUENTIAL(haul_nn_linear(WIDTH, WIDTH), haul_nn_relu(), haul_nn_linear(WIDTH, WIDTH),
                                     haul_nn_relu(), haul_nn_linear(WIDTH, classes));
    assert_non_null(m);
    return m;
}

static training make(int parts)
{
    training t = {.devices = {haul_device_get("sim:h200"), haul_device_get("sim:h200:1")}, .parts = parts};
    haul_manual_seed(1);
    t.halves[0] = half(WIDTH);
    t.halves[1] = half(10);
    t.net = HAUL_SEQUENTIAL(t.halves[0], t.halves[1]);
    t.sgd = haul_sgd(t.net, 0.01);
    t.x = haul_to(haul_normal(HAUL_F32, HAUL_SHAPE(BATCH, WIDTH), 0, 1), t.devices[0]);
    t.y = haul_to(haul_zeros(HAUL_I64, HAUL_SHAPE(BATCH)), t.devices[1]);
    for (int i = 0; i < 2; i++)
        assert_int_equal(haul_module_to(t.halves[i], t.devices[i]), HAUL_OK);
    return t;
}

static haul_tensor *loss_of(const training *t, int part)
{
    const int64_t size = BATCH / t->parts, first = part * size;
    haul_tensor  *x = haul_slice(t->x, 0, first, first + size, 1), *y = haul_slice(t->y, 0, first, first + size, 1);
    haul_tensor  *between = haul_to(haul_call(t->halves[0], x), t->devices[1]);
    return haul_mul_scalar(haul_cross_entropy(haul_call(t->halves[1], between), y), 1.0 / t->parts);
}

static haul_status step(void *context)
{
    training    *t = context;
    haul_scope  *inner = haul_scope_push();
    haul_tensor *loss = loss_of(t, 0);
    haul_optimizer_zero_grad(t->sgd);
    for (int i = 1; i < t->parts; i++)
        loss = haul_add(loss, loss_of(t, i));
    haul_status status = haul_backward(loss);
    if (!status)
        status = haul_optimizer_step(t->sgd);
    haul_scope_pop(inner);
    return status;
}

/* ---- how long both work ---- */

typedef struct span {
    int64_t began, ended;
} span;

typedef struct work {
    haul_device *devices[2];
    span         spans[2][4000];
    int          count[2];
} work;

static void hear(const haul_event *event, void *context)
{
    work *w = context;
    for (int d = 0; d < 2; d++)
        if (event->device == w->devices[d] && !strcmp(event->stream, "compute") && w->count[d] < 4000)
            w->spans[d][w->count[d]++] = (span){event->time - event->duration, event->time};
}

static int64_t busy(const work *w, int d)
{
    int64_t sum = 0;
    for (int i = 0; i < w->count[d]; i++)
        sum += w->spans[d][i].ended - w->spans[d][i].began;
    return sum;
}

static int64_t both(const work *w)
{
    int64_t sum = 0;
    for (int i = 0; i < w->count[0]; i++)
        for (int j = 0; j < w->count[1]; j++) {
            const span   *a = &w->spans[0][i], *b = &w->spans[1][j];
            const int64_t from = a->began > b->began ? a->began : b->began,
                          to = a->ended < b->ended ? a->ended : b->ended;
            sum += to > from ? to - from : 0;
        }
    return sum;
}

static void sync(const training *t)
{
    for (int d = 0; d < 2; d++)
        assert_int_equal(haul_device_sync(t->devices[d]), HAUL_OK);
}

/* The share of the shorter one's work in which the other one works, too. */
static double overlap(const training *t, haul_status (*run)(void *), void *context)
{
    work *w = calloc(1, sizeof *w);
    assert_non_null(w);
    memcpy(w->devices, t->devices, sizeof w->devices);
    sync(t);
    const int64_t id = haul_events_subscribe(hear, .kinds = HAUL_EVENT_COMMAND_DONE, .context = w);
    assert_int_equal(run(context), HAUL_OK);
    sync(t);
    assert_int_equal(haul_events_unsubscribe(id), HAUL_OK);
    const int64_t a = busy(w, 0), b = busy(w, 1);
    const double  share = (double)both(w) / (double)(a < b ? a : b);
    print_message("%d parts: busy %.3f and %.3f ms, both %.0f %% of the shorter time\n", t->parts, (double)a * 1e-6,
                  (double)b * 1e-6, 100 * share);
    free(w);
    return share;
}

/* ---- tests ---- */

static void test_pipelines__overlap(void **state)
{
    (void)state;
    training t = make(1);
    step(&t);
    assert_true(overlap(&t, step, &t) < 0.5); /* updates of the second half while the first one goes back */
    t = make(4);
    step(&t);
    assert_true(overlap(&t, step, &t) >= 0.6);
    t = make(8);
    step(&t);
    assert_true(overlap(&t, step, &t) >= 0.6);
}

/* ---- as planned ---- */

/* Without the names of devices. */
static haul_status step_as_planned(void *context)
{
    training     *t = context;
    const int64_t batch = haul_tensor_shape(t->y).dims[0], size = batch / t->parts;
    haul_scope   *inner = haul_scope_push();
    haul_tensor  *loss = NULL;
    haul_optimizer_zero_grad(t->sgd);
    for (int64_t first = 0; first < batch; first += size) {
        haul_tensor *x = haul_slice(t->x, 0, first, first + size, 1), *y = haul_slice(t->y, 0, first, first + size, 1);
        haul_tensor *part = haul_cross_entropy(haul_call(t->net, x), y);
        loss = loss ? haul_add(loss, part) : part;
    }
    haul_status status = haul_backward(haul_mul_scalar(loss, 1.0 / t->parts));
    if (!status)
        status = haul_optimizer_step(t->sgd);
    haul_scope_pop(inner);
    return status;
}

/* Each half of the network is a stage. */
static void test_pipelines__are_planned_in_stages(void **state)
{
    (void)state;
    training t = make(4);
    t.x = haul_to(t.x, haul_cpu());
    t.y = haul_to(t.y, haul_cpu());
    haul_plan *plan =
        haul_plan_new(step_as_planned, &t, .module = t.net, .devices = "cpu,sim:h200,sim:h200:1", .stages = true);
    if (!plan)
        fail_msg("%s", haul_error_message());
    haul_plan_row rows[400];
    const int     count = haul_plan_rows(plan, rows, 400);
    assert_in_range(count, 50, 400);
    for (int i = 0; i < count; i++)
        if (*rows[i].module)
            assert_string_equal(rows[i].device, *rows[i].module == '0' ? "sim:h200:0" : "sim:h200:1");
    assert_int_equal(haul_plan_apply(plan, t.net), HAUL_OK);
    assert_int_equal(step_as_planned(&t), HAUL_OK);
    assert_true(overlap(&t, step_as_planned, &t) >= 0.6);
}

/* ---- residual connections ---- */

enum { BLOCKS = 6, PARTS = 4, NARROW = 128, ROWS = 128 };

static haul_tensor *call_block(haul_module *m, haul_args *args)
{
    haul_tensor *h = haul_gelu(haul_call_child(m, "up", haul_call_child(m, "norm", args->x[0])));
    return haul_add(args->x[0], haul_call_child(m, "down", h));
}

static haul_module *block(void)
{
    haul_module *m = haul_module_new("block", call_block);
    haul_module_add(m, "norm", haul_nn_layer_norm(NARROW));
    haul_module_add(m, "up", haul_nn_linear(NARROW, NARROW));
    haul_module_add(m, "down", haul_nn_linear(NARROW, NARROW));
    return m;
}

/* tied: the last layer has the weight of the first one. */
static training residual(bool tied)
{
    training t = {.devices = {haul_device_get("sim:h200"), haul_device_get("sim:h200:1")}, .parts = PARTS};
    haul_manual_seed(1);
    t.net = HAUL_SEQUENTIAL(haul_nn_linear(NARROW, NARROW), block(), block(), block(), block(), block(), block(),
                            haul_nn_linear(NARROW, tied ? NARROW : 10));
    if (tied)
        assert_int_equal(haul_module_replace_parameter(t.net, "7.weight", haul_module_parameter(t.net, "0.weight")),
                         HAUL_OK);
    t.sgd = haul_sgd(t.net, 0.01);
    return t;
}

static void take_batch(training *t)
{
    haul_drop(t->x);
    haul_drop(t->y);
    t->x = haul_normal(HAUL_F32, HAUL_SHAPE(ROWS, NARROW), 0, 1);
    t->y = haul_zeros(HAUL_I64, HAUL_SHAPE(ROWS));
}

static haul_plan *plan_in_stages(training *t)
{
    take_batch(t);
    haul_plan *plan =
        haul_plan_new(step_as_planned, t, .module = t->net, .devices = "cpu,sim:h200,sim:h200:1", .stages = true);
    if (!plan)
        fail_msg("%s", haul_error_message());
    return plan;
}

static haul_plan_candidate planned(haul_plan *plan)
{
    haul_plan_candidate all[4];
    const int           count = haul_plan_candidates(plan, all, 4);
    int                 i = 0;
    while (i < count && strcmp(all[i].name, "plan") != 0)
        i++;
    assert_in_range(i, 0, count - 1);
    return all[i];
}

/* Gradients are added up in the stage of the module that needs the sum, so each module is on one device. */
static void check_rows(haul_plan *plan)
{
    static haul_plan_row rows[1000];
    const int            count = haul_plan_rows(plan, rows, 1000);
    int                  sums = 0;
    assert_in_range(count, 200, 1000);
    for (int i = 0; i < count; i++) {
        int first = 0;
        while (strcmp(rows[first].module, rows[i].module) != 0)
            first++;
        if (!*rows[i].module)
            continue;
        sums += !strcmp(rows[i].operation, "haul_add") && strstr(rows[i].module, "norm");
        assert_string_equal(rows[i].device, rows[first].device);
    }
    assert_true(sums >= PARTS * BLOCKS);
}

/* A step with a fresh batch takes the times, bytes and memory of the rehearsal. */
static void check_step(training *t, const haul_plan_candidate *want)
{
    haul_transfer_stats moved;
    take_batch(t);
    sync(t);
    for (int d = 0; d < 2; d++)
        assert_int_equal(haul_memory_reset_peak(t->devices[d]), HAUL_OK);
    haul_transfer_stats_reset();
    const int64_t began = haul__clock_ps();
    assert_int_equal(step_as_planned(t), HAUL_OK);
    sync(t);
    const double ms = (double)(haul__clock_ps() - began) * 1e-9;
    haul_transfer_stats_get(&moved);
    print_message("%g ms, %g as predicted\n", ms, want->step_ms);
    assert_true(fabs(ms / want->step_ms - 1) < 0.01);
    assert_int_equal(moved.h2d_bytes + moved.d2h_bytes + moved.d2d_bytes, want->copied_bytes);
    for (int d = 0; d < 2; d++) {
        haul_memory_stats m;
        haul_memory_stats_get(t->devices[d], &m);
        assert_int_equal(m.peak_allocated, want->peak_bytes[d + 1]);
    }
}

static void test_pipelines__add_up_residual_gradients_in_stages(void **state)
{
    (void)state;
    training                  t = residual(false);
    haul_plan                *plan = plan_in_stages(&t);
    const haul_plan_candidate want = planned(plan);
    check_rows(plan);
    assert_int_equal(haul_plan_apply(plan, t.net), HAUL_OK);
    assert_int_equal(step_as_planned(&t), HAUL_OK);
    assert_true(overlap(&t, step_as_planned, &t) >= 0.6);
    check_step(&t, &want);
}

/* A gradient to which two stages add is in the first one. So the last stage never waits in a backward pass. */
static void test_pipelines__add_up_shared_gradients_in_the_first_stage(void **state)
{
    (void)state;
    training             t = residual(true);
    haul_plan           *plan = plan_in_stages(&t);
    static haul_plan_row rows[1000];
    const int            count = haul_plan_rows(plan, rows, 1000);
    int                  sums = 0, others = 0;
    for (int i = 0; i < count; i++)
        if (!strcmp(rows[i].module, "7") && !strcmp(rows[i].operation, "haul_add"))
            sums += !strcmp(rows[i].device, "sim:h200:0");
        else
            others += !strcmp(rows[i].module, "7") && !strcmp(rows[i].device, "sim:h200:1");
    assert_true(sums >= PARTS && others >= 2 * PARTS);
    training     apart = residual(false);
    const double ms = planned(plan).step_ms, apart_ms = planned(plan_in_stages(&apart)).step_ms;
    print_message("%g ms, %g without the shared parameter\n", ms, apart_ms);
    assert_true(ms < 1.15 * apart_ms);
}

static void test_pipelines__train_residual_networks_with_the_same_bits(void **state)
{
    static float weights[2][NARROW * NARROW];
    (void)state;
    for (int i = 0; i < 2; i++) {
        training    t = residual(true);
        haul_scope *inner = haul_scope_push();
        if (i)
            assert_int_equal(haul_plan_apply(plan_in_stages(&t), t.net), HAUL_OK);
        else
            take_batch(&t);
        for (int k = 0; k < 2; k++)
            assert_int_equal(step_as_planned(&t), HAUL_OK);
        assert_int_equal(haul_read(haul_module_parameter(t.net, "1.up.weight"), weights[i], sizeof weights[i]),
                         HAUL_OK);
        haul_scope_pop(inner);
    }
    assert_memory_equal(weights[0], weights[1], sizeof weights[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_pipelines__overlap, setup, teardown),
        cmocka_unit_test_setup_teardown(test_pipelines__are_planned_in_stages, setup, teardown),
        cmocka_unit_test_setup_teardown(test_pipelines__add_up_residual_gradients_in_stages, setup, teardown),
        cmocka_unit_test_setup_teardown(test_pipelines__add_up_shared_gradients_in_the_first_stage, setup, teardown),
        cmocka_unit_test_setup_teardown(test_pipelines__train_residual_networks_with_the_same_bits, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
