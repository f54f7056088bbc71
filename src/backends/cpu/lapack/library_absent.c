/* For builds that are small. */
#include "backends/cpu/lapack/library.h"
#include "haul_config.h"

#if defined(HAUL_SMALL)
const haul__lapack_functions *haul__lapack(const char **reason)
{
    *reason = "it is not in this build (HAUL_SMALL=ON)";
    return NULL;
}

const char *haul__lapack_path(void)
{
    return "";
}
#endif
