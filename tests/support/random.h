/* Random problems for tests: the same ones in each run. For a test program's one source file. */
#ifndef HAUL_TESTS_RANDOM_H
#define HAUL_TESTS_RANDOM_H

#include <stdint.h>
#include <stdlib.h>

static uint64_t random_state = 12345;

/* A number of [0, n). */
static inline int64_t below(int64_t n)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((random_state >> 33) % (uint64_t)n);
}

/* Of n random problems as many as a test checks: with sanitizers, which are slow, a fifth. */
static inline int some_of(int n)
{
    const char *sanitizers = getenv("HAUL_SANITIZE");
    return sanitizers && *sanitizers ? n / 5 : n;
}

#endif
