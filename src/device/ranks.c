#include "device/ranks.h"

#include <string.h>

#include "base/assert.h"

const haul__rank_library *haul__device_ranks(const haul_device *device)
{
    return device->backend == &haul__backend_cuda ? &haul__cuda_ranks : NULL;
}

static haul_status run(haul__stream *s, const haul__command *c)
{
    const haul__rank_exchange *e;
    memcpy(&e, c->params, sizeof e);
    HAUL__ASSERT(c->params_size == sizeof e && e->device == s->device && s == s->device->download);
    return haul__device_ranks(s->device)->exchange(s, e->connection, e->messages, e->count);
}

haul_status haul__ranks_exchange(const haul__rank_exchange *exchange)
{
    return haul__submit(&(haul__command){.kind = HAUL__COMMAND_LIBRARY,
                                         .stream = HAUL__STREAM_DOWNLOAD,
                                         .operation = exchange->operation,
                                         .device = exchange->device,
                                         .buffers = exchange->buffers,
                                         .write_count = exchange->write_count,
                                         .buffer_count = exchange->buffer_count,
                                         .params = &exchange,
                                         .params_size = sizeof exchange,
                                         .run = run});
}
