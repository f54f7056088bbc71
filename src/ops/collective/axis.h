/* Where the parts of ranks are in a dense tensor that is cut along an axis. */
#ifndef HAUL_OPS_COLLECTIVE_AXIS_H
#define HAUL_OPS_COLLECTIVE_AXIS_H

#include <haul/tensor.h>
#include <string.h>

/* One rank's part: `count` blocks without gaps, one for each position before the axis. */
typedef struct haul__axis_blocks {
    int64_t count;
    size_t  bytes; /* of a block */
} haul__axis_blocks;

static inline haul__axis_blocks haul__axis_blocks_of(const haul_shape *part, int axis, size_t size)
{
    haul__axis_blocks b = {.count = 1, .bytes = size};
    for (int i = 0; i < part->ndim; i++) {
        if (i < axis)
            b.count *= part->dims[i];
        else
            b.bytes *= (size_t)part->dims[i];
    }
    return b;
}

/* The blocks of the parts, one part after the other, take their places in the whole. */
static inline void haul__axis_interleave(const haul__axis_blocks *b, int ranks, const char *parts, char *whole)
{
    for (int r = 0; r < ranks; r++)
        for (int64_t i = 0; i < b->count && b->bytes; i++)
            memcpy(whole + ((size_t)i * (size_t)ranks + (size_t)r) * b->bytes,
                   parts + ((size_t)r * (size_t)b->count + (size_t)i) * b->bytes, b->bytes);
}

/* The reverse. */
static inline void haul__axis_separate(const haul__axis_blocks *b, int ranks, const char *whole, char *parts)
{
    for (int r = 0; r < ranks; r++)
        for (int64_t i = 0; i < b->count && b->bytes; i++)
            memcpy(parts + ((size_t)r * (size_t)b->count + (size_t)i) * b->bytes,
                   whole + ((size_t)i * (size_t)ranks + (size_t)r) * b->bytes, b->bytes);
}

#endif
