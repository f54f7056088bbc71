/* Numbers as a struct of options has them: 0 is not given, HAUL_ZERO is zero. */
#ifndef HAUL_CORE_OPTION_H
#define HAUL_CORE_OPTION_H

#include <haul/error.h>

/* The number meant; `otherwise` if none was given. */
static inline double haul__option(double given, double otherwise)
{
    return given == 0 ? otherwise : given == HAUL_ZERO ? 0 : given;
}

/* The numbers meant by the pair `name` of `operation`, in place; `otherwise` if neither was given. Fails if only one
 * was given. A given integer below `least` (0 or 1) is refused. */
haul_status haul__option_pair(const char *operation, const char *name, int64_t pair[2], const int64_t otherwise[2],
                              int64_t least);
haul_status haul__option_reals(const char *operation, const char *name, double pair[2], const double otherwise[2]);

#endif
