/* A device scope is a scope in which haul_set_device was called; the placement log shows what runs where.
 *
 *     device_scopes [DEVICE] */
#include <haul/haul.h>
#include <stdio.h>

static void show(const char *line, void *context)
{
    (void)context;
    printf("log: %s\n", line);
}

int main(int argc, char **argv)
{
    haul_scope *program = haul_scope_push();
    haul_budget(.h2d_bytes = 1200 + 12); /* large, and small to add to it */
    haul_device *device = haul_device_get(argc > 1 ? argv[1] : "auto");

    haul_scope *outer = haul_scope_push();
    haul_set_device(device);
    printf("outer: new tensors are on %s\n", haul_device_name(haul_tensor_device(haul_ones(HAUL_F32, HAUL_SHAPE(2)))));
    haul_scope *inner = haul_scope_push();
    haul_set_device(haul_cpu());
    printf("inner: new tensors are on %s\n", haul_device_name(haul_tensor_device(haul_ones(HAUL_F32, HAUL_SHAPE(2)))));
    haul_scope_pop(inner);
    printf("outer: new tensors are on %s\n", haul_device_name(haul_tensor_device(haul_ones(HAUL_F32, HAUL_SHAPE(2)))));
    haul_scope_pop(outer);
    printf("after: the current device is %s\n", haul_device_name(haul_current_device()));

    /* With the policy MOVE, operands are moved to where the operation runs, and the log says so. */
    haul_set_placement_policy(HAUL_PLACE_MOVE);
    haul_placement_log_to(show, NULL); /* haul_placement_log(true) writes to standard error */
    haul_tensor *small = haul_ones(HAUL_F32, HAUL_SHAPE(3));
    haul_tensor *large = haul_to(haul_ones(HAUL_F32, HAUL_SHAPE(100, 3)), device);
    haul_tensor *y = haul_add(small, large);
    printf("the sum is on %s\n", haul_device_name(haul_tensor_device(y)));

    haul_placement_log_to(NULL, NULL);
    haul_scope_pop(program);
    if (haul_error_status())
        fprintf(stderr, "%s\n", haul_error_message());
    return haul_error_status() != HAUL_OK;
}
