/* Host memory for the library's own structures, with checked sizes and a switch that makes calls fail in turn.
 *
 * haul__fault_point is the one place where tests inject failures: allocations, device memory, copies, compiles and
 * launches all ask it before they act. */
#ifndef HAUL_CORE_ALLOC_H
#define HAUL_CORE_ALLOC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void *haul__malloc(size_t bytes); /* NULL when memory is exhausted; bytes == 0 gives a unique pointer */
void *haul__calloc(size_t count, size_t size);
void *haul__realloc(void *old, size_t count, size_t size);
void  haul__free(void *p);
char *haul__strdup(const char *text);
/* printf into fresh memory; NULL when memory is exhausted. */
char *haul__format(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Memory for structures that come and go with every operation (tensors, storages, nodes, scopes): freed ones wait in a
 * list of the thread's for the next of their size, which costs a tenth of malloc. `bytes` must be the same at both
 * ends. Blocks never go back to malloc: lists that are full, and those of threads that end, wait for other threads. The
 * first HAUL__SMALL_HEAD bytes of a freed block stay as they were. Plain malloc in debug builds and under sanitizers,
 * so that use after free is seen. */
#define HAUL__SMALL_HEAD 24
void *haul__small_alloc(size_t bytes);
void  haul__small_free(void *p, size_t bytes);

/* Grow an array: on success *items has room for at least `wanted` elements and *capacity says how many. */
bool haul__grow(void *items, size_t *capacity, size_t wanted, size_t element_size);

typedef enum haul__fault {
    HAUL__FAULT_HOST = 1,   /* host allocation */
    HAUL__FAULT_DEVICE = 2, /* device allocation */
    HAUL__FAULT_COPY = 4,   /* write, read, copy, fill */
    HAUL__FAULT_COMPILE = 8,
    HAUL__FAULT_LAUNCH = 16,
    HAUL__FAULT_FILE = 32,   /* open, write, sync, rename of files */
    HAUL__FAULT_PINNED = 64, /* pinned host memory; what wants it does without */
} haul__fault;

/* The kinds of calls that a plan counts; 0: there is no plan. */
extern atomic_uint haul__fault_kinds;

/* Would haul__fault_point count a call of this kind? */
static inline bool haul__fault_planned(haul__fault kind)
{
    return atomic_load_explicit(&haul__fault_kinds, memory_order_relaxed) & (unsigned)kind;
}

/* True if this call must fail. Costs one relaxed load when no plan is set. */
bool haul__fault_counted(void);

static inline bool haul__fault_point(haul__fault kind)
{
    return __builtin_expect(haul__fault_planned(kind), 0) && haul__fault_counted();
}

/* Tests: let the `nth` (from 1) following call of one of `kinds`, and only that, fail; 0 turns it off.
 * haul__fault_count says how many there were since the last plan; INT64_MAX for nth counts without a failure. */
void    haul__fault_plan(unsigned kinds, int64_t nth);
int64_t haul__fault_count(void);
/* Blocks of haul__malloc and friends alive now, for leak tests. */
int64_t haul__host_blocks(void);
/* Count blocks that are kept without being alive, or are alive again. */
void haul__count_blocks(int delta);
/* Do freed small blocks wait in lists? Else a stale object must not be looked at. */
bool haul__small_blocks_wait(void);

#endif
