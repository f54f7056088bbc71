/* The list of all threads that use the library, and what happens when one of them ends.
 *
 * The list makes it possible to count live blocks without a counter that all threads contend for, and it gives each
 * thread its own word with the kinds of events that have subscribers. */
#include "core/thread.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/system/fork.h"

const haul__thread_memory haul__no_thread_memory;
#define NO_MEMORY ((haul__thread_memory *)&haul__no_thread_memory)

_Thread_local haul__context haul__tls = {.watch = HAUL__WATCH_UNKNOWN, .memory = NO_MEMORY};

static pthread_once_t  once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_key_t   key;
static bool            have_key;
static haul__context  *contexts;
static atomic_llong    strays; /* of threads that have ended */
static unsigned        watched_everywhere = HAUL__WATCH_UNKNOWN;

static void add_strays(haul__context *context)
{
    atomic_fetch_add_explicit(&strays, atomic_load_explicit(&context->blocks, memory_order_relaxed),
                              memory_order_relaxed);
}

/* Runs at the end of a thread. Destructors that run after this one may use the library: the context then registers
 * again, and this runs again. */
static void thread_ends(void *p)
{
    haul__context *context = p;
    haul__scope_pop_all();
    HAUL__ASSERT(context == &haul__tls && context->registered && !context->innermost);
    memset(context->state.words, 0, sizeof context->state.words);
    haul__context_settle(context);
    HAUL__ASSERT(!context->keeps && !context->doomed); /* no setting is on that would keep an object */
    haul__object_release(context->attached);
    context->attached = NULL;
    haul__small_release_all();
    free(context->scratch);
    context->scratch = NULL;
    context->scratch_bytes = 0;
    pthread_mutex_lock(&lock);
    HAUL__ASSERT(context->prev ? context->prev->next == context : contexts == context);
    if (context->prev)
        context->prev->next = context->next;
    else
        contexts = context->next;
    if (context->next)
        context->next->prev = context->prev;
    add_strays(context);
    context->own_watch = 0;
    pthread_mutex_unlock(&lock);
    free(context->memory);
    context->memory = NO_MEMORY;
    atomic_store_explicit(&context->watch, HAUL__WATCH_UNKNOWN, memory_order_relaxed);
    atomic_store_explicit(&context->blocks, 0, memory_order_relaxed);
    context->registered = false;
}

static void take_locks(void)
{
    pthread_mutex_lock(&lock);
    haul__small_before_fork();
}

static void give_locks(void)
{
    haul__small_after_fork();
    pthread_mutex_unlock(&lock);
}

/* After a fork only the calling thread exists in the child. */
static void forget_others(void)
{
    for (haul__context *c = contexts; c; c = c->next)
        if (c != &haul__tls)
            add_strays(c);
    contexts = haul__tls.registered ? &haul__tls : NULL;
    haul__tls.next = haul__tls.prev = NULL;
}

HAUL__AT_FORK(HAUL__FORK_THREADS, .take = take_locks, .give = give_locks, .in_child = forget_others);

static void start(void)
{
    have_key = pthread_key_create(&key, thread_ends) == 0;
    if (have_key && !haul__fork_watch()) {
        pthread_key_delete(key);
        have_key = false;
    }
}

/* The caller holds the lock. */
static void update_watch(haul__context *context)
{
    atomic_store_explicit(&context->watch, watched_everywhere | context->own_watch, memory_order_relaxed);
}

void haul__watch_everywhere(unsigned bits)
{
    pthread_mutex_lock(&lock);
    watched_everywhere = bits;
    for (haul__context *c = contexts; c; c = c->next)
        update_watch(c);
    pthread_mutex_unlock(&lock);
}

void haul__watch_here(unsigned bits)
{
    haul__context *context = haul__context_get();
    if (!context)
        return;
    pthread_mutex_lock(&lock);
    context->own_watch = bits;
    update_watch(context);
    pthread_mutex_unlock(&lock);
}

bool haul__context_register(void)
{
    haul__context *context = &haul__tls;
    pthread_once(&once, start);
    HAUL__ASSERT(!context->registered && context->memory == NO_MEMORY);
    haul__thread_memory *memory = have_key && !haul__fault_point(HAUL__FAULT_HOST) ? calloc(1, sizeof *memory) : NULL;
    if (!memory || pthread_setspecific(key, context) != 0) {
        free(memory);
        return false;
    }
    context->memory = memory;
    pthread_mutex_lock(&lock);
    context->prev = NULL;
    context->next = contexts;
    if (contexts)
        contexts->prev = context;
    contexts = context;
    update_watch(context);
    pthread_mutex_unlock(&lock);
    context->registered = true;
    return true;
}

/* The thread owns this block, not an operation, so it does not count among the blocks that leak tests check. */
void *haul__scratch(size_t bytes)
{
    enum { ALIGNMENT = 64 };
    haul__context *context = haul__context_get();
    if (!context)
        return NULL;
    HAUL__ASSERT(!context->scratch == !context->scratch_bytes);
    if (context->scratch_bytes < bytes) {
        size_t rounded = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        free(context->scratch);
        context->scratch =
            rounded >= bytes && !haul__fault_point(HAUL__FAULT_HOST) ? aligned_alloc(ALIGNMENT, rounded) : NULL;
        context->scratch_bytes = context->scratch ? rounded : 0;
    }
    HAUL__ASSERT(!context->scratch || context->scratch_bytes >= bytes);
    return context->scratch;
}

int64_t haul__host_blocks(void)
{
    pthread_mutex_lock(&lock);
    int64_t sum = haul__counted_blocks() + atomic_load_explicit(&strays, memory_order_relaxed);
    for (haul__context *c = contexts; c; c = c->next)
        sum += atomic_load_explicit(&c->blocks, memory_order_relaxed);
    pthread_mutex_unlock(&lock);
    return sum;
}

/* ---- objects kept with a setting ---- */

void haul__context_release_kept(haul__context *context)
{
    void *over[HAUL__SETTINGS] = {NULL};
    context->keeps = false;
    for (int i = 0; i < HAUL__SETTINGS; i++) {
        if (context->kept[i] && context->state.words[i]) {
            context->keeps = true;
        } else {
            over[i] = context->kept[i];
            context->kept[i] = NULL;
        }
    }
    for (int i = 0; i < HAUL__SETTINGS; i++) /* destructors may open scopes */
        haul__object_release(over[i]);
}

bool haul__thread_keep(haul__setting setting, void *object)
{
    haul__context *context = haul__context_get();
    if (!context)
        return false;
    void *before = context->kept[setting];
    context->kept[setting] = object;
    context->keeps = true;
    haul__object_release(before);
    return true;
}

void *haul__thread_exchange(haul__setting setting, void *object)
{
    haul__context *context = &haul__tls;
    void          *before = context->kept[setting];
    context->kept[setting] = object;
    context->keeps = context->keeps || object;
    return before;
}

void *haul__thread_kept(haul__setting setting)
{
    return haul__tls.kept[setting];
}

void haul__thread_settle(void)
{
    haul__context_settle(&haul__tls);
}
