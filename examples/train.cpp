// train.c in C++20. The macros with options work as in C; options come in the order of their struct.
#include <haul/haul.h>

#include <cstdio>
#include <memory>

struct pop_scope {
    void operator()(haul_scope *scope) const
    {
        haul_scope_pop(scope);
    }
};
using scope = std::unique_ptr<haul_scope, pop_scope>;

// The mean loss of an epoch.
static double train(haul_module *net, haul_optimizer *adam, haul_loader *loader, int64_t epoch)
{
    double sum = 0;
    haul_loader_start(loader, epoch);
    while (const haul_batch *b = haul_loader_next(loader)) {
        scope step{haul_scope_push()};
        haul_budget(.d2h_bytes = 4, .waits = 1); // the loss
        haul_optimizer_zero_grad(adam);
        haul_tensor *loss = haul_bce_with_logits(haul_call(net, b->x), b->y);
        haul_backward(loss);
        haul_optimizer_step(adam);
        sum += haul_item(loss);
    }
    return sum / static_cast<double>(haul_loader_batches(loader));
}

int main()
{
    scope program{haul_scope_push()};
    haul_manual_seed(1);
    haul_module    *net = HAUL_SEQUENTIAL(haul_nn_linear(10, 16, .relu = true), haul_nn_linear(16, 1));
    haul_optimizer *adam = haul_adam(net, 0.01, .betas = {0.9, 0.99});
    haul_loader    *loader = haul_loader_new(haul_blobs(1024, .seed = 1), .batch = 64, .shuffle = true);

    for (int epoch = 1; epoch <= 5 && haul_error_status() == HAUL_OK; epoch++)
        std::printf("epoch %d: loss %.6f\n", epoch, train(net, adam, loader, epoch));

    if (haul_error_status() == HAUL_OK)
        return 0;
    std::fprintf(stderr, "%s\n", haul_error_message());
    return 1;
}
