/* A training as planning sees it: functions that build it anew, make its steps, and do what else needs memory. They are
 * of the command, which links the library statically. A dry run and a timing build a training of their own each time,
 * whose objects belong to a scope of the planner. A training that does not follow needs no functions for that. */
#ifndef HAUL_PLAN_TRAINING_H
#define HAUL_PLAN_TRAINING_H

#include <haul/data.h>
#include <haul/train.h>

/* What planning needs of a training that was built. */
typedef struct haul__training_objects {
    haul_module *net;
    haul_loader *loader;
} haul__training_objects;

typedef struct haul__training {
    haul_device *device;
    int64_t      accumulate; /* mini-batches in a step */
    int64_t      pieces;     /* of a mini-batch, one after the other; at most 1: it is whole */
    bool         follows;    /* it records its steps and follows them (haul/recording.h), if that fits */
    bool         goes_on;    /* the optimizer has its state before the first step */
    void        *context;    /* passed to the functions */

    /* Builds network, optimizer and loader, with this many examples in a mini-batch, and a recording if it `follows`.
     * The functions below are for the network that was built last. */
    haul_status (*build)(void *context, int64_t batch, bool follows, haul__training_objects *out);
    /* Loads weights into it, which may take memory that the training does not need later; NULL: it does not. */
    haul_status (*load)(void *context);
    /* Trains on a mini-batch, without waiting for the device: as it is, and by the recording. */
    haul_status (*step)(void *context, const haul_batch *batch, const haul_step_part *part);
    haul_status (*follow)(void *context, const haul_batch *batch, const haul_step_part *part);
    /* Forgets the recorded steps. */
    void (*forget)(void *context);
    /* Makes what the training keeps between its steps, for example the best weights. */
    haul_status (*hold)(void *context);
    /* Uses memory as the training does between two epochs: to measure an epoch, for one mini-batch, and to save. */
    haul_status (*end_epoch)(void *context);
} haul__training;

#endif
