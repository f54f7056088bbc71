/* Recordings: steps that are followed give the bits of steps that run as they are, and whatever changes is seen.
 *
 * ctest: cuda */
#include <haul/haul.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "support/bits.h"
#include "support/conformance/conformance.h"
#include "support/devices/optimizers.h"
#include "support/devices/program.h"

enum { CLASSES = 4 };

/* A training of which two exist: one is recorded, the other runs as it is. */
typedef struct training {
    haul_device      *device;
    haul_module      *net;
    haul_optimizer   *optimizer;
    haul_grad_scaler *scaler;
    haul_average     *average;
    haul_tensor      *x, *y, *loss;
    haul_dtype        autocast; /* HAUL_DTYPE_NONE: none */
    double            dropout;
    bool              clips, adds_up, checkpoints, reads, branches, zeroes_last;
    haul_tensor      *kept; /* kept from the last step; HAUL_NONE: nothing is kept */
    bool              keeps;
    int               calls;
    haul_loader      *loader;
    int               taken;
} training;

static haul_tensor *forward_again(haul_tensor *const *inputs, int count, void *context)
{
    (void)count;
    return haul_call(context, inputs[0]);
}

static haul_tensor *forward(const training *t)
{
    haul_tensor *x = t->dropout > 0 ? haul_dropout(t->x, t->dropout, true) : t->x;
    return t->checkpoints ? haul_checkpoint(forward_again, &x, 1, t->net) : haul_call(t->net, x);
}

static haul_status backward(training *t)
{
    haul_autocast_state before = {0};
    if (t->autocast)
        before = haul_autocast_begin("all", t->autocast);
    haul_tensor *logits = forward(t);
    if (t->autocast)
        haul_autocast_end(before);
    haul_tensor *loss = haul_cross_entropy(logits, t->y);
    if (t->branches)
        loss = haul_mul_scalar(loss, 2);
    haul_status status = haul_copy_into(t->loss, haul_detach(loss));
    if (t->keeps && !status) {
        haul_release(t->kept);
        t->kept = haul_keep(logits);
    }
    return status ? status : haul_backward(t->scaler ? haul_grad_scaler_scale(t->scaler, loss) : loss);
}

static haul_status clip(const training *t)
{
    haul_status status = t->scaler ? haul_grad_scaler_unscale(t->scaler, t->optimizer) : HAUL_OK;
    return status ? status : haul_tensor_check(haul_clip_grad_norm(t->net, 1));
}

static haul_status step(void *context)
{
    training   *t = context;
    haul_status status = haul_set_device(t->device);
    t->calls++;
    if (!status && !t->zeroes_last)
        status = haul_optimizer_zero_grad(t->optimizer);
    for (int i = 0; i < (t->adds_up ? 2 : 1) && !status; i++)
        status = backward(t);
    if (t->reads && haul_item(t->loss) > 100)
        return HAUL_INVALID_ARGUMENT;
    if (!status && t->clips)
        status = clip(t);
    if (!status)
        status = t->scaler ? haul_grad_scaler_step(t->scaler, t->optimizer) : haul_optimizer_step(t->optimizer);
    if (!status && t->scaler)
        status = haul_grad_scaler_update(t->scaler);
    if (!status && t->average)
        status = haul_average_update(t->average);
    return !status && t->zeroes_last ? haul_optimizer_zero_grad(t->optimizer) : status;
}

/* ---- pairs of trainings ---- */

typedef struct form {
    const char *model, *optimizer;
    haul_shape  shape;
    haul_dtype  autocast;
    double      dropout;
    bool        clips, adds_up, checkpoints, scales, averages, zeroes_last, keeps;
} form;

static haul_optimizer *make_optimizer(const char *name, haul_module *net)
{
    if (!strcmp(name, "adamw"))
        return haul_adamw(net, 0.003);
    if (!strcmp(name, "rmsprop"))
        return haul_rmsprop(net, 0.001, .momentum = 0.5);
    for (int i = 0; i < OPTIMIZER_CASES; i++)
        if (!strcmp(name, optimizer_cases[i].name))
            return optimizer_cases[i].make(net);
    return haul_sgd(net, 0.05, .momentum = strcmp(name, "plain") ? 0.9 : 0);
}

