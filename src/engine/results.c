/* The driver's second step: describes results as infer wants them, allocates them, and checks given targets. */
#include <string.h>

#include "base/assert.h"
#include "engine/autocast.h"
#include "engine/copy.h"
#include "engine/driver.h"
#include "engine/placement/mixed.h"
#include "memory/allocator.h"

/* ---- descriptions ---- */

haul_status haul__describe_strided(haul__call *c, int i, haul_dtype dtype, const haul_shape *shape,
                                   const int64_t *strides)
{
    int64_t count;
    if (haul__shape_count(shape, c->operation->name, &count))
        return haul_error_status();
    if (c->results[i])
        haul__tensor_describe(c->results[i], dtype, shape, strides, 0);
    return HAUL_OK;
}

haul_status haul__describe(haul__call *c, int i, haul_dtype dtype, const haul_shape *shape)
{
    haul_tensor *t = c->results[i];
    if (!t || !haul__shape_layout(shape, t->strides, &t->count))
        return haul__describe_strided(c, i, dtype, shape, NULL);
    t->dtype = dtype;
    t->shape = *shape;
    t->offset = 0;
    t->contiguous = true;
    return HAUL_OK;
}

/* A row-major tensor with another tensor's shape, which was checked when that tensor was made. */
static haul_status describe_same(haul_tensor *result, haul_dtype dtype, const haul_tensor *like)
{
    HAUL__ASSERT(like->contiguous);
    if (!result)
        return HAUL_OK;
    result->dtype = dtype;
    result->shape = like->shape;
    memcpy(result->strides, like->strides, sizeof result->strides);
    result->offset = 0;
    result->count = like->count;
    result->contiguous = true;
    return HAUL_OK;
}

haul_status haul__describe_like(haul__call *c, int i, haul_dtype dtype, const haul_shape *shape,
                                const haul_tensor *like)
{
    int64_t strides[HAUL_MAX_DIMS];
    if (like->contiguous && haul__shape_equal(shape, &like->shape))
        return describe_same(c->results[i], dtype, like);
    if (like->contiguous)
        return haul__describe(c, i, dtype, shape);
    HAUL__ASSERT(shape->ndim == like->shape.ndim);
    haul__shape_strides_like(shape, like->strides, strides);
    return haul__describe_strided(c, i, dtype, shape, strides);
}

haul_status haul__describe_format(haul__call *c, int i, haul_dtype dtype, const haul_shape *shape, bool channels_last)
{
    int64_t strides[HAUL_MAX_DIMS];
    if (!channels_last)
        return haul__describe(c, i, dtype, shape);
    haul__shape_strides_channels_last(shape, strides);
    return haul__describe_strided(c, i, dtype, shape, strides);
}

/* Among dimensions larger than 1 the channels have the smallest stride, and the others fall in order. */
bool haul__wants_channels_last(const haul_tensor *t)
{
    int64_t packed[HAUL_MAX_DIMS], wanted[HAUL_MAX_DIMS];
    if (t->contiguous || t->shape.ndim < 3)
        return false;
    haul__shape_strides_like(&t->shape, t->strides, packed);
    haul__shape_strides_channels_last(&t->shape, wanted);
    if (!haul__shape_same_strides(&t->shape, packed, wanted))
        return false;
    haul__shape_strides(&t->shape, wanted);
    return !haul__shape_same_strides(&t->shape, packed, wanted);
}

haul_status haul__describe_view(haul__call *c, int operand, const haul_shape *shape, const int64_t *strides,
                                int64_t offset)
{
    HAUL__ASSERT(operand >= 0 && operand < c->count && c->view_of < 0);
    haul_tensor *x = c->operands[operand];
    haul__tensor_describe(c->results[0], x->dtype, shape, strides, offset);
    c->view_of = operand;
    return HAUL_OK;
}

void haul__leave_out(haul__call *c, int i)
{
    haul__object_release(c->results[i]);
    c->results[i] = NULL;
}

haul_dtype haul__wide_result(const haul__call *c, const haul_tensor *x)
{
    return c->operation->autocast == HAUL__WIDE_RESULT && haul__autocast_begun() && !c->into
               ? haul__autocast_wide(c->device, x->dtype)
               : x->dtype;
}

/* ---- errors ---- */

haul_status haul__call_proper_axis(const haul__call *c, int i, int *axis)
{
    return haul__axis(*axis, c->operands[i]->shape.ndim, c->operation->name, axis);
}

haul_status haul__call_axis(const haul__call *c, int i, int *axis)
{
    if (c->operands[i]->shape.ndim || (*axis != 0 && *axis != -1))
        return haul__call_proper_axis(c, i, axis);
    *axis = 0;
    return HAUL_OK;
}

haul_status haul__call_axes(const haul__call *c, const int *axes, int count, bool chosen[HAUL_MAX_DIMS])
{
    if (count < 0 || count > HAUL_MAX_DIMS)
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "count",
                          "count is %d; expected 0 (all axes) to %d", count, HAUL_MAX_DIMS);
    for (int d = 0; d < HAUL_MAX_DIMS; d++)
        chosen[d] = count == 0;
    for (int k = 0; k < count; k++) {
        int axis = axes[k];
        if (haul__call_axis(c, 0, &axis))
            return haul_error_status();
        if (chosen[axis])
            return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "axes", "axis %d is given twice", axes[k]);
        chosen[axis] = true;
    }
    return HAUL_OK;
}

