/* MPI without the types of an implementation.
 *
 * The implementations differ in the types of their handles and in the values of their constants, which their mpi.h
 * defines. Haul is built without any mpi.h: family.h is compiled once for each family, with the few definitions that
 * differ, and handles cross this interface as integers. */
#ifndef HAUL_GROUP_MPI_CALLS_H
#define HAUL_GROUP_MPI_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HAUL__MPI_FUNCTIONS = 19, HAUL__MPI_TEXT = 8192 };

typedef struct haul__mpi_calls haul__mpi_calls;

/* An MPI library that was opened. */
typedef struct haul__mpi {
    const haul__mpi_calls *calls;
    void                  *handle;
    char                   path[256];
    char                   version[128];
    void (*functions[HAUL__MPI_FUNCTIONS])(void); /* in the order of mpi.def */
    intptr_t world, byte, errors_return;
    intptr_t f32, sum; /* for all_reduce; 0: unknown */
} haul__mpi;

/* The functions return MPI's code; 0 is success. */
struct haul__mpi_calls {
    const char *family;
    /* Finds functions and constants in m->handle. Returns the name of one that is missing, or NULL. */
    const char *(*load)(haul__mpi *m);
    int (*is_started)(haul__mpi *m, bool *started, bool *finished);
    int (*start)(haul__mpi *m);
    int (*return_errors)(haul__mpi *m);
    int (*rank_and_size)(haul__mpi *m, intptr_t comm, int *rank, int *size);
    int (*duplicate)(haul__mpi *m, intptr_t comm, intptr_t *out);
    int (*split)(haul__mpi *m, intptr_t comm, int color, int key, intptr_t *out);
    int (*send)(haul__mpi *m, const void *data, int bytes, int to, int tag, intptr_t comm, intptr_t *request);
    int (*receive)(haul__mpi *m, void *data, int bytes, int from, int tag, intptr_t comm, intptr_t *request);
    int (*broadcast)(haul__mpi *m, void *data, int bytes, int root, intptr_t comm, intptr_t *request);
    int (*all_to_all)(haul__mpi *m, const void *out, const int *out_bytes, const int *out_at, void *in,
                      const int *in_bytes, const int *in_at, intptr_t comm, intptr_t *request);
    int (*all_gather)(haul__mpi *m, void *all, const int *bytes, const int *at, intptr_t comm, intptr_t *request);
    int (*all_reduce)(haul__mpi *m, void *data, int count, intptr_t comm, intptr_t *request);
    int (*test)(haul__mpi *m, intptr_t *request, bool *done);
    int (*version)(haul__mpi *m, char text[HAUL__MPI_TEXT]);
    int (*error)(haul__mpi *m, int code, char text[HAUL__MPI_TEXT]);
    int (*abort)(haul__mpi *m, int code);
    int (*finish)(haul__mpi *m);
};

extern const haul__mpi_calls haul__mpi_open_mpi, haul__mpi_mpich, haul__mpi_abi;

#endif
