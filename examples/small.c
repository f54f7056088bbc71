/* A program for a small machine: trains a convolutional network on generated pictures, saves its weights, and loads
 * them into a second network, which classifies. With -DHAUL_SMALL=ON it is one static file of about 2 MB
 * (docs/tutorial-c-program.md). */
#include <haul/haul.h>
#include <stdio.h>

static haul_module *network(void)
{
    return HAUL_SEQUENTIAL(haul_nn_conv2d(3, 8, 5, .stride = {2, 2}), haul_nn_relu(), haul_nn_max_pool2d(2),
                           haul_nn_flatten(1), haul_nn_linear(8 * 7 * 7, 10));
}

/* The mean loss of an epoch. */
static double train(haul_module *net, haul_optimizer *sgd, haul_loader *loader, int64_t epoch)
{
    double sum = 0;
    haul_loader_start(loader, epoch);
    for (const haul_batch *b; (b = haul_loader_next(loader));) {
        haul_scope *scope = haul_scope_push();
        haul_optimizer_zero_grad(sgd);
        haul_tensor *loss = haul_cross_entropy(haul_call(net, b->x), b->y);
        haul_backward(loss);
        haul_optimizer_step(sgd);
        sum += haul_item(loss);
        haul_scope_pop(scope);
    }
    return sum / (double)haul_loader_batches(loader);
}

/* The share of the examples whose class has the highest score. */
static double accuracy(haul_module *net, haul_loader *loader)
{
    double right = 0, all = 0;
    haul_loader_start(loader, 0);
    for (const haul_batch *b; (b = haul_loader_next(loader));) {
        haul_scope *scope = haul_scope_push();
        haul_tensor *class = haul_argmax(haul_call(net, b->x, .mode = HAUL_EVALUATE), 1, false);
        right += haul_item(haul_sum(haul_eq(class, b->y)));
        all += (double)haul_tensor_count(b->y);
        haul_scope_pop(scope);
    }
    return right / all;
}

int main(void)
{
    haul_scope *program = haul_scope_push();
    haul_budget(.waits = 0); /* all is on the CPU, so nothing crosses a link */
    haul_manual_seed(1);
    haul_dataset   *pictures = haul_dataset_map(haul_shapes(2560, .seed = 1), haul_normalise("x"));
    haul_loader    *loader = haul_loader_new(pictures, .batch = 64, .shuffle = true);
    haul_module    *net = network();
    haul_optimizer *sgd = haul_sgd(net, 0.05, .momentum = 0.9);
    for (int64_t epoch = 1; epoch <= 3 && haul_error_status() == HAUL_OK; epoch++)
        printf("epoch %d: loss %.6f\n", (int)epoch, train(net, sgd, loader, epoch));
    haul_save_weights("small.safetensors", net);

    haul_module *other = network();
    haul_load_weights("small.safetensors", other);
    printf("%.1f%% of the pictures are classified correctly\n", 100 * accuracy(other, loader));

    haul_scope_pop(program);
    if (haul_error_status())
        fprintf(stderr, "%s\n", haul_error_message());
    return haul_error_status() != HAUL_OK;
}
