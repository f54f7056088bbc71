/* Where an operation computes when its operands are on several devices. */
#ifndef HAUL_ENGINE_PLACEMENT_H
#define HAUL_ENGINE_PLACEMENT_H

#include "engine/operation.h"

/* Bring the operands to one device by the thread's policy: sets c->device and replaces entries of c->operands. */
haul_status haul__place_operands(haul__call *c);

/* What HAUL_PLACE_MOVE decided. from == NULL: the operation runs where the operand is; else the operand moves. */
void haul__emit_placement(const char *operation, const haul_device *device, const haul_device *from, const char *name,
                          const haul_tensor *operand);

#endif
