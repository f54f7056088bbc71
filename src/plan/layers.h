/* The modules that a training step calls: their outputs, parameters and arithmetic. */
#ifndef HAUL_PLAN_LAYERS_H
#define HAUL_PLAN_LAYERS_H

#include <haul/estimate.h>
#include <haul/nn.h>

typedef struct haul__layer {
    char       path[80]; /* "layer1.0.conv1"; "" for the network itself */
    char       kind[32];
    int        depth; /* 0 for the network itself */
    bool       is_leaf;
    haul_shape output; /* of the first call */
    int64_t    parameters;
    double     flops; /* of forward, in all calls, without gradients */
} haul__layer;

typedef struct haul__layers {
    haul__layer *items; /* each before those it consists of */
    size_t       count, room;
    int64_t      parameters, parameter_bytes; /* of the network */
    bool         failed;                      /* memory did not suffice for the list */
} haul__layers;

/* A haul_call_watcher, with the list as context: adds the modules that are called. */
void haul__layers_watch(const haul_call_event *event, void *layers);

haul_status haul__layers_count_parameters(haul__layers *layers, haul_module *net);

/* Adds the arithmetic of a step to the layers that it was done in. */
void haul__layers_count_flops(haul__layers *layers, const haul_estimate_result *step);

void haul__layers_free(haul__layers *layers);

#endif
