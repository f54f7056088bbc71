/* Commands that outlive the call that submitted them. */
#include "backends/command.h"

#include <string.h>

#include "base/alloc.h"
#include "core/error.h"

static size_t rounded(size_t bytes)
{
    return (bytes + 15) / 16 * 16;
}

/* One block that begins with the buffers. */
haul_status haul__command_copy(haul__command *out, const haul__command *command)
{
    size_t buffers = rounded((size_t)command->buffer_count * sizeof *command->buffers);
    size_t slots = rounded((size_t)command->slot_count * sizeof *command->slots);
    char  *block = haul__malloc(buffers + slots + command->params_size + 1);
    if (!block)
        return haul__fail_memory(command->operation, buffers + slots + command->params_size + 1);
    *out = *command;
    out->buffers = (haul__region *)block;
    out->slots = (haul__slot_use *)(block + buffers);
    out->params = block + buffers + slots;
    if (command->buffer_count > 0)
        memcpy(block, command->buffers, (size_t)command->buffer_count * sizeof *command->buffers);
    if (command->slot_count > 0)
        memcpy(block + buffers, command->slots, (size_t)command->slot_count * sizeof *command->slots);
    if (command->params_size > 0)
        memcpy(block + buffers + slots, command->params, command->params_size);
    return HAUL_OK;
}

void haul__command_free(haul__command *copy)
{
    haul__free((haul__region *)copy->buffers);
}

haul__command haul__command_with(const haul__command *command, const haul__slot_values *values, void *room)
{
    haul__command changed = *command;
    if (command->slot_count > 0 && values) {
        memcpy(room, command->params, command->params_size);
        haul__slots_write(room, command->slots, command->slot_count, values);
        changed.params = room;
    }
    return changed;
}

haul_status haul__command_run(haul__command_fn *const functions[HAUL__COMMAND_CALLBACK], haul__stream *stream,
                              const haul__command *command)
{
    if (command->kind == HAUL__COMMAND_LIBRARY || command->kind == HAUL__COMMAND_CALLBACK)
        return command->run(stream, command);
    if (command->kind == HAUL__COMMAND_LAUNCH ? command->items <= 0 : command->bytes == 0)
        return HAUL_OK;
    return functions[command->kind](stream, command);
}

static char *host_of(const haul__region *r)
{
    return (char *)r->storage->buffer.host + r->offset;
}

const void *haul__command_source(const haul__command *write)
{
    return write->buffer_count > 1 ? host_of(&write->buffers[1]) : write->from_host;
}

void *haul__command_target(const haul__command *read)
{
    return read->buffer_count > 1 ? host_of(&read->buffers[0]) : read->to_host;
}
