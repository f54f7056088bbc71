/* The order in which the operations of a program compute.
 *
 * It is the order of the calls but for updates of parameters: one that frees much memory comes right behind the last
 * use of its gradient and its parameter. Parts of chains move afterwards (record/gather.h). */
#ifndef HAUL_RECORD_ORDER_H
#define HAUL_RECORD_ORDER_H

#include "program/program.h"

/* Where a range begins, which goes to the end of the log: numbers of described calls, values, stores, commands and
 * changes. */
typedef struct haul__program_range {
    size_t call, value, store, command, change;
} haul__program_range;

/* A call, or some of its operands: an optimizer's operation updates several parameters, which are apart where one of
 * them moves. */
typedef struct haul__ordered_call {
    int  call;         /* in the log */
    int  first, count; /* operands */
    bool moved;
    bool checks; /* one of its commands checks indices */
} haul__ordered_call;

typedef struct haul__program_order {
    haul__ordered_call *items;
    size_t              count;
    int64_t            *of_described; /* for each described call of the range: the last item at its place or before it;
                                       * -1: there is none */
    int64_t *of_command;              /* for each command of the range: the item that submits it; -1: none */
    size_t   described_count, command_count;
} haul__program_order;

/* With `moves` false nothing moves. On failure there is nothing to free. */
haul_status haul__program_order_make(const haul__program *log, const haul__program_range *range, bool moves,
                                     haul__program_order *out);
void        haul__program_order_free(haul__program_order *order);

#endif
