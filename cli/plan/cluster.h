/* haul plan --ranks: how to divide a training among up to 1,024 equal devices. Everything is predicted. */
#ifndef CLI_PLAN_CLUSTER_H
#define CLI_PLAN_CLUSTER_H

#include "cli/train/one_step.h"
#include "parallel/cut.h"
#include "plan/cluster/cluster.h"

typedef struct cluster_options {
    int64_t     ranks; /* 0: haul plan without --ranks */
    int64_t     per_host;
    const char *network; /* "100gbit,5us" */
    const char *bucket;  /* "4Mi" */
    const char *group;   /* "auto", "mpi", "nccl" */
    const char *only;    /* "stages=2,shard=0"; NULL: any */
    const char *machine; /* a name or a file; NULL: this computer */
    const char *limit;   /* of each device; NULL: its memory */
} cluster_options;

typedef struct cluster {
    const cluster_options    *options;
    const one_training       *training;
    haul__machine            *machine;
    haul__cluster_request     request;
    haul__cluster_plans       plans;
    const haul__cluster_plan *best;
    haul__cluster_stage      *stages;         /* of the best plan; NULL: one */
    haul__cut                 cut;            /* the modules between which haul train can cut */
    const char              **paths;          /* of these, in the request */
    char                      why_whole[200]; /* the network has one stage; "": any number of them */
    /* The step of the best plan on one device: one that fits, else any, else what the devices of `best` compute. */
    int64_t one_ps;
    int64_t limit;
} cluster;

/* Reads the texts into numbers, and the machine. Returns -1, or an exit code after a complaint; cluster_free is due in
 * any case. */
int  cluster_read(cluster *c);
void cluster_free(cluster *c);

/* Finds between which modules haul train can cut. The training is that of cluster_show. False after a complaint. */
bool cluster_find_paths(cluster *c);

/* The command that trains by the best plan. To free; NULL when memory is exhausted, or if haul train cannot. */
char *cluster_command(const cluster *c);

/* Prints the plan. Returns an exit code. */
int cluster_show(cluster *c, const one_training *t, bool json);

/* A plan that is not the best one, and why. */
typedef struct cluster_other {
    const haul__cluster_plan *plan;
    char                      why[80];
} cluster_other;

enum { CLUSTER_OTHERS = 12, CLUSTER_FEWER = 12 };

/* The best plans with other numbers of stages, and with other shards. */
int cluster_others(const cluster *c, cluster_other out[CLUSTER_OTHERS]);

/* The best plans on at most a half, a quarter and so on of the devices; NULL where nothing fits. `devices` are these
 * numbers. */
int cluster_fewer(const cluster *c, const haul__cluster_plan *out[CLUSTER_FEWER], int devices[CLUSTER_FEWER]);

/* Examples a second, and their share of those of as many single devices, each with a step of `one_ps`. */
double cluster_speed(const cluster *c, const haul__cluster_plan *p);
double cluster_efficiency(const cluster *c, const haul__cluster_plan *p);

/* False after a complaint. */
bool show_cluster(const cluster *c);
bool show_cluster_json(const cluster *c);

#endif
