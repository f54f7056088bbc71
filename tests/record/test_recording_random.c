/* Random steps of random calls, between which anything may change: a recorded training keeps the bits of one that runs
 * as it is. HAUL_RECORDING_STEPS: how many steps are made on each device. HAUL_RECORDING_SEED: the seed of the
 * draws.
 *
 * ctest: cuda; labels=slow; cuda-labels=slow,once */
#include <haul/haul.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/conformance/conformance.h"

/* behind the library's headers: its words are macros */
#include "support/custom_ops.h"

enum { WIDTH = 6, LAYERS = 4, WORDS = 9, MOST_BATCH = 7, KINDS = 26 };

/* ---- random numbers of the test, apart from those of the library ---- */

static unsigned next(unsigned *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

static unsigned below(unsigned *state, unsigned n)
{
    return next(state) / 7 % n;
}

/* ---- a training ---- */

typedef struct training {
    haul_device      *device, *other;
    haul_module      *net, *layers[LAYERS], *embedding, *norm, *cell, *gru;
    haul_optimizer   *optimizer;
    haul_grad_scaler *scaler;
    haul_average     *average;
    haul_tensor      *sum;              /* written in place, from outside */
    haul_tensor      *x, *words, *loss; /* the batch, and where the loss goes */
    unsigned          plan;             /* decides what the step calls */
    int               calls, times;
    double            dropout;
    haul_dtype        autocast;
    bool              clips, zeroes_last, checkpoints;
} training;

typedef struct inner {
    const training *t;
    int             layer;
} inner;

static haul_tensor *block(haul_tensor *const *inputs, int count, void *context)
{
    const inner *i = context;
    (void)count;
    return haul_tanh(haul_call(i->t->layers[i->layer], haul_dropout(inputs[0], i->t->dropout, true)));
}

/* Context of checkpoints, which must stay valid until the backward pass. */
static inner contexts[LAYERS];

static haul_tensor *call_block(const training *t, haul_tensor *h, int layer)
{
    inner *i = &contexts[layer];
    *i = (inner){t, layer};
    return t->checkpoints ? haul_checkpoint(block, &h, 1, i) : block(&h, 1, i);
}

static haul_tensor *halves(haul_tensor *h)
{
    haul_tensor *parts[2];
    haul_split(h, 1, (const int64_t[]){WIDTH / 2, WIDTH / 2}, 2, parts);
    return haul_cat((haul_tensor *[]){parts[1], parts[0]}, 2, 1);
}

static haul_tensor *repeated(const training *t, haul_tensor *h, int times)
{
    for (int i = 0; i < times; i++)
        h = haul_call(t->cell, h);
    return h;
}

/* The rows as a sequence. */
static haul_tensor *through_time(const training *t, haul_tensor *h)
{
    return haul_squeeze(haul_call(t->gru, haul_unsqueeze(h, 0)), 0);
}

static haul_tensor *elsewhere(const training *t, haul_tensor *h)
{
    return t->other ? haul_to(haul_relu(haul_to(h, t->other)), t->device) : haul_relu(h);
}

static haul_tensor *without_gradient(haul_tensor *h)
{
    const bool   before = haul_set_grad_enabled(false);
    haul_tensor *scale = haul_mean(haul_abs(h), HAUL_AXES(1), .keepdim = true);
    haul_set_grad_enabled(before);
    return haul_div(h, haul_add_scalar(scale, 1));
}

/* A custom operation that has no gradient. */
static haul_tensor *custom(const training *t, haul_tensor *h)
{
    static haul_custom_operation plain = {.name = "test_plain_swish",
                                          .operands = {{"x"}},
                                          .results = {{"y"}},
                                          .attributes_size = sizeof(swish_attributes),
                                          .kernel = &swish_kernel,
                                          .numbers = 1};
    return haul_mul(h, haul_apply(&plain, (&(swish_attributes){1 + t->dropout}), haul_detach(h)));
}

static haul_status gate(const haul_custom_call *c, haul_tensor *const *x, haul_tensor **y)
{
    const swish_attributes *a = c->attributes;
    y[0] = haul_mul(x[0], haul_sigmoid(haul_mul_scalar(x[0], a->beta)));
    return HAUL_OK;
}

/* One that is composed of others. */
static haul_tensor *gated(const training *t, haul_tensor *h)
{
    static haul_custom_operation composition = {.name = "test_gate",
                                                .operands = {{"x"}},
                                                .results = {{"y"}},
                                                .attributes_size = sizeof(swish_attributes),
                                                .compose = gate};
    return haul_apply(&composition, (&(swish_attributes){1 + t->dropout}), h);
}

/* The gradient of a function of h, through which a gradient flows. */
static haul_tensor *slope(haul_tensor *h)
{
    haul_tensor *x = haul_set_requires_grad(haul_clone(haul_detach(h)), true), *g;
    if (haul_grad(haul_sum(haul_tanh(haul_mul(x, h))), &x, 1, &g, .create_graph = true))
        return haul_relu(NULL); /* a failed tensor */
    return haul_add(h, g);
}

/* One of the calls; h is [batch, WIDTH]. */
static haul_tensor *apply_kind(const training *t, haul_tensor *h, haul_tensor *first, unsigned kind, unsigned *r)
{
    const int layer = (int)below(r, LAYERS);
    switch (kind) {
    case 0: return haul_call(t->layers[layer], h);
    case 1: return haul_relu(h);
    case 2: return call_block(t, h, layer);
    case 3: return haul_add(h, first);
    case 4: return haul_mul_scalar(h, 0.5 + 0.25 * below(r, 3));
    case 5: return haul_softmax(h, 1);
    case 6: return haul_dropout(h, t->dropout, true);
    case 7: return halves(h);
    case 8: return haul_add(h, haul_call(t->embedding, t->words));
    case 9: return haul_call(t->norm, h);
    case 10: return repeated(t, h, 1 + (int)below(r, 3));
    case 11: return elsewhere(t, h);
    case 12: return without_gradient(h);
    case 13: return haul_mul(h, haul_detach(haul_sigmoid(h)));
    case 14: return haul_cast(haul_cast(h, HAUL_F64), HAUL_F32);
    case 15: return haul_contiguous(haul_transpose(haul_clone(haul_transpose(h, 0, 1)), 0, 1));
    case 16: return haul_where(haul_gt_scalar(h, 0), h, haul_mul_scalar(h, 0.1));
    case 17: return haul_add(h, haul_uniform(HAUL_F32, haul_tensor_shape(h), -0.1, 0.1));
    case 18: return haul_matmul(haul_matmul(h, haul_transpose(h, 0, 1)), first);
    case 19: return through_time(t, h);
    case 20: return custom(t, h);
    case 21: return test_swish(h, 1 + t->dropout);
    case 22: return test_rms(h, haul_module_parameter(t->cell, "bias"), 1e-5);
    case 23: return gated(t, h);
    case 24: return slope(h);
    default: return haul_sub(h, haul_max(h, HAUL_AXES(1), .keepdim = true));
    }
}

static haul_tensor *forward(const training *t)
{
    unsigned     r = t->plan;
    haul_tensor *first = haul_mul_scalar(t->x, 1.5), *h = first;
    for (int i = 0; i < t->calls; i++)
        h = apply_kind(t, h, first, below(&r, KINDS), &r);
    haul_status status = haul_add_into(t->sum, t->sum, haul_detach(haul_mean(h)));
    return status ? NULL : haul_mean(haul_square(haul_call(t->layers[0], h)));
}

static haul_status backward(training *t)
{
    haul_autocast_state before = haul_autocast_begin("all", t->autocast);
    haul_tensor        *loss = forward(t);
    haul_status         status = haul_autocast_end(before);
    if (!loss || status)
        return haul_error_status();
    status = haul_copy_into(t->loss, haul_detach(loss));
    if (!status)
        status = haul_backward(t->scaler ? haul_grad_scaler_scale(t->scaler, loss) : loss, .once = t->calls % 2);
    return status;
}

static haul_status update(training *t)
{
    haul_status status = HAUL_OK;
    if (t->clips && t->scaler)
        status = haul_grad_scaler_unscale(t->scaler, t->optimizer);
    if (!status && t->clips)
        status = haul_tensor_check(haul_clip_grad_norm(t->net, 0.5));
    if (!status)
        status = t->scaler ? haul_grad_scaler_step(t->scaler, t->optimizer) : haul_optimizer_step(t->optimizer);
    if (!status && t->scaler)
        status = haul_grad_scaler_update(t->scaler);
    return status ? status : haul_average_update(t->average);
}

static haul_status step(void *context)
{
    training   *t = context;
    haul_status status = haul_set_device(t->device);
    if (!status && !t->zeroes_last)
        status = haul_optimizer_zero_grad(t->optimizer);
    for (int i = 0; i < t->times && !status; i++)
        status = backward(t);
    if (!status)
        status = update(t);
    return !status && t->zeroes_last ? haul_optimizer_zero_grad(t->optimizer) : status;
}

/* ---- pairs ---- */

static void make(training *t, haul_device *device, haul_device *other, unsigned form)
{
    haul_manual_seed(form);
    assert_int_equal(haul_set_device(device), HAUL_OK);
    *t = (training){.device = device, .other = other};
    for (int i = 0; i < LAYERS; i++)
        t->layers[i] = haul_nn_linear(WIDTH, WIDTH);
    t->embedding = haul_nn_embedding(WORDS, WIDTH);
    t->norm = form % 2 ? haul_nn_batch_norm(WIDTH) : haul_nn_layer_norm(WIDTH);
    t->cell = haul_nn_linear(WIDTH, WIDTH);
    t->gru = haul_nn_gru(WIDTH, WIDTH);
    t->net = haul_nn_list((haul_module *[]){t->layers[0], t->layers[1], t->layers[2], t->layers[3], t->embedding,
                                            t->norm, t->cell, t->gru},
                          LAYERS + 4);
    assert_int_equal(haul_module_to(t->net, device), HAUL_OK);
    t->optimizer = form % 3 == 0   ? haul_adamw(t->net, 0.01)
                   : form % 3 == 1 ? haul_sgd(t->net, 0.05, .momentum = 0.9)
                                   : haul_rmsprop(t->net, 0.01);
    if (form % 2)
        haul_optimizer_add_group(t->optimizer, .module = t->cell, .lr = 0.02);
    t->scaler = form % 4 == 3 ? haul_grad_scaler_new(t->optimizer, .init_scale = 256, .growth_interval = 5) : NULL;
    t->average = haul_average_new(t->net, .decay = 0.9);
    t->sum = haul_zeros(HAUL_F32, HAUL_SCALAR_SHAPE);
    t->loss = haul_zeros(HAUL_F32, HAUL_SCALAR_SHAPE);
    t->zeroes_last = form % 5 == 0;
    assert_int_equal(haul_tensor_check(t->loss), HAUL_OK);
}

static void set_batch(training *a, training *b, unsigned *r)
{
    const int64_t batch = below(r, 3) ? MOST_BATCH : 2 + below(r, MOST_BATCH - 1);
    a->x = b->x = haul_normal(HAUL_F32, HAUL_SHAPE(batch, WIDTH), 0, 1);
    a->words = b->words = haul_randint(HAUL_I64, HAUL_SHAPE(batch), 0, WORDS);
    assert_int_equal(haul_tensor_check(a->words), HAUL_OK);
}

/* A group, or all of them. */
static int group_of(training *t, unsigned *r)
{
    return (int)below(r, 1 + (unsigned)haul_optimizer_group_count(t->optimizer)) - 1;
}

/* What changes between two steps, in both trainings. */
static void change(training *t, unsigned what, unsigned r)
{
    haul_tensor *weight = haul_module_parameter(t->layers[below(&r, LAYERS)], "weight");
    switch (what) {
    case 0: haul_optimizer_set(t->optimizer, group_of(t, &r), "lr", 0.001 * (1 + below(&r, 50))); break;
    case 1: haul_optimizer_set(t->optimizer, HAUL_ALL_GROUPS, "weight_decay", 0.01 * below(&r, 3)); break;
    case 2: haul_set_requires_grad(weight, !haul_requires_grad(weight)); break;
    case 3: /* other memory in the place of the parameters' */
        haul_module_cast(t->net, HAUL_F64);
        haul_module_cast(t->net, HAUL_F32);
        break;
    case 4: t->dropout = 0.1 * below(&r, 4); break;
    case 5: t->clips = !t->clips; break;
    case 6: t->times = 1 + (int)below(&r, 3); break;
    case 7: t->autocast = t->autocast ? HAUL_DTYPE_NONE : HAUL_BF16; break;
    case 8: t->checkpoints = !t->checkpoints; break;
    case 9: haul_set_grad(weight, haul_full_like(haul_detach(weight), 0.5)); break;
    case 10: t->zeroes_last = !t->zeroes_last; break;
    case 11: haul_mul_scalar_into(haul_detach(weight), haul_detach(weight), 0.9); break;
    default:
        t->plan = 1 + below(&r, 1000);
        t->calls = 5 + (int)below(&r, 56);
        break;
    }
    assert_int_equal(haul_error_status(), HAUL_OK);
}
enum { CHANGES = 14 };

/* A NaN equals another one: in a chain its sign may differ, and a step whose loss is finite can make some. */
static bool is_same(haul_tensor *a, haul_tensor *b)
{
    enum { MOST = 1024 };
    static float x[MOST], y[MOST];
    const size_t bytes = haul_tensor_bytes(a), count = bytes / sizeof *x;
    bool         same = true;
    assert_true(bytes <= sizeof x && haul_tensor_bytes(b) == bytes);
    assert_int_equal(haul_read(a, x, bytes), HAUL_OK);
    assert_int_equal(haul_read(b, y, bytes), HAUL_OK);
    if (haul_tensor_dtype(a) != HAUL_F32)
        return memcmp(x, y, bytes) == 0;
    for (size_t i = 0; same && i < count; i++)
        same = memcmp(&x[i], &y[i], sizeof *x) == 0 || (isnan(x[i]) && isnan(y[i]));
    return same;
}

static void expect_same_bits(haul_tensor *a, haul_tensor *b, const char *what, unsigned form, int at)
{
    if (!is_same(a, b))
        fail_msg("%s of form %u after step %d: the bits differ", what, form, at);
}

static void expect_same(const training *a, const training *b, unsigned form, int at)
{
    enum { MOST = 64 };
    haul_named_tensor p[MOST], q[MOST];
    const int         count = haul_module_tensors(a->net, p, MOST);
    assert_int_equal(haul_module_tensors(b->net, q, MOST), count);
    for (int i = 0; i < count; i++)
        expect_same_bits(p[i].tensor, q[i].tensor, p[i].name, form, at);
    expect_same_bits(a->loss, b->loss, "the loss", form, at);
    expect_same_bits(a->sum, b->sum, "the sum", form, at);
    assert_int_equal(haul_optimizer_steps(a->optimizer), haul_optimizer_steps(b->optimizer));
}

/* Makes at most `steps` steps, and ends when the loss is not finite, because nothing differs from then on. Returns how
 * many there were. */
static int make_steps(haul_device *device, haul_device *other, unsigned form, int steps, int64_t *followed)
{
    int             made = 0;
    static training eager, recorded;
    haul_scope     *scope = haul_scope_push();
    unsigned        r = 1000 + form;
    make(&eager, device, other, form);
    make(&recorded, device, other, form);
    haul_recording *recording = haul_recording_new(step, &recorded, .variants = 3);
    eager.times = recorded.times = 1;
    eager.plan = recorded.plan = 1 + form;
    eager.calls = recorded.calls = 5 + (int)(form % 20);
    for (bool finite = true; made < steps && finite; made++) {
        const int   k = made;
        haul_scope *inner_scope = haul_scope_push();
        haul_set_device(device);
        set_batch(&eager, &recorded, &r);
        if (below(&r, 3) == 0) {
            const unsigned what = below(&r, CHANGES), how = next(&r);
            change(&eager, what, how);
            change(&recorded, what, how);
        }
        const haul_random_state before = haul_random_state_get();
        haul_scope             *of_step = haul_scope_push();
        if (step(&eager))
            fail_msg("form %u, step %d: %s", form, k, haul_error_message());
        haul_scope_pop(of_step);
        const haul_random_state after = haul_random_state_get();
        haul_random_state_set(before);
        if (haul_recording_run(recording))
            fail_msg("form %u, step %d, recorded: %s", form, k, haul_error_message());
        assert_int_equal(haul_random_state_get().offset, after.offset);
        expect_same(&eager, &recorded, form, k);
        finite = isfinite(haul_item(eager.loss));
        haul_scope_pop(inner_scope);
    }
    haul_recording_report report;
    assert_int_equal(haul_recording_report_get(recording, &report), HAUL_OK);
    *followed += report.followed;
    haul_scope_pop(scope);
    return made;
}

static void test_random_steps(void **state)
{
    (void)state;
    enum { FORMS = 30, LONGEST = 200 };
    const char  *text = getenv("HAUL_RECORDING_STEPS"), *seed = getenv("HAUL_RECORDING_SEED");
    const int    steps = text ? atoi(text) : 300, each = steps / FORMS < LONGEST ? steps / FORMS + 1 : LONGEST;
    unsigned     first = seed ? (unsigned)atoi(seed) * 1000 : 0;
    haul_device *devices[8];
    const int    count = test_devices(devices, 8);
    for (int d = 0; d < count; d++) {
        int64_t      followed = 0;
        int          made = 0;
        haul_device *other = d ? haul_cpu() : count > 1 ? devices[1] : NULL;
        for (unsigned form = first; made < steps; form++)
            made += make_steps(devices[d], form % 2 ? other : NULL, form, each, &followed);
        printf("%s: %lld of %d steps followed\n", haul_device_name(devices[d]), (long long)followed, made);
        assert_true(followed > steps / 5);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
