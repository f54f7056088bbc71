/* Who holds memory, and the text about it in messages. */
#ifndef HAUL_MEMORY_REPORT_ORIGINS_H
#define HAUL_MEMORY_REPORT_ORIGINS_H

#include <haul/memory.h>

#include "base/text/json_text.h"
#include "memory/allocator.h"
#include "memory/scope_limit.h"
#include "program/role.h"

/* What blocks are added up by: the operation that allocated them; the module under way then, "(not recorded)" or "(no
 * module)"; what it is used for. The allocator's lock is held, and the texts are valid until it is given. */
typedef const char *haul__origin_of(const haul__block *block);
haul__origin_of     haul__origin_operation, haul__origin_module, haul__origin_role;

/* Adds up the blocks of the ring `live` by origin, largest sum first; only those that the scope limit `only` counts,
 * unless it is NULL. Writes at most `capacity` rows and returns the number of origins. */
int haul__sum_origins(const haul__block *live, const haul__scope_limit *only, haul__origin_of *of,
                      haul_memory_origin *out, int capacity);

/* The member `name` of an object: an array of {"name", "bytes", "blocks"}. */
void haul__json_origins(haul__json_text *t, const char *name, const haul_memory_origin *rows, int count);

/* What messages name: the three operations that hold most, and all roles. The counts may exceed the rows. The caller
 * holds the allocator's lock. */
enum { HAUL__HOLDERS = 3 };
typedef struct haul__holders {
    haul_memory_origin rows[HAUL__HOLDERS], roles[HAUL__ROLES];
    int                count, role_count;
} haul__holders;
void haul__holders_find(const haul__block *live, const haul__scope_limit *only, haul__holders *out);

/* " (by haul_add 1.5 MiB, haul_exp 3.0 KiB, ...; parameters 1.0 MiB, activations 0.5 MiB)": the roles if there are
 * several; "" if nothing holds memory. Returns `out`. */
const char *haul__holders_text(const haul__holders *holders, char *out, size_t size);

/* Writes "1.5 MiB" into a buffer and returns it. */
const char *haul__size_text(int64_t bytes, char *out, size_t size);

#endif
