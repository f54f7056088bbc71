/* Temporaries of a call: intermediate results, and operands in another layout or dtype. They have no graph. */
#include "base/assert.h"
#include "engine/collect.h"
#include "engine/copy.h"
#include "engine/operation.h"
#include "memory/allocator.h"
#include "memory/mark.h"
#include "memory/planned_scratch.h"

/* Memory for a temporary. Where launches are only collected, it has a size, but no memory: nothing is computed. */
static haul__storage *allocate(const haul__call *c, size_t bytes)
{
    bool           refused;
    haul__storage *storage;
    if (haul__collects()) {
        storage = haul__storage_new(c->device);
        if (storage)
            storage->bytes = bytes;
        return storage;
    }
    storage = haul__planned_scratch_take(c->device, bytes, &refused);
    return storage || refused ? storage : haul__storage_alloc(c->device, bytes, c->operation->name);
}

haul_tensor *haul__temporary_strided(const haul__call *c, haul_dtype dtype, const haul_shape *shape,
                                     const int64_t *strides)
{
    int64_t count;
    if (haul__shape_count(shape, c->operation->name, &count))
        return NULL;
    haul__storage *storage = allocate(c, (size_t)count * haul__dtype_size(dtype));
    haul__set_storage_role(storage, HAUL__ROLE_WORKSPACE);
    haul_tensor *t = haul__tensor_wrap(storage, dtype, shape, strides, 0);
    HAUL__ASSERT(haul__failed(t) || haul__tensor_is_sound(t));
    haul__object_release(storage);
    return haul__own(t, c->operation->name);
}

haul_tensor *haul__temporary(const haul__call *c, haul_dtype dtype, const haul_shape *shape)
{
    return haul__temporary_strided(c, dtype, shape, NULL);
}

haul_tensor *haul__view_as(const haul__call *c, haul_tensor *t, const haul_shape *shape, const int64_t *strides,
                           int64_t offset)
{
    haul_tensor *view = haul__tensor_wrap(t->storage, t->dtype, shape, strides, offset);
    HAUL__ASSERT(haul__failed(view) || haul__tensor_is_sound(view));
    return haul__own(view, c->operation->name);
}

static haul_tensor *copied(const haul__call *c, haul_tensor *x, haul_dtype dtype, const int64_t *strides)
{
    haul_tensor *y = haul__temporary_strided(c, dtype, &x->shape, strides);
    return y && haul__copy_elements(y, x, c->operation->name) == HAUL_OK ? y : NULL;
}

haul_tensor *haul__as_strided(const haul__call *c, haul_tensor *x, const int64_t *strides)
{
    if (x->count == 0 || haul__shape_same_strides(&x->shape, x->strides, strides))
        return x;
    return copied(c, x, x->dtype, strides);
}

haul_tensor *haul__as_format(const haul__call *c, haul_tensor *x, bool channels_last)
{
    int64_t strides[HAUL_MAX_DIMS];
    if (channels_last)
        haul__shape_strides_channels_last(&x->shape, strides);
    else
        haul__shape_strides(&x->shape, strides);
    return haul__as_strided(c, x, strides);
}

haul_tensor *haul__as_like(const haul__call *c, haul_tensor *x, const haul_tensor *like)
{
    int64_t strides[HAUL_MAX_DIMS];
    haul__shape_strides_like(&x->shape, like->strides, strides);
    return haul__as_strided(c, x, strides);
}

haul_tensor *haul__as_dtype(const haul__call *c, haul_tensor *x, haul_dtype dtype)
{
    return x->dtype == dtype ? x : copied(c, x, dtype, NULL);
}
