/* The one thread pool: operations, loader and transfers all run on it. */
#ifndef HAUL_CORE_POOL_H
#define HAUL_CORE_POOL_H

#include <haul/error.h>
#include <stdbool.h>
#include <stdint.h>

/* Work on [first, last). */
typedef void haul__range_fn(void *context, int64_t first, int64_t last);

/* Run fn over [0, count) cut into pieces of `grain` (the last may be smaller), on the calling thread and idle pool
 * threads. Pieces depend on count and grain only, never on the number of threads, and each is one call. Small work
 * (one piece) stays on the caller. Returns when all is done. Nested calls and calls from several threads at once are
 * fine: they run on the caller if the pool is busy. */
void haul__parallel_for(int64_t count, int64_t grain, haul__range_fn *fn, void *context);

/* A thread of the library's for long-running work (loader workers), with signals blocked. NULL when it cannot be
 * had, without recording an error. */
typedef struct haul__thread_handle haul__thread_handle;
haul__thread_handle               *haul__thread_start(void (*run)(void *), void *context);
void                               haul__thread_join(haul__thread_handle *handle);
/* Of a thread that the process does not have, because it is the child of a fork. */
void haul__thread_forget(haul__thread_handle *handle);

/* Cores that this process may use. */
int haul__core_count(void);

/* Threads that share the work of an operation which the calling thread starts, itself included. */
int haul__pool_threads(void);
/* For the process: what threads use whose scope has no number of its own. 0: one a core; returns what is set. */
int haul__pool_set_threads(int threads);

/* An error if HAUL_NUM_THREADS is set to something other than a number of threads. */
haul_status haul__pool_check_environment(const char *operation);

#endif
