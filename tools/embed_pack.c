/* Packs the texts of units, which repeat themselves where templates are expanded, for src/kernels/unpack.c. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "embed.h"

enum { HASHES = 1 << 15, TRIES = 512, LONGEST_RUN = 128, LEAST_MATCH = 4, LONGEST_MATCH = 131, FARTHEST = 65535 };

/* Positions of the text by the hash of their four bytes: the last one of each hash, and for each the one before. */
typedef struct positions {
    int *last, *before;
} positions;

static unsigned hash_of(const char *at)
{
    unsigned bytes;
    memcpy(&bytes, at, sizeof bytes);
    return bytes * 2654435761u >> 17;
}

static void add_position(positions *p, const char *text, size_t size, size_t at)
{
    if (size - at < LEAST_MATCH)
        return;
    int *last = &p->last[hash_of(text + at)];
    p->before[at] = *last;
    *last = (int)at;
}

/* The longest match of the text at `at`, of at least LEAST_MATCH bytes; 0 if there is none. */
static size_t find_match(const positions *p, const char *text, size_t size, size_t at, size_t *distance)
{
    const size_t limit = size - at < LONGEST_MATCH ? size - at : LONGEST_MATCH;
    size_t       longest = LEAST_MATCH - 1;
    if (limit < LEAST_MATCH)
        return 0;
    int from = p->last[hash_of(text + at)];
    for (int i = 0; i < TRIES && from >= 0 && at - (size_t)from <= FARTHEST && longest < limit; i++) {
        size_t length = 0;
        while (length < limit && text[(size_t)from + length] == text[at + length])
            length++;
        if (length > longest) {
            longest = length;
            *distance = at - (size_t)from;
        }
        from = p->before[from];
    }
    return longest < LEAST_MATCH ? 0 : longest;
}

static void append_run(buffer *out, const char *text, size_t size)
{
    for (size_t part; size > 0; text += part, size -= part) {
        part = size < LONGEST_RUN ? size : LONGEST_RUN;
        append(out, &(char){(char)(part - 1)}, 1);
        append(out, text, part);
    }
}

void pack(buffer *out, const char *text, size_t size)
{
    positions p = {malloc(HASHES * sizeof *p.last), malloc((size + 1) * sizeof *p.before)};
    size_t    run = 0; /* where the bytes begin that are written as they are */
    if (!p.last || !p.before || size > INT_MAX)
        fail("out of memory");
    for (int i = 0; i < HASHES; i++)
        p.last[i] = -1;
    for (size_t at = 0; at < size;) {
        size_t       distance = 0;
        const size_t length = find_match(&p, text, size, at, &distance), end = at + (length ? length : 1);
        if (length) {
            append_run(out, text + run, at - run);
            append(out, (char[]){(char)(128 + length - LEAST_MATCH), (char)(distance % 256), (char)(distance / 256)},
                   3);
            run = end;
        }
        for (; at < end; at++)
            add_position(&p, text, size, at);
    }
    append_run(out, text + run, size - run);
    free(p.last);
    free(p.before);
}
