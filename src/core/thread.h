/* What the library keeps for each thread: settings, open scopes, the last error, and freed structures for reuse.
 *
 * The context is static thread-local memory, so reaching it costs one instruction. A process has little of this memory
 * for libraries that it loads late (1,664 bytes with glibc), so large parts are in memory that the thread allocates
 * when it registers. What the context points to is freed when the thread ends. */
#ifndef HAUL_CORE_THREAD_H
#define HAUL_CORE_THREAD_H

#include "core/error.h"
#include "core/object.h"
#include "core/small_blocks.h"

/* The memory of a registered thread. */
typedef struct haul__thread_memory {
    haul__spare       *spare[HAUL__SMALL_CLASSES];
    int                spare_room[HAUL__SMALL_CLASSES]; /* how many more blocks each list takes; 0 without a list */
    int64_t            counts[9];                       /* of a layer above (src/events) */
    haul__error_record error;
} haul__thread_memory;

/* Of threads that are not registered, all zeros: there is nothing to reuse, and no error. */
extern const haul__thread_memory haul__no_thread_memory;

/* A function of the program that the library has called and that has not returned (core/guest.h). */
typedef struct haul__guest {
    int         floor;      /* how many scopes were open when it was called: it may not close them; 0: none runs */
    const void *frame;      /* the end of the stack of the library function that called it */
    bool        trespassed; /* it tried to close one of them */
} haul__guest;

typedef struct haul__context haul__context;
struct haul__context {
    haul__thread_state state;
    haul_scope        *innermost;
    haul__link        *doomed;     /* objects waiting to be destroyed */
    bool               destroying; /* they are being destroyed by a caller further up the stack */
    bool               keeps;      /* some objects in `kept` are present */
    haul__guest        guest;
    haul_status        outcome;              /* what haul_scope_pop will return */
    void              *kept[HAUL__SETTINGS]; /* objects, by haul__thread_keep */

    bool                 registered;
    haul_status          bare;      /* of an error that was recorded without memory for its texts */
    bool                 bare_read; /* its message was asked for */
    atomic_llong         blocks; /* small blocks taken from this thread's lists, less those put there; only it writes */
    haul__thread_memory *memory; /* haul__no_thread_memory, which is never written, unless the thread is registered */
    haul__context       *next, *prev; /* of all threads */
    void                *scratch;     /* the block of haul__scratch */
    size_t               scratch_bytes;

    atomic_uint watch;     /* bits of a layer above (src/events): the union of the thread's own and all threads' */
    unsigned    own_watch; /* the thread's own bits; guarded by the list's lock */
    void       *attached;  /* an object of that layer, released when the thread ends */
};

/* The word of a thread that is not registered yet, and of all threads until the layer above sets it: whoever tests the
 * word finds its bit set and asks that layer. */
#define HAUL__WATCH_UNKNOWN (~0u)

/* Not in debug builds, because sanitizers test whether the address is NULL: when ld relaxes initial-exec TLS access to
 * local-exec it replaces an `add` by a `lea`, and loses the flags that gcc's NULL test uses. */
#ifdef NDEBUG
#define HAUL__TLS_MODEL __attribute__((tls_model("initial-exec")))
#else
#define HAUL__TLS_MODEL
#endif
extern _Thread_local haul__context haul__tls HAUL__TLS_MODEL;

bool haul__context_register(void);

/* Sets one part of the words: the part for all threads, including those that register later, or the part of the calling
 * thread. */
void haul__watch_everywhere(unsigned bits);
void haul__watch_here(unsigned bits);

/* The calling thread's context, which is cleaned up when the thread ends. NULL if that cannot be arranged; then nothing
 * may be stored in it. */
static inline haul__context *haul__context_get(void)
{
    return haul__tls.registered || haul__context_register() ? &haul__tls : NULL;
}

