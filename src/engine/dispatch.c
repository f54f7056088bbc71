/* The funnel's common steps: check, place, allocate, emit. */
#include "engine/dispatch.h"

#include <string.h>

#include "core/half.h"
#include "engine/autocast.h"
#include "engine/placement.h"

/* ---- policy ---- */

haul_status haul_set_placement_policy(haul_policy policy)
{
    if (policy != HAUL_PLACE_STRICT && policy != HAUL_PLACE_MOVE)
        return haul__fail(HAUL_INVALID_ARGUMENT, "haul_set_placement_policy", "policy",
                          "%d is no policy; there are HAUL_PLACE_STRICT and HAUL_PLACE_MOVE", (int)policy);
    haul__thread()->words[HAUL__PLACEMENT] = policy;
    return HAUL_OK;
}

haul_policy haul_placement_policy(void)
{
    return (haul_policy)haul__thread()->words[HAUL__PLACEMENT];
}

/* ---- place ---- */

/* A 0-d tensor on the CPU goes anywhere, as a scalar would. */
static bool is_loose(const haul_tensor *t)
{
    return t->shape.ndim == 0 && t->storage->device == haul_cpu();
}

static haul_status refuse_mixed(const char *operation, haul_tensor *const *in, const char *const *names, int i, int j)
{
    char a[96], b[96];
    return haul__fail(HAUL_PLACEMENT, operation, names[j],
                      "%s is %s, %s is %s; move one with haul_to(%s, haul_device_get(\"%s\")), or allow it with "
                      "haul_set_placement_policy(HAUL_PLACE_MOVE)",
                      names[i], haul__tensor_text(in[i], a, sizeof a), names[j], haul__tensor_text(in[j], b, sizeof b),
                      haul_tensor_bytes(in[i]) < haul_tensor_bytes(in[j]) ? names[i] : names[j],
                      haul_tensor_bytes(in[i]) < haul_tensor_bytes(in[j]) ? in[j]->storage->device->name
                                                                          : in[i]->storage->device->name);
}

/* The device that holds most bytes of the operands; the first of equals. */
static haul_device *heaviest(haul_tensor *const *in, int count, int *which)
{
    size_t bytes[HAUL__MAX_DEVICES] = {0}, most = 0;
    *which = -1;
    for (int i = 0; i < count; i++)
        if (!haul__is_none(in[i]))
            bytes[in[i]->storage->device->slot] += haul_tensor_bytes(in[i]);
    for (int i = 0; i < count; i++)
        if (!haul__is_none(in[i]) && (*which < 0 || bytes[in[i]->storage->device->slot] > most)) {
            most = bytes[in[i]->storage->device->slot];
            *which = i;
        }
    return *which < 0 ? NULL : in[*which]->storage->device;
}

static haul_device *place_mixed(const char *operation, haul_tensor **in, const char *const *names, int count)
{
    int first = -1;
    for (int i = 0; i < count && first < 0; i++)
        if (!haul__is_none(in[i]) && !is_loose(in[i]))
            first = i;
    haul_device *device = in[first]->storage->device;
    if (haul__thread()->words[HAUL__PLACEMENT] == HAUL_PLACE_STRICT) {
        for (int i = 0; i < count; i++)
            if (!haul__is_none(in[i]) && !is_loose(in[i]) && in[i]->storage->device != device) {
                refuse_mixed(operation, in, names, first, i);
                return NULL;
            }
    } else {
        int which;
        device = heaviest(in, count, &which);
        haul__emit_placement(operation, device, NULL, names[which], in[which]);
    }
    for (int i = 0; i < count; i++) {
        if (haul__is_none(in[i]) || in[i]->storage->device == device)
            continue;
        haul__emit_placement(operation, device, in[i]->storage->device, names[i], in[i]);
        in[i] = haul_to(in[i], device);
        if (!in[i])
            return NULL;
    }
    return device;
}

