/* The driver's step that casts operands under autocast. */
#ifndef HAUL_ENGINE_AUTOCAST_H
#define HAUL_ENGINE_AUTOCAST_H

#include <haul/autocast.h>

#include "engine/operation.h"

/* The setting HAUL__AUTOCAST: two bits for each backend, and these. Zero outside autocast. */
#define HAUL__AUTOCAST_BEGUN  (1u << 31) /* between begin and end, even with every backend off */
#define HAUL__AUTOCAST_PAUSED (1u << 30) /* a backward pass: its operations keep the dtypes of their operands */

/* Casts the operands of an operation with the rule LOWER; replaces entries of c->operands. */
haul_status haul__autocast_operands(haul__call *c);

/* f32 if `dtype` is narrower and autocast is on for the device; else `dtype`. */
haul_dtype haul__autocast_wide(const haul_device *device, haul_dtype dtype);

static inline bool haul__autocast_begun(void)
{
    return haul__thread()->words[HAUL__AUTOCAST] != 0;
}

#endif
