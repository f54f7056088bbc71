/* Setting every element of a tensor to one value. */
#include <string.h>

#include "base/assert.h"
#include "engine/copy.h"
#include "engine/operation.h"
#include "memory/allocator.h"

/* The bytes of one element. */
static void encode(haul_dtype dtype, double value, unsigned char *pattern)
{
    const uint64_t bits = haul__element_bits(dtype, value);
    const size_t   size = haul__dtype_size(dtype);
    for (size_t i = 0; i < size; i++)
        pattern[i] = (unsigned char)(bits >> 8 * i); /* devices are little-endian */
}

static haul_status fill_dense(haul_tensor *to, double value, const char *origin)
{
    size_t        size = haul__dtype_size(to->dtype);
    haul__region  region = {to->storage, (size_t)to->offset * size};
    haul__command command = {.kind = HAUL__COMMAND_FILL,
                             .operation = origin,
                             .device = to->storage->device,
                             .buffers = &region,
                             .write_count = 1,
                             .buffer_count = 1,
                             .bytes = (size_t)to->count * size,
                             .pattern_size = size};
    HAUL__ASSERT(size <= sizeof command.pattern && region.offset + command.bytes <= to->storage->bytes);
    encode(to->dtype, value, (unsigned char *)&command.pattern);
    return haul__submit(&command);
}

/* By broadcasting one element, which is in `storage`; NULL is an error. */
static haul_status fill_by_kernel(haul_tensor *to, haul__storage *storage, double value, const char *origin)
{
    HAUL__ASSERT(!storage || storage->device == to->storage->device);
    haul_tensor *one = haul__tensor_wrap(storage, to->dtype, &HAUL_SCALAR_SHAPE, NULL, 0);
    haul_status  status = haul__failed(one) ? haul_error_status() : fill_dense(one, value, origin);
    if (!status)
        status = haul__copy_elements(to, one, origin);
    haul__object_release(one);
    return status;
}

/* True if the device's own command would set elements of this pattern one by one. Few are not worth a kernel. */
static bool is_slow(const haul_tensor *to, double value)
{
    enum { FEW = 1024 };
    uint32_t halves[2];
    if (!haul__device_fills_words(to->storage->device) || haul__dtype_size(to->dtype) <= sizeof *halves ||
        to->count < FEW)
        return false;
    encode(to->dtype, value, (unsigned char *)halves);
    return halves[0] != halves[1];
}

/* Without memory for the element, dense memory is filled by the device's own command. */
haul_status haul__fill_elements(haul_tensor *to, double value, const char *origin)
{
    haul_device   *device = to->storage->device;
    const size_t   size = haul__dtype_size(to->dtype);
    const bool     dense = haul__tensor_is_gap_free(to);
    haul__storage *storage = NULL;
    HAUL__ASSERT(haul__tensor_is_sound(to));
    if (to->count == 0 || !haul__device_computes(device))
        return HAUL_OK;
    if (!dense)
        storage = haul__storage_alloc(device, size, origin);
    else if (haul__device_moves_by_kernel(device, haul_tensor_bytes(to)) || is_slow(to, value))
        storage = haul__storage_alloc_spare(device, size, origin);
    if (dense && !storage)
        return fill_dense(to, value, origin);
    haul_status status = fill_by_kernel(to, storage, value, origin);
    haul__object_release(storage);
    return status;
}

/* ---- the operations ---- */

typedef struct fill_attributes {
    double value;
} fill_attributes;

static haul_status infer(haul__call *c)
{
    const fill_attributes *a = haul__attributes(c);
    haul_dtype             dtype = c->operands[0]->dtype;
    if (haul__dtype_holds(dtype, a->value))
        return HAUL_OK;
    return haul__refuse_number(c->operation->name, "value", dtype, a->value, "fill a tensor of another dtype");
}

static haul_status compute(haul__call *c)
{
    return haul__fill_elements(c->operands[0], ((const fill_attributes *)haul__attributes(c))->value,
                               c->operation->name);
}

HAUL__OPERATION(fill_into) = {
    .name = "haul_fill_into",
    .operands = {{"out", .written = true, .layout = HAUL__ANY_STRIDES}},
    .dtypes = HAUL__EVERY,
    .attributes_size = HAUL__ATTRIBUTES(fill_attributes),
    .infer = infer,
    .compute = compute,
};

HAUL__OPERATION(zero_into) = {
    .name = "haul_zero_into",
    .operands = {{"out", .written = true, .layout = HAUL__ANY_STRIDES}},
    .dtypes = HAUL__EVERY,
    .attributes_size = HAUL__ATTRIBUTES(fill_attributes),
    .infer = infer,
    .compute = compute,
};

haul_status haul_fill_into(haul_tensor *out, double value)
{
    return HAUL__APPLY_STATUS(fill_into, &(fill_attributes){value}, out);
}

haul_status haul_zero_into(haul_tensor *out)
{
    return HAUL__APPLY_STATUS(zero_into, &(fill_attributes){0}, out);
}
