/* How far two tensors of one shape are apart. */
#ifndef CLI_COMPARE_DIFFERENCE_H
#define CLI_COMPARE_DIFFERENCE_H

#include "cli/compare/record.h"

typedef struct difference {
    int64_t count;   /* elements that differ */
    int64_t element; /* the one that differs most */
    double  a, b;    /* its values */
    double  ulp;     /* how many numbers of the coarser dtype are between them; of integers the difference */
    double  share;   /* the 2-norm of all differences in relation to that of the larger tensor, or to its scale */
} difference;

/* An element of a tensor as a number. */
double element_of(haul_dtype dtype, const void *data, int64_t i);

/* Two NaNs are equal, and so are 0 and -0. */
difference difference_of(const side_record *a, const void *a_data, const side_record *b, const void *b_data);

#endif