static training make_training(const form *f, haul_device *device)
{
    haul_manual_seed(7);
    assert_int_equal(haul_set_device(device), HAUL_OK);
    haul_module *net = haul_model_new(f->model, .outputs = CLASSES);
    assert_int_equal(haul_module_to(net, device), HAUL_OK);
    haul_optimizer *optimizer = make_optimizer(f->optimizer, net);
    training        t = {.device = device,
                         .net = net,
                         .optimizer = optimizer,
                         .scaler = f->scales ? haul_grad_scaler_new(optimizer, .init_scale = 1024) : NULL,
                         .average = f->averages ? haul_average_new(net, .decay = 0.9) : NULL,
                         .loss = haul_zeros(HAUL_F32, HAUL_SCALAR_SHAPE),
                         .autocast = f->autocast,
                         .dropout = f->dropout,
                         .clips = f->clips,
                         .adds_up = f->adds_up,
                         .checkpoints = f->checkpoints,
                         .zeroes_last = f->zeroes_last,
                         .keeps = f->keeps,
                         .kept = HAUL_NONE};
    assert_non_null(t.optimizer);
    return t;
}

static void set_batch(training *t, const form *f, int64_t batch, unsigned seed)
{
    haul_shape shape = f->shape;
    shape.dims[0] = batch;
    haul_manual_seed(seed);
    t->x = haul_normal(HAUL_F32, shape, 0, 1);
    t->y = haul_randint(HAUL_I64, HAUL_SHAPE(batch), 0, CLASSES);
    assert_int_equal(haul_tensor_check(t->y), HAUL_OK);
}

static void expect_same_bits(haul_tensor *a, haul_tensor *b, const char *what, int at)
{
    char text[160];
    snprintf(text, sizeof text, "%s after step %d", what, at);
    assert_same_bits(a, b, text);
}

static void expect_same(const training *a, const training *b, int at)
{
    enum { MOST = 256 };
    haul_named_tensor p[MOST], q[MOST];
    expect_same_bits(a->loss, b->loss, "the loss", at);
    const int count = haul_module_tensors(a->net, p, MOST);
    assert_int_equal(haul_module_tensors(b->net, q, MOST), count);
    for (int i = 0; i < count && i < MOST; i++)
        expect_same_bits(p[i].tensor, q[i].tensor, p[i].name, at);
    const int states = haul_optimizer_state(a->optimizer, p, MOST);
    assert_int_equal(haul_optimizer_state(b->optimizer, q, MOST), states);
    for (int i = 0; i < states && i < MOST; i++)
        expect_same_bits(p[i].tensor, q[i].tensor, p[i].name, at);
    assert_int_equal(haul_optimizer_steps(a->optimizer), haul_optimizer_steps(b->optimizer));
    if (a->keeps)
        expect_same_bits(a->kept, b->kept, "a kept tensor", at);
}

/* One step of both; afterwards they are the same. */
static void make_step(training *eager, training *recorded, haul_recording *r, int at)
{
    haul_scope             *scope = haul_scope_push();
    const haul_random_state before = haul_random_state_get();
    if (step(eager))
        fail_msg("%s", haul_error_message());
    const haul_random_state after = haul_random_state_get();
    haul_scope_pop(scope);
    haul_random_state_set(before);
    if (haul_recording_run(r))
        fail_msg("%s", haul_error_message());
    const haul_random_state now = haul_random_state_get();
    assert_true(now.seed == after.seed && now.offset == after.offset);
    expect_same(eager, recorded, at);
}

