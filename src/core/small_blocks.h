/* Memory for structures that every operation makes and frees: tensors, storages, nodes, scopes. */
#ifndef HAUL_CORE_SMALL_BLOCKS_H
#define HAUL_CORE_SMALL_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>

/* A freed structure waits in a per-thread list for the next one of its size, which costs a tenth of a malloc. Allocate
 * and free with the same `bytes`. Blocks never return to malloc: full lists, and the lists of threads that end, are
 * passed on to other threads. The first HAUL__SMALL_HEAD bytes of a freed block keep their contents. Debug builds and
 * sanitizers use plain malloc, so that use after free is detected. */
#define HAUL__SMALL_HEAD 24
void *haul__small_alloc(size_t bytes);
void  haul__small_free(void *p, size_t bytes);
/* True if freed small blocks wait in lists. If not, a stale object must not be read. */
bool haul__small_blocks_wait(void);

/* Sizes for haul__small_alloc: multiples of HAUL__SMALL_STEP bytes up to HAUL__SMALL_CLASSES of them. */
#define HAUL__SMALL_STEP    64
#define HAUL__SMALL_CLASSES 16

/* A freed block. The first block of a full list also holds that list's entry in the heap of lists. */
typedef struct haul__spare haul__spare;
struct haul__spare {
    char         head[HAUL__SMALL_HEAD];
    haul__spare *next;
    haul__spare *next_list;
    int          count;
};

/* The class of blocks of `bytes`, from 0; blocks of class HAUL__SMALL_CLASSES or more are not kept in lists. */
static inline size_t haul__small_class(size_t bytes)
{
    return bytes ? (bytes - 1) / HAUL__SMALL_STEP : 0;
}

void *haul__small_alloc_slowly(size_t bytes);
void  haul__small_free_slowly(void *p, size_t bytes);

void haul__small_release_all(void); /* of the calling thread */
/* Locks the lists that all threads share while the process forks. */
void haul__small_before_fork(void);
void haul__small_after_fork(void);

#endif
