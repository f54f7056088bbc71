/* Planning a training that is not the command's: what it takes against what it allocates, batches that fit, parts that
 * run again, limits, and what stays as it was. */
#include <haul/haul.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/thread.h"
#include "plan/batch.h"
#include "plan/fit.h"
#include "plan/spill_cost.h"

enum { EXAMPLES = 400, FEATURES = 10, WIDTH = 64, PARAMETERS = FEATURES * WIDTH + WIDTH + WIDTH + 1 };

static haul_scope *scope;

static int setup(void **state)
{
    (void)state;
    haul_error_clear();
    scope = haul_scope_push();
    haul_set_device(haul_cpu());
    return !scope;
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
    haul_step_part     part; /* of the last step */
    int64_t            built, held, epochs;
    int                dry; /* so many were built in a dry run */
} model;

static haul_status build(void *context, int64_t batch, bool follows, haul__training_objects *out)
{
    model *m = context;
    (void)follows;
    m->net = HAUL_SEQUENTIAL(haul_nn_linear(FEATURES, WIDTH), haul_nn_relu(), haul_nn_linear(WIDTH, 1));
    m->adam = haul_adam(m->net, 0.01);
    m->loader = haul_loader_new(m->data, .batch = batch);
    m->built++;
    m->dry += haul__is_dry();
    *out = (haul__training_objects){.net = m->net, .loader = m->loader};
    return haul_error_status();
}

static haul_status step(void *context, const haul_batch *batch, const haul_step_part *part)
{
    model      *m = context;
    haul_scope *inner = haul_scope_push();
    m->part = *part;
    haul_status status = haul_train_begin(m->adam, part);
    if (!status)
        status = haul_train_step(m->adam, haul_bce_with_logits(haul_call(m->net, batch->x), batch->y), .part = part);
    haul_scope_pop(inner);
    return status;
}

static haul_status hold(void *context)
{
    model *m = context;
    m->held++;
    m->best = haul_best_weights_new(m->net);
    return haul_error_status();
}

static haul_status end_epoch(void *context)
{
    model *m = context;
    m->epochs++;
    return HAUL_OK;
}

static haul__training training_of(model *m, int64_t accumulate)
{
    *m = (model){.data = haul_blobs(EXAMPLES)};
    return (haul__training){.device = haul_cpu(),
                            .accumulate = accumulate,
                            .context = m,
                            .build = build,
                            .step = step,
                            .hold = hold,
                            .end_epoch = end_epoch};
}

static int64_t allocated(void)
{
    haul_memory_stats stats;
    assert_int_equal(haul_memory_stats_get(haul_cpu(), &stats), HAUL_OK);
    return stats.allocated;
}

/* The most that is allocated in the third step of a training that computes, which keeps its best weights. */
static int64_t measure_peak(const haul__training *t, int64_t batch)
{
    haul__training_objects o;
    haul_memory_stats      stats;
    const haul_step_part   whole = {true, true, 1};
    haul_scope            *inner = haul_scope_push();
    const int64_t          start = allocated();
    assert_int_equal(t->build(t->context, batch, false, &o), HAUL_OK);
    haul_loader_start(o.loader, 1);
    for (int i = 0; i < 3; i++) {
        const haul_batch *b = haul_loader_next(o.loader);
        assert_non_null(b);
        if (i == 2) {
            assert_int_equal(t->hold(t->context), HAUL_OK);
            haul_memory_reset_peak(t->device);
        }
        assert_int_equal(t->step(t->context, b, &whole), HAUL_OK);
    }
    haul_memory_stats_get(t->device, &stats);
    haul_scope_pop(inner);
    return stats.peak_allocated - start;
}

/* ---- what it takes ---- */

static void test_plan__a_step_takes_what_the_training_allocates(void **state)
{
    (void)state;
    model                   m;
    haul__fit_result        fit;
    const haul__training    t = training_of(&m, 1);
    const haul__fit_request request = {.batch = 100};
    const int64_t           before = allocated();
    assert_int_equal(haul__fit(&t, &request, &fit), HAUL_OK);
    assert_int_equal(allocated(), before);
    assert_int_equal(haul__fit_step_peak(&fit, haul_cpu()) - fit.start, measure_peak(&t, 100));
    assert_true(fit.peak >= haul__fit_step_peak(&fit, haul_cpu()) && fit.peak == fit.plain_peak);
    assert_true(fit.examples == 100 && !fit.limit && m.held == 2 && m.epochs == 1);
    haul__fit_free(&fit);
}

