/* Host memory for the library's own structures, with checked sizes and a switch that makes calls fail in turn.
 *
 * haul__fault_point is the one place where tests inject failures. Allocations, device memory, copies, compiles and
 * launches all ask it before they act. */
#ifndef HAUL_BASE_ALLOC_H
#define HAUL_BASE_ALLOC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void *haul__malloc(size_t bytes); /* NULL if memory is exhausted; bytes == 0 returns a unique pointer */
/* The same for large tables: from HAUL__HUGE_PAGES_FROM on, in huge pages if the system has them, whose page faults
 * take a quarter of the time. */
void *haul__malloc_large(size_t bytes);
/* Advises the system to use huge pages for memory that was not written to yet, if it is that large. */
enum { HAUL__HUGE_PAGES_FROM = 4 << 20 };
void  haul__prefer_huge_pages(void *memory, size_t bytes);
void *haul__calloc(size_t count, size_t size);
void *haul__realloc(void *old, size_t count, size_t size);
void  haul__free(void *p);
char *haul__strdup(const char *text);
/* printf into fresh memory; NULL if memory is exhausted. */
char *haul__format(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Grow an array. On success *items has room for at least `wanted` elements, and *capacity says for how many. */
bool haul__grow(void *items, size_t *capacity, size_t wanted, size_t element_size);

/* How often the calling thread has asked for memory, and how often that was refused because it may not. */
typedef struct haul__alloc_watch {
    uint64_t count;
    bool     refuses; /* haul__malloc and the others fail */
    uint64_t refused; /* so many calls */
    size_t   bytes;   /* what the first one asked for */
} haul__alloc_watch;
haul__alloc_watch *haul__alloc_watch_now(void);

typedef enum haul__fault {
    HAUL__FAULT_HOST = 1,   /* host allocation */
    HAUL__FAULT_DEVICE = 2, /* device allocation */
    HAUL__FAULT_COPY = 4,   /* write, read, copy, fill */
    HAUL__FAULT_COMPILE = 8,
    HAUL__FAULT_LAUNCH = 16,
    HAUL__FAULT_FILE = 32,   /* open, write, sync, rename of files */
    HAUL__FAULT_PINNED = 64, /* pinned host memory; callers work without it if this fails */
} haul__fault;

/* The kinds of calls that a plan counts; 0 if there is no plan. */
extern atomic_uint haul__fault_kinds;

/* True if haul__fault_point would count a call of this kind. */
static inline bool haul__fault_planned(haul__fault kind)
{
    return atomic_load_explicit(&haul__fault_kinds, memory_order_relaxed) & (unsigned)kind;
}

/* Returns true if this call must fail. Costs one relaxed load if no plan is set. */
bool haul__fault_counted(void);

static inline bool haul__fault_point(haul__fault kind)
{
    return __builtin_expect(haul__fault_planned(kind), 0) && haul__fault_counted();
}

/* For tests: makes the `nth` (from 1) following call of one of `kinds`, and no other, fail; 0 turns this off.
 * haul__fault_count returns how many calls were counted since the last plan. With nth INT64_MAX calls are counted and
 * none fails. */
void    haul__fault_plan(unsigned kinds, int64_t nth);
int64_t haul__fault_count(void);
/* Blocks that were allocated and not freed. haul__host_blocks (core/thread.h) adds the small blocks of threads. */
int64_t haul__counted_blocks(void);
/* Corrects the count for blocks that are kept but not live, or are live again. */
void haul__count_blocks(int delta);

#endif
