/* The OpenCL backend in a build without it: no devices, and the reason. */
#include "backends/absent.h"

static int count(char *why, size_t why_size)
{
    haul__absent_reason(why, why_size, "built without OpenCL headers; install opencl-headers and build again");
    return 0;
}

const haul__backend haul__backend_opencl = {.size = sizeof(haul__backend), .name = "opencl", .count = count};
