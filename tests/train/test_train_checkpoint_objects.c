/* Which objects a checkpoint holds: the module and the optimizers that train it, with their schedules, averages and
 * loss scalers. Nothing is left out silently. */
#include <unistd.h>

#include "support/checkpoint.h"

static void test_checkpoint__refuses_an_optimizer_of_another_module(void **state)
{
    (void)state;
    haul_scope            *scope = haul_scope_push();
    haul_training_position position;
    training               a = begin(1, false), b = begin(2, false);
    step(&a);
    step(&b);
    assert_refused(save(a.net, b.optimizer), HAUL_INVALID_ARGUMENT, "haul_save_checkpoint",
                   "the optimizer trains '0.weight', which the module does not hold");
    assert_int_equal(access("x.ckpt", F_OK), -1);
    assert_int_equal(save(a.net, a.optimizer), HAUL_OK);
    everything before = state_of(&b);
    assert_refused(haul_load_checkpoint("x.ckpt", a.net, b.optimizer, .position = &position), HAUL_INVALID_ARGUMENT,
                   "haul_load_checkpoint", "the optimizer trains '0.weight', which the module does not hold");
    everything after = state_of(&b);
    assert_same(&before, &after);

    /* one that trains a part of the module, or all of a larger one, leaves nothing out */
    haul_module    *whole = HAUL_SEQUENTIAL(a.net, haul_nn_linear(3, 2));
    haul_optimizer *part = haul_sgd(haul_module_child(whole, "1"), 0.001, .momentum = 0.9);
    haul_optimizer *all = haul_sgd(whole, 0.001, .momentum = 0.9);
    assert_int_equal(save(whole, a.optimizer), HAUL_OK);
    assert_int_equal(haul_load_checkpoint("x.ckpt", whole, a.optimizer, .position = &position), HAUL_OK);
    assert_refused(save(a.net, all), HAUL_INVALID_ARGUMENT, "haul_save_checkpoint", "the optimizer trains '1.weight'");
    assert_refused(save(a.net, part), HAUL_INVALID_ARGUMENT, "haul_save_checkpoint", "the optimizer trains 'weight'");
    haul_scope_pop(scope);
}

static void test_checkpoint__refuses_to_leave_out_another_optimizer(void **state)
{
    (void)state;
    haul_scope *scope = haul_scope_push();
    training    t = begin(1, false), other = {t.net, haul_adam(t.net, 0.001)};
    step(&t);
    assert_int_equal(save(t.net, t.optimizer), HAUL_OK); /* the other one has no state yet */
    step(&other);
    assert_refused(save(t.net, t.optimizer), HAUL_STATE, "haul_save_checkpoint",
                   "another optimizer (adam) trains '0.weight' of this module");
    assert_refused(save(t.net, other.optimizer), HAUL_STATE, "haul_save_checkpoint", "another optimizer (sgd)");
    assert_int_equal(haul_drop(other.optimizer), HAUL_OK);
    assert_int_equal(save(t.net, t.optimizer), HAUL_OK);

    /* each with what it trains */
    haul_module    *first = HAUL_SEQUENTIAL(haul_nn_linear(6, 5)), *second = HAUL_SEQUENTIAL(haul_nn_linear(5, 3));
    training        whole = {HAUL_SEQUENTIAL(first, second), NULL};
    haul_optimizer *a = haul_sgd(first, 0.001, .momentum = 0.9), *b = haul_adam(second, 0.001);
    whole.optimizer = a, step(&whole);
    whole.optimizer = b, step(&whole);
    assert_refused(save(whole.net, a), HAUL_STATE, "haul_save_checkpoint",
                   "another optimizer (adam) trains '1.0.weight'");
    assert_int_equal(save(first, a), HAUL_OK);
    assert_int_equal(save(second, b), HAUL_OK);
    haul_scope_pop(scope);
}

static void test_checkpoint__refuses_to_leave_out_a_scaler(void **state)
{
    (void)state;
    haul_scope            *scope = haul_scope_push();
    haul_training_position position;
    training               t = begin(1, false), plain = begin(2, false);
    step(&t);
    haul_grad_scaler *first = haul_grad_scaler_new(t.optimizer), *second = haul_grad_scaler_new(t.optimizer);
    assert_non_null(first);
    assert_refused(save(t.net, t.optimizer), HAUL_STATE, "haul_save_checkpoint", "two gradient scalers");
    assert_int_equal(haul_drop(first), HAUL_OK);
    assert_int_equal(save(t.net, t.optimizer), HAUL_OK);
    assert_non_null(second);
    everything before = state_of(&plain);
    assert_refused(haul_load_checkpoint("x.ckpt", plain.net, plain.optimizer, .position = &position),
                   HAUL_INVALID_ARGUMENT, "haul_load_checkpoint", "'grad_scaler.scale' belongs to loss scaling");
    everything after = state_of(&plain);
    assert_same(&before, &after);
    haul_scope_pop(scope);
}

