/* Kernel text of a chain: one kernel that makes each element by the formulas of all parts, in their order.
 *
 * It depends on which parts there are, on dtypes and on which operands are dense or broadcast along the innermost
 * dimension. Sizes, strides and scalars are parameters, so that other batches need no other kernel. */
#ifndef HAUL_RECORD_FOLLOW_CHAIN_TEXT_H
#define HAUL_RECORD_FOLLOW_CHAIN_TEXT_H

#include "engine/collect.h"

enum {
    HAUL__CHAIN_BUFFERS = 7, /* as many as kernels have (KERNEL7 of the preludes) */
    HAUL__CHAIN_WORDS = 120  /* of parameters: OpenCL guarantees 1024 bytes for buffers and parameters */
};

/* A part of a chain. */
typedef struct haul__chain_call {
    haul__collected launch;
    bool            leaves; /* its result is used outside of the chain */
} haul__chain_call;

typedef struct haul__chain_kernel {
    haul_tensor *buffers[HAUL__CHAIN_BUFFERS]; /* one of those in each storage; those that are written come first */
    int          write_count, buffer_count;
    int64_t      params[HAUL__CHAIN_WORDS]; /* the first is the number of elements */
    int          word_count;
    haul_dtype   dtype; /* that of the unit */
    char        *text;
} haul__chain_kernel;

/* Writes the kernel of as many of the `count` last parts of a chain, from the first of them on and up to `most`, as one
 * kernel has buffers and parameters for. `*taken` becomes their number; it is 0 if the first alone is too many. The
 * caller must haul__free the text. */
haul_status haul__chain_text(const haul__chain_call *parts, int count, int most, haul__chain_kernel *out, int *taken);

#endif