/* Scratch memory of the calling thread, for a function that calls nothing else that uses it; for buffers that are too
 * large for a small stack. Aligned for vectors, not cleared, and kept by the thread. Returns NULL, without recording an
 * error, if memory is exhausted. */
void *haul__scratch(size_t bytes);

/* The calling thread's settings. */
static inline haul__thread_state *haul__thread(void)
{
    return &haul__tls.state;
}

/* The setting HAUL__DRY_RUN: on this thread nothing is computed, allocated or moved. In a dry run it is only counted
 * (memory/dry_run/dry_run.h), and a followed step is compared with its recording (engine/follow.h). Both are trials:
 * what a trial changes in objects that existed before can be taken back. */
#define HAUL__DRY          1u
#define HAUL__DRY_WITHIN   2u  /* inside `compute` of an operation that is already counted */
#define HAUL__DRY_RECORDED 4u  /* the dry run becomes a recording */
#define HAUL__FOLLOWED     8u  /* alone */
#define HAUL__FOLLOW_MAKES 16u /* alone: a followed step allocates memory that it will need */
#define HAUL__COLLECTS     32u /* alone: launches are put into a list (engine/collect.h) */

static inline bool haul__is_trial(void)
{
    return __builtin_expect(haul__tls.state.words[HAUL__DRY_RUN] != 0, 0);
}

static inline bool haul__is_dry(void)
{
    return __builtin_expect(haul__tls.state.words[HAUL__DRY_RUN] & HAUL__DRY, 0);
}

static inline bool haul__is_recorded(void)
{
    return __builtin_expect(haul__tls.state.words[HAUL__DRY_RUN] & HAUL__DRY_RECORDED, 0);
}

static inline bool haul__is_followed(void)
{
    return __builtin_expect(haul__tls.state.words[HAUL__DRY_RUN] & HAUL__FOLLOWED, 0);
}

static inline void haul__context_count_block(haul__context *context, int delta)
{
    long long blocks = atomic_load_explicit(&context->blocks, memory_order_relaxed);
    atomic_store_explicit(&context->blocks, blocks + delta, memory_order_relaxed);
}

/* For a constant size of at most HAUL__SMALL_CLASSES * HAUL__SMALL_STEP: a free block of the thread's list; NULL if
 * there is none, or if a test plans failures. */
static inline void *haul__small_reuse(size_t bytes)
{
    size_t class = haul__small_class(bytes);
    haul__thread_memory *memory = haul__tls.memory;
    haul__spare         *spare = memory->spare[class];
    if (__builtin_expect(!spare || haul__fault_planned(HAUL__FAULT_HOST), 0))
        return NULL;
    memory->spare[class] = spare->next;
    memory->spare_room[class]++;
    haul__context_count_block(&haul__tls, 1);
    return spare;
}

/* Inlined forms of haul__small_alloc and haul__small_free, for a size of this kind. */
static inline void *haul__small_take(size_t bytes)
{
    void *p = haul__small_reuse(bytes);
    return p ? p : haul__small_alloc_slowly(bytes);
}

static inline void haul__small_give(void *p, size_t bytes)
{
    size_t class = haul__small_class(bytes);
    haul__thread_memory *memory = haul__tls.memory;
    haul__spare         *spare = p;
    if (__builtin_expect(!memory->spare_room[class], 0)) {
        haul__small_free_slowly(p, bytes);
        return;
    }
    spare->next = memory->spare[class];
    memory->spare[class] = spare;
    memory->spare_room[class]--;
    haul__context_count_block(&haul__tls, -1);
}

/* Call this after the context's state was restored: releases objects that were kept for settings that are now off. */
void               haul__context_release_kept(haul__context *context);
static inline void haul__context_settle(haul__context *context)
{
    if (context->keeps)
        haul__context_release_kept(context);
}

/* Live blocks of haul__malloc and of haul__small_alloc, of all threads, for leak tests. */
int64_t haul__host_blocks(void);

void haul__scope_pop_all(void); /* of the calling thread, including what it held outside scopes */

#endif
