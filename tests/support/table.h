/* Commands on plain buffers for a backend's submit, in a line each, for tests of layers below the device layer. */
#ifndef SUPPORT_TABLE_H
#define SUPPORT_TABLE_H

#include "backends/command.h"
#include "support/ledger.h"

/* Bytes between `to` and `from`, NULL for what the command has not, at these offsets. */
static inline haul_status table_submit(const haul__backend *table, haul__stream *s, haul__command command,
                                       const haul__buffer *to, size_t to_offset, haul_device *from_device,
                                       const haul__buffer *from, size_t from_offset)
{
    haul__storage target = {.device = s->device, .bytes = to_offset + command.bytes};
    haul__storage source = {.device = from_device, .bytes = from_offset + command.bytes};
    haul__region  buffers[2];
    int           count = 0;
    if (to) {
        target.buffer = *to;
        buffers[count++] = (haul__region){&target, to_offset};
    }
    if (from) {
        source.buffer = *from;
        buffers[count++] = (haul__region){&source, from_offset};
    }
    command.operation = ledger_operation;
    command.device = s->device;
    command.buffers = buffers;
    command.write_count = to ? 1 : 0;
    command.buffer_count = count;
    return LEDGER_APART(table->submit(s, &command));
}

static inline haul_status table_write(const haul__backend *table, haul__stream *s, const haul__buffer *to,
                                      size_t offset, const void *from, size_t bytes)
{
    haul__command c = {.kind = HAUL__COMMAND_WRITE, .bytes = bytes, .from_host = from};
    return table_submit(table, s, c, to, offset, NULL, NULL, 0);
}

static inline haul_status table_read(const haul__backend *table, haul__stream *s, void *to, const haul__buffer *from,
                                     size_t offset, size_t bytes)
{
    haul__command c = {.kind = HAUL__COMMAND_READ, .bytes = bytes, .to_host = to};
    return table_submit(table, s, c, NULL, 0, s->device, from, offset);
}

static inline haul_status table_copy(const haul__backend *table, haul__stream *s, const haul__buffer *to,
                                     size_t to_offset, const haul__buffer *from, size_t from_offset, size_t bytes)
{
    haul__command c = {.kind = HAUL__COMMAND_COPY, .bytes = bytes};
    return table_submit(table, s, c, to, to_offset, s->device, from, from_offset);
}

static inline haul_status table_peer_copy(const haul__backend *table, haul__stream *s, const haul__buffer *to,
                                          haul_device *from_device, const haul__buffer *from, size_t bytes)
{
    haul__command c = {.kind = HAUL__COMMAND_PEER, .bytes = bytes};
    return table_submit(table, s, c, to, 0, from_device, from, 0);
}

static inline haul_status table_fill(const haul__backend *table, haul__stream *s, const haul__buffer *to, size_t offset,
                                     size_t bytes, const void *pattern, size_t pattern_size)
{
    haul__command c = {.kind = HAUL__COMMAND_FILL, .bytes = bytes, .pattern_size = pattern_size};
    memcpy(&c.pattern, pattern, pattern_size);
    return table_submit(table, s, c, to, offset, NULL, NULL, 0);
}

#endif