static void test_plan__layers_of_the_network(void **state)
{
    (void)state;
    model                   m;
    haul__fit_result        fit;
    const haul__training    t = training_of(&m, 1);
    const haul__fit_request request = {.batch = 50};
    assert_int_equal(haul__fit(&t, &request, &fit), HAUL_OK);
    const haul__layer *l = fit.layers.items;
    assert_int_equal(fit.layers.count, 4);
    assert_int_equal(fit.layers.parameters, PARAMETERS);
    assert_int_equal(fit.layers.parameter_bytes, 4 * PARAMETERS);
    assert_true(!*l[0].path && !strcmp(l[1].path, "0") && !strcmp(l[2].path, "1") && !strcmp(l[3].path, "2"));
    assert_true(!strcmp(l[1].kind, "linear") && !l[0].is_leaf && l[1].is_leaf && l[1].depth == 1);
    assert_true(l[0].parameters == PARAMETERS && l[1].parameters == FEATURES * WIDTH + WIDTH && !l[2].parameters);
    assert_true(l[1].output.ndim == 2 && l[1].output.dims[0] == 50 && l[1].output.dims[1] == WIDTH);
    assert_true(l[1].flops >= 2.0 * 50 * FEATURES * WIDTH && l[0].flops >= l[1].flops + l[3].flops);
    haul__fit_free(&fit);
}

/* The mini-batch that needs most: the last of its step, after others. */
static void test_plan__steps_that_accumulate(void **state)
{
    (void)state;
    model                   m;
    haul__fit_result        fit;
    const haul__training    t = training_of(&m, 4);
    const haul__fit_request request = {.batch = 25};
    assert_int_equal(haul__fit(&t, &request, &fit), HAUL_OK);
    assert_true(!m.part.first && m.part.last && m.part.weight == 0.25);
    haul__fit_free(&fit);
}

static haul_status fail_step(void *context, const haul_batch *batch, const haul_step_part *part)
{
    (void)context;
    (void)batch;
    (void)part;
    return haul_error_set(HAUL_UNSUPPORTED, NULL, NULL, "it cannot be");
}

static void test_plan__errors_of_the_training_are_passed_on(void **state)
{
    (void)state;
    model            m;
    haul__fit_result fit;
    haul__training   t = training_of(&m, 1);
    t.step = fail_step;
    assert_int_equal(haul__fit(&t, &(haul__fit_request){.batch = 10}, &fit), HAUL_UNSUPPORTED);
    assert_string_equal(haul_error_message(), "it cannot be");
    assert_true(!fit.layers.items && !fit.step.operations);
    haul_error_clear();
}

static void test_plan__the_step_as_a_program(void **state)
{
    (void)state;
    model                m;
    haul_program         program;
    const haul__training t = training_of(&m, 1);
    const haul__segments none = {.count = 0};
    assert_int_equal(haul__fit_program(&t, 20, &none, false, &program), HAUL_OK);
    assert_true(program.operation_count > 5);
    haul_program_free(&program);
}

/* ---- spilling ---- */

static void test_plan__a_device_that_cannot_spill(void **state)
{
    (void)state;
    model                   m;
    haul__fit_result        fit;
    haul__spill_cost        cost;
    haul_memory_stats       stats;
    const haul__training    t = training_of(&m, 1);
    const haul__fit_request request = {.batch = 10, .limit = {.bytes = 4096}};
    haul_memory_set_limit(haul_cpu(), 1 << 30);
    assert_int_equal(haul__fit_spilling(&t, &request, &fit), HAUL_UNSUPPORTED);
    haul_error_clear();
    assert_false(haul__spill_cost_find(&t, &request, &cost));
    assert_int_equal(haul_error_status(), HAUL_OK);
    haul_memory_stats_get(haul_cpu(), &stats);
    assert_int_equal(stats.limit, 1 << 30);
    haul_memory_set_limit(haul_cpu(), 0);
}

/* ---- batches ---- */

/* Counts the dry runs, of which each size has one. */
static int64_t largest(const haul__batch_request *r, model *m, haul__batch_need *need)
{
    haul__batch_sizes sizes = {.count = 0};
    m->dry = 0;
    const int64_t batch = haul__batch_largest(r, EXAMPLES + 1, &sizes, need);
    assert_int_equal(m->dry, sizes.runs);
    assert_true(sizes.runs <= HAUL__MOST_BATCH_RUNS && sizes.count <= HAUL__MOST_BATCH_SIZES);
    for (int i = 0; i < sizes.count; i++)
        for (int k = 0; k < i; k++)
            assert_true(sizes.items[i].batch != sizes.items[k].batch);
    return batch;
}

