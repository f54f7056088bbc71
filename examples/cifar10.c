/* The small CIFAR-10 network, written out and trained with the API.
 *
 *     cifar10 [DIRECTORY [EPOCHS [DEVICE]]]     DIRECTORY has the binary files; the default is generated shapes
 *
 * ctest: labels=slow */
#include <haul/haul.h>
#include <stdio.h>
#include <stdlib.h>

static haul_tensor *forward(haul_module *m, haul_args *args)
{
    haul_tensor *x = args->x[0];
    x = haul_max_pool2d(haul_relu(haul_call_child(m, "conv1", x)), 2);
    x = haul_max_pool2d(haul_relu(haul_call_child(m, "conv2", x)), 2);
    x = haul_relu(haul_call_child(m, "fc1", haul_flatten(x, 1)));
    return haul_call_child(m, "fc3", haul_relu(haul_call_child(m, "fc2", x)));
}

static haul_status train_step(haul_module *net, haul_optimizer *sgd, const haul_batch *b, haul_tensor *running)
{
    haul_scope *step = haul_scope_push();
    haul_budget(.waits = 0); /* nothing is copied: the loader has put the batch on the device */
    haul_optimizer_zero_grad(sgd);
    haul_tensor *loss = haul_cross_entropy(haul_call(net, b->x), b->y);
    haul_backward(loss);
    haul_optimizer_step(sgd);
    haul_add_into(running, running, haul_detach(loss)); /* no wait for the device */
    haul_scope_pop(step);
    return haul_error_status();
}

int main(int argc, char **argv)
{
    haul_scope *program = haul_scope_push();
    haul_set_device(haul_device_get(argc > 3 ? argv[3] : "auto"));
    haul_manual_seed(1);
    haul_module *net = haul_module_new("simplecnn", forward);
    haul_module_add(net, "conv1", haul_nn_conv2d(3, 6, 5));
    haul_module_add(net, "conv2", haul_nn_conv2d(6, 16, 5));
    haul_module_add(net, "fc1", haul_nn_linear(400, 120));
    haul_module_add(net, "fc2", haul_nn_linear(120, 84));
    haul_module_add(net, "fc3", haul_nn_linear(84, 10));
    haul_optimizer *sgd = haul_sgd(net, 0.01, .momentum = 0.9);
    haul_dataset   *data = argc > 1 ? haul_cifar10(argv[1]) : haul_shapes(12800, .seed = 1);
    haul_dataset   *normalised = haul_dataset_map(data, haul_normalise("x"));
    haul_loader    *loader = haul_loader_new(normalised, .batch = 64, .shuffle = true, .workers = 2);
    haul_tensor    *running = haul_scalar(0);
    int             epochs = argc > 2 ? atoi(argv[2]) : 3;
    for (int epoch = 1; epoch <= epochs && !haul_error_status(); epoch++) {
        haul_loader_start(loader, epoch);
        for (const haul_batch *b; (b = haul_loader_next(loader));) {
            if (train_step(net, sgd, b, running) != HAUL_OK)
                break;
            if (b->index % 100 == 99) {
                printf("[Epoch: %d, Mini-batch: %d] loss: %.3f\n", epoch, (int)b->index + 1, haul_item(running) / 100);
                haul_zero_into(running);
            }
        }
        haul_zero_into(running);
    }
    haul_scope_pop(program);
    if (haul_error_status())
        fprintf(stderr, "%s\n", haul_error_message());
    return haul_error_status() != HAUL_OK;
}