static const form forms[] = {
    {.model = "dense", .optimizer = "momentum", .shape = {2, {8, 10}}},
    {.model = "dense", .optimizer = "plain", .shape = {2, {8, 10}}, .zeroes_last = true},
    {.model = "dense", .optimizer = "adamw", .shape = {2, {8, 10}}, .clips = true, .averages = true},
    {.model = "dense", .optimizer = "rmsprop", .shape = {2, {8, 10}}, .dropout = 0.25, .keeps = true},
    {.model = "dense", .optimizer = "adamw amsgrad", .shape = {2, {8, 10}}},
    {.model = "dense", .optimizer = "adagrad all", .shape = {2, {8, 10}}},
    {.model = "dense", .optimizer = "adadelta", .shape = {2, {8, 10}}},
    {.model = "dense", .optimizer = "nadam", .shape = {2, {8, 10}}, .clips = true},
    {.model = "dense", .optimizer = "radam", .shape = {2, {8, 10}}, .adds_up = true},
    {.model = "dense", .optimizer = "lion", .shape = {2, {8, 10}}},
    {.model = "simplecnn", .optimizer = "momentum", .shape = {4, {4, 3, 32, 32}}, .checkpoints = true, .dropout = 0.1},
    {.model = "simplecnn", .optimizer = "adamw", .shape = {4, {4, 3, 32, 32}}, .adds_up = true},
    {.model = "simplecnn",
     .optimizer = "momentum",
     .shape = {4, {4, 3, 32, 32}},
     .autocast = HAUL_BF16,
     .scales = true,
     .clips = true},
};
enum { FORMS = sizeof forms / sizeof *forms };

static void test_same_bits(void **state)
{
    (void)state;
    enum { STEPS = 8 };
    haul_device *devices[8];
    const int    count = test_devices(devices, 8);
    for (int d = 0; d < count; d++)
        for (int i = 0; i < FORMS; i++) {
            haul_scope *scope = haul_scope_push();
            training    eager = make_training(&forms[i], devices[d]), recorded = make_training(&forms[i], devices[d]);
            haul_recording *r = haul_recording_new(step, &recorded);
            for (int k = 0; k < STEPS; k++) {
                haul_scope *inner = haul_scope_push();
                set_batch(&eager, &forms[i], forms[i].shape.dims[0], (unsigned)k);
                recorded.x = eager.x;
                recorded.y = eager.y;
                make_step(&eager, &recorded, r, k);
                haul_scope_pop(inner);
            }
            const haul_recording_report report = report_of(r);
            if (report.followed != STEPS - 1)
                fail_msg("%s, form %d: %lld steps followed: %s", haul_device_name(devices[d]), i,
                         (long long)report.followed, report.reason);
            haul_release(eager.kept);
            haul_release(recorded.kept);
            haul_scope_pop(scope);
        }
}

/* ---- what changes between steps ---- */

static const form usual = {.model = "dense", .optimizer = "momentum", .shape = {2, {8, 10}}};

typedef struct pair {
    haul_scope     *scope;
    training        eager, recorded;
    haul_recording *r;
    int             steps;
} pair;

static void pair_begin(pair *p, const form *f, int variants)
{
    p->scope = haul_scope_push();
    p->steps = 0;
    p->eager = make_training(f, haul_cpu());
    p->recorded = make_training(f, haul_cpu());
    p->r = haul_recording_new(step, &p->recorded, .variants = variants);
    assert_non_null(p->r);
}

static void pair_end(pair *p)
{
    haul_release(p->eager.kept);
    haul_release(p->recorded.kept);
    haul_scope_pop(p->scope);
}

static void pair_step(pair *p, int64_t batch)
{
    haul_scope *scope = haul_scope_push();
    set_batch(&p->eager, &usual, batch, (unsigned)p->steps);
    p->recorded.x = p->eager.x;
    p->recorded.y = p->eager.y;
    make_step(&p->eager, &p->recorded, p->r, p->steps++);
    haul_scope_pop(scope);
}

static void expect_counts(const pair *p, int64_t followed, int64_t eager, int variants)
{
    const haul_recording_report report = report_of(p->r);
    if (report.followed != followed || report.eager != eager || report.variants != variants)
        fail_msg("%lld followed, %lld eager, %d variants: %s", (long long)report.followed, (long long)report.eager,
                 report.variants, report.reason);
}

