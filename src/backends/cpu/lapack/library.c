#include "backends/cpu/lapack/library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "backends/cpu/find.h"
#include "base/assert.h"
#include "base/system/fork.h"
#include "base/text/plain.h"
#include "haul_config.h"

#if !defined(HAUL_SMALL)
/* How many threads the library has. Functions that it does not have are NULL. */
typedef struct thread_settings {
    int (*openblas_get_num_threads)(void);
    void (*openblas_set_num_threads)(int);
    int (*flexiblas_get_num_threads)(void);
    void (*flexiblas_set_num_threads)(int);
    int (*omp_get_max_threads)(void);
    void (*omp_set_num_threads)(int);
    int (*MKL_Set_Num_Threads_Local)(int);
} thread_settings;

static pthread_once_t         once = PTHREAD_ONCE_INIT;
static haul__lapack_functions functions;
static thread_settings        threads;
static char                   reason[256]; /* empty: the library is there */
static char                   path[256];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int             users;           /* between enter and leave */
static int             openblas_before; /* the number of threads that the program had */
static int             flexiblas_before;

/* Other threads, which computed at the time of the fork, are not in the child. */
static void restore_in_child(void)
{
    if (users && threads.openblas_set_num_threads)
        threads.openblas_set_num_threads(openblas_before);
    if (users && threads.flexiblas_set_num_threads)
        threads.flexiblas_set_num_threads(flexiblas_before);
    users = 0;
}

HAUL__MUTEX_AND_CHILD_AT_FORK(HAUL__FORK_LAPACK, lock, restore_in_child);

/* ---- opening ---- */

static bool has_all(void *library)
{
    bool found = true;
#define X(name, arguments) found = found && haul__cpu_find(library, #name "_", &functions.name);
#include "backends/cpu/lapack/lapack.def"
#undef X
    return found;
}

static void *open_named(const char *name)
{
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        haul__snprintf(reason, sizeof reason, "HAUL_LAPACK is %.150s, which cannot be opened", name);
    else if (!has_all(library))
        haul__snprintf(reason, sizeof reason, "HAUL_LAPACK is %.150s, which has not dsyevd_ and dgesdd_", name);
    return library;
}

static void *open_usual(void)
{
    static const char *const names[] = {"libopenblas.so.0", "libflexiblas.so.3", "libmkl_rt.so.2", "liblapack.so.3"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        void *library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        if (library && has_all(library)) /* OpenBLAS may be built without LAPACK */
            return library;
    }
    haul__snprintf(reason, sizeof reason,
                   "found no LAPACK library (libopenblas.so.0, liblapack.so.3); install libopenblas0-pthread, or set "
                   "HAUL_LAPACK to its path");
    return NULL;
}

static void load(void)
{
    const char *own = getenv("HAUL_LAPACK");
    void       *library = own && *own ? open_named(own) : open_usual();
    Dl_info     info;
    if (*reason)
        return;
    haul__cpu_find(library, "openblas_get_num_threads", &threads.openblas_get_num_threads);
    haul__cpu_find(library, "openblas_set_num_threads", &threads.openblas_set_num_threads);
    haul__cpu_find(library, "flexiblas_get_num_threads", &threads.flexiblas_get_num_threads);
    haul__cpu_find(library, "flexiblas_set_num_threads", &threads.flexiblas_set_num_threads);
    haul__cpu_find(library, "omp_get_max_threads", &threads.omp_get_max_threads);
    haul__cpu_find(library, "omp_set_num_threads", &threads.omp_set_num_threads);
    haul__cpu_find(library, "MKL_Set_Num_Threads_Local", &threads.MKL_Set_Num_Threads_Local);
    void *function = dlsym(library, "dsyevd_");
    haul__snprintf(path, sizeof path, "%s", dladdr(function, &info) && info.dli_fname ? info.dli_fname : "LAPACK");
}

const haul__lapack_functions *haul__lapack(const char **why)
{
    pthread_once(&once, load);
    *why = reason;
    return *reason ? NULL : &functions;
}

const char *haul__lapack_path(void)
{
    const char *why;
    haul__lapack(&why);
    return path;
}

/* ---- threads ---- */

static int first_in(int (*get)(void), void (*set)(int))
{
    const int before = get && set ? get() : 1;
    if (before != 1)
        set(1);
    return before;
}

static void last_out(void (*set)(int), int before)
{
    if (before != 1)
        set(before);
}

void haul__lapack_enter(void)
{
    pthread_mutex_lock(&lock);
    if (users++ == 0) {
        openblas_before = first_in(threads.openblas_get_num_threads, threads.openblas_set_num_threads);
        flexiblas_before = first_in(threads.flexiblas_get_num_threads, threads.flexiblas_set_num_threads);
    }
    pthread_mutex_unlock(&lock);
}

void haul__lapack_leave(void)
{
    pthread_mutex_lock(&lock);
    HAUL__ASSERT(users > 0);
    if (--users == 0) {
        last_out(threads.openblas_set_num_threads, openblas_before);
        last_out(threads.flexiblas_set_num_threads, flexiblas_before);
    }
    pthread_mutex_unlock(&lock);
}

haul__lapack_threads haul__lapack_thread_enter(void)
{
    return (haul__lapack_threads){
        .openmp = first_in(threads.omp_get_max_threads, threads.omp_set_num_threads),
        .mkl = threads.MKL_Set_Num_Threads_Local ? threads.MKL_Set_Num_Threads_Local(1) : 0,
    };
}

void haul__lapack_thread_leave(haul__lapack_threads before)
{
    last_out(threads.omp_set_num_threads, before.openmp);
    if (threads.MKL_Set_Num_Threads_Local)
        threads.MKL_Set_Num_Threads_Local(before.mkl);
}
#endif
