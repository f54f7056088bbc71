/* haul what-if --ranks: data parallel training over many ranks of a machine. Everything is predicted. */
#ifndef CLI_PLAN_WHAT_IF_RANKS_H
#define CLI_PLAN_WHAT_IF_RANKS_H

#include "cli/train/one_step.h"
#include "machine/machine.h"

enum { MOST_RANK_COLUMNS = 6 };

typedef struct what_if_ranks {
    const char *list;    /* "1,8,64" */
    const char *network; /* "100gbit,5us" */
    int64_t     per_host;
    int64_t     pieces; /* 0: 8, or one for each rank */
    bool        overlap;
    int         ranks[MOST_RANK_COLUMNS], count;
    int64_t     rate, latency_ns; /* of the network */
} what_if_ranks;

/* Reads the texts into numbers. False after a complaint. */
bool what_if_ranks_parse(what_if_ranks *r);

/* Prints the prediction. Returns an exit code. */
int what_if_ranks_show(const what_if_ranks *r, const one_training *t, const haul__machine *machine, bool json);

#endif
