/* A network with two tasks: a shared trunk, a head that predicts a number and a head that predicts a class. The program
 * trains it twice: once without a break, and once with a stop, a checkpoint and a fresh start. The weights are equal
 * bit for bit.
 *
 *     multi_task [DEVICE] */
#include <haul/haul.h>
#include <stdio.h>

enum { TRAIN = 512, VALID = 128, BATCH = 32, STEPS = TRAIN / BATCH, EPOCHS = 30, STOP = 5, PATIENCE = 2 };

typedef struct data {
    haul_tensor *x, *value, *kind;
} data;

typedef struct training {
    haul_module           *net;
    haul_optimizer        *adamw;
    haul_schedule         *rates;
    haul_average          *average;
    haul_training_position at;
    haul_early_stop        stop;
} training;

/* The contents of a checkpoint. */
static haul_checkpoint_options parts_of(training *t)
{
    return (haul_checkpoint_options){.module = t->net,
                                     .optimizer = t->adamw,
                                     .position = &t->at,
                                     .schedules = &t->rates,
                                     .schedule_count = 1,
                                     .averages = &t->average,
                                     .average_count = 1,
                                     .stop = &t->stop};
}

static haul_tensor *forward(haul_module *net, haul_args *args)
{
    haul_tensor *h = haul_call_child(net, "trunk", args->x[0]);
    args->y[1] = haul_call_child(net, "kind", h);
    return haul_call_child(net, "value", h);
}

static haul_module *network(void)
{
    haul_module *net = haul_module_new("two_tasks", forward, .results = "value, kind");
    haul_module *trunk = HAUL_SEQUENTIAL(haul_nn_linear(8, 64), haul_nn_relu(), haul_nn_dropout(0.1),
                                         haul_nn_linear(64, 64), haul_nn_relu());
    haul_module_add(net, "trunk", trunk);
    haul_module_add(net, "value", haul_nn_linear(64, 1));
    haul_module_add(net, "kind", haul_nn_linear(64, 3));
    return net;
}

static training begin(uint64_t seed)
{
    haul_manual_seed(seed);
    training t = {.net = network(), .at = {.epoch = 1}, .stop = {.patience = PATIENCE}};
    t.adamw = haul_adamw(t.net, 3e-3);
    haul_optimizer_add_group(t.adamw, .names = "value.*, kind.*", .lr = 1e-2, .weight_decay = HAUL_ZERO);
    haul_schedule *parts[] = {haul_schedule_warm_up(t.adamw, STEPS, .from = 0.1),
                              haul_schedule_cosine(t.adamw, (EPOCHS - 1) * STEPS)};
    t.rates = haul_schedule_chain(parts, (const int64_t[]){STEPS}, 2);
    t.average = haul_average_new(t.net, .decay = 0.95, .bias_corrected = true);
    return t;
}

static haul_tensor *loss_of(haul_module *net, const data *d, haul_mode mode)
{
    haul_tensor *kind, *value = haul_call(net, d->x, .more = {&kind}, .mode = mode);
    return haul_add(haul_mse_loss(value, d->value), haul_cross_entropy(kind, d->kind));
}

static data some(const data *d, haul_tensor *index)
{
    return (data){haul_index_select(d->x, 0, index), haul_index_select(d->value, 0, index),
                  haul_index_select(d->kind, 0, index)};
}

static void step(const training *t, const data *train)
{
    haul_scope *scope = haul_scope_push();
    haul_budget(.waits = 0); /* nothing is copied: the data are on the device */
    data batch = some(train, haul_randint(HAUL_I64, HAUL_SHAPE(BATCH), 0, TRAIN));
    haul_train_begin(t->adamw, NULL);
    haul_train_step(t->adamw, loss_of(t->net, &batch, HAUL_TRAIN), .clip_norm = 1);
    haul_schedule_step(t->rates);
    haul_average_update(t->average);
    haul_scope_pop(scope);
}

static double evaluate(haul_module *net, const data *d)
{
    haul_scope *scope = haul_scope_push();
    haul_budget(.d2h_bytes = 4, .waits = 1); /* the loss */
    haul_set_grad_enabled(false);
    double loss = haul_item(loss_of(net, d, HAUL_EVALUATE));
    haul_scope_pop(scope);
    return loss;
}

/* Train up to this epoch, or until the validation loss has not improved for PATIENCE epochs. */
static void train_until(training *t, int64_t last, const data *train, const data *valid)
{
    for (; t->at.epoch <= last && !haul_early_stop_is_due(&t->stop) && !haul_error_status(); t->at.epoch++) {
        for (int i = 0; i < STEPS; i++)
            step(t, train);
        double loss = evaluate(t->net, valid);
        bool   better = haul_early_stop_update(&t->stop, t->at.epoch, loss);
        printf("epoch %2d: loss %.4f%s\n", (int)t->at.epoch, loss, better ? "" : ", not better");
    }
}

static data new_data(int64_t count, haul_tensor *teacher)
{
    haul_tensor *x = haul_uniform(HAUL_F32, HAUL_SHAPE(count, 8), -1, 1);
    haul_tensor *first = haul_slice(x, 1, 0, 1, 1), *second = haul_slice(x, 1, 1, 2, 1);
    return (data){x, haul_add(haul_sin(haul_mul_scalar(first, 3)), second),
                  haul_argmax(haul_matmul(x, teacher), 1, false)};
}

static bool are_equal(haul_module *a, haul_module *b)
{
    haul_named_tensor of_a[16], of_b[16];
    int               count = haul_module_tensors(a, of_a, 16), different = haul_module_tensors(b, of_b, 16) != count;
    haul_set_grad_enabled(false);
    for (int i = 0; i < count && !different; i++)
        different = haul_item(haul_sum(haul_ne(of_a[i].tensor, of_b[i].tensor))) != 0;
    return !different;
}

int main(int argc, char **argv)
{
    haul_scope *scope = haul_scope_push();
    haul_set_device(haul_device_get(argc > 1 ? argv[1] : "auto"));
    haul_manual_seed(7);
    haul_tensor *teacher = haul_normal(HAUL_F32, HAUL_SHAPE(8, 3), 0, 1);
    data         train = new_data(TRAIN, teacher), valid = new_data(VALID, teacher);

    training whole = begin(1);
    train_until(&whole, EPOCHS, &train, &valid);

    printf("the same with a stop\n");
    training                first = begin(1);
    haul_checkpoint_options parts = parts_of(&first);
    train_until(&first, STOP, &train, &valid);
    haul_save_checkpoint_with("multi_task.checkpoint", &parts);
    training second = begin(99); /* other weights and random numbers, until the checkpoint is loaded */
    parts = parts_of(&second);
    haul_load_checkpoint_with("multi_task.checkpoint", &parts);
    train_until(&second, EPOCHS, &train, &valid);
    printf("weights are equal bit for bit: %s\n", are_equal(whole.net, second.net) ? "yes" : "no");

    haul_average_swap(whole.average);
    haul_average_swap(second.average);
    printf("averages are equal bit for bit: %s\n", are_equal(whole.net, second.net) ? "yes" : "no");
    printf("averaged weights: loss %.4f\n", evaluate(whole.net, &valid));
    haul_scope_pop(scope);
    if (haul_error_status())
        fprintf(stderr, "%s\n", haul_error_message());
    return haul_error_status() != HAUL_OK;
}
