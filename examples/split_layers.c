/* Two layers on different devices. Activations move from one device to the other, gradients move back.
 *
 *     split_layers [DEVICE] */
#include <haul/haul.h>
#include <stdio.h>

enum { BATCH = 64 };

int main(int argc, char **argv)
{
    haul_scope  *scope = haul_scope_push();
    haul_device *device = haul_device_get(argc > 1 ? argv[1] : "auto");
    haul_manual_seed(3);

    haul_module *front = haul_nn_linear(4, 32), *back = haul_nn_linear(32, 1);
    haul_module_place(front, device); /* its parameters are there, and inputs are moved there */
    haul_module_place(back, haul_cpu());
    haul_module    *net = HAUL_SEQUENTIAL(front, haul_nn_tanh(), back);
    haul_optimizer *adam = haul_adam(net, 0.02);

    /* The network learns y = |x|^2 from random points. */
    for (int step = 1; step <= 300 && !haul_error_status(); step++) {
        haul_scope *inner = haul_scope_push();
        /* x and the gradients of the activations move there; the activations come back, for which the CPU waits. */
        haul_budget(.h2d_bytes = BATCH * (4 + 32) * 4, .d2h_bytes = BATCH * 32 * 4, .waits = 1);
        haul_optimizer_zero_grad(adam);
        haul_tensor *x = haul_uniform(HAUL_F32, HAUL_SHAPE(BATCH, 4), -1, 1);
        haul_tensor *y = haul_sum(haul_square(x), HAUL_AXES(1), .keepdim = true);
        haul_tensor *loss = haul_mse_loss(haul_call(net, x), y);
        haul_backward(loss);
        haul_optimizer_step(adam);
        if (step % 100 == 0)
            printf("step %d: loss %.4f\n", step, haul_item(loss));
        haul_scope_pop(inner);
    }
    haul_tensor *w1 = haul_module_parameter(net, "0.weight"), *w2 = haul_module_parameter(net, "2.weight");
    printf("0.weight and its gradient are on %s and %s\n", haul_device_name(haul_tensor_device(w1)),
           haul_device_name(haul_tensor_device(haul_tensor_grad(w1))));
    printf("2.weight and its gradient are on %s and %s\n", haul_device_name(haul_tensor_device(w2)),
           haul_device_name(haul_tensor_device(haul_tensor_grad(w2))));

    haul_scope_pop(scope);
    if (haul_error_status())
        fprintf(stderr, "%s\n", haul_error_message());
    return haul_error_status() != HAUL_OK;
}
