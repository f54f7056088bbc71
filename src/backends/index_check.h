/* The checks of indices in kernels, and the error for one that is out of range.
 *
 * A kernel that reads indices has one more buffer, the last one: a record of FAULT_WORDS words (kernels/constants.h),
 * in which CHECKED_INDEX notes the first index that is out of range. The params contain a word that says which check
 * the kernel makes. */
#ifndef HAUL_BACKENDS_INDEX_CHECK_H
#define HAUL_BACKENDS_INDEX_CHECK_H

#include <haul/error.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/thread.h"
#include "kernels/constants.h"

typedef enum haul__index_check_id {
    HAUL__CHECK_NONE,
#define HAUL__INDEX_CHECK(id, operand, of) HAUL__CHECK_##id,
#include "backends/index_checks.def"
#undef HAUL__INDEX_CHECK
    HAUL__CHECK_COUNT
} haul__index_check_id;

/* The word of a check, never 0. `axis` matters for checks of an AXIS (index_checks.def). The error names the calling
 * thread's caller, or the check's operation if there is none. */
uint32_t haul__index_check(haul__index_check_id id, int axis);

/* The operation that the program has called, while the operations that it is made of run; NULL outside of one. Names
 * are kept for the life of the process. */
extern _Thread_local const char *haul__index_caller HAUL__TLS_MODEL;

/* Enters an operation. The caller puts back what this returns when the operation ends. */
static inline const char *haul__index_call(const char *operation)
{
    const char *outer = haul__index_caller;
    haul__index_caller = outer ? outer : operation;
    return outer;
}

/* True if the record notes an index out of range. */
static inline bool haul__index_noted(const uint32_t record[FAULT_WORDS])
{
    return record[FAULT_CHECK] != 0;
}

/* Fails with the error for the index that the record notes. */
haul_status haul__index_fail(const uint32_t record[FAULT_WORDS]);

#endif