static void expect_reason(const pair *p, const char *text)
{
    const haul_recording_report report = report_of(p->r);
    if (!strstr(report.reason, text))
        fail_msg("the reason is: %s", report.reason);
}

static void test_batches(void **state)
{
    (void)state;
    pair p;
    pair_begin(&p, &usual, 2);
    const int64_t batches[] = {8, 8, 3, 8, 3, 8};
    for (int i = 0; i < 6; i++)
        pair_step(&p, batches[i]);
    expect_counts(&p, 5, 1, 2);
    pair_step(&p, 5); /* a third form, for which there is no room */
    expect_counts(&p, 5, 2, 2);
    expect_reason(&p, "operand 1 is f32[5,10] on cpu, and was f32[8,10]");
    pair_step(&p, 8);
    expect_counts(&p, 6, 2, 2);
    pair_end(&p);
}

/* Settings of optimizers are read in each step. */
static void test_settings(void **state)
{
    (void)state;
    pair p;
    pair_begin(&p, &usual, 1);
    for (int i = 0; i < 6; i++) {
        training *both[] = {&p.eager, &p.recorded};
        for (int k = 0; k < 2; k++) {
            haul_optimizer_set(both[k]->optimizer, 0, "lr", 0.01 * (i + 1));
            haul_optimizer_set(both[k]->optimizer, 0, "momentum", 0.9 - 0.1 * i);
        }
        pair_step(&p, 8);
    }
    expect_counts(&p, 5, 1, 1);
    pair_end(&p);
}

/* Parameters with other memory, as after a cast or another file of weights. */
static void test_replaced_parameters(void **state)
{
    (void)state;
    pair p;
    pair_begin(&p, &usual, 1);
    for (int i = 0; i < 4; i++) {
        training *both[] = {&p.eager, &p.recorded};
        pair_step(&p, 8);
        for (int k = 0; k < 2; k++) {
            haul_module_cast(both[k]->net, HAUL_F64);
            haul_module_cast(both[k]->net, HAUL_F32);
        }
    }
    pair_step(&p, 8);
    pair_step(&p, 8);
    assert_true(report_of(p.r).followed >= 3);
    pair_end(&p);
}

static void test_branches(void **state)
{
    (void)state;
    pair p;
    pair_begin(&p, &usual, 3);
    for (int i = 0; i < 12; i++) {
        p.eager.branches = p.recorded.branches = i % 3 == 2;
        p.eager.clips = p.recorded.clips = i % 4 == 3;
        pair_step(&p, 8);
    }
    expect_counts(&p, 10, 2, 3); /* both at once is a fourth form */
    pair_end(&p);
}

static void test_frozen_parameter(void **state)
{
    (void)state;
    pair p;
    pair_begin(&p, &usual, 2);
    for (int i = 0; i < 8; i++) {
        haul_set_requires_grad(haul_module_parameter(p.eager.net, "fc1.weight"), i < 4);
        haul_set_requires_grad(haul_module_parameter(p.recorded.net, "fc1.weight"), i < 4);
        pair_step(&p, 8);
    }
    expect_counts(&p, 7, 1, 2);
    pair_end(&p);
}

/* Gradients from before the step are added to. */
static void test_gradients_from_before(void **state)
{
    (void)state;
    pair p;
    pair_begin(&p, &(form){.model = "dense", .optimizer = "plain", .shape = {2, {8, 10}}, .zeroes_last = true}, 2);
    for (int i = 0; i < 8; i++) {
        haul_scope *scope = haul_scope_push();
        training   *both[] = {&p.eager, &p.recorded};
        for (int k = 0; k < 2 && i % 2; k++) {
            haul_tensor *weight = haul_module_parameter(both[k]->net, "fc1.weight");
            haul_set_grad(weight, haul_full_like(haul_detach(weight), i));
        }
        haul_scope_pop(scope);
        pair_step(&p, 8);
    }
    expect_counts(&p, 7, 1, 2);
    pair_end(&p);
}

