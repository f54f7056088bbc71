#include "formats/gzip.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "core/error.h"
#include "formats/deflate.h"

/* The head: magic, method, flags, time, two bytes; then what the flags say. The tail: checksum and size. */
enum { HEAD = 10, TAIL = 8, HEAD_LIMIT = 4096 };
enum { FLAG_CHECKSUM = 2, FLAG_EXTRA = 4, FLAG_NAME = 8, FLAG_COMMENT = 16 };

bool haul__is_gzip(const uint8_t *head, size_t size)
{
    return size >= 3 && head[0] == 0x1f && head[1] == 0x8b && head[2] == 8;
}

static size_t skip_text(const uint8_t *head, size_t size, size_t at)
{
    const uint8_t *end = at < size ? memchr(head + at, 0, size - at) : NULL;
    return end ? (size_t)(end - head) + 1 : size + 1;
}

/* Where the packed bytes begin; more than `size` if that is not within the head. */
static size_t skip_head(const uint8_t *head, size_t size)
{
    size_t    at = HEAD;
    const int flags = head[3];
    if (flags & FLAG_EXTRA)
        at = at + 2 <= size ? at + 2 + (size_t)(head[at] | head[at + 1] << 8) : size + 1;
    if (flags & FLAG_NAME)
        at = skip_text(head, size, at);
    if (flags & FLAG_COMMENT)
        at = skip_text(head, size, at);
    return flags & FLAG_CHECKSUM ? at + 2 : at;
}

static uint32_t little(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

static haul_status malformed(const haul__file *file, const char *what)
{
    return haul__fail(HAUL_FORMAT, file->operation, "path", "%s is not a valid gzip file: %s", file->path, what);
}

static haul_status unpack(const haul__file *file, const uint8_t *head, size_t head_size, uint64_t limit, uint8_t **data,
                          size_t *size)
{
    uint8_t      tail[TAIL];
    const size_t begin = head_size < HEAD ? head_size + 1 : skip_head(head, head_size);
    if (begin > head_size || file->size < begin + TAIL)
        return malformed(file, "it ends within its header, or that is longer than 4,096 bytes");
    if (haul__file_read(file, file->size - TAIL, tail, TAIL))
        return haul_error_status();
    const uint64_t packed = file->size - TAIL - begin, bytes = little(tail + 4);
    HAUL__ASSERT(begin >= HEAD && packed < file->size);
    if (bytes > limit || bytes > packed * HAUL__DEFLATE_RATIO)
        return haul__fail(HAUL_FORMAT, file->operation, "path",
                          "%s claims %" PRIu64 " bytes when unpacked; it has %" PRIu64 ", and at most %" PRIu64
                          " are expected",
                          file->path, bytes, file->size, limit);
    if (!(*data = haul__malloc((size_t)bytes + 1)))
        return haul__fail_memory(file->operation, (size_t)bytes);
    haul_status status = haul__inflate(file, begin, packed, 0, *data, (size_t)bytes);
    if (status == HAUL_OK && haul__crc32(0, *data, (size_t)bytes) != little(tail))
        status = malformed(file, "its checksum is wrong");
    *size = (size_t)bytes;
    if (status) {
        haul__free(*data);
        *data = NULL;
    }
    return status;
}

haul_status haul__gunzip(uint8_t **data, size_t *size, const char *path, const char *operation, uint64_t limit)
{
    uint8_t     *packed = *data;
    haul__file   file;
    const size_t head = *size < HEAD_LIMIT ? *size : HEAD_LIMIT;
    if (!haul__is_gzip(packed, head))
        return HAUL_OK;
    haul__file_open_memory(&file, packed, *size, path, operation);
    haul_status status = unpack(&file, packed, head, limit, data, size);
    if (status)
        *data = packed;
    else
        haul__free(packed);
    return status;
}
