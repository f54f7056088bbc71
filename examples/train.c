/* A network that learns to tell two clouds of points apart. train.cpp and train.py are the same program in C++20 and in
 * Python (with ctypes). All three print the same numbers. */
#include <haul/haul.h>
#include <stdio.h>

/* The mean loss of an epoch. */
static double train(haul_module *net, haul_optimizer *adam, haul_loader *loader, int64_t epoch)
{
    double sum = 0;
    haul_loader_start(loader, epoch);
    for (const haul_batch *b; (b = haul_loader_next(loader));) {
        haul_scope *scope = haul_scope_push();
        haul_budget(.d2h_bytes = 4, .waits = 1); /* the loss */
        haul_optimizer_zero_grad(adam);
        haul_tensor *loss = haul_bce_with_logits(haul_call(net, b->x), b->y);
        haul_backward(loss);
        haul_optimizer_step(adam);
        sum += haul_item(loss);
        haul_scope_pop(scope);
    }
    return sum / (double)haul_loader_batches(loader);
}

int main(void)
{
    haul_scope *program = haul_scope_push();
    haul_manual_seed(1);
    haul_module    *net = HAUL_SEQUENTIAL(haul_nn_linear(10, 16, .relu = true), haul_nn_linear(16, 1));
    haul_optimizer *adam = haul_adam(net, 0.01, .betas = {0.9, 0.99});
    haul_loader    *loader = haul_loader_new(haul_blobs(1024, .seed = 1), .batch = 64, .shuffle = true);

    for (int64_t epoch = 1; epoch <= 5 && haul_error_status() == HAUL_OK; epoch++)
        printf("epoch %d: loss %.6f\n", (int)epoch, train(net, adam, loader, epoch));

    haul_scope_pop(program);
    if (haul_error_status())
        fprintf(stderr, "%s\n", haul_error_message());
    return haul_error_status() != HAUL_OK;
}
