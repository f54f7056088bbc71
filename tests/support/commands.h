/* Commands that move bytes, in a line each, for tests of layers below the copy function. Offsets are 0. */
#ifndef SUPPORT_COMMANDS_H
#define SUPPORT_COMMANDS_H

#include "device/device.h"
#include "support/ledger.h"

static inline haul_status submit_apart(const haul__command *command)
{
    return LEDGER_APART(haul__submit(command));
}

/* From the memory of `owner`, or, where that is NULL, from the caller's. */
static inline haul_status submit_write(haul__storage *to, const void *host, haul__storage *owner, size_t bytes)
{
    return submit_apart(&(haul__command){.kind = HAUL__COMMAND_WRITE,
                                         .stream = HAUL__STREAM_UPLOAD,
                                         .operation = ledger_operation,
                                         .device = to->device,
                                         .buffers = (haul__region[]){{to, 0}, {owner, 0}},
                                         .write_count = 1,
                                         .buffer_count = owner ? 2 : 1,
                                         .bytes = bytes,
                                         .from_host = host});
}

/* To the memory of `owner`, or, where that is NULL, to the caller's. */
static inline haul_status submit_read(void *host, haul__storage *owner, haul__storage *from, size_t bytes)
{
    haul__region buffers[] = {{owner, 0}, {from, 0}};
    return submit_apart(&(haul__command){.kind = HAUL__COMMAND_READ,
                                         .stream = HAUL__STREAM_DOWNLOAD,
                                         .operation = ledger_operation,
                                         .device = from->device,
                                         .buffers = owner ? buffers : buffers + 1,
                                         .write_count = owner ? 1 : 0,
                                         .buffer_count = owner ? 2 : 1,
                                         .bytes = bytes,
                                         .to_host = host});
}

static inline haul_status submit_fill(haul__storage *to, size_t bytes, unsigned char value)
{
    haul__command command = {.kind = HAUL__COMMAND_FILL,
                             .operation = ledger_operation,
                             .device = to->device,
                             .buffers = &(haul__region){to, 0},
                             .write_count = 1,
                             .buffer_count = 1,
                             .bytes = bytes,
                             .pattern_size = 1};
    *(unsigned char *)&command.pattern = value;
    return submit_apart(&command);
}

#endif
