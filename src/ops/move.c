/* Operations that move, copy and convert: the elements stay what they are, so the gradient of each is what comes in,
 * which the backward pass brings to the dtype and device of the input. */
#include "engine/dispatch.h"

static haul_status pass_on(haul__node *node, haul_tensor *g, haul_tensor **out)
{
    (void)node;
    out[0] = g;
    return HAUL_OK;
}

static haul_tensor *finish(const char *operation, haul_tensor *y, haul_tensor *x)
{
    if (!y || !haul_dtype_is_float(y->dtype))
        return y;
    return haul__finish(y, &(haul__record){.name = operation, .backward = pass_on, .inputs = &x, .input_count = 1});
}

static haul_status check_operand(const char *operation, const haul_tensor *x)
{
    return haul__check_tensor(operation, "x", x);
}

/* A dense tensor of no scope, with the order of dimensions of `like`, for a copy to or from `partner`. */
static haul_tensor *temporary(const char *operation, haul_device *device, haul_device *partner, haul_dtype dtype,
                              const haul_tensor *like)
{
    int64_t        strides[HAUL_MAX_DIMS];
    size_t         bytes = (size_t)like->count * haul__dtype_size(dtype);
    haul__storage *storage = device->backend->host_memory ? haul__host_alloc_for(partner, bytes, operation)
                                                          : haul__storage_alloc(device, bytes, operation);
    haul__shape_strides_like(&like->shape, like->strides, strides);
    haul_tensor *t = haul__tensor_wrap(storage, dtype, &like->shape, strides, 0);
    haul__object_release(storage);
    return t;
}

/* Does the conversion belong before the move? Where fewer bytes cross then, and where the target cannot do it. */
static bool convert_first(const haul_tensor *from, const haul_tensor *to)
{
    size_t before = haul__dtype_size(from->dtype), after = haul__dtype_size(to->dtype);
    return after < before || (from->dtype == HAUL_F64 && !to->storage->device->properties.has_f64);
}

/* Copy the elements of x, which may broadcast, to y on another device. What crosses is dense, in whatever order of
 * dimensions. A fresh y may be half written on failure. */
static haul_status cross(const char *operation, haul_tensor *y, haul_tensor *x, bool fresh)
{
    haul_tensor *packed = NULL, *landed = NULL, *from = x, *to = y;
    haul_status  status = HAUL_OK;
    haul_dtype   dtype = convert_first(x, y) ? y->dtype : x->dtype; /* in which they cross */
    if (x->dtype != dtype || !haul__tensor_is_dense(x)) {
        from = packed = temporary(operation, x->storage->device, y->storage->device, dtype, x);
        status = packed ? haul__copy_elements(packed, x, operation) : haul_error_status();
    }
    if (!status &&
        (y->dtype != dtype || !haul__shape_equal(&x->shape, &y->shape) || !haul__tensor_same_layout(from, y))) {
        to = landed = temporary(operation, y->storage->device, x->storage->device, dtype, from);
        status = landed ? HAUL_OK : haul_error_status();
    }
    if (!status) {
        size_t size = haul__dtype_size(dtype);
        status = haul__transfer(to->storage, (size_t)to->offset * size, from->storage, (size_t)from->offset * size,
                                (size_t)x->count * size, fresh || landed, operation);
    }
    if (!status && landed)
        status = haul__copy_elements(y, landed, operation);
    haul__object_release(packed);
    haul__object_release(landed);
    return status;
}

/* Elements of x to y, wherever they are. */
static haul_status bring(const char *operation, haul_tensor *y, haul_tensor *x, bool fresh)
{
    if (x->storage->device == y->storage->device)
        return haul__copy_elements(y, x, operation);
    return cross(operation, y, x, fresh);
}

/* A fresh tensor on `device` with x's elements and order of dimensions. */
static haul_tensor *copied(const char *operation, haul_tensor *x, haul_device *device, haul_dtype dtype)
{
    haul_tensor *y = haul__result_from(operation, device, x->storage->device, dtype, &x->shape, x);
    if (!y || bring(operation, y, x, true))
        return NULL;
    return finish(operation, y, x);
}

static haul_tensor *converted(const char *operation, haul_tensor *x, haul_device *device, haul_dtype dtype)
{
    if (x->storage->device == device && x->dtype == dtype)
        return finish(operation, haul__view_of(x, &x->shape, x->strides, x->offset), x);
    return copied(operation, x, device, dtype);
}

haul_tensor *haul_to_with(haul_tensor *x, const haul_to_options *options)
{
    if (check_operand("haul_to", x))
        return NULL;
    if (!options) {
        haul__fail_null("haul_to", "options");
        return NULL;
    }
    if (haul__device_check(options->device, "haul_to", "device"))
        return NULL;
    return converted("haul_to", x, options->device, options->dtype ? options->dtype : x->dtype);
}

haul_tensor *haul_cast(haul_tensor *x, haul_dtype dtype)
{
    return check_operand("haul_cast", x) ? NULL : converted("haul_cast", x, x->storage->device, dtype);
}

haul_tensor *haul_identity(haul_tensor *x, haul_device *device)
{
    if (check_operand("haul_identity", x) || haul__device_check(device, "haul_identity", "device"))
        return NULL;
    return copied("haul_identity", x, device, x->dtype);
}

