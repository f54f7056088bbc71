/* Gradients cross devices: a is on the CPU, b on another device. The product is computed there, and each gradient ends
 * up where its leaf is.
 *
 *     cross_device_autograd [DEVICE] */
#include <haul/haul.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    haul_scope *scope = haul_scope_push();
    haul_budget(.h2d_bytes = 24, .d2h_bytes = 24, .waits = 2); /* a and b there, both gradients back to be printed */
    haul_device *device = haul_device_get(argc > 1 ? argv[1] : "auto");

    haul_tensor *a = haul_set_requires_grad(haul_from_host(HAUL_F32, HAUL_SHAPE(3), (float[]){1, 2, 3}), true);
    haul_tensor *b = haul_to(haul_from_host(HAUL_F32, HAUL_SHAPE(3), (float[]){4, 5, 6}), device);
    haul_set_requires_grad(b, true); /* no graph leads to b, so b is a leaf on the device */

    haul_tensor *y = haul_mul(b, haul_to(a, device));
    haul_backward(y, .seed = haul_ones_like(y));

    haul_tensor *grad_a = haul_tensor_grad(a), *grad_b = haul_tensor_grad(b);
    printf("gradient of a, on %s:\n", haul_device_name(haul_tensor_device(grad_a)));
    haul_print(grad_a);
    printf("gradient of b, on %s:\n", haul_device_name(haul_tensor_device(grad_b)));
    haul_print(grad_b);

    haul_scope_pop(scope);
    if (haul_error_status())
        fprintf(stderr, "%s\n", haul_error_message());
    return haul_error_status() != HAUL_OK;
}
