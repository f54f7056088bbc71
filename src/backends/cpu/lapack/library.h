/* A LAPACK library, opened at run time, whichever is there: OpenBLAS, FlexiBLAS, MKL or the reference. */
#ifndef HAUL_BACKENDS_CPU_LAPACK_LIBRARY_H
#define HAUL_BACKENDS_CPU_LAPACK_LIBRARY_H

#include <stddef.h>
#include <stdint.h>

typedef struct haul__lapack_functions {
#define X(name, arguments) void(*name) arguments;
#include "backends/cpu/lapack/lapack.def"
#undef X
} haul__lapack_functions;

/* The library, which the first call opens; NULL if there is none, and *reason is then a text that names a package.
 * $HAUL_LAPACK is another name or path of it. */
const haul__lapack_functions *haul__lapack(const char **reason);

/* The path of the library; "" if there is none. */
const char *haul__lapack_path(void);

/* Between these two the library computes in one thread, because the bits of its results depend on their number. The
 * setting of OpenBLAS and FlexiBLAS is one for the process: the last thread that leaves restores it. */
void haul__lapack_enter(void);
void haul__lapack_leave(void);

/* The same for settings that each thread has (OpenMP, MKL): to be called by every thread that computes. The number that
 * the first returns is passed to the second. */
typedef struct haul__lapack_threads {
    int openmp, mkl;
} haul__lapack_threads;
haul__lapack_threads haul__lapack_thread_enter(void);
void                 haul__lapack_thread_leave(haul__lapack_threads before);

#endif
