/* The OpenCL backend of a build without OpenCL headers: no devices, and the reason. */
#include <stdio.h>

#include "backends/backend.h"

static int count(char *why, size_t why_size)
{
    if (why_size > 0)
        snprintf(why, why_size, "built without OpenCL headers; install opencl-headers and build again");
    return 0;
}

const haul__backend haul__backend_opencl = {.size = sizeof(haul__backend), .name = "opencl", .count = count};
