/* What happens around a fork. The child has one thread, and a lock that another thread held at that moment would stay
 * taken there for ever. So locks that the library's own threads may hold are taken before the fork and given after it,
 * in the parent and in the child. */
#ifndef HAUL_BASE_SYSTEM_FORK_H
#define HAUL_BASE_SYSTEM_FORK_H

#include <pthread.h>
#include <stdbool.h>

/* Handlers take their locks in this order: one may take the locks of a later one while it holds its own. */
typedef enum haul__fork_order {
    HAUL__FORK_EVENTS,
    HAUL__FORK_PUBLISHING,
    HAUL__FORK_SENSORS,
    HAUL__FORK_MAPPINGS,
    HAUL__FORK_OPTIMIZERS,
    HAUL__FORK_DIVIDED,
    HAUL__FORK_GROUPS,
    HAUL__FORK_ONEDNN,
    HAUL__FORK_LAPACK,
    HAUL__FORK_RESIDENCY,
    HAUL__FORK_DERIVED,
    HAUL__FORK_REASONS,
    HAUL__FORK_FAILURES,
    HAUL__FORK_ALLOCATORS,
    HAUL__FORK_REPORTS,
    HAUL__FORK_GENERATORS,
    HAUL__FORK_LIFETIMES,
    HAUL__FORK_THREADS,
    HAUL__FORK_DEVICES,
    HAUL__FORK_POOL,
    HAUL__FORK_HANDLERS
} haul__fork_order;

/* Each function may be NULL. */
typedef struct haul__fork_handler {
    void (*take)(void);     /* before the fork */
    void (*give)(void);     /* after it, in the parent and in the child */
    void (*in_child)(void); /* then, in the child only */
} haul__fork_handler;

void haul__fork_register(haul__fork_order order, const haul__fork_handler *handler);

/* Registers a source file's handler when the library is loaded: HAUL__AT_FORK(HAUL__FORK_POOL, .in_child = forget) */
#define HAUL__AT_FORK(order, ...)                                                                                      \
    __attribute__((constructor)) static void register_fork_handler(void)                                               \
    {                                                                                                                  \
        static const haul__fork_handler handler = {__VA_ARGS__};                                                       \
        haul__fork_register(order, &handler);                                                                          \
    }                                                                                                                  \
    struct haul__fork_handler /* takes the semicolon */

/* The same for a file that has one mutex, with the functions that take and give it. The second form has a function for
 * the child, too. */
#define HAUL__MUTEX_AT_FORK(order, mutex) HAUL__MUTEX_AND_CHILD_AT_FORK(order, mutex, NULL)
#define HAUL__MUTEX_AND_CHILD_AT_FORK(order, mutex, child)                                                             \
    static void take_lock(void)                                                                                        \
    {                                                                                                                  \
        pthread_mutex_lock(&(mutex));                                                                                  \
    }                                                                                                                  \
    static void give_lock(void)                                                                                        \
    {                                                                                                                  \
        pthread_mutex_unlock(&(mutex));                                                                                \
    }                                                                                                                  \
    HAUL__AT_FORK(order, .take = take_lock, .give = give_lock, .in_child = child)

/* To be called before anything is done that a fork would break. False if memory is exhausted. */
bool haul__fork_watch(void);

/* The number of forks between the first use of the library and this process. Anything that began at a lower count
 * belongs to a parent process, as do the threads and locks in it. */
int haul__fork_count(void);

#endif
