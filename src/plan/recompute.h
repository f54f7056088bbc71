/* The segments of a network that may run again in the backward pass (haul_module_recompute), and which of them
 * do. */
#ifndef HAUL_PLAN_RECOMPUTE_H
#define HAUL_PLAN_RECOMPUTE_H

#include <haul/nn.h>

#include "plan/memory/step.h"

enum { HAUL__MOST_SEGMENTS = 64 };

/* Neighbouring children of a module that calls its children in order, or one child of any other module. */
typedef struct haul__segment {
    char holder[80];            /* the path of the module; "" for the network */
    char first[40], last[40];   /* names of its children */
    char name[80 + 2 * 40 + 4]; /* "layer1.0", "conv1..pool1" */
    bool on;
} haul__segment;

typedef struct haul__segments {
    haul__segment items[HAUL__MOST_SEGMENTS];
    int           count;
} haul__segments;

/* Blocks, and runs of layers around each convolution or dense layer; all off. A network with more segments than fit has
 * only the first ones. */
haul_status haul__segments_find(haul_module *net, haul__segments *out);

/* Set the network's segments to run again or not. */
haul_status haul__segments_apply(const haul__segments *p, haul_module *net);

/* The segment that has the module of this path; -1: none. */
int haul__segment_of(const haul__segments *p, haul_module *net, const char *path);

int haul__segments_count_on(const haul__segments *p);

/* True if the same segments of a network are on in both. */
bool haul__segments_equal(const haul__segments *a, const haul__segments *b);

void haul__segments_turn_all(haul__segments *p, bool on);

/* Turn on the segments that run again by the plan of the model, and no others. */
void haul__segments_take(haul__segments *p, const haul__memory_model *m, const haul__memory_plan *plan);

/* The names of those that are on, "layer1.0, layer1.1". What does not fit is cut off. */
const char *haul__segments_names(const haul__segments *p, char *out, size_t size);

/* How the peak of a training with some segments running again is found: by steps in a dry run. */
typedef struct haul__segments_tries {
    /* *peak becomes that of the training with the segments that are on. If that is above `enough`, which is not 0, any
     * number above it suffices. */
    haul_status (*run)(void *context, const haul__segments *p, int64_t enough, int64_t *peak);
    void   *context;
    int64_t limit;      /* bytes; 0: none */
    int64_t plain_peak; /* bytes, with nothing running again */
} haul__segments_tries;

/* Turn on segments with which the peak is within the limit. The planner of memory proposes those with which the step is
 * fastest, on the program of the step; tries find out what they take. Then no segment is on without which the peak is
 * within the limit, too, and none can be replaced by one that takes less time, in so far as that was tried. If no
 * choice is within the limit, as with 0, those remain with which the peak is lowest. */
haul_status haul__segments_search(haul__segments *p, const haul__memory_step *step, const haul__segments_tries *tries);

/* The planner's peak of the step with nothing running again. */
haul_status haul__segments_peak(const haul__memory_step *step, int64_t *peak);

#endif
