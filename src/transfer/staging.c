/* Staging: copies of pageable memory through pinned memory, with several threads and overlap, because drivers do this
 * slowly.
 *
 * A copy is cut into chunks, which pass through a ring of pinned blocks: while the device copies one chunk, pool
 * threads fill or empty the next. The uses of the blocks say when each may be reused; no other ordering is needed. The
 * blocks come from the device's cache of pinned memory and return to it while their last copy is in flight. Each copy
 * has its own ring, so threads only share the cache. */
#include "transfer/staging.h"

#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "base/assert.h"
#include "base/hostile.h"
#include "core/object.h"
#include "core/pool.h"
#include "device/device.h"
#include "memory/allocator.h"

/* A chunk is an eighth of the copy, so that little of it is not overlapped, within bounds: each chunk costs the host
 * some microseconds, and chunks above a few MiB gain nothing. Threads share a chunk in pieces. */
enum {
    SLOTS = 4,
    PARTS = 8,
    LEAST_CHUNK = 512 << 10,
    MOST_CHUNK = 4 << 20,
    PIECE = 256 << 10,
    HOSTILE_CHUNK = 4 << 10
};

/* ---- copying between host memories ---- */

typedef struct span {
    char       *to;
    const char *from;
} span;

/* Non-temporal stores: the data will be read by the device, or much later. They reach 10.9 and 16.0 GB/s with 1 and 2
 * threads of an x86-64 server; memcpy reached 9.4 and 10.3. */
static void copy_uncached(char *to, const char *from, size_t bytes)
{
#if defined(__SSE2__)
    size_t head = (16 - (uintptr_t)to % 16) % 16;
    if (bytes >= 256) {
        memcpy(to, from, head);
        to += head, from += head, bytes -= head;
        HAUL__ASSERT((uintptr_t)to % 16 == 0);
        for (; bytes >= 64; to += 64, from += 64, bytes -= 64) {
            __m128i a = _mm_loadu_si128((const __m128i *)(const void *)from);
            __m128i b = _mm_loadu_si128((const __m128i *)(const void *)(from + 16));
            __m128i c = _mm_loadu_si128((const __m128i *)(const void *)(from + 32));
            __m128i d = _mm_loadu_si128((const __m128i *)(const void *)(from + 48));
            _mm_stream_si128((__m128i *)(void *)to, a);
            _mm_stream_si128((__m128i *)(void *)(to + 16), b);
            _mm_stream_si128((__m128i *)(void *)(to + 32), c);
            _mm_stream_si128((__m128i *)(void *)(to + 48), d);
        }
        _mm_sfence();
    }
#endif
    memcpy(to, from, bytes);
}

static void copy_piece(void *context, int64_t first, int64_t last)
{
    const span *s = context;
    copy_uncached(s->to + first, s->from + first, (size_t)(last - first));
}

static void copy_host(void *to, const void *from, size_t bytes)
{
    span s = {to, from};
    if (bytes < PIECE)
        memcpy(to, from, bytes);
    else
        haul__parallel_for((int64_t)bytes, PIECE, copy_piece, &s);
}

/* ---- rings ---- */

typedef struct ring {
    haul__storage *slots[SLOTS];
    int            count; /* number of slots; fewer if memory is short */
    size_t         bytes, chunk;
    int64_t        chunks;
} ring;

static size_t chunk_of(size_t bytes)
{
    size_t chunk = (bytes / PARTS + PIECE) / PIECE * PIECE;
    if (haul__is_hostile(HAUL__HOSTILE_STAGING))
        return HOSTILE_CHUNK;
    return chunk < LEAST_CHUNK ? LEAST_CHUNK : chunk > MOST_CHUNK ? MOST_CHUNK : chunk;
}

int64_t haul__staged_chunks(size_t bytes)
{
    return (int64_t)((bytes + chunk_of(bytes) - 1) / chunk_of(bytes));
}

int64_t haul__staged_in_flight(size_t bytes)
{
    const size_t slots = SLOTS * chunk_of(bytes);
    return (int64_t)(bytes < slots ? bytes : slots);
}

/* Returns HAUL_UNSUPPORTED if there is no memory for it. */
static haul_status ring_open(ring *r, haul_device *device, size_t bytes, bool pinned, const char *origin)
{
    haul__storage *(*get)(haul_device *, size_t, const char *) = pinned ? haul__pinned_alloc : haul__host_alloc_for;
    *r = (ring){.bytes = bytes, .chunk = chunk_of(bytes), .chunks = haul__staged_chunks(bytes)};
    size_t             size = r->chunks > 1 ? r->chunk : bytes;
    haul__error_record before;
    haul__error_save(&before);
    while (r->count < SLOTS && r->count < r->chunks && (r->slots[r->count] = get(device, size, origin)))
        r->count++;
    HAUL__ASSERT((size_t)r->chunks * r->chunk >= bytes && (size_t)(r->chunks - 1) * r->chunk < bytes);
    if (r->count > 0 || pinned)
        haul__error_restore(&before);
    return r->count > 0 ? HAUL_OK : pinned ? HAUL_UNSUPPORTED : haul_error_status();
}

