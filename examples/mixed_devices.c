/* Operands on different devices: refused by default, with the fix in the message; or moved, if that is allowed.
 *
 *     mixed_devices [DEVICE] */
#include <haul/haul.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    haul_scope  *scope = haul_scope_push();
    haul_device *device = haul_device_get(argc > 1 ? argv[1] : "auto");
    haul_tensor *a = haul_ones(HAUL_F32, HAUL_SHAPE(64, 10));
    haul_tensor *b = haul_to(haul_ones(HAUL_F32, HAUL_SHAPE(10)), device);

    haul_tensor *y = haul_add(a, b);
    if (!haul_tensor_is_valid(y))
        printf("refused: %s\n", haul_error_message());
    haul_error_clear();

    y = haul_add(a, haul_to(b, haul_tensor_device(a))); /* the first fix: say the move */
    printf("moved by hand: the sum lies on %s\n", haul_device_name(haul_tensor_device(y)));

    haul_set_placement_policy(HAUL_PLACE_MOVE); /* the second: allow it, until the scope ends */
    y = haul_add(a, b);
    printf("moved by policy: the sum lies on %s\n", haul_device_name(haul_tensor_device(y)));

    haul_status status = haul_error_status();
    if (status)
        fprintf(stderr, "%s\n", haul_error_message());
    haul_scope_pop(scope);
    return status != HAUL_OK;
}
