/* Which pointwise operations of a program are computed by one command, tile by tile, and which memory that makes
 * unnecessary. */
#ifndef HAUL_RECORD_FUSE_H
#define HAUL_RECORD_FUSE_H

#include "program/program.h"
#include "record/order.h"

/* The most operations of a chain. */
enum { HAUL__MAX_CHAIN = 64 };

/* A program whose operations are the items of an order. */
typedef struct haul__fusing {
    const haul__program       *log;
    const haul__program_order *order;
    haul_program              *p;
    const bool                *constant; /* by store */
    bool                       is_off;   /* HAUL_WITHOUT names fusion, or times are simulated */
    size_t                    *places;   /* of the log's calls: their number in its order */
} haul__fusing;

haul_status haul__fusing_begin(haul__fusing *f, const haul__program *log, const haul__program_order *order,
                               haul_program *p, const bool *constant);
void        haul__fusing_end(haul__fusing *f);

/* The operand or result `value` of an operation, results come after operands. */
const haul_program_value *haul__fusing_values(const haul__fusing *f, int64_t number);
bool                      haul__fusing_writes(const haul__fusing *f, int64_t number, int value);

/* Nothing is computed for it, so it may be between two parts of a chain. */
bool haul__fusing_is_without_work(const haul__fusing *f, int64_t number);

/* True for operations that may be a part of a chain. */
bool haul__fusing_is_part(const haul__fusing *f, int64_t number);

/* True for reductions of rows, which may end a chain that makes their operand. */
bool haul__fusing_is_end(const haul__fusing *f, int64_t number);

/* Why operation `number` cannot be in a chain with parts[0], ..., parts[count - 1]; NULL: it can. */
const char *haul__fusing_misfit(const haul__fusing *f, const int64_t *parts, int count, int64_t number);

/* Sets `fused` and `unfused` of the operations, and `within` of the stores. `p` has its stores with their first and
 * last uses, and its operations, which are the items of the order; `constant` is by store. Afterwards the uses of a
 * store by operations of a chain count for the whole chain. */
haul_status haul__program_fuse(const haul__program *log, const haul__program_order *order, haul_program *p,
                               const bool *constant);

/* The last operation of the chain of operation `at`, which is fused. */
int64_t haul__program_chain_end(const haul_program *p, int64_t at);

/* True if two values have the same elements of memory in the same order. */
bool haul__program_same_form(const haul_program_value *a, const haul_program_value *b);

#endif
