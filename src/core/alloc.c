/* Host memory: malloc with a count of live blocks, a hook where tests make calls fail, and per-thread lists of freed
 * small structures. */
#include "core/alloc.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/plain.h"
#include "core/spin.h"
#include "core/thread.h"

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

/* ---- counted blocks ---- */

void haul__count_blocks(int delta)
{
    haul__context *context = haul__context_get();
    if (context)
        haul__context_count_block(context, delta);
    else
        haul__context_count_stray(delta);
}

int64_t haul__host_blocks(void)
{
    return haul__context_blocks();
}

void *haul__malloc(size_t bytes)
{
    if (haul__fault_point(HAUL__FAULT_HOST) || bytes > PTRDIFF_MAX)
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
    if (haul__fault_point(HAUL__FAULT_HOST) || __builtin_mul_overflow(items, size, &bytes) || bytes > PTRDIFF_MAX)
        return NULL;
    void *p = bytes ? calloc(items, size) : calloc(1, 1);
    if (p)
        haul__count_blocks(1);
    return p;
}

void *haul__realloc(void *old, size_t items, size_t size)
{
    size_t bytes;
    if (haul__fault_point(HAUL__FAULT_HOST) || __builtin_mul_overflow(items, size, &bytes) || bytes > PTRDIFF_MAX)
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
    haul__vsnprintf(text, (size_t)length + 1, format, arguments);
    va_end(arguments);
    return text;
}

bool haul__grow(void *items, size_t *capacity, size_t wanted, size_t element_size)
{
    if (wanted <= *capacity)
        return true;
    size_t room = *capacity > SIZE_MAX / 2 ? wanted : *capacity * 2;
    if (room < wanted)
        room = wanted;
    if (room < 8)
        room = 8;
    void *old; /* items points to a pointer whose type is unknown here */
    memcpy(&old, items, sizeof old);
    void *grown = haul__realloc(old, room, element_size);
    if (!grown)
        return false;
    memcpy(items, &grown, sizeof grown);
    *capacity = room;
    return true;
}

/* ---- small structures ---- */

_Static_assert(sizeof(haul__spare) <= HAUL__SMALL_STEP, "the smallest block has room");

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define SANITIZED 1
#endif
#endif
#if !defined(NDEBUG) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(SANITIZED)
enum { SPARE_BYTES = 0 }; /* each freed block returns to malloc at once, so that later uses of it are detected */
#else
enum { SPARE_BYTES = 256 << 10 }; /* per size and thread: a scope with a thousand tensors frees that many at once */
#endif

/* The size of the blocks of a class, and how many of them a list has at most. */
static size_t block_bytes(size_t class)
{
    return (class + 1) * HAUL__SMALL_STEP;
}

static int capacity(size_t class)
{
    return (int)(SPARE_BYTES / block_bytes(class));
}

bool haul__small_blocks_wait(void)
{
    return SPARE_BYTES != 0;
}

/* Lists that no thread owns. */
static struct {
    atomic_bool            lock;
    _Atomic(haul__spare *) lists[HAUL__SMALL_CLASSES];
} heap;

/* Leaves the thread without a list of the class. */
static void heap_put(haul__thread_memory *memory, size_t class)
{
    haul__spare *list = memory->spare[class];
    if (!list) {
        memory->spare_room[class] = 0;
        return;
    }
    list->count = capacity(class) - memory->spare_room[class];
    memory->spare[class] = NULL;
    memory->spare_room[class] = 0;
    haul__spin_lock(&heap.lock);
    list->next_list = atomic_load_explicit(&heap.lists[class], memory_order_relaxed);
    atomic_store_explicit(&heap.lists[class], list, memory_order_relaxed);
    haul__spin_unlock(&heap.lock);
}

static bool heap_take(size_t class)
{
    if (!atomic_load_explicit(&heap.lists[class], memory_order_relaxed) || !haul__context_get())
        return false;
    haul__spin_lock(&heap.lock);
    haul__spare *list = atomic_load_explicit(&heap.lists[class], memory_order_relaxed);
    if (list)
        atomic_store_explicit(&heap.lists[class], list->next_list, memory_order_relaxed);
    haul__spin_unlock(&heap.lock);
    if (!list)
        return false;
    haul__tls.memory->spare[class] = list;
    haul__tls.memory->spare_room[class] = capacity(class) - list->count;
    return true;
}

void haul__small_before_fork(void)
{
    haul__spin_lock(&heap.lock);
}

void haul__small_after_fork(void)
{
    haul__spin_unlock(&heap.lock);
}

void *haul__small_alloc_slowly(size_t bytes)
{
    size_t class = haul__small_class(bytes);
    if (class >= HAUL__SMALL_CLASSES)
        return haul__malloc(bytes);
    if (!haul__tls.memory->spare[class] && !heap_take(class))
        return haul__malloc(block_bytes(class));
    if (haul__fault_point(HAUL__FAULT_HOST))
        return NULL;
    haul__thread_memory *memory = haul__tls.memory; /* of a registered thread, because others have no lists */
    haul__spare         *spare = memory->spare[class];
    memory->spare[class] = spare->next;
    memory->spare_room[class]++;
    haul__context_count_block(&haul__tls, 1);
    return spare;
}

/* The thread has no list for this size, or its list is full. */
void haul__small_free_slowly(void *p, size_t bytes)
{
    size_t class = haul__small_class(bytes);
    if (SPARE_BYTES == 0 || class >= HAUL__SMALL_CLASSES || !haul__context_get()) {
        haul__free(p);
        return;
    }
    heap_put(haul__tls.memory, class);
    haul__tls.memory->spare_room[class] = capacity(class);
    haul__small_give(p, bytes);
}

void *haul__small_alloc(size_t bytes)
{
    return haul__small_class(bytes) < HAUL__SMALL_CLASSES ? haul__small_take(bytes) : haul__malloc(bytes);
}

void haul__small_free(void *p, size_t bytes)
{
    if (!p)
        return;
    if (haul__small_class(bytes) < HAUL__SMALL_CLASSES)
        haul__small_give(p, bytes);
    else
        haul__free(p);
}

void haul__small_release_all(void)
{
    for (size_t class = 0; class < HAUL__SMALL_CLASSES; class ++)
        heap_put(haul__tls.memory, class);
}
