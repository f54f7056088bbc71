/* The steps of the driver that have files of their own. */
#ifndef HAUL_ENGINE_DRIVER_H
#define HAUL_ENGINE_DRIVER_H

#include "engine/operation.h"

/* Check the operands and bring them to one device, dtype and layout: fills c->inputs, c->operands, c->device,
 * c->records, c->wanted and c->saves. What is moved or cast goes with the innermost scope. */
haul_status haul__take_operands(haul__call *c, haul_tensor *const *operands);

/* Which operands carry gradients, whether that is recorded, and what is to be saved for them. */
haul_status haul__find_gradients(haul__call *c);

/* Copy operands that are not laid out as their descriptor wants. */
haul_status haul__pack_operands(haul__call *c);

/* Give the results that infer described their storage. */
haul_status haul__allocate_results(haul__call *c);

/* May `out`, an argument of that name, be written in place? */
haul_status haul__check_writable(const char *operation, const char *name, const haul_tensor *out);

/* May the operands that the call writes be written? */
haul_status haul__check_written(const haul__call *c);

/* May it be written in place with result i, as that was described? */
haul_status haul__check_target(const haul__call *c, int i, const haul_tensor *out);

/* Must result i be computed elsewhere and copied to `out`, since writing `out` would disturb an operand, or since the
 * operation cannot write its layout? */
bool haul__needs_detour(const haul__call *c, int i, const haul_tensor *out);

/* The short path (short.c), and whether a call may take it. The attributes of the operations that do are two doubles,
 * or none. */
bool         haul__is_short(const haul__operation *operation, haul_tensor *const *operands, int count, bool *tracked);
haul_tensor *haul__apply_short(const haul__operation *operation, const void *attributes, haul_tensor *const *operands,
                               int count, bool tracked);
bool haul__is_short_into(haul_tensor *out, const haul__operation *operation, haul_tensor *const *operands, int count);
haul_status haul__apply_short_into(haul_tensor *out, const haul__operation *operation, const void *attributes,
                                   haul_tensor *const *operands, int count);

/* What the descriptor says of operand i, and its name. */
static inline const haul__operand *haul__operand_spec(const haul__call *c, int i)
{
    return &c->operation->operands[c->operation->repeat ? i % c->operation->repeat : i];
}

static inline const char *haul__operand_name(const haul__call *c, int i)
{
    return haul__operand_spec(c, i)->name;
}

#endif
