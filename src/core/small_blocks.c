/* Lists of freed small structures: those of each thread, and a heap of full lists that all threads share. */
#include "core/small_blocks.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/spin.h"
#include "core/thread.h"

_Static_assert(sizeof(haul__spare) <= HAUL__SMALL_STEP, "the smallest block has room");

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifdef HAUL_HOSTILE
enum { SPARE_BYTES = 1 }; /* a list keeps one block, so that all lists are full */
#elif !defined(NDEBUG) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(SANITIZED)
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
    return SPARE_BYTES == 1 ? 1 : (int)(SPARE_BYTES / block_bytes(class));
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
    HAUL__ASSERT(list->count > 0 && list->count <= capacity(class));
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
    HAUL__ASSERT(!haul__tls.memory->spare[class] && list->count > 0 && list->count <= capacity(class));
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

/* A block that would have been kept, had it not returned to malloc. */
static void *malloc_unwatched(size_t bytes)
{
    haul__alloc_watch *watch = haul__alloc_watch_now(), before = *watch;
    watch->refuses = false;
    void *p = haul__malloc(bytes);
    *watch = before;
    return p;
}

void *haul__small_alloc_slowly(size_t bytes)
{
    size_t class = haul__small_class(bytes);
    if (class >= HAUL__SMALL_CLASSES)
        return haul__malloc(bytes);
    if (!haul__tls.memory->spare[class] && !heap_take(class))
        return SPARE_BYTES ? haul__malloc(block_bytes(class)) : malloc_unwatched(block_bytes(class));
    if (haul__fault_point(HAUL__FAULT_HOST))
        return NULL;
    haul__thread_memory *memory = haul__tls.memory; /* of a registered thread, because others have no lists */
    haul__spare         *spare = memory->spare[class];
    memory->spare[class] = spare->next;
    memory->spare_room[class]++;
    haul__context_count_block(&haul__tls, 1);
    HAUL__ASSERT(memory->spare_room[class] <= capacity(class));
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
    HAUL__ASSERT(!haul__tls.memory->spare[class] && haul__tls.memory->spare_room[class] > 0);
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
