/* Which operations of a program machine code will compute in a followed step, and why others have none. */
#ifndef HAUL_RECORD_MACHINE_CODE_FORESEE_H
#define HAUL_RECORD_MACHINE_CODE_FORESEE_H

#include "program/program.h"
#include "record/order.h"

/* Sets `assembled` and `unassembled` of the operations of chains on the CPU, which haul__program_fuse has found. */
haul_status haul__program_foresee_code(const haul__program *log, const haul__program_order *order, haul_program *p);

#endif
