/* Tables of operations on one tensor: the rows of bench/pointwise.c, bench/reduce.c, bench/norm.c, bench/movement.c and
 * bench/pool.c. A row becomes a case named LABEL SIZES: "softmax 4096x4096"; "exp, 4 M" for a vector of 4 Mi elements.
 * Its peer is "torch:LABEL SIZES" in bench/peer_operations.py, with the sizes always in full: "torch:exp 4194304". */
#ifndef BENCH_OPERATION_H
#define BENCH_OPERATION_H

#include "support/bench.h"

enum { WHOLE = 100 }; /* an axis: all elements */

typedef struct operation {
    const char *label;
    int64_t     sizes[4];                            /* of x; 0 ends them */
    haul_tensor *(*unary)(haul_tensor *x);           /* the operation: this one, */
    haul_tensor *(*along)(haul_tensor *x, int axis); /* or this one, with `axis` */
    int         axis;
    double      bytes; /* read and written for each element of x: the case's unit is GB/s; 0: it is us */
    haul_dtype  dtype; /* of x; f32 unless given */
    bool        gradient;
    const char *limit; /* as bench_case's */

    /* More peers of PyTorch, of which the fastest counts: "torch:LABEL VARIANT SIZES". */
    const char *variants[2];

    /* Makes other operands out of x, or replaces x; NULL if neither is needed. */
    haul_tensor *(*prepare)(haul_tensor *x);
} operation;

/* main of a program whose cases are these. */
int operation_main(int argc, char **argv, const operation *table, int count);

#endif
