/* Decides where an operation computes if its operands are on several devices. */
#ifndef HAUL_ENGINE_PLACEMENT_H
#define HAUL_ENGINE_PLACEMENT_H

#include "engine/operation.h"

/* Brings the operands to one device by the thread's policy: sets c->device and replaces entries of c->operands. */
haul_status haul__place_operands(haul__call *c);

/* Brings the operands to the thread's current device: HAUL_PLACE_CURRENT. */
haul_status haul__place_at_current(haul__call *c);

/* True if the operation computes on one device. Views do not compute. */
static inline bool haul__places(const haul__call *c)
{
    const haul__operation *o = c->operation;
    return c->count && !o->any_device && !o->view && (o->compute || o->compose);
}

/* True if the thread's policy is HAUL_PLACE_CURRENT. */
static inline bool haul__places_at_current(void)
{
    return __builtin_expect(haul__thread()->words[HAUL__PLACEMENT] == HAUL_PLACE_CURRENT, 0);
}

/* For functions of the library that work on tensors wherever these are: until the scope ends, HAUL_PLACE_CURRENT does
 * not move them. */
static inline void haul__place_as_given(void)
{
    if (haul__places_at_current())
        haul__thread()->words[HAUL__PLACEMENT] = HAUL_PLACE_STRICT;
}

/* The decision of HAUL_PLACE_MOVE. from == NULL: the operation runs where the operand is; otherwise the operand
 * moves. */
void haul__emit_placement(const char *operation, const haul_device *device, const haul_device *from, const char *name,
                          const haul_tensor *operand);

#endif
