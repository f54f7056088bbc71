/* Compression by zlib, in pieces, so that it needs little memory of its own. */
#include "formats/deflate.h"

#include "core/error.h"
#include "haul_config.h"

#ifdef HAUL_HAVE_ZLIB
#include <string.h>
#include <zlib.h>

#include "base/alloc.h"
#include "base/assert.h"

/* Bytes of a piece. */
#define PIECE ((size_t)1 << 16)

static size_t least(uint64_t a, size_t b)
{
    return a < b ? (size_t)a : b;
}

uint32_t haul__crc32(uint32_t crc, const void *data, size_t size)
{
    const uint8_t *at = data;
    while (size) {
        const size_t piece = least(size, (size_t)1 << 30);
        crc = (uint32_t)crc32(crc, at, (uInt)piece);
        at += piece;
        size -= piece;
    }
    return crc;
}

typedef struct inflation {
    const haul__file *file;
    uint64_t          at, left; /* of the packed bytes */
    z_stream          stream;
    uint8_t          *in, *skipped;
} inflation;

static haul_status damaged(const haul__file *file)
{
    return haul__fail(HAUL_FORMAT, file->operation, "path", "%s is damaged: a compressed part cannot be unpacked",
                      file->path);
}

/* The next `bytes` bytes of the result. */
static haul_status next(inflation *f, uint8_t *out, size_t bytes)
{
    HAUL__ASSERT(bytes <= UINT32_MAX); /* zlib counts in these */
    f->stream.next_out = out;
    f->stream.avail_out = (uInt)bytes;
    while (f->stream.avail_out) {
        if (!f->stream.avail_in && f->left) {
            const size_t piece = least(f->left, PIECE);
            if (haul__file_read(f->file, f->at, f->in, piece))
                return haul_error_status();
            f->at += piece;
            f->left -= piece;
            f->stream.next_in = f->in;
            f->stream.avail_in = (uInt)piece;
        }
        const int code = inflate(&f->stream, Z_NO_FLUSH);
        if (code == Z_MEM_ERROR)
            return haul__fail_memory(f->file->operation, PIECE);
        if (code != Z_OK && !(code == Z_STREAM_END && !f->stream.avail_out))
            return damaged(f->file);
    }
    return HAUL_OK;
}

static haul_status inflate_range(inflation *f, uint64_t skip, uint8_t *out, size_t bytes)
{
    for (size_t piece; skip; skip -= piece) {
        piece = least(skip, PIECE);
        if (next(f, f->skipped, piece))
            return haul_error_status();
    }
    for (size_t done = 0, piece; done < bytes; done += piece) {
        piece = least(bytes - done, (size_t)1 << 30);
        if (next(f, out + done, piece))
            return haul_error_status();
    }
    return HAUL_OK;
}

haul_status haul__inflate(const haul__file *file, uint64_t at, uint64_t packed, uint64_t skip, void *out, size_t bytes)
{
    inflation   f = {.file = file, .at = at, .left = packed};
    haul_status status = HAUL_OK;
    f.in = haul__malloc(2 * PIECE);
    f.skipped = f.in ? f.in + PIECE : NULL;
    if (!f.in || inflateInit2(&f.stream, -MAX_WBITS) != Z_OK)
        status = haul__fail_memory(file->operation, 2 * PIECE);
    if (!status) {
        status = inflate_range(&f, skip, out, bytes);
        inflateEnd(&f.stream);
    }
    haul__free(f.in);
    return status;
}

typedef struct deflation {
    z_stream stream;
    uint8_t *out;
    size_t   size, capacity;
} deflation;

static bool put(deflation *d, const uint8_t *data, size_t size, bool last)
{
    int code = Z_OK;
    do {
        const size_t piece = least(size, (size_t)1 << 30);
        d->stream.next_in = (Bytef *)data; /* zlib only reads it */
        d->stream.avail_in = (uInt)piece;
        data += piece;
        size -= piece;
        do {
            if (!haul__grow(&d->out, &d->capacity, d->size + PIECE, 1))
                return false;
            d->stream.next_out = d->out + d->size;
            d->stream.avail_out = (uInt)PIECE;
            code = deflate(&d->stream, last && !size ? Z_FINISH : Z_NO_FLUSH);
            d->size += PIECE - d->stream.avail_out;
            HAUL__ASSERT(d->size <= d->capacity);
        } while (!d->stream.avail_out);
    } while (size);
    return code == Z_OK || code == Z_STREAM_END || code == Z_BUF_ERROR;
}

void *haul__deflate(const char *operation, const void *first, size_t first_size, const void *second, size_t second_size,
                    size_t *size)
{
    deflation d = {.size = 0};
    bool done = deflateInit2(&d.stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) == Z_OK;
    if (done) {
        done = put(&d, first, first_size, false) && put(&d, second, second_size, true);
        deflateEnd(&d.stream);
    }
    *size = d.size;
    if (done)
        return d.out;
    haul__free(d.out);
    haul__fail_memory(operation, d.capacity + PIECE);
    return NULL;
}

#else

uint32_t haul__crc32(uint32_t crc, const void *data, size_t size)
{
    const uint8_t *at = data;
    crc = ~crc;
    for (size_t i = 0; i < size; i++) {
        crc ^= at[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
    }
    return ~crc;
}

haul_status haul__inflate(const haul__file *file, uint64_t at, uint64_t packed, uint64_t skip, void *out, size_t bytes)
{
    (void)at, (void)packed, (void)skip, (void)out, (void)bytes;
    return haul__fail(HAUL_UNSUPPORTED, file->operation, "path",
                      "%s is compressed, and this build of Haul cannot unpack it: zlib was missing when it was built",
                      file->path);
}

void *haul__deflate(const char *operation, const void *first, size_t first_size, const void *second, size_t second_size,
                    size_t *size)
{
    (void)first, (void)first_size, (void)second, (void)second_size, (void)size;
    haul__fail(HAUL_UNSUPPORTED, operation, "compress",
               "this build of Haul cannot compress: zlib was missing when it was built");
    return NULL;
}
#endif
