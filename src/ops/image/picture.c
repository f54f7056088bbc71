/* What operations on pictures share. */
#include "ops/image/picture.h"
#include "base/assert.h"

haul_status haul__check_picture(const haul__call *c, int channels, bool grey)
{
    const haul_shape *shape = &c->operands[0]->shape;
    if (shape->ndim < (channels ? 3 : 2))
        return haul__refuse_shape(c, 0, channels ? "pictures [..., C, H, W] are expected" : "[..., H, W] is expected");
    const int64_t has = channels ? shape->dims[shape->ndim - 3] : 0;
    if (channels && has != channels && !(grey && has == 1))
        return haul__refuse_shape(c, 0,
                                  grey ? "pictures with 1 or 3 channels, [..., C, H, W], are expected"
                                       : "pictures with 3 channels, [..., 3, H, W], are expected");
    if (shape->dims[shape->ndim - 1] < 1 || shape->dims[shape->ndim - 2] < 1)
        return haul__refuse_shape(c, 0, "at least one row and one column are expected");
    return haul_set_device(c->device); /* the call's scope restores the device */
}

haul_status haul__give_picture(haul__call *c, haul_tensor *y)
{
    c->results[0] = y == c->operands[0] ? haul_clone(y) : y;
    return haul__failed(c->results[0]) ? haul_error_status() : HAUL_OK;
}

haul_tensor *haul__picture_wide(haul_tensor *x)
{
    return haul_cast(x, haul_tensor_dtype(x) == HAUL_F64 ? HAUL_F64 : HAUL_F32);
}

double haul__picture_white(haul_dtype dtype)
{
    return dtype == HAUL_U8 ? 255 : 1;
}

haul_tensor *haul__picture_rounded(haul_tensor *y, haul_dtype dtype)
{
    return haul_cast(dtype == HAUL_U8 ? haul_clamp(haul_round(y), 0, 255) : y, dtype);
}

haul_tensor *haul__picture_cut(haul_tensor *y, haul_dtype dtype)
{
    return haul_cast(haul_clamp(y, 0, haul__picture_white(dtype)), dtype);
}

haul_tensor *haul__picture_planes(haul_tensor *x)
{
    const haul_shape shape = haul_tensor_shape(x);
    const int        last = shape.ndim - 1;
    if (shape.ndim < 2)
        return haul__failed_tensor();
    const int64_t plane = shape.dims[last] * shape.dims[last - 1];
    HAUL__ASSERT(plane > 0);
    return haul_reshape(x, HAUL_SHAPE(haul_tensor_count(x) / plane, 1, shape.dims[last - 1], shape.dims[last]));
}

haul_tensor *haul__picture_of_planes(haul_tensor *y, const haul_shape *x, int64_t rows, int64_t columns)
{
    haul_shape shape = *x;
    shape.dims[shape.ndim - 2] = rows;
    shape.dims[shape.ndim - 1] = columns;
    return haul_reshape(y, shape);
}
