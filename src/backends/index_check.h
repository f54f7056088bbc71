/* Indices that kernels check, and the error of one that is out of range.
 *
 * A kernel that reads indices has one buffer more, the last one: a record of FAULT_WORDS words (kernels/constants.h),
 * in which CHECKED_INDEX notes the first index that is out of range. The kernel gets the word that says which check it
 * is with its params. */
#ifndef HAUL_BACKENDS_INDEX_CHECK_H
#define HAUL_BACKENDS_INDEX_CHECK_H

#include <haul/error.h>
#include <stdbool.h>
#include <stdint.h>

#include "kernels/constants.h"

typedef enum haul__index_check_id {
    HAUL__CHECK_NONE,
#define HAUL__INDEX_CHECK(id, operand, of) HAUL__CHECK_##id,
#include "backends/index_checks.def"
#undef HAUL__INDEX_CHECK
    HAUL__CHECK_COUNT
} haul__index_check_id;

/* The word of a check, never 0. `axis` is that of an AXIS. */
uint32_t haul__index_check(haul__index_check_id id, int axis);

/* Is an index out of range noted? */
static inline bool haul__index_noted(const uint32_t record[FAULT_WORDS])
{
    return record[FAULT_CHECK] != 0;
}

/* The error of the index that is noted. */
haul_status haul__index_fail(const uint32_t record[FAULT_WORDS]);

#endif
