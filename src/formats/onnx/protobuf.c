#include "formats/onnx/protobuf.h"

#include "base/assert.h"

haul__cursor haul__cursor_of(haul__bytes message)
{
    return (haul__cursor){.at = message.at, .end = message.size ? message.at + message.size : message.at};
}

uint32_t haul__little_32(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

uint64_t haul__little_64(const uint8_t *at)
{
    return (uint64_t)haul__little_32(at) | (uint64_t)haul__little_32(at + 4) << 32;
}

static bool stop(haul__cursor *c, const char *fault)
{
    c->fault = fault;
    return false;
}

static size_t left(const haul__cursor *c)
{
    return (size_t)(c->end - c->at);
}

/* Seven bits a byte, the lowest first; all bytes but the last have the highest bit set. Ten bytes hold 64 bits. */
static bool read_varint(haul__cursor *c, uint64_t *value)
{
    HAUL__ASSERT(c->at <= c->end);
    *value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        if (c->at == c->end)
            return stop(c, "a number is cut off");
        const uint8_t byte = *c->at++;
        if (shift == 63 && byte > 1)
            return stop(c, "a number has more than 64 bits");
        *value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return true;
    }
    return stop(c, "a number has more than 64 bits");
}

bool haul__next_varint(haul__cursor *c, uint64_t *value)
{
    return !c->fault && c->at != c->end && read_varint(c, value);
}

static bool read_fixed(haul__cursor *c, haul__field *field, size_t size)
{
    if (left(c) < size)
        return stop(c, "a number is cut off");
    field->value = size == 4 ? haul__little_32(c->at) : haul__little_64(c->at);
    c->at += size;
    return true;
}

static bool read_bytes(haul__cursor *c, haul__field *field)
{
    uint64_t size;
    if (!read_varint(c, &size))
        return false;
    if (size > left(c))
        return stop(c, "a field is longer than the message that has it");
    field->bytes = (haul__bytes){c->at, (size_t)size};
    c->at += size;
    return true;
}

bool haul__next_field(haul__cursor *c, haul__field *field)
{
    uint64_t key;
    if (c->fault || c->at == c->end)
        return false;
    HAUL__ASSERT(c->at < c->end);
    *field = (haul__field){.place = c->at};
    if (!read_varint(c, &key))
        return false;
    if (key >> 3 == 0 || key >> 3 >= 1u << 29)
        return stop(c, "a field has a number that protobuf does not have");
    field->number = (uint32_t)(key >> 3);
    field->wire = (haul__wire)(key & 7);
    switch (key & 7) {
    case HAUL__VARINT: return read_varint(c, &field->value);
    case HAUL__FIXED64: return read_fixed(c, field, 8);
    case HAUL__LENGTH: return read_bytes(c, field);
    case HAUL__FIXED32: return read_fixed(c, field, 4);
    default: return stop(c, "a field has a wire type that proto3 does not have");
    }
}
