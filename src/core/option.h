/* Numbers in a struct of options: 0 means the default, HAUL_ZERO means zero. */
#ifndef HAUL_CORE_OPTION_H
#define HAUL_CORE_OPTION_H

#include <haul/error.h>

/* The number that the option stands for: `otherwise` if it is 0. */
static inline double haul__option(double given, double otherwise)
{
    return given == 0 ? otherwise : given == HAUL_ZERO ? 0 : given;
}

/* Replaces the pair `name` of `operation` by the numbers it stands for: `otherwise` if both are 0. Fails if only one of
 * them is 0. The integer version also fails if a number that is set is below `least` (0 or 1). */
haul_status haul__option_pair(const char *operation, const char *name, int64_t pair[2], const int64_t otherwise[2],
                              int64_t least);
haul_status haul__option_reals(const char *operation, const char *name, double pair[2], const double otherwise[2]);

#endif
