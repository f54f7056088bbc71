/* Host memory: malloc with a count of live blocks, a place where tests make calls fail, and lists of freed small
 * structures, one set a thread. */
#include "core/alloc.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/spin.h"
#include "core/thread.h"

/* --- failures on demand --- */

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

/* --- counted blocks --- */

static inline void count_here(haul__context *context, int delta)
{
    long long blocks = atomic_load_explicit(&context->blocks, memory_order_relaxed);
    atomic_store_explicit(&context->blocks, blocks + delta, memory_order_relaxed);
}

void haul__count_blocks(int delta)
{
    haul__context *context = haul__context_get();
    if (context)
        count_here(context, delta);
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
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (length < 0)
        return NULL;
    char *text = haul__malloc((size_t)length + 1);
    if (!text)
        return NULL;
    va_start(arguments, format);
    vsnprintf(text, (size_t)length + 1, format, arguments);
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
    void *old; /* items points to a pointer of a type we do not know */
    memcpy(&old, items, sizeof old);
    void *grown = haul__realloc(old, room, element_size);
    if (!grown)
        return false;
    memcpy(items, &grown, sizeof grown);
    *capacity = room;
    return true;
}

/* --- small structures --- */

/* A freed block. The first of a full list has that list's place in the heap of lists, too. */
struct haul__spare {
    char         head[HAUL__SMALL_HEAD];
    haul__spare *next;
    haul__spare *next_list;
    int          count;
};
_Static_assert(sizeof(haul__spare) <= HAUL__SMALL_STEP, "the smallest block has room");

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define SANITIZED 1
#endif
#endif
#if !defined(NDEBUG) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(SANITIZED)
enum { SPARE_BYTES = 0 }; /* each freed block goes back at once, so that later uses of it are seen */
#else
enum { SPARE_BYTES = 256 << 10 }; /* of a size and thread: a scope with a thousand tensors frees as much together */
#endif

static size_t small_class(size_t bytes)
{
    return bytes ? (bytes - 1) / HAUL__SMALL_STEP : 0;
}

bool haul__small_blocks_wait(void)
{
    return SPARE_BYTES != 0;
}

/* Lists that no thread has. */
static struct {
    atomic_bool            lock;
    _Atomic(haul__spare *) lists[HAUL__SMALL_CLASSES];
} heap;

static void heap_put(haul__context *context, size_t class)
{
    haul__spare *list = context->spare[class];
    if (!list)
        return;
    list->count = context->spare_count[class];
    context->spare[class] = NULL;
    context->spare_count[class] = 0;
    haul__spin_lock(&heap.lock);
    list->next_list = atomic_load_explicit(&heap.lists[class], memory_order_relaxed);
    atomic_store_explicit(&heap.lists[class], list, memory_order_relaxed);
    haul__spin_unlock(&heap.lock);
}

static bool heap_take(haul__context *context, size_t class)
{
    if (!atomic_load_explicit(&heap.lists[class], memory_order_relaxed) || !haul__context_get())
        return false;
    haul__spin_lock(&heap.lock);
    haul__spare *list = atomic_load_explicit(&heap.lists[class], memory_order_relaxed);
    if (list)
        atomic_store_explicit(&heap.lists[class], list->next_list, memory_order_relaxed);
    haul__spin_unlock(&heap.lock);
    context->spare[class] = list;
    context->spare_count[class] = list ? list->count : 0;
    return list != NULL;
}

void haul__small_before_fork(void)
{
    haul__spin_lock(&heap.lock);
}

void haul__small_after_fork(void)
{
    haul__spin_unlock(&heap.lock);
}

/* A block of a class of which the thread has none. */
__attribute__((noinline)) static void *alloc_slowly(size_t class)
{
    return heap_take(&haul__tls, class) ? haul__small_alloc((class + 1) * HAUL__SMALL_STEP)
                                        : haul__malloc((class + 1) * HAUL__SMALL_STEP);
}

void *haul__small_alloc(size_t bytes)
{
    size_t class = small_class(bytes);
    haul__context *context = &haul__tls; /* a list with something in it belongs to a registered context */
    if (class >= HAUL__SMALL_CLASSES)
        return haul__malloc(bytes);
    haul__spare *spare = context->spare[class];
    if (!spare)
        return alloc_slowly(class);
    if (haul__fault_point(HAUL__FAULT_HOST))
        return NULL;
    context->spare[class] = spare->next;
    context->spare_count[class]--;
    count_here(context, 1);
    return spare;
}

static bool has_room(const haul__context *context, size_t class)
{
    return ((size_t)context->spare_count[class] + 1) * (class + 1) * HAUL__SMALL_STEP <= SPARE_BYTES;
}

/* The thread has no list for it, or the list is full. */
__attribute__((noinline)) static void free_slowly(void *p, size_t bytes)
{
    size_t class = small_class(bytes);
    if (SPARE_BYTES == 0 || class >= HAUL__SMALL_CLASSES || !haul__context_get()) {
        haul__free(p);
        return;
    }
    heap_put(&haul__tls, class);
    haul__small_free(p, bytes);
}

void haul__small_free(void *p, size_t bytes)
{
    size_t class = small_class(bytes);
    haul__context *context = &haul__tls;
    haul__spare   *spare = p;
    if (!p)
        return;
    if (class >= HAUL__SMALL_CLASSES || !context->registered || !has_room(context, class)) {
        free_slowly(p, bytes);
        return;
    }
    spare->next = context->spare[class];
    context->spare[class] = spare;
    context->spare_count[class]++;
    count_here(context, -1);
}

void haul__small_release_all(void)
{
    for (size_t class = 0; class < HAUL__SMALL_CLASSES; class ++)
        heap_put(&haul__tls, class);
}
