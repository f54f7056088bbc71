/* A backend that was left out of the build: no devices, and the reason. */
#ifndef HAUL_BACKENDS_ABSENT_H
#define HAUL_BACKENDS_ABSENT_H

#include <stdio.h>

#include "backends/backend.h"
#include "haul_config.h"

static inline void haul__absent_reason(char *why, size_t why_size, const char *reason)
{
#if defined(HAUL_SMALL)
    reason = "not in this build (HAUL_SMALL=ON)";
#endif
    if (why_size > 0)
        snprintf(why, why_size, "%s", reason);
}

#endif
