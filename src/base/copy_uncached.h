/* Copies that go past the caches. */
#ifndef HAUL_BASE_COPY_UNCACHED_H
#define HAUL_BASE_COPY_UNCACHED_H

#include <stddef.h>

/* Work that writes and reads so many bytes at a time pushes everything else out of the caches, and finds nothing of its
 * own there when it begins again: its results need not be there either. */
#define HAUL__UNCACHED_FROM ((size_t)48 << 20)

/* Copies without reading the memory at `to` first, where the processor has non-temporal stores; else like memcpy. */
void haul__copy_uncached(void *to, const void *from, size_t bytes);

#endif