haul_device *haul__place(const char *operation, haul_tensor **in, const char *const *names, int count)
{
    haul_device *device = NULL;
    bool         mixed = false;
    for (int i = 0; i < count; i++) {
        if (!in[i]) {
            haul__fail_null(operation, names[i]);
            return NULL;
        }
        if (haul__is_none(in[i]))
            continue;
        if (device && in[i]->storage->device != device)
            mixed = true;
        device = in[i]->storage->device;
    }
    if (!device) {
        haul__fail(HAUL_INVALID_ARGUMENT, operation, names[0], "%s is HAUL_NONE, but a tensor is needed here",
                   names[0]);
        return NULL;
    }
    if (mixed && !(device = place_mixed(operation, in, names, count)))
        return NULL;
    if (haul__autocast_begun() && haul__autocast_named(operation, device, in, count))
        return NULL;
    return device;
}

/* ---- allocate ---- */

/* On the CPU in memory pinned for `source`, where that has such. */
static haul_tensor *result_in(const char *operation, haul_device *device, haul_device *source, haul_dtype dtype,
                              const haul_shape *shape, const int64_t *strides)
{
    int64_t count;
    if (haul__device_check(device, operation, "device") || haul__shape_count(shape, operation, &count))
        return NULL;
    if (dtype <= HAUL_DTYPE_NONE || dtype >= HAUL_DTYPE_END) {
        haul__fail(HAUL_DTYPE, operation, "dtype",
                   "tensors of dtype %s cannot be made; use one of bool, u8, i8, i16, i32, i64, f16, bf16, f32, f64",
                   haul_dtype_name(dtype));
        return NULL;
    }
    if (dtype == HAUL_F64 && !device->properties.has_f64) {
        haul__fail(HAUL_DTYPE, operation, "dtype", "%s has no f64; use f32 there", device->name);
        return NULL;
    }
    size_t         bytes = (size_t)count * haul__dtype_size(dtype);
    haul__storage *storage = device->backend->host_memory ? haul__host_alloc_for(source, bytes, operation)
                                                          : haul__storage_alloc(device, bytes, operation);
    if (!storage)
        return NULL;
    haul_tensor *t = haul__tensor_wrap(storage, dtype, shape, strides, 0);
    haul__object_release(storage);
    if (!t) {
        haul__fail_memory(operation, sizeof *t);
        return NULL;
    }
    return haul__own(t, operation);
}

haul_tensor *haul__result_from(const char *operation, haul_device *device, haul_device *source, haul_dtype dtype,
                               const haul_shape *shape, const haul_tensor *like)
{
    int64_t strides[HAUL_MAX_DIMS];
    if (!like || like->contiguous)
        return result_in(operation, device, source, dtype, shape, NULL);
    haul__shape_strides_like(shape, like->strides, strides);
    return result_in(operation, device, source, dtype, shape, strides);
}

haul_tensor *haul__result_strided(const char *operation, haul_device *device, haul_dtype dtype, const haul_shape *shape,
                                  const int64_t *strides)
{
    return result_in(operation, device, device, dtype, shape, strides);
}

haul_tensor *haul__result(const char *operation, haul_device *device, haul_dtype dtype, const haul_shape *shape)
{
    return haul__result_strided(operation, device, dtype, shape, NULL);
}

haul_tensor *haul__result_like(const char *operation, haul_device *device, haul_dtype dtype, const haul_shape *shape,
                               const haul_tensor *like)
{
    int64_t strides[HAUL_MAX_DIMS];
    if (like->contiguous)
        return haul__result_strided(operation, device, dtype, shape, NULL);
    haul__shape_strides_like(shape, like->strides, strides);
    return haul__result_strided(operation, device, dtype, shape, strides);
}

haul_tensor *haul__result_in_format(const char *operation, haul_device *device, haul_dtype dtype,
                                    const haul_shape *shape, bool channels_last)
{
    int64_t strides[HAUL_MAX_DIMS];
    if (channels_last)
        haul__shape_strides_channels_last(shape, strides);
    return haul__result_strided(operation, device, dtype, shape, channels_last ? strides : NULL);
}

haul_tensor *haul__view_of(haul_tensor *x, const haul_shape *shape, const int64_t *strides, int64_t offset)
{
    haul_tensor *t = haul__tensor_wrap(x->storage, x->dtype, shape, strides, offset);
    if (!t) {
        haul__fail_memory("view", sizeof *t);
        return NULL;
    }
    return haul__own(t, "view");
}

/* ---- emit ---- */

haul_status haul__run(const char *operation, haul_device *device, int id, haul_dtype dtype, haul_tensor *const *outs,
                      int out_count, haul_tensor *const *ins, int in_count, const void *params, size_t params_size,
                      int64_t items, int64_t grain)
{
    return haul__run_with_slots(operation, device, id, dtype, outs, out_count, ins, in_count, params, params_size, NULL,
                                0, items, grain);
}

