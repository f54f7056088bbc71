/* The stand-in for cuBLASLt: a product as cublasLtMatmul hands it to the stream. */
#ifndef HAUL_TESTS_STANDIN_CUBLASLT_H
#define HAUL_TESTS_STANDIN_CUBLASLT_H

#include <stdbool.h>

#include "calls.h"

/* A matrix in memory, column-major. */
typedef struct lt_matrix {
    char   *at; /* on the host */
    int64_t rows, columns, ld, stride;
} lt_matrix;

/* D = activation(alpha op(A) op(B) + beta C + bias), `batch` times; alpha and beta as doubles. */
typedef struct lt_job {
    lt_matrix   a, b, c, d;
    bool        transpose_a, transpose_b, tf32, relu;
    int         type; /* cudaDataType of all */
    int64_t     batch, depth;
    double      alpha, beta;
    const char *bias; /* NULL for none */
    char       *workspace;
    size_t      workspace_size;
    int64_t     pieces; /* in which the sum is cut */
} lt_job;

size_t lt_size(int type); /* bytes of an element; 0 for a type that is not known */
int    lt_run(void *job); /* for standin_submit */

#endif
