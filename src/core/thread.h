/* What the library keeps for each thread: settings, open scopes, freed structures for reuse.
 *
 * It lies in static thread-local memory, so that reaching it costs one instruction; what hangs from it is given back
 * when the thread ends. */
#ifndef HAUL_CORE_THREAD_H
#define HAUL_CORE_THREAD_H

#include "core/object.h"

/* Sizes for haul__small_alloc: multiples of HAUL__SMALL_STEP bytes up to HAUL__SMALL_CLASSES of them. */
#define HAUL__SMALL_STEP    64
#define HAUL__SMALL_CLASSES 16

typedef struct haul__spare haul__spare;

typedef struct haul__context haul__context;
struct haul__context {
    haul__thread_state state;
    haul_scope        *innermost;
    haul__link        *doomed;               /* objects waiting to be destroyed */
    bool               destroying;           /* they are being destroyed further up the stack */
    bool               keeps;                /* some of `kept` are there */
    void              *kept[HAUL__SETTINGS]; /* objects, by haul__thread_keep */

    bool           registered;
    atomic_llong   blocks; /* allocated minus freed by this thread; written by this thread only */
    haul__spare   *spare[HAUL__SMALL_CLASSES];
    int            spare_count[HAUL__SMALL_CLASSES];
    haul__context *next, *prev; /* all threads' */
    void          *scratch;     /* haul__scratch's */
    size_t         scratch_bytes;

    atomic_uint watch; /* bits of a layer above (src/events), the union of two parts: the thread's own, all threads' */
    unsigned    own_watch; /* the thread's own; the list's lock guards it */
    void       *attached;  /* an object of that layer, released when the thread ends */
};

/* The word of a thread that is not registered yet, and of all threads before the layer above says what it wants:
 * whoever tests it finds its bit and asks that layer. */
#define HAUL__WATCH_UNKNOWN (~0u)

/* Not in debug builds, because sanitizers ask whether the address is NULL: ld, where it turns initial-exec access into
 * local, replaces an add by a lea, which loses the flags that gcc's question relies on. */
#ifdef NDEBUG
#define HAUL__TLS_MODEL __attribute__((tls_model("initial-exec")))
#else
#define HAUL__TLS_MODEL
#endif
extern _Thread_local haul__context haul__tls HAUL__TLS_MODEL;

bool haul__context_register(void);

/* How many forks there were between the first use of the library and this process. What was begun at a lower count
 * belongs to a parent, and so do the threads and locks in it. */
int haul__fork_count(void);

/* Set a part of the words: that of all threads, of those too that register later, or that of the calling thread. */
void haul__watch_everywhere(unsigned bits);
void haul__watch_here(unsigned bits);

/* The calling thread's context, to be cleaned up when the thread ends. NULL if that cannot be arranged: then nothing
 * may be left in it. */
static inline haul__context *haul__context_get(void)
{
    return haul__tls.registered || haul__context_register() ? &haul__tls : NULL;
}

/* Memory of the calling thread's for the length of a function that calls nothing which wants it, too: what would be too
 * large for a small stack. Aligned for vectors; not cleared. It stays with the thread. NULL, with nothing recorded,
 * when memory is exhausted. */
void *haul__scratch(size_t bytes);

/* The calling thread's settings. */
static inline haul__thread_state *haul__thread(void)
{
    return &haul__tls.state;
}

/* The setting HAUL__DRY_RUN: nothing is computed, allocated or moved on this thread, but counted (memory/dry_run.h). */
#define HAUL__DRY        1u
#define HAUL__DRY_WITHIN 2u /* within `compute` of an operation that is counted already */

static inline bool haul__is_dry(void)
{
    return __builtin_expect(haul__tls.state.words[HAUL__DRY_RUN] != 0, 0);
}

/* To be called when the context's state was set back: gives up what was kept for settings that are over. */
void               haul__context_release_kept(haul__context *context);
static inline void haul__context_settle(haul__context *context)
{
    if (context->keeps)
        haul__context_release_kept(context);
}

/* Sum of `blocks` over all threads, those that have ended included. */
int64_t haul__context_blocks(void);
/* Count for a thread without a context. */
void haul__context_count_stray(int delta);

void haul__scope_pop_all(void);     /* of the calling thread, and what it held without a scope */
void haul__small_release_all(void); /* of the calling thread */
/* The lists that all threads share are held while the process forks. */
void haul__small_before_fork(void);
void haul__small_after_fork(void);

#endif
