/* The thread pool. Operations, loaders and transfers all run on it. */
#ifndef HAUL_CORE_POOL_H
#define HAUL_CORE_POOL_H

#include <haul/error.h>
#include <stdbool.h>
#include <stdint.h>

/* Work on [first, last). */
typedef void haul__range_fn(void *context, int64_t first, int64_t last);

/* Runs fn over [0, count), cut into pieces of `grain` (the last may be smaller), on the calling thread and on idle pool
 * threads, and returns when all pieces are done. The pieces depend on count and grain only, never on the number of
 * threads; each is one call of fn. Small work (one piece) stays on the caller. Nested and concurrent calls are fine:
 * they run on the caller if the pool is busy. */
void haul__parallel_for(int64_t count, int64_t grain, haul__range_fn *fn, void *context);

/* A thread for long-running work of the library (loader workers), with signals blocked. Returns NULL, without recording
 * an error, if the thread cannot be started. */
typedef struct haul__thread_handle haul__thread_handle;
haul__thread_handle               *haul__thread_start(void (*run)(void *), void *context);
void                               haul__thread_join(haul__thread_handle *handle);
/* For a thread that this process does not have, because it is the child of a fork. */
void haul__thread_forget(haul__thread_handle *handle);

/* Threads that share an operation started by the calling thread, including that thread. */
int haul__pool_threads(void);
/* The process's number of threads, for scopes without a number of their own. 0: one per core. Returns the number
 * set. */
int haul__pool_set_threads(int threads);

/* Fails if HAUL_NUM_THREADS is set to something other than a number of threads. */
haul_status haul__pool_check_environment(const char *operation);

#endif