haul_tensor *haul_pin(haul_tensor *x, haul_device *device)
{
    static const char operation[] = "haul_pin";
    if (check_operand(operation, x) || haul__device_check(device, operation, "device"))
        return NULL;
    if (!x->storage->device->backend->host_memory) {
        haul__fail(HAUL_DEVICE, operation, "x",
                   "x is on %s; expected a tensor on cpu: haul_to(x, haul_cpu()) brings it to pinned memory",
                   x->storage->device->name);
        return NULL;
    }
    if (haul__storage_pinned(x->storage) || !haul__device_pins(device))
        return finish(operation, haul__view_of(x, &x->shape, x->strides, x->offset), x);
    haul_tensor *y = haul__result_from(operation, x->storage->device, device, x->dtype, &x->shape, x);
    return y && haul__copy_elements(y, x, operation) == HAUL_OK ? finish(operation, y, x) : NULL;
}

bool haul_tensor_is_pinned(const haul_tensor *t)
{
    return haul__check_tensor("haul_tensor_is_pinned", "t", t) == HAUL_OK && haul__storage_pinned(t->storage);
}

haul_tensor *haul_clone(haul_tensor *x)
{
    return check_operand("haul_clone", x) ? NULL : copied("haul_clone", x, x->storage->device, x->dtype);
}

haul_status haul_copy_into(haul_tensor *out, haul_tensor *x)
{
    static const char operation[] = "haul_copy_into";
    haul_tensor      *apart = NULL;
    haul_shape        shape;
    haul_status       status = haul__check_tensor(operation, "out", out);
    if (!status)
        status = check_operand(operation, x);
    if (!status)
        status = haul__shape_broadcast(&out->shape, &x->shape, operation, &shape);
    if (!status)
        status = haul__check_out(operation, out, &shape, out->dtype, out->storage->device);
    if (!status && haul__records(&x, 1))
        status = haul__fail(HAUL_GRAPH, operation, "x",
                            "x requires a gradient, and writing into out cannot be differentiated; detach it or turn "
                            "recording off with haul_set_grad_enabled(false)");
    if (status)
        return status;
    if (x->storage == out->storage) { /* they may overlap */
        apart = temporary(operation, x->storage->device, x->storage->device, x->dtype, x);
        status = apart ? haul__copy_elements(apart, x, operation) : haul_error_status();
    }
    if (!status)
        status = bring(operation, out, apart ? apart : x, false);
    if (!status)
        haul__written(out);
    haul__object_release(apart);
    return status;
}

/* ---- memory formats ---- */

/* x itself if its strides are these, else a copy that has them; a fresh handle. */
static haul_tensor *with_strides(const char *operation, haul_tensor *x, const int64_t *strides)
{
    if (x->count == 0 || haul__shape_same_strides(&x->shape, x->strides, strides))
        return finish(operation, haul__view_of(x, &x->shape, x->strides, x->offset), x);
    haul_tensor *y = haul__result_strided(operation, x->storage->device, x->dtype, &x->shape, strides);
    return y && haul__copy_elements(y, x, operation) == HAUL_OK ? finish(operation, y, x) : NULL;
}

haul_tensor *haul__in_format(const char *operation, haul_tensor *t, bool channels_last)
{
    int64_t strides[HAUL_MAX_DIMS];
    if (channels_last)
        haul__shape_strides_channels_last(&t->shape, strides);
    else
        haul__shape_strides(&t->shape, strides);
    return with_strides(operation, t, strides);
}

haul_tensor *haul__in_order_of(const char *operation, haul_tensor *x, const haul_tensor *like)
{
    int64_t strides[HAUL_MAX_DIMS];
    haul__shape_strides_like(&x->shape, like->strides, strides);
    return with_strides(operation, x, strides);
}

haul_tensor *haul__copy_in_order_of(const char *operation, haul_tensor *x, const haul_tensor *like)
{
    haul_tensor *y = haul__result_like(operation, x->storage->device, x->dtype, &x->shape, like);
    return y && haul__copy_elements(y, x, operation) == HAUL_OK ? y : NULL;
}

haul_tensor *haul_contiguous(haul_tensor *x)
{
    static const char operation[] = "haul_contiguous";
    return check_operand(operation, x) ? NULL : haul__in_format(operation, x, false);
}

haul_tensor *haul_to_memory_format(haul_tensor *x, haul_memory_format format)
{
    static const char operation[] = "haul_to_memory_format";
    if (check_operand(operation, x))
        return NULL;
    if (format != HAUL_CONTIGUOUS && format != HAUL_CHANNELS_LAST) {
        haul__fail(HAUL_INVALID_ARGUMENT, operation, "format",
                   "%d is no memory format; there are HAUL_CONTIGUOUS and HAUL_CHANNELS_LAST", (int)format);
        return NULL;
    }
    if (format == HAUL_CHANNELS_LAST && x->shape.ndim != 4) {
        haul__fail_shape(operation, "x", x, "only a tensor [N, C, H, W] can be channels-last");
        return NULL;
    }
    return haul__in_format(operation, x, format == HAUL_CHANNELS_LAST);
}