/* Two optimizers, of which one has two groups, a chain of schedules, a plateau, and two averages. */
typedef struct run {
    haul_module    *net;
    haul_optimizer *trunk, *head;
    haul_schedule  *schedules[2];
    haul_average   *averages[2];
} run;

static run begin_run(uint64_t seed)
{
    haul_manual_seed(seed);
    run r = {.net = HAUL_SEQUENTIAL(haul_nn_linear(6, 5), haul_nn_relu(), haul_nn_linear(5, 3))};
    r.trunk = haul_adamw(haul_module_child(r.net, "0"), 0.01);
    r.head = haul_rmsprop(haul_module_child(r.net, "2"), 0.02, .momentum = 0.5, .centered = true);
    assert_int_equal(haul_optimizer_add_group(r.trunk, .names = "bias", .lr = 0.005, .weight_decay = HAUL_ZERO), 1);
    haul_schedule *parts[] = {haul_schedule_warm_up(r.trunk, 2), haul_schedule_cosine(r.trunk, 9)};
    r.schedules[0] = haul_schedule_chain(parts, (const int64_t[]){2}, 2);
    r.schedules[1] = haul_schedule_plateau(r.head, .patience = 1, .factor = 0.5);
    r.averages[0] = haul_average_new(r.net, .decay = 0.75, .bias_corrected = true);
    r.averages[1] = haul_average_new(haul_module_child(r.net, "2"), .equal = true);
    assert_int_equal(haul_error_status(), HAUL_OK);
    return r;
}

static void run_step(run *r)
{
    haul_scope  *inner = haul_scope_push();
    haul_tensor *x = haul_uniform(HAUL_F32, HAUL_SHAPE(4, 6), -1, 1);
    haul_tensor *loss = haul_mse_loss(haul_call(r->net, x), haul_zeros(HAUL_F32, HAUL_SHAPE(4, 3)));
    assert_int_equal(haul_backward(loss), HAUL_OK);
    assert_int_equal(haul_optimizer_step(r->trunk), HAUL_OK);
    assert_int_equal(haul_optimizer_step(r->head), HAUL_OK);
    haul_optimizer_zero_grad(r->trunk);
    haul_optimizer_zero_grad(r->head);
    assert_int_equal(haul_schedule_step(r->schedules[0]), HAUL_OK);
    assert_int_equal(haul_schedule_step_metric(r->schedules[1], 1), HAUL_OK);
    for (int i = 0; i < 2; i++)
        assert_int_equal(haul_average_update(r->averages[i]), HAUL_OK);
    haul_scope_pop(inner);
}

static everything state_of_run(run *r)
{
    haul_named_tensor tensors[64];
    double            numbers[64];
    everything        e;
    memset(&e, 0, sizeof e);
    add(&e, tensors, haul_module_tensors(r->net, tensors, 64));
    add(&e, tensors, haul_optimizer_state(r->trunk, tensors, 64));
    add(&e, tensors, haul_optimizer_state(r->head, tensors, 64));
    for (int i = 0; i < 2; i++) {
        add(&e, tensors, haul_average_tensors(r->averages[i], tensors, 64));
        int               count = haul_schedule_state(r->schedules[i], numbers, 64);
        haul_named_tensor t = {"numbers", haul_from_host(HAUL_F64, HAUL_SHAPE(count), numbers), false};
        add(&e, &t, 1);
    }
    double            settings[] = {haul_optimizer_get(r->trunk, 0, "lr"), haul_optimizer_get(r->trunk, 1, "lr"),
                                    haul_optimizer_get(r->trunk, 1, "weight_decay"), haul_optimizer_get(r->head, 0, "lr")};
    haul_named_tensor t = {"settings", haul_from_host(HAUL_F64, HAUL_SHAPE(4), settings), false};
    add(&e, &t, 1);
    e.random = haul_random_state_get();
    e.steps = haul_optimizer_steps(r->head) + 1000 * haul_average_updates(r->averages[0]);
    return e;
}

#define PARTS(r)                                                                                                       \
    .optimizers = &(r).head, .optimizer_count = 1, .schedules = (r).schedules, .schedule_count = 2,                    \
    .averages = (r).averages, .average_count = 2

static void test_checkpoint__of_several_objects_goes_on_to_the_same_bits(void **state)
{
    (void)state;
    haul_scope            *scope = haul_scope_push();
    haul_training_position position = {3, 4};
    run                    whole = begin_run(1);
    for (int i = 0; i < 4; i++)
        run_step(&whole);
    assert_int_equal(haul_save_checkpoint("several.ckpt", whole.net, whole.trunk, .position = &position, PARTS(whole)),
                     HAUL_OK);
    for (int i = 0; i < 4; i++)
        run_step(&whole);
    everything expected = state_of_run(&whole);
    run        resumed = begin_run(2);
    run_step(&resumed);
    position = (haul_training_position){0, 0};
    if (haul_load_checkpoint("several.ckpt", resumed.net, resumed.trunk, .position = &position, PARTS(resumed)))
        fail_msg("%s", haul_error_message());
    assert_true(position.epoch == 3 && position.batch == 4);
    for (int i = 0; i < 4; i++)
        run_step(&resumed);
    everything got = state_of_run(&resumed);
    assert_same(&expected, &got);
    haul_scope_pop(scope);
}

