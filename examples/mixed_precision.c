/* Mixed precision: the same network is trained in f32, in bf16 and in f16. Within autocast its products are computed in
 * the lower dtype, its loss in f32; parameters, gradients and the optimizer stay f32. f16 needs its loss scaled.
 *
 *     mixed_precision [DEVICE] */
#include <haul/haul.h>
#include <stdio.h>

typedef struct training {
    haul_module      *net;
    haul_optimizer   *optimizer;
    haul_grad_scaler *scaler; /* NULL: the loss is not scaled */
    haul_dtype        dtype;  /* HAUL_DTYPE_NONE: no autocast */
} training;

/* No step waits for the device, not even to learn whether the scaler skips it. */
static haul_status step(const training *t, const haul_batch *b, haul_tensor *sum)
{
    haul_scope *scope = haul_scope_push();
    haul_budget(.waits = 0); /* nor is anything copied */

    haul_optimizer_zero_grad(t->optimizer);
    haul_autocast_state before = haul_autocast_begin("all", t->dtype);
    haul_tensor        *loss = haul_bce_with_logits(haul_call(t->net, b->x), b->y);
    haul_autocast_end(before);

    if (t->scaler) {
        haul_backward(haul_grad_scaler_scale(t->scaler, loss));
        haul_grad_scaler_unscale(t->scaler, t->optimizer); /* so that the gradients can be clipped */
        haul_clip_grad_norm(t->net, 1);
        haul_grad_scaler_step(t->scaler, t->optimizer);
        haul_grad_scaler_update(t->scaler);
    } else {
        haul_backward(loss);
        haul_clip_grad_norm(t->net, 1);
        haul_optimizer_step(t->optimizer);
    }
    haul_add_into(sum, sum, haul_detach(loss));
    haul_scope_pop(scope);
    return haul_error_status();
}

static void train(haul_dtype dtype)
{
    enum { EPOCHS = 10 };
    haul_scope *scope = haul_scope_push();
    haul_manual_seed(1); /* the same weights each time */
    haul_module *net = HAUL_SEQUENTIAL(haul_nn_linear(10, 16), haul_nn_relu(), haul_nn_linear(16, 1));
    training     t = {.net = net, .optimizer = haul_sgd(net, 0.1, .momentum = 0.9), .dtype = dtype};
    haul_loader *loader = haul_loader_new(haul_blobs(640, .seed = 3), .batch = 32, .shuffle = true);
    haul_tensor *sum = haul_scalar(0);
    if (dtype == HAUL_F16)
        t.scaler = haul_grad_scaler_new(t.optimizer);
    for (int epoch = 1; epoch <= EPOCHS && !haul_error_status(); epoch++) {
        haul_zero_into(sum);
        haul_loader_start(loader, epoch);
        for (const haul_batch *b; (b = haul_loader_next(loader));)
            if (step(&t, b, sum))
                break;
    }
    printf("%-4s  loss %.3f", dtype ? haul_dtype_name(dtype) : "f32",
           haul_item(sum) / (double)haul_loader_batches(loader));
    if (t.scaler)
        printf(", %lld steps with the loss times %.0f", (long long)haul_optimizer_steps(t.optimizer),
               haul_grad_scaler_factor(t.scaler));
    printf("\n");
    haul_scope_pop(scope);
}

int main(int argc, char **argv)
{
    haul_scope *program = haul_scope_push();
    haul_set_device(haul_device_get(argc > 1 ? argv[1] : "auto"));
    train(HAUL_DTYPE_NONE);
    train(HAUL_BF16);
    train(HAUL_F16);
    haul_scope_pop(program);
    if (haul_error_status())
        fprintf(stderr, "%s\n", haul_error_message());
    return haul_error_status() != HAUL_OK;
}
