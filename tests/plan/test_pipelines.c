/* Pipelines: the halves of a network on two simulated devices work at the same time on micro-batches whose backward
 * pass is one. */
#include <haul/haul.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

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

/* The share of the shorter one's work in which the other one works, too. */
static double overlap(const training *t, haul_status (*run)(void *), void *context)
{
    work *w = calloc(1, sizeof *w);
    assert_non_null(w);
    memcpy(w->devices, t->devices, sizeof w->devices);
    for (int d = 0; d < 2; d++)
        assert_int_equal(haul_device_sync(t->devices[d]), HAUL_OK);
    const int64_t id = haul_events_subscribe(hear, .kinds = HAUL_EVENT_COMMAND_DONE, .context = w);
    assert_int_equal(run(context), HAUL_OK);
    for (int d = 0; d < 2; d++)
        assert_int_equal(haul_device_sync(t->devices[d]), HAUL_OK);
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
    const int64_t size = BATCH / t->parts;
    haul_scope   *inner = haul_scope_push();
    haul_tensor  *loss = NULL;
    haul_optimizer_zero_grad(t->sgd);
    for (int64_t first = 0; first < BATCH; first += size) {
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_pipelines__overlap, setup, teardown),
        cmocka_unit_test_setup_teardown(test_pipelines__are_planned_in_stages, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
