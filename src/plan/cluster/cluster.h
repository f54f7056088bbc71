/* Plans of a training step for up to 1,024 equal devices, which hosts have in equal numbers.
 *
 * A layout divides the devices into replicas of the network, each of which trains its share of the mini-batch. A
 * replica is one device, or a pipeline of stages: consecutive modules on each of its devices. A replica divides its
 * examples into micro-batches: one device computes them one after the other; in a pipeline a stage that waits for a
 * gradient makes the forward passes of as many micro-batches as there are stages after it. The devices that have the
 * same stage exchange its gradients, in buckets, while the last backward pass goes on. With shards (haul/parallel.h)
 * each of them keeps only a part of the optimizer's state (1), of the gradients (2) and of the parameters (3).
 *
 * Nothing runs. Times of operations and copies are those of the machine, as for plan/cluster/ranks.h, which predicts
 * layouts without stages and shards in the same way. */
#ifndef HAUL_PLAN_CLUSTER_CLUSTER_H
#define HAUL_PLAN_CLUSTER_CLUSTER_H

#include <haul/program.h>

#include "machine/machine.h"
#include "plan/cluster/units.h"

enum { HAUL__CLUSTER_DEVICES = 1024, HAUL__CLUSTER_PIECES = 4096, HAUL__CLUSTER_STAGES = 64, HAUL__CLUSTER_SHARDS = 4 };

/* All numbers but the shard are powers of two. */
typedef struct haul__layout {
    int stages, replicas, shard;
    int parts; /* micro-batches of a replica */
} haul__layout;

typedef struct haul__cluster_request {
    /* Records the step of one micro-batch of so many examples. Sizes for which it fails are left out. */
    haul_status (*record)(void *context, int64_t examples, haul_program *out);
    void                *context;
    haul__units_paths    paths;   /* with which stages can begin */
    const haul__machine *machine; /* of each host */
    int                  device;  /* on the machine: one for each stage of each replica */
    int                  devices; /* at most */
    int                  per_host;
    int64_t              batch;      /* of all replicas */
    int64_t              most;       /* examples of a micro-batch: what can be recorded */
    int64_t              limit;      /* bytes of a device: larger micro-batches than can fit are not looked at */
    int64_t              rate;       /* bytes a second of a host's interface, in each direction */
    int64_t              latency_ns; /* of a message between two hosts */
    int64_t              bucket;     /* bytes of gradients that are exchanged together, at least */
    bool                 direct;     /* gradients leave and reach the memory of devices; not with shard 3 */
    haul__layout         only;       /* 0, and shard -1: any */
} haul__cluster_request;

typedef struct haul__cluster_plan {
    haul__layout layout;
    int          devices, hosts;
    int64_t      examples;    /* of a micro-batch */
    int64_t      operations;  /* of a micro-batch, which take time */
    int64_t      learnt;      /* of these, with times that profiles measured */
    int64_t      step_ps;     /* the sum of the next three */
    int64_t      compute_ps;  /* of a device, in the mean of the stages: passes, additions of gradients, update */
    int64_t      exposed_ps;  /* of exchanges and of fetched parameters: what they add to the step */
    int64_t      bubble_ps;   /* in which stages wait for others */
    int64_t      exchange_ps; /* all exchanges, and fetched parameters, of the stage with most */
    int64_t      sent_bytes;  /* by the device that sends most */
    int64_t      peak_bytes;  /* of the device that needs most */
    int64_t parameter_bytes, gradient_bytes, state_bytes, passing_bytes; /* of that device; the last: activations */
} haul__cluster_plan;

typedef struct haul__cluster_plans {
    haul__cluster_plan *items; /* of the layouts that divide the batch, up to micro-batches that cannot fit */
    int                 count;
    int64_t             gradient_bytes; /* of the network */
    int                 most_stages;
} haul__cluster_plans;

enum { HAUL__CLUSTER_PATH = 200 };

/* A stage of a plan: consecutive modules. */
typedef struct haul__cluster_stage {
    char    first[HAUL__CLUSTER_PATH], last[HAUL__CLUSTER_PATH];
    int64_t forward_ps, backward_ps; /* of one micro-batch */
    int64_t parameter_bytes, peak_bytes;
} haul__cluster_stage;

/* haul__cluster_free is due, also after a failure: the last one of `record` if no size could be recorded. No plan: none
 * of `only` divides the batch. */
haul_status haul__cluster_find(const haul__cluster_request *request, haul__cluster_plans *out);
void        haul__cluster_free(haul__cluster_plans *plans);

/* The stages of a plan, which has as many. To haul__free; NULL on failure. */
haul__cluster_stage *haul__cluster_stages(const haul__cluster_request *request, const haul__cluster_plan *plan);

/* True for stages that are on one host, or on whole hosts. */
bool haul__cluster_suits_hosts(const haul__cluster_request *request, int stages);

/* The fastest plan on at most so many devices, none of which needs more than `limit`; a plan that is at most 1 % slower
 * and has fewer devices, stages, shards or micro-batches takes precedence. Only plans with the stages and the shard of
 * `of`, unless they are 0 and -1. NULL: there is none. */
const haul__cluster_plan *haul__cluster_best(const haul__cluster_plans *plans, int devices, int64_t limit,
                                             const haul__layout *of);

/* The plan on at most so many devices that needs least memory. */
const haul__cluster_plan *haul__cluster_least(const haul__cluster_plans *plans, int devices);

#endif
