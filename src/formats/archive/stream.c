#include "formats/archive/stream.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "core/error.h"
#include "haul_config.h"

#ifdef HAUL_HAVE_ZLIB
#include <zlib.h>
#endif

/* Bytes that are read at once, and that are skipped at once. */
#define PIECE ((size_t)1 << 16)

struct haul__stream {
    const haul__file *file;
    bool              packed, between; /* between two packed parts of the file, of which most have one */
    uint64_t          read;            /* bytes of the file so far */
    uint64_t          at;
#ifdef HAUL_HAVE_ZLIB
    z_stream zlib;
#endif
    uint8_t in[PIECE], skipped[PIECE];
};

static size_t least(uint64_t a, size_t b)
{
    return a < b ? (size_t)a : b;
}

uint64_t haul__stream_at(const haul__stream *s)
{
    return s->at;
}

#ifdef HAUL_HAVE_ZLIB

enum { WITH_GZIP_HEAD = 16 + MAX_WBITS };

static bool begin(haul__stream *s)
{
    if (inflateInit2(&s->zlib, WITH_GZIP_HEAD) == Z_OK)
        return true;
    haul__fail_memory(s->file->operation, PIECE);
    return false;
}

static void end(haul__stream *s)
{
    inflateEnd(&s->zlib);
}

static haul_status damaged(const haul__stream *s, const char *what)
{
    return haul__fail(HAUL_FORMAT, s->file->operation, "path", "%s is damaged: %s", s->file->path, what);
}

static haul_status refill(haul__stream *s)
{
    const size_t piece = least(s->file->size - s->read, PIECE);
    HAUL__ASSERT(s->read <= s->file->size);
    if (s->zlib.avail_in || !piece)
        return HAUL_OK;
    if (haul__file_read(s->file, s->read, s->in, piece))
        return haul_error_status();
    s->read += piece;
    s->zlib.next_in = s->in;
    s->zlib.avail_in = (uInt)piece;
    return HAUL_OK;
}

/* Unpacks at most `bytes` bytes; *got is 0 at the end. Zeros may follow the last packed part. */
static haul_status unpack(haul__stream *s, uint8_t *out, size_t bytes, size_t *got)
{
    HAUL__ASSERT(bytes <= UINT32_MAX);
    s->zlib.next_out = out;
    s->zlib.avail_out = (uInt)bytes;
    while (s->zlib.avail_out == bytes) {
        if (refill(s))
            return haul_error_status();
        if (s->between && (!s->zlib.avail_in || !*s->zlib.next_in))
            break;
        if (s->between && inflateReset(&s->zlib) != Z_OK)
            return damaged(s, "a compressed part cannot be unpacked");
        s->between = false;
        if (!s->zlib.avail_in)
            return damaged(s, "it ends before its compressed bytes do");
        const int code = inflate(&s->zlib, Z_NO_FLUSH);
        if (code == Z_MEM_ERROR)
            return haul__fail_memory(s->file->operation, PIECE);
        if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR)
            return damaged(s, "a compressed part cannot be unpacked");
        s->between = code == Z_STREAM_END;
    }
    *got = bytes - s->zlib.avail_out;
    return HAUL_OK;
}

#else

static bool begin(haul__stream *s)
{
    haul__fail(HAUL_UNSUPPORTED, s->file->operation, "path",
               "%s is compressed, and this build of Haul cannot unpack it: zlib was missing when it was built",
               s->file->path);
    return false;
}

static void end(haul__stream *s)
{
    (void)s;
}

static haul_status unpack(haul__stream *s, uint8_t *out, size_t bytes, size_t *got)
{
    (void)s, (void)out, (void)bytes;
    *got = 0;
    return HAUL_OK;
}

#endif

haul__stream *haul__stream_open(const haul__file *file, bool packed)
{
    haul__stream *s = haul__calloc(1, sizeof *s);
    if (!s) {
        haul__fail_memory(file->operation, sizeof *s);
        return NULL;
    }
    s->file = file;
    if (packed && !begin(s)) {
        haul__free(s);
        return NULL;
    }
    s->packed = packed;
    return s;
}

void haul__stream_close(haul__stream *s)
{
    if (s && s->packed)
        end(s);
    haul__free(s);
}

static haul_status read_plain(haul__stream *s, uint8_t *out, uint64_t bytes, uint64_t *got)
{
    const uint64_t left = s->file->size - s->at;
    HAUL__ASSERT(s->at <= s->file->size);
    *got = bytes < left ? bytes : left;
    haul_status status = out ? haul__file_read(s->file, s->at, out, (size_t)*got) : HAUL_OK;
    s->at += *got;
    return status;
}

haul_status haul__stream_read(haul__stream *s, void *out, uint64_t bytes, uint64_t *got)
{
    *got = 0;
    if (!s->packed)
        return read_plain(s, out, bytes, got);
    for (size_t some = 1; *got < bytes && some;) {
        const size_t piece = least(bytes - *got, out ? (size_t)1 << 30 : PIECE);
        if (unpack(s, out ? (uint8_t *)out + *got : s->skipped, piece, &some))
            return haul_error_status();
        HAUL__ASSERT(some <= piece);
        *got += some;
        s->at += some;
    }
    return HAUL_OK;
}
