/* What ranks need to exchange bytes that each of them has: latency, bandwidth, and which ranks share a host.
 *
 * The times are the smaller ones of two algorithms each, by R. Thakur, R. Rabenseifner and W. Gropp, "Optimization of
 * collective communication operations in MPICH", 2005: pairwise exchange or Bruck's for all-to-all, ring or recursive
 * doubling for all-gather. */
#ifndef HAUL_PLAN_CLUSTER_EXCHANGE_H
#define HAUL_PLAN_CLUSTER_EXCHANGE_H

#include "machine/machine.h"

typedef struct haul__exchange {
    const haul__machine *machine; /* of each host */
    int                  device;  /* of a rank, on the machine */
    int                  ranks;
    int                  near;       /* of them on one host */
    int                  groups;     /* that share a host and exchange at the same time; this is one of them */
    int64_t              rate;       /* bytes a second of a host's interface, in each direction */
    int64_t              latency_ns; /* of a message between two hosts */
    bool                 direct;     /* bytes leave and reach the memory of devices; else that of their hosts */
} haul__exchange;

/* A device that the ranks' device has a link to, for messages within a host; 0: there is none but the host. */
int haul__exchange_peer(const haul__machine *m, int device);

/* Of so many messages one after the other: between hosts, if the ranks are on several, else within one. */
int64_t haul__exchange_latency(const haul__exchange *x, int64_t messages);

/* Each rank has sums of `bytes` for so many nodes of the tree, and becomes the owner of one part of the total. */
int64_t haul__exchange_sum(const haul__exchange *x, int64_t bytes, int64_t nodes);

/* Each rank has a part of `bytes` and gets all of them. */
int64_t haul__exchange_gather(const haul__exchange *x, int64_t bytes);

/* Copies of so many bytes to host memory and back; 0 if they need not go there. */
int64_t haul__exchange_staging(const haul__exchange *x, int64_t bytes);

/* True if the ranks are on one host and compute on all of its cores, which then move the bytes, too: the exchange takes
 * time of the backward pass. */
bool haul__exchange_takes_cores(const haul__exchange *x);

/* What a rank sends of `bytes` in one phase. */
int64_t haul__exchange_sent(const haul__exchange *x, int64_t bytes);

#endif
