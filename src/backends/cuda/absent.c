/* The CUDA backend of a build that was configured without it: no devices, and the reason. */
#include "backends/absent.h"

static int count(char *why, size_t why_size)
{
    haul__absent_reason(why, why_size, "not in this build (HAUL_WITH_CUDA=OFF)");
    return 0;
}

const haul__backend haul__backend_cuda = {.size = sizeof(haul__backend), .name = "cuda", .count = count};