haul_status haul__run_with_slots(const char *operation, haul_device *device, int id, haul_dtype dtype,
                                 haul_tensor *const *outs, int out_count, haul_tensor *const *ins, int in_count,
                                 const void *params, size_t params_size, const haul__slot_use *slots, int slot_count,
                                 int64_t items, int64_t grain)
{
    haul__region buffers[HAUL__MAX_BUFFERS];
    int          count = out_count + in_count;
    if (items <= 0 || device->backend->no_data)
        return HAUL_OK;
    if (count > HAUL__MAX_BUFFERS)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, NULL, "a kernel with %d buffers; there is room for %d",
                          count, HAUL__MAX_BUFFERS);
    const haul__kernel *kernel = haul__kernel_for(device, id, dtype);
    if (!kernel)
        return haul_error_status();
    for (int i = 0; i < count; i++)
        buffers[i] = (haul__region){(i < out_count ? outs[i] : ins[i - out_count])->storage, 0};
    return haul__submit(&(haul__command){.kind = HAUL__COMMAND_LAUNCH,
                                         .operation = operation,
                                         .device = device,
                                         .buffers = buffers,
                                         .write_count = out_count,
                                         .buffer_count = count,
                                         .params = params,
                                         .params_size = params_size,
                                         .slots = slots,
                                         .slot_count = slot_count,
                                         .kernel = kernel,
                                         .items = items,
                                         .grain = grain,
                                         .lanes = haul__kernel_infos[id].lanes});
}

/* ---- writing in place ---- */

/* Two indices of `t` may be one element: strides of 0, or smaller than what lies inside them. Exact for what views
 * can produce here (expand), conservative for nothing else. */
static bool overlaps_itself(const haul_tensor *t)
{
    for (int d = 0; d < t->shape.ndim; d++)
        if (t->shape.dims[d] > 1 && t->strides[d] == 0)
            return true;
    return false;
}

haul_status haul__check_out(const char *operation, const haul_tensor *out, const haul_shape *shape, haul_dtype dtype,
                            const haul_device *device)
{
    char have[80], want[80];
    if (haul__check_tensor(operation, "out", out))
        return haul_error_status();
    if (out->storage->device != device)
        return haul__fail(HAUL_PLACEMENT, operation, "out", "out is on %s, the result is on %s",
                          out->storage->device->name, device->name);
    if (out->dtype != dtype)
        return haul__fail(HAUL_DTYPE, operation, "out", "out is %s, the result is %s; cast the operands first",
                          haul_dtype_name(out->dtype), haul_dtype_name(dtype));
    if (!haul__shape_equal(&out->shape, shape))
        return haul__fail(HAUL_SHAPE, operation, "out", "out has shape %s, the result has %s",
                          haul__shape_text(&out->shape, have, sizeof have), haul__shape_text(shape, want, sizeof want));
    if (overlaps_itself(out))
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "out",
                          "several elements of out share memory (it was expanded); write to a tensor of its own");
    if (haul__tracks(out) && haul_grad_enabled())
        return haul__fail(HAUL_GRAPH, operation, "out",
                          "out is part of a graph being recorded; turn that off with haul_set_grad_enabled(false), or "
                          "use the form that returns a new tensor");
    return HAUL_OK;
}

void haul__written(haul_tensor *out)
{
    atomic_fetch_add_explicit(&out->storage->version, 1, memory_order_relaxed);
}

/* ---- small helpers ---- */

haul_tensor *haul__dense(haul_tensor *x)
{
    return haul_contiguous(x);
}

haul_status haul__fail_shape(const char *operation, const char *argument, const haul_tensor *t, const char *wanted)
{
    char have[80];
    return haul__fail(HAUL_SHAPE, operation, argument, "%s has shape %s, but %s", argument,
                      haul__shape_text(&t->shape, have, sizeof have), wanted);
}

haul_status haul__fail_dtype(const char *operation, const char *argument, const haul_tensor *t, const char *wanted)
{
    return haul__fail(HAUL_DTYPE, operation, argument, "%s is %s, but %s", argument, haul_dtype_name(t->dtype), wanted);
}
