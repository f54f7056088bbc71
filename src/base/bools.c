/* Truth values in memory: checks blocks of words at once. */
#include "base/bools.h"

#include <stdint.h>
#include <string.h>

#include "base/assert.h"

#define BLOCK ((size_t)4096)
#define WORDS 8
#define ODD   (UINT64_MAX / 255 * 254) /* the bits of a word of bools that are never set */

static bool block_is_normal(const uint8_t *values, size_t count)
{
    uint64_t all[WORDS] = {0}, words[WORDS], bits = 0;
    size_t   i = 0;
    HAUL__ASSERT(count <= BLOCK);
    for (; i + sizeof words <= count; i += sizeof words) {
        memcpy(words, values + i, sizeof words);
        for (int k = 0; k < WORDS; k++)
            all[k] |= words[k];
    }
    for (int k = 0; k < WORDS; k++)
        bits |= all[k];
    for (; i < count; i++)
        bits |= values[i];
    return (bits & ODD) == 0;
}

bool haul__bools_are_normal(const void *values, size_t count)
{
    const uint8_t *v = values;
    for (size_t i = 0; i < count; i += BLOCK)
        if (!block_is_normal(v + i, count - i < BLOCK ? count - i : BLOCK))
            return false;
    return true;
}

void haul__normalise_bools(void *values, size_t count)
{
    uint8_t *v = values;
    for (size_t i = 0; i < count; i += BLOCK) {
        const size_t n = count - i < BLOCK ? count - i : BLOCK;
        if (block_is_normal(v + i, n))
            continue;
        for (size_t k = i; k < i + n; k++)
            v[k] = v[k] != 0;
    }
}
