#include "base/copy_uncached.h"

#include <stdint.h>
#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "base/assert.h"

enum { LINE = 64 };

/* Stores lines of 64 bytes. `to` is aligned. */
#if defined(__SSE2__)
static void put_lines(char *to, const char *from, size_t lines)
{
    for (size_t i = 0; i < lines * LINE; i += sizeof(__m128i))
        _mm_stream_si128((__m128i *)(void *)(to + i), _mm_loadu_si128((const __m128i *)(const void *)(from + i)));
    _mm_sfence();
}
#else
static void put_lines(char *to, const char *from, size_t lines)
{
    memcpy(to, from, lines * LINE);
}
#endif

void haul__copy_uncached(void *to, const void *from, size_t bytes)
{
    const size_t head = (size_t)(-(uintptr_t)to % LINE);
    if (bytes < head + LINE) {
        memcpy(to, from, bytes);
        return;
    }
    const size_t lines = (bytes - head) / LINE, done = head + lines * LINE;
    HAUL__ASSERT(((uintptr_t)to + head) % LINE == 0 && bytes - done < LINE);
    memcpy(to, from, head);
    put_lines((char *)to + head, (const char *)from + head, lines);
    memcpy((char *)to + done, (const char *)from + done, bytes - done);
}