/* A batch that is the memory of a parameter, which the step changes. */
static void test_shared_memory(void **state)
{
    (void)state;
    enum { ROWS = 16 }; /* as fc1.weight has */
    pair p;
    pair_begin(&p, &usual, 1);
    for (int i = 0; i < 3; i++)
        pair_step(&p, ROWS);
    expect_counts(&p, 2, 1, 1);
    haul_scope *scope = haul_scope_push();
    training   *both[] = {&p.eager, &p.recorded};
    for (int k = 0; k < 2; k++) {
        both[k]->x = haul_detach(haul_module_parameter(both[k]->net, "fc1.weight"));
        both[k]->y = haul_zeros(HAUL_I64, HAUL_SHAPE(ROWS));
    }
    make_step(&p.eager, &p.recorded, p.r, p.steps++);
    haul_scope_pop(scope);
    expect_counts(&p, 2, 2, 1);
    pair_step(&p, ROWS);
    expect_counts(&p, 3, 2, 1);
    pair_end(&p);
}

/* ---- what cannot be followed ---- */

static void test_reads(void **state)
{
    (void)state;
    pair p;
    pair_begin(&p, &usual, 2);
    p.eager.reads = p.recorded.reads = true;
    for (int i = 0; i < 3; i++)
        pair_step(&p, 8);
    expect_counts(&p, 0, 3, 0);
    expect_reason(&p, "haul_item");
    p.eager.reads = p.recorded.reads = false;
    for (int i = 0; i < 8; i++) /* the next recording waits for some steps */
        pair_step(&p, 8);
    assert_in_range(report_of(p.r).followed, 4, 8);
    p.eager.reads = p.recorded.reads = true;
    const int64_t eager = report_of(p.r).eager;
    pair_step(&p, 8);
    assert_int_equal(report_of(p.r).eager, eager + 1);
    expect_reason(&p, "haul_item");
    pair_end(&p);
}

static haul_status read_and_count(void *calls)
{
    ++*(int64_t *)calls;
    haul_item(haul_ones(HAUL_F32, HAUL_SHAPE(1)));
    return haul_error_status();
}

/* The waits are 1, 3, 7, ..., 255, and 256 from then on. A step that is recorded is called twice. */
static void test_waits__are_bounded(void **state)
{
    (void)state;
    enum { STEPS = 1100, LONGEST = 256 };
    haul_scope     *scope = haul_scope_push();
    int64_t         calls = 0, last = 0, longest = 0;
    haul_recording *r = haul_recording_new(read_and_count, &calls);
    for (int64_t i = 1; i <= STEPS; i++) {
        const int64_t before = calls;
        assert_int_equal(haul_recording_run(r), HAUL_OK);
        if (calls - before < 2)
            continue;
        longest = i - last > longest ? i - last : longest;
        last = i;
    }
    assert_int_equal(longest, LONGEST);
    haul_scope_pop(scope);
}

/* A batch that a step takes when it is followed would be lost. */
static haul_status step_with_loader(void *context)
{
    training         *t = context;
    const haul_batch *b = t->branches ? haul_loader_next(t->loader) : NULL;
    t->taken += b != NULL;
    return t->branches && !b ? haul_error_status() : step(context);
}

static void test_takes_batches(void **state)
{
    (void)state;
    enum { BATCHES = 6 };
    haul_scope     *scope = haul_scope_push();
    training        t = make_training(&usual, haul_cpu());
    haul_recording *r = haul_recording_new(step_with_loader, &t);
    t.loader = haul_loader_new(haul_blobs(BATCHES), .batch = 1);
    set_batch(&t, &usual, 8, 1);
    haul_loader_start(t.loader, 1);
    for (int i = 0; i < 2 * BATCHES; i++) {
        t.branches = i % 2;
        assert_int_equal(haul_recording_run(r), HAUL_OK);
    }
    assert_int_equal(t.taken, BATCHES);
    haul_scope_pop(scope);
}

