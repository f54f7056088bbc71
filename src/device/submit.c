/* Commands: wait for what the storages' uses demand, hand the command to the backend, leave a mark.
 *
 * A command that is refused leaves its storages unmarked and untouched. Nothing is ever submitted to a device without
 * data. Streams of synchronous backends are not locked: their commands run on the calling threads, side by side. */
#include "core/alloc.h"
#include "device/stream.h"

/* A command under way: where it runs and what it touches. */
typedef struct command {
    haul__stream         *stream;
    haul__storage *const *reads, *const *writes;
    int read_count, write_count;
} command;

static haul_status command_begin(const command *c, const char *origin)
{
    haul_status status = haul__device_check(c->stream->device, NULL, "device");
    for (int i = 0; i < c->read_count && !status; i++)
        status = haul__uses_wait(c->reads[i]->uses, c->stream, false, origin);
    for (int i = 0; i < c->write_count && !status; i++)
        status = haul__uses_wait(c->writes[i]->uses, c->stream, true, origin);
    if (!status && !c->stream->device->backend->synchronous)
        pthread_mutex_lock(&c->stream->lock);
    return status;
}

/* After a successful begin. `status` is the backend's answer; *done says when the command will be done. */
static haul_status command_end(const command *c, haul_status status, haul__use *done)
{
    haul__use use = {0};
    if (!c->stream->device->backend->synchronous) {
        if (!status)
            use = haul__stream_advance(c->stream);
        pthread_mutex_unlock(&c->stream->lock);
    }
    if (use.stream) {
        for (int i = 0; i < c->read_count; i++)
            haul__uses_mark(c->reads[i]->uses, use, false);
        for (int i = 0; i < c->write_count; i++)
            haul__uses_mark(c->writes[i]->uses, use, true);
    }
    if (done)
        *done = use;
    return status;
}

static haul_status fault(haul__fault kind, const char *origin, const haul_device *device)
{
    if (!haul__fault_point(kind))
        return HAUL_OK;
    return haul__fail(HAUL_BACKEND, origin, NULL, "%s refused a %s (a fault injected by a test)", device->name,
                      kind == HAUL__FAULT_LAUNCH ? "launch" : "copy");
}

haul_status haul__submit_launch(haul_device *device, const haul__launch *launch, haul__storage *const *reads,
                                int read_count, haul__storage *const *writes, int write_count, const char *origin)
{
    if (device->backend->no_data || launch->items == 0)
        return HAUL_OK;
    command     c = {device->compute, reads, writes, read_count, write_count};
    haul_status status = fault(HAUL__FAULT_LAUNCH, origin, device);
    if (!status)
        status = command_begin(&c, origin);
    if (status)
        return status;
    return command_end(&c, device->backend->launch(c.stream, launch), NULL);
}

haul_status haul__submit_begin(haul_device *device, haul__storage *const *reads, int read_count,
                               haul__storage *const *writes, int write_count)
{
    command     c = {device->compute, reads, writes, read_count, write_count};
    haul_status status = fault(HAUL__FAULT_LAUNCH, NULL, device);
    return status ? status : command_begin(&c, NULL);
}

haul_status haul__submit_end(haul_device *device, haul__storage *const *reads, int read_count,
                             haul__storage *const *writes, int write_count, haul_status status)
{
    command c = {device->compute, reads, writes, read_count, write_count};
    return command_end(&c, status, NULL);
}

haul_status haul__submit_fill(haul__storage *to, size_t offset, size_t bytes, const void *pattern, size_t pattern_size,
                              const char *origin)
{
    haul_device *device = to->device;
    if (device->backend->no_data || bytes == 0)
        return HAUL_OK;
    command     c = {device->compute, NULL, &to, 0, 1};
    haul_status status = fault(HAUL__FAULT_COPY, origin, device);
    if (!status)
        status = command_begin(&c, origin);
    if (status)
        return status;
    return command_end(&c, device->backend->fill(c.stream, &to->buffer, offset, bytes, pattern, pattern_size), NULL);
}

haul_status haul__submit_copy(haul__storage *to, size_t to_offset, haul__storage *from, size_t from_offset,
                              size_t bytes, const char *origin)
{
    haul_device *device = to->device;
    if (device->backend->no_data || bytes == 0)
        return HAUL_OK;
    command     c = {device->compute, &from, &to, 1, 1};
    haul_status status = fault(HAUL__FAULT_COPY, origin, device);
    if (!status)
        status = command_begin(&c, origin);
    if (status)
        return status;
    status = device->backend->copy(c.stream, &to->buffer, to_offset, &from->buffer, from_offset, bytes);
    return command_end(&c, status, NULL);
}

haul_status haul__submit_write(haul__storage *to, size_t offset, const void *host, haul__storage *host_owner,
                               size_t bytes, const char *origin)
{
    haul_device *device = to->device;
    haul__use    done;
    if (device->backend->no_data || bytes == 0)
        return HAUL_OK;
    command     c = {device->upload, &host_owner, &to, host_owner ? 1 : 0, 1};
    haul_status status = fault(HAUL__FAULT_COPY, origin, device);
    if (!status)
        status = command_begin(&c, origin);
    if (status)
        return status;
    status = command_end(&c, device->backend->write(c.stream, &to->buffer, offset, host, bytes), &done);
    return status || host_owner ? status : haul__use_wait_host(done, origin);
}

haul_status haul__submit_read(void *host, haul__storage *host_owner, haul__storage *from, size_t offset, size_t bytes,
                              const char *origin)
{
    haul_device *device = from->device;
    haul__use    done;
    if (device->backend->no_data || bytes == 0)
        return HAUL_OK;
    command     c = {device->download, &from, &host_owner, 1, host_owner ? 1 : 0};
    haul_status status = fault(HAUL__FAULT_COPY, origin, device);
    if (!status)
        status = command_begin(&c, origin);
    if (status)
        return status;
    status = command_end(&c, device->backend->read(c.stream, host, &from->buffer, offset, bytes), &done);
    return status || host_owner ? status : haul__use_wait_host(done, origin);
}

haul_status haul__submit_peer(haul__storage *to, size_t to_offset, haul__storage *from, size_t from_offset,
                              size_t bytes, const char *origin)
{
    haul_device *device = to->device;
    if (device->backend != from->device->backend || !device->backend->peer_copy)
        return HAUL_UNSUPPORTED;
    if (bytes == 0)
        return HAUL_OK;
    command     c = {device->upload, &from, &to, 1, 1};
    haul_status status = fault(HAUL__FAULT_COPY, origin, device);
    if (!status)
        status = command_begin(&c, origin);
    if (status)
        return status;
    status =
        device->backend->peer_copy(c.stream, &to->buffer, to_offset, from->device, &from->buffer, from_offset, bytes);
    return command_end(&c, status, NULL);
}
