/* How much of the exchange of gradients a backward pass hides. */
#ifndef HAUL_PARALLEL_HIDDEN_H
#define HAUL_PARALLEL_HIDDEN_H

#include <stdint.h>

/* Nanoseconds of a step. All zeros: no exchange was added. */
typedef struct haul__exchange_time {
    int64_t all;    /* exchanges were under way */
    int64_t hidden; /* of these: before the pass was over */
    int64_t until;  /* when the last exchange that was added ended */
} haul__exchange_time;

/* Adds an exchange that was under way from `begin` to `end`. Exchanges come in the order in which they began. Time in
 * which several were under way counts once. pass_over: when the backward pass had computed all gradients. */
void haul__exchange_time_add(haul__exchange_time *t, int64_t begin, int64_t end, int64_t pass_over);

#endif
