/* FNV-1a, 64 bits: hashes that are the same in all processes and on all machines. */
#ifndef HAUL_BASE_FNV_H
#define HAUL_BASE_FNV_H

#include <stddef.h>
#include <stdint.h>

/* The hash of no bytes. */
#define HAUL__FNV UINT64_C(0xcbf29ce484222325)

/* The hash of what `hash` has already, followed by these bytes. */
static inline uint64_t haul__fnv(uint64_t hash, const void *bytes, size_t size)
{
    const unsigned char *at = bytes;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
    return hash;
}

#endif