static void test_plan__the_largest_batch_that_fits(void **state)
{
    (void)state;
    model                m;
    haul__batch_need     of_100, need = {0}, more;
    const haul__training t = training_of(&m, 1);
    haul__batch_request  r = {.training = &t, .limit = INT64_MAX};
    assert_int_equal(haul__batch_find_need(&r, 100, &of_100), HAUL_OK);
    assert_true(of_100.fits && of_100.bytes > 4 * PARAMETERS);
    r.limit = of_100.bytes;
    const int64_t batch = largest(&r, &m, &need);
    assert_true(batch >= 100 && batch < EXAMPLES);
    assert_true(need.fits && need.bytes <= r.limit);
    assert_int_equal(haul__batch_find_need(&r, batch + 1, &more), HAUL_OK);
    assert_true(!more.fits && more.bytes > r.limit);
    r.limit = 1;
    assert_int_equal(largest(&r, &m, &need), 0);
    for (int64_t given = 1; given < EXAMPLES; given += 23) {
        assert_int_equal(haul__batch_find_need(&r, given, &of_100), HAUL_OK);
        r.limit = of_100.bytes + given % 3;
        const int64_t found = largest(&r, &m, &need);
        assert_true(need.fits && 20 * found >= 19 * given);
    }
    assert_int_equal(haul_error_status(), HAUL_OK);
}

static void test_plan__the_fastest_batch(void **state)
{
    (void)state;
    const haul__batch_choice c = {
        .largest = 70, .count = 4, .trials = {{8, 1, 50}, {16, 2, 99}, {32, 3, 100}, {70, 4, 94}}};
    assert_int_equal(haul__batch_fastest(&c), 32); /* 94 is 6% less */
    const haul__batch_choice d = {.count = 3, .trials = {{8, 1, 100}, {16, 2, 97}, {32, 3, 96}}};
    assert_int_equal(haul__batch_fastest(&d), 32); /* the largest that is as fast */
    assert_int_equal(haul__batch_fastest(&(haul__batch_choice){.count = 0}), 0);
    assert_true(haul__batch_find_trial(&c, 16) == &c.trials[1] && !haul__batch_find_trial(&c, 17));
}

static void begins(void *context, int64_t batch)
{
    int64_t *last = context;
    assert_true(batch > *last);
    *last = batch;
}

static bool always(void *context)
{
    (void)context;
    return true;
}

static bool never(void *context)
{
    (void)context;
    return false;
}

/* However many batches are timed, at most 12 sizes have a dry run. */
static void test_plan__timing_makes_few_dry_runs(void **state)
{
    (void)state;
    model                     m;
    int64_t                   last = 0;
    haul__batch_need          need;
    static haul__batch_choice c;
    const haul__training      t = training_of(&m, 1);
    haul__batch_request       r = {.training = &t, .limit = INT64_MAX};
    assert_int_equal(haul__batch_find_need(&r, 300, &need), HAUL_OK);
    for (int recompute = 0; recompute < 2; recompute++) {
        r = (haul__batch_request){.training = &t, .limit = need.bytes, .recompute = recompute};
        c = (haul__batch_choice){.count = 0};
        last = m.dry = 0;
        c.largest = haul__batch_largest(&r, EXAMPLES + 1, &c.sizes, &need);
        assert_true(c.largest > 200 && m.dry == c.sizes.runs);
        haul__batch_time(&r, &(haul__batch_watch){begins, always, &last}, &c);
        assert_true(c.count >= 1 && m.dry == c.sizes.runs && m.dry <= 12);
        for (int i = 0; i < c.count; i++)
            assert_true(c.trials[i].peak_bytes > 0 && c.trials[i].peak_bytes <= r.limit);
    }
}

/* How many batches are timed depends on the machine. */
static void test_plan__timing_leaves_nothing(void **state)
{
    (void)state;
    model                     m;
    int64_t                   last = 0;
    const haul__training      t = training_of(&m, 1);
    const haul__batch_request r = {.training = &t, .limit = INT64_MAX};
    haul__batch_choice        c = {.largest = 12};
    const int64_t             before = allocated();
    haul__batch_time(&r, &(haul__batch_watch){begins, always, &last}, &c);
    assert_int_equal(allocated(), before);
    assert_true(c.count >= 1 && c.trials[0].batch == 1 && c.trials[0].per_second > 0 && c.trials[0].peak_bytes > 0);
    for (int i = 1; i < c.count; i++)
        assert_true(c.trials[i].batch == (i == 4 ? 12 : 1 << i));
    haul__batch_choice ended = {.largest = 12};
    last = 0;
    haul__batch_time(&r, &(haul__batch_watch){begins, never, &last}, &ended);
    assert_true(!ended.count && last == 1);
    assert_int_equal(haul_error_status(), HAUL_OK);
}

