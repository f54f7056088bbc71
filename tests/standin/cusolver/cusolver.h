/* The stand-in for cuSOLVER: a factorisation as its functions hand it to the stream. */
#ifndef HAUL_TESTS_STANDIN_CUSOLVER_H
#define HAUL_TESTS_STANDIN_CUSOLVER_H

#include <stdbool.h>

#include "calls.h"

/* A = U S V^T of a column-major m x n, m >= n, or with `u` NULL A = V W V^T of a symmetric n x n, whose upper triangle
 * is read and which V replaces. All pointers are on the host. */
typedef struct solver_job {
    bool  f64;
    int   m, n, lda, ldu, ldvt, elements; /* of the workspace */
    char *a, *values, *u, *vt, *work;
    int  *info;
    int   code; /* what info gets, if it is not 0; results are then not to be used */
} solver_job;

int solver_run(void *job); /* for standin_submit */

#endif
