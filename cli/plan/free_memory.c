#include "cli/plan/free_memory.h"

#include <haul/haul.h>

int64_t available_memory(void)
{
    int64_t bytes;
    if (haul_stat_get("memory.cpu.free", &bytes)) {
        haul_error_clear();
        return 0;
    }
    return bytes < 0 ? 0 : bytes ? bytes : 1;
}
