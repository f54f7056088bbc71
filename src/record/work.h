/* Operations of programs as a machine predicts them. */
#ifndef HAUL_RECORD_WORK_H
#define HAUL_RECORD_WORK_H

#include <haul/program.h>

#include "machine/machine.h"

/* The bytes of a value's elements. */
int64_t haul__program_bytes_of(const haul_program_value *value);

/* False for views and for what a device is given no command for. */
static inline bool haul__program_takes_time(const haul_program_operation *operation)
{
    return operation->view_of < 0 && operation->command_count > 0;
}

/* The operation as a machine predicts it. */
haul__machine_work haul__program_work_of(const haul_program *program, const haul_program_operation *operation);

#endif
