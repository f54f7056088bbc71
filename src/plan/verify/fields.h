/* Reading fields of a JSON file that must be right: the first one that is not is remembered, and reading goes on with
 * empty values. */
#ifndef HAUL_PLAN_VERIFY_FIELDS_H
#define HAUL_PLAN_VERIFY_FIELDS_H

#include "plan/verify/verify.h"

#define HAUL__FIELD_MOST ((INT64_C(1) << 53) - 1) /* of a number */

/* Refuses the file unless `fine`. `item` is that of an array; -1: the member itself. False after any refusal. */
bool haul__expect(haul__verdict *v, bool fine, const char *member, int64_t item, const char *why_not);

/* The member of that kind; an empty value after a refusal. */
const haul__json *haul__field(haul__verdict *v, const haul__json *object, const char *name, haul__json_kind kind);

/* An array of `count` whole numbers; null is -1. Each of `out` is written, or none. */
bool haul__numbers(haul__verdict *v, const haul__json *array, const char *name, int64_t item, int64_t *out,
                   size_t count);

/* *sum += value. Sums are refused far below an overflow, and are 0 then. */
void haul__add(haul__verdict *v, int64_t *sum, int64_t value, const char *member);

#endif
