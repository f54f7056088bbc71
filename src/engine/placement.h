/* Where an operation computes when its operands are on several devices. */
#ifndef HAUL_ENGINE_PLACEMENT_H
#define HAUL_ENGINE_PLACEMENT_H

#include "engine/operation.h"

/* Bring the operands to one device by the thread's policy: sets c->device and replaces entries of c->operands. */
haul_status haul__place_operands(haul__call *c);

#endif
