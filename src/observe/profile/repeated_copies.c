#include "observe/profile/repeated_copies.h"

#include <string.h>

#include "base/assert.h"

enum { WHOLE = 64 << 10, PIECE = 1 << 10, PIECES = WHOLE / PIECE, TRIES = 8 };

/* Four words at a time, so that the multiplications overlap. */
static uint64_t hash_bytes(uint64_t hash, const unsigned char *at, size_t bytes)
{
    static const uint64_t factor = 0x9e3779b97f4a7c15u;
    uint64_t              lanes[4] = {hash, hash + 1, hash + 2, hash + 3}, words[4];
    for (; bytes >= sizeof words; at += sizeof words, bytes -= sizeof words) {
        memcpy(words, at, sizeof words);
        for (int i = 0; i < 4; i++) {
            lanes[i] = (lanes[i] ^ words[i]) * factor;
            lanes[i] ^= lanes[i] >> 32;
        }
    }
    for (int i = 0; i < 4; i++)
        hash = (hash ^ lanes[i]) * factor + (hash >> 29);
    for (; bytes; at++, bytes--)
        hash = (hash ^ *at) * factor;
    return hash ^ hash >> 31;
}

uint64_t haul__sample(const void *data, size_t bytes)
{
    const unsigned char *at = data;
    uint64_t             hash = bytes;
    if (bytes <= WHOLE)
        return hash_bytes(hash, at, bytes) | 1;
    const size_t stride = (bytes - PIECE) / (PIECES - 1);
    HAUL__ASSERT((PIECES - 1) * stride + PIECE <= bytes);
    for (size_t i = 0; i < PIECES; i++)
        hash = hash_bytes(hash, at + i * stride, PIECE);
    return hash | 1;
}

/* The data with this sample, or the place where it belongs. */
static haul__copied_data *find(haul__copy_history *s, const haul_event *e, uint64_t sample)
{
    haul__copied_data *p = NULL;
    for (uint64_t i = 0; i < TRIES; i++) {
        p = &s->data[(sample + i) % HAUL__COPY_HISTORY];
        if (!p->device || (p->sample == sample && p->bytes == e->bytes && p->device == e->device))
            return p;
    }
    return p;
}

bool haul__was_copied(haul__copy_history *s, const haul_event *e)
{
    const unsigned char *host = e->host;
    const size_t         bytes = (size_t)e->bytes;
    if (!host || !e->settled || e->bytes <= 0)
        return false;
    const uint64_t     sample = haul__sample(host, bytes);
    haul__copied_data *p = find(s, e, sample);
    HAUL__ASSERT(s->data <= p && p < s->data + HAUL__COPY_HISTORY);
    if (p->sample != sample || p->bytes != e->bytes || p->device != e->device) {
        *p = (haul__copied_data){.device = e->device, .bytes = e->bytes, .sample = sample};
        return false;
    }
    if (bytes <= WHOLE)
        return true;
    const uint64_t all = hash_bytes(bytes, host, bytes) | 1, before = p->all;
    p->all = all;
    return before == all;
}
