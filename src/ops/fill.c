/* Setting every element of a tensor to one value. */
#include <string.h>

#include "core/half.h"
#include "engine/dispatch.h"

/* The bytes of one element: conversion as in haul_cast, values out of range give the nearest there is, NaN gives 0. */
static void encode(haul_dtype dtype, double value, unsigned char *pattern)
{
    uint64_t bits = haul__scalar_bits(dtype, value); /* a float's own bits, else an i64 */
    if (haul__is_half(dtype)) {
        bits = haul__half_encode(dtype, value);
    } else if (!haul_dtype_is_float(dtype)) {
        int64_t v = (int64_t)bits, least, most;
        haul__dtype_range(dtype, &least, &most);
        bits = dtype == HAUL_BOOL ? value != 0 : (uint64_t)(v < least ? least : v > most ? most : v);
    }
    size_t size = haul__dtype_size(dtype);
    for (size_t i = 0; i < size; i++)
        pattern[i] = (unsigned char)(bits >> 8 * i); /* devices are little-endian */
}

/* A tensor with gaps is filled by copying one element everywhere. */
static haul_status fill_strided(const char *operation, haul_tensor *out, double value)
{
    haul_scope  *scope = haul_scope_push();
    haul_tensor *one = scope ? haul__result(operation, out->storage->device, out->dtype, &HAUL_SCALAR_SHAPE) : NULL;
    haul_status  status = one ? haul_fill_into(one, value) : haul_error_status();
    if (status == HAUL_OK)
        status = haul_copy_into(out, one);
    haul_scope_pop(scope);
    return status;
}

static haul_status fill(const char *operation, haul_tensor *out, double value)
{
    haul_status status = haul__check_tensor(operation, "out", out);
    if (!status)
        status = haul__check_out(operation, out, &out->shape, out->dtype, out->storage->device);
    if (status)
        return status;
    if (!haul__tensor_is_dense(out))
        return fill_strided(operation, out, value);
    size_t        size = haul__dtype_size(out->dtype);
    haul__region  to = {out->storage, (size_t)out->offset * size};
    haul__command command = {.kind = HAUL__COMMAND_FILL,
                             .operation = operation,
                             .device = out->storage->device,
                             .buffers = &to,
                             .write_count = 1,
                             .buffer_count = 1,
                             .bytes = (size_t)out->count * size,
                             .pattern_size = size};
    encode(out->dtype, value, (unsigned char *)&command.pattern);
    status = haul__submit(&command);
    if (status == HAUL_OK)
        haul__written(out);
    return status;
}

haul_status haul_fill_into(haul_tensor *out, double value)
{
    return fill("haul_fill_into", out, value);
}

haul_status haul_zero_into(haul_tensor *out)
{
    return fill("haul_zero_into", out, 0);
}