/* ---- limits ---- */

static void test_plan__limits(void **state)
{
    (void)state;
    const struct {
        haul__training_limit limit;
        int64_t              peak, bytes;
    } cases[] = {
        {{0}, 1000, 0},
        {{.bytes = 500}, 1000, 500},
        {{.bytes = 500, .overhead = 120}, 1000, 380},
        {{.bytes = 500, .overhead = 500}, 1000, 1}, /* less than nothing is left */
        {{.percent = 50}, 1001, 500},
        {{.percent = 1e-6}, 1000, 1},
        {{.percent = 1e6}, INT64_MAX, INT64_MAX},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(haul__training_limit_bytes(&cases[i].limit, cases[i].peak), cases[i].bytes);
}

/* ---- parts ---- */

/* Blocks, and runs of layers around one with a matrix of weights. */
static void test_plan__parts_of_a_network(void **state)
{
    (void)state;
    haul__segments p;
    haul_module   *block = HAUL_SEQUENTIAL(haul_nn_linear(4, 4), haul_nn_relu());
    haul_module   *net = HAUL_SEQUENTIAL(haul_nn_linear(4, 4), haul_nn_relu(), block, haul_nn_linear(4, 1));
    assert_int_equal(haul__segments_find(net, &p), HAUL_OK);
    assert_int_equal(p.count, 3);
    assert_string_equal(p.items[0].name, "0..1");
    assert_string_equal(p.items[1].name, "2");
    assert_string_equal(p.items[2].name, "3");
    assert_int_equal(haul__segments_count_on(&p), 0);
    p.items[1].on = true;
    assert_int_equal(haul__segments_count_on(&p), 1);
    assert_int_equal(haul__segments_apply(&p, net), HAUL_OK);
}

/* Without an order of its children the blocks of a network are parts by themselves. */
static void test_plan__parts_of_a_network_with_branches(void **state)
{
    (void)state;
    static const char *const names[] = {"down1", "down2", "middle", "join2", "join1"};
    haul__segments           p;
    haul_module             *unet = haul_model_new("unet"), *gpt = haul_model_new("char_gpt");
    assert_int_equal(haul__segments_find(unet, &p), HAUL_OK);
    assert_int_equal(p.count, 5);
    for (int i = 0; i < 5; i++)
        assert_string_equal(p.items[i].name, names[i]);
    p.items[3].on = true;
    assert_int_equal(haul__segments_apply(&p, unet), HAUL_OK);
    assert_true(haul_module_recomputes(haul_module_child(unet, "join2")));
    assert_false(haul_module_recomputes(haul_module_child(unet, "join1")));
    p.items[3].on = false;
    assert_int_equal(haul__segments_apply(&p, unet), HAUL_OK);
    assert_false(haul_module_recomputes(haul_module_child(unet, "join2")));
    assert_int_equal(haul__segments_find(gpt, &p), HAUL_OK);
    assert_int_equal(p.count, 2);
    assert_string_equal(p.items[1].name, "blocks.1");
    assert_int_equal(haul__segments_apply(&p, gpt), HAUL_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_plan__a_step_takes_what_the_training_allocates, setup, teardown),
        cmocka_unit_test_setup_teardown(test_plan__layers_of_the_network, setup, teardown),
        cmocka_unit_test_setup_teardown(test_plan__steps_that_accumulate, setup, teardown),
        cmocka_unit_test_setup_teardown(test_plan__errors_of_the_training_are_passed_on, setup, teardown),
        cmocka_unit_test_setup_teardown(test_plan__the_step_as_a_program, setup, teardown),
        cmocka_unit_test_setup_teardown(test_plan__a_device_that_cannot_spill, setup, teardown),
        cmocka_unit_test_setup_teardown(test_plan__the_largest_batch_that_fits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_plan__the_fastest_batch, setup, teardown),
        cmocka_unit_test_setup_teardown(test_plan__timing_makes_few_dry_runs, setup, teardown),
        cmocka_unit_test_setup_teardown(test_plan__timing_leaves_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(test_plan__limits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_plan__parts_of_a_network, setup, teardown),
        cmocka_unit_test_setup_teardown(test_plan__parts_of_a_network_with_branches, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
