/* The step of the driver that casts operands within haul_autocast. */
#ifndef HAUL_ENGINE_AUTOCAST_H
#define HAUL_ENGINE_AUTOCAST_H

#include <haul/autocast.h>

#include "engine/operation.h"

/* The setting HAUL__AUTOCAST: two bits for each backend, and these. Zero wherever autocast was not begun. */
#define HAUL__AUTOCAST_BEGUN  (1u << 31) /* within begin and end, perhaps with all off */
#define HAUL__AUTOCAST_PAUSED (1u << 30) /* a backward pass: its operations compute in what they are given */

/* Cast operands of an operation of rule LOWER; entries of c->operands are replaced. */
haul_status haul__autocast_operands(haul__call *c);

/* f32 where `dtype` is narrower and autocast is on for the device; else `dtype`. */
haul_dtype haul__autocast_wide(const haul_device *device, haul_dtype dtype);

static inline bool haul__autocast_begun(void)
{
    return haul__thread()->words[HAUL__AUTOCAST] != 0;
}

#endif
