/* From a call to commands, and what a call costs. */
#include "engine/driver.h"
#include "kernels/kernels.h"
#include "memory/allocator.h"

#define KERNEL(dtypes, lanes, buffers, unit, name, columns, few)                                                       \
    _Static_assert(buffers <= HAUL__MAX_BUFFERS, "a launch has no room for the buffers of " #name);
#include "kernels/kernels.def"

/* What a dry run gets, since it launches nothing. */
static const haul__kernel nothing;

/* Compiled on first use; once more after the cache was given back, where the driver found no memory for its code. */
const haul__kernel *haul__kernel_for(haul_device *device, int id, haul_dtype dtype)
{
    haul__error_record  before;
    const haul__kernel *kernel = haul__kernel_known(device, id, dtype);
    if (kernel)
        return kernel;
    if (haul__is_dry())
        return &nothing;
    haul__error_save(&before);
    kernel = haul__kernel_get(device, id, dtype);
    if (!kernel && haul__room_made(device, haul_error_status(), &before))
        kernel = haul__kernel_get(device, id, dtype);
    return kernel;
}

/* Where the device has no memory for a record, once more after the cache was given back. */
static haul_status find_record(const haul__call *c, const haul__buffer **out)
{
    haul__error_record before;
    haul__error_save(&before);
    haul_status status = haul__index_record(c->device, c->operation->name, out);
    if (haul__room_made(c->device, status, &before))
        status = haul__index_record(c->device, c->operation->name, out);
    return status;
}

/* A command of the call, over buffers the first of which it writes. */
static inline haul__command command_of(const haul__call *c, haul__command_kind kind, const haul__region *buffers,
                                       int write_count, int read_count, const void *params, size_t params_size)
{
    return (haul__command){.kind = kind,
                           .operation = c->operation->name,
                           .device = c->device,
                           .buffers = buffers,
                           .write_count = write_count,
                           .buffer_count = write_count + read_count,
                           .params = params,
                           .params_size = params_size};
}

haul_status haul__launch_kernel(const haul__call *c, int id, haul_dtype dtype, haul_tensor *const *outs, int out_count,
                                haul_tensor *const *ins, int in_count, const void *params, size_t params_size,
                                int64_t items, int64_t grain)
{
    return haul__launch_with_slots(c, id, dtype, outs, out_count, ins, in_count, params, params_size, NULL, 0, items,
                                   grain);
}

static inline haul_status launch(const haul__call *c, int id, haul_dtype dtype, haul_tensor *const *outs, int out_count,
                                 haul_tensor *const *ins, int in_count, const void *params, size_t params_size,
                                 const haul__slot_use *slots, int slot_count, int64_t items, int64_t grain, bool checks)
{
    haul__region        buffers[HAUL__MAX_BUFFERS];
    const haul__buffer *record = NULL;
    if (items == 0 || !haul__device_computes(c->device) || haul__is_dry())
        return HAUL_OK;
    const haul__kernel *kernel = haul__kernel_for(c->device, id, dtype);
    if (!kernel || (checks && find_record(c, &record)))
        return haul_error_status();
    for (int i = 0; i < out_count; i++)
        buffers[i] = (haul__region){outs[i]->storage, 0};
    for (int i = 0; i < in_count; i++)
        buffers[out_count + i] = (haul__region){ins[i]->storage, 0};
    haul__command command = command_of(c, HAUL__COMMAND_LAUNCH, buffers, out_count, in_count, params, params_size);
    command.slots = slots;
    command.slot_count = slot_count;
    command.kernel = kernel;
    command.items = items;
    command.grain = grain;
    command.checks = checks;
    command.record = record;
    command.lanes = haul__kernel_info_of(id)->lanes;
    return haul__submit(&command);
}

haul_status haul__launch_with_slots(const haul__call *c, int id, haul_dtype dtype, haul_tensor *const *outs,
                                    int out_count, haul_tensor *const *ins, int in_count, const void *params,
                                    size_t params_size, const haul__slot_use *slots, int slot_count, int64_t items,
                                    int64_t grain)
{
    return launch(c, id, dtype, outs, out_count, ins, in_count, params, params_size, slots, slot_count, items, grain,
                  false);
}

haul_status haul__launch_checked(const haul__call *c, int id, haul_dtype dtype, haul_tensor *const *outs, int out_count,
                                 haul_tensor *const *ins, int in_count, const void *params, size_t params_size,
                                 int64_t items, int64_t grain)
{
    return launch(c, id, dtype, outs, out_count, ins, in_count, params, params_size, NULL, 0, items, grain, true);
}

/* ---- library calls ---- */

/* The command's buffers: the result's, scratch memory's where there is some, the operands'. A dry run takes the scratch
 * memory and no more. */
static haul_status call_once(const haul__call *c, haul_status (*run)(haul__stream *, const haul__command *),
                             const void *params, size_t params_size, haul_tensor *out, haul_tensor *const *ins,
                             int in_count, size_t scratch_bytes)
{
    haul__storage *scratch = haul__scratch_alloc(c->device, scratch_bytes);
    haul__region   buffers[2 + HAUL__MAX_LIBRARY_INPUTS] = {{out->storage, 0}, {scratch, 0}};
    int            write_count = scratch ? 2 : 1;
    for (int i = 0; i < in_count; i++)
        buffers[write_count + i] = (haul__region){ins[i]->storage, 0};
    haul__command command = command_of(c, HAUL__COMMAND_LIBRARY, buffers, write_count, in_count, params, params_size);
    command.run = run;
    haul_status status = haul__is_dry() ? HAUL_OK : haul__submit(&command);
    haul__object_release(scratch);
    return status;
}

haul_status haul__call_library(const haul__call *c, haul_status (*run)(haul__stream *, const haul__command *),
                               const void *params, size_t params_size, haul_tensor *out, haul_tensor *const *ins,
                               int in_count, size_t scratch_bytes)
{
    haul__error_record before;
    haul__error_save(&before);
    haul_status status = call_once(c, run, params, params_size, out, ins, in_count, scratch_bytes);
    if (haul__room_made(c->device, status, &before))
        status = call_once(c, run, params, params_size, out, ins, in_count, scratch_bytes);
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
