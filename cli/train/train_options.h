/* The options of haul train. */
#ifndef CLI_TRAIN_TRAIN_OPTIONS_H
#define CLI_TRAIN_TRAIN_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/model/network.h"
#include "cli/options/options.h"

#define MOST_BATCH 1e6

enum { MOST_PIPELINE = 64, MOST_STAGES = 64 };

typedef struct train_options {
    const char *model, *data, *device, *optimizer, *precision, *init, *run, *config;
    const char *schedule, *augment;       /* augment: NULL for none */
    const char *memory_limit, *recompute; /* NULL: none */
    const char *spill_host, *spill_folder, *spill_file;
    const char *offload; /* "none" or "optimizer" */
    const char *metrics;
    const char *place, *plan; /* NULL: none; one of them at most */
    const char *devices;      /* to choose among; NULL: --device */
    const char *group;        /* which processes train together: "auto", "mpi", "nccl", "none" or "local:..." */
    const char *machine;      /* whose times count for `devices`; NULL: this computer's */
    int64_t     batch;        /* 0: as large as memory allows, until trainer_expect */
    int64_t     epochs, seed, workers, threads, log_every;
    int64_t     accumulate; /* mini-batches whose gradients add up to one update */
    int64_t     pipeline;   /* micro-batches of a mini-batch */
    int64_t     pieces;     /* pieces of a mini-batch, for data parallel training; 0: it is not divided */
    int64_t     shard;      /* ranks divide 1: the optimizer's state; 2: gradients, too; 3: parameters, too */
    int64_t     stages;     /* of the network, one on each rank; 0: each rank has all of it */
    const char *cuts;       /* where they begin; NULL: chosen */
    int64_t     patience;   /* 0: none */
    int64_t     size;       /* of pictures; 0: their own */
    int64_t     context;    /* characters of an example of a text; 0: the usual number */
    int64_t     profile;    /* steps to record; 0: none */
    int64_t     head;       /* outputs of a new last layer; 0: it is that of `init` */
    double      lr, momentum, weight_decay, save_every;
    double      validation; /* 0: none */
    bool        freeze;     /* only the last layer is trained */
    bool        shuffle, eager, spill, resume, allow_changed_data, json, quiet, sync_report, estimate, tensorboard;

    network_sizes sizes;
} train_options;

/* True with --recompute auto. */
bool train_options_recompute(const train_options *o);

/* True if there are as many pieces as a power of two, and they divide the batch. Otherwise complains. */
bool train_options_pieces_divide(int64_t pieces, int64_t batch);

/* The command, with its options parsed into a train_options. */
command_main train_main;

#endif