haul_status haul__refuse_shape(const haul__call *c, int operand, const char *wanted)
{
    char        have[80];
    const char *name = haul__operand_name(c, operand);
    return haul__fail(HAUL_SHAPE, c->operation->name, name, "%s has shape %s, but %s", name,
                      haul__shape_text(&c->operands[operand]->shape, have, sizeof have), wanted);
}

haul_status haul__refuse_dtype(const haul__call *c, int operand, const char *wanted)
{
    const char *name = haul__operand_name(c, operand);
    return haul__fail(HAUL_DTYPE, c->operation->name, name, "%s is %s, but %s", name,
                      haul_dtype_name(c->operands[operand]->dtype), wanted);
}

/* ---- storage ---- */

static haul__storage *new_storage(const haul__call *c, const haul_tensor *t)
{
    size_t bytes = (size_t)t->count * haul__dtype_size(t->dtype);
    if (c->partner && haul__device_is_host(c->device))
        return haul__host_alloc_for(c->partner, bytes, c->operation->name);
    return haul__storage_alloc(c->device, bytes, c->operation->name);
}

/* Operations with operands have checked them. */
static haul_status check_created(const haul__call *c, haul_dtype dtype)
{
    if (c->count || !haul__is_unsigned(dtype) || c->operation->dtypes >> dtype & 1)
        return HAUL_OK;
    return haul__fail(HAUL_DTYPE, c->operation->name, "dtype",
                      "%s does not make tensors of %s; cast one of i64 with "
                      "haul_cast",
                      c->operation->name, haul_dtype_name(dtype));
}

haul_status haul__allocate_results(haul__call *c)
{
    if (c->view_of >= 0) {
        haul__storage *shared = c->operands[c->view_of]->storage;
        HAUL__ASSERT(c->view_of < c->count && !c->results[0]->storage);
        haul__object_keep(shared);
        c->results[0]->storage = shared;
        return HAUL_OK;
    }
    for (int i = 0; i < c->result_count; i++) {
        haul_tensor *t = c->results[i];
        if (!t || t->storage)
            continue;
        if (haul__check_dtype(t->dtype, c->device, c->operation->name) || check_created(c, t->dtype))
            return haul_error_status();
        t->storage = new_storage(c, t);
        if (!t->storage)
            return haul_error_status();
        HAUL__ASSERT(t->storage->bytes >= (size_t)t->count * haul__dtype_size(t->dtype) && !t->offset);
    }
    return HAUL_OK;
}

/* ---- given targets ---- */

bool haul__overlaps_itself(const haul_tensor *t)
{
    for (int d = 0; d < t->shape.ndim; d++)
        if (t->shape.dims[d] > 1 && t->strides[d] == 0)
            return t->count > 0;
    return false;
}

static haul_status check_like(const char *operation, const haul_tensor *out, const haul_tensor *result,
                              const haul_device *device)
{
    char have[80], want[80];
    if (out->storage->device != device)
        return haul__refuse_target(operation, out, device);
    if (out->dtype != result->dtype)
        return haul__fail(HAUL_DTYPE, operation, "out", "out is %s, the result is %s; cast the operands first",
                          haul_dtype_name(out->dtype), haul_dtype_name(result->dtype));
    if (!haul__shape_equal(&out->shape, &result->shape))
        return haul__fail(HAUL_SHAPE, operation, "out", "out has shape %s, the result has %s",
                          haul__shape_text(&out->shape, have, sizeof have),
                          haul__shape_text(&result->shape, want, sizeof want));
    return HAUL_OK;
}

haul_status haul__check_writable(const char *operation, const char *name, const haul_tensor *out)
{
    if (haul__overlaps_itself(out))
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, name,
                          "several elements of %s share memory (it was expanded); write to a tensor of its own", name);
    if (haul__tracks(out) && haul_grad_enabled())
        return haul__fail(HAUL_GRAPH, operation, name,
                          "%s is part of a graph being recorded; turn that off with haul_set_grad_enabled(false), or "
                          "use the form that returns a new tensor",
                          name);
    return HAUL_OK;
}

haul_status haul__check_written(const haul__call *c)
{
    for (uint64_t left = c->writes; left; left &= left - 1) {
        int i = __builtin_ctzll(left);
        HAUL__ASSERT(i < c->count && haul__is_tensor(c->operands[i]));
        if (haul__check_writable(c->operation->name, haul__operand_name(c, i), c->operands[i]))
            return haul_error_status();
    }
    return HAUL_OK;
}

haul_status haul__check_target(const haul__call *c, int i, const haul_tensor *out)
{
    haul_status status = haul__check_tensor(c->operation->name, "out", out);
    if (!status)
        status = check_like(c->operation->name, out, c->results[i], c->device);
    return status ? status : haul__check_writable(c->operation->name, "out", out);
}

/* True if writing `out` disturbs reading `in`, other than elementwise at the same position. */
static bool disturbs(const haul_tensor *out, const haul_tensor *in, bool elementwise)
{
    if (out->storage != in->storage)
        return false;
    if (!elementwise || out->offset != in->offset || out->dtype != in->dtype ||
        !haul__shape_equal(&out->shape, &in->shape))
        return true;
    return !haul__shape_same_strides(&out->shape, out->strides, in->strides);
}

bool haul__needs_detour(const haul__call *c, int i, const haul_tensor *out)
{
    bool elementwise = c->operation->elementwise;
    if (c->view_of >= 0 || (!elementwise && !haul__tensor_same_layout(out, c->results[i])))
        return true;
    if (c->operation->results[i].at_start && out->offset)
        return true;
    for (int k = 0; k < c->count; k++)
        if (!haul__is_none(c->operands[k]) && disturbs(out, c->operands[k], elementwise))
            return true;
    return false;
}
