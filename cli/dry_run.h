/* What a step of a training takes, and its layers, from a dry run: nothing is allocated, computed or read. */
#ifndef CLI_DRY_RUN_H
#define CLI_DRY_RUN_H

#include <haul/haul.h>

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

typedef struct dry_run {
    int64_t              examples; /* in a batch */
    haul_estimate_result step;     /* the third: those before it make gradients and the optimizer's state */
    int64_t              parameters, parameter_bytes;
    layer               *layers; /* each before those it consists of */
    size_t               layer_count, layer_room;
} dry_run;

/* Needs the trainer's data and options. What the trainer builds in it cannot be used afterwards. False after a
 * complaint. */
bool    dry_run_make(struct trainer *t, dry_run *out);
int64_t dry_run_peak(const dry_run *d, const haul_device *device); /* bytes */
int64_t dry_run_room(const haul_device *device);                   /* bytes of its memory; 0: not known */
void    dry_run_free(dry_run *d);

#endif
