/* Loops that go as fast as the processor and its memory can. */
#ifndef BENCH_LIMITS_H
#define BENCH_LIMITS_H

#include <stdint.h>

typedef enum limit_kind {
    LIMIT_COPY,         /* to = a */
    LIMIT_ADD,          /* to = a + b */
    LIMIT_FILL,         /* to = 1 */
    LIMIT_READ,         /* the sum of a */
    LIMIT_MULTIPLY_ADD, /* n multiply-adds without memory */
} limit_kind;

enum { LIMIT_BLOCK = 192 }; /* n is a multiple of this; vectors are aligned to 64 bytes */

typedef enum limit_stores {
    LIMIT_PLAIN,
    LIMIT_PAST, /* the caches */
    LIMIT_OWN,  /* the processor's own instruction; for LIMIT_FILL, else plain ones */
    LIMIT_STORES
} limit_stores;

/* With the widest instructions of this processor that HAUL_CPU_LEVEL allows. The result depends on all of the work. */
float limit_run(limit_kind kind, limit_stores stores, float *to, const float *a, const float *b, int64_t n);

#endif
