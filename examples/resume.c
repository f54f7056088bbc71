/* A training that is stopped and resumed. Each step adds up the gradients of four mini-batches. The training ends when
 * the validation loss has not improved for two epochs, and the best weights are in a file. The program stops after the
 * third epoch, saves a checkpoint, and goes on from it with a new network.
 *
 *     resume [DEVICE] */
#include <haul/haul.h>
#include <stdio.h>

enum { EXAMPLES = 1000, BATCH = 16, STOP = 3, MOST = 100 };

typedef struct training {
    haul_module           *net;
    haul_optimizer        *adam;
    haul_training_position at;
    haul_early_stop        stop;
} training;

static training begin(uint64_t seed)
{
    haul_manual_seed(seed);
    training t = {.at = {.epoch = 1}, .stop = {.patience = 2, .min_delta = 1e-3}};
    t.net = HAUL_SEQUENTIAL(haul_nn_linear(10, 32, .relu = true), haul_nn_linear(32, 1));
    t.adam = haul_adam(t.net, 0.005);
    return t;
}

static haul_status train_epoch(training *t, haul_loader *loader)
{
    const haul_accumulation plan = {.examples = EXAMPLES, .batch = BATCH, .accumulate = 4};
    haul_loader_start(loader, t->at.epoch);
    for (const haul_batch *b; (b = haul_loader_next(loader));) {
        haul_scope    *scope = haul_scope_push();
        haul_step_part part;
        haul_budget(.waits = 0);
        haul_accumulation_part(&plan, b->index, &part);
        haul_train_begin(t->adam, &part);
        haul_train_step(t->adam, haul_bce_with_logits(haul_call(t->net, b->x), b->y), .part = &part, .clip_norm = 1);
        if (haul_scope_pop(scope) || haul_error_status())
            break;
    }
    return haul_error_status();
}

/* The loss of a loader with one batch. */
static double evaluate(haul_module *net, haul_loader *loader)
{
    haul_scope *scope = haul_scope_push();
    haul_set_grad_enabled(false);
    haul_loader_start(loader, 1);
    const haul_batch *b = haul_loader_next(loader);
    const double      loss = b ? haul_item(haul_bce_with_logits(haul_call(net, b->x, .mode = HAUL_EVALUATE), b->y)) : 0;
    haul_scope_pop(scope);
    return loss;
}

/* Up to this epoch, or until early stopping ends the training. */
static haul_status train_until(training *t, int64_t last, haul_loader *loader, haul_loader *validation)
{
    for (; t->at.epoch <= last && !haul_early_stop_is_due(&t->stop); t->at.epoch++) {
        if (train_epoch(t, loader))
            return haul_error_status();
        const double loss = evaluate(t->net, validation);
        const bool   best = haul_early_stop_update(&t->stop, t->at.epoch, loss);
        printf("epoch %d: loss %.4f%s\n", (int)t->at.epoch, loss, best ? ", the best so far" : "");
        if (best && haul_save_weights("best.safetensors", t->net))
            return haul_error_status();
    }
    return haul_error_status();
}

static haul_status stop_and_resume(haul_loader *loader, haul_loader *validation)
{
    const char *path = "resume.checkpoint";
    training    first = begin(1);
    if (train_until(&first, STOP, loader, validation) ||
        haul_save_checkpoint(path, first.net, first.adam, .position = &first.at, .stop = &first.stop))
        return haul_error_status();

    training second = begin(99); /* other weights, until the checkpoint is loaded */
    if (haul_load_checkpoint(path, second.net, second.adam, .position = &second.at, .stop = &second.stop))
        return haul_error_status();
    printf("resumed at epoch %d\n", (int)second.at.epoch);
    if (train_until(&second, MOST, loader, validation) || haul_load_weights("best.safetensors", second.net))
        return haul_error_status();
    printf("the best weights, of epoch %d: loss %.4f\n", (int)second.stop.best_epoch, evaluate(second.net, validation));
    return haul_error_status();
}

int main(int argc, char **argv)
{
    haul_scope *program = haul_scope_push();
    haul_set_device(haul_device_get(argc > 1 ? argv[1] : "auto"));
    haul_loader *loader = haul_loader_new(haul_blobs(EXAMPLES, .seed = 1), .batch = BATCH, .shuffle = true);
    haul_loader *validation = haul_loader_new(haul_blobs(256, .seed = 2), .batch = 256);
    haul_status  status = stop_and_resume(loader, validation);
    if (status)
        fprintf(stderr, "%s\n", haul_error_message());
    haul_scope_pop(program);
    return status != HAUL_OK;
}
