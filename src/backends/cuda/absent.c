/* The CUDA backend of a build that was configured without it: no devices, and the reason. */
#include "backends/absent.h"
#include "backends/ranks.h"

static int count(char *why, size_t why_size)
{
    haul__absent_reason(why, why_size, "not in this build (HAUL_WITH_CUDA=OFF)");
    return 0;
}

static bool usable(char *why, size_t why_size)
{
    haul__absent_reason(why, why_size, "not in this build (HAUL_WITH_CUDA=OFF)");
    return false;
}

const haul__rank_library haul__cuda_ranks = {.name = "nccl", .file = "libnccl.so.2", .usable = usable};

const haul__backend haul__backend_cuda = {.size = sizeof(haul__backend), .name = "cuda", .count = count};
