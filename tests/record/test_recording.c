/* Recordings: steps that are followed give the bits of steps that run as they are, and whatever changes is seen.
 *
 * ctest: cuda */
#include <haul/haul.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "support/conformance.h"

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
    return status ? status : haul_backward(t->scaler ? haul_grad_scaler_scale(t->scaler, loss) : loss, HAUL_NONE);
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

static void expect_same_bytes(haul_tensor *a, haul_tensor *b, const char *what, int at)
{
    const size_t bytes = (size_t)haul_tensor_bytes(a);
    char        *x = malloc(bytes + 1), *y = malloc(bytes + 1);
    assert_int_equal(haul_read(a, x, bytes), HAUL_OK);
    assert_int_equal(haul_read(b, y, bytes), HAUL_OK);
    if (memcmp(x, y, bytes))
        fail_msg("%s differs after step %d", what, at);
    free(x);
    free(y);
}

static void expect_same(const training *a, const training *b, int at)
{
    enum { MOST = 256 };
    haul_named_tensor p[MOST], q[MOST];
    expect_same_bytes(a->loss, b->loss, "the loss", at);
    const int count = haul_module_tensors(a->net, p, MOST);
    assert_int_equal(haul_module_tensors(b->net, q, MOST), count);
    for (int i = 0; i < count && i < MOST; i++)
        expect_same_bytes(p[i].tensor, q[i].tensor, p[i].name, at);
    const int states = haul_optimizer_state(a->optimizer, p, MOST);
    assert_int_equal(haul_optimizer_state(b->optimizer, q, MOST), states);
    for (int i = 0; i < states && i < MOST; i++)
        expect_same_bytes(p[i].tensor, q[i].tensor, p[i].name, at);
    assert_int_equal(haul_optimizer_steps(a->optimizer), haul_optimizer_steps(b->optimizer));
    if (a->keeps)
        expect_same_bytes(a->kept, b->kept, "a kept tensor", at);
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

static haul_recording_report report_of(const haul_recording *r)
{
    haul_recording_report report;
    assert_int_equal(haul_recording_report_get(r, &report), HAUL_OK);
    return report;
}

static const form forms[] = {
    {.model = "dense", .optimizer = "momentum", .shape = {2, {8, 10}}},
    {.model = "dense", .optimizer = "plain", .shape = {2, {8, 10}}, .zeroes_last = true},
    {.model = "dense", .optimizer = "adamw", .shape = {2, {8, 10}}, .clips = true, .averages = true},
    {.model = "dense", .optimizer = "rmsprop", .shape = {2, {8, 10}}, .dropout = 0.25, .keeps = true},
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
