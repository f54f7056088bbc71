#include "formats/onnx/writer.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "formats/onnx/protobuf.h"

enum { MOST_OF_VARINT = 10 };

void haul__message_free(haul__message *m)
{
    haul__free(m->bytes);
    *m = (haul__message){.bytes = NULL};
}

static void append(haul__message *m, const void *bytes, size_t size)
{
    if (m->failed)
        return;
    if (size > HAUL__MESSAGE_LIMIT - m->size || !haul__grow(&m->bytes, &m->room, m->size + size + 1, 1)) {
        m->failed = true;
        return;
    }
    if (size)
        memcpy(m->bytes + m->size, bytes, size);
    m->size += size;
    HAUL__ASSERT(m->size < m->room && m->size <= HAUL__MESSAGE_LIMIT);
}

/* Seven bits a byte, the lowest first; all bytes but the last have the highest bit set. */
static void append_varint(haul__message *m, uint64_t value)
{
    uint8_t bytes[MOST_OF_VARINT];
    size_t  size = 0;
    for (; value >= 0x80; value >>= 7)
        bytes[size++] = (uint8_t)(value | 0x80);
    bytes[size++] = (uint8_t)value;
    HAUL__ASSERT(size <= MOST_OF_VARINT);
    append(m, bytes, size);
}

static void append_key(haul__message *m, uint32_t field, haul__wire wire)
{
    append_varint(m, (uint64_t)field << 3 | (uint64_t)wire);
}

void haul__put_integer(haul__message *m, uint32_t field, uint64_t value)
{
    append_key(m, field, HAUL__VARINT);
    append_varint(m, value);
}

void haul__put_float(haul__message *m, uint32_t field, float value)
{
    uint32_t bits;
    uint8_t  bytes[4];
    memcpy(&bits, &value, sizeof bits);
    for (int i = 0; i < 4; i++)
        bytes[i] = (uint8_t)(bits >> 8 * i);
    append_key(m, field, HAUL__FIXED32);
    append(m, bytes, sizeof bytes);
}

void haul__put_head(haul__message *m, uint32_t field, uint64_t size)
{
    append_key(m, field, HAUL__LENGTH);
    append_varint(m, size);
}

void haul__put_bytes(haul__message *m, uint32_t field, const void *bytes, size_t size)
{
    haul__put_head(m, field, size);
    append(m, bytes, size);
}

void haul__put_text(haul__message *m, uint32_t field, const char *text)
{
    haul__put_bytes(m, field, text, strlen(text));
}

void haul__put_message(haul__message *m, uint32_t field, const haul__message *inner)
{
    haul__put_bytes(m, field, inner->bytes, inner->size);
    m->failed = m->failed || inner->failed;
}
