/* Compiles all kernels of a device into the cache on disk, so that later processes do not wait for the compiler.
 *
 *   compile-kernels DEVICE [PART PARTS]    "0 4" is the first of four processes that share the work */
#include <haul/haul.h>
#include <stdio.h>
#include <stdlib.h>

#include "device/device.h"
#include "kernels/kernels.h"

int main(int argc, char **argv)
{
    const long part = argc > 3 ? strtol(argv[2], NULL, 10) : 0, parts = argc > 3 ? strtol(argv[3], NULL, 10) : 1;
    int        failures = 0, done = 0;
    long       number = 0;
    if (argc < 2 || parts < 1 || part < 0 || part >= parts) {
        fprintf(stderr, "usage: compile-kernels DEVICE [PART PARTS]\n");
        return 2;
    }
    haul_scope  *scope = haul_scope_push();
    haul_device *device = haul_device_get(argv[1]);
    if (haul_set_device(device)) {
        fprintf(stderr, "compile-kernels: %s\n", haul_error_message());
        return 1;
    }
    haul_empty(HAUL_F32, HAUL_SHAPE(1)); /* the device starts */
    for (int id = 0; id < haul__kernel_count; id++)
        for (haul_dtype dtype = HAUL_DTYPE_NONE + 1; dtype < HAUL_DTYPE_END; dtype++) {
            if (!haul__kernel_has(&haul__kernel_infos[id], dtype) || number++ % parts != part)
                continue;
            done++;
            if (!haul__kernel_get(device, id, dtype)) {
                fprintf(stderr, "compile-kernels: %s\n", haul_error_message());
                haul_error_clear();
                failures++;
            }
        }
    printf("%d kernels for %s, %d failed\n", done, argv[1], failures);
    haul_scope_pop(scope);
    return failures > 0;
}
