/* Truth values in memory. Elements of bool tensors are 0 or 1, and kernels rely on it: they compute with the byte.
 * Memory from outside may hold any byte, of which all but 0 are true, so it is normalised where it comes in. */
#ifndef HAUL_BASE_BOOLS_H
#define HAUL_BASE_BOOLS_H

#include <stdbool.h>
#include <stddef.h>

/* True if every byte is 0 or 1. */
bool haul__bools_are_normal(const void *values, size_t count);

/* Sets bytes other than 0 and 1 to 1. Memory whose bytes are normal is not written, so it may be read-only. */
void haul__normalise_bools(void *values, size_t count);

#endif
