/* Where the true elements of a mask go, for operations whose results have an element for each of them. */
#ifndef HAUL_OPS_INDEX_PLACES_H
#define HAUL_OPS_INDEX_PLACES_H

#include "engine/operation.h"

/* The number of elements of a mask that one work item handles on a device. */
int64_t haul__place_chunk(const haul_device *device);

/* As an operation: for each chunk of the mask how many elements before it are true, and last how many are true in all,
 * in i64. The first part is relative to groups of chunks: haul__places_of reads it. */
haul_tensor *haul__true_places(haul_tensor *mask);

/* Fails if `places` is not for a mask of this many elements on the call's device. */
haul_status haul__check_places(const haul__call *c, const haul_tensor *places, int64_t count);

/* For compose: the number of true elements, which `places` has at its end. The host waits for it. Fails on meta and in
 * dry runs and followed steps, where it is not known. */
haul_status haul__count_true(const haul__call *c, haul_tensor *places, int64_t *count);
/* The same for any i64 tensor of one element. `unknown` says what cannot be known without values, "how many elements
 * are not zero". */
haul_status haul__read_count(const haul__call *c, haul_tensor *t, const char *unknown, int64_t *count);

/* As operations. The positions of the true elements of a 1-d mask, [size] in i64; `fill` where there are fewer. */
haul_tensor *haul__true_positions(haul_tensor *mask, haul_tensor *places, int64_t size, int64_t fill);
/* The elements of x, which has the mask's shape, where the mask is true, [size]; zeros where there are fewer. */
haul_tensor *haul__take_true(haul_tensor *x, haul_tensor *mask, haul_tensor *places, int64_t size);

/* Checks a size that a caller gave: 0 if it was omitted, HAUL_ZERO for none. Replaces it by the number, or -1 if it was
 * omitted. */
haul_status haul__bounded_size(const haul__call *c, int64_t *size);

#endif
