/* Watches a device's memory: how much is allocated and cached, and by which operation. Sets a limit, exceeds it, and
 * goes on.
 *
 *     memory [DEVICE] */
#include <haul/haul.h>
#include <stdio.h>

static void show(const char *when, const haul_device *device)
{
    haul_memory_stats s;
    if (haul_memory_stats_get(device, &s) == HAUL_OK)
        printf("%-22s allocated %5.1f MiB, reserved %5.1f MiB, peak %5.1f MiB\n", when, (double)s.allocated / 1048576,
               (double)s.reserved / 1048576, (double)s.peak_allocated / 1048576);
}

int main(int argc, char **argv)
{
    haul_scope *program = haul_scope_push();
    haul_budget(.waits = 1); /* haul_memory_release_cached; counting memory does not wait */
    haul_device *device = haul_device_get(argc > 1 ? argv[1] : "auto");
    haul_set_device(device);
    show("at first", device);

    haul_scope  *scope = haul_scope_push();
    haul_tensor *x = haul_ones(HAUL_F32, HAUL_SHAPE(4, 1024, 1024));
    haul_add(x, x);
    show("two tensors of 16 MiB", device);
    haul_memory_origin by[4];
    int                n = haul_memory_by_origin(device, by, 4);
    for (int i = 0; i < n && i < 4; i++)
        printf("    %-12s %5.1f MiB in %lld block(s)\n", by[i].name, (double)by[i].bytes / 1048576,
               (long long)by[i].blocks);
    haul_scope_pop(scope);
    show("after the scope", device); /* still reserved, for reuse */
    haul_memory_release_cached(device);
    show("cache given back", device);

    /* Exceeding a limit is an error like any other. */
    haul_memory_set_tensor_limit(device, 8 << 20);
    if (haul_tensor_check(haul_ones(HAUL_F32, HAUL_SHAPE(4, 1024, 1024))))
        printf("error: %s\n", haul_error_message());
    haul_error_clear();
    haul_memory_set_limit(device, 0);
    printf("afterwards: %s\n",
           haul_tensor_check(haul_ones(HAUL_F32, HAUL_SHAPE(4, 1024, 1024))) ? haul_error_message() : "it fits");

    haul_scope_pop(program);
    if (haul_error_status())
        fprintf(stderr, "%s\n", haul_error_message());
    return haul_error_status() != HAUL_OK;
}
