/* Turns calls into commands, and computes what a call costs. */
#include <string.h>

#include "base/assert.h"
#include "device/launch_now.h"
#include "device/residency.h"
#include "engine/collect.h"
#include "engine/driver.h"
#include "engine/dry_call.h"
#include "kernels/kernels.h"
#include "memory/allocator.h"
#include "memory/spill/spill.h"

#define KERNEL(dtypes, lanes, buffers, unit, name, columns, few)                                                       \
    _Static_assert(buffers <= HAUL__MAX_BUFFERS, "a launch has no room for the buffers of " #name);
#include "kernels/kernels.def"

/* What a dry run returns as its kernel, because it launches nothing. */
static const haul__kernel nothing;

/* Compiles a kernel on first use. If the driver finds no memory for its code, empties the cache and tries once more. */
const haul__kernel *haul__kernel_for(haul_device *device, int id, haul_dtype dtype)
{
    haul__error_record  before;
    const haul__kernel *kernel = haul__kernel_known(device, id, dtype);
    if (kernel)
        return kernel;
    if (haul__is_dry()) {
        haul__kernel_foresee(device, id, dtype);
        return &nothing;
    }
    haul__error_save(&before);
    kernel = haul__kernel_get(device, id, dtype);
    if (!kernel && haul__retry_without_cache(device, haul_error_status(), &before))
        kernel = haul__kernel_get(device, id, dtype);
    return kernel;
}

/* If the device has no memory for a record, empties the cache and tries once more. */
static haul_status find_record(const haul__call *c, const haul__buffer **out)
{
    haul__error_record before;
    haul__error_save(&before);
    haul_status status = haul__index_fault_buffer(c->device, c->operation->name, out);
    if (haul__retry_without_cache(c->device, status, &before))
        status = haul__index_fault_buffer(c->device, c->operation->name, out);
    return status;
}

__attribute__((noinline)) haul_status haul__launch_command(haul__command *command, int id,
                                                           haul__storage *const *storages)
{
    HAUL__ASSERT(command->buffer_count <= HAUL__MAX_BUFFERS && command->write_count <= command->buffer_count);
    haul__region buffers[HAUL__MAX_BUFFERS];
    for (int i = 0; i < command->buffer_count; i++) {
        HAUL__ASSERT(storages[i] && storages[i]->device == command->device);
        buffers[i] = (haul__region){storages[i], 0};
    }
    command->kind = HAUL__COMMAND_LAUNCH;
    command->buffers = buffers;
    command->lanes = haul__kernel_info_of(id)->lanes;
    return haul__submit(command);
}

/* The launch as a command. */
__attribute__((noinline)) static haul_status submit(haul__command *command, const haul__launch *l)
{
    HAUL__ASSERT(l->out_count >= 0 && l->in_count >= 0 && l->out_count + l->in_count <= HAUL__MAX_BUFFERS);
    haul__storage *storages[HAUL__MAX_BUFFERS];
    for (int i = 0; i < l->out_count; i++)
        storages[i] = l->outs[i]->storage;
    for (int i = 0; i < l->in_count; i++)
        storages[l->out_count + i] = l->ins[i]->storage;
    return haul__launch_command(command, l->kernel, storages);
}

__attribute__((noinline)) haul_status haul__launch_dry(haul_device *device, const haul__launch *l)
{
    HAUL__ASSERT(l->out_count >= 0 && l->in_count >= 0 && l->out_count + l->in_count <= HAUL__MAX_BUFFERS);
    haul__region buffers[HAUL__MAX_BUFFERS];
    for (int i = 0; i < l->out_count; i++)
        buffers[i] = (haul__region){l->outs[i]->storage, 0};
    for (int i = 0; i < l->in_count; i++)
        buffers[l->out_count + i] = (haul__region){l->ins[i]->storage, 0};
    return haul__residency_plan(&(haul__command){.device = device,
                                                 .buffers = buffers,
                                                 .write_count = l->out_count,
                                                 .buffer_count = l->out_count + l->in_count,
                                                 .checks = l->checks});
}

/* Takes the host addresses of the tensors' storages; returns false if a stream uses one of them. */
static inline bool take_hosts(haul_tensor *const *tensors, int count, void **hosts)
{
    for (int i = 0; i < count; i++) {
        if (haul__storage_is_used(tensors[i]->storage))
            return false;
        hosts[i] = tensors[i]->storage->buffer.host;
    }
    return true;
}

/* In a dry run, or while launches are collected. */
__attribute__((noinline)) static haul_status launch_elsewhere(const haul__call *c, const haul__launch *l)
{
    if (haul__collects()) {
        const haul__kernel *kernel = haul__kernel_for(c->device, l->kernel, l->dtype);
        return kernel ? haul__collect(kernel, l) : haul_error_status();
    }
    haul__kernel_foresee(c->device, l->kernel, l->dtype);
    haul__dry_call_launch(l);
    return haul__launch_dry(c->device, l);
}

haul_status haul__launch_for(const haul__call *c, const haul__launch *l)
{
    void               *hosts[HAUL__MAX_BUFFERS];
    const haul__buffer *record = NULL;
    if (l->items == 0 || !haul__device_computes(c->device))
        return HAUL_OK;
    HAUL__ASSERT(l->items > 0 && l->out_count + l->in_count <= HAUL__MAX_BUFFERS);
    if (haul__is_trial() && (haul__is_dry() || haul__collects()))
        return launch_elsewhere(c, l);
    const haul__kernel *kernel = haul__kernel_for(c->device, l->kernel, l->dtype);
    if (!kernel || (l->checks && find_record(c, &record)))
        return haul_error_status();
    if (!l->checks && haul__launches_now(c->device, kernel) && take_hosts(l->outs, l->out_count, hosts) &&
        take_hosts(l->ins, l->in_count, hosts + l->out_count)) {
        haul__function_run(kernel->function, hosts, l->params, l->items, l->grain);
        return HAUL_OK;
    }
    return submit(&(haul__command){.operation = c->operation->name,
                                   .device = c->device,
                                   .write_count = l->out_count,
                                   .buffer_count = l->out_count + l->in_count,
                                   .params = l->params,
                                   .params_size = l->params_size,
                                   .kernel = kernel,
                                   .items = l->items,
                                   .grain = l->grain,
                                   .checks = l->checks,
                                   .record = record},
                  l);
}

/* ---- library calls ---- */

static haul__storage *take_scratch(const haul__call *c, const haul__library *l, size_t bytes)
{
    haul_tensor *used[HAUL__MAX_LIBRARY_OUTPUTS + HAUL__MAX_LIBRARY_INPUTS];
    memcpy(used, l->outs, (size_t)l->out_count * sizeof *used);
    if (l->in_count)
        memcpy(used + l->out_count, l->ins, (size_t)l->in_count * sizeof *used);
    HAUL__ASSERT(bytes > 0 && l->out_count <= HAUL__MAX_LIBRARY_OUTPUTS && l->in_count <= HAUL__MAX_LIBRARY_INPUTS);
    haul__storage *scratch = haul__scratch_alloc(c->device, bytes, used, l->out_count + l->in_count);
    if (!scratch)
        *l->refused = (int64_t)bytes;
    return scratch;
}

/* The command's buffers: the results, scratch memory if there is any, the operands. A dry run only allocates the
 * scratch memory. */
static haul_status call_once(const haul__call *c, const haul__library *l, size_t scratch_bytes)
{
    haul__storage *scratch = scratch_bytes ? take_scratch(c, l, scratch_bytes) : NULL;
    haul__region   buffers[HAUL__MAX_LIBRARY_OUTPUTS + 1 + HAUL__MAX_LIBRARY_INPUTS];
    int            write_count = l->out_count + (scratch ? 1 : 0);
    HAUL__ASSERT(!scratch || scratch->bytes >= scratch_bytes);
    HAUL__ASSERT(l->out_count <= HAUL__MAX_LIBRARY_OUTPUTS && l->in_count <= HAUL__MAX_LIBRARY_INPUTS);
    for (int i = 0; i < l->out_count; i++)
        buffers[i] = (haul__region){l->outs[i]->storage, 0};
    buffers[l->out_count] = (haul__region){scratch, 0};
    for (int i = 0; i < l->in_count; i++)
        buffers[write_count + i] = (haul__region){l->ins[i]->storage, 0};
    haul__command command = {.kind = HAUL__COMMAND_LIBRARY,
                             .operation = c->operation->name,
                             .device = c->device,
                             .buffers = buffers,
                             .write_count = write_count,
                             .buffer_count = write_count + l->in_count,
                             .params = l->params,
                             .params_size = l->params_size,
                             .run = l->run,
                             .by = l->by};
    haul_status   status = haul__is_dry() ? haul__residency_plan(&command) : haul__submit(&command);
    haul__object_release(scratch);
    return status;
}

haul_status haul__call_library(const haul__call *c, const haul__library *l)
{
    haul__error_record before;
    haul__error_save(&before);
    haul_status status = call_once(c, l, l->scratch_bytes);
    if (haul__retry_without_cache(c->device, status, &before)) {
        *l->refused = 0;
        status = call_once(c, l, l->scratch_bytes);
    }
    if (status == HAUL_OUT_OF_MEMORY && l->scratch_bytes &&
        haul__may_spill()) { /* operands that return need its room */
        haul__error_restore(&before);
        *l->refused = (int64_t)l->scratch_bytes;
        status = call_once(c, l, 0);
    }
    return status;
}

/* ---- cost ---- */

static int64_t bytes_of(const haul_tensor *t)
{
    return t && !haul__is_none(t) ? t->count * (int64_t)haul__dtype_size(t->dtype) : 0;
}

static int64_t elements_of(const haul_tensor *t)
{
    return t && !haul__is_none(t) ? t->count : 0;
}

int64_t haul__call_bytes(const haul__call *c)
{
    int64_t bytes = 0;
    for (int i = 0; i < c->count; i++)
        bytes += bytes_of(c->operands[i]) * (i < 64 && (c->writes >> i & 1) ? 2 : 1);
    for (int i = 0; i < c->result_count; i++)
        bytes += bytes_of(c->results[i]);
    return bytes;
}

static int64_t most_elements(const haul__call *c)
{
    int64_t most = 0;
    for (int i = 0; i < c->count; i++)
        most = elements_of(c->operands[i]) > most ? elements_of(c->operands[i]) : most;
    for (int i = 0; i < c->result_count; i++)
        most = elements_of(c->results[i]) > most ? elements_of(c->results[i]) : most;
    return most;
}

haul__cost haul__cost_of(const haul__call *c)
{
    if (c->view_of >= 0 || c->operation->compose)
        return (haul__cost){0, 0};
    if (c->operation->cost)
        return c->operation->cost(c);
    return (haul__cost){.flops = c->operation->flops * (double)most_elements(c), .bytes = haul__call_bytes(c)};
}
