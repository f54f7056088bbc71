/* Errors of operands on several devices. They name the cheapest moves, with their bytes and times. */
#ifndef HAUL_ENGINE_PLACEMENT_MIXED_H
#define HAUL_ENGINE_PLACEMENT_MIXED_H

#include "engine/operation.h"

/* True for a 0-d tensor on the CPU, which may go to any device as a scalar would, and for HAUL_NONE. */
bool haul__is_loose(const haul_tensor *t);

/* Operands i and j are on different devices, and the policy moves none. */
haul_status haul__refuse_mixed(const haul__call *c, int i, int j);

/* Operand i is written in place, and the operation was to compute on another device. */
haul_status haul__refuse_written(const haul__call *c, int i, const haul_device *device);

/* The target of an operation that computes on `device` is on another one. */
haul_status haul__refuse_target(const char *operation, const haul_tensor *out, const haul_device *device);

#endif
