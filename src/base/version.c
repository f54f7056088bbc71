/* The version and the features of this build. */
#include <haul/base.h>

#include "haul_config.h"

const char *haul_version(void)
{
    return HAUL_VERSION_STRING;
}

const char *haul_build_features(void)
{
    return HAUL_BUILD_FEATURES;
}
