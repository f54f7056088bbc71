/* Decides where an operation computes if its operands are on several devices. */
#ifndef HAUL_ENGINE_PLACEMENT_PLACEMENT_H
#define HAUL_ENGINE_PLACEMENT_PLACEMENT_H

#include "engine/operation.h"

/* Brings the operands to one device by the thread's policy: sets c->device and replaces entries of c->operands. */
haul_status haul__place_operands(haul__call *c);

/* The same for policies that place each operation, also those whose operands are on one device: HAUL_PLACE_CURRENT and
 * HAUL_PLACE_AUTO. */
haul_status haul__place_each(haul__call *c);

/* HAUL_PLACE_AUTO. */
haul_status haul__place_automatically(haul__call *c);

/* True if the thread's policy is one of these. */
static inline bool haul__places_each(void)
{
    return __builtin_expect(haul__thread()->words[HAUL__PLACEMENT] >= HAUL_PLACE_CURRENT, 0);
}

/* Under HAUL_PLACE_AUTO the parts of a composite operation are placed by themselves, unless it has a gradient of its
 * own. */
static inline bool haul__places_in_parts(const haul__call *c)
{
    const haul__operation *o = c->operation;
    return o->compose && !o->gradient && haul__thread()->words[HAUL__PLACEMENT] == HAUL_PLACE_AUTO;
}

/* True if the operation computes on one device. Views do not compute. */
static inline bool haul__places(const haul__call *c)
{
    const haul__operation *o = c->operation;
    return c->count && !o->any_device && !o->view && (o->compute || o->compose) && !haul__places_in_parts(c);
}

/* For functions of the library that work on tensors wherever these are: until the scope ends, a policy of this kind
 * does not move them. */
static inline void haul__place_as_given(void)
{
    if (haul__places_each())
        haul__thread()->words[HAUL__PLACEMENT] = HAUL_PLACE_STRICT;
}

/* An operand on the device that holds most bytes of operands; the first one wins a tie. */
int haul__heaviest(const haul__call *c);

/* The first operand that is written in place: the operation computes there. -1: there is none. */
int haul__first_written(const haul__call *c);

/* Brings the operands to the device. keeps: by copies that are kept with their tensors. */
haul_status haul__place_on(haul__call *c, haul_device *device, bool keeps);

/* The decision of HAUL_PLACE_MOVE. from == NULL: the operation runs where the operand is; otherwise the operand
 * moves. */
void haul__emit_placement(const char *operation, const haul_device *device, const haul_device *from, const char *name,
                          const haul_tensor *operand);

#endif
