/* Operands on different devices: an error by default, whose message names the fix; or moved, if you allow it.
 *
 *     mixed_devices [DEVICE] */
#include <haul/haul.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    haul_scope *scope = haul_scope_push();
    haul_budget(.h2d_bytes = 40, .d2h_bytes = 80, .waits = 2); /* b there, and back twice */
    haul_device *device = haul_device_get(argc > 1 ? argv[1] : "auto");
    haul_tensor *a = haul_ones(HAUL_F32, HAUL_SHAPE(64, 10));
    haul_tensor *b = haul_to(haul_ones(HAUL_F32, HAUL_SHAPE(10)), device);

    haul_tensor *y = haul_add(a, b);
    if (!haul_tensor_is_valid(y))
        printf("error: %s\n", haul_error_message());
    haul_error_clear();

    y = haul_add(a, haul_to(b, haul_tensor_device(a))); /* the first fix: an explicit move */
    printf("moved by hand: the sum is on %s\n", haul_device_name(haul_tensor_device(y)));

    haul_set_placement_policy(HAUL_PLACE_MOVE); /* the second: allow moves until the scope ends */
    y = haul_add(a, b);
    printf("moved by policy: the sum is on %s\n", haul_device_name(haul_tensor_device(y)));

    haul_scope_pop(scope);
    if (haul_error_status())
        fprintf(stderr, "%s\n", haul_error_message());
    return haul_error_status() != HAUL_OK;
}
