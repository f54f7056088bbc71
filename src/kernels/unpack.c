#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "kernels/text.h"

/* The bytes of the text may repeat while they are copied: the distance may be less than the length. */
static void repeat(char *to, size_t distance, size_t length)
{
    for (size_t i = 0; i < length; i++)
        to[i] = *(to + i - distance);
}

char *haul__kernel_text_unpack(const haul__kernel_text *row)
{
    enum { MATCH = 128, LEAST_MATCH = 4 };
    char  *text = haul__malloc(row->size + 1);
    size_t size = 0;
    if (!text)
        return NULL;
    for (const unsigned char *at = row->packed, *end = at + row->packed_size; at < end;) {
        const size_t code = *at++, length = code < MATCH ? code + 1 : code - MATCH + LEAST_MATCH;
        HAUL__ASSERT(length <= row->size - size);
        if (code < MATCH) {
            memcpy(text + size, at, length);
            at += length;
        } else {
            const size_t distance = at[0] + 256 * (size_t)at[1];
            HAUL__ASSERT(distance > 0 && distance <= size);
            repeat(text + size, distance, length);
            at += 2;
        }
        size += length;
    }
    HAUL__ASSERT(size == row->size);
    text[size] = 0;
    return text;
}
