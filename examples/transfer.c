/* A tensor is moved to a device and back, explicitly. The ledger counts the bytes that cross the link.
 *
 *     transfer [DEVICE]      the default is "auto": a GPU if there is one, else the CPU */
#include <haul/haul.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    haul_scope *scope = haul_scope_push();
    haul_budget(.h2d_bytes = 24, .d2h_bytes = 24, .waits = 1); /* x there, the result back */
    haul_device *device = haul_device_get(argc > 1 ? argv[1] : "auto");

    haul_tensor *x = haul_from_host(HAUL_F32, HAUL_SHAPE(2, 3), (float[]){1, 2, 3, 4, 5, 6});
    haul_tensor *there = haul_to(x, device);
    haul_tensor *back = haul_to(haul_mul_scalar(there, 10), haul_cpu());
    haul_print(back);

    float values[6];
    haul_read(back, values, sizeof values); /* or into your own array */
    printf("last element: %g\n", (double)values[5]);

    haul_transfer_stats stats;
    haul_transfer_stats_get(&stats);
    printf("on %s: %lld bytes there, %lld bytes back\n", haul_device_name(device), (long long)stats.h2d_bytes,
           (long long)stats.d2h_bytes);

    haul_scope_pop(scope);
    if (haul_error_status())
        fprintf(stderr, "%s\n", haul_error_message());
    return haul_error_status() != HAUL_OK;
}
