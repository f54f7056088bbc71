/* Training steps that are recorded once and then followed: bit-identical results, and less work around the kernels.
 *
 *     recording [DEVICE] */
#include <haul/haul.h>
#include <stdio.h>

enum { EPOCHS = 5, BATCH = 24, EXAMPLES = 500 };

typedef struct training {
    haul_module      *net;
    haul_optimizer   *sgd;
    haul_tensor      *sum; /* of the losses of an epoch */
    const haul_batch *batch;
} training;

static haul_status step(void *context)
{
    training    *t = context;
    haul_tensor *loss = haul_bce_with_logits(haul_call(t->net, t->batch->x), t->batch->y);
    haul_status  status = haul_backward(loss);
    if (!status)
        status = haul_optimizer_step(t->sgd);
    if (!status)
        status = haul_add_into(t->sum, t->sum, haul_detach(loss));
    return status ? status : haul_optimizer_zero_grad(t->sgd);
}

static haul_status train_epoch(training *t, haul_recording *recording, haul_loader *loader, int64_t epoch)
{
    int batches = 0;
    haul_zero_into(t->sum);
    haul_loader_start(loader, epoch);
    while ((t->batch = haul_loader_next(loader))) {
        haul_scope *scope = haul_scope_push();
        haul_budget(.waits = 0); /* nothing is copied: the loader has put the batch on the device */
        haul_status status = haul_recording_run(recording);
        if (haul_scope_pop(scope) || status)
            return haul_error_status();
        batches++;
    }
    printf("epoch %lld: loss %.4f\n", (long long)epoch, haul_item(t->sum) / batches);
    return haul_error_status();
}

int main(int argc, char **argv)
{
    haul_scope *program = haul_scope_push();
    haul_manual_seed(1);
    haul_recording_report report = {0};
    haul_device          *device = haul_device_get(argc > 1 ? argv[1] : "auto");
    training              t = {.net = haul_model_new("dense")};
    haul_set_device(device);
    haul_module_to(t.net, device);
    t.sgd = haul_sgd(t.net, 0.05, .momentum = 0.9);
    t.sum = haul_zeros(HAUL_F32, HAUL_SCALAR_SHAPE);
    haul_loader *loader =
        haul_loader_new(haul_blobs(EXAMPLES, .seed = 1), .batch = BATCH, .shuffle = true, .device = device);
    haul_recording *recording = haul_recording_new(step, &t);
    for (int64_t epoch = 1; epoch <= EPOCHS && !train_epoch(&t, recording, loader, epoch);)
        epoch++;
    if (!haul_error_status() && !haul_recording_report_get(recording, &report))
        printf("%lld steps followed, %lld not; %d forms of the step, because the last batch is smaller\n",
               (long long)report.followed, (long long)report.eager, report.variants);
    haul_scope_pop(program);
    if (haul_error_status())
        fprintf(stderr, "%s\n", haul_error_message());
    return haul_error_status() != HAUL_OK;
}
