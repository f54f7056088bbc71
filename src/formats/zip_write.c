/* Writes zip archives. A member is compressed in memory, so that its sizes are known when its header is written. */
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "core/error.h"
#include "formats/deflate.h"
#include "formats/zip.h"

enum { LOCAL_SIZE = 30, MEMBER_SIZE = 46, ALIGNMENT = 64, PADDING = 0x4148, UTF8 = 1 << 11, DAY = 1 << 5 | 1 };

static uint8_t *put16(uint8_t *p, uint64_t value)
{
    *p++ = (uint8_t)(value & 255);
    *p++ = (uint8_t)(value >> 8 & 255);
    return p;
}

static uint8_t *put32(uint8_t *p, uint64_t value)
{
    return put16(put16(p, value), value >> 16);
}

static uint8_t *put64(uint8_t *p, uint64_t value)
{
    return put32(put32(p, value), value >> 32);
}

static uint8_t *put_mark(uint8_t *p, uint8_t third, uint8_t fourth)
{
    return put16(put16(p, 'P' | 'K' << 8), third | (uint64_t)fourth << 8);
}

typedef struct member {
    const char *name;
    size_t      length; /* of the name */
    uint64_t    offset, packed, size;
    uint32_t    crc;
    bool        deflated, wide; /* wide: sizes and offset are among the extra fields */
} member;

/* What the header of a member and its record in the directory have in common. */
static uint8_t *put_common(uint8_t *p, const member *m, size_t extra)
{
    p = put16(put16(put16(p, m->wide ? 45 : 20), UTF8), m->deflated ? 8 : 0);
    p = put32(put16(put16(p, 0), DAY), m->crc); /* midnight of 1 January 1980 */
    p = put32(put32(p, m->wide ? 0xffffffff : m->packed), m->wide ? 0xffffffff : m->size);
    return put16(put16(p, m->length), extra);
}

/* The header, padded so that the bytes of a stored member begin at a multiple of ALIGNMENT. */
static haul_status put_header(haul__zip_writer *zip, const member *m)
{
    uint8_t  head[LOCAL_SIZE], fields[20 + 4 + ALIGNMENT] = {0}, *p = fields;
    uint64_t extra = m->wide ? 20 : 0;
    if (m->wide)
        p = put64(put64(put16(put16(p, 1), 16), m->size), m->packed);
    const uint64_t past = (zip->at + LOCAL_SIZE + m->length + extra + 4) % ALIGNMENT;
    if (!m->deflated) {
        const uint64_t padding = past ? ALIGNMENT - past : 0;
        put16(put16(p, PADDING), padding);
        extra += 4 + padding;
    }
    HAUL__ASSERT(extra <= sizeof fields && m->length <= UINT16_MAX);
    put_common(put_mark(head, 3, 4), m, (size_t)extra);
    haul_status status = haul__writer_put(zip->file, head, LOCAL_SIZE);
    if (status == HAUL_OK)
        status = haul__writer_put(zip->file, m->name, m->length);
    if (status == HAUL_OK)
        status = haul__writer_put(zip->file, fields, (size_t)extra);
    zip->at += LOCAL_SIZE + m->length + extra;
    HAUL__ASSERT(m->deflated || zip->at % ALIGNMENT == 0);
    return status;
}

static haul_status put_record(haul__zip_writer *zip, const member *m)
{
    const size_t extra = m->wide ? 28 : 0, size = MEMBER_SIZE + m->length + extra;
    if (!haul__grow(&zip->directory, &zip->capacity, zip->size + size, 1))
        return haul__fail_memory(zip->operation, zip->size + size);
    uint8_t *p = zip->directory + zip->size;
    p = put_common(put16(put_mark(p, 1, 2), m->wide ? 45 : 20), m, extra);
    p = put32(put16(put16(put16(p, 0), 0), 0), 0);
    p = put32(p, m->wide ? 0xffffffff : m->offset);
    memcpy(p, m->name, m->length);
    if (m->wide)
        put64(put64(put64(put16(put16(p + m->length, 1), 24), m->size), m->packed), m->offset);
    zip->size += size;
    HAUL__ASSERT(zip->size <= zip->capacity);
    zip->count++;
    return HAUL_OK;
}

haul_status haul__zip_put(haul__zip_writer *zip, const char *name, bool compress, const void *first, size_t first_size,
                          const void *second, size_t second_size)
{
    member m = {.name = name, .length = strlen(name), .offset = zip->at, .size = (uint64_t)first_size + second_size};
    size_t packed_size = 0;
    void  *packed = NULL;
    if (compress && !(packed = haul__deflate(zip->operation, first, first_size, second, second_size, &packed_size)))
        return haul_error_status();
    m.deflated = compress;
    m.packed = compress ? packed_size : m.size;
    m.crc = haul__crc32(haul__crc32(0, first, first_size), second, second_size);
    m.wide = m.size >= zip->limit || m.packed >= zip->limit || m.offset >= zip->limit;
    haul_status status = put_header(zip, &m);
    if (status == HAUL_OK)
        status = haul__writer_put(zip->file, compress ? packed : first, compress ? packed_size : first_size);
    if (status == HAUL_OK && !compress)
        status = haul__writer_put(zip->file, second, second_size);
    zip->at += m.packed;
    haul__free(packed);
    return status == HAUL_OK ? put_record(zip, &m) : status;
}

haul_status haul__zip_end(haul__zip_writer *zip)
{
    uint8_t        end[56 + 20 + 22], *p = end;
    const uint64_t count = zip->count, size = zip->size, at = zip->at;
    const bool     wide = count >= 0xffff || size >= zip->limit || at >= zip->limit;
    if (wide) {
        p = put16(put16(put64(put_mark(p, 6, 6), 44), 45), 45);
        p = put64(put64(put32(put32(p, 0), 0), count), count);
        p = put64(put64(p, size), at);
        p = put32(put64(put32(put_mark(p, 6, 7), 0), at + size), 1);
    }
    p = put16(put16(put_mark(p, 5, 6), 0), 0);
    p = put16(put16(p, wide ? 0xffff : count), wide ? 0xffff : count);
    p = put16(put32(put32(p, wide ? 0xffffffff : size), wide ? 0xffffffff : at), 0);
    HAUL__ASSERT((size_t)(p - end) <= sizeof end);
    haul_status status = haul__writer_put(zip->file, zip->directory, zip->size);
    return status == HAUL_OK ? haul__writer_put(zip->file, end, (size_t)(p - end)) : status;
}
