/* Host memory: malloc with a count of live blocks, and a hook where tests make calls fail. */
#include "base/alloc.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/assert.h"
#include "base/counter.h"
#include "base/text/plain.h"

/* ---- failures on demand ---- */

atomic_uint         haul__fault_kinds;
static atomic_llong planned_call;
static atomic_llong calls;

bool haul__fault_counted(void)
{
    return atomic_fetch_add(&calls, 1) + 1 == atomic_load(&planned_call);
}

void haul__fault_plan(unsigned kinds, int64_t nth)
{
    atomic_store(&haul__fault_kinds, 0);
    if (nth <= 0)
        return;
    atomic_store(&calls, 0);
    atomic_store(&planned_call, nth);
    atomic_store(&haul__fault_kinds, kinds);
}

int64_t haul__fault_count(void)
{
    return atomic_load(&calls);
}

/* ---- what a thread asks for ---- */

static _Thread_local haul__alloc_watch watch;

haul__alloc_watch *haul__alloc_watch_now(void)
{
    return &watch;
}

/* True if the call must fail. */
static bool is_refused(size_t bytes)
{
    watch.count++;
    if (haul__fault_point(HAUL__FAULT_HOST))
        return true;
    if (__builtin_expect(!watch.refuses, 1))
        return false;
    watch.bytes = watch.refused++ ? watch.bytes : bytes;
    return true;
}

/* ---- counted blocks ---- */

static atomic_ullong blocks;

void haul__count_blocks(int delta)
{
    haul__add_long(&blocks, (unsigned long long)delta);
}

int64_t haul__counted_blocks(void)
{
    return (int64_t)atomic_load_explicit(&blocks, memory_order_relaxed);
}

void *haul__malloc(size_t bytes)
{
    if (is_refused(bytes) || bytes > PTRDIFF_MAX)
        return NULL;
    void *p = malloc(bytes ? bytes : 1);
    if (p)
        haul__count_blocks(1);
    return p;
}

void haul__prefer_huge_pages(void *memory, size_t bytes)
{
    enum { PAGE = 4096 };
    const size_t before = (PAGE - (uintptr_t)memory % PAGE) % PAGE;
    if (bytes >= HAUL__HUGE_PAGES_FROM)
        madvise((char *)memory + before, (bytes - before) / PAGE * PAGE, MADV_HUGEPAGE);
}

void *haul__malloc_large(size_t bytes)
{
    void *p = haul__malloc(bytes);
    if (p)
        haul__prefer_huge_pages(p, bytes);
    return p;
}

void *haul__calloc(size_t items, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(items, size, &bytes) || is_refused(bytes) || bytes > PTRDIFF_MAX)
        return NULL;
    void *p = bytes ? calloc(items, size) : calloc(1, 1);
    if (p)
        haul__count_blocks(1);
    return p;
}

void *haul__realloc(void *old, size_t items, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(items, size, &bytes) || is_refused(bytes) || bytes > PTRDIFF_MAX)
        return NULL;
    void *p = realloc(old, bytes ? bytes : 1);
    if (p && !old)
        haul__count_blocks(1);
    return p;
}

void haul__free(void *p)
{
    if (!p)
        return;
    HAUL__ASSERT(haul__counted_blocks() > 0);
    haul__count_blocks(-1);
    free(p);
}

char *haul__strdup(const char *text)
{
    size_t bytes = strlen(text) + 1;
    char  *copy = haul__malloc(bytes);
    if (copy)
        memcpy(copy, text, bytes);
    return copy;
}

char *haul__format(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = haul__vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (length < 0)
        return NULL;
    char *text = haul__malloc((size_t)length + 1);
    if (!text)
        return NULL;
    va_start(arguments, format);
    const int written = haul__vsnprintf(text, (size_t)length + 1, format, arguments);
    va_end(arguments);
    HAUL__ASSERT(written == length);
    return text;
}

bool haul__grow(void *items, size_t *capacity, size_t wanted, size_t element_size)
{
    HAUL__ASSERT(element_size > 0);
    if (wanted <= *capacity)
        return true;
    size_t room = *capacity > SIZE_MAX / 2 ? wanted : *capacity * 2;
    if (room < wanted)
        room = wanted;
    if (room < 8)
        room = 8;
    void *old; /* items points to a pointer whose type is unknown here */
    memcpy(&old, items, sizeof old);
    HAUL__ASSERT(old || *capacity == 0);
    void *grown = haul__realloc(old, room, element_size);
    if (!grown)
        return false;
    memcpy(items, &grown, sizeof grown);
    *capacity = room;
    return true;
}