static void test_strict(void **state)
{
    (void)state;
    haul_scope     *scope = haul_scope_push();
    training        t = make_training(&usual, haul_cpu());
    haul_recording *r = haul_recording_new(step, &t, .strict = true);
    set_batch(&t, &usual, 8, 1);
    assert_int_equal(haul_recording_run(r), HAUL_OK);
    assert_int_equal(haul_recording_run(r), HAUL_OK);
    t.reads = true;
    assert_int_equal(haul_recording_run(r), HAUL_STATE);
    assert_non_null(strstr(haul_error_message(), "the recording is strict"));
    assert_non_null(strstr(haul_error_message(), "haul_item"));
    assert_int_equal(haul_optimizer_steps(t.optimizer), 2);
    t.reads = false;
    assert_int_equal(haul_recording_run(r), HAUL_OK);
    assert_int_equal(haul_optimizer_steps(t.optimizer), 3);
    haul_scope_pop(scope);
}

static void watch(const haul_event *event, void *context)
{
    (void)event;
    ++*(int *)context;
}

static void test_subscriber(void **state)
{
    (void)state;
    pair p;
    int  events = 0;
    pair_begin(&p, &usual, 2);
    pair_step(&p, 8);
    pair_step(&p, 8);
    const int64_t id = haul_events_subscribe(watch, .context = &events, .kinds = HAUL_EVENT_OPERATION_END);
    pair_step(&p, 8);
    haul_events_unsubscribe(id);
    assert_true(events > 0);
    expect_reason(&p, "a subscriber watches operations");
    pair_step(&p, 8);
    expect_counts(&p, 2, 2, 1);
    pair_end(&p);
}

/* ---- failures ---- */

static void test_bad_index(void **state)
{
    (void)state;
    pair p;
    pair_begin(&p, &usual, 2);
    pair_step(&p, 8);
    pair_step(&p, 8);
    haul_scope  *scope = haul_scope_push();
    haul_tensor *good = p.recorded.y = haul_zeros(HAUL_I64, HAUL_SHAPE(8));
    p.recorded.x = haul_zeros(HAUL_F32, HAUL_SHAPE(8, 10));
    p.recorded.y = haul_full(HAUL_I64, HAUL_SHAPE(8), 99);
    assert_int_not_equal(haul_recording_run(p.r), HAUL_OK);
    assert_non_null(strstr(haul_error_message(), "99"));
    assert_int_equal(haul_optimizer_steps(p.recorded.optimizer), 2);
    haul_error_clear();
    p.recorded.y = good;
    haul_scope_pop(scope);
    pair_step(&p, 8);
    expect_counts(&p, 3, 1, 1);
    pair_end(&p);
}

static haul_status step_that_fails(void *context)
{
    training *t = context;
    if (t->branches)
        return haul_error_set(HAUL_IO, "step", "file", "the disk is full"), HAUL_IO;
    return step(t);
}

static void test_failing_step(void **state)
{
    (void)state;
    haul_scope     *scope = haul_scope_push();
    training        t = make_training(&usual, haul_cpu());
    haul_recording *r = haul_recording_new(step_that_fails, &t);
    set_batch(&t, &usual, 8, 1);
    for (int i = 0; i < 6; i++) {
        t.branches = i % 2;
        assert_int_equal(haul_recording_run(r), t.branches ? HAUL_IO : HAUL_OK);
        if (t.branches)
            assert_non_null(strstr(haul_error_message(), "the disk is full"));
        haul_error_clear();
    }
    assert_int_equal(haul_optimizer_steps(t.optimizer), 3);
    haul_scope_pop(scope);
}

static haul_recording *inner;

static haul_status step_in_step(void *context)
{
    (void)context;
    return haul_recording_run(inner);
}

