/* The parts of a network that may run again in the backward pass (haul_module_recompute), and which of them
 * do. */
#ifndef HAUL_PLAN_RECOMPUTE_H
#define HAUL_PLAN_RECOMPUTE_H

#include <haul/nn.h>

enum { HAUL__MOST_PARTS = 64 };

/* Neighbouring children of a module that calls its children in order, or one child of any other module. */
typedef struct haul__network_part {
    char holder[80];            /* the path of the module; "" for the network */
    char first[40], last[40];   /* names of its children */
    char name[80 + 2 * 40 + 4]; /* "layer1.0", "conv1..pool1" */
    bool on;
} haul__network_part;

typedef struct haul__network_parts {
    haul__network_part items[HAUL__MOST_PARTS];
    int                count;
} haul__network_parts;

/* Blocks, and runs of layers around each convolution or dense layer; all off. A network with more parts than fit has
 * only the first ones. */
haul_status haul__parts_find(haul_module *net, haul__network_parts *out);

/* Set the network's parts to run again or not. */
haul_status haul__parts_apply(const haul__network_parts *p, haul_module *net);

int haul__parts_count_on(const haul__network_parts *p);

/* The peak of a training with these parts. */
typedef haul_status haul__parts_measure(const haul__network_parts *p, int64_t *peak, void *context);

/* Turn on the fewest parts with which the peak is at most `limit`; with a limit of 0 or one that no choice meets, those
 * with which the peak is lowest. *peak becomes the peak; on entry it is that without any. */
haul_status haul__parts_choose(haul__network_parts *p, int64_t limit, haul__parts_measure *measure, void *context,
                               int64_t *peak);

#endif
