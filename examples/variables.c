/* Constants and variables on a device: both are tensors; a variable is changed in place.
 *
 *     variables [DEVICE] */
#include <haul/haul.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    haul_scope *scope = haul_scope_push();
    /* The target moves there, v moves back to be printed; the steps copy nothing. */
    haul_budget(.h2d_bytes = 12, .d2h_bytes = 12, .waits = 1);
    haul_set_device(haul_device_get(argc > 1 ? argv[1] : "auto")); /* new tensors are made there */

    haul_tensor *target = haul_from_host(HAUL_F32, HAUL_SHAPE(3), (float[]){1, -2, 3}); /* a constant */
    haul_tensor *v = haul_set_requires_grad(haul_zeros(HAUL_F32, HAUL_SHAPE(3)), true); /* a variable */

    for (int i = 0; i < 50; i++) {
        haul_scope *step = haul_scope_push();
        haul_set_grad(v, HAUL_NONE);
        haul_backward(haul_mse_loss(v, target));
        haul_set_grad_enabled(false); /* until the scope ends */
        haul_sub_into(v, v, haul_mul_scalar(haul_tensor_grad(v), 0.5));
        haul_scope_pop(step);
    }
    printf("v is on %s, changed %llu times\n", haul_device_name(haul_tensor_device(v)),
           (unsigned long long)haul_tensor_version(v));
    haul_print(v);

    haul_scope_pop(scope);
    if (haul_error_status())
        fprintf(stderr, "%s\n", haul_error_message());
    return haul_error_status() != HAUL_OK;
}