static void ring_close(ring *r)
{
    for (int i = 0; i < r->count; i++)
        haul__object_release(r->slots[i]);
}

static haul__storage *slot_of(const ring *r, int64_t chunk)
{
    HAUL__ASSERT(r->count > 0 && 0 <= chunk && chunk < r->chunks);
    return r->slots[chunk % r->count];
}

static size_t size_of(const ring *r, int64_t chunk)
{
    size_t at = (size_t)chunk * r->chunk;
    HAUL__ASSERT(at < r->bytes);
    return r->bytes - at < r->chunk ? r->bytes - at : r->chunk;
}

static haul_status write_chunk(const haul__copy *copy, uint64_t number, const ring *r, int64_t chunk, haul__region to)
{
    HAUL__ASSERT(to.offset + (size_t)chunk * r->chunk + size_of(r, chunk) <= to.storage->bytes);
    return haul__submit(&(haul__command){
        .kind = HAUL__COMMAND_WRITE,
        .stream = copy->ahead ? HAUL__STREAM_AHEAD : HAUL__STREAM_UPLOAD,
        .operation = copy->operation,
        .device = to.storage->device,
        .buffers = (haul__region[]){{to.storage, to.offset + (size_t)chunk * r->chunk}, {slot_of(r, chunk), 0}},
        .write_count = 1,
        .buffer_count = 2,
        .bytes = size_of(r, chunk),
        .copy = number,
        .staged = true});
}

static haul_status read_chunk(const haul__copy *copy, uint64_t number, const ring *r, int64_t chunk, haul__region from)
{
    HAUL__ASSERT(from.offset + (size_t)chunk * r->chunk + size_of(r, chunk) <= from.storage->bytes);
    return haul__submit(&(haul__command){
        .kind = HAUL__COMMAND_READ,
        .stream = HAUL__STREAM_DOWNLOAD,
        .operation = copy->operation,
        .device = from.storage->device,
        .buffers = (haul__region[]){{slot_of(r, chunk), 0}, {from.storage, from.offset + (size_t)chunk * r->chunk}},
        .write_count = 1,
        .buffer_count = 2,
        .bytes = size_of(r, chunk),
        .copy = number,
        .staged = true});
}

/* ---- the three directions ---- */

haul_status haul__stage_up(const haul__copy *copy, uint64_t number, haul__region to, const void *host, size_t bytes)
{
    ring        r;
    haul_status status = ring_open(&r, to.storage->device, bytes, true, copy->operation);
    for (int64_t i = 0; i < r.chunks && !status; i++) {
        haul__storage *slot = slot_of(&r, i);
        status = haul__host_before(slot, true, copy->operation); /* the slot's previous chunk has left */
        if (status)
            break;
        copy_host(slot->buffer.host, (const char *)host + (size_t)i * r.chunk, size_of(&r, i));
        status = write_chunk(copy, number, &r, i, to);
    }
    ring_close(&r);
    return status;
}

haul_status haul__stage_down(const haul__copy *copy, uint64_t number, void *host, haul__region from, size_t bytes)
{
    ring        r;
    haul_status status = ring_open(&r, from.storage->device, bytes, true, copy->operation);
    for (int64_t i = 0; i < r.count && !status; i++)
        status = read_chunk(copy, number, &r, i, from);
    for (int64_t i = 0; i < r.chunks && !status; i++) {
        haul__storage *slot = slot_of(&r, i);
        status = haul__host_before(slot, false, copy->operation); /* the chunk has arrived */
        if (status)
            break;
        copy_host((char *)host + (size_t)i * r.chunk, slot->buffer.host, size_of(&r, i));
        if (i + r.count < r.chunks)
            status = read_chunk(copy, number, &r, i + r.count, from);
    }
    ring_close(&r);
    return status;
}

haul_status haul__stage_across(const haul__copy *copy, uint64_t number, haul__region to, haul__region from,
                               size_t bytes)
{
    ring         r;
    haul_device *source = from.storage->device, *pins = haul__device_pins(source) ? source : to.storage->device;
    haul_status  status = ring_open(&r, pins, bytes, false, copy->operation);
    HAUL__ASSERT(!haul__device_is_host(source) && !haul__device_is_host(to.storage->device));
    int64_t lead = r.count > 1 ? 1 : 0; /* with one slot, a chunk must leave before the next one arrives */
    for (int64_t i = -lead; i < r.chunks && !status; i++) {
        if (i + lead < r.chunks)
            status = read_chunk(copy, number, &r, i + lead, from);
        if (!status && i >= 0)
            status = write_chunk(copy, number + 1, &r, i, to);
    }
    ring_close(&r);
    return status;
}
