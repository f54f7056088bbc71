/* The step of the funnel that casts operands within haul_autocast. */
#ifndef HAUL_OPS_AUTOCAST_H
#define HAUL_OPS_AUTOCAST_H

#include <haul/autocast.h>

#include "core/object.h"

/* The setting HAUL__AUTOCAST: two bits for each backend, and these. Zero wherever autocast was not begun. */
#define HAUL__AUTOCAST_BEGUN  (1u << 31) /* within begin and end, perhaps with all off */
#define HAUL__AUTOCAST_PAUSED (1u << 30) /* a backward pass: its operations compute in what they are given */

/* Cast operands that the operation's rule wants otherwise; entries of `in` are replaced. */
haul_status haul__autocast_operands(const char *operation, const haul_device *device, haul_tensor **in, int count);

/* The dtype of the result of an operation of rule WIDE_RESULT over x. */
haul_dtype haul__autocast_result(const char *operation, const haul_tensor *x);

/* f32 where `dtype` is narrower and autocast is on for the device, for pointwise rows of WIDE; else `dtype`. */
haul_dtype haul__autocast_wide(const haul_device *device, haul_dtype dtype);

static inline bool haul__autocast_begun(void)
{
    return haul__thread()->words[HAUL__AUTOCAST] != 0;
}

#endif
