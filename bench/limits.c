/* How fast the machine can go, measured without the library on one thread a core: the multiply-add peak, and copying,
 * adding, filling and reading vectors of 4 Mi and 16 Mi floats, with the fastest of plain stores, stores that bypass
 * the caches, and the processor's instruction for fills. The floats differ: some processors move lines of zeros at
 * twice the speed of others. Other programs' cases name these as their limits. */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "support/bench.h"
#include "support/limits.h"

enum { M = 1 << 20, MAX_THREADS = 64, HUGE_PAGE = 2 << 20, TRIALS = 6 };

typedef struct worker {
    pthread_t    thread;
    limit_kind   kind;
    float       *vectors[3];
    limit_stores stores;
    int64_t      count, times;
} worker;

static float     *vectors[3];
static worker     workers[MAX_THREADS];
static int        threads;
static atomic_int positive; /* what the loops find, so that no work can be left out */

static void free_vectors(void)
{
    for (int i = 0; i < 3; i++) {
        free(vectors[i]);
        vectors[i] = NULL;
    }
}

static bool make_vectors(int64_t count)
{
    size_t size = ((size_t)count * sizeof(float) + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    for (int i = 0; i < 3; i++) {
        vectors[i] = aligned_alloc(HUGE_PAGE, size);
        if (!vectors[i]) {
            free_vectors();
            return bench_out("out of memory");
        }
        madvise(vectors[i], size, MADV_HUGEPAGE);
        for (int64_t j = 0; j < count; j++)
            vectors[i][j] = (float)(j % 8191 + i);
    }
    return true;
}

static void *work(void *argument)
{
    worker *w = argument;
    for (int64_t i = 0; i < w->times; i++)
        if (limit_run(w->kind, w->stores, w->vectors[0], w->vectors[1], w->vectors[2], w->count) > 0)
            atomic_store_explicit(&positive, 1, memory_order_relaxed);
    return NULL;
}

static bool run_limit(const bench_case *c, int64_t times)
{
    int  started = 0;
    bool ok = true;
    (void)c;
    for (int i = 0; i < threads; i++)
        workers[i].times = times;
    while (ok && started < threads - 1) {
        ok = pthread_create(&workers[started].thread, NULL, work, &workers[started]) == 0;
        started += ok;
    }
    if (ok)
        work(&workers[threads - 1]);
    for (int i = 0; i < started; i++)
        pthread_join(workers[i].thread, NULL);
    return ok || bench_out("a thread could not be started");
}

static void use_stores(limit_stores stores)
{
    for (int i = 0; i < threads; i++)
        workers[i].stores = stores;
}

static bool choose_stores(const bench_case *c)
{
    double       seconds[LIMIT_STORES] = {INFINITY, INFINITY, INFINITY};
    limit_stores fastest = LIMIT_PLAIN;
    for (int i = 0; i < TRIALS * LIMIT_STORES; i++) {
        limit_stores stores = (limit_stores)(i / TRIALS); /* in turns they would empty each other's caches */
        use_stores(stores);
        double start = bench_seconds();
        if (!run_limit(c, 1))
            return false;
        seconds[stores] = fmin(seconds[stores], bench_seconds() - start);
        if (seconds[stores] < seconds[fastest])
            fastest = stores;
    }
    use_stores(fastest);
    return true;
}

/* The case's size is shared out in whole blocks. The stores are those that win the fastest of a few runs. */
static bool open_limit(const bench_case *c)
{
    limit_kind kind = *(const limit_kind *)c->context;
    long       cores = sysconf(_SC_NPROCESSORS_ONLN);
    int64_t    blocks = c->size / LIMIT_BLOCK;
    threads = cores < 1 ? 1 : cores > MAX_THREADS ? MAX_THREADS : (int)cores;
    if (kind != LIMIT_MULTIPLY_ADD && !make_vectors(blocks * LIMIT_BLOCK))
        return false;
    for (int i = 0; i < threads; i++) {
        int64_t from = blocks * i / threads * LIMIT_BLOCK, to = blocks * (i + 1) / threads * LIMIT_BLOCK;
        workers[i] = (worker){.kind = kind, .count = to - from};
        for (int v = 0; v < 3 && vectors[v]; v++)
            workers[i].vectors[v] = vectors[v] + from;
    }
    return kind == LIMIT_MULTIPLY_ADD || kind == LIMIT_READ || choose_stores(c);
}

/* A vector of so many Mi floats, less what does not fill a block. */
#define FLOATS(millions) ((millions)*M / LIMIT_BLOCK * LIMIT_BLOCK)
#define CASE(label, what, per, n, each)                                                                                \
    {                                                                                                                  \
        .name = label, .unit = per, .amount = (each)*1e-9 * (n), .open = open_limit, .run = run_limit,                 \
        .close = free_vectors, .size = n, .context = &(const limit_kind)                                               \
        {                                                                                                              \
            what                                                                                                       \
        }                                                                                                              \
    }
#define MEMORY(name, what, bytes)                                                                                      \
    CASE("limit " name ", 4 M", what, "GB/s", FLOATS(4), bytes),                                                       \
        CASE("limit " name ", 16 M", what, "GB/s", FLOATS(16), bytes)

static const bench_case cases[] = {
    CASE("limit multiply-add", LIMIT_MULTIPLY_ADD, "GF/s", LIMIT_BLOCK * 100000, 2),
    MEMORY("copy", LIMIT_COPY, 8),
    MEMORY("add", LIMIT_ADD, 12),
    MEMORY("fill", LIMIT_FILL, 4),
    MEMORY("read", LIMIT_READ, 4),
};

int main(int argc, char **argv)
{
    return bench_main(argc, argv, cases, (int)(sizeof cases / sizeof cases[0]));
}
