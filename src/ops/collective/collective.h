/* Errors of a rank that cannot make a collective operation, which the other ranks wait for. */
#ifndef HAUL_OPS_COLLECTIVE_COLLECTIVE_H
#define HAUL_OPS_COLLECTIVE_COLLECTIVE_H

#include "engine/operation.h"

/* The `extra` of operations that one rank calls, and not all (message.c). So a program without them does not link them.
 */
extern const char haul__message[];

/* Passes the recorded error to the ranks that make the call of an operation with .between_ranks and these attributes.
 */
void haul__collective_fail(const haul__operation *operation, const void *attributes);

#endif
