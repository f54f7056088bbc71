/* Data parallel training over many ranks, predicted from the program of one piece of its mini-batch.
 *
 * A mini-batch has pieces, of which each rank computes the same number, one after the other. The sums of their
 * gradients are exchanged in buckets: each rank sends every other one its part of a bucket (all-to-all), adds the parts
 * that it gets, and sends the sum to all others (all-gather). A bucket is sent as soon as the backward pass of the last
 * piece has finished its gradients. One bucket follows the other. */
#ifndef HAUL_PLAN_CLUSTER_RANKS_H
#define HAUL_PLAN_CLUSTER_RANKS_H

#include <haul/program.h>

#include "machine/machine.h"

enum { HAUL__MOST_RANKS = 1024, HAUL__MOST_PIECES = 4096 };

typedef struct haul__ranks_request {
    const haul_program  *program; /* the step of one piece: forward and backward pass, and the update */
    const haul__machine *machine; /* of each host */
    int                  device;  /* on the machine: one for each rank */
    int                  ranks, pieces;
    int                  per_host;   /* ranks of one host, which share its network interface */
    int64_t              rate;       /* bytes a second of a host's interface, in each direction */
    int64_t              latency_ns; /* of a message between two hosts */
    int64_t              bucket;     /* bytes */
    bool                 overlaps;   /* buckets are exchanged while the backward pass computes */
} haul__ranks_request;

typedef struct haul__ranks_step {
    int64_t hosts;
    int     pieces_each;    /* of the rank that has most */
    int64_t step_ps;        /* the sum of the next three */
    int64_t compute_ps;     /* forward and backward passes of these pieces, and adding their gradients */
    int64_t waited_ps;      /* of the exchange, the part that no backward pass hides */
    int64_t update_ps;      /* of the parameters */
    int64_t exchange_ps;    /* all of the exchange */
    int64_t staging_ps;     /* its part that copies between the device and host memory */
    int64_t sent_bytes;     /* that a rank sends to others, at most */
    int64_t gradient_bytes; /* of all parameters */
    int64_t sum_bytes;      /* of sums of gradients on the device, at most */
} haul__ranks_step;

/* Fails if the program has no gradients, or ranks are more than pieces. plan/cluster/exchange.h has the times of
 * exchanges. */
haul_status haul__ranks_predict(const haul__ranks_request *request, haul__ranks_step *out);

#endif
