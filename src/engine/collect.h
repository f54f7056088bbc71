/* Launches that are put into a list in the place of being submitted, so that a chain of them can run tile by tile
 * (record/follow/chain.h). */
#ifndef HAUL_ENGINE_COLLECT_H
#define HAUL_ENGINE_COLLECT_H

#include "engine/layout/layout.h"

/* The launch of a pointwise kernel. */
typedef struct haul__collected {
    haul_kernel_function *function; /* NULL on devices whose kernels are not functions of this process */
    int                   kernel;   /* its id */
    pointwise_params      params;
    haul_tensor          *tensors[HAUL__MAX_BUFFERS]; /* the result, then the operands; borrowed */
    int                   count;
    int64_t               grain;
} haul__collected;

/* A launch of another kernel, with one result. */
typedef struct haul__collected_pass {
    haul_kernel_function *function;
    unsigned char         params[512]; /* a copy */
    haul_tensor          *out;         /* the result; borrowed */
    int64_t               items, grain;
} haul__collected_pass;

/* The launches of a call that makes several passes over its operand. */
typedef struct haul__collected_passes {
    haul__collected_pass items[2];
    int                  count;
} haul__collected_passes;

/* From now on the thread puts the launch of the next call into `out`, whose count is 0 as long as there is none.
 * haul__collect_end goes back to what the thread did before. */
uint32_t haul__collect_begin(haul__collected *out);
uint32_t haul__collect_passes_begin(haul__collected_passes *out); /* the same for a call with several launches */
void     haul__collect_end(uint32_t before);

static inline bool haul__collects(void)
{
    return haul__thread()->words[HAUL__DRY_RUN] == HAUL__COLLECTS;
}

/* Fails if there are more launches than expected, or one of another kind of kernel. */
haul_status haul__collect(const haul__kernel *kernel, const haul__launch *launch);

#endif
