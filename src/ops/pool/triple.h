/* Options of operations on volumes: triples {depth, rows, columns}, in which all 0 means the default. */
#ifndef HAUL_OPS_POOL_TRIPLE_H
#define HAUL_OPS_POOL_TRIPLE_H

#include <haul/error.h>

/* Writes the numbers that the triple `name` of `operation` stands for to `out`: `otherwise` if all three are 0. Fails
 * if only some of them are 0, or if a number is below `least` (0 or 1) or above 2^31 - 1. */
haul_status haul__option_triple(const char *operation, const char *name, const int64_t given[3],
                                const int64_t otherwise[3], int64_t least, int64_t out[3]);

#endif
