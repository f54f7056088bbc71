/* Moves pointwise operations next to those with which they can be fused. */
#ifndef HAUL_RECORD_GATHER_H
#define HAUL_RECORD_GATHER_H

#include "program/program.h"
#include "record/order.h"

/* Changes the order of the items, and what refers to them. `p` has its operations, which are the items, and their
 * numbers of commands; `constant` is by store. `*moved`: the order has changed, so the operations must be listed again.
 * Only parts of chains move, so other operations stay in the order of the program. */
haul_status haul__program_gather(const haul__program *log, haul__program_order *order, haul_program *p,
                                 const bool *constant, bool *moved);

#endif
