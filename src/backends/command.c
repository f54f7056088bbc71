/* Running commands, and the host memory of writes and reads. */
#include "backends/command.h"

#include "base/assert.h"

/* True if the bytes of a copy or fill are in each of its buffers. A kernel may read an element several times. */
static bool is_within(const haul__command *c)
{
    for (int i = 0; !c->kernel && i < c->buffer_count; i++) {
        const size_t all = c->buffers[i].storage->bytes, from = c->buffers[i].offset;
        if (from > all || c->bytes > all - from)
            return false;
    }
    return true;
}

haul_status haul__command_run(haul__command_fn *const functions[HAUL__COMMAND_CALLBACK], haul__stream *stream,
                              const haul__command *command)
{
    if (command->kind == HAUL__COMMAND_LIBRARY || command->kind == HAUL__COMMAND_CALLBACK)
        return command->run(stream, command);
    if (command->kind == HAUL__COMMAND_LAUNCH ? command->items <= 0 : command->bytes == 0)
        return HAUL_OK;
    HAUL__ASSERT((size_t)command->kind < HAUL__COMMAND_CALLBACK && functions[command->kind]);
    HAUL__ASSERT(is_within(command));
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
