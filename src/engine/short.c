/* The driver's short path: an elementwise operation over row-major operands of one shape and one floating dtype, on a
 * device whose commands are done when they return, without autocast or a listener. Nothing has to be moved,
 * cast, copied or described then, and no temporary is made, so that the steps between the call and its kernel are few.
 * What it cannot do goes the long way, which gives the same results. */
#include <string.h>

#include "core/counter.h"
#include "engine/autocast.h"
#include "engine/driver.h"
#include "engine/layout.h"
#include "engine/node.h"
#include "events/events.h"
#include "kernels/kernels.h"
#include "memory/allocator.h"

static bool same_shape(const haul_tensor *a, const haul_tensor *b)
{
    if (a->count != b->count || a->shape.ndim != b->shape.ndim)
        return false;
    for (int d = 0; d < a->shape.ndim; d++)
        if (a->shape.dims[d] != b->shape.dims[d])
            return false;
    return true;
}

static bool is_quiet(void)
{
    return haul__tls.registered && !haul__autocast_begun() && !haul__is_dry() && !haul__watched(HAUL_EVENT_ALL);
}

bool haul__is_short(const haul__operation *operation, haul_tensor *const *operands, int count, bool *tracked)
{
    const haul_tensor *a = operation->pointwise ? operands[0] : NULL;
    if (!haul__is_tensor(a) || !a->contiguous || a->count == 0 || !(HAUL__FLOATS >> a->dtype & 1) || !is_quiet())
        return false;
    const haul_device *device = a->storage->device;
    if (!haul__device_is_synchronous(device) || !haul__device_computes(device))
        return false;
    bool tracks = haul__tracks(a);
    for (int i = 1; i < count; i++) {
        const haul_tensor *b = operands[i];
        if (!haul__is_tensor(b) || b->storage->device != device || b->dtype != a->dtype || !b->contiguous ||
            !same_shape(a, b))
            return false;
        tracks = tracks || haul__tracks(b);
    }
    *tracked = tracks && !haul__thread()->no_grad;
    return true;
}

/* Count elements in a row, of the result and then the operands. */
static haul_status launch(const haul__operation *operation, const double *numbers, haul_tensor *y,
                          haul_tensor *const *operands, int count)
{
    const haul_tensor *a = operands[0];
    haul_device       *device = a->storage->device;
    haul__region       buffers[3];
    pointwise_params   p; /* what the loop over one dimension reads */
    p.items = p.dims[0] = y->count;
    p.ndim = 1;
    p.pack = 1;
    p.strides[0][0] = 1;
    p.offsets[0] = y->offset;
    buffers[0] = (haul__region){y->storage, 0};
    for (int i = 0; i < count; i++) {
        p.strides[1 + i][0] = 1;
        p.offsets[1 + i] = operands[i]->offset;
        buffers[1 + i] = (haul__region){operands[i]->storage, 0};
    }
    if (numbers) {
        p.scalars[0] = haul__scalar_bits(a->dtype, numbers[0]);
        p.scalars[1] = haul__scalar_bits(a->dtype, numbers[1]);
    }
    const haul__kernel *kernel = haul__kernel_for(device, operation->kernel, a->dtype);
    if (!kernel)
        return haul_error_status();
    haul__command command; /* field by field: clearing all of it first would take as long as the rest */
    command.kind = HAUL__COMMAND_LAUNCH;
    command.stream = HAUL__STREAM_COMPUTE;
    command.operation = operation->name;
    command.device = device;
    command.buffers = buffers;
    command.write_count = 1;
    command.buffer_count = 1 + count;
    command.params = &p;
    command.params_size = sizeof p;
    command.slots = NULL;
    command.slot_count = 0;
    command.kernel = kernel;
    command.items = y->count;
    command.grain = HAUL__POINTWISE_GRAIN;
    command.checks = false;
    command.record = NULL;
    command.lanes = false;
    command.bytes = command.pattern_size = 0;
    command.pattern = 0;
    command.from_host = NULL;
    command.run = NULL;
    return haul__submit(&command);
}

static haul_tensor *result_like(const haul__operation *operation, const haul_tensor *a)
{
    haul_tensor *y = haul__tensor_new();
    if (!y)
        return NULL;
    y->dtype = operation->to_bool ? HAUL_BOOL : a->dtype;
    y->shape = a->shape;
    memcpy(y->strides, a->strides, sizeof y->strides);
    y->offset = 0;
    y->count = a->count;
    y->contiguous = true;
    y->storage =
        haul__storage_alloc(a->storage->device, (size_t)y->count * haul__dtype_size(y->dtype), operation->name);
    if (y->storage)
        return y;
    haul__object_release(y);
    return NULL;
}

static haul_status record(const haul__operation *operation, const void *attributes, haul_tensor *const *operands,
                          int count, haul_tensor *y)
{
    haul__call c; /* what nodes are made from */
    c.operation = operation;
    c.count = count;
    c.result_count = 1;
    c.records = false;
    c.wanted = c.saves = c.saves_results = 0;
    c.inputs = c.operands = c.own_operands;
    for (int i = 0; i < count; i++)
        c.own_operands[i] = operands[i];
    c.results[0] = y;
    if (operation->attributes_size)
        memcpy(c.attributes, attributes, operation->attributes_size);
    haul_status status = haul__find_gradients(&c);
    return status || !c.records ? status : haul__node_record(&c);
}

haul_tensor *haul__apply_short(const haul__operation *operation, const void *attributes, haul_tensor *const *operands,
                               int count, bool tracked)
{
    haul_tensor *y = result_like(operation, operands[0]);
    if (!y)
        return haul__failed_tensor();
    if (launch(operation, attributes, y, operands, count) ||
        (tracked && record(operation, attributes, operands, count, y))) {
        haul__object_release(y);
        return haul__failed_tensor();
    }
    return haul__result(haul__own(y, operation->name));
}

/* The target is like the result would be, and whatever shares its memory is read where it is written. */
static bool is_target(const haul__operation *operation, const haul_tensor *out, haul_tensor *const *operands, int count)
{
    const haul_tensor *a = operands[0];
    if (!haul__is_tensor(out) || out->storage->device != a->storage->device || !out->contiguous ||
        out->dtype != (operation->to_bool ? HAUL_BOOL : a->dtype) || !same_shape(out, a) || haul__tracks(out))
        return false;
    for (int i = 0; i < count; i++)
        if (operands[i]->storage == out->storage &&
            (operands[i]->offset != out->offset || operands[i]->dtype != out->dtype))
            return false;
    return true;
}

bool haul__is_short_into(haul_tensor *out, const haul__operation *operation, haul_tensor *const *operands, int count)
{
    bool tracked;
    return haul__is_short(operation, operands, count, &tracked) && !tracked &&
           is_target(operation, out, operands, count);
}

haul_status haul__apply_short_into(haul_tensor *out, const haul__operation *operation, const void *attributes,
                                   haul_tensor *const *operands, int count)
{
    haul_status status = launch(operation, attributes, out, operands, count);
    if (!status)
        haul__add_long(&out->storage->version, 1);
    return status;
}