static void test_nested(void **state)
{
    (void)state;
    haul_scope *scope = haul_scope_push();
    inner = haul_recording_new(step_in_step, NULL);
    assert_int_equal(haul_recording_run(inner), HAUL_STATE);
    assert_non_null(strstr(haul_error_message(), "the recording is running"));
    haul_error_clear();
    haul_scope_pop(scope);
}

static void test_arguments(void **state)
{
    (void)state;
    haul_scope           *scope = haul_scope_push();
    haul_recording_report report;
    haul_recording       *r = haul_recording_new(step, NULL);
    assert_null(haul_recording_new(NULL, NULL));
    assert_null(haul_recording_new(step, NULL, .variants = 65));
    assert_non_null(strstr(haul_error_message(), "variants is 65; from 1 to 64 are possible"));
    assert_null(haul_recording_new(step, NULL, .variants = -1));
    assert_null(haul_recording_new_with(step, NULL));
    assert_int_equal(haul_recording_report_get(r, NULL), HAUL_INVALID_ARGUMENT);
    assert_int_not_equal(haul_recording_report_get(NULL, &report), HAUL_OK);
    assert_int_not_equal(haul_recording_run((haul_recording *)scope), HAUL_OK);
    haul_error_clear();
    haul_scope_pop(scope);
}

/* Each allocation of a step that is recorded and followed fails once. The step then fails, or runs as it is; a later
 * one is right. */
static void test_host_memory(void **state)
{
    (void)state;
    bool failed = true;
    for (int64_t nth = 1; failed; nth += 1 + nth / 40) {
        pair p;
        pair_begin(&p, &usual, 2);
        pair_step(&p, 8);
        haul_scope *scope = haul_scope_push();
        set_batch(&p.eager, &usual, 8, 50);
        p.recorded.x = p.eager.x;
        p.recorded.y = p.eager.y;
        assert_int_equal(step(&p.eager), HAUL_OK);
        haul__fault_plan(HAUL__FAULT_HOST, nth);
        const haul_status status = haul_recording_run(p.r);
        failed = haul__fault_count() >= nth;
        haul__fault_plan(0, 0);
        haul_error_clear();
        if (status)
            assert_int_equal(haul_recording_run(p.r), HAUL_OK);
        expect_same(&p.eager, &p.recorded, (int)nth);
        haul_scope_pop(scope);
        pair_step(&p, 8);
        pair_end(&p);
    }
}

/* A followed step makes no new memory for gradients, wherever they are removed. */
static void test_memory_stays(void **state)
{
    (void)state;
    for (int last = 0; last < 2; last++) {
        haul_memory_stats before, after;
        form              f = usual;
        pair              p;
        f.zeroes_last = last;
        pair_begin(&p, &f, 2);
        for (int i = 0; i < 4; i++)
            pair_step(&p, 8);
        haul_scope *scope = haul_scope_push();
        set_batch(&p.recorded, &f, 8, 1);
        haul_memory_stats_get(haul_cpu(), &before);
        for (int i = 0; i < 20; i++)
            assert_int_equal(haul_recording_run(p.r), HAUL_OK);
        haul_memory_stats_get(haul_cpu(), &after);
        assert_int_equal(before.allocated, after.allocated);
        assert_int_equal(before.peak_allocated, after.peak_allocated);
        haul_scope_pop(scope);
        pair_end(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_batches),
        cmocka_unit_test(test_settings),
        cmocka_unit_test(test_replaced_parameters),
        cmocka_unit_test(test_branches),
        cmocka_unit_test(test_frozen_parameter),
        cmocka_unit_test(test_gradients_from_before),
        cmocka_unit_test(test_shared_memory),
        cmocka_unit_test(test_reads),
        cmocka_unit_test(test_waits__are_bounded),
        cmocka_unit_test(test_takes_batches),
        cmocka_unit_test(test_strict),
        cmocka_unit_test(test_subscriber),
        cmocka_unit_test(test_bad_index),
        cmocka_unit_test(test_failing_step),
        cmocka_unit_test(test_nested),
        cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_host_memory),
        cmocka_unit_test(test_memory_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
