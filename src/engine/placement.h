/* Decides where an operation computes if its operands are on several devices. */
#ifndef HAUL_ENGINE_PLACEMENT_H
#define HAUL_ENGINE_PLACEMENT_H

#include "engine/operation.h"

/* Brings the operands to one device by the thread's policy: sets c->device and replaces entries of c->operands. */
haul_status haul__place_operands(haul__call *c);

/* The decision of HAUL_PLACE_MOVE. from == NULL: the operation runs where the operand is; otherwise the operand
 * moves. */
void haul__emit_placement(const char *operation, const haul_device *device, const haul_device *from, const char *name,
                          const haul_tensor *operand);

#endif
