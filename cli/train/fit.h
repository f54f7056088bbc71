/* What a step of a training takes, and its layers, from a dry run: nothing is allocated, computed or read. */
#ifndef CLI_TRAIN_FIT_H
#define CLI_TRAIN_FIT_H

#include <haul/haul.h>

#include "cli/plan/recompute.h"

struct trainer;

/* A module that a step calls. */
typedef struct layer {
    char       path[80]; /* "layer1.0.conv1"; "" for the network itself */
    char       kind[32];
    int        depth; /* 0 for the network itself */
    bool       is_leaf;
    haul_shape output; /* of the first call */
    int64_t    parameters;
    double     flops; /* of forward, in all calls, without gradients */
} layer;

enum { SPILLED_STEPS = 12 };

/* What a device that spills would do. */
typedef struct dry_run_spill {
    bool    fits;              /* are all operations of the training small enough for the limit? */
    int64_t bytes, back_bytes; /* that a step moves to host memory, and back */
} dry_run_spill;

typedef struct dry_run {
    int64_t              examples;   /* in a batch */
    haul_estimate_result step;       /* the third: those before it make gradients and the optimizer's state */
    network_parts        parts;      /* with --recompute auto: those that run again in this step are on */
    int64_t              limit;      /* what --memory-limit leaves for tensors, in bytes; 0: none */
    int64_t              overhead;   /* the rest of it: what the device takes for other things */
    int64_t              start;      /* what was in use on the device before */
    int64_t              plain_peak; /* the most that the training needs without recomputation, in bytes */
    int64_t              peak;       /* the same with `parts` */
    haul_estimate_result epoch;      /* from the end of an epoch to the first step of the next one */
    haul_estimate_result steps;      /* SPILLED_STEPS steps one after the other, if they spill */
    dry_run_spill        spill;      /* of dry_run_try_spilling */
    int64_t              parameters, parameter_bytes;
    layer               *layers; /* each before those it consists of */
    size_t               layer_count, layer_room;
} dry_run;

/* Needs the trainer's data and options. What the trainer builds in it cannot be used afterwards. dry_run_make returns
 * false after a complaint; dry_run_try records an error only. */
bool        dry_run_make(struct trainer *t, dry_run *out);
haul_status dry_run_try(struct trainer *t, dry_run *out);

/* The same as if the tensors of the training had this limit, in bytes. The trainer stays as it was. On a device that
 * spills, dry_run_try_spilling also finds out whether that suffices; it fails with HAUL_UNSUPPORTED if the device
 * cannot spill. */
haul_status dry_run_try_within(struct trainer *t, int64_t limit, dry_run *out);
haul_status dry_run_try_spilling(struct trainer *t, int64_t limit, dry_run *out);

/* The third step as a program. Needs what dry_run_make needs. */
haul_status dry_run_record(struct trainer *t, haul_program *out);

/* What an estimate says of a device; NULL: nothing. */
const haul_estimate_device *dry_run_device(const haul_estimate_result *r, const haul_device *device);

int64_t dry_run_peak(const dry_run *d, const haul_device *device); /* bytes */
int64_t dry_run_room(const haul_device *device);                   /* bytes of its memory; 0: not known */
void    dry_run_free(dry_run *d);

#endif