/* Nothing is left out silently, and what does not fit changes nothing. */
static void test_checkpoint__of_several_objects_wants_them_all(void **state)
{
    (void)state;
    haul_scope *scope = haul_scope_push();
    run         r = begin_run(1), other = begin_run(2);
    run_step(&r);
    run_step(&other);
    assert_refused(haul_save_checkpoint("y", r.net, r.trunk), HAUL_STATE, "haul_save_checkpoint",
                   "another optimizer (rmsprop) trains '2.weight' of this module");
    assert_refused(haul_save_checkpoint("y", haul_module_child(r.net, "0"), r.trunk, .schedules = r.schedules,
                                        .schedule_count = 2),
                   HAUL_INVALID_ARGUMENT, "haul_save_checkpoint", "a schedule (plateau) belongs to an optimizer");
    assert_refused(haul_save_checkpoint("y", r.net, r.trunk, .optimizers = &r.trunk, .optimizer_count = 1),
                   HAUL_INVALID_ARGUMENT, "haul_save_checkpoint", "an optimizer is given twice");
    assert_refused(haul_save_checkpoint("y", r.net, NULL), HAUL_INVALID_ARGUMENT, "haul_save_checkpoint", "optimizer");
    assert_refused(haul_save_checkpoint("y", r.net, r.trunk, .schedule_count = -1), HAUL_INVALID_ARGUMENT,
                   "haul_save_checkpoint", "schedule_count is -1");
    assert_int_equal(haul_average_swap(r.averages[0]), HAUL_OK);
    assert_refused(haul_save_checkpoint("y", r.net, r.trunk, PARTS(r)), HAUL_STATE, "haul_save_checkpoint",
                   "the averages are in the parameters");
    assert_int_equal(haul_average_swap(r.averages[0]), HAUL_OK);
    assert_int_equal(haul_save_checkpoint("several.ckpt", r.net, r.trunk, PARTS(r)), HAUL_OK);

    everything before = state_of_run(&other);
    assert_refused(haul_load_checkpoint("several.ckpt", other.net, other.trunk), HAUL_INVALID_ARGUMENT,
                   "haul_load_checkpoint", "was written with 2 optimizers, but 1 are given");
    assert_refused(haul_load_checkpoint("several.ckpt", other.net, other.head, .optimizers = &other.trunk,
                                        .optimizer_count = 1, .schedules = other.schedules, .schedule_count = 2,
                                        .averages = other.averages, .average_count = 2),
                   HAUL_INVALID_ARGUMENT, "haul_load_checkpoint", "the optimizer 'adamw', but this one is 'rmsprop'");
    haul_schedule *turned[] = {other.schedules[1], other.schedules[0]};
    assert_refused(haul_load_checkpoint("several.ckpt", other.net, other.trunk, .optimizers = &other.head,
                                        .optimizer_count = 1, .schedules = turned, .schedule_count = 2,
                                        .averages = other.averages, .average_count = 2),
                   HAUL_INVALID_ARGUMENT, "haul_load_checkpoint", "the schedule 'chain', but this one is 'plateau'");
    haul_average *same[] = {other.averages[1], other.averages[0]};
    assert_refused(haul_load_checkpoint("several.ckpt", other.net, other.trunk, .optimizers = &other.head,
                                        .optimizer_count = 1, .schedules = other.schedules, .schedule_count = 2,
                                        .averages = same, .average_count = 2),
                   HAUL_INVALID_ARGUMENT, "haul_load_checkpoint", "count is 4, but there are 2 averages");
    everything after = state_of_run(&other);
    assert_same(&before, &after);
    assert_int_equal(haul_optimizer_add_group(other.trunk, .names = "weight"), 2);
    assert_refused(haul_load_checkpoint("several.ckpt", other.net, other.trunk, PARTS(other)), HAUL_INVALID_ARGUMENT,
                   "haul_load_checkpoint", "'groups.0' has 2 elements");
    haul_scope_pop(scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_checkpoint__refuses_an_optimizer_of_another_module),
        cmocka_unit_test(test_checkpoint__refuses_to_leave_out_another_optimizer),
        cmocka_unit_test(test_checkpoint__refuses_to_leave_out_a_scaler),
        cmocka_unit_test(test_checkpoint__of_several_objects_goes_on_to_the_same_bits),
        cmocka_unit_test(test_checkpoint__of_several_objects_wants_them_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
